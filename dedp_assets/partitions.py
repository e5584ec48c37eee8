"""Partitions of the graph: days in UTC, and weeks."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg

from dedp_assets.resources.environments import settings

__all__ = ["DAILY", "WEEKLY"]

_FIRST = settings().first_day

DAILY = dg.DailyPartitionsDefinition(start_date=_FIRST.isoformat(), timezone="UTC", end_offset=1)
"""One partition a day, today included: a delivery of today is processed today."""

WEEKLY = dg.WeeklyPartitionsDefinition(
    start_date=(_FIRST - timedelta(days=_FIRST.weekday())).isoformat(), day_offset=1, timezone="UTC", end_offset=1
)
"""One partition a week from Monday, called by it, this week included."""
