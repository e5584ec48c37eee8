"""Freezes what is new: the graph's assets, jobs, schedules and sensors, and the signatures of patterns.

What is frozen already is left as it is: a change of it is made by hand, where a reviewer sees it.
"""

from __future__ import annotations

from tests.contracts import test_graph, test_patterns


def main() -> None:
    """Write a file for each asset, job, schedule, sensor and pattern that has none."""
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


if __name__ == "__main__":
    main()
