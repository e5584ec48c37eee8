"""Percentiles of measured values."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["nearest_rank"]


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the percentile by nearest rank: the least value that ``share`` of all values do not exceed.

    It is one of the values, never a number between two.

    Args:
        values: at least one value.
        share: share of the values, from 0 to 1.
    """
    ordered = sorted(values)
    # Of some shares the product is a bit too large in its last digit: that is no further rank.
    rank = math.ceil(round(share * len(ordered), 9))
    return ordered[max(rank, 1) - 1]
