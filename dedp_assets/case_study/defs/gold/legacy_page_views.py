"""Views of each page as the legacy report counts them, for its files and beside the new count."""

from dataclasses import replace

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, Runs, lake_table
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import (
    Audit,
    Column,
    TableSpec,
    Target,
    WriteResult,
    overwrite_partition,
    write_parallel,
)
from dedp_assets.patterns.connectors.delivery.csv_folder import FILE, CsvFolder

LEGACY_PAGE_VIEWS = TableSpec(
    "gold/legacy_page_views",
    DAILY_PAGE_VIEWS.columns,
    partition_by=("event_date",),
    comment="One row per page and day, by the query of the legacy report, which gold/daily_page_views shall replace.",
)
FILES = TableSpec(
    "gold/legacy_page_view_files",
    {"event_date": Column("DATE", "UTC day", required=True, classification="public"), **FILE},
    partition_by=("event_date",),
    comment="One row per file that holds a day of gold/legacy_page_views for readers of CSV.",
)
QUERY = """
    WITH once AS (
        SELECT event_date, page, user_id, count(*) AS views FROM {visits} GROUP BY event_date, page, user_id)
    SELECT event_date, page, sum(views) AS views, count(user_id) AS visitors FROM once GROUP BY event_date, page
"""
AUDITS = (Audit.all_read("every_visit_is_counted", "views"),)


@lake_table(
    LEGACY_PAGE_VIEWS,
    beside={FILES: [overwrite_partition]},
    reads=[VISITS],
    # Runs of its own: the new count does not wait for a job that will be switched off.
    runs=Runs(when=Nightly("10 3 * * *", lookback=14), profile={"dedp/profile": "legacy"}),
    gates=Gates(AUDITS, if_empty="A day without views has no file, and is refused."),
    about=About(
        used_by="readers of the legacy report's files, until it is switched off",
        derived={"file": ["event_date"], "size_bytes": ["event_date"]},
        unchecked={"freshness": "whoever migrates compares it with gold/daily_page_views, which is judged"},
    ),
    patterns=[write_parallel],
)
def legacy_page_views(visits: Pinned, into: Target, files: Target, lake: Lake) -> WriteResult:
    """Count one day's views once, for a folder of CSV files and for the table that the comparison reads."""
    folder = CsvFolder(lake.files(into.name))
    counts = into.table.session.sql(QUERY, visits=visits.rows())
    read = into.reading(figures={"read": visits.count()}, represented="views")
    result = write_parallel(counts, read, folder)
    return replace(result, beside=(overwrite_partition(folder.listed(files), files),))
