"""Views and visitors of each page, by day."""

from dedp_assets.case_study.defs.gold.promotion import promote, promoted
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Pinned, lake_table
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, audit_write_audit_publish

DAILY_PAGE_VIEWS = TableSpec(
    "gold/daily_page_views",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "page": Column("STRING", "path that was visited", required=True, classification="public"),
        "views": Column("BIGINT", "visits of the page", required=True, classification="public"),
        "visitors": Column("BIGINT", "distinct visitors of the page", required=True, classification="public"),
    },
    partition_by=("event_date",),
    checks={"views_cover_visitors": "views >= visitors AND visitors > 0"},
    comment="One row per page and day.",
)
QUERY = """
    SELECT event_date, page, count(*) AS views, count(DISTINCT user_id) AS visitors
    FROM {visits} GROUP BY event_date, page
"""
AUDITS = (
    Audit.all_read("every_visit_is_counted", "views"),
    Audit(name="volume_is_usual", of="views", per="usual", fail_below=0.5, fail_above=2, approvable=True),
)


@lake_table(
    DAILY_PAGE_VIEWS,
    reads=[VISITS],
    gates=promoted(AUDITS),
    about=About(
        used_by="dashboards",
        fresh_hours=26,
        derived={"views": ["visit_id"], "visitors": ["user_id"]},
        figures={"usual": "usual volume"},
    ),
    patterns=[audit_write_audit_publish],
)
def daily_page_views(visits: Pinned, into: Target) -> WriteResult:
    """Count one day's views by page; the counts are published only after silver and the result passed."""
    return promote(visits, into, query=QUERY, counted="views")
