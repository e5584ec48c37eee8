"""Usual values: medians of earlier values by key, and limits of new values.

The only baseline of the library: audits of a write, checks of stored tables, profiles, fields of a source and detectors
of skew ask here. The value under test never is part of its own baseline, and neither is one that was unusual itself:
:class:`Counted` keeps those that are a measure. What a series of values expects is in ``expected_values``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Generic, Literal, TypeVar

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Verdict
from dedp_assets.patterns.core.options import require_types

__all__ = ["Baseline", "ROUNDS", "Counted", "Expected", "Season", "reach"]

Season = Literal["none", "weekday", "hour"]
V = TypeVar("V")

ROUNDS = 6
"""Fewest earlier values of a weekday or hour for a baseline with a season: with four, 3 % of usual days fail."""
_LEVEL = 7
"""Most usual values that unusual values in a row have to outnumber to be the new level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Rule of a usual value: the earlier values that count, and the allowed distance from the median.

    Attributes:
        last: how many earlier values count; with a season, of each weekday or hour.
        season: ``weekday`` compares Mondays with Mondays (of hourly keys, the same hour), ``hour`` compares an hour
            with the same hour of other days. A season begins with six earlier values of the same weekday or hour;
            before, the newest ``last`` values count, whatever their season. Of each weekday or hour, unusual values do
            not count.
        minimum_history: earlier values below which there is too little history for a judgement.
        tolerance: allowed share below and above the usual value, without a season.
        tolerance_above: allowed share above it, if that is another; ``None`` for the same.
        limit: allowed distance with a season, in robust standard deviations: the median absolute deviation of all
            values from the median of their weekday or hour, in shares of it, and 1 % at least.
        planned: key -> factor of a planned value: 3 for three times the usual one. A planned value does not count
            later.
        excluded: keys of failed, refused and partial partitions, of holidays and one-off events: they do not count.

    Raises:
        ConfigError: for numbers that are not above 0, a share below of more than 1, or fewer values for a season than
            a season needs.
    """

    last: int = 7
    season: Season = "none"
    minimum_history: int = 1
    tolerance: float = 0.5
    tolerance_above: float | None = None
    limit: float = 4.0
    planned: Mapping[str, float] = field(default_factory=dict)
    excluded: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_types(self)
        for name in ("last", "minimum_history", "tolerance", "tolerance_above", "limit"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} must be above 0, not {value:g}")
        if wrong := [f"{key}: {factor:g}" for key, factor in self.planned.items() if factor <= 0]:
            raise ConfigError(f"planned must be factors above 0, not {wrong[0]}")
        if self.tolerance > 1:
            raise ConfigError(f"tolerance must be a share of at most 1, not {self.tolerance:g}")
        if self.minimum_history > self.last:
            raise ConfigError(f"minimum_history must be at most last={self.last}, not {self.minimum_history}")
        if self.season != "none" and self.last < ROUNDS:
            raise ConfigError(f"last must be {ROUNDS} or more with season={self.season}, not {self.last}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Usual value for a key, limits of a new value, and the history behind both.

    Attributes:
        usual: the median of the values that count; ``None`` with too little history.
        low: least value within the limits; ``None`` with too little history.
        high: greatest value within the limits; ``None`` without history, and for a usual value of 0, of which no share
            is a limit.
        history: number of values that count.
        season: season of the baseline; ``none`` as long as a season has too little history.
        too_little_history: whether nothing can be judged.
        reason: one sentence about what the history lacks, or about a planned value; empty for neither.
    """

    usual: float | None = None
    low: float | None = None
    high: float | None = None
    history: int = 0
    season: Season = "none"
    too_little_history: bool = False
    reason: str = ""

    @classmethod
    def by_share(cls, usual: float, baseline: Baseline) -> Expected:
        """Return the expectation around a usual value, with limits in shares of the value."""
        below = baseline.tolerance
        above = below if baseline.tolerance_above is None else baseline.tolerance_above
        if usual == 0:
            return cls(usual=0.0, low=0.0, reason="the usual value is 0, of which no share is a limit")
        # In floats, 1.1 times 100 is not 110, and a value at the limit would lie outside.
        whole = Fraction(usual)
        low, high = whole - abs(whole) * _exact(below), whole + abs(whole) * _exact(above)
        return cls(usual=float(usual), low=float(low), high=float(high))

    def times(self, factor: float) -> Expected:
        """Return the expectation of a planned day that has ``factor`` times the usual value."""
        usual, low, high = (each if each is None else each * factor for each in (self.usual, self.low, self.high))
        planned = f"planned: {factor:g} times the usual value"
        return replace(self, usual=usual, low=low, high=high, reason="; ".join(filter(None, [self.reason, planned])))

    def verdict(self, value: float) -> Verdict:
        """Return ``ok`` within the limits, ``fail`` outside, and ``unknown`` without limits."""
        if self.low is None:
            return "unknown"
        if value < self.low or (self.high is not None and value > self.high):
            return "fail"
        return "unknown" if self.high is None and value > self.low else "ok"


@dataclass(slots=True)
class Counted(Generic[V]):
    """Earlier values that count as usual, oldest first.

    A value that was judged unusual is no measure for the next one, or a fault would be usual after a while. Unusual
    values count once more of them came in a row than usual values before them, and more than seven at most: that is the
    new level.

    Attributes:
        values: the values that count.

    Example:
        >>> counted = Counted([10, 11, 10])
        >>> counted.take(90, is_unusual=True)
        >>> counted.values
        [10, 11, 10]
    """

    values: list[V] = field(default_factory=list)
    _unusual: list[V] = field(default_factory=list, init=False)

    def take(self, value: V, *, is_unusual: bool) -> None:
        """Add the next value, with the judgement by the values that count so far."""
        self._unusual.append(value)
        if not is_unusual:
            self.values.append(value)
            self._unusual = []
        elif len(self._unusual) > min(len(self.values), _LEVEL):
            self.values += self._unusual
            self._unusual = []


def reach(last: int) -> int:
    """Return how many earlier values tell which are the newest ``last`` that count, while a fault lasts."""
    return 4 * last + _LEVEL + 1


@lru_cache(maxsize=1_000)
def _exact(share: float) -> Fraction:
    return Fraction(str(share))
