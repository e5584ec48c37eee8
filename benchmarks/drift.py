"""Error rates of drift statistics against a fixed PSI, one-sample chi-square and Kolmogorov-Smirnov.

Ours: the two-sample tests of the Offline Observer, each with a least size of the difference. Theirs, of the same
samples: PSI > 0.2; chi-square of the sample against the baseline's shares as if these were exact, p < 0.01; of numbers
also Kolmogorov-Smirnov of the values, p < 0.01. `false` is the share of samples of the baseline's own distribution in
which a drift is seen, `seen` the share of samples of the changed one; a share of 0 is left out.

Fair, because all sides get the same samples; each run draws a baseline of 20,000 rows and both samples by a fixed seed.
With fewer than 500 rows ours answers "too few rows". 20 % more in two fifths of the rows is less than the least PSI of
0.02, and so no drift, however many rows there are. The goal is 1 % of false alarms at most, whatever the number of rows
and the shape of the data; CPU time is that of the statistics alone.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.measure import Row
from dedp_assets.patterns.quality._profiles.drift import (
    Drift,
    drift_of_bins,
    drift_of_categories,
)
from dedp_assets.patterns.quality._profiles.two_samples import chi2_sf, psi

__all__ = ["run"]

_BASE = 20_000
_LIMIT = 0.01
_SIZES = (300, 500, 1_000, 10_000, 100_000)
Numbers = Any  # an array of numpy
Draw = Callable[[Any, int], Numbers]
Judge = Callable[[Numbers, Numbers], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A distribution, a shifted distribution, and drift measures of a sample against a baseline.

    Attributes:
        name: the column, and the change.
        usual: draws a sample without a change.
        changed: draws a sample with the change.
        ours: returns a drift.
        peers: name -> returns whether a drift is seen.
    """

    name: str
    usual: Draw
    changed: Draw
    ours: Judge
    peers: Mapping[str, Judge] = field(default_factory=dict)


def run(*, quick: bool) -> list[Row]:
    """Measure each shape of data with each number of rows."""
    sizes = _SIZES[:1] if quick else _SIZES
    rows = [_measure(shape, rows, _runs(rows, quick=quick)) for shape in _shapes() for rows in sizes]
    return [replace(row, met=None) for row in rows] if quick else rows


def _runs(rows: int, *, quick: bool) -> int:
    """Return the number of runs: fewer with large samples, which hardly ever raise an alarm."""
    return 2 if quick else 2_000 if rows <= 1_000 else 300 if rows <= 10_000 else 100


def _measure(shape: Shape, rows: int, runs: int) -> Row:
    random = np.random.default_rng(rows)
    ours, theirs = Tally(), Tally()
    for _ in range(runs):
        base = shape.usual(random, _BASE)
        for kind, draw in {"false": shape.usual, "seen": shape.changed}.items():
            sample = draw(random, rows)
            verdict = ours.timed(shape.ours, sample, base).verdict
            ours.alarms[f"% {'too few rows' if verdict == 'unknown' else kind}"] += verdict != "ok"
            for name, peer in shape.peers.items():
                theirs.alarms[f"% {name} {kind}"] += theirs.timed(peer, sample, base)
    found = ours.alarms["% false"] / runs
    return Row(
        case=f"{shape.name}, {rows:,} rows",
        ours=ours.shown("two samples and size", runs),
        theirs=theirs.shown("peers", runs),
        goal=f"<= {_LIMIT:.0%} false",
        reached=f"{found:.1%}",
        met=found <= _LIMIT,
    )


@dataclass(slots=True)
class Tally:
    """Alarms and CPU seconds of one side."""

    alarms: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def timed(self, judge: Judge, sample: Numbers, base: Numbers) -> Any:  # noqa: ANN401 - a drift, or a truth value
        """Return the judgement, and count its time."""
        started = time.process_time()
        found = judge(sample, base)
        self.seconds += time.process_time() - started
        return found

    def shown(self, name: str, runs: int) -> dict[str, Any]:
        """Return the side as the report shows a side."""
        # Too few rows is the verdict on both samples of a run.
        shares = {n: 100 * count / runs / (1 + ("too few" in n)) for n, count in self.alarms.items()}
        return {"name": name, "rounds": runs, "cpu": self.seconds, "wall": self.seconds, "counters": shares}


def _shapes() -> list[Shape]:
    few, skewed = _weights([1] * 5), _weights([90, 5, 3, 1, 0.5, 0.3, 0.1, 0.05, 0.05])
    long = _weights([1 / n**1.2 for n in range(1, 5_001)])
    codes = {"PSI 0.2": lambda x, y: _psi(*_pair(x, y)) > 0.2, "one-sample": lambda x, y: _one_sample(*_pair(x, y))}
    values = {
        "PSI 0.2": lambda x, y: _psi(*_binned(x, y)) > 0.2,
        "one-sample": lambda x, y: _one_sample(*_binned(x, y)),
        "KS": _kolmogorov,
    }

    def categories(name: str, weights: Numbers, judge: Judge = _categories) -> Shape:
        changed: Numbers = np.append(weights[:-1] * 0.9, 0.1 + weights[-1] * 0.9)
        return Shape(f"{name}, 10 % move to the last", _coded(weights), _coded(changed), judge, codes)

    def numbers(name: str, draw: Draw) -> Shape:
        return Shape(f"{name}, 20 % more", draw, lambda random, n: 1.2 * draw(random, n), _bins, values)

    return [
        categories("5 equal categories", few),
        categories("9 categories, one has 90 %", skewed),
        categories("5,000 categories, long tail", long),
        categories("top 20 of 5,000 categories", long, _top),
        numbers("lognormal numbers", lambda random, n: random.lognormal(0, 1, n)),
        numbers("60 % zeros", lambda random, n: np.where(random.random(n) < 0.6, 0, random.lognormal(0, 1, n))),
    ]


def _weights(values: Sequence[float]) -> Numbers:
    return np.array(values) / sum(values)


def _coded(weights: Numbers) -> Draw:
    return lambda random, n: np.repeat(np.arange(len(weights)), random.multinomial(n, weights))


def _nulls(share: float) -> Draw:
    return _coded(np.array([share, 1 - share]))


def _counted(sample: Numbers) -> dict[Hashable, float]:
    names, counts = np.unique(sample, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _categories(sample: Numbers, base: Numbers) -> Drift:
    return drift_of_categories(_counted(sample), _counted(base))


def _top(sample: Numbers, base: Numbers) -> Drift:
    most, base_most = Counter(_counted(sample)).most_common(20), Counter(_counted(base)).most_common(20)
    return drift_of_categories(dict(most), dict(base_most), new_rows=len(sample), base_rows=len(base))


def _bins(sample: Numbers, base: Numbers) -> Drift:
    new, known = _binned(sample, base)
    return drift_of_bins(new.tolist(), known.tolist())


def _pair(sample: Numbers, base: Numbers) -> tuple[Numbers, Numbers]:
    cells = int(max(sample.max(), base.max())) + 1
    return np.bincount(sample, minlength=cells), np.bincount(base, minlength=cells)


def _binned(sample: Numbers, base: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows between the baseline's deciles."""
    edges = np.unique(np.quantile(base, np.linspace(0.1, 0.9, 9)))
    return _pair(np.searchsorted(edges, sample), np.searchsorted(edges, base))


def _psi(new: Numbers, base: Numbers) -> float:
    return psi(list(zip(new / new.sum(), base / base.sum(), strict=True)), new.sum(), base.sum())


def _one_sample(new: Numbers, base: Numbers) -> bool:
    expected = base / base.sum() * new.sum()
    seen = expected > 0
    statistic = float(((new - expected)[seen] ** 2 / expected[seen]).sum())
    return chi2_sf(statistic, int(seen.sum()) - 1) < _LIMIT


def _kolmogorov(sample: Numbers, base: Numbers) -> bool:
    both = np.concatenate([sample, base])
    ranks = [np.searchsorted(np.sort(each), both, side="right") / len(each) for each in (sample, base)]
    rows = len(sample) * len(base) / len(both)
    return bool(np.abs(ranks[0] - ranks[1]).max() > math.sqrt(math.log(2 / _LIMIT) / 2 / rows))
