"""Devices as published, from their delivery to gold: every version is kept, one is shown."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.case_study.defs.gold.devices import DEVICES, devices
from dedp_assets.case_study.sources import devices as deliveries
from dedp_assets.graph.checks.stored import stored_checks
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.delta.versions import version_of
from dedp_assets.patterns.delta.versions.exposure import exposures
from dedp_assets.patterns.delta.versions.version_tables import names
from dedp_assets.patterns.idempotency.proxy import switch_version
from tests.helpers import a_run, rows_at

pytestmark = pytest.mark.both
TABLE = "gold/devices"


def deliver(world, **named):
    lines = [json.dumps({"type": "tv", "version": v, "full_name": name}) for v, name in named.items()]
    deliveries.deliver(world.landing / "devices", lines)
    assert world.react() == [("refresh_devices", "")]


def named(rows):
    return {row["version"]: row["full_name"] for row in rows}


def is_readable(world):
    """The verdict of the check on what is stored, which needs no engine."""
    check = dg.AssetCheckKey(dg.AssetKey(["gold", "devices"]), "every_version_is_readable")
    lake = lake_of(world.settings)
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [stored_checks(devices)],
            instance=instance,
            selection=dg.AssetSelection.checks(check),
            resources={"lake": lake, "clock": Clock(fixed="2026-01-08T01:00:00+00:00")},
        )
    (evaluation,) = done.get_asset_check_evaluations()
    return evaluation.passed


def test_every_version_is_kept_and_one_is_shown(world):
    """Two deliveries, a forced run, the night's maintenance and a rollback, after which the graph catches up."""
    deliver(world, a="Alpha", b="Beta")
    deliver(world, a="Alpha", b="Beta 2", c="Gamma")
    table = lake_of(world.settings).table(DEVICES)
    shown, before = next(exposures(table)), {"a": "Alpha", "b": "Beta 2", "c": "Gamma"}
    assert named(rows_at(table.store)) == before
    assert world.materialization(TABLE)["rows written"] == 3
    assert named(rows_at(version_of(table, shown.instead_of).store)) == {"a": "Alpha", "b": "Beta"}

    assert world.compute(TABLE, **{FORCE: "true"}).failure == ""
    assert named(rows_at(table.store)) == before
    assert len(names(table)) == 3
    assert world.react() == []

    assert world.run("maintain_tables").failure == ""
    maintained = {row.data["table"] for row in world.materialization("platform/maintenance")["tables"].records}
    assert "silver/devices" in maintained
    assert TABLE not in maintained
    assert is_readable(world)

    switch_version(table.target(a_run(TABLE)), version=shown.instead_of, because="the names are not agreed yet")
    assert named(rows_at(table.store)) == {"a": "Alpha", "b": "Beta"}
    assert world.react() == [(TABLE, "")]
    assert named(rows_at(table.store)) == before
    assert len(names(table)) == 4
    version_of(table, shown.instead_of).store.delete(f"_delta_log/{1:020d}.json")
    assert not is_readable(world)
