"""Sessions of visitors over midnight: sessions completed on a day, and sessions open at the day's end."""

from datetime import datetime, timedelta, timezone

from dedp_assets.case_study.defs.silver.visits import EVENT, VISITS
from dedp_assets.graph.declare import About, Gates, InOrder, Job, Nightly, Pinned, Runs, Step, lake_table
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.patterns import (
    Column,
    SessionRule,
    TableRows,
    TableSpec,
    Target,
    WriteResult,
    publish_group,
    sessionize_partition,
    write_transaction,
)

_SESSION = {
    "session_id": Column(
        "STRING", "of the visitor and of the session's first visit", required=True, classification="quasi"
    ),
    "user_id": EVENT["user_id"],
    "started_at": Column("TIMESTAMP", "first visit, UTC", required=True, classification="quasi"),
    "ended_at": Column("TIMESTAMP", "last visit, UTC", required=True, classification="quasi"),
}
_CHECKS = {"it_ends_after_it_started": "ended_at >= started_at"}
PENDING = TableSpec(
    "silver/sessions_pending",
    {
        "event_date": Column(
            "DATE", "UTC day at whose end the session was open", required=True, classification="public"
        ),
        **_SESSION,
        "events": Column(
            "ARRAY<STRUCT<event_time: TIMESTAMP, visit_id: STRING, page: STRING>>",
            "its visits so far, in order",
            required=True,
            classification="public",
        ),
    },
    partition_by=("event_date",),
    checks=_CHECKS,
    comment="One row per day and session that a visit of a later day may still belong to; private to gold/sessions.",
)
SESSIONS = TableSpec(
    "gold/sessions",
    {
        "event_date": Column(
            "DATE", "UTC day in which the session was complete", required=True, classification="public"
        ),
        **_SESSION,
        "visits": Column("BIGINT", "visits of the session", required=True, classification="public"),
        "pages": Column("ARRAY<STRING>", "paths that were visited, in order", required=True, classification="quasi"),
    },
    partition_by=("event_date",),
    checks=_CHECKS,
    comment="One row per session: visits of one visitor, half an hour apart at most, also over midnight.",
)
RULE = SessionRule(
    entity=["user_id"], event_time=VISITS.event_time, event_id="visit_id", gap_seconds=1800, keep=["page"]
)
PUBLIC = [
    "session_id",
    "user_id",
    "started_at",
    "ended_at",
    "CAST(size(events) AS BIGINT) AS visits",
    "events.page AS pages",
]
"""SQL of the columns of a session that readers see, over the columns of the sessionizers."""
JOB = Job(
    "compute_sessions",
    "Sessions of days in their order, as far as something changed, after the visits of these days.",
    'key:"silver/visits" or key:"silver/visits_dead_letter" or key:"gold/sessions" or key:"silver/sessions_pending"',
)


@lake_table(
    SESSIONS,
    beside={PENDING: [sessionize_partition]},
    reads=[VISITS],
    # A late visit may change every day after its own: one run a night takes them in order.
    runs=Runs(when=InOrder(Nightly("40 2 * * *", lookback=RETENTION_DAYS), hands_over=PENDING), job=JOB),
    gates=Gates(if_empty="Warns of a day in which no session was complete."),
    about=About(used_by="analysts, who follow visitors over midnight", fresh_hours=28),
    patterns=[sessionize_partition, write_transaction],
)
def sessions(step: Step, visits: Pinned, before: Pinned, into: Target, pending: Target) -> WriteResult:
    """Continue the open sessions of the previous day; sessions still open go to the next day."""
    midnight = datetime.fromisoformat(step.key).replace(tzinfo=timezone.utc) + timedelta(days=1)
    split = sessionize_partition(visits.rows(), before.rows(), rule=RULE, until=midnight)
    day = f"DATE '{step.key}' AS event_date"
    public = split["completed"].selectExpr(day, *PUBLIC)
    return publish_group(
        [
            TableRows(public, into, allow_empty=True),
            TableRows(split["pending"].selectExpr(day, "*"), pending, allow_empty=True),
        ]
    )
