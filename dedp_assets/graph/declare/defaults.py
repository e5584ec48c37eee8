"""Default checks of every declared table: limits with sources, and reasons for exceptions.

Five kinds: freshness, completeness, volume, NULL shares, constraints. A table has a check of each kind, or states in
``About(unchecked={kind: reason})`` why not. A table that is written beside another one by the same step is as fresh and
as complete as that one.

The limits of these checks, and of the rounds that hold expectations against the logs, stand here with their sources;
*own* ones are neither the book's nor the guide's. Options that a pattern sets by itself are documented there.
Completeness and constraints have none but 0: no partition is behind, no row breaks a rule. Freshness has no default,
because one table is late after minutes (the guide's orders after 30, 9.1) and another after a day:
``About(fresh_hours=)`` says the hours. A declaration's own limits (``Expects``, audits) stand in the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dedp_assets.patterns.core.usual import Baseline
from dedp_assets.patterns.quality.offline_observer import ProfileRules

if TYPE_CHECKING:
    from dedp_assets.graph.declare.tables import LakeTable

__all__ = [
    "EARLIER", "KINDS", "LATE_HOURS", "STALLED_SECONDS", "USUAL_NULLS", "USUAL_PROFILES", "USUAL_VOLUME", "UsualNulls",
    "checked_by", "takes_null_shares", "takes_volume",
]  # fmt: skip

KINDS = ("freshness", "completeness", "volume", "null_shares", "constraints")
"""Kinds of default checks (guide, 9.2: Quality Checks Defaults)."""
EARLIER = 7
"""Number of earlier partitions in a baseline: seven days, each weekday once (own)."""
USUAL_VOLUME = Baseline(last=EARLIER, tolerance=0.5, tolerance_above=1, season="weekday", limit=4.0)
"""Limits of ``newest_volume_is_usual``: half to twice the median (book, Skew Detector: a drop by 50 %); once there is a
season, 4 robust standard deviations (own)."""
USUAL_PROFILES = ProfileRules(
    max_null_shift=0.1,
    max_distinct_ratio=3.0,
    max_new_categories=5,
    max_share_shift=0.2,
    min_psi=0.1,
    minimum_rows=500,
    minimum_history=3,
    last=EARLIER,
)
"""Limits of drift between the profile of a day and the ``EARLIER`` days before (own). The guide (9.3) takes a test
alone (p < 0.05), which finds any difference of many rows; so a population stability index has to be reached as well,
which chance alone reaches with fewer than 500 rows (measured)."""
STALLED_SECONDS = 3_600.0
"""Greatest idle time of a consumer with unread rows, in seconds; a longer limit of its table goes first (own)."""
LATE_HOURS = 1
"""Age up to which a late delivery counts as a trouble, in hours; objectives remember the miss (own)."""


@dataclass(frozen=True, slots=True)
class UsualNulls:
    """Limits of ``null_shares_are_usual``.

    The numbers are own ones: a share moves by some points from day to day, that of a column which goes empty by all.

    Attributes:
        last: number of earlier partitions whose median is usual.
        least: number of earlier partitions below which nothing is judged.
        tolerance: difference of shares that is always usual.
        errors: standard errors of the share that are usual as well, for partitions with few rows.
        most: number of the newest partitions that tell which ones were unusual.
    """

    last: int = EARLIER
    least: int = 3
    tolerance: float = 0.05
    errors: float = 4.0
    most: int = 400


USUAL_NULLS = UsualNulls()
"""Limits of ``null_shares_are_usual``. The guide (9.2) allows 1 % or 0.1 % of NULL in required columns; NOT NULL allows
none here."""


def checked_by(declared: LakeTable[...], judged: Mapping[str, LakeTable[...]]) -> dict[str, str]:
    """Return the kinds of default checks of a declared table, each with the name of the check.

    Args:
        declared: the table's declaration.
        judged: all declared tables of the graph, by name.
    """
    found = {
        "freshness": _freshness(declared, judged, ()),
        "completeness": "every_partition_is_current" if _is_kept(declared) else "",
        "volume": _volume(declared),
        "null_shares": _nulls(declared),
        "constraints": "stored_rows_keep_constraints" if _has_constraints(declared) else "",
    }
    return {kind: check for kind, check in found.items() if check}


def _freshness(declared: LakeTable[...], judged: Mapping[str, LakeTable[...]], below: tuple[str, ...]) -> str:
    """Return the check of a table's freshness; a table that keeps up with fresh upstream tables is fresh."""
    expects, name = declared.about.expects, declared.spec.name
    if declared.fresh:
        return "data_is_recent"
    if expects.due or expects.gap_minutes or expects.every_minutes:
        return "expects"
    upstream = [judged.get(each.name) for each in declared.reads.tables if each.name != name]
    followed = _is_kept(declared) and upstream and name not in below
    fresh = followed and all(each and _freshness(each, judged, (*below, name)) for each in upstream)
    return "freshness of upstream tables, and every_partition_is_current" if fresh else ""


def takes_volume(declared: LakeTable[...]) -> bool:
    """Return whether the partitions of a declared table have volumes to compare."""
    return bool(declared.runs.partitions and declared.spec.partition_by and not declared.spec.executed_by)


def takes_null_shares(declared: LakeTable[...]) -> bool:
    """Return whether the partitions of a declared table have shares of NULL values to compare."""
    return takes_volume(declared) and not all(column.required for column in declared.spec.columns.values())


def _volume(declared: LakeTable[...]) -> str:
    if declared.about.expects.volume is not None:
        return "expects.volume"
    return "newest_volume_is_usual" if takes_volume(declared) else ""


def _nulls(declared: LakeTable[...]) -> str:
    if all(column.required for column in declared.spec.columns.values()):
        return "every column is NOT NULL"
    return "null_shares_are_usual" if takes_null_shares(declared) else ""


def _has_constraints(declared: LakeTable[...]) -> bool:
    return all(
        table.checks or table.key or any(column.required for column in table.columns.values())
        for table in declared.tables
    )


def _is_kept(declared: LakeTable[...]) -> bool:
    """Return whether the reconciler keeps a table current."""
    return bool(declared.lands or (declared.runs.follows and declared.reads.tables))
