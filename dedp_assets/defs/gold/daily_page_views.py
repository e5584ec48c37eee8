"""Views and visitors of each page, by day."""

from datetime import timedelta

from dedp_assets.defs.gold.promotion import PASSED, promote
from dedp_assets.defs.silver.visits import VISITS
from dedp_assets.graph.batches import Step
from dedp_assets.graph.feeds import Pinned, same
from dedp_assets.graph.figures import Figure
from dedp_assets.graph.tables import lake_table
from dedp_assets.partitions import DAILY
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish

DAILY_PAGE_VIEWS = TableSpec(
    "gold/daily_page_views",
    {
        "event_date": Column("DATE", "UTC day", required=True),
        "page": Column("STRING", "path that was visited", required=True),
        "views": Column("BIGINT", "visits of the page", required=True),
        "visitors": Column("BIGINT", "distinct visitors of the page", required=True),
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
    Audit(
        name="every_visit_is_counted", of="views", sql="coalesce(sum(views), 0)", per="read", fail_below=1, fail_above=1
    ),
    Audit(name="volume_is_usual", of="views", per="usual", fail_below=0.5, fail_above=2, approvable=True),
)


@lake_table(
    DAILY_PAGE_VIEWS,
    reads={VISITS: same("event_date")},
    derived={"views": ["visit_id"], "visitors": ["user_id"]},
    fresh=timedelta(hours=26),
    figures={"usual": Figure("usual volume")},
    used_by="dashboards",
    partitions=DAILY,
    audits=AUDITS,
    checks=PASSED,
    patterns=[audit_write_audit_publish],
    owner="team:web-analytics",
    code_version="1",
)
def daily_page_views(step: Step, visits: Pinned, table: Table) -> WriteResult:
    """Count one day's views by page, and publish them only if silver and the result passed."""
    return promote(step, visits, table, query=QUERY, audits=AUDITS, counted="views")
