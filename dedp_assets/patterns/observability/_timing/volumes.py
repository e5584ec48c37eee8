"""Volumes of partitions by a table's activity: complete partitions, usual volumes, reasons for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, PartitionSize
from dedp_assets.patterns.core.measuring.expected_values import expected
from dedp_assets.patterns.core.measuring.partition_times import TimeSpan
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.measuring.usual import Baseline, Expected, Season

__all__ = [
    "Measure",
    "expected_volume",
    "is_filled",
    "is_over",
    "next_completion",
    "require_above_zero",
    "unevenness",
    "volumes",
    "why",
]

Measure = Literal["rows", "bytes"]
_DAY_SECONDS = 86_400
_UNEVEN = 1.12
"""Ratio of lengths of days and months; 31 days to 28 are 1.107."""
_WHEN: Mapping[Season, str] = {"none": "", "weekday": " on this weekday", "hour": " at this hour"}


def require_above_zero(seconds: float | None) -> None:
    """Refuse a time until completion that is not above 0.

    Raises:
        ConfigError: names the option.
    """
    if seconds is not None and seconds <= 0:
        raise ConfigError(f"complete_after_seconds must be above 0, not {seconds:g}")


def is_over(span: TimeSpan | None, now: datetime, seconds: float | None) -> bool:
    """Return whether the time that a partition is about is over; ``False`` for a partition about no time.

    Args:
        span: the time.
        now: current time.
        seconds: time from the beginning of the span until the volume is complete; ``None`` for the span's length.
    """
    if span is None:
        return False
    return (now - span.begin).total_seconds() >= (span.seconds if seconds is None else seconds)


def is_filled(span: TimeSpan | None, size: PartitionSize, now: datetime, seconds: float | None) -> bool:
    """Return whether the first filling of a partition is over, by time or by the first commit."""
    if span is not None or size.first_at is None:
        return span is None or is_over(span, now, seconds)
    return (now - size.first_at).total_seconds() >= (_DAY_SECONDS if seconds is None else seconds)


def next_completion(activity: Activity, now: datetime) -> datetime | None:
    """Return when the next partition is complete, by key or by the first commit.

    ``None`` if all are.
    """
    ends = [_end(activity.calendar(key), size) for key, size in activity.partitions.items()]
    return min((end for end in ends if end is not None and end > now), default=None)


def _end(span: TimeSpan | None, size: PartitionSize) -> datetime | None:
    if span is not None:
        return span.end
    return None if size.first_at is None else size.first_at + timedelta(seconds=_DAY_SECONDS)


def volumes(partitions: Mapping[str, PartitionSize], measure: Measure) -> dict[str, int]:
    """Return the rows or bytes of each partition with statistics."""
    found = {key: size.rows if measure == "rows" else size.size for key, size in partitions.items()}
    return {key: value for key, value in found.items() if value is not None}


def expected_volume(
    activity: Activity,
    now: datetime,
    partition: str,
    *,
    baseline: Baseline,
    measure: Measure,
    approved_is_usual: bool,
    seconds: float | None = None,
) -> Expected:
    """Return the expected volume of a partition by complete partitions near in time, at equal length."""
    complete = {key: size for key, size in activity.partitions.items() if is_over(activity.calendar(key), now, seconds)}
    approved = {key for key, size in complete.items() if size.verdict == "approved"}
    length = activity.calendar(partition)
    return expected(
        {key: _at_length(value, activity.calendar(key), length) for key, value in volumes(complete, measure).items()},
        partition,
        baseline=baseline,
        excluded=() if approved_is_usual else approved,
        accepted=approved,
        neighbours=True,
        calendar=activity.calendar,
    )


def _at_length(value: int, span: TimeSpan | None, wanted: TimeSpan | None) -> float:
    """Return a volume scaled to the length of a similar time.

    That is a day of 25 hours, or a month of 28 days. A Friday that lasts until Monday is another matter: nobody says
    that rows come on a Sunday.
    """
    ratio = wanted.seconds / span.seconds if span and wanted else 1.0
    return value * ratio if ratio != 1 and 1 / _UNEVEN < ratio < _UNEVEN else value


def why(partition: str, value: float, measure: Measure, around: Expected) -> str:
    """Return a sentence about an unusual or unjudged volume; empty for a volume within the limits."""
    verdict, counted = around.verdict(value), f"{partition} has {quantity(value, measure)}"
    if verdict == "ok":
        return ""
    if around.too_little_history or around.usual is None or around.low is None or around.high is None:
        return f"{counted}: {around.reason}"
    unit = measure if measure == "bytes" else ""
    limits = f"{quantity(around.low, unit)} to {quantity(around.high, unit)}"
    because = f" ({around.reason})" if around.reason else ""
    return f"{counted}, usual{_WHEN[around.season]} are {quantity(around.usual, unit)}: outside of {limits}{because}"


def unevenness(sizes: Mapping[str, int], measure: Measure, variation: float, most: float) -> str:
    """Describe partitions of uneven size by the largest one and the ratio to the median."""
    largest, middle = max(sizes, key=lambda key: sizes[key]), median(sizes.values())
    times = f"{sizes[largest] / middle:,.1f} times the median" if middle else "and the median 0"
    return (
        f"partition {largest} has {quantity(sizes[largest], measure)}, {times}: sizes vary by {variation:.2f} of their "
        f"mean, allowed are {most:g}"
    )
