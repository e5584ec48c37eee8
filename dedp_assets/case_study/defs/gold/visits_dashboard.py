"""Dashboard of visits by day, country and device, materialized from enriched visits."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits_enriched import VISITS_ENRICHED
from dedp_assets.graph.declare import About, Every, Gates, Pinned, Runs, lake_table
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, judge_staleness, materialize

VISITS_DASHBOARD = TableSpec(
    "gold/visits_dashboard",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "country": Column("STRING", "country of the address, or unknown", required=True, classification="public"),
        "device_type": Column(
            "STRING", "kind of the visitor's device, or unknown", required=True, classification="public"
        ),
        "visits": Column("BIGINT", "visits from there with such a device", required=True, classification="public"),
    },
    key=("event_date", "country", "device_type"),
    comment="One row per day, country and device.",
)
QUERY = """
    SELECT event_date, coalesce(country, 'unknown') AS country, coalesce(device_type, 'unknown') AS device_type,
        count(*) AS visits
    FROM {base} GROUP BY ALL
"""
SHOWN = {"the_copy_shows_its_base": "Warns if the dashboard lacks changes of silver/visits_enriched."}


@lake_table(
    VISITS_DASHBOARD,
    reads=[VISITS_ENRICHED],
    runs=Runs(when=Every("55 3 * * *", description="At 03:55 UTC, the days that changed."), job="refresh_dashboard"),
    gates=Gates(reports=SHOWN),
    about=About(
        used_by="dashboards, which show weeks of visits by country and device",
        fresh_hours=28,
        unchecked={"completeness": "each refresh computes every day that changed"},
    ),
    patterns=[materialize],
)
def visits_dashboard(visits: Pinned, into: Target, clock: Clock) -> WriteResult:
    """Count visits by day, country and device, for the days that changed since the last refresh."""
    done = materialize(visits.table, into, query=QUERY, version=visits.version)
    return replace(done, findings=(*done.findings, judge_staleness(into.table, visits.table, now=clock.now())))
