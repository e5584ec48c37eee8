"""Devices reference, complete at each delivery: a folder with a marker, or a release by an event."""

from collections.abc import Mapping
from typing import Any

from dedp_assets.graph.declare import (
    About,
    Inputs,
    Job,
    OnDelivery,
    OnEvent,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    lake_table,
)
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns import (
    Audit,
    Column,
    Ledger,
    Table,
    TableSpec,
    Target,
    WriteResult,
    divert_unprocessable,
    load_full,
    volume_guard,
)
from dedp_assets.patterns.connectors.landing.lines import read_lines

DEVICES = TableSpec(
    "bronze/devices",
    {
        "type": Column("STRING", "kind of device; with version its key", required=True, classification="public"),
        "version": Column("STRING", "version of the device", required=True, classification="public"),
        "full_name": Column("STRING", "name people know it by", required=True, classification="public"),
    },
    comment="One row per device of the provider's newest complete delivery.",
)
DELIVERIES = Source(
    "landing/devices",
    "The provider's devices reference, complete at each delivery; `_SUCCESS` ends one.",
    kinds=("file", "json"),
    owner="team:ingestion",
)
RELEASED = Source(
    "landing/device_releases",
    "Releases of the devices reference that an event announces, one file each.",
    kinds=("file", "json"),
    owner="team:ingestion",
)
SCHEMA = {name: column.type for name, column in DEVICES.columns.items()}
RELEASES = "device_releases"
AUDITS = (Audit(name="every_device_is_readable", of="dead", fail_above=0),)


def delivered(request: Request, table: Table, landing: Landing) -> Inputs:
    """Find the delivery, or the release named by the run's event.

    A release that was announced before the one that is loaded changes nothing, however late its event comes.
    """
    inputs, notes = _loaded(table.ledger)
    if not (event := request.trigger):
        delivery = landing.delivery("devices").require_ready()
        content = landing.content("devices", delivery)
        landed_notes = {**notes, "delivery": delivery.identity, "release": ""}
        return Inputs({"landing/devices": content}, notes=landed_notes, found=delivery)
    if event["event_time"] < notes["event_time"]:
        text = f"{event['object']} is superseded: the release of {notes['event_time']} is loaded"
        return Inputs(inputs, notes=notes, remark=text)
    delivery = landing.object(RELEASES, event["object"])
    content = landing.content(RELEASES, delivery)
    named = {"release": event["object"], "event_time": event["event_time"]}
    return Inputs({f"landing/{RELEASES}": content}, notes={**notes, **named}, found=delivery)


JOB = Job(
    "refresh_devices",
    "The devices reference, complete.",
    'key:"bronze/devices"+ and (group:"bronze" or group:"silver" or group:"gold") '
    'and not key:"silver/visits_enriched"+',
)


@lake_table(
    DEVICES,
    reads=Reads(sources=[DELIVERIES, RELEASED], inputs=delivered),
    runs=Runs(
        when=[OnDelivery("devices"), OnEvent([{"type": "dedp.devices.published"}, {"type": "dedp.feature.released"}])],
        job=JOB,
    ),
    gates=(*AUDITS, *volume_guard()),
    about=About(
        used_by="staging and analysts, who join it to the user agents of visits",
        figures={"present": "rows before"},
        unchecked={
            "freshness": "a catalogue that is delivered when it changes",
            "volume": "a whole catalogue per delivery, held against the one before by the loader's audit",
        },
    ),
    patterns=[load_full, divert_unprocessable],
)
def devices(step: Step, into: Target, landing: Landing) -> WriteResult:
    """Replace all devices by the delivery, unless the volume guard refuses the delivery."""
    release = step.inputs.notes["release"]
    dataset = RELEASES if release else "devices"
    # A superseded release was not looked at: what is loaded instead is the one that is loaded already.
    delivery = step.inputs.found or (landing.object(RELEASES, release) if release else landing.delivery("devices"))
    lines = read_lines(into.table.session, landing.paths(dataset, delivery))
    split = divert_unprocessable(lines.rows, payload="raw", schema=SCHEMA, identity=["source_file", "line_number"])
    return load_full(split.narrowed("valid", DEVICES.columns), into)


def _loaded(ledger: Ledger) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Return the inputs of the present rows, and the last delivery and release."""
    last = ledger.latest({}) if ledger.exists() else None
    record = last.record if last else None
    notes = record.notes if record else {}
    return record.inputs if record else {}, {
        name: notes.get(name, "") for name in ("delivery", "release", "event_time")
    }
