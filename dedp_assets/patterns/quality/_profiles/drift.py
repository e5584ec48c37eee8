"""Drift of a column: two samples compared by a test of significance and by size of the difference.

A fixed limit of the population stability index (PSI) depends on the number of rows, and a test alone finds the smallest
difference of many rows significant. A drift is both: more than chance, and large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Verdict
from dedp_assets.patterns.quality._profiles.two_samples import chi2, chi2_sf, holm, js, pooled, psi

__all__ = ["Drift", "correct", "drift_of_bins", "drift_of_categories"]

LEVEL = 0.003
"""Greatest p value of a drift: low, so that 1 % of false alarms also holds where chi-square only approximates."""
MIN_ROWS = 500
"""Fewest rows of either side. With fewer, a difference that matters and one by chance look the same."""
MIN_PSI = 0.02
"""Least population stability index of a drift."""

_SKETCH = 1.66
"""Rows of a sample with a rank error of 1 at 99 % confidence, as 2.576 squared over 4."""
_REST = ("all others",)
"""Key of the rows of all other categories; a tuple, since a category may be any text."""
_NAMED = 3
"""Greatest number of named cells in a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Verdict on one measure of a column, and the figures behind.

    Attributes:
        verdict: ``warn`` of a drift; ``ok``; ``unknown`` without a baseline or with too few rows.
        reason: the greatest differences of a drift, or the reason of ``unknown``.
        statistic: chi-square of the two samples; of distinct values, the squared distance in standard deviations.
        p_value: probability of such a statistic without a drift.
        effect: size of the difference: PSI of categories and bins, difference of two shares, change of distinct values
            as a share of the expected ones.
        js: Jensen-Shannon divergence in bits, 0 for equal and 1 for disjoint samples; ``None`` of distinct values.
    """

    verdict: Verdict
    reason: str = ""
    statistic: float | None = None
    p_value: float | None = None
    effect: float | None = None
    js: float | None = None


def drift_of_categories(
    new: Mapping[Any, float],
    base: Mapping[Any, float] | None,
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
    ours, theirs = _counts(new), _counts(base or {})
    rows, all_base = _rows(new_rows, ours), _rows(base_rows, theirs)
    if lacks := _lacks(rows, all_base, min_rows):
        return Drift(verdict="unknown", reason=lacks)
    filled, base_filled = _filled(ours, rows, theirs, all_base), _filled(theirs, all_base, ours, rows)
    cells = {name: (filled[name] / rows, base_filled[name] / all_base) for name in sorted(filled, key=str)}
    # Among the most frequent categories of a sample are those that chance favoured: the test is more often wrong.
    doubt = 2 if filled[_REST] or base_filled[_REST] else 1
    return _compared(cells, rows, all_base, min_psi=min_psi, level=level, doubt=doubt)


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
    if base is not None and len(base) not in {0, len(new)}:
        raise ConfigError(f"new and base must have the same bins, not {len(new)} and {len(base)}")
    ours, theirs = _counts(dict(enumerate(new))), _counts(dict(enumerate(base or [])))
    rows, all_base = _rows(None, ours), _rows(None, theirs)
    if lacks := _lacks(rows, all_base, min_rows):
        return Drift(verdict="unknown", reason=lacks)
    most = _SKETCH / rank_error**2 if rank_error else math.inf
    cells: dict[Hashable, tuple[float, float]] = {
        f"bin {n + 1} of {len(new)}": (ours[n] / rows, theirs[n] / all_base) for n in range(len(new))
    }
    return _compared(cells, min(rows, most), min(all_base, most), min_psi=min_psi, level=level)


def correct(found: Mapping[str, Drift], *, level: float = LEVEL) -> dict[str, Drift]:
    """Return the verdicts of many columns after Holm's correction for their number.

    Args:
        found: verdicts by column or measure, of one table and day.
        level: greatest probability of one false alarm or more among all of them.
    """
    kept = holm({name: each.p_value for name, each in found.items()}, level=level)
    chance = f"a difference by chance: one of {len(found)} looked at"
    return {
        name: each if name in kept or each.verdict != "warn" else replace(each, verdict="ok", reason=chance)
        for name, each in found.items()
    }


def _counts(given: Mapping[Hashable, float]) -> dict[Hashable, float]:
    """Return counts by name, with one name for all NaN."""
    counts: dict[Hashable, float] = {}
    for name, count in given.items():
        if not (math.isfinite(count) and count >= 0):
            raise ConfigError(f"the count of {name!r} must be 0 or more, not {count}")
        one = "NaN" if isinstance(name, float) and math.isnan(name) else name
        counts[one] = counts.get(one, 0.0) + float(count)
    return counts


def _rows(given: float | None, counts: Mapping[Hashable, float]) -> float:
    """Return all rows of a sample; counts of a sketch may add up to a bit more."""
    return max(given or 0.0, sum(counts.values()))


def _lacks(rows: float, base_rows: float, min_rows: float) -> str:
    """Return the reason against a comparison of two samples; empty if comparable."""
    if not base_rows:
        return "no baseline"
    if rows < max(min_rows, 1):
        return f"too few rows: {rows:,.0f} of {min_rows:,.0f}"
    return f"too few rows in the baseline: {base_rows:,.0f} of {min_rows:,.0f}" if base_rows < min_rows else ""


def _filled(
    counts: Mapping[Hashable, float], rows: float, other: Mapping[Hashable, float], other_rows: float
) -> dict[Hashable, float]:
    """Return counts with the categories that only the other sample names, and with all further rows.

    What is not named may still be there: as often as in the other sample, but no more often than the rarest named.
    """
    rest, most = rows - sum(counts.values()), min(counts.values(), default=math.inf)
    likely = {name: min(most, count / other_rows * rows) for name, count in other.items() if name not in counts}
    total = sum(likely.values())
    share = min(1.0, rest / total) if total else 0.0
    hidden = {name: share * count for name, count in likely.items()}
    return {**counts, **hidden, _REST: max(0.0, rest - share * total)}


def _compared(
    cells: Mapping[Hashable, tuple[float, float]],
    rows: float,
    base_rows: float,
    *,
    min_psi: float,
    level: float,
    doubt: float = 1.0,
) -> Drift:
    """Return the verdict on cells by their names; the p value is taken ``doubt`` times."""
    tested = pooled(list(cells.values()), rows, base_rows)
    statistic, effect = chi2(tested, rows, base_rows), psi(tested, rows, base_rows)
    p_value = min(1.0, doubt * chi2_sf(statistic, len(tested) - 1))
    drifts = p_value <= level and effect >= min_psi
    return Drift(
        verdict="warn" if drifts else "ok",
        reason=_greatest(cells) if drifts else "",
        statistic=statistic,
        p_value=p_value,
        effect=effect,
        js=js(tested),
    )


def _greatest(cells: Mapping[Hashable, tuple[float, float]]) -> str:
    """Return the cells with the greatest differences in words."""
    ordered = sorted(cells.items(), key=lambda each: -abs(each[1][0] - each[1][1]))
    changed = [(_label(name), *cell) for name, cell in ordered[:_NAMED] if cell[0] != cell[1]]
    return "; ".join(f"{label}: {base:.1%} -> {new:.1%}" for label, new, base in changed)


def _label(name: Hashable) -> str:
    return _REST[0] if name is _REST else "NULL" if name is None else str(name)
