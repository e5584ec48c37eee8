"""Visits that legacy applications still write to their database, loaded by the day they were ingested there."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, time, timedelta, timezone
from typing import Any

import dagster as dg

from dedp_assets.partitions import DAILY
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.ingestion.incremental_loader import load_increment
from dedp_assets.reporting import LAUNCHPAD, Inputs, Step, Work, asset_spec, check_specs, run
from resources.clock import Clock
from resources.lake import Lake
from resources.postgres import OperationalDatabase

SOURCE = "public.visits"
LEGACY_VISITS = TableSpec(
    "bronze/legacy_visits",
    {
        "visit_id": Column("BIGINT", "key", required=True),
        "event_time": Column("TIMESTAMP", "when it happened", required=True),
        "user_id": Column("STRING", "who visited", required=True, personal=True),
        "page": Column("STRING", "path that was visited", required=True),
        "ingestion_time": Column("TIMESTAMP", "when the database received it", required=True),
        "ingested_on": Column("DATE", "UTC day of ingestion_time", required=True),
    },
    partition_by=("ingested_on",),
    comment="One row per legacy visit. What the database deletes stays here: its rows are never changed.",
)
AUDITS = (
    Audit(name="every_row_has_a_delta_value", of="undated", fail_above=0, approvable=True),
    Audit.none_where("every_row_has_its_key", "`visit_id` IS NULL"),
)
LATENCY = timedelta(minutes=15)
"""The longest transaction of the source: its rows become visible that long after their ingestion time."""


def owned(day: str) -> dict[str, str]:
    """A run owns what was ingested on its day."""
    return {"ingested_on": day}


@dg.multi_asset(
    specs=[
        asset_spec(
            LEGACY_VISITS,
            patterns=[load_increment],
            owners=["team:ingestion"],
            code_version="1",
            partitions=DAILY,
        )
    ],
    check_specs=check_specs(LEGACY_VISITS, AUDITS, partitions=DAILY),
    config_schema=LAUNCHPAD,
    name="bronze_legacy_visits",
    pool="bronze_legacy_visits",
)
def legacy_visits(
    context: dg.AssetExecutionContext, lake: Lake, operational: OperationalDatabase, clock: Clock
) -> Iterator[Any]:
    """Load one day's window; loaded again, it gains the rows that became visible since."""
    table, now = lake.table(LEGACY_VISITS), clock.now()

    def window(day: str) -> tuple[datetime, datetime]:
        midnight = datetime.combine(datetime.fromisoformat(day), time(), timezone.utc)
        return midnight, midnight + timedelta(days=1)

    def reads(day: str) -> Inputs:
        end = window(day)[1]
        if now < end + LATENCY:
            raise NotReady(f"{SOURCE}: the window of {day} is complete {LATENCY} after {end:%Y-%m-%d %H:%M} UTC")
        return Inputs({SOURCE: now.isoformat()})

    def load(step: Step) -> WriteResult:
        with operational.rows(table.session, SOURCE, column="ingestion_time", window=window(step.key)) as rows:
            return load_increment(
                rows,
                table,
                delta="ingestion_time",
                window=window(step.key),
                partition=owned(step.key),
                keys=["visit_id"],
                provenance=replace(step.provenance, notes={"source": SOURCE}),
            )

    yield from run(context, Work(table, owned, reads, load), at=now)
