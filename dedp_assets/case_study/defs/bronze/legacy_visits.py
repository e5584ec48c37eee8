"""Visits in the database of legacy applications, by day of ingestion."""

from datetime import datetime, time, timedelta, timezone

import dagster as dg

from dedp_assets.graph.declare import About, Every, Inputs, Reads, Request, Runs, Source, Step, lake_table
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns import (
    Audit,
    Column,
    NotReady,
    PatternError,
    TableSpec,
    Target,
    WriteResult,
    load_increment,
    plan_windows,
)

SOURCE = "public.visits"
DATABASE = Source(
    "postgres/visits",
    "Visits that legacy applications write to their PostgreSQL; rows appear up to 15 minutes after their time.",
    kinds=("postgres", "table"),
    owner="team:applications",
)
_CATCH_UP_DAYS = 7
_DAY_SECONDS = 86_400
LEGACY_VISITS = TableSpec(
    "bronze/legacy_visits",
    {
        "visit_id": Column("BIGINT", "key", required=True),
        "event_time": Column("TIMESTAMP", "when it happened", required=True),
        "user_id": Column("STRING", "who visited", required=True, personal=True),
        "page": Column("STRING", "path that was visited", required=True),
        "ingestion_time": Column("TIMESTAMP", "when the database received it", required=True),
        "ingested_on": Column("DATE", "UTC day of ingestion_time", required=True),
    },
    partition_by=("ingested_on",),
    event_time="event_time",
    comment="One row per legacy visit. What the database deletes stays here: its rows are never changed.",
)
AUDITS = (
    Audit(name="every_row_has_a_delta_value", of="undated", fail_above=0, approvable=True),
    Audit.none_where("every_row_has_its_key", "`visit_id` IS NULL"),
)
LATENCY = timedelta(minutes=15)
"""The longest transaction of the source: its rows become visible that long after their ingestion time."""


def closed(request: Request) -> Inputs:
    """Return the inputs of a day whose window is complete; each run reads the window again."""
    end = _window(request.key)[1]
    if request.at < end + LATENCY:
        raise NotReady(f"{SOURCE}: the window of {request.key} is complete {LATENCY} after {end:%Y-%m-%d %H:%M} UTC")
    return Inputs({SOURCE: request.at.isoformat()}, notes={"source": SOURCE})


def legacy_visits_every_day(
    context: dg.ScheduleEvaluationContext, lake: Lake, operational: OperationalDatabase
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request the due days by the target's log; the day before is read again for late rows."""
    try:
        operational.require_answer()
    except PatternError as error:
        return dg.SkipReason(str(error))
    now = context.scheduled_execution_time.astimezone(timezone.utc)
    today = datetime.combine(now.date(), time(), timezone.utc)
    plan = plan_windows(
        lake.ledger(LEGACY_VISITS.name),
        column="ingested_on",
        origin=today - timedelta(days=_CATCH_UP_DAYS),
        length=_DAY_SECONDS,
        until=today,
        lookback=1,
    )
    key = f"{LEGACY_VISITS.name}:{{}}@{today.date().isoformat()}"
    return [dg.RunRequest(run_key=key.format(day), partition_key=day) for day in plan.partitions]


@lake_table(
    LEGACY_VISITS,
    reads=Reads(sources=[DATABASE], inputs=closed),
    runs=Runs(
        DAILY,
        Every(
            "30 0 * * *",
            ask=legacy_visits_every_day,
            description="At 00:30 UTC, the days of the last week whose legacy visits are not loaded, and the one "
            "before them.",
        ),
        job="load_legacy_visits",
    ),
    gates=AUDITS,
    about=About(
        used_by="analysts, until the legacy applications publish to the topic of visits",
        fresh_hours=26,
        unchecked={"completeness": "its schedule asks for the days of its lookback that are missing"},
    ),
    patterns=[load_increment],
)
def legacy_visits(step: Step, into: Target, operational: OperationalDatabase) -> WriteResult:
    """Load the window of one day; another load of the day adds rows that became visible since."""
    window = _window(step.key)
    with operational.rows(into.table.session, SOURCE, column="ingestion_time", window=window) as rows:
        return load_increment(
            rows,
            into,
            delta="ingestion_time",
            window=window,
            keys=["visit_id"],
        )


def _window(day: str) -> tuple[datetime, datetime]:
    midnight = datetime.combine(datetime.fromisoformat(day), time(), timezone.utc)
    return midnight, midnight + timedelta(days=1)
