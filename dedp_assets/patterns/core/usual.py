"""Usual values: medians of earlier values by key, and limits of new values.

The only baseline of the library: audits of a write, checks of stored tables and detectors of skew ask here. The value
under test never is part of its own baseline.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, timezone
from fractions import Fraction
from functools import lru_cache
from statistics import median
from typing import Literal, TypeVar

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measurements import Verdict
from dedp_assets.patterns.core.options import require_types

__all__ = ["Baseline", "Expected", "Season", "expected", "medians", "newest_before", "span_of"]

Season = Literal["none", "weekday", "hour"]
M = TypeVar("M")

_ROUNDS = 6
"""Fewest earlier values of a weekday or hour for a baseline with a season: with four, 3 % of usual days fail."""
_SIGMA = 1.4826
"""Standard deviation of normally distributed values, in median absolute deviations."""
_LEAST = 0.01
"""Least deviation in shares of the usual value, so that a constant past does not refuse every change."""
_LEVEL = 7
"""Most usual values that unusual values in a row have to outnumber to be the new level."""
_KEY = re.compile(r"(\d{4}-\d\d-\d\d)(?:[-T ](\d\d)(?::?00(?::?00(?:\.0+)?)?)?(?:Z|\+00:00)?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Rule of a usual value: the earlier values that count, and the allowed distance from the median.

    Attributes:
        last: how many earlier values count; with a season, of each weekday or hour.
        season: ``weekday`` compares Mondays with Mondays (of hourly keys, the same hour), ``hour`` compares an hour
            with the same hour of other days. A season begins with six earlier values of the same weekday or hour;
            before, the newest ``last`` values count, whatever their season.
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
        if self.season != "none" and self.last < _ROUNDS:
            raise ConfigError(f"last must be {_ROUNDS} or more with season={self.season}, not {self.last}")


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


def medians(earlier: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    """Return the median of each measure over earlier partitions or windows; empty for empty ``earlier``."""
    known = list(earlier)
    return {name: median(each[name] for each in known) for name in known[0]} if known else {}


def newest_before(history: Mapping[str, M], key: str, *, last: int) -> list[M]:
    """List the newest ``last`` entries of partitions before ``key``, newest first."""
    return [history[each] for each in sorted(history, reverse=True) if each < key][:last]


@lru_cache(maxsize=1 << 16)
def span_of(key: str) -> tuple[datetime, datetime] | None:
    """Return begin and end of the UTC day or hour that a partition key names; ``None`` for other keys.

    Example:
        >>> begin, end = span_of("2026-01-05-13")
        >>> begin.isoformat(), (end - begin).total_seconds()
        ('2026-01-05T13:00:00+00:00', 3600.0)
    """
    found = _KEY.fullmatch(key)
    try:
        begin = (
            datetime.combine(date.fromisoformat(found[1]), time(int(found[2] or 0)), timezone.utc) if found else None
        )
        return (begin, begin + timedelta(hours=1 if found and found[2] else 24)) if begin else None
    except (ValueError, OverflowError):  # no day of the calendar, or the last one
        return None


def expected(
    history: Mapping[str, float],
    key: str,
    *,
    baseline: Baseline = Baseline(),
    excluded: Collection[str] = (),
    skip_unusual: bool = False,
    accepted: Collection[str] = (),
    neighbours: bool = False,
) -> Expected:
    """Return the usual value for ``key`` by earlier values, and the limits of a new value.

    Args:
        history: partition key -> value of complete partitions. The value of ``key`` itself and values that are not
            finite never count.
        key: the key under test. Keys sort in time.
        baseline: the rule.
        excluded: further keys that do not count.
        skip_unusual: whether earlier values outside of the limits of their own time do not count either, without a
            season. Otherwise a day that failed would be the measure for the next. Unusual values count again once more
            of them came in a row than usual values before them (at most 7): that is the new level.
        accepted: keys that count although they were unusual, because a person accepted them.
        neighbours: whether later values fill up where earlier ones are too few, for a partition of the past.

    Raises:
        ConfigError: for a season of keys that are neither days nor hours.

    Example:
        >>> days = {"2026-01-05": 1000, "2026-01-06": 100, "2026-01-07": 1000}
        >>> expected(days, "2026-01-07", skip_unusual=True)
        Expected(usual=1000.0, low=500.0, high=1500.0, history=1, season='none', too_little_history=False, reason='')
    """
    left_out = {key, *excluded, *baseline.excluded, *baseline.planned}
    known = {
        each: value
        for each, value in history.items()
        if each not in left_out and (neighbours or each < key) and math.isfinite(value)
    }
    lacks = ""
    found: Expected | None = None
    if baseline.season != "none":
        found, rounds = _seasonal(known, key, baseline)
        lacks = f"{rounds} of {_ROUNDS} earlier values of the same {baseline.season}: no season yet"
    if found is None:
        usual: Iterable[str] = known
        if skip_unusual:  # by what was known at the time: what came later revises nothing
            sides = ([each for each in known if each < key], [each for each in known if each > key])
            usual = [kept for side in sides for kept in _usual_keys(known, side, baseline, accepted)]
        found = _by_last([known[each] for each in _nearest(usual, key, baseline.last)], baseline, lacks)
    return found.times(baseline.planned[key]) if key in baseline.planned else found


def _nearest(keys: Iterable[str], key: str, last: int) -> list[str]:
    """List the newest ``last`` keys before ``key``, filled up with the oldest later keys."""
    ordered = sorted(keys)
    earlier = [each for each in ordered if each < key][-last:]
    return earlier + [each for each in ordered if each > key][: last - len(earlier)]


def _by_last(values: Sequence[float], baseline: Baseline, lacks: str) -> Expected:
    """Return the expectation by the last values, without a season."""
    if len(values) < baseline.minimum_history:
        reason = f"too little history: {len(values)} of {baseline.minimum_history} earlier values"
        return Expected(history=len(values), too_little_history=True, reason=reason)
    found = _by_share(median(values), baseline)
    return replace(found, history=len(values), reason=found.reason or lacks)


def _by_share(usual: float, baseline: Baseline) -> Expected:
    below = baseline.tolerance
    above = below if baseline.tolerance_above is None else baseline.tolerance_above
    if usual == 0:
        return Expected(usual=0.0, low=0.0, reason="the usual value is 0, of which no share is a limit")
    # In floats, 1.1 times 100 is not 110, and a value at the limit would lie outside.
    whole = Fraction(usual)
    low, high = whole - abs(whole) * _exact(below), whole + abs(whole) * _exact(above)
    return Expected(usual=float(usual), low=float(low), high=float(high))


@lru_cache(maxsize=1_000)
def _exact(share: float) -> Fraction:
    return Fraction(str(share))


def _usual_keys(
    known: Mapping[str, float], keys: Iterable[str], baseline: Baseline, accepted: Collection[str]
) -> list[str]:
    """List the keys whose values lay within the limits of earlier keys, oldest first."""
    usual: list[str] = []
    odd: list[str] = []
    for key in sorted(keys):
        before = [known[each] for each in usual[-baseline.last :]]
        around = _by_share(median(before), baseline) if len(before) >= baseline.minimum_history else Expected()
        verdict = around.verdict(known[key])
        if around.usual == 0 and verdict == "unknown":
            usual = []  # the first rows after a time without any
        odd.append(key)
        if verdict != "fail" or key in accepted:
            usual.append(key)
            odd = []
        elif len(odd) > min(len(usual), _LEVEL):
            usual += odd
            odd = []
    return usual


def _seasonal(known: Mapping[str, float], key: str, baseline: Baseline) -> tuple[Expected | None, int]:
    """Return the expectation by season (``None`` for too few values), and the number of values."""
    own = _slot(key, baseline.season)
    slots: dict[tuple[int, int], list[str]] = {}
    for each in known:
        slots.setdefault(_slot(each, baseline.season), []).append(each)
    chosen = {slot: [known[k] for k in _nearest(keys, key, baseline.last)] for slot, keys in slots.items()}
    values = chosen.get(own, [])
    if len(values) < _ROUNDS:
        return None, len(values)
    usual = median(values)
    if usual == 0:
        return replace(_by_share(0, baseline), history=len(values), season=baseline.season), len(values)
    distance = baseline.limit * _deviation(chosen.values()) * abs(usual)
    low = max(usual - distance, 0.0) if usual > 0 else usual - distance
    found = Expected(usual=float(usual), low=low, high=usual + distance, history=len(values), season=baseline.season)
    return found, len(values)


def _deviation(slots: Iterable[list[float]]) -> float:
    """Return the robust standard deviation of values in shares of the median of each slot.

    Pooled over all slots: six values of one weekday alone say too little. The values that made a median lie closer to
    it than new ones will, hence the factor of the slot's length.
    """
    residuals = [
        abs(value - middle) / abs(middle) * math.sqrt(len(values) / (len(values) - 1))
        for values in slots
        if len(values) > 1 and (middle := median(values))
        for value in values
    ]
    return max(_SIGMA * median(residuals), _LEAST) if residuals else _LEAST


def _slot(key: str, season: Season) -> tuple[int, int]:
    """Return the weekday and hour of a key, without the weekday for the season ``hour``."""
    span = span_of(key)
    if span is None:
        raise ConfigError(
            f"season must be none for keys that are neither days nor hours, such as {key!r}, not {season}"
        )
    return (span[0].weekday() if season == "weekday" else 0), span[0].hour
