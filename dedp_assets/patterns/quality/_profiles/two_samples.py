"""Two samples of the same cells: test, sizes of the difference, and correction for many tests.

A cell is a pair of shares: of the sample, and of the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

__all__ = ["Cells", "chi2", "chi2_sf", "holm", "js", "pooled", "psi"]

Cells = Sequence[tuple[float, float]]

_EXPECTED = 5.0
"""Least expected rows of a cell for which chi-square holds; smaller cells are pooled."""
_SURE = 20.0
"""Rows of a cell that is never pooled: by chance, 5 expected rows are hardly ever 20."""


def pooled(cells: Cells, rows: float, base_rows: float) -> Cells:
    """Return the cells with enough rows for a test, and all others together.

    If the others together are too few in both samples, they count with the smallest of the cells.
    """
    smaller = min(rows, base_rows)

    def is_enough(cell: tuple[float, float]) -> bool:
        return smaller * _both(cell, rows, base_rows) >= _EXPECTED or smaller * max(cell) >= _SURE

    enough, small = [each for each in cells if is_enough(each)], [each for each in cells if not is_enough(each)]
    rest = (math.fsum(new for new, _ in small), math.fsum(base for _, base in small))
    if not enough or smaller * max(rest) >= _EXPECTED:
        return [*enough, rest]
    least = min(enough, key=lambda cell: _both(cell, rows, base_rows))
    enough.remove(least)
    return [*enough, (least[0] + rest[0], least[1] + rest[1])]


def chi2(cells: Cells, rows: float, base_rows: float) -> float:
    """Return the chi-square statistic of two samples of ``rows`` and ``base_rows``."""
    distances = [(cell[0] - cell[1]) ** 2 / _both(cell, rows, base_rows) for cell in cells if any(cell)]
    return math.fsum(distances) / (1 / rows + 1 / base_rows)


def psi(cells: Cells, rows: float, base_rows: float) -> float:
    """Return the population stability index, with half a row more in each cell, since no share may be 0."""
    half, base_half = 0.5 / rows, 0.5 / base_rows
    all_new, all_base = 1 + half * len(cells), 1 + base_half * len(cells)
    filled = [((new + half) / all_new, (base + base_half) / all_base) for new, base in cells]
    return math.fsum((new - base) * math.log(new / base) for new, base in filled)


def js(cells: Cells) -> float:
    """Return the Jensen-Shannon divergence in bits: 0 for equal and 1 for disjoint samples."""
    parts = [share * math.log2(2 * share / (new + base)) for new, base in cells for share in (new, base) if share]
    return min(max(math.fsum(parts) / 2, 0.0), 1.0)


def chi2_sf(statistic: float, freedom: int) -> float:
    """Return the probability of a chi-square above ``statistic`` with ``freedom`` degrees of freedom."""
    half = statistic / 2
    if freedom < 1 or half <= 0:  # also of a statistic so small that half of it is 0
        return 1.0
    if math.isinf(half):
        return 0.0
    # Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1), from Q(1, x) = e^-x or Q(1/2, x) = erfc(sqrt(x)).
    order, tail = (1.0, math.exp(-half)) if freedom % 2 == 0 else (0.5, math.erfc(math.sqrt(half)))
    while order < freedom / 2:
        tail += math.exp(order * math.log(half) - half - math.lgamma(order + 1))
        order += 1
    return min(tail, 1.0)


def holm(p_values: Mapping[str, float | None], *, level: float) -> frozenset[str]:
    """Return the names of p values that are significant together, by Holm's correction.

    Args:
        p_values: name -> p value; ``None`` and NaN are no tests and do not count.
        level: greatest probability of one false name or more.
    """
    known = {name: p for name, p in p_values.items() if p is not None and not math.isnan(p)}
    ordered = sorted(known, key=known.__getitem__)
    significant = [known[name] <= level / (len(ordered) - place) for place, name in enumerate(ordered)]
    return frozenset(ordered[: significant.index(False)] if False in significant else ordered)


def _both(cell: tuple[float, float], rows: float, base_rows: float) -> float:
    """Return the share of a cell in both samples together."""
    return (cell[0] * rows + cell[1] * base_rows) / (rows + base_rows)
