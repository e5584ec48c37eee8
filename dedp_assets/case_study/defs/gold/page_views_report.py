"""Report on the pages of a day, after the commits of all 24 hours."""

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.case_study.defs.gold.page_views_by_hour import PAGE_VIEWS_BY_HOUR
from dedp_assets.graph.declare import (
    About,
    Due,
    Expects,
    Gates,
    Pinned,
    aligned,
    hour_to_day,
    lake_table,
    same,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import (
    Audit,
    Column,
    References,
    TableSpec,
    Target,
    WriteResult,
    enforce_constraints,
    join_branches,
    plan_aligned,
)

PAGE_VIEWS_REPORT = TableSpec(
    "gold/page_views_report",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "page": Column("STRING", "path that was visited", required=True, classification="public"),
        "views": Column("BIGINT", "visits of the page, by the hours", classification="public"),
        "busiest_hour": Column(
            "STRING", "hour with most of them, the earliest of several; like 2026-01-05-13", classification="public"
        ),
        "visitors": Column(
            "BIGINT", "distinct visitors of the page, which no sum over hours tells", classification="public"
        ),
    },
    partition_by=("event_date",),
    comment="One row per page and day.",
)
QUERY = """
    SELECT page, sum(views) AS views, min_by(hour, struct(-views, hour)) AS busiest_hour FROM {hours} GROUP BY page
"""
AUDITS = (Audit(name="hours_and_day_agree", of="differing", where="views IS NULL OR visitors > views", warn_above=0),)
CHECKS = {
    "pages_are_of_the_day": "Each page is one of gold/daily_page_views; before that table counted it, the report waits."
}


@lake_table(
    PAGE_VIEWS_REPORT,
    reads={PAGE_VIEWS_BY_HOUR: aligned(hour_to_day("hour")), DAILY_PAGE_VIEWS: same("event_date")},
    runs=DAILY,
    gates=Gates(AUDITS, checks=CHECKS),
    about=About(
        used_by="whoever plans what is published when",
        fresh_hours=28,
        # Whoever plans meets at ten. The last hour of a day is counted ten minutes after midnight.
        expects=Expects(due=Due("09:00", warn_at=0.8)),
    ),
    patterns=[plan_aligned, enforce_constraints],
    code_version="2",
)
def page_views_report(hours: Pinned, day: Pinned, into: Target) -> WriteResult:
    """Join the sums of a day's hours to the day's distinct visitors, page by page; refuse pages without the latter."""
    views = into.table.session.sql(QUERY, hours=hours.rows())
    report = join_branches(views, day.rows().select("page", "visitors"), keys=["page"])
    # Hours and day are counted by runs of their own: a page may be in an hour before the day has it.
    (of_the_day,) = CHECKS
    counted = References(of_the_day, keys={"event_date": "event_date", "page": "page"})
    rows = report.selectExpr(f"DATE '{into.partition['event_date']}' AS event_date", "*")
    return enforce_constraints(rows, into, {of_the_day: day.rows()}, references=[counted], allow_empty=True)
