"""Devices as published, from their delivery to gold: every version is kept, one is shown."""

from __future__ import annotations

import json

import pytest

from dedp_assets.defs.gold.devices import DEVICES
from dedp_assets.graph.run_tags import FORCE
from dedp_assets.patterns.delta.copies.exposure import exposures
from dedp_assets.patterns.delta.copies.versions import names, version_of
from dedp_assets.patterns.idempotency.proxy import switch_version
from dedp_assets.sources import devices
from resources.lake import Lake
from resources.spark import SparkEngine
from tests.helpers import a_run, read_back

pytestmark = pytest.mark.spark
TABLE = "gold/devices"


def deliver(world, **named):
    lines = [json.dumps({"type": "tv", "version": v, "full_name": name}) for v, name in named.items()]
    devices.deliver(world.landing / "devices", lines)
    assert world.react() == [("refresh_devices", "")]


def named(rows):
    return {row["version"]: row["full_name"] for row in rows}


def test_every_version_is_kept_and_one_is_shown(world):
    """Two deliveries, a forced run, the night's maintenance and a rollback, after which the graph catches up."""
    deliver(world, a="Alpha", b="Beta")
    deliver(world, a="Alpha", b="Beta 2", c="Gamma")
    table = Lake(root=str(world.settings.lakehouse), engine=SparkEngine()).table(DEVICES)
    shown, before = next(exposures(table)), {"a": "Alpha", "b": "Beta 2", "c": "Gamma"}
    assert named(read_back(table)) == before
    assert world.materialization(TABLE)["rows written"] == 3
    assert named(read_back(version_of(table, shown.instead_of))) == {"a": "Alpha", "b": "Beta"}

    assert world.compute(TABLE, **{FORCE: "true"}).failure == ""
    assert named(read_back(table)) == before
    assert len(names(table)) == 3
    assert world.react() == []

    assert world.run("maintain_tables").failure == ""
    maintained = {row.data["table"] for row in world.materialization("platform/maintenance")["tables"]}
    assert "silver/devices" in maintained
    assert TABLE not in maintained
    assert world.run("check_tables").failure == ""
    assert {check: ok for check, ok in world.checks(TABLE).items() if not ok} == {}
    assert world.checks(TABLE)["every_version_is_readable"]

    switch_version(table, version=shown.instead_of, because="the names are not agreed yet", provenance=a_run(TABLE))
    assert named(read_back(table)) == {"a": "Alpha", "b": "Beta"}
    assert world.react() == [(TABLE, "")]
    assert named(read_back(table)) == before
    assert len(names(table)) == 4
