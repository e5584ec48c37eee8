"""Comparison of the legacy report with the new count of page views, day by day."""

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.case_study.defs.gold.legacy_page_views import LEGACY_PAGE_VIEWS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, lake_table
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, audit_write_audit_publish, compare_by_key

PAGE_VIEWS_COMPARED = TableSpec(
    "platform/page_views_compared",
    {
        "event_date": Column("DATE", "UTC day", required=True),
        "figure": Column("STRING", "what was counted", required=True),
        "pages": Column("BIGINT", "how many rows or pages", required=True),
    },
    partition_by=("event_date",),
    comment="One row per day and figure of the comparison. The legacy report is switched off after a month without "
    "a difference.",
)


@lake_table(
    PAGE_VIEWS_COMPARED,
    reads=[LEGACY_PAGE_VIEWS, DAILY_PAGE_VIEWS],
    runs=Nightly("40 3 * * *", lookback=14),
    gates=Gates(reports={"legacy_and_new_agree": "Both reports hold the same pages, each with the same numbers."}),
    about=About(
        used_by="who decides on the end of the legacy report",
        derived=dict.fromkeys(("figure", "pages"), ("page", "views", "visitors")),
        unchecked={"freshness": "whoever migrates asks for it, and reads it at once"},
    ),
    patterns=[compare_by_key, audit_write_audit_publish],
)
def page_views_compared(legacy: Pinned, new: Pinned, into: Target) -> WriteResult:
    """Compare one day of both reports page by page, and keep the figures."""
    found = compare_by_key(legacy.rows(), new.rows(), keys=["event_date", "page"])
    counted = [(name, count) for name, count in found.figures.items() if isinstance(count, int)]
    rows = into.table.session.createDataFrame(counted, "figure STRING, pages BIGINT")
    rows = rows.selectExpr(f"DATE '{into.partition['event_date']}' AS event_date", "*")
    return audit_write_audit_publish(rows, into.reading(findings=[found]))
