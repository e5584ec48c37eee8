"""The devices reference, complete at each delivery: one that its marker ends, or a release that an event names."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from dedp_assets.patterns.connectors.lines import read_lines
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.log import Ledger
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.ingestion.full_loader import load_full, volume_guard
from dedp_assets.reporting import LAUNCHPAD, Inputs, Step, Work, asset_spec, check_specs, run, told
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
RELEASES = "device_releases"
AUDITS = (Audit(name="every_device_is_readable", of="dead", fail_above=0),)


def owned(_: str) -> dict[str, str]:
    """A run owns the whole table."""
    return {}


@dg.multi_asset(
    specs=[
        asset_spec(DEVICES, patterns=[load_full, divert_unprocessable], owners=["team:ingestion"], code_version="1")
    ],
    check_specs=check_specs(DEVICES, (*AUDITS, *volume_guard())),
    config_schema=LAUNCHPAD,
    name="bronze_devices",
    pool="bronze_devices",
)
def devices(context: dg.AssetExecutionContext, lake: Lake, landing: Landing, clock: Clock) -> Iterator[Any]:
    """Replace all devices by the delivered ones, unless the delivery's volume says that it is broken.

    A release that was announced before the one that is loaded changes nothing, however late its event comes.
    """
    table, event = lake.table(DEVICES), told(context.run.tags)

    def reads(_: str) -> Inputs:
        inputs, notes = _loaded(table.ledger)
        if not event:
            delivery = landing.delivery("devices").require_ready()
            content = landing.content("devices", delivery)
            stated = {**notes, "delivery": delivery.identity, "release": ""}
            return Inputs({"landing/devices": content}, notes=stated, found=delivery)
        if event["event_time"] < notes["event_time"]:
            context.log.info(f"{event['object']} is superseded: the release of {notes['event_time']} is loaded")
            return Inputs(inputs, notes=notes)
        delivery = landing.object(RELEASES, event["object"])
        content = landing.content(RELEASES, delivery)
        named = {"release": event["object"], "event_time": event["event_time"]}
        return Inputs({f"landing/{RELEASES}": content}, notes={**notes, **named}, found=delivery)

    def load(step: Step) -> WriteResult:
        release = step.inputs.notes["release"]
        dataset = RELEASES if release else "devices"
        # A superseded release was not looked at: what is loaded instead is the one that is loaded already.
        delivery = step.inputs.found or (landing.object(RELEASES, release) if release else landing.delivery("devices"))
        lines = read_lines(table.session, landing.paths(dataset, delivery))
        split = divert_unprocessable(lines.rows, payload="raw", schema=SCHEMA, identity=["source_file", "line_number"])
        return load_full(split.narrowed("valid", DEVICES.columns), table, provenance=step.provenance, audits=AUDITS)

    yield from run(context, Work(table, owned, reads, load), at=clock.now())


def _loaded(ledger: Ledger) -> tuple[Mapping[str, Any], dict[str, str]]:
    """What the present rows were computed from, and which delivery and which release came last."""
    last = ledger.latest({}) if ledger.exists() else None
    record = last.record if last else None
    notes = record.notes if record else {}
    return record.inputs if record else {}, {
        name: notes.get(name, "") for name in ("delivery", "release", "event_time")
    }
