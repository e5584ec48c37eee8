"""The devices reference, complete at each delivery."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.lines import read_lines
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.ingestion.full_loader import load_full, volume_guard
from dedp_assets.reporting import Inputs, Step, Work, asset_spec, check_specs, run
from resources.clock import Clock
from resources.lake import Lake
from resources.landing import Landing

DEVICES = TableSpec(
    "bronze/devices",
    {
        "type": Column("STRING", "kind of device; with version its key", required=True),
        "version": Column("STRING", "version of the device", required=True),
        "full_name": Column("STRING", "name people know it by", required=True),
    },
    comment="One row per device of the provider's newest complete delivery.",
)
SCHEMA = {name: column.type for name, column in DEVICES.columns.items()}
AUDITS = (Audit(name="every_device_is_readable", of="dead", fail_above=0),)


def owned(_: str) -> dict[str, str]:
    """A run owns the whole table."""
    return {}


@dg.multi_asset(
    specs=[
        asset_spec(DEVICES, patterns=[load_full, divert_unprocessable], owners=["team:ingestion"], code_version="1")
    ],
    check_specs=check_specs(DEVICES, (*AUDITS, *volume_guard())),
    name="bronze_devices",
    pool="bronze_devices",
)
def devices(context: dg.AssetExecutionContext, lake: Lake, landing: Landing, clock: Clock) -> Iterator[Any]:
    """Replace all devices by the delivered ones, unless the delivery's volume says that it is broken."""
    table = lake.table(DEVICES)

    def reads(_: str) -> Inputs:
        delivery = landing.delivery("devices").require_ready()
        content = landing.content("devices", delivery)
        return Inputs({"landing/devices": content}, notes={"delivery": delivery.identity})

    def load(step: Step) -> WriteResult:
        lines = read_lines(table.session, landing.paths("devices", landing.delivery("devices")))
        split = divert_unprocessable(lines.rows, payload="raw", schema=SCHEMA, identity=["source_file", "line_number"])
        return load_full(split.narrowed("valid", DEVICES.columns), table, provenance=step.provenance, audits=AUDITS)

    yield from run(context, Work(table, owned, reads, load), at=clock.now())
