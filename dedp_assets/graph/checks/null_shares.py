"""Shares of NULL values by partition, held against earlier partitions, by the statistics of the log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from dedp_assets.graph.declare.defaults import UsualNulls
from dedp_assets.patterns.core.measuring.usual import Counted
from dedp_assets.patterns.core.results import Finding

__all__ = ["NullCounts", "judge_null_shares"]

_NAME = "null_shares_are_usual"


@dataclass(frozen=True, slots=True)
class NullCounts:
    """Rows of a partition, and NULL values by column; a column whose values nobody counted is left out."""

    rows: int
    nulls: Mapping[str, int]

    def share(self, column: str) -> float:
        """Return the share of NULL values of a column, from 0 to 1."""
        return self.nulls[column] / self.rows


def judge_null_shares(counts: Mapping[str, NullCounts], *, limits: UsualNulls) -> Finding:
    """Judge the shares of NULL values of the newest partition by the usual partitions before.

    Args:
        counts: partition key -> rows and NULL values, of completed partitions. Keys sort in time.
        limits: limits of a usual share.

    Returns:
        A warning that names each column with an unusual share, or that there are too few earlier partitions.
    """
    known = {key: counts[key] for key in sorted(counts) if counts[key].rows}
    if len(known) <= limits.least:
        earlier = max(len(known) - 1, 0)
        note = f"too little history: {earlier} of {limits.least} earlier partitions"
        return Finding(_NAME, passed=True, severity="warn", figures={"columns": 0}, note=note)
    *before, newest = known
    found = []
    for column in known[newest].nulls:
        counted = Counted[str]()
        for key in [key for key in before if column in known[key].nulls][-limits.most :]:
            counted.take(key, is_unusual=bool(_unusual(column, key, known, counted.values, limits)))
        if sentence := _unusual(column, newest, known, counted.values, limits):
            found.append(sentence)
    figures = {"columns": len(known[newest].nulls), "unusual": len(found)}
    return Finding(_NAME, passed=not found, severity="warn", figures=figures, note="; ".join(found))


def _unusual(column: str, newest: str, known: Mapping[str, NullCounts], before: list[str], limits: UsualNulls) -> str:
    """Return the sentence about an unusual share of a column; empty for a usual share."""
    if len(before) < limits.least:
        return ""
    rows, now = known[newest].rows, known[newest].share(column)
    usual = median(known[key].share(column) for key in before[-limits.last :])
    # One more NULL and one more value than expected: a share of 0 would have no error.
    likely = (usual * rows + 1) / (rows + 2)
    margin = limits.tolerance + limits.errors * math.sqrt(likely * (1 - likely) / rows)
    # A share of 0.15 must not differ by more than 0.1 from 0.05 because of binary fractions.
    if abs(now - usual) <= margin + 1e-12:
        return ""
    return f"{column} is NULL in {now:.1%} of the rows of {newest}, usually in {usual:.1%}"
