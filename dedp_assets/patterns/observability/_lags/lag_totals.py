"""Measurements of a consumer's lag: each partition of a producer, and all partitions together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from statistics import fmean, median

from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.observability._lags.lag_parts import LagVerdict, Limits, PartitionLag, worst

__all__ = ["measurements_of"]

_SHOWN = 3
"""Number of partitions whose reasons a total names."""
_SKEWED = 10
"""A maximum of so many times the median is a sign of skewed keys."""


def measurements_of(parts: Sequence[PartitionLag], now: datetime, limits: Limits) -> Iterator[Measurement]:
    """Yield the measurements of all partitions that one consumer reads of one producer."""
    newest = parts[0].newest
    figures: dict[str, tuple[str, float | None]] = {
        "lag": (newest.unit, limits.rows.at_most if newest.unit == "rows" else None)
    }
    if newest.unit != "rows" and any(part.newest.unread_rows is not None for part in parts):
        figures["lag_rows"] = ("rows", limits.rows.at_most)
    if any(part.newest.unread_partitions is not None for part in parts):
        figures["lag_partitions"] = ("partitions", None)
    figures["lag_seconds"] = ("s", limits.seconds.at_most)
    several = len(parts) > 1 or newest.partition != ""
    for metric, (unit, at_most) in figures.items():
        of = _OF[metric]
        for part in parts if several else ():
            yield _measured(metric, part, of(part), now, part.newest.input, unit, at_most)
        yield _measured(metric, parts[0], _maximum([*map(of, parts)], unit), now, newest.producer, unit, at_most)
    if several:
        known = [each.lag.value for each in parts if each.lag.value is not None]
        for metric, value in (("lag_p95", _p95(known)), ("lag_average", fmean(known) if known else None)):
            judged = LagVerdict(value, "unknown" if value is None else "ok")
            yield _measured(metric, parts[0], judged, now, newest.producer, newest.unit, None)
    lost, restarted = _sum([part.lost for part in parts]), _sum([part.restarted for part in parts])
    yield _measured(f"lost_{newest.unit}", parts[0], lost, now, newest.producer, newest.unit, 0)
    yield _measured("restarted", parts[0], restarted, now, newest.producer, "", 0)


_OF: dict[str, Callable[[PartitionLag], LagVerdict]] = {
    "lag": lambda part: part.lag,
    "lag_rows": lambda part: part.rows,
    "lag_partitions": lambda part: part.partitions,
    "lag_seconds": lambda part: part.seconds,
}


def _measured(
    metric: str,
    part: PartitionLag,
    judged: LagVerdict,
    now: datetime,
    place: str,
    unit: str,
    at_most: float | None,
) -> Measurement:
    return Measurement(
        metric=metric,
        table=part.newest.consumer,
        partition=place,
        at=now,
        verdict=judged.verdict,
        value=judged.value,
        unit=unit,
        at_most=at_most,
        reason=judged.reason,
        since=judged.since,
    )


def _maximum(parts: Sequence[LagVerdict], unit: str) -> LagVerdict:
    """Return the worst verdict with the greatest figure, and the spread of the figures in the reason."""
    if len(parts) == 1:
        return parts[0]
    reason, since = _reasons(parts)
    known = [each.value for each in parts if each.value is not None]
    if not known:
        return LagVerdict(None, worst(*(each.verdict for each in parts)), reason, since)
    most, middle = max(known), median(known)
    figures = {"max": most, "p95": _p95(known) or 0, "median": middle, "average": fmean(known)}
    spread = f"of {len(parts)} partitions: " + ", ".join(
        f"{name} {quantity(value, unit)}" for name, value in figures.items()
    )
    if len(known) > 2 and most >= _SKEWED * max(middle, 1):
        spread += "; the maximum is far above the median: the keys may be skewed, rather than the consumer slow"
    return LagVerdict(most, worst(*(each.verdict for each in parts)), f"{reason}; {spread}" if reason else "", since)


def _sum(parts: Sequence[LagVerdict]) -> LagVerdict:
    reason, since = _reasons(parts)
    known = [each.value for each in parts if each.value is not None]
    return LagVerdict(sum(known) if known else None, worst(*(each.verdict for each in parts)), reason, since)


def _reasons(parts: Sequence[LagVerdict]) -> tuple[str, datetime | None]:
    """Return the reasons of the worst partitions, and the earliest time of a trouble."""
    verdict = worst(*(each.verdict for each in parts))
    worst_first = sorted((each for each in parts if each.verdict == verdict), key=lambda each: -(each.value or 0))
    found = [*dict.fromkeys(each.reason for each in worst_first if each.reason)] if verdict != "ok" else []
    more = [f"{len(found) - _SHOWN} more partitions"] if len(found) > _SHOWN else []
    since = min((each.since for each in parts if each.since is not None), default=None)
    return "; ".join([*found[:_SHOWN], *more]), since


def _p95(values: Sequence[float]) -> float | None:
    """Return the value that at most 5 % of the values exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if values else None
