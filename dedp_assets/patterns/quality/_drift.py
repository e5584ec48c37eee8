"""Drift of a column: two samples are compared by a test of significance and by the size of the difference.

A fixed limit of the population stability index (PSI) depends on the number of rows, and a test alone finds the smallest
difference of many rows significant. A drift is both: more than chance, and large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dedp_assets.patterns.core.errors import ConfigError

__all__ = [
    "Drift",
    "chi2_sf",
    "correct",
    "drift_of_bins",
    "drift_of_categories",
    "drift_of_distinct",
    "drift_of_share",
    "holm",
]

LEVEL = 0.005
"""Greatest p value of a drift. Half a percent, so that one percent also holds where chi-square only approximates."""
MIN_ROWS = 500
"""Fewest rows of either side. With fewer, a difference that matters and one by chance look the same."""
MIN_PSI = 0.02
"""Least population stability index of a drift."""

_EXPECTED = 5.0
"""Least expected rows of a cell for which chi-square holds; smaller cells are pooled."""
_SKETCH = 1.66
"""Rows of a sample with a rank error of 1 at 99 % confidence, as 2.576 squared over 4."""
_REST = "all others"
_NAMED = 3
"""Most cells that a reason names."""

_Cells = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Verdict on one measure of a column, and the figures behind.

    Attributes:
        verdict: ``drift``; ``ok``; ``unknown`` without a baseline or with too few rows.
        reason: the greatest differences of a drift, or the reason of ``unknown``.
        statistic: chi-square of the two samples; of distinct values, the squared distance in standard deviations.
        p_value: probability of such a statistic without a drift.
        effect: size of the difference: PSI of categories and bins, difference of two shares, change of distinct values
            as a share of the expected ones.
        js: Jensen-Shannon divergence in bits, 0 for equal and 1 for disjoint samples; ``None`` of distinct values.
    """

    verdict: Literal["ok", "drift", "unknown"]
    reason: str = ""
    statistic: float | None = None
    p_value: float | None = None
    effect: float | None = None
    js: float | None = None


def drift_of_categories(
    new: Mapping[Hashable, float],
    base: Mapping[Hashable, float] | None,
    *,
    new_rows: float | None = None,
    base_rows: float | None = None,
    min_psi: float = MIN_PSI,
    level: float = LEVEL,
    min_rows: float = MIN_ROWS,
) -> Drift:
    """Compare how often each category appears in two samples.

    Categories too rare for a test count together, so a long tail raises no alarm, and many new rare ones do.

    Args:
        new: category -> rows. NULL is a category like others, if counted.
        base: category -> rows of the baseline; ``None`` or no rows for none.
        new_rows: rows of the sample, where ``new`` names the most frequent categories only.
        base_rows: rows of the baseline, likewise. A category that one side does not name is taken to be among its
            other rows, as far as it may: with no more rows than the rarest category named there.
        min_psi: least PSI of a drift.
        level: greatest p value of a drift.
        min_rows: fewest rows of either side.

    Raises:
        ConfigError: for a count that is below 0 or no number.
    """
    raise NotImplementedError


def drift_of_bins(
    new: Sequence[float],
    base: Sequence[float] | None,
    *,
    rank_error: float = 0.0,
    min_psi: float = MIN_PSI,
    level: float = LEVEL,
    min_rows: float = MIN_ROWS,
) -> Drift:
    """Compare the numbers of rows between the same edges in two samples of a number.

    Edges are quantiles of the baseline, such as its deciles. Neighbouring bins too small for a test count together.

    Args:
        new: rows of each bin.
        base: rows of each bin of the baseline; ``None`` or no rows for none.
        rank_error: normalized rank error (at 99 %) of the sketches that the numbers come from, 0 for exact ones. The
            sketch of any number of rows tells no more than a sample of 1.66 / ``rank_error`` squared rows.
        min_psi: least PSI of a drift.
        level: greatest p value of a drift.
        min_rows: fewest rows of either side.

    Raises:
        ConfigError: for a number of rows that is below 0 or no number, and for two numbers of bins.
    """
    raise NotImplementedError


def drift_of_share(
    part: float,
    rows: float,
    base_part: float,
    base_rows: float,
    *,
    min_difference: float = 0.01,
    level: float = LEVEL,
    min_rows: float = MIN_ROWS,
) -> Drift:
    """Compare the share of some rows, such as those with NULL, in two samples.

    Args:
        part: rows of the sample that count.
        rows: all rows of the sample.
        base_part: rows of the baseline that count.
        base_rows: all rows of the baseline; 0 for no baseline.
        min_difference: least difference of the two shares that is a drift.
        level: greatest p value of a drift.
        min_rows: fewest rows of either side.

    Raises:
        ConfigError: for a part that is not between 0 and its rows.
    """
    raise NotImplementedError


def drift_of_distinct(
    new: float,
    rows: float,
    base: Sequence[tuple[float, float]],
    *,
    error: float = 0.016,
    min_change: float = 0.1,
    level: float = LEVEL,
    min_rows: float = MIN_ROWS,
) -> Drift:
    """Compare a number of distinct values with those of earlier samples, of which each may have other numbers of rows.

    More rows show at least as many distinct values, and at most as many more as there are more rows. Only what lies
    beyond these two is a change. A history that never varied is judged like others, by chance of sampling, error of the
    sketch, and relative change.

    Args:
        new: distinct values of the sample.
        rows: rows of the sample.
        base: distinct values and rows of each earlier sample, best of single partitions; empty for no baseline.
        error: relative standard error of the numbers: 0.016 of Spark's ``hll_sketch_agg``, 0 of exact ones.
        min_change: least change, as a share of the expected number, that is a drift.
        level: greatest p value of a drift.
        min_rows: fewest rows of the sample, and of the earlier samples on average.

    Raises:
        ConfigError: for a number that is below 0 or no number.
    """
    raise NotImplementedError


def correct(found: Mapping[str, Drift], *, level: float = LEVEL) -> dict[str, Drift]:
    """Return verdicts of many columns with each drift dropped that is a chance of looking at so many.

    Args:
        found: verdicts by column or measure, of one table and day.
        level: greatest probability of one false alarm or more among all of them.
    """
    raise NotImplementedError


def holm(p_values: Mapping[str, float | None], *, level: float = LEVEL) -> frozenset[str]:
    """Return the names of p values that are significant together, by Holm's correction.

    Args:
        p_values: name -> p value; ``None`` and NaN are no tests and do not count.
        level: greatest probability of one false name or more.
    """
    raise NotImplementedError


def chi2_sf(statistic: float, freedom: int) -> float:
    """Return the probability of a chi-square above ``statistic`` with ``freedom`` degrees of freedom."""
    raise NotImplementedError
