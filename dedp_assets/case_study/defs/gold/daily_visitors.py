"""Number of visitors by day."""

from dedp_assets.case_study.defs.gold.promotion import promote, promoted
from dedp_assets.case_study.defs.silver.visits import EDITION, VISITS
from dedp_assets.graph.declare import About, Due, Expects, Pinned, lake_table
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, audit_write_audit_publish

DAILY_VISITORS = TableSpec(
    "gold/daily_visitors",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "visits": Column("BIGINT", "visits of the day", required=True, classification="public"),
        "visitors": Column("BIGINT", "distinct visitors of the day", required=True, classification="public"),
        "pages": Column("BIGINT", "distinct pages that were visited", required=True, classification="public"),
        "bytes": Column("BIGINT", "size of all responses, in bytes", classification="public"),
        "first_visit_at": Column("TIMESTAMP", "first visit of the day, UTC", required=True, classification="public"),
        "last_visit_at": Column("TIMESTAMP", "last visit of the day, UTC", required=True, classification="public"),
    },
    partition_by=("event_date",),
    checks={"visits_cover_visitors": "visits >= visitors AND visitors > 0"},
    comment="One row per day.",
)
QUERY = f"""
    SELECT event_date, count(*) AS visits, count(DISTINCT user_id) AS visitors, count(DISTINCT page) AS pages,
           sum({EDITION.sql("bytes")}) AS bytes, min(event_time) AS first_visit_at, max(event_time) AS last_visit_at
    FROM {{visits}} GROUP BY event_date
"""  # noqa: S608 - names of columns
AUDITS = (
    Audit.all_read("every_visit_is_counted", "visits"),
    Audit(name="volume_is_usual", of="visits", per="usual", fail_below=0.5, fail_above=2, approvable=True),
)
DERIVED = {
    "visits": ["visit_id"],
    "visitors": ["user_id"],
    "pages": ["page"],
    "bytes": EDITION.origins("bytes"),
    "first_visit_at": ["event_time"],
    "last_visit_at": ["event_time"],
}


@lake_table(
    DAILY_VISITORS,
    reads=[VISITS],
    gates=promoted(AUDITS),
    about=About(
        used_by="dashboards",
        fresh_hours=26,
        derived=DERIVED,
        figures={"usual": "usual volume"},
        # The dashboards are looked at when work begins; a warning at 06:24 leaves time to help.
        expects=Expects(due=Due("08:00", warn_at=0.8)),
    ),
    patterns=[audit_write_audit_publish],
    code_version=EDITION.reader("1"),
)
def daily_visitors(visits: Pinned, into: Target) -> WriteResult:
    """Count one day's visitors; the count is published only after silver and the result passed."""
    return promote(visits, into, query=QUERY, counted="visits")
