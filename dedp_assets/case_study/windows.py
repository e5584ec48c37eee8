"""Windows of loads from the applications' database: UTC days of a column."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta, timezone

import dagster as dg

from dedp_assets.graph.declare import Inputs, Request
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns import NotReady, PatternError, TableSpec, plan_windows

__all__ = ["LATENCY", "closed_windows", "due_days", "window_of"]

LATENCY = timedelta(minutes=15)
"""The longest transaction of the source: its rows become visible that long after their time."""
_CATCH_UP_DAYS = 7
_DAY_SECONDS = 86_400


def window_of(day: str) -> tuple[datetime, datetime]:
    """Return begin and end of a UTC day."""
    midnight = datetime.combine(datetime.fromisoformat(day), time(), timezone.utc)
    return midnight, midnight + timedelta(days=1)


def closed_windows(*sources: str) -> Callable[[Request], Inputs]:
    """Return the function that finds the inputs of a complete day; each run reads the window again.

    Args:
        sources: tables of the database, ``schema.table``.
    """

    def closed(request: Request) -> Inputs:
        """Return the inputs of a complete day, by the time of the run."""
        end = window_of(request.key)[1]
        if request.at < end + LATENCY:
            named = ", ".join(sources)
            raise NotReady(f"{named}: the window of {request.key} is complete {LATENCY} after {end:%Y-%m-%d %H:%M} UTC")
        return Inputs(dict.fromkeys(sources, request.at.isoformat()), notes={"source": sources[0]})

    return closed


def due_days(
    context: dg.ScheduleEvaluationContext,
    lake: Lake,
    operational: OperationalDatabase,
    *,
    table: TableSpec,
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request the missing days of the last week, and the day before for late rows."""
    try:
        operational.require_answer()
    except PatternError as error:
        return dg.SkipReason(str(error))
    now = context.scheduled_execution_time.astimezone(timezone.utc)
    today = datetime.combine(now.date(), time(), timezone.utc)
    (column,) = table.partition_by
    plan = plan_windows(
        lake.ledger(table.name),
        column=column,
        origin=today - timedelta(days=_CATCH_UP_DAYS),
        length=_DAY_SECONDS,
        until=today,
        lookback=1,
    )
    key = f"{table.name}:{{}}@{today.date().isoformat()}"
    return [dg.RunRequest(run_key=key.format(day), partition_key=day) for day in plan.partitions]
