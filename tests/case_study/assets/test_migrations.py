"""Schema migrations in the graph: one phase per run, by a configuration that stays the same."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import dedp_assets.case_study.defs as case_study
from dedp_assets.case_study.defs.platform.migrations import schema_migrations
from dedp_assets.graph.checks.lineage import column_readers
from dedp_assets.graph.declare import declared
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin, Influence
from dedp_assets.patterns.quality._migration.phases import Stored
from dedp_assets.patterns.quality.schema_migrator import Migration
from tests.helpers import NOW, write_log

ORDERS = [
    {"id": 1, "day": "mon", "from_page": "/a", "device_type": "pc", "device_version": "7"},
    {"id": 2, "day": "tue", "from_page": None, "device_type": None, "device_version": None},
]
MOVES = {
    "table": "silver/orders",
    "name": "devices",
    "rename": {"from_page": "referral"},
    "nest": {"device": {"type": "device_type", "version": "device_version"}},
}
DEVICES = {"table": "silver/visits", "name": "devices", "nest": MOVES["nest"]}
OVER = NOW + timedelta(days=31)


def run(root, config=None, now=NOW):
    """The outcome of a run: metadata of the report, the verdict on deadlines, and the failure."""
    given = {"ops": {"platform_schema_migrations": {"config": config}}} if config else None
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [schema_migrations], instance=instance, run_config=given, raise_on_error=False,
            resources={"lake": Lake(root=str(root), engine=SparkEngine()), "clock": Clock(fixed=now.isoformat())},
        )  # fmt: skip
        failed = [event.event_specific_data for event in done.all_events if event.is_step_failure]
        if failed:
            return {}, None, failed[0].user_failure_data.description
        (told,) = done.asset_materializations_for_node("platform_schema_migrations")
        (verdict,) = done.get_asset_check_evaluations()
        return told.metadata, verdict, ""


def told(root, config, now=NOW):
    """The metadata of a step that was taken."""
    metadata, _, failure = run(root, config, now)
    assert failure == ""
    return {name: value.value for name, value in metadata.items() if name != "migrations"}


def phases(metadata):
    """Table -> phase in the report."""
    return {row.data["table"]: row.data["phase"] for row in metadata["migrations"].records}


def held(root, *columns):
    """Rows of the orders by an independent reader."""
    rows = DeltaTable(str(root / "silver/orders")).to_pyarrow_table(columns=["id", *columns]).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


OLD, NEW = ("from_page", "device_type", "device_version"), ("referral", "device")
OLD_ROWS = [{name: row[name] for name in ("id", *OLD)} for row in ORDERS]
NEW_ROWS = [
    {"id": 1, "referral": "/a", "device": {"type": "pc", "version": "7"}},
    {"id": 2, "referral": None, "device": None},
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A lake with orders; the tests of their migration tell one story."""
    root = tmp_path_factory.mktemp("lake")
    write_deltalake(str(root / "silver/orders"), pa.Table.from_pylist(ORDERS), partition_by=["day"])
    return root


@pytest.mark.spark
def test_old_queries_go_on_until_both_forms_are_equal(spark, lake):
    """A phase per run of the same configuration; the new columns are NULL until they are filled."""
    assert told(lake, MOVES)["state"] == "devices: declared since 2026-01-20T12:00:00+00:00"
    assert held(lake, *OLD) == OLD_ROWS
    assert told(lake, MOVES)["state"].startswith("devices: added since ")
    assert held(lake, *OLD) == OLD_ROWS
    assert held(lake, *NEW) == [{"id": n, "referral": None, "device": None} for n in (1, 2)]
    both = told(lake, MOVES)
    assert both["state"].endswith("until 2026-02-19T12:00:00+00:00")
    assert (both["rows"], both["differing"], both["filled partitions"]) == (2, 0, 1)
    assert both["both forms are equal on all rows"] == both["nobody reads the old columns"] == "yes"
    assert (held(lake, *OLD), held(lake, *NEW)) == (OLD_ROWS, NEW_ROWS)


@pytest.mark.spark
def test_the_old_columns_go_once_nobody_reads_them_and_the_time_is_over(spark, lake):
    """Each refusal names who, or until when; a run after the last phase costs no version."""
    _, _, failure = run(lake, {**MOVES, "consumers": {"dashboard": ["device_type"]}})
    assert "devices has to wait: dashboard reads device_type" in failure
    assert told(lake, MOVES)["state"].startswith("devices: switched since ")
    _, _, failure = run(lake, MOVES)
    assert "the old columns were promised until 2026-02-19T12:00:00+00:00" in failure
    assert held(lake, *OLD) == OLD_ROWS
    metadata, verdict, failure = run(lake, MOVES, OVER)
    assert (failure, verdict.passed, phases(metadata)) == ("", True, {"silver/orders": "removed"})
    table = DeltaTable(str(lake / "silver/orders"))
    assert {field.name for field in table.schema().fields} == {"id", "day", *NEW}
    assert held(lake, *NEW) == NEW_ROWS
    assert told(lake, MOVES, OVER)["state"].startswith("devices: removed since ")
    assert DeltaTable(str(lake / "silver/orders")).version() == table.version()


def test_without_a_configuration_all_migrations_are_reported(tmp_path):
    """By the logs alone: an empty lake has none, and one after its deadline is warned of."""
    assert phases(run(tmp_path)[0]) == {}
    known(tmp_path, "both")
    for now, passed in ((NOW, True), (OVER, False)):
        metadata, verdict, failure = run(tmp_path, now=now)
        assert (failure, verdict.passed, phases(metadata)) == ("", passed, {"silver/visits": "both"})
    assert verdict.severity == dg.AssetCheckSeverity.WARN
    assert {name: value.value for name, value in verdict.metadata.items()} == {
        "silver/visits: devices": (NOW + timedelta(days=30)).isoformat()
    }


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("declared", "silver/visits must declare device beside the old columns first"),
        ("switched", "silver/visits must no longer declare device_type, device_version"),
    ],
)
def test_a_phase_that_the_declaration_contradicts_is_refused(tmp_path, phase, message):
    """The table's own runs would be refused from then on; the log is as it was."""
    known(tmp_path, phase)
    _, _, failure = run(tmp_path, DEVICES, OVER)
    assert message in failure
    assert len([*(tmp_path / "silver/visits/_delta_log").glob("*.json")]) == 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**DEVICES, "table": "silver/nothing"}, "table must be one of the lake's own, not 'silver/nothing'"),
        ({**DEVICES, "table": ""}, "table must be one of the lake's own, not ''"),
        ({"table": "silver/visits", "name": "devices"}, "the migration devices must have a move, not none"),
        ({**DEVICES, "retype": {"id": {"too": "x"}}}, "retype and split must have the options of a move: "),
        ({**DEVICES, "nest": {}, "drop": ["page"]}, "must have the moves that it was declared with"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path, config, message):
    """The failure of the run says the reason, and nothing is written."""
    known(tmp_path, "declared")
    _, _, failure = run(tmp_path, config)
    assert message in failure
    assert len([*(tmp_path / "silver/visits/_delta_log").glob("*.json")]) == 2


def test_readers_of_a_column_are_declared_or_observed(tmp_path):
    """The case study's tables by declaration, another one by its plan: also a field, and what only chooses rows."""
    lineage = ColumnLineage(
        {"kind": ColumnOrigin((ColumnInput("silver/visits", "device", field="type"), ColumnInput("silver/ads", "x")))},
        (Influence("silver/visits", "page", "FILTER"),),
    )
    found = column_readers("silver/visits", declared(case_study), {"gold/observed": lineage})
    assert found["gold/observed"] == {"device.type", "page"}
    assert "device_type" in found["silver/visits_enriched"]
    assert "silver/visits" not in found


def test_declared_and_observed_readers_keep_the_old_columns(tmp_path):
    """The refusal names tables that read them by declaration, and one whose plan filters by them."""
    known(tmp_path, "both")
    lineage = ColumnLineage({}, (Influence("silver/visits", "device_version", "FILTER"),))
    held_ = json.dumps({"identity": "", "lineage": lineage.to_json()}).encode()
    Lake(root=str(tmp_path), engine=SparkEngine()).column_lineage("gold/daily_visitors").put("columns.json", held_)
    _, _, failure = run(tmp_path, DEVICES, OVER)
    assert "silver/visits_enriched reads device_type" in failure
    assert "gold/daily_visitors reads device_version" in failure


def known(root, phase):
    """Hand-write a log of visits that knows the migration in a phase, without an engine."""
    folder = root / "silver/visits"
    write_log(folder, {"page": "string", "device_type": "string", "device_version": "string"}, [], [])
    moves = json.loads(json.dumps(Migration(name="devices", nest=DEVICES["nest"]).moves))
    deadline = "" if phase == "declared" else (NOW + timedelta(days=30)).isoformat()
    state = Stored(phase, {phase: NOW.isoformat()}, deadline, moves)
    first = (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    metadata = next(json.loads(line) for line in first if '"metaData"' in line)
    metadata["metaData"]["configuration"] = {"dedp.migration.devices": json.dumps(asdict(state))}
    (folder / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(metadata))
