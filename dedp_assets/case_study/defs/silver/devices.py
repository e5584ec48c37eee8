"""Devices at any time, and current devices, from the changes of each delivery of the reference."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from dedp_assets.case_study.defs.bronze.devices import DEVICES as DELIVERED
from dedp_assets.graph.declare import About, Pinned, Step, lake_table
from dedp_assets.graph.inputs.history import row_changes
from dedp_assets.patterns import (
    Column,
    ConfigError,
    Table,
    TableSpec,
    Target,
    WriteResult,
    keep_versions,
    show_previous_values,
)
from dedp_assets.patterns.modeling.versioned_dimension import AUDITS, VERSION, ChangeStream

_DEVICE = {
    "type": Column("STRING", "kind of device; with version its key", required=True),
    "version": Column("STRING", "version of the device", required=True),
    "full_name": Column("STRING", "name people know it by"),
}
DEVICES = TableSpec(
    "silver/devices",
    {
        **_DEVICE,
        "current_full_name": Column("STRING", "name people know it by now; NULL if it is no longer delivered"),
        "previous_full_name": Column("STRING", "name it had before; NULL if there was none"),
        **VERSION,
    },
    comment="One row per state of a device, with the time it was true, and its names before and now.",
)
DEVICES_CURRENT = TableSpec(
    "silver/devices_current",
    {
        **_DEVICE,
        "valid_from": Column("TIMESTAMP", "since when it has its name", required=True),
        "previous_full_name": Column("STRING", "name it had before; NULL if there was none"),
    },
    comment="One row per device that is delivered now, with its name before.",
)
KEYS = ("type", "version")
STREAM = ChangeStream(keys=KEYS, event_time="delivered_at", sequence="delivery", deleted="is_gone")
PRESENT = """
    SELECT type, version, full_name, timestamp({at}) AS delivered_at, {number} AS delivery, false AS is_gone
    FROM {delivered}
"""
GONE = """
    SELECT type, version, CAST(NULL AS STRING) AS full_name, timestamp({at}) AS delivered_at, {number} AS delivery,
        true AS is_gone
    FROM {before} ANTI JOIN {delivered} USING (type, version)
"""
LIVING = "SELECT type, version FROM {versions} WHERE is_current"


@lake_table(
    DEVICES,
    reads=[DELIVERED],
    gates=AUDITS,
    about=About(
        owner="team:ingestion",
        derived={"current_full_name": ["full_name"], "previous_full_name": ["full_name"]},
    ),
    patterns=[keep_versions],
)
def devices(step: Step, delivered: Pinned, into: Target) -> WriteResult:
    """Apply the deliveries since the last run, in order, to the versions of the devices."""
    names = ["full_name"]
    return keep_versions(
        reduce(
            lambda some, more: some.unionByName(more), _changes(delivered, into.table, since=step.applied(into.table))
        ),
        into,
        stream=STREAM,
        current=names,
        previous=names,
        rebuild=into.run.cause == "repair",
    )


@lake_table(
    DEVICES_CURRENT,
    reads=[DEVICES],
    about=About(owner="team:ingestion", used_by="analysts, who ask what a device was called before"),
    patterns=[show_previous_values],
)
def devices_current(versions: Pinned, into: Target) -> WriteResult:
    """Show the devices of the newest delivery, with current and previous names."""
    columns = [c for c in DEVICES.columns if c not in ("current_full_name", "previous_full_name")]
    shown = show_previous_values(versions.rows().select(*columns), keys=KEYS, previous=["full_name"])
    return into.by("modeling.previous_value_dimension").stage(shown).publish()


def _changes(delivered: Pinned, table: Table, *, since: int | None) -> Iterator[Any]:
    """Yield, for each delivery after a version, the delivered devices and the devices that went missing.

    One whose files a vacuum removed is passed over: where it was applied before, it still counts.
    """
    before = table.session.sql(LIVING, versions=table.read()) if since is not None else None
    for commit in row_changes(delivered.table.ledger, since=-1 if since is None else since, until=delivered.version):
        try:
            rows = delivered.table.read(version=commit.version)
        except ConfigError:
            continue
        at = commit.record.at if commit.record else commit.timestamp.isoformat()
        parameters: dict[str, Any] = {"at": at, "number": commit.version, "delivered": rows}
        yield rows.sparkSession.sql(PRESENT, **parameters)
        if before is not None:
            yield rows.sparkSession.sql(GONE, before=before, **parameters)
        before = rows
