"""Exports of page views: files for days before the migration, a table since, and one list of both."""

from datetime import timedelta
from functools import partial

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.graph.declare import (
    About,
    Branch,
    Gates,
    Nightly,
    Pinned,
    Runs,
    lake_query,
    lake_table,
    of_branch,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.environments import RETENTION_DAYS, settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, overwrite_partition, plan_branch
from dedp_assets.patterns.connectors.delivery.csv_folder import FILE, Batch, CsvFolder
from dedp_assets.patterns.flow.exclusive_choice import Router, Rule

MIGRATED_ON = (settings().first_day + timedelta(days=RETENTION_DAYS + 1)).isoformat()
"""First day that is exported as a table: the second day of the data."""
ROUTER = Router([Rule("files", before=MIGRATED_ON), Rule("table", since=MIGRATED_ON)])
_DAY = {"event_date": Column("DATE", "UTC day", required=True, classification="public")}
FILES = TableSpec(
    "serving/page_view_files",
    {**_DAY, **FILE},
    partition_by=("event_date",),
    comment="One row per CSV file, of days before the migration.",
)
TABLE = TableSpec(
    "serving/page_views",
    DAILY_PAGE_VIEWS.columns,
    partition_by=("event_date",),
    comment="One row per page and day, of days since the migration.",
)
EXPORTS = TableSpec(
    "serving/page_view_exports",
    {
        **_DAY,
        "branch": Column("STRING", "files or table", required=True, classification="public"),
        "parts": Column("BIGINT", "files, or rows of the table", required=True, classification="public"),
    },
    partition_by=("event_date",),
    checks={"known_branch": "branch IN ('files', 'table')"},
    comment="One row per exported day, wherever it went.",
)
QUERY = """
    SELECT event_date, 'files' AS branch, count(*) AS parts FROM {page_view_files} GROUP BY event_date UNION ALL
    SELECT event_date, 'table' AS branch, count(*) AS parts FROM {page_views} GROUP BY event_date
"""
BY_NIGHT = Nightly("20 3 * * *", lookback=RETENTION_DAYS, description="At 03:20 UTC, days of this branch.")
EACH = {FILES: of_branch("event_date", ROUTER, "files"), TABLE: of_branch("event_date", ROUTER, "table")}


@lake_table(
    FILES,
    reads=[DAILY_PAGE_VIEWS],
    runs=Branch(ROUTER, "files", by=BY_NIGHT),
    gates=Gates(if_empty="An exported day has a file."),
    about=About(
        used_by="applications that read files of days before the migration",
        derived={"file": ["event_date"], "size_bytes": ["event_date"]},
        unchecked={"freshness": "one of two branches: days after the migration are in the other"},
    ),
    patterns=[overwrite_partition, plan_branch],
)
def page_view_files(views: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Write one day before the migration to a folder of CSV files, and list them."""
    folder = CsvFolder(lake.files(into.name))
    folder.replace(views.rows(), into.partition, Batch.of(into.run), force=into.run.replay)
    return overwrite_partition(folder.listed(into), into)


@lake_query(
    TABLE,
    reads=[DAILY_PAGE_VIEWS],
    sql="SELECT * FROM {daily_page_views}",
    write=partial(overwrite_partition, allow_empty=True),
    runs=Branch(ROUTER, "table", by=BY_NIGHT),
    about=About(
        used_by="applications that read tables",
        unchecked={"freshness": "one of two branches: days before the migration are in the other"},
    ),
    patterns=[overwrite_partition, plan_branch],
)
def page_views() -> None:
    """Copy one day since the migration."""


@lake_query(
    EXPORTS,
    reads=EACH,
    sql=QUERY,
    write=partial(overwrite_partition, allow_empty=True),
    runs=Runs(DAILY, Nightly("50 3 * * *", lookback=RETENTION_DAYS)),
    about=About(
        used_by="who looks for a day's export",
        unchecked={"freshness": "a register of exports, which the branches before it write"},
    ),
)
def page_view_exports() -> None:
    """List the exported parts of one day by the chosen branch; the other branch is neither read nor waited for."""
