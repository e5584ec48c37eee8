"""Times of partitions by their keys: days and hours in UTC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from dedp_assets.patterns.core.activity import Activity
from dedp_assets.patterns.core.measurements import Measurement

__all__ = ["future_partitions", "newest_end"]

_KEY = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[-T ](\d\d)(?::?00){0,2}(?:\.0+)?Z?)?")
"""Key of a day or of an hour, as a partition of Dagster or as a TIMESTAMP in the log."""


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
    ends = [begin + (timedelta(hours=hours) if hours else length) for _, begin, length in begun]
    return min(max(ends), now) if ends else None


def future_partitions(activity: Activity, now: datetime, tolerance_seconds: float) -> Measurement:
    """Measure the number of partitions with rows that begin in the future."""
    latest = now + timedelta(seconds=tolerance_seconds)
    found = [key for key, begin, _ in _times(activity) if begin > latest]
    reason = (
        f"{activity.table}: partitions that begin in the future: {len(found)}, such as {max(found)}" if found else ""
    )
    return Measurement(
        metric="future_partitions",
        table=activity.table,
        at=now,
        verdict="warn" if found else "ok",
        value=len(found),
        unit="partitions",
        at_most=0,
        reason=reason,
    )


def _times(activity: Activity) -> Iterator[tuple[str, datetime, timedelta]]:
    """Yield key, start and length of each partition with rows whose key is a time."""
    for key, size in activity.partitions.items():
        if size.rows == 0 or not (stated := _KEY.fullmatch(key)):
            continue
        year, month, day, hour = stated.groups()
        try:
            begin = datetime(int(year), int(month), int(day), int(hour or 0), tzinfo=timezone.utc)
        except ValueError:
            continue
        yield key, begin, timedelta(hours=1) if hour else timedelta(days=1)
