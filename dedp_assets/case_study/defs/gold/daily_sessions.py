"""Sessions of visitors, with ids that survive late visits."""

from dedp_assets.case_study.defs.silver.visits import EVENT, VISITS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, Runs, lake_table
from dedp_assets.patterns import (
    Audit,
    Column,
    TableSpec,
    Target,
    WriteResult,
    add_stable_key,
    overwrite_partition,
    plan_lookback,
    upsert_keyed,
)
from dedp_assets.patterns.idempotency.keyed_idempotency import FIRST, LAST

_PLACE = "STRUCT<landed_on: DATE, source_file: STRING, line_number: BIGINT>"
DAILY_SESSIONS = TableSpec(
    "gold/daily_sessions",
    {
        "event_date": Column("DATE", "UTC day; a session ends with it", required=True, classification="public"),
        "session_id": Column(
            "STRING",
            "of the visitor and of the session's visit that landed first",
            required=True,
            classification="quasi",
        ),
        "user_id": EVENT["user_id"],
        "started_at": Column("TIMESTAMP", "first visit, UTC", required=True, classification="quasi"),
        "ended_at": Column("TIMESTAMP", "last visit, UTC", required=True, classification="quasi"),
        "visits": Column("BIGINT", "visits of the session", required=True, classification="public"),
        FIRST: Column(_PLACE, "where the visit landed that the id is made of", required=True, classification="public"),
        LAST: Column(_PLACE, "where the visit landed that landed last", required=True, classification="public"),
    },
    partition_by=("event_date",),
    checks={"it_ends_after_it_started": "ended_at >= started_at AND visits > 0"},
    comment="One row per session: visits of one visitor, half an hour apart at most.",
    key=("event_date", "session_id"),
)
NUMBERED = """
    SELECT *, count_if(begins) OVER (PARTITION BY user_id ORDER BY event_time, visit_id) AS session FROM (
        SELECT *, event_time > lag(event_time) OVER (PARTITION BY user_id ORDER BY event_time, visit_id)
            + INTERVAL 30 MINUTES AS begins FROM {visits}
    )
"""
QUERY = """
    SELECT event_date, session_id, user_id, min(event_time) AS started_at, max(event_time) AS ended_at,
        count(*) AS visits, max(first_record) AS first_record, max(last_record) AS last_record
    FROM {visits} GROUP BY event_date, session_id, user_id
"""
AUDITS = (Audit.none_where("visits_are_of_the_day", "to_date(started_at) <> event_date"),)


@lake_table(
    DAILY_SESSIONS,
    reads=[VISITS],
    runs=Runs(when=Nightly("30 2 * * *", lookback=14), job="compute_daily_sessions"),
    gates=Gates(AUDITS, if_empty="A day without visits is refused."),
    about=About(used_by="analysts, who refer to sessions by their id", fresh_hours=28),
    patterns=[add_stable_key, plan_lookback],
)
def daily_sessions(visits: Pinned, into: Target) -> WriteResult:
    """Update one day's sessions to the day's visits under stable ids; a forced run makes new ids."""
    rows, day = visits.rows(), into.partition
    since = into.table.ensure().version
    rebuild = into.run.replay or into.run.cause == "repair"
    keyed = add_stable_key(
        rows.sparkSession.sql(NUMBERED, visits=rows),
        None if rebuild else into.table.read(day, version=since),
        entity=["user_id"],
        appended=["landed_on", "source_file", "line_number"],
        group=["session"],
        key="session_id",
        if_purged="keep",
    )
    found = rows.sparkSession.sql(QUERY, visits=keyed)
    if rebuild:
        return overwrite_partition(found, into)
    return upsert_keyed(found, into, since=since)
