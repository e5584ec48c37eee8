"""Expected values of keys in time, by the newest earlier values or by the same weekday or hour."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.partition_times import Calendar, utc_span
from dedp_assets.patterns.core.measuring.usual import ROUNDS, Baseline, Counted, Expected, Season, reach

__all__ = ["expected"]

_USUAL = Baseline()
Slot = tuple[int, int]
"""Weekday and hour of a key."""

_SIGMA = 1.4826
"""Standard deviation of normally distributed values, in median absolute deviations."""
_LEAST = 0.01
"""Least deviation in shares of the usual value, so that a constant past does not refuse every change."""


def expected(
    history: Mapping[str, float],
    key: str,
    *,
    baseline: Baseline = _USUAL,
    excluded: Collection[str] = (),
    accepted: Collection[str] = (),
    neighbours: bool = False,
    calendar: Calendar = utc_span,
) -> Expected:
    """Return the usual value for ``key`` by earlier values, and the limits of a new value.

    Args:
        history: partition key -> value of complete partitions. The value of ``key`` itself and values that are not
            finite never count, and neither do values outside of the limits of their own time (:class:`Counted`).
        key: the key under test. Keys sort in time.
        baseline: the rule.
        excluded: further keys that do not count.
        accepted: keys that count although they were unusual, because a person accepted them.
        neighbours: whether later values fill up where earlier ones are too few, for a partition of the past.
        calendar: times of the keys, for a season.

    Raises:
        ConfigError: for a season of keys that are neither days nor hours.

    Example:
        >>> days = {"2026-01-05": 1000, "2026-01-06": 100, "2026-01-07": 1000}
        >>> expected(days, "2026-01-07")
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
        found, rounds = _seasonal(known, key, baseline, accepted, calendar)
        lacks = f"{rounds} of {ROUNDS} earlier values of the same {baseline.season}: no season yet"
    if found is None:
        # By what was known at the time: what came later revises nothing.
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
    found = Expected.by_share(median(values), baseline)
    return replace(found, history=len(values), reason=found.reason or lacks)


def _usual_keys(
    known: Mapping[str, float], keys: Iterable[str], baseline: Baseline, accepted: Collection[str]
) -> list[str]:
    """List the keys whose values lay within the limits of earlier keys, oldest first."""
    usual = Counted[str]()
    for key in sorted(keys):
        before = [known[each] for each in usual.values[-baseline.last :]]
        around = Expected.by_share(median(before), baseline) if len(before) >= baseline.minimum_history else Expected()
        verdict = around.verdict(known[key])
        if around.usual == 0 and verdict == "unknown":
            usual.values.clear()  # the first rows after a time without any
        usual.take(key, is_unusual=verdict == "fail" and key not in accepted)
    return usual.values


def _seasonal(
    known: Mapping[str, float], key: str, baseline: Baseline, accepted: Collection[str], calendar: Calendar
) -> tuple[Expected | None, int]:
    """Return the expectation by season (``None`` for too few values), and the number of values."""
    slot, slots = _slot(key, baseline.season, calendar), dict[Slot, list[str]]()
    for each in sorted(known):
        slots.setdefault(_slot(each, baseline.season, calendar), []).append(each)
    of_key = {each: slot for slot, keys in slots.items() for each in keys[-reach(baseline.last) :]}
    season = _Season(baseline)
    for each in sorted(of_key):
        season.take(of_key[each], each, known[each], is_accepted=each in accepted)
    values = [known[each] for each in _nearest(season.keys(slot), key, baseline.last)]
    return (season.around(values) if len(values) >= ROUNDS else None), len(values)


@dataclass(slots=True)
class _Season:
    """The values of each weekday or hour that count, and their spread."""

    baseline: Baseline
    _counted: dict[Slot, Counted[tuple[str, float]]] = field(default_factory=dict)
    _residuals: dict[Slot, list[float]] = field(default_factory=dict)

    def take(self, slot: Slot, key: str, value: float, *, is_accepted: bool) -> None:
        """Judge the next value of a slot by the values before; an unusual value does not count."""
        counted = self._counted.setdefault(slot, Counted())
        before = [each for _, each in counted.values[-self.baseline.last :]]
        is_unusual = not is_accepted and self._judged(before).verdict(value) == "fail"
        counted.take((key, value), is_unusual=is_unusual)
        self._residuals[slot] = _residuals([each for _, each in counted.values[-self.baseline.last :]])

    def keys(self, slot: Slot) -> list[str]:
        """List the keys of a weekday or hour that count."""
        return [key for key, _ in self._counted.get(slot, Counted()).values]

    def _judged(self, before: Sequence[float]) -> Expected:
        """Return the expectation of a value in the past, in shares as long as the slot has no season."""
        if len(before) >= ROUNDS:
            return self.around(before)
        return Expected.by_share(median(before), self.baseline) if before else Expected()

    def around(self, values: Sequence[float]) -> Expected:
        """Return the expectation by the values of one weekday or hour."""
        usual, season = median(values), self.baseline.season
        if usual == 0:
            return replace(Expected.by_share(0, self.baseline), history=len(values), season=season)
        residuals = [each for of_slot in self._residuals.values() for each in of_slot]
        # Pooled over all slots: six values of one weekday alone say too little.
        spread = max(_SIGMA * median(residuals), _LEAST) if residuals else _LEAST
        distance = self.baseline.limit * spread * abs(usual)
        low = max(usual - distance, 0.0) if usual > 0 else usual - distance
        return Expected(usual=float(usual), low=low, high=usual + distance, history=len(values), season=season)


def _residuals(values: Sequence[float]) -> list[float]:
    """Return the distances of values from their median, in shares of the median.

    The values that made a median lie closer to it than new ones will, hence the factor of the number of values.
    """
    if len(values) < 2 or not (middle := median(values)):
        return []
    return [abs(value - middle) / abs(middle) * math.sqrt(len(values) / (len(values) - 1)) for value in values]


def _slot(key: str, season: Season, calendar: Calendar) -> Slot:
    """Return the weekday and hour of a key, without the weekday for the season ``hour``."""
    span = calendar(key)
    if span is None:
        raise ConfigError(
            f"season must be none for keys that are neither days nor hours, such as {key!r}, not {season}"
        )
    return (span.weekday if season == "weekday" else 0), span.hour
