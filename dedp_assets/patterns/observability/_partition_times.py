"""Times of partitions by their keys: days and hours in UTC."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from dedp_assets.patterns.core.activity import Activity
from dedp_assets.patterns.core.measurements import Measurement
from dedp_assets.patterns.core.usual import span_of
from dedp_assets.patterns.observability._arrivals import in_future

__all__ = ["future_partitions", "newest_end"]


def newest_end(activity: Activity, now: datetime, *, hours: float, tolerance_seconds: float) -> datetime | None:
    """Return the end of the newest partition with rows, or ``now`` while the partition lasts.

    Args:
        activity: sizes of the partitions.
        now: the present; a partition that begins later does not count.
        hours: length of a partition, in hours; 0 for that of the key, a day or an hour.
        tolerance_seconds: how far clocks may differ, in seconds.

    Returns:
        The end; ``None`` if no key is a time.
    """
    begun = [each for each in _times(activity) if each[1] <= now + timedelta(seconds=tolerance_seconds)]
    ends = [begin + timedelta(hours=hours) if hours else end for _, begin, end in begun]
    return min(max(ends), now) if ends else None


def future_partitions(activity: Activity, now: datetime, tolerance_seconds: float) -> Measurement:
    """Measure the number of partitions with rows that begin in the future."""
    latest = now + timedelta(seconds=tolerance_seconds)
    found = [key for key, begin, _ in _times(activity) if begin > latest]
    reason = (
        f"{activity.table}: partitions that begin in the future: {len(found)}, such as {max(found)}" if found else ""
    )
    return in_future("future_partitions", activity, now, len(found), unit="partitions", reason=reason)


def _times(activity: Activity) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield key, start and end of each partition with rows whose key is a day or an hour."""
    for key, size in activity.partitions.items():
        if size.rows != 0 and (span := span_of(key)) is not None:
            yield key, *span
