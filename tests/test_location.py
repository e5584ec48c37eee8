"""The definitions of a project's code location."""

from __future__ import annotations

import sys

import dagster as dg
import pytest

from dedp_assets.graph.declare import Runs
from dedp_assets.location import lake_definitions, lake_resources, lake_sensors, lake_tables

IN_YAML = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/copies
    columns: {day: {type: DATE, required: true}, n: {type: BIGINT}}
    partition_by: [day]
  reads: {tables: {silver/numbers: {same: {column: day}}}}
  runs: {partitions: {daily: {start: 2026-01-05}}, when: {nightly: {cron: "0 2 * * *", lookback: 3}}}
  about: {owner: "team:x"}
  code_version: "1"
  steps: [{tally: {identity: [n]}}, {idempotency.data_overwrite: {allow_empty: true}}]
"""
IN_PYTHON = """
from datetime import date
from dedp_assets.graph.declare import About, OnRequest, Reads, Runs, Target, lake_table
from dedp_assets.graph.declare.partitions import daily
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition

NUMBERS = TableSpec("silver/numbers", {"day": Column("DATE"), "n": Column("BIGINT")}, partition_by=("day",))


@lake_table(
    NUMBERS,
    reads=Reads({}, inputs=lambda: None),
    runs=Runs(daily(date(2026, 1, 5)), OnRequest()),
    about=About("team:x"),
    patterns=[overwrite_partition],
    code_version="1",
)
def numbers(into: Target) -> WriteResult:
    raise AssertionError("this table is loaded in tests, and never computed")
"""


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A project with a table in Python and one in YAML that reads it."""
    name = f"lake_{tmp_path.name}"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "pyproject.toml").write_text(f'[tool.dg.project]\nroot_module = "{name}"\n')
    defs = tmp_path / name / "defs"
    (defs / "copies").mkdir(parents=True)
    for package in (defs.parent, defs):
        (package / "__init__.py").touch()
    (defs / "numbers.py").write_text(IN_PYTHON)
    (defs / "copies" / "defs.yaml").write_text(IN_YAML)
    return defs.parent


def test_tables_in_both_languages_are_one_graph(lake):
    """Each with its checks, and both with the sensors over all tables."""
    definitions = lake_definitions(lake)
    graph, repository = definitions.resolve_asset_graph(), definitions.get_repository_def()
    keys = {"/".join(key.path) for key in graph.get_all_asset_keys()}
    assert keys == {"silver/numbers", "gold/copies"}
    assert graph.get(dg.AssetKey(["gold", "copies"])).parent_keys == {dg.AssetKey(["silver", "numbers"])}
    assert {sensor.name for sensor in repository.sensor_defs} == {"deliveries", "reconciler"}
    assert len(repository.schedule_defs) == 1
    assert [table.spec.name for table in lake_tables(lake)] == ["silver/numbers", "gold/copies"]


def test_a_job_of_a_table_in_yaml_may_be_asked_for_by_a_sensor(lake):
    """The job that a sensor names is the one that Dagster loaded, and no second one of the same name."""
    asked = []

    def sensors(tables, jobs):
        asked.extend(jobs)

        @dg.sensor(jobs=jobs)
        def asks_for_all() -> None: ...

        return [asks_for_all]

    definitions = lake_definitions(lake, sensors=sensors)
    assert {job.name for job in asked} <= {job.name for job in definitions.get_repository_def().get_all_jobs()}
    assert asked


def test_resources_are_added_and_replaced_by_name(lake):
    """What a table's function asks for beyond the lake is the project's own."""
    mine = dg.ResourceDefinition.hardcoded_resource("mine")
    resources = lake_definitions(lake, resources={"orders_api": mine, "secrets": mine}).resources
    assert set(resources) == {*lake_resources(), "orders_api"}
    assert resources["orders_api"] is resources["secrets"] is mine


def test_sensors_without_work_are_left_out(lake):
    """No replay and no announced event: no sensor for them."""
    tables = lake_tables(lake)
    assert isinstance(tables[0].runs, Runs)
    assert {sensor.name for sensor in lake_sensors(tables, [])} == {"deliveries", "reconciler"}


def test_a_project_whose_tables_name_persons_erases_by_request(lake):
    """By an asset with its check, a job, a schedule and a sensor; without a person there is nothing to erase."""
    assert "go_on_with_erasures" not in jobs_of(lake)
    file = lake / "defs/copies/defs.yaml"
    file.write_text(file.read_text().replace("n: {type: BIGINT}", "n: {type: BIGINT, subject: user}"))
    found = lake_definitions(lake)
    assert "go_on_with_erasures" in {job.name for job in found.resolve_all_job_defs()}
    assert dg.AssetKey(["platform", "erasures"]) in found.resolve_asset_graph().get_all_asset_keys()
    assert {each.name for each in found.sensors} >= {"erasures_requested"}
    assert {each.name for each in found.schedules} >= {"erasures_every_night"}


def jobs_of(lake):
    """The names of the jobs of a project."""
    return {job.name for job in lake_definitions(lake).resolve_all_job_defs()}
