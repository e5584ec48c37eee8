"""Default checks of every declared table: limits with sources, and reasons for exceptions.

Five kinds: freshness, completeness, volume, NULL shares, constraints. A table has a check of each kind, or states in
``About(unchecked={kind: reason})`` why not, unless the declaration tells: partitions on request, a schedule that looks
back, or no partitions to compare. A table that follows others is as fresh as they are, and one that is written beside
another one by the same step is as fresh and as complete as that one.

The limits of these checks, and of the rounds that hold expectations against the logs, stand here with their sources;
*own* ones are neither the book's nor the guide's. Options that a pattern sets by itself are documented there.
Completeness and constraints have none but 0: no partition is behind, no row breaks a rule. Freshness has no default,
because one table is late after minutes (the guide's orders after 30, 9.1) and another after a day:
``About(fresh_hours=)`` says the hours. A declaration's own limits (``Expects``, audits) stand in the declaration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dedp_assets.patterns.core.measuring.usual import Baseline
from dedp_assets.patterns.quality.offline_observer import ProfileRules

if TYPE_CHECKING:
    from dedp_assets.graph.declare.tables import LakeTable

__all__ = [
    "EARLIER", "KINDS", "LATE_HOURS", "STALLED_SECONDS", "USUAL_NULLS", "USUAL_PROFILES", "USUAL_VOLUME", "UsualNulls",
    "takes_null_shares", "takes_volume",
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


def takes_volume(declared: LakeTable[...]) -> bool:
    """Return whether the partitions of a declared table have volumes to compare."""
    return bool(declared.runs.partitions and declared.spec.partition_by and not declared.spec.executed_by)


def takes_null_shares(declared: LakeTable[...]) -> bool:
    """Return whether the partitions of a declared table have shares of NULL values to compare."""
    return takes_volume(declared) and not all(column.required for column in declared.spec.columns.values())
