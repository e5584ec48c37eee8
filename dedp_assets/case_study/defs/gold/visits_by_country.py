"""Visits of each country, by day: the second step of the country report."""

from dedp_assets.case_study.defs.bronze.ip_locations import IP_LOCATIONS
from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Gates, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, audit_write_audit_publish, plan_steps

VISITS_BY_COUNTRY = TableSpec(
    "gold/visits_by_country",
    {
        "country": Column("STRING", "country of the visitors' addresses, or unknown", required=True),
        "visits": Column("BIGINT", "visits from there", required=True),
        "visitors": Column("BIGINT", "distinct visitors from there", required=True),
        "event_date": Column("DATE", "UTC day", required=True),
    },
    partition_by=("event_date",),
    checks={"visits_cover_visitors": "visits >= visitors"},
    comment="One row per day and country.",
)
QUERY = """
    SELECT coalesce(country, 'unknown') AS country, count(*) AS visits, count(DISTINCT user_id) AS visitors, event_date
    FROM {visits} LEFT JOIN (SELECT ip, country FROM {places}) USING (ip)
    GROUP BY coalesce(country, 'unknown'), event_date
"""
COUNTED = Audit.all_read("every_visit_is_counted", "visits")


@lake_table(
    VISITS_BY_COUNTRY,
    reads=Reads({VISITS: same("event_date"), IP_LOCATIONS: same("event_date")}),
    runs=Runs(DAILY, sequence=COUNTRY_REPORT_STEPS),
    gates=Gates([COUNTED], if_empty="Warns of a date without visits."),
    about=About(owner="team:web-analytics", derived={"visits": ["visit_id"], "visitors": ["user_id"]}),
    patterns=[plan_steps, audit_write_audit_publish],
    code_version="1",
)
def visits_by_country(visits: Pinned, places: Pinned, into: Target) -> WriteResult:
    """Count one day's visits by the country of the address."""
    rows = into.table.session.sql(QUERY, visits=visits.rows(), places=places.rows())
    counted = into.reading(figures={"read": visits.count()}, represented="visits")
    return audit_write_audit_publish(rows, counted, allow_empty=True)
