"""A branch for each of ten thousand partitions by a router against the rules written out by hand.

Ours: ``plan_branch`` with the rules of a migration: before a day, since a day, and names that match an expression, with
the reason of each choice in the plan. Theirs: a chain of ``if`` over the same keys, which keeps no reason, refuses no
overlap and checks no key.

Fair, because both go through the same list of keys in plain Python and choose the same branch for each; no engine
starts, and no file is opened. The goal is the time of the plan: 0.1 s of CPU.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

from benchmarks.measure import Row, compare, interleave
from dedp_assets.patterns.flow.exclusive_choice import Rule, plan_branch

__all__ = ["run"]

_LIMIT_SECONDS = 0.1
_BOUNDARY = "2024-01-01"
_RULES = (
    Rule("legacy", before=_BOUNDARY, matching=r"\d{4}-.*"),
    Rule("modern", since=_BOUNDARY, matching=r"\d{4}-.*"),
    Rule("test", matching=r"x{4}-.*"),
)


def run(*, quick: bool) -> list[Row]:
    """Measure ten thousand partitions."""
    number = 1_000 if quick else 10_000
    first = date(2010, 1, 1)
    days = [(first + timedelta(days=n)).isoformat() for n in range(number - number // 10)]
    keys = [*days, *(f"xxxx-{n:02d}" for n in range(number // 10))]

    def by_rules(_: int) -> None:
        plan = plan_branch(keys, rules=_RULES, branch="modern")
        assert len(plan.partitions) + len(plan.held) == number

    def by_hand(_: int) -> None:
        assert len([key for key in keys if _branch(key) == "modern"]) < number

    ours, theirs = interleave({"rules": by_rules, "by hand": by_hand}, rounds=7, warm_up=2, repeats=3)
    row = compare(f"{number:,} partitions", ours, theirs)
    reached = row.ours["cpu"]
    met = None if quick else reached <= _LIMIT_SECONDS
    return [replace(row, goal=f"<= {_LIMIT_SECONDS:g} s", reached=f"{reached:.3f} s", met=met)]


def _branch(key: str) -> str:
    if re.fullmatch(r"x{4}-.*", key):
        return "test"
    return "legacy" if key < _BOUNDARY else "modern"
