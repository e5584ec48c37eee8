"""Visits of each region, by day: a step of the country report that the report goes without if it fails."""

from functools import partial

from dedp_assets.case_study.defs.bronze.ip_locations import IP_LOCATIONS
from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.defs.gold.visits_by_country import COUNTED
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import Runs, lake_query
from dedp_assets.patterns import Column, TableSpec, audit_write_audit_publish, plan_steps

VISITS_BY_REGION = TableSpec(
    "gold/visits_by_region",
    {
        "region": Column(
            "STRING", "region of the visitors' addresses, or unknown", required=True, classification="public"
        ),
        "visits": Column("BIGINT", "visits from there", required=True, classification="public"),
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
    },
    partition_by=("event_date",),
    comment="One row per day and region.",
)
QUERY = """
    SELECT coalesce(region, 'unknown') AS region, count(*) AS visits, event_date
    FROM {visits} LEFT JOIN (SELECT ip, region FROM {ip_locations}) USING (ip)
    GROUP BY coalesce(region, 'unknown'), event_date
"""


@lake_query(
    VISITS_BY_REGION,
    reads=[VISITS, IP_LOCATIONS],
    sql=QUERY,
    write=partial(audit_write_audit_publish, allow_empty=True),
    runs=Runs(sequence=COUNTRY_REPORT_STEPS),
    gates=[COUNTED],
    about="analysts, who try out a report by region",
    patterns=[plan_steps, audit_write_audit_publish],
)
def visits_by_region() -> None:
    """Count one day's visits by the region of the address."""
