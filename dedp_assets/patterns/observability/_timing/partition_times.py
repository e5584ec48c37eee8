"""Newest and future partitions of a table, by the calendar of the partitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from dedp_assets.patterns.core.measuring.activity import Activity
from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.partition_times import TimeSpan
from dedp_assets.patterns.observability._timing.arrivals import in_future

__all__ = ["future_partitions", "newest_end"]


def newest_end(activity: Activity, now: datetime, *, hours: float, tolerance_seconds: float) -> datetime | None:
    """Return the end of the newest partition with rows, or ``now`` while the partition lasts.

    Args:
        activity: sizes of the partitions.
        now: the present; a partition that begins later does not count.
        hours: length of a partition, in hours; 0 for that of the calendar.
        tolerance_seconds: how far clocks may differ, in seconds.

    Returns:
        The end; ``None`` if no key is a time.
    """
    begun = [span for _, span in _times(activity) if span.begin <= now + timedelta(seconds=tolerance_seconds)]
    ends = [span.begin + timedelta(hours=hours) if hours else span.end for span in begun]
    return min(max(ends), now) if ends else None


def future_partitions(activity: Activity, now: datetime, tolerance_seconds: float) -> Measurement:
    """Measure the number of partitions with rows that begin in the future."""
    latest = now + timedelta(seconds=tolerance_seconds)
    found = [key for key, span in _times(activity) if span.begin > latest]
    reason = (
        f"{activity.table}: partitions that begin in the future: {len(found)}, such as {max(found)}" if found else ""
    )
    return in_future("future_partitions", activity, now, len(found), unit="partitions", reason=reason)


def _times(activity: Activity) -> Iterator[tuple[str, TimeSpan]]:
    """Yield key and time of each partition with rows whose key names a time."""
    for key, size in activity.partitions.items():
        if size.rows != 0 and (span := activity.calendar(key)) is not None:
            yield key, span
