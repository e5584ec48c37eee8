"""Visits of each country, by day: the second step of the country report."""

from functools import partial

from dedp_assets.case_study.defs.bronze.ip_locations import IP_LOCATIONS
from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import Runs, lake_query
from dedp_assets.patterns import Audit, Column, TableSpec, audit_write_audit_publish, plan_steps

VISITS_BY_COUNTRY = TableSpec(
    "gold/visits_by_country",
    {
        "country": Column(
            "STRING", "country of the visitors' addresses, or unknown", required=True, classification="public"
        ),
        "visits": Column("BIGINT", "visits from there", required=True, classification="public"),
        "visitors": Column("BIGINT", "distinct visitors from there", required=True, classification="public"),
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
    },
    partition_by=("event_date",),
    checks={"visits_cover_visitors": "visits >= visitors"},
    comment="One row per day and country.",
)
QUERY = """
    SELECT coalesce(country, 'unknown') AS country, count(*) AS visits, count(DISTINCT user_id) AS visitors, event_date
    FROM {visits} LEFT JOIN (SELECT ip, country FROM {ip_locations}) USING (ip)
    GROUP BY coalesce(country, 'unknown'), event_date
"""
COUNTED = Audit.all_read("every_visit_is_counted", "visits")


@lake_query(
    VISITS_BY_COUNTRY,
    reads=[VISITS, IP_LOCATIONS],
    sql=QUERY,
    write=partial(audit_write_audit_publish, allow_empty=True),
    runs=Runs(sequence=COUNTRY_REPORT_STEPS),
    gates=[COUNTED],
    patterns=[plan_steps, audit_write_audit_publish],
)
def visits_by_country() -> None:
    """Count one day's visits by the country of the address."""
