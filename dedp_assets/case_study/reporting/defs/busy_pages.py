"""The busiest pages of each day, from all 24 hours of another team's table."""

from dedp_assets.case_study.reporting.defs.contracts import EVERY_HOUR_OF_A_DAY, PRODUCER
from dedp_assets.graph.declare import About, Gates, Job, Reads, Runs, Step, Target, finished, lake_table
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec, WriteResult, overwrite_partition, plan_by_markers

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
QUERY = "SELECT page, sum(views) AS views, DATE {day} AS day FROM {views} GROUP BY page"


@lake_table(
    BUSY_PAGES,
    reads=Reads(sources=[PRODUCER], inputs=finished(EVERY_HOUR_OF_A_DAY)),
    runs=Runs(
        DAILY,
        EVERY_HOUR_OF_A_DAY,
        job=Job("report_busy_pages", "The busiest pages of a day, once the day's 24 hours are finished."),
    ),
    gates=Gates(if_empty="A day without views is not reported."),
    about=About(owner="team:reporting", used_by="the dashboard of the marketing team"),
    patterns=[plan_by_markers, overwrite_partition],
    code_version="1",
)
def busy_pages(step: Step, into: Target) -> WriteResult:
    """Sum up one day's views by page."""
    views = step.inputs.found.rows()
    return overwrite_partition(into.table.session.sql(QUERY, views=views, day=step.key), into)
