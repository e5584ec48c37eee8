"""How many visitors came each day."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dedp_assets.defs.gold.promotion import promote
from dedp_assets.defs.silver.visits import VISITS
from dedp_assets.partitions import DAILY
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish
from dedp_assets.reporting import LAUNCHPAD, asset_spec, check_specs
from resources.clock import Clock
from resources.lake import Lake

DAILY_VISITORS = TableSpec(
    "gold/daily_visitors",
    {
        "event_date": Column("DATE", "UTC day", required=True),
        "visits": Column("BIGINT", "visits of the day", required=True),
        "visitors": Column("BIGINT", "distinct visitors of the day", required=True),
        "pages": Column("BIGINT", "distinct pages that were visited", required=True),
        "bytes": Column("BIGINT", "size of all responses, in bytes"),
        "first_visit_at": Column("TIMESTAMP", "first visit of the day, UTC", required=True),
        "last_visit_at": Column("TIMESTAMP", "last visit of the day, UTC", required=True),
    },
    partition_by=("event_date",),
    checks={"visits_cover_visitors": "visits >= visitors AND visitors > 0"},
    comment="One row per day.",
)
QUERY = """
    SELECT event_date, count(*) AS visits, count(DISTINCT user_id) AS visitors, count(DISTINCT page) AS pages,
           sum(bytes) AS bytes, min(event_time) AS first_visit_at, max(event_time) AS last_visit_at
    FROM {visits} GROUP BY event_date
"""
AUDITS = (
    Audit(
        name="every_visit_is_counted",
        of="visits",
        sql="coalesce(sum(visits), 0)",
        per="read",
        fail_below=1,
        fail_above=1,
    ),
    Audit(name="volume_is_usual", of="visits", per="usual", fail_below=0.5, fail_above=2, approvable=True),
)


@dg.multi_asset(
    specs=[
        asset_spec(
            DAILY_VISITORS,
            patterns=[audit_write_audit_publish],
            owners=["team:web-analytics"],
            code_version="1",
            deps=[VISITS.name.split("/")],
            partitions=DAILY,
        )
    ],
    check_specs=check_specs(DAILY_VISITORS, AUDITS, "upstream_passed", partitions=DAILY),
    config_schema=LAUNCHPAD,
    name="gold_daily_visitors",
    pool="gold_daily_visitors",
)
def daily_visitors(context: dg.AssetExecutionContext, lake: Lake, clock: Clock) -> Iterator[Any]:
    """Count one day's visitors, and publish them only if silver and the result passed."""
    yield from promote(context, lake, DAILY_VISITORS, at=clock.now(), query=QUERY, audits=AUDITS, counted="visits")
