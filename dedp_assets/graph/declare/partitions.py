"""Partitions of the graph: days in UTC, and weeks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import dagster as dg

from dedp_assets.graph.resources.environments import settings

__all__ = ["DAILY", "HOURLY", "WEEKLY", "daily", "hourly", "static", "weekly"]

_FIRST = settings().first_day


def daily(start: date = _FIRST) -> dg.DailyPartitionsDefinition:
    """Make one partition a day, today included: a delivery of today is processed today.

    Args:
        start: first day; that of the platform by default.
    """
    return dg.DailyPartitionsDefinition(start_date=start.isoformat(), timezone="UTC", end_offset=1)


def weekly(start: date = _FIRST) -> dg.WeeklyPartitionsDefinition:
    """Make one partition a week, named by the Monday, this week included.

    Args:
        start: a day of the first week; that of the platform by default.
    """
    monday = start - timedelta(days=start.weekday())
    return dg.WeeklyPartitionsDefinition(start_date=monday.isoformat(), day_offset=1, timezone="UTC", end_offset=1)


def hourly(start: date = _FIRST) -> dg.HourlyPartitionsDefinition:
    """Make one partition an hour, called like ``2026-01-05-13``, this hour included.

    Args:
        start: first day; that of the platform by default.
    """
    return dg.HourlyPartitionsDefinition(
        start_date=f"{start.isoformat()}-00", fmt="%Y-%m-%d-%H", timezone="UTC", end_offset=1
    )


def static(keys: Sequence[str]) -> dg.StaticPartitionsDefinition:
    """Make partitions with fixed keys.

    Args:
        keys: the keys, in order.
    """
    return dg.StaticPartitionsDefinition(list(keys))


DAILY = daily()
"""One partition a day, from the platform's first one."""

HOURLY = hourly()
"""One partition an hour, from the platform's first day."""

WEEKLY = weekly()
"""One partition a week, from the platform's first one."""
