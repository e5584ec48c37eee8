"""Completeness of visits, from landing to the finding."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.case_study.defs.silver.devices import DEVICES_CURRENT
from dedp_assets.case_study.sources import devices
from dedp_assets.graph.resources.lake import lake_of
from tests.case_study.assets.conftest import day, visits_of
from tests.helpers import a_run

pytestmark = pytest.mark.spark

TABLE, CHECK = "platform/completeness_of_visits", "rows_values_and_references_are_present"


def know_devices(world):
    """Let silver/devices_current hold the devices of the generator."""
    kinds = {(each["type"], each["version"]) for each in map(json.loads, devices.devices())}
    table = lake_of(world.settings).table(DEVICES_CURRENT)
    rows = table.session.createDataFrame(sorted(kinds), "type STRING, version STRING")
    rows = rows.selectExpr("type", "version", "type AS full_name", "timestamp'2026-01-01' AS valid_from", "type AS p")
    table.overwrite(rows.withColumnRenamed("p", "previous_full_name"), provenance=a_run(DEVICES_CURRENT.name))


def figures(world, number):
    return {row["figure"]: row["rows"] for row in world.rows(TABLE, event_date=day(number))}


def test_missing_rows_and_strange_values_warn_with_their_counts(world):
    """A usual day passes; a day with torn lines, an unknown status and an unknown device is kept, and told of."""
    know_devices(world)
    world.land(day(0), visits_of(0))
    strange = [json.loads(line) for line in visits_of(1)]
    strange[0]["status"], strange[1]["device_type"] = 299, "toaster"
    lines = list(map(json.dumps, strange))
    world.land(day(1), lines, repeat=10)
    world.react()
    assert world.compute(TABLE, day(0)).failure == ""
    counts = figures(world, 0)
    assert (counts["rows"], counts["source rows"], counts["orphans of device_type"]) == (40, 40, 0)
    missing = sum("referrer" not in json.loads(line) for line in visits_of(0))
    assert counts["nulls of referrer"] == missing > 0
    assert world.evaluation(TABLE, CHECK).passed
    assert world.compute(TABLE, day(1)).failure == ""
    counts = figures(world, 1)
    assert (counts["rows"], counts["source rows"]) == (40, 50)
    assert (counts["unknown values of status"], counts["orphans of device_type"]) == (1, 1)
    found = world.evaluation(TABLE, CHECK)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    for sentence in ("40 rows of 50 at the source", "'299' (1)", "'toaster' (1)"):
        assert sentence in found.description
