"""Page views of a day from the hours that are there: approximate from noon on, and said to be."""

from dedp_assets.case_study.defs.gold.page_views_by_hour import PAGE_VIEWS_BY_HOUR
from dedp_assets.graph.declare import Gates, Pinned, hour_to_day, lake_table, unaligned
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import (
    Column,
    TableSpec,
    Target,
    WriteResult,
    audit_write_audit_publish,
    judge_branches,
    label_partial,
    plan_unaligned,
)

PAGE_VIEWS_SO_FAR = TableSpec(
    "gold/page_views_so_far",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "page": Column("STRING", "path that was visited", required=True, classification="public"),
        "views": Column(
            "BIGINT", "visits of the page in the hours that are there", required=True, classification="public"
        ),
        "is_approximate": Column(
            "BOOLEAN", "whether hours of the day are missing", required=True, classification="public"
        ),
        "completeness": Column(
            "DOUBLE", "share of the day's hours that are there", required=True, classification="public"
        ),
    },
    partition_by=("event_date",),
    checks={"a_share_of_the_hours": "completeness > 0 AND completeness <= 1"},
    comment="One row per page and day; every row says whether hours are missing.",
)
QUERY = "SELECT page, sum(views) AS views FROM {hours} GROUP BY page"
NOON = 12


@lake_table(
    PAGE_VIEWS_SO_FAR,
    reads={PAGE_VIEWS_BY_HOUR: unaligned(hour_to_day("hour"), after_hours=NOON)},
    runs=DAILY,
    gates=Gates(reports={"every_branch_is_there": "Warns of a day without some of its 24 hours, and names them."}),
    about="the editors, who look at the day while it goes on",
    patterns=[plan_unaligned, audit_write_audit_publish],
)
def page_views_so_far(hours: Pinned, into: Target) -> WriteResult:
    """Sum the hours of a day that are there, and label every row if some are missing."""
    judged = judge_branches(hours.branches)
    views = into.table.session.sql(QUERY, hours=hours.rows())
    labelled = label_partial(views, judged, completeness="completeness")
    day = f"DATE '{into.partition['event_date']}' AS event_date"
    return audit_write_audit_publish(labelled.selectExpr(day, "*"), into.reading(findings=[judged]), allow_empty=True)
