"""Figures of a day in the applications' database, in two tables written together."""

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.case_study.defs.gold.daily_visitors import DAILY_VISITORS
from dedp_assets.graph.declare import About, Gates, Pinned, Runs, lake_table
from dedp_assets.graph.systems.postgres import OperationalDatabase, lacking
from dedp_assets.patterns import (
    Column,
    DatabaseTarget,
    RowSet,
    TableSpec,
    Target,
    WriteResult,
    overwrite_partition,
    write_transaction,
)

DAILY_REPORT = TableSpec(
    "serving/daily_report",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "served": Column("STRING", "table of the applications' database", required=True, classification="public"),
        "rows": Column("BIGINT", "rows of the day in it", required=True, classification="public"),
    },
    partition_by=("event_date",),
    comment="One row per day and table that was written to the applications' database.",
)
SERVED = """
    SELECT pg_advisory_xact_lock(hashtext('serving'));
    CREATE SCHEMA IF NOT EXISTS serving;
    CREATE TABLE IF NOT EXISTS serving.daily_page_views (
        event_date date, page text, views bigint NOT NULL, visitors bigint NOT NULL, PRIMARY KEY (event_date, page));
    CREATE TABLE IF NOT EXISTS serving.daily_visitors (
        event_date date PRIMARY KEY, visits bigint NOT NULL, visitors bigint NOT NULL, pages bigint NOT NULL,
        bytes bigint, first_visit_at timestamptz NOT NULL, last_visit_at timestamptz NOT NULL);
"""


@lake_table(
    DAILY_REPORT,
    reads=[DAILY_PAGE_VIEWS, DAILY_VISITORS],
    runs=Runs(needs=lacking),
    gates=Gates(if_empty="A receipt names both tables."),
    about=About(used_by="the applications, which read schema serving of their database", fresh_hours=28),
    patterns=[write_transaction, overwrite_partition],
)
def daily_report(views: Pinned, visitors: Pinned, into: Target, operational: OperationalDatabase) -> WriteResult:
    """Write one day of gold to both tables of the applications' database, in one transaction."""
    day, generation = into.partition, into.table.ensure().generation(into.name)
    sets = [
        RowSet("serving.daily_page_views", views.rows(), keys=["event_date", "page"], partition=day),
        RowSet("serving.daily_visitors", visitors.rows(), keys=["event_date"], partition=day),
    ]
    operational.prepare(SERVED)
    served = DatabaseTarget(into.name, operational.connect, into.run, partition=day, generation=generation)
    write_transaction(sets, served)
    counts = {each.table: read.count() for each, read in zip(sets, (views, visitors), strict=True)}
    listed = [(day["event_date"], name, rows) for name, rows in counts.items()]
    receipt = into.table.session.createDataFrame(listed, "day STRING, served STRING, rows BIGINT")
    receipt = receipt.selectExpr("CAST(day AS DATE) AS event_date", "served", "rows")
    return overwrite_partition(receipt, into)
