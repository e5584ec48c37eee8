"""Calendars of partitions: times of partition keys by Dagster's definitions of partitions."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache
from itertools import pairwise

import dagster as dg

from dedp_assets.patterns.core.measuring.partition_times import Calendar, TimeSpan, span_between, utc_span

__all__ = ["calendar_of", "first_window", "is_within_a_day", "unsorted_keys", "window_seconds"]

_LONGEST_DAY = 25 * 3_600
_MOMENTS = [datetime(year, month, day, 1, tzinfo=timezone.utc) for year, month, day in (
    (2025, 9, 30), (2025, 10, 1), (2025, 12, 31), (2026, 1, 2), (2026, 2, 1), (2026, 11, 11))]  # fmt: skip
"""Times of which a format that does not sort in time puts some in another order."""


@lru_cache(maxsize=1_000)
def calendar_of(partitions: dg.PartitionsDefinition[str] | None) -> Calendar:
    """Return the calendar of a table's partitions.

    Keys of a definition without time windows name no times. A table without a definition may be partitioned by days or
    hours all the same, in UTC.
    """
    if partitions is None:
        return utc_span
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return _without_times
    definition = partitions

    @lru_cache(maxsize=1 << 16)
    def span(key: str) -> TimeSpan | None:
        try:
            window = definition.time_window_for_partition_key(key)
            # Of a key between two windows, Dagster returns the next window.
            is_key = key.startswith(window.start.strftime(definition.fmt))
        except (ValueError, OverflowError):
            return None
        return span_between(window.start, window.end) if is_key else None

    return span


def unsorted_keys(partitions: dg.PartitionsDefinition[str] | None) -> tuple[str, str] | None:
    """Return two keys of which the later one sorts first; ``None`` if keys sort in time."""
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return None
    keys = [moment.strftime(partitions.fmt) for moment in _MOMENTS]
    return next(((a, b) for a, b in pairwise(keys) if a > b), None)


def window_seconds(partitions: dg.TimeWindowPartitionsDefinition) -> float:
    """Return the length of the first partition, in seconds."""
    return first_window(partitions)[1].seconds


def first_window(partitions: dg.TimeWindowPartitionsDefinition) -> tuple[str, TimeSpan]:
    """Return key and time of the first partition."""
    window = partitions.time_window_for_partition_key(partitions.start.strftime(partitions.fmt))
    return window.start.strftime(partitions.fmt), span_between(window.start, window.end)


def is_within_a_day(partitions: dg.PartitionsDefinition[str] | None) -> bool:
    """Return whether partitions are days, hours or less, of which a weekday or an hour may have a season."""
    return not isinstance(partitions, dg.TimeWindowPartitionsDefinition) or window_seconds(partitions) <= _LONGEST_DAY


def _without_times(_: str) -> TimeSpan | None:
    return None
