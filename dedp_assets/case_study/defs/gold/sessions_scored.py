"""Sessions with the distance of their figures from the usual figures of the day: crawlers and torn sessions."""

from dedp_assets.case_study.defs.gold.sessions import SESSIONS
from dedp_assets.graph.declare import About, Nightly, Pinned, Runs, lake_table
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, overwrite_partition
from dedp_assets.patterns.observability.anomaly_detection import flag_anomalies

SESSIONS_SCORED = TableSpec(
    "gold/sessions_scored",
    {
        "event_date": Column(
            "DATE", "UTC day in which the session was complete", required=True, classification="public"
        ),
        "session_id": Column("STRING", "key, as in gold/sessions", required=True, classification="quasi"),
        "visits": Column("BIGINT", "visits of the session", required=True, classification="public"),
        "pages": Column("BIGINT", "distinct pages that were visited", required=True, classification="public"),
        "duration_seconds": Column(
            "DOUBLE", "time from the first visit to the last one, in seconds", required=True, classification="public"
        ),
        "is_anomaly": Column(
            "BOOLEAN",
            "whether a figure is far from the day's median; NULL for too few sessions",
            classification="public",
        ),
        "anomaly_score": Column(
            "DOUBLE", "greatest distance from the median, in robust standard deviations", classification="public"
        ),
        "anomaly_columns": Column("ARRAY<STRING>", "figures beyond the limit", classification="public"),
    },
    partition_by=("event_date",),
    comment="One row per session; the odd ones are those with is_anomaly.",
    key=("event_date", "session_id"),
)
FIGURES = ("visits", "pages", "duration_seconds")
QUERY = """
    SELECT event_date, session_id, visits, CAST(size(array_distinct(pages)) AS BIGINT) AS pages,
        CAST(timestampdiff(MICROSECOND, started_at, ended_at) AS DOUBLE) / 1000000 AS duration_seconds
    FROM {sessions}
"""
# Sessions have a long tail: at the usual limit of 3.5, every visitor with a few pages would be odd.
LIMIT = 8.0
AUDITS = (Audit(name="odd_sessions_are_few", of="odd", where="is_anomaly", per="written", warn_above=0.1),)


@lake_table(
    SESSIONS_SCORED,
    reads=[SESSIONS],
    runs=Runs(when=Nightly("20 3 * * *", lookback=RETENTION_DAYS), job="score_sessions"),
    gates=AUDITS,
    about=About(
        used_by="analysts, who leave crawlers out of their averages",
        fresh_hours=28,
        derived={"anomaly_columns": ["visits", "pages", "started_at", "ended_at"]},
    ),
    patterns=[flag_anomalies, overwrite_partition],
)
def sessions_scored(sessions: Pinned, into: Target) -> WriteResult:
    """Score one day's sessions by visits, distinct pages and duration."""
    figures = into.table.session.sql(QUERY, sessions=sessions.rows())
    return overwrite_partition(flag_anomalies(figures, columns=FIGURES, limit=LIMIT), into, allow_empty=True)
