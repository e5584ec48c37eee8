"""Visits in the database of legacy applications, by day of ingestion."""

import dagster as dg

from dedp_assets.case_study.windows import closed_windows, due_days, window_of
from dedp_assets.graph.declare import About, Every, Reads, Runs, Source, Step, lake_table
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, load_increment

SOURCE = "public.visits"
DATABASE = Source(
    "postgres/visits",
    "Visits that legacy applications write to their PostgreSQL; rows appear up to 15 minutes after their time.",
    kinds=("postgres", "table"),
    owner="team:applications",
)
LEGACY_VISITS = TableSpec(
    "bronze/legacy_visits",
    {
        "visit_id": Column("BIGINT", "key", required=True),
        "event_time": Column("TIMESTAMP", "when it happened", required=True),
        "user_id": Column("STRING", "who visited", required=True, classification="personal", subject="user"),
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


def legacy_visits_every_day(
    context: dg.ScheduleEvaluationContext, lake: Lake, operational: OperationalDatabase
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request the due days by the target's log; the day before is read again for late rows."""
    return due_days(context, lake, operational, table=LEGACY_VISITS)


@lake_table(
    LEGACY_VISITS,
    reads=Reads(sources=[DATABASE], inputs=closed_windows(SOURCE)),
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
    window = window_of(step.key)
    with operational.rows(into.table.session, SOURCE, column="ingestion_time", window=window) as rows:
        return load_increment(
            rows,
            into,
            delta="ingestion_time",
            window=window,
            keys=["visit_id"],
        )
