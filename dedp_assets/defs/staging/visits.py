"""Visits in staging: production's rows without what is personal in them."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dedp_assets.defs.silver.visits import VISITS, of_day
from dedp_assets.partitions import DAILY
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.ingestion.transformation_replicator import (
    NOTHING_CROSSED,
    declare_transformed,
    replicate_transformed,
)
from dedp_assets.reporting import LAUNCHPAD, Inputs, Step, Work, asset_spec, check_specs, pin, run
from resources.clock import Clock
from resources.lake import Lake
from resources.secrets import Secrets

REPLICA = declare_transformed(VISITS, name="staging/visits")


@dg.multi_asset(
    specs=[
        asset_spec(
            REPLICA,
            patterns=[replicate_transformed],
            owners=["team:web-analytics"],
            code_version="1",
            deps=[VISITS.name.split("/")],
            partitions=DAILY,
        )
    ],
    check_specs=check_specs(REPLICA, (NOTHING_CROSSED,), partitions=DAILY),
    config_schema=LAUNCHPAD,
    name="staging_visits",
    pool="staging_visits",
)
def visits(context: dg.AssetExecutionContext, lake: Lake, clock: Clock, secrets: Secrets) -> Iterator[Any]:
    """Push one event date: personal columns leave, or become pseudonyms, as silver declares them."""
    source, replica = lake.table(VISITS), lake.table(REPLICA)

    def reads(day: str) -> Inputs:
        return pin(source.ledger, day, of_day(day), written=of_day(day))

    def push(step: Step) -> WriteResult:
        return replicate_transformed(
            source,
            replica,
            provenance=step.provenance,
            key=secrets.masking_key(),
            partition=of_day(step.key),
            version=step.inputs.versions[VISITS.name],
        )

    yield from run(context, Work(replica, of_day, reads, push), at=clock.now())
