"""Maintenance of a file, run: reports, checks, and runs that a plan asks for."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from dedp_assets.components.tending.acting import declare, draft
from dedp_assets.components.tending.maintaining import maintenance_of
from dedp_assets.components.yaml.documents import documents
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.helpers import NOW, a_run, active_files, read_back, write_log

ITEMS = TableSpec("silver/items", {"id": Column("BIGINT"), "event_date": Column("DATE")}, partition_by=("event_date",))
OTHER = TableSpec("silver/other", {"id": Column("BIGINT"), "event_date": Column("DATE")}, partition_by=("event_date",))
SPECS = {spec.name: spec for spec in (ITEMS, OTHER)}
FILE = """
type: dedp_assets.components.MaintenanceComponent
attributes:
  name: platform/upkeep
  owner: team:data
  tables: {tables}
  when: {{{when}}}
  actions:
{actions}
"""
ACTIONS = """
    - ingestion.compactor.plan_compaction: {min_small_files: 2}
    - error_management.windowed_deduplicator.judge_uniqueness: {keys: [id]}
    - ingestion.compactor: {min_small_files: 2}
    - ingestion.compactor.vacuum: {retention_hours: 720}
"""


def definitions(tables="[silver/items, silver/other]", when="on_request: {}", actions=ACTIONS):
    """What Dagster gets of a file."""
    (document,) = documents(FILE.format(tables=tables, when=when, actions=actions), "defs.yaml")
    upkeep, faults = declare(draft(document), SPECS)
    assert not faults
    return maintenance_of(upkeep)


@pytest.fixture
def lake(tmp_path):
    """An empty lake."""
    return Lake(root=str(tmp_path), engine=SparkEngine())


def run(lake, made):
    """Run the asset; the result, its checks, and the rows of its report."""
    (asset,) = made.assets
    resources = {"lake": lake, "clock": Clock(fixed=NOW.isoformat())}
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([asset], resources=resources, instance=instance, raise_on_error=False)
        event = instance.get_latest_materialization_event(dg.AssetKey(["platform", "upkeep"]))
    checks = {each.check_name: each.passed for each in done.get_asset_check_evaluations()}
    return done, checks, [row.data for row in event.asset_materialization.metadata["actions"].records]


def appended(spark, table, *ids):
    """Rows in a commit of their own."""
    sequence = table.ledger.version() + 1 if table.ledger.exists() else 0
    rows = spark.createDataFrame([(each, "2026-01-05") for each in ids], "id BIGINT, day STRING")
    table.append(rows.selectExpr("id", "date(day) AS event_date"), provenance=a_run(table.name, sequence=sequence))


@pytest.mark.spark
def test_actions_run_on_each_table_in_turn(spark, lake):
    """A failed inspection keeps the later actions from one table, and from no other; the rows stay."""
    items, other = lake.table(ITEMS), lake.table(OTHER)
    for ids in ((1,), (2,), (1,)):
        appended(spark, items, *ids)
    for ids in ((1,), (2,)):
        appended(spark, other, *ids)
    before = read_back(other)
    done, checks, report = run(lake, definitions())
    assert done.success
    assert checks == {"silver_items_judge_uniqueness": False, "silver_other_judge_uniqueness": True}
    assert [row["action"] for row in report if row["table"] == "silver/items"] == [
        "plan_compaction",
        "judge_uniqueness",
    ]
    by_action = {row["action"]: row for row in report if row["table"] == "silver/other"}
    assert json.loads(by_action["plan_compaction"]["figures"]) == {"partitions": ["event_date=2026-01-05"]}
    assert by_action["compact"]["outcome"].startswith("2 files became 1")
    assert "vacuum" in by_action
    assert sorted(map(str, read_back(other))) == sorted(map(str, before))
    assert len(active_files(other)) == 1


@pytest.mark.spark
def test_all_tables_of_a_lake_are_one_check(spark, lake):
    """By the worst of the tables; what the lake holds is looked up at the run."""
    for spec, ids in ((ITEMS, (1, 1)), (OTHER, (1,))):
        appended(spark, lake.table(spec), *ids)
    actions = "    - error_management.windowed_deduplicator.judge_uniqueness: {keys: [id]}"
    _, checks, report = run(lake, definitions("all", actions=actions))
    assert checks == {"judge_uniqueness": False}
    assert [row["table"] for row in report] == ["silver/items", "silver/other"]


def test_a_table_that_is_not_there_yet_is_no_failure(lake):
    """And without a result its check warns."""
    done, checks, report = run(lake, definitions())
    assert done.success
    assert checks == {"silver_items_judge_uniqueness": False, "silver_other_judge_uniqueness": False}
    assert {row["outcome"] for row in report} == {"the table holds nothing yet"}


def test_an_error_of_a_table_is_a_failure_after_all_tables(lake, tmp_path):
    """The report says so; the others were maintained."""
    for name in SPECS:
        write_log(tmp_path / name, {"id": "long", "event_date": "date"}, ["event_date"], [{"changed": []}])
    actions = (
        "    - ingestion.compactor.vacuum: {retention_hours: 720}\n"
        "      given: tests.components.tending.test_maintaining:odd"
    )
    done, _, report = run(lake, definitions(actions=actions))
    assert not done.success
    assert len(report) == 2
    assert "given must return the arguments of ingestion.compactor.vacuum" in report[0]["outcome"]


def odd():
    """An argument that no vacuum has."""
    return {"nothing": 1}


def tick(made, instance, lake):
    """One tick of the sensor."""
    (sensor,) = made.sensors
    repository = dg.Definitions.merge(made, dg.Definitions(assets=[dated], resources={"lake": lake, "clock": Clock()}))
    with dg.build_sensor_context(
        instance=instance,
        resources={"lake": lake, "clock": Clock(fixed=NOW.isoformat())},
        repository_def=repository.get_repository_def(),
    ) as context:
        return sensor.evaluate_tick(context)


@dg.asset(key=["silver", "items"], partitions_def=dg.DailyPartitionsDefinition("2026-01-01"))
def dated() -> None:
    """The table of the graph."""


def test_a_plan_starts_the_actions_once(lake, tmp_path):
    """As long as the table is as it is; an empty plan starts nothing."""
    write = [{"changed": [{"event_date": "2026-01-05"}]} for _ in range(2)]
    actions = "    - ingestion.compactor.plan_compaction: {min_small_files: 2}"
    made = definitions("[silver/items]", "on_plan: {}", actions)
    with dg.DagsterInstance.ephemeral() as instance:
        assert "no table is there yet" in tick(made, instance, lake).skip_message
        write_log(tmp_path / "silver/items", {"id": "long", "event_date": "date"}, ["event_date"], write[:1])
        assert not tick(made, instance, lake).run_requests
        write_log(tmp_path / "silver/items", {"id": "long", "event_date": "date"}, ["event_date"], write[1:])
        (first,) = tick(made, instance, lake).run_requests
        assert (first.job_name, first.partition_key) == ("maintain_platform_upkeep", None)
        (again,) = tick(made, instance, lake).run_requests
        assert again.run_key == first.run_key


def late(ledger):
    """A partition that changed after the version that was applied."""
    return {"changed": {"2026-01-05": ledger.version()}, "applied": {"2026-01-05": 0}, "current": "2026-01-06"}


def test_a_plan_asks_for_partitions_of_a_table(lake, tmp_path):
    """A detector: what the plan names is computed, oldest first."""
    write_log(tmp_path / "silver/other", {"id": "long", "event_date": "date"}, ["event_date"],
              [{"changed": [{"event_date": "2026-01-05"}]}])  # fmt: skip
    actions = (
        "    - error_management.dynamic_late_data_integrator: {limit: 3}\n"
        "      given: tests.components.tending.test_maintaining:late"
    )
    made = definitions("[silver/other]", "on_plan: {computes: silver/items, every_seconds: 30}", actions)
    with dg.DagsterInstance.ephemeral() as instance:
        (request,) = tick(made, instance, lake).run_requests
    assert request.partition_key == "2026-01-05"
    assert [key.to_user_string() for key in request.asset_selection] == ["silver/items"]


def test_a_schedule_starts_the_job():
    """At its time, with the description."""
    made = definitions(when='every: {cron: "0 3 * * *", description: By night., name: nightly_upkeep}')
    (schedule,) = made.schedules
    assert (schedule.name, schedule.cron_schedule) == ("nightly_upkeep", "0 3 * * *")
    assert [job.name for job in made.jobs] == ["maintain_platform_upkeep"]
