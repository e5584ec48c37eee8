"""Partitions of the graph: days, in UTC."""

from __future__ import annotations

import dagster as dg

from resources.environments import settings

__all__ = ["DAILY"]

DAILY = dg.DailyPartitionsDefinition(start_date=settings().first_day.isoformat(), timezone="UTC", end_offset=1)
"""One partition a day, today included: a delivery of today is processed today."""
