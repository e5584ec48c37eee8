"""Where the suite's time goes: per file, printed at the end of a run that takes more than a moment."""

from __future__ import annotations

from collections import defaultdict

import pytest

_SHOWN = 15
_WORTH_SHOWING_SECONDS = 60
_BUDGET = 0.05
"""The share of a run that one file may take before it is marked: a hundred patterns share one suite."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the files that took longest, with their share of the run."""
    spent: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent[report.nodeid.partition("::")[0]] += report.duration
    total = sum(spent.values())
    if total < _WORTH_SHOWING_SECONDS:
        return
    terminalreporter.section(f"time by file, of {total:.0f} s in all workers")
    for name, seconds in sorted(spent.items(), key=lambda item: -item[1])[:_SHOWN]:
        mark = "  over its budget" if seconds > _BUDGET * total else ""
        terminalreporter.write_line(f"{seconds:7.1f} s {seconds / total:6.1%}  {name}{mark}")
