"""Views of each page by hour: the branches that days are fanned in from."""

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.checks.letters import taken
from dedp_assets.graph.declare import (
    About,
    AtOnce,
    Gates,
    Job,
    Nightly,
    Pinned,
    Runs,
    day_to_hour,
    lake_table,
)
from dedp_assets.graph.declare.partitions import HOURLY
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, tally
from dedp_assets.patterns.quality.online_observer import observe_online

PAGE_VIEWS_BY_HOUR = TableSpec(
    "gold/page_views_by_hour",
    {
        "hour": Column("STRING", "UTC hour, like 2026-01-05-13", required=True, classification="public"),
        "page": Column("STRING", "path that was visited", required=True, classification="public"),
        "views": Column("BIGINT", "visits of the page", required=True, classification="public"),
    },
    partition_by=("hour",),
    checks={"a_page_was_viewed": "views > 0"},
    comment="One row per page and hour.",
)
QUERY = "SELECT page, count(*) AS views FROM {visits} GROUP BY page"
AUDITS = (
    Audit.all_read("every_visit_is_counted", "views"),
    Audit.none_where("pages_are_paths", "page NOT LIKE '/%'", approvable=True),
)
PROFILED = {"rows_are_profiled": "Warns if an hour was written without a profile, by a fault of the observer."}
JOB = Job(
    "hourly_page_views",
    "Page views of hours, and the trigger of the report that waits for their day; of a backfill, as many runs at once "
    "as the table has slots and the queue lets through.",
    'key:"gold/page_views_by_hour" or key:"platform/report_triggers"',
)


@lake_table(
    PAGE_VIEWS_BY_HOUR,
    reads={VISITS: day_to_hour("event_date")},
    # Each hour is a partition of its own: of a backfill, four go at once.
    runs=Runs(HOURLY, AtOnce(4, by=Nightly("10 * * * *", lookback=47)), job=JOB),
    gates=Gates(AUDITS, reports=PROFILED),
    about=About(
        used_by="team:reporting, by contract",
        unchecked={"freshness": "the day's views, which are judged, are of the same visits"},
    ),
    patterns=[observe_online],
)
def page_views_by_hour(visits: Pinned, into: Target) -> WriteResult:
    """Count one hour's views by page, with a profile of the written rows."""
    begins = f"to_timestamp('{into.partition['hour']}', 'yyyy-MM-dd-HH')"
    of_hour = f"event_time >= {begins} AND event_time < {begins} + INTERVAL 1 HOUR"
    rows, seen = tally(taken(visits.rows(), rest=PAGE_VIEWS_BY_HOUR, where=of_hour), identity=["visit_id"])
    views = into.table.session.sql(QUERY, visits=rows).selectExpr(f"'{into.partition['hour']}' AS hour", "*")
    return observe_online(views, into.reading(seen, represented="views"), allow_empty=True)
