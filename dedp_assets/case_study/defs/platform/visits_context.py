"""Run and release that loaded the visits of each date, in a table apart from the visits."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, Runs, lake_table
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.patterns import (
    Audit,
    Column,
    TableSpec,
    Target,
    WriteResult,
    contexts_of,
    decorate,
    overwrite_partition,
    plan_lookback,
    view_for_users,
)

VISITS_CONTEXT = TableSpec(
    "platform/visits_context",
    {
        "event_date": Column("DATE", "UTC day that was loaded; joins to that of silver/visits", required=True),
        "loading_attempt": Column("INT", "number of the load among those of its day, from 1", required=True),
        "version": Column("BIGINT", "version of silver/visits that the load made", required=True),
        "run_id": Column("STRING", "run that loaded; NULL for another writer's"),
        "code_version": Column("STRING", "release of the code that computed the rows"),
        "pattern": Column("STRING", "pattern that wrote them"),
        "cause": Column("STRING", "why the run happened"),
        "loading_time": Column("TIMESTAMP", "when the run started, UTC", required=True),
        "is_current": Column("BOOLEAN", "whether the present rows are those of this load", required=True),
    },
    partition_by=("event_date",),
    comment="One row per load of a date of silver/visits that changed rows, from its commit. Users have a view without "
    "such columns: the SQL that registers it in a session stands with each materialization.",
)
HIDDEN = ("source_file", "line_number", "landed_on", "was_dead_lettered")
"""Columns of silver/visits that say how a visit came, and are not for users."""
AUDITS = (Audit(name="one_load_is_current", sql="count_if(is_current)", fail_above=1),)


@lake_table(
    VISITS_CONTEXT,
    reads=[VISITS],
    runs=Runs(when=Nightly("30 2 * * *", lookback=RETENTION_DAYS, follows_late=True), job="daily_visits_context"),
    gates=Gates(AUDITS, if_empty="Warns of a date that was never loaded with a visit."),
    about=About(owner="team:platform", used_by="operators, who look for the rows of a release or a run"),
    patterns=[decorate, overwrite_partition, plan_lookback],
)
def visits_context(visits: Pinned, into: Target) -> WriteResult:
    """List the loads of one date from the log of the visits; no visit is read."""
    loads = contexts_of(visits.table, into.partition, until=visits.changed)
    written = overwrite_partition(
        loads.selectExpr(f"DATE '{into.partition['event_date']}' AS event_date", "*"),
        into,
        allow_empty=True,
    )
    return replace(written, figures={"view for users": view_for_users(visits.table, view="visits", hidden=HIDDEN)})
