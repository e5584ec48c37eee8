"""Views of each page, by hour: what another team builds on."""

from dedp_assets.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Gates, Job, Nightly, Pinned, Reads, Runs, day_to_hours, lake_table
from dedp_assets.partitions import HOURLY
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, overwrite_partition

HOURLY_PAGE_VIEWS = TableSpec(
    "gold/hourly_page_views",
    {
        "page": Column("STRING", "path that was visited", required=True),
        "views": Column("BIGINT", "visits of the page", required=True),
        "hour": Column("STRING", "UTC hour, like 2026-01-05-13", required=True),
    },
    partition_by=("hour",),
    comment="One row per page and hour.",
)
QUERY = """
    SELECT page, count(*) AS views, {hour} AS hour FROM {visits}
    WHERE date_format(event_time, 'yyyy-MM-dd-HH') = {hour} GROUP BY page
"""


@lake_table(
    HOURLY_PAGE_VIEWS,
    reads=Reads({VISITS: day_to_hours("event_date")}),
    runs=Runs(
        HOURLY,
        Nightly("10 * * * *", lookback=2, description="Ten minutes after each hour: the hour, and two before it."),
        job=Job(
            "hourly_page_views",
            "Views of the hour, and the trigger of the reports that wait for its day.",
            'key:"gold/hourly_page_views" or key:"platform/report_triggers"',
        ),
    ),
    gates=Gates(if_empty="Warns of an hour without visits."),
    about=About(owner="team:web-analytics", used_by="team:reporting, by contract", derived={"views": ["visit_id"]}),
    patterns=[overwrite_partition],
    code_version="1",
)
def hourly_page_views(visits: Pinned, into: Target) -> WriteResult:
    """Count one hour's views by page."""
    rows = into.table.session.sql(QUERY, visits=visits.rows(), hour=into.partition["hour"])
    return overwrite_partition(rows, into, allow_empty=True)
