"""Freezes what is new: the graph's assets, jobs, schedules and sensors, signatures of patterns, arguments of commands.

What is frozen already is left as it is: a change of it is made by hand, where a reviewer sees it. With the number of a
release, ``python -m tests.contracts.freeze 0.2.0``, the names of the whole interface are noted as those of the release.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.contracts import test_commands, test_graph, test_patterns, test_stability


def main(releases: Sequence[str] = ()) -> None:
    """Write a file for each asset, job, schedule, sensor and pattern that has none, and for releases."""
    for name, lines in test_graph.described(test_graph.DEFS).items():
        path = test_graph.FROZEN / f"{name}.txt"
        if not path.exists():
            path.write_text("\n".join(lines) + "\n")
    for chapter, lines in test_patterns.signatures().items():
        path = test_patterns.SIGNATURES / f"{chapter}.txt"
        frozen = path.read_text().splitlines() if path.exists() else []
        known = {line.partition(".")[0] for line in frozen}
        new = [line for line in lines if line.partition(".")[0] not in known]
        if new:
            path.write_text("\n".join(sorted([*frozen, *new])) + "\n")
    for name, lines in test_commands.usage().items():
        path = test_stability.COMMANDS / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        frozen = path.read_text().splitlines() if path.exists() else []
        path.write_text("\n".join(sorted({*frozen, *lines})) + "\n")
    for release in releases:
        path = test_stability.RELEASED / f"{release}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(test_stability.as_released(test_stability.interface())) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
