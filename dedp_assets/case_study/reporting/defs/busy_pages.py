"""The busiest pages of each day, from all 24 hours of another team's table."""

from dedp_assets.case_study.reporting.defs.contracts import EVERY_HOUR_OF_A_DAY, PRODUCER
from dedp_assets.graph.declare import Reads, Runs, finished, lake_query
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec, overwrite_partition, plan_by_markers

BUSY_PAGES = TableSpec(
    "reporting/busy_pages",
    {
        "page": Column("STRING", "path that was visited", required=True),
        "views": Column("BIGINT", "views of the day", required=True),
        "day": Column("DATE", "UTC day", required=True),
    },
    partition_by=("day",),
    comment="One row per page and day, once the day's 24 hours are finished.",
)
QUERY = "SELECT page, sum(views) AS views, DATE {day} AS day FROM {found} GROUP BY page"


@lake_query(
    BUSY_PAGES,
    reads=Reads(sources=[PRODUCER], inputs=finished(EVERY_HOUR_OF_A_DAY)),
    sql=QUERY,
    runs=Runs(DAILY, EVERY_HOUR_OF_A_DAY, job="report_busy_pages"),
    about="the dashboard of the marketing team",
    patterns=[plan_by_markers, overwrite_partition],
)
def busy_pages() -> None:
    """Sum up one day's views by page, once the day's 24 hours are finished."""
