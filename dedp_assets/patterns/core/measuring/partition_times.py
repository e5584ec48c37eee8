"""Times of partitions by their keys: the calendar of a table, by default days and hours in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Calendar", "TimeSpan", "span_between", "utc_span"]

_KEY = re.compile(r"(\d{4}-\d\d-\d\d)(?:[-T ](\d\d)(?::?00(?::?00(?:\.0+)?)?)?(?:Z|\+00:00)?)?")


class TimeSpan(NamedTuple):
    """The time that a partition is about.

    Attributes:
        begin: in UTC.
        end: in UTC, after the last moment.
        weekday: day of the week of the begin, 0 for Monday, in the calendar's time zone.
        hour: hour of the begin, in the calendar's time zone.
    """

    begin: datetime
    end: datetime
    weekday: int
    hour: int

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return (self.end - self.begin).total_seconds()


Calendar = Callable[[str], TimeSpan | None]
"""Function that returns the time of a partition key; ``None`` for a key that names no time."""


def span_between(begin: datetime, end: datetime) -> TimeSpan:
    """Return the span from one instant to another, with weekday and hour in the zone of the first.

    Args:
        begin: with time zone.
        end: with time zone.
    """
    # In UTC: Python compares two times of one zone by their wall clocks.
    return TimeSpan(begin.astimezone(timezone.utc), end.astimezone(timezone.utc), begin.weekday(), begin.hour)


@lru_cache(maxsize=1 << 16)
def utc_span(key: str) -> TimeSpan | None:
    """Return the UTC day or hour that a partition key names; ``None`` for other keys.

    Example:
        >>> span = utc_span("2026-01-05-13")
        >>> span.begin.isoformat(), span.seconds
        ('2026-01-05T13:00:00+00:00', 3600.0)
    """
    found = _KEY.fullmatch(key)
    if not found:
        return None
    try:
        begin = datetime.combine(date.fromisoformat(found[1]), time(int(found[2] or 0)), timezone.utc)
        return span_between(begin, begin + timedelta(hours=1 if found[2] else 24))
    except (ValueError, OverflowError):  # no day of the calendar, or the last one
        return None
