"""Comparison of the legacy report with the new count of page views, day by day."""

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.case_study.defs.gold.legacy_page_views import LEGACY_PAGE_VIEWS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
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
    reads=Reads({LEGACY_PAGE_VIEWS: same("event_date"), DAILY_PAGE_VIEWS: same("event_date")}),
    runs=Runs(
        DAILY, Nightly("40 3 * * *", lookback=14, description="At 03:40 UTC, what both reports say of yesterday.")
    ),
    gates=Gates(
        if_empty="A comparison has figures.",
        reports={"legacy_and_new_agree": "Both reports hold the same pages, each with the same numbers."},
    ),
    about=About(
        owner="team:web-analytics",
        used_by="who decides on the end of the legacy report",
        derived={"figure": ["page", "views", "visitors"], "pages": ["page", "views", "visitors"]},
        unchecked={
            "freshness": "whoever migrates asks for it, and reads it at once",
            "completeness": "its schedule asks for the days of its lookback that are missing",
        },
    ),
    patterns=[compare_by_key, audit_write_audit_publish],
    code_version="1",
)
def page_views_compared(legacy: Pinned, new: Pinned, into: Target) -> WriteResult:
    """Compare one day of both reports page by page, and keep the figures."""
    found = compare_by_key(legacy.rows(), new.rows(), keys=["event_date", "page"])
    counted = [(name, count) for name, count in found.figures.items() if isinstance(count, int)]
    rows = into.table.session.createDataFrame(counted, "figure STRING, pages BIGINT")
    rows = rows.selectExpr(f"DATE '{into.partition['event_date']}' AS event_date", "*")
    return audit_write_audit_publish(rows, into.reading(findings=[found]))
