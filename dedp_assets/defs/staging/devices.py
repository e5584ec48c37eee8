"""The devices reference in staging: production's table, byte for byte."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dedp_assets.defs.bronze.devices import AUDITS, DEVICES
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.ingestion.full_loader import volume_guard
from dedp_assets.patterns.ingestion.passthrough_replicator import declare_replica, replicate_table
from dedp_assets.reporting import LAUNCHPAD, Inputs, Step, Work, asset_spec, check_specs, run
from resources.clock import Clock
from resources.lake import Lake

REPLICA = declare_replica(DEVICES, name="staging/devices")


def owned(_: str) -> dict[str, str]:
    """A run owns the whole replica."""
    return {}


@dg.multi_asset(
    specs=[
        asset_spec(
            REPLICA,
            patterns=[replicate_table],
            owners=["team:ingestion"],
            code_version="1",
            deps=[DEVICES.name.split("/")],
        )
    ],
    check_specs=check_specs(REPLICA, (*AUDITS, *volume_guard())),
    config_schema=LAUNCHPAD,
    name="staging_devices",
    pool="staging_devices",
)
def devices(context: dg.AssetExecutionContext, lake: Lake, clock: Clock) -> Iterator[Any]:
    """Push the newest version; log and history come along, so checks and metadata are production's own."""
    source, replica = lake.table(DEVICES), lake.table(REPLICA)

    def reads(_: str) -> Inputs:
        version = source.ledger.version()
        return Inputs({DEVICES.name: version}, versions={DEVICES.name: version})

    def push(step: Step) -> WriteResult:
        version = step.inputs.versions[DEVICES.name]
        return replicate_table(source, replica, provenance=step.provenance, version=version)

    yield from run(context, Work(replica, owned, reads, push), at=clock.now())
