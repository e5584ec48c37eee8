"""Where the suite's time goes: processor seconds by file, noted by a run of all tests, and held against budgets.

Seconds by the clock say nothing on a machine that does something else as well. So a file is charged for the processor:
that of its test process, of the processes that it started and that ended, and for its part of the engine, whose time is
divided evenly among the test processes that share it. A small piece of work, timed at every file, says how fast the
processor was in this run. `make budgets` looks at what the last runs of all tests noted, and fails for a file that took
half more than its budget: no run of tests fails because of the machine that it is on.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.running import ENGINE_PROCESS

_SHOWN = 15
_WORTH_SHOWING_SECONDS = 60
_BUDGET_SECONDS = 20.0
"""What a file may take of one core of the machine that the project is developed on: a hundred share one suite."""
_REFUSED_ABOVE = 1.5
"""A file may take so many times its budget: measured again, it differs by much less."""
_ALL_SECONDS = 3_000.0
"""What all files together may take: a suite of half an hour on two cores."""
_NOTED = "dedp/charges"
"""Where pytest's cache has the charges: the marks of a run -> file -> seconds and budget."""
_REFERENCE_SECONDS = 0.0060
"""What the small piece of work takes on that machine."""


def pytest_configure(config: pytest.Config) -> None:
    """Charge tests where they run, and add the charges up in the process that reports."""
    config.addinivalue_line(
        "markers", "budget(seconds, reason): what the tests of a file may take of one core, and why"
    )
    worker = hasattr(config, "workerinput")
    if worker or config.getoption("dist", "no") == "no":
        config.pluginmanager.register(_Meter(config), "meter")
    if not worker:
        config.pluginmanager.register(Budgets(config), "budgets")


class _Meter:
    """The processor's time from one report of a test to the next."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.shared = getattr(config, "workerinput", {})
        self.file, self.speed, self.depth = "", _speed(), 0
        self.last = self.used()

    def used(self) -> float:
        """The seconds that this process, its ended children and its part of the engine have used so far."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime + self._engine()

    def _engine(self) -> float:
        number = self.shared.get("engine") or self.config.stash.get(ENGINE_PROCESS, 0) or _own_engine()
        if not number:
            return 0.0
        try:
            return sum(psutil.Process(number).cpu_times()[:4]) / self.shared.get("workercount", 1)
        except psutil.Error:
            return 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """What all tests of a process share is not charged to the file that happens to need it first."""
        outermost = fixturedef.scope == "session" and not self.depth
        self.depth += outermost
        before = self.used() if outermost else 0.0
        try:
            return (yield)
        finally:
            if outermost:
                self.depth -= 1
                self.last += self.used() - before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Time the small piece of work at every file; it is not charged."""
        if self.file != (file := _file(nodeid)):
            self.file, self.speed = file, _speed()
            self.last = self.used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[Any]:
        """Note charge, speed and the file's own budget in the report, which goes to the process that adds them up."""
        report = yield
        now = self.used()
        report.charged, self.last, report.speed = now - self.last, now, self.speed
        mark = item.get_closest_marker("budget")
        report.budget = _stated(*mark.args, **mark.kwargs) if mark else _BUDGET_SECONDS
        return report


class Budgets:
    """The charges of all tests by file."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.worked: dict[str, float] = defaultdict(float)
        self.charged: dict[str, float] = defaultdict(float)
        self.budgets: dict[str, float] = {}
        self.speeds: list[float] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add the charge of one report; the report of a test process that died has none."""
        if not hasattr(report, "charged"):
            return
        file = _file(report.nodeid)
        self.worked[file] += report.duration
        self.charged[file] += report.charged
        self.budgets[file] = report.budget
        self.speeds.append(report.speed)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Note the charges of a run that was asked for no path and no test by name, beside those of other marks."""
        chosen, cache = self.config.option, getattr(self.config, "cache", None)
        if (
            cache
            and session.testscollected
            and not (chosen.file_or_dir or chosen.keyword or getattr(chosen, "lf", False))
        ):
            noted = {file: [round(self._cost(file), 1), self.budgets[file]] for file in sorted(self.charged)}
            cache.set(_NOTED, {**cache.get(_NOTED, {}), f"-m {chosen.markexpr!r}": noted})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the files that took most, with their share of the run, and those over their budget."""
        total = sum(self.worked.values())
        if total < _WORTH_SHOWING_SECONDS:
            return
        used = sum(map(self._cost, self.charged))
        terminalreporter.section(
            f"time by file, of {total:.0f} s in all workers; of {used:.0f} s of one core, and budget"
        )
        for file in sorted(self.worked, key=lambda file: -self.worked[file])[:_SHOWN]:
            terminalreporter.write_line(self._line(file))

    def _line(self, file: str) -> str:
        share, cost, budget = self.worked[file] / sum(self.worked.values()), self._cost(file), self.budgets[file]
        mark = "  over its budget" if cost > budget else ""
        return f"{self.worked[file]:7.1f} s {share:6.1%} {cost:7.1f} of {budget:<4.0f} {file}{mark}"

    def _cost(self, file: str) -> float:
        """The charge of a file in seconds of the machine that the project is developed on."""
        return self.charged[file] * _REFERENCE_SECONDS / statistics.median(self.speeds)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _stated(seconds: float, reason: str) -> float:
    assert reason, "a budget of a file's own has a reason"
    return seconds


def _own_engine() -> int:
    """The process of the engine that this one started, if any."""
    import sys

    if "pyspark" not in sys.modules:
        return 0
    from pyspark import SparkContext

    process = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
    return process.pid if process else 0


def _speed() -> float:
    """The least processor seconds that a small piece of work takes now."""
    return min(_timed() for _ in range(3))


def _timed() -> float:
    before = time.process_time()
    held: dict[int, int] = {}
    for number in range(60_000):
        held[number % 1000] = held.get(number % 997, 0) + number
    return time.process_time() - before


def refused(noted: dict[str, dict[str, tuple[float, float]]]) -> list[str]:
    """A line for all files if they took too much, and one for each that took half more than its budget."""
    files = [(cost, budget, file, marks) for marks, files in noted.items() for file, (cost, budget) in files.items()]
    over = sorted((each for each in files if each[0] > _REFUSED_ABOVE * each[1]), reverse=True)
    lines = [f"{cost:7.1f} s of one core, budget {budget:.0f}: {file} ({marks})" for cost, budget, file, marks in over]
    total = sum(cost for cost, *_ in files)
    above = [f"{total:7.1f} s of one core, budget {_ALL_SECONDS:.0f}: all files"] if total > _ALL_SECONDS else []
    return [*above, *lines]


if __name__ == "__main__":
    path = Path(".pytest_cache", "v", _NOTED)
    if not path.exists():
        sys.exit("no run of all tests has noted what its files took: `make test` does")
    if lines := refused(json.loads(path.read_text())):
        sys.exit("\n".join(["over budget: shave the file, or state its own budget and the reason in it", *lines]))
