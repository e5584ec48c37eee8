"""Published contracts as a table: versions, what rows were written under, and drift of declarations."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest
from deltalake import DeltaTable

from dedp_assets.case_study.defs.platform import contracts as module
from dedp_assets.graph.catalogue.contracts import ContractFolder
from dedp_assets.graph.checks.contracts import declared_contract
from dedp_assets.graph.declare import declared
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from tests.helpers import NOW, a_record, write_log

pytestmark = pytest.mark.spark
CUBE, DEVICES = "gold/visits_cube", "gold/devices"
ASSET = module.contracts.definition()


def rows(root):
    """Table and version -> row, by an independent reader."""
    found = DeltaTable(str(root / "platform/contracts")).to_pyarrow_table().to_pylist()
    return {(row["dataset"], row["version"]): row for row in found}


def run(root):
    """The verdict of a run, and the version of the table after it."""
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [ASSET], instance=instance,
            resources={"lake": Lake(root=str(root), engine=SparkEngine()), "clock": Clock(fixed=NOW.isoformat())},
        )  # fmt: skip
        (verdict,) = [each for each in done.get_asset_check_evaluations() if each.check_name == module.REPORT]
        return verdict, DeltaTable(str(root / "platform/contracts")).version()


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Two contracts as declared; rows of the cube were written under the first version."""
    folder, tables = ContractFolder(tmp_path / "documents"), declared(module.case_study)
    monkeypatch.setattr(module, "FOLDER", folder)
    cube, devices = (declared_contract(tables, name) for name in (CUBE, DEVICES))
    folder.publish(replace(cube, published_at=NOW - timedelta(days=1)))
    folder.publish(devices)
    record = a_record(CUBE, {"event_date": "2026-01-05"}, notes={"contracts": {CUBE: "1.0.0"}})
    write_log(tmp_path / CUBE, {"event_date": "date"}, ["event_date"], [{"record": record}])
    return folder, cube, devices


def test_each_published_version_is_a_row_and_what_differs_is_named(spark, tmp_path, published):
    """A first night, one without a change, and one after a publish, a commit and a change of a declaration."""
    folder, cube, devices = published
    verdict, version = run(tmp_path)
    assert verdict.passed
    first = rows(tmp_path)
    assert {key: (row["status"], row["is_current"], row["drift"]) for key, row in first.items()} == {
        (CUBE, "1.0.0"): ("active", True, "none"),
        (DEVICES, "1.0.0"): ("active", None, "none"),
    }
    held = first[CUBE, "1.0.0"]
    assert (
        held.items()
        >= {
            "owner": cube.owner,
            "columns": len(cube.columns),
            "consumers": [each.name for each in cube.consumers],
            "published_at": NOW - timedelta(days=1),
            "fresh_hours": cube.sla.fresh_hours,
            "due": None,
            "written_under": "1.0.0",
            "differences": None,
        }.items()
    )

    verdict, again = run(tmp_path)
    assert (verdict.passed, again) == (True, version)

    folder.publish(replace(cube, version="2.0.0"))
    folder.publish(replace(devices, columns={n: c for n, c in devices.columns.items() if n != "full_name"}))
    verdict, after = run(tmp_path)
    assert (verdict.passed, verdict.severity, after) == (False, dg.AssetCheckSeverity.WARN, version + 1)
    assert verdict.description == (
        f"{DEVICES}: declared with compatible differences from 1.0.0: columns.full_name: a column is added: "
        f"full_name STRING\n{CUBE}: written under 1.0.0, published is 2.0.0"
    )
    found = rows(tmp_path)
    assert found[CUBE, "1.0.0"] == {**held, "status": "retired"}
    assert (found[CUBE, "2.0.0"]["status"], found[CUBE, "2.0.0"]["is_current"]) == ("active", False)
    assert found[DEVICES, "1.0.0"]["drift"] == "compatible"
    assert len(found) == 3
