"""Exports of page views: files for days before the migration, a table since, and one list of both."""

from datetime import timedelta

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.graph.declare import About, Branch, Gates, Nightly, Pinned, Reads, Runs, lake_table, of_branch, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.environments import RETENTION_DAYS, settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, overwrite_partition, plan_branch
from dedp_assets.patterns.connectors.delivery.csv_folder import FILE, Batch, CsvFolder
from dedp_assets.patterns.flow.exclusive_choice import Router, Rule

MIGRATED_ON = (settings().first_day + timedelta(days=RETENTION_DAYS + 1)).isoformat()
"""First day that is exported as a table: the second day of the data."""
ROUTER = Router([Rule("files", before=MIGRATED_ON), Rule("table", since=MIGRATED_ON)])
_DAY = {"event_date": Column("DATE", "UTC day", required=True)}
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
        "branch": Column("STRING", "files or table", required=True),
        "parts": Column("BIGINT", "files, or rows of the table", required=True),
    },
    partition_by=("event_date",),
    checks={"known_branch": "branch IN ('files', 'table')"},
    comment="One row per exported day, wherever it went.",
)
QUERY = """
    SELECT event_date, 'files' AS branch, count(*) AS parts FROM {files} GROUP BY event_date UNION ALL
    SELECT event_date, 'table' AS branch, count(*) AS parts FROM {rows} GROUP BY event_date
"""
BY_NIGHT = Nightly("20 3 * * *", lookback=RETENTION_DAYS, description="At 03:20 UTC, days of this branch.")


@lake_table(
    FILES,
    reads=Reads({DAILY_PAGE_VIEWS: same("event_date")}),
    runs=Runs(DAILY, Branch(ROUTER, "files", by=BY_NIGHT)),
    gates=Gates(if_empty="An exported day has a file."),
    about=About(
        owner="team:applications",
        used_by="applications that read files of days before the migration",
        derived={"file": ["event_date"], "size_bytes": ["event_date"]},
        unchecked={
            "freshness": "one of two branches: days after the migration are in the other",
            "completeness": "one of two branches: days after the migration are in the other",
        },
    ),
    patterns=[overwrite_partition, plan_branch],
    code_version="1",
)
def page_view_files(views: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Write one day before the migration to a folder of CSV files, and list them."""
    folder = CsvFolder(lake.files(into.name))
    folder.replace(views.rows(), into.partition, Batch.of(into.run), force=into.run.replay)
    return overwrite_partition(folder.listed(into), into)


@lake_table(
    TABLE,
    reads=Reads({DAILY_PAGE_VIEWS: same("event_date")}),
    runs=Runs(DAILY, Branch(ROUTER, "table", by=BY_NIGHT)),
    gates=Gates(if_empty="Warns of a day without views."),
    about=About(
        owner="team:applications",
        used_by="applications that read tables",
        unchecked={
            "freshness": "one of two branches: days before the migration are in the other",
            "completeness": "one of two branches: days before the migration are in the other",
        },
    ),
    patterns=[overwrite_partition, plan_branch],
    code_version="1",
)
def page_views(views: Pinned, into: Target) -> WriteResult:
    """Copy one day since the migration."""
    return overwrite_partition(views.rows(), into, allow_empty=True)


@lake_table(
    EXPORTS,
    reads=Reads(
        {
            FILES: of_branch("event_date", ROUTER, "files"),
            TABLE: of_branch("event_date", ROUTER, "table"),
        }
    ),
    runs=Runs(
        DAILY, Nightly("50 3 * * *", lookback=RETENTION_DAYS, description="At 03:50 UTC, the days that were exported.")
    ),
    gates=Gates(if_empty="Warns of a day without views."),
    about=About(
        owner="team:applications",
        used_by="who looks for a day's export",
        derived={"branch": ["event_date"], "parts": ["file", "page"]},
        unchecked={
            "freshness": "a register of exports, which the branches before it write",
            "completeness": "its schedule asks for the days of its lookback that are missing",
        },
    ),
    patterns=[overwrite_partition],
    code_version="1",
)
def page_view_exports(files: Pinned, rows: Pinned, into: Target) -> WriteResult:
    """List the exported parts of one day by the chosen branch; the other branch is neither read nor waited for."""
    listed = into.table.session.sql(QUERY, files=files.rows(), rows=rows.rows())
    return overwrite_partition(listed, into, allow_empty=True)
