"""Views and visitors of each page, by day."""

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

DAILY_PAGE_VIEWS = TableSpec(
    "gold/daily_page_views",
    {
        "event_date": Column("DATE", "UTC day", required=True),
        "page": Column("STRING", "path that was visited", required=True),
        "views": Column("BIGINT", "visits of the page", required=True),
        "visitors": Column("BIGINT", "distinct visitors of the page", required=True),
    },
    partition_by=("event_date",),
    checks={"views_cover_visitors": "views >= visitors AND visitors > 0"},
    comment="One row per page and day.",
)
QUERY = """
    SELECT event_date, page, count(*) AS views, count(DISTINCT user_id) AS visitors
    FROM {visits} GROUP BY event_date, page
"""
AUDITS = (
    Audit(
        name="every_visit_is_counted", of="views", sql="coalesce(sum(views), 0)", per="read", fail_below=1, fail_above=1
    ),
    Audit(name="volume_is_usual", of="views", per="usual", fail_below=0.5, fail_above=2, approvable=True),
)


@dg.multi_asset(
    specs=[
        asset_spec(
            DAILY_PAGE_VIEWS,
            patterns=[audit_write_audit_publish],
            owners=["team:web-analytics"],
            code_version="1",
            deps=[VISITS.name.split("/")],
            partitions=DAILY,
        )
    ],
    check_specs=check_specs(DAILY_PAGE_VIEWS, AUDITS, "upstream_passed", partitions=DAILY),
    config_schema=LAUNCHPAD,
    name="gold_daily_page_views",
    pool="gold_daily_page_views",
)
def daily_page_views(context: dg.AssetExecutionContext, lake: Lake, clock: Clock) -> Iterator[Any]:
    """Count one day's views by page, and publish them only if silver and the result passed."""
    yield from promote(context, lake, DAILY_PAGE_VIEWS, at=clock.now(), query=QUERY, audits=AUDITS, counted="views")
