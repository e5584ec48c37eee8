"""Visits of each region, by day: a step of the country report that the report goes without if it fails."""

from dedp_assets.case_study.defs.bronze.ip_locations import IP_LOCATIONS
from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.defs.gold.visits_by_country import COUNTED
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Gates, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, audit_write_audit_publish, plan_steps

VISITS_BY_REGION = TableSpec(
    "gold/visits_by_region",
    {
        "region": Column("STRING", "region of the visitors' addresses, or unknown", required=True),
        "visits": Column("BIGINT", "visits from there", required=True),
        "event_date": Column("DATE", "UTC day", required=True),
    },
    partition_by=("event_date",),
    comment="One row per day and region.",
)
QUERY = """
    SELECT coalesce(region, 'unknown') AS region, count(*) AS visits, event_date
    FROM {visits} LEFT JOIN (SELECT ip, region FROM {places}) USING (ip)
    GROUP BY coalesce(region, 'unknown'), event_date
"""


@lake_table(
    VISITS_BY_REGION,
    reads=Reads({VISITS: same("event_date"), IP_LOCATIONS: same("event_date")}),
    runs=Runs(DAILY, sequence=COUNTRY_REPORT_STEPS),
    gates=Gates([COUNTED], if_empty="Warns of a date without visits."),
    about=About(
        owner="team:web-analytics", used_by="analysts, who try out a report by region", derived={"visits": ["visit_id"]}
    ),
    patterns=[plan_steps, audit_write_audit_publish],
    code_version="1",
)
def visits_by_region(visits: Pinned, places: Pinned, into: Target) -> WriteResult:
    """Count one day's visits by the region of the address."""
    rows = into.table.session.sql(QUERY, visits=visits.rows(), places=places.rows())
    counted = into.reading(figures={"read": visits.count()}, represented="visits")
    return audit_write_audit_publish(rows, counted, allow_empty=True)
