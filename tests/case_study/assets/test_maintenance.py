"""Maintenance in the graph: every table, from the UI or at night, and nobody downstream notices."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.case_study.defs.platform import maintenance
from dedp_assets.case_study.defs.platform.maintenance import KEY
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.sensors import small_files
from dedp_assets.patterns.delta import table_lock
from dedp_assets.patterns.delta.maintenance import compaction
from tests.case_study.assets.conftest import day, visits_of, world_in

pytestmark = pytest.mark.budget(45, "two loaded days, and nights of maintenance over three months")

TABLES = ("bronze/visits", "gold/daily_page_views", "gold/daily_visitors", "silver/visits", "silver/visits_dead_letter")
SCATTERED = {"bronze/visits": f"landed_on = '{day(0)}'", "silver/visits": f"event_date = '{day(0)}'"}


def scatter(world, spark, table, where, files=12):
    """The same rows of a partition in many small files, as frequent small writes would have left them."""
    location = world.address(table)
    rows = spark.read.format("delta").load(location).where(where).repartition(files)
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", where)
    writer.option("dataChange", "false").save(location)


def report(world):
    """The newest materialization's metadata, with the rows of its table by name."""
    event = world.platform.instance.get_latest_materialization_event(dg.AssetKey(KEY))
    shown = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    tables = event.asset_materialization.metadata["tables"].records
    return shown, {row.data["table"]: row.data for row in tables}


def files_on_disk(world, table):
    paths = [file.path for file in world.ledger(table).store.files()]
    return {path for path in paths if path.endswith(".parquet") and not path.startswith("_delta_log")}


@pytest.fixture(scope="module")
def loaded(spark, tmp_path_factory):
    """Two loaded days, the first of them in many small files in bronze and silver; the tests tell one story."""
    with world_in(tmp_path_factory.mktemp("loaded")) as world:
        for number in range(2):
            world.land(day(number), visits_of(number))
        world.react()
        for table, where in SCATTERED.items():
            scatter(world, spark, table, where)
        yield world


def test_an_empty_lake_needs_nothing(world):
    """The first night, before anything was loaded."""
    assert world.run("maintain_tables").failure == ""
    shown, tables = report(world)
    assert (shown["files before"], tables) == (0, {})
    assert world.checks("/".join(KEY)) == {"no_table_has_many_small_files": True, "the_past_is_kept": True}


def test_a_scheduled_run_that_comes_to_its_turn_by_day_is_put_off(world, monkeypatch):
    """Until the evening, in the plan that its metadata show; a run that somebody asked for is not."""
    noon = datetime(2026, 1, 6, 12, tzinfo=timezone.utc)
    monkeypatch.setattr(Clock, "now", lambda _: noon)
    planned = []
    for tags in ({"dagster/schedule_name": "maintenance_every_night"}, {"dedp/cause": "small-files"}):
        assert world.run("maintain_tables", **tags).failure == ""
        planned.append(report(world)[0]["plan"]["reason"].partition("; ")[2])
    assert planned == ["put off until 2026-01-06T18:00:00+00:00", ""]


def test_every_table_is_looked_at_and_the_scattered_ones_are_compacted(loaded):
    """Files and bytes before and after of each table; rows and untouched tables are what they were."""
    rows, before = {table: loaded.rows(table) for table in TABLES}, loaded.versions()
    assert loaded.run("maintain_tables").failure == ""
    shown, tables = report(loaded)
    assert set(tables) == set(TABLES)
    for table in SCATTERED:
        files = tables[table]["files_before"], tables[table]["files_after"]
        assert files[0] - files[1] == 11
        assert tables[table]["bytes_after"] < tables[table]["bytes_before"]
        for when, count in zip(("before", "after"), files, strict=True):
            assert tables[table][f"average_{when}"] == tables[table][f"bytes_{when}"] // count
        assert tables[table]["outcome"].startswith(f"{files[0]} files became {files[1]}, in 1 partitions; ")
        assert shown["plan"]["jobs"][f"optimize {table}"].startswith("batch_regular: 1 partitions ")
    newest = loaded.ledger("silver/visits").commit(loaded.ledger("silver/visits").version()).maintenance
    assert (newest.pattern, newest.notes["order"]) == ("storage.sorter", "event_time, page (hilbert)")
    files = loaded.ledger("silver/visits").state().files()
    assert not [c for file in files for c in VISITS.withheld("log") if file.get(f"min.{c}") is not None]
    assert tables["gold/daily_visitors"]["files_before"] == tables["gold/daily_visitors"]["files_after"]
    assert tables["gold/daily_visitors"]["outcome"].endswith(
        "; optimize gold/daily_visitors: batch_regular: nothing to gain"
    )
    assert shown["plan"]["held"]["optimize gold/daily_visitors"] == "batch_regular: nothing to gain"
    assert shown["files before"] - shown["files after"] == 22
    after = loaded.versions()
    assert {table for table in after if after[table] != before[table]} == set(SCATTERED)
    for table in TABLES:
        assert sorted(map(str, loaded.rows(table))) == sorted(map(str, rows[table]))
    assert loaded.checks("/".join(KEY)) == {"no_table_has_many_small_files": True, "the_past_is_kept": True}


def test_nobody_downstream_is_asked_for_and_a_second_night_does_nothing(loaded, monkeypatch):
    """No run is requested, no version moves, and statistics and manifests of no table are opened."""
    before, opened = loaded.versions(), []
    assert loaded.react() == []
    with monkeypatch.context() as patch:
        for name in ("enhance_statistics", "judge_manifest", "compact", "sort_files"):
            patch.setattr(maintenance, name, opened.append)
        assert loaded.run("maintain_tables").failure == ""
    assert opened == []
    assert loaded.run("daily_visits", day(0)).failure == ""
    assert loaded.versions() == before
    shown, _ = report(loaded)
    assert shown["files before"] == shown["files after"]
    assert {job.partition(" ")[0] for job in shown["plan"]["jobs"]} == {"vacuum"}


def test_many_small_files_start_maintenance_before_the_night(loaded, spark, monkeypatch):
    """The partition that reached the limit is compacted by a run of its own cause, and nothing else is asked for."""
    monkeypatch.setattr(small_files, "MANY", 12)
    assert loaded.react() == []
    rows = sorted(map(str, loaded.rows("silver/visits")))
    scatter(loaded, spark, "silver/visits", SCATTERED["silver/visits"])
    assert loaded.react() == [("maintain_tables", "")]
    (run,) = loaded.platform.instance.get_runs(limit=1)
    assert run.tags["dedp/cause"] == "small-files"
    partitions = loaded.ledger("silver/visits").state().statistics()
    assert {stats.files for key, stats in partitions.items() if dict(key)["event_date"] == day(0)} == {1}
    assert sorted(map(str, loaded.rows("silver/visits"))) == rows


def test_three_months_later_the_old_files_go_and_the_past_can_still_be_rebuilt(loaded, monkeypatch):
    """Only current files are left; new code rebuilds silver from bronze rows that were compacted since they landed."""
    rows = loaded.ids("silver/visits")
    store, left = loaded.ledger("silver/visits").store, "staged-left/part-0.parquet"
    store.put(left, b"refused")
    later = datetime.now(timezone.utc) + timedelta(days=91)  # noqa: TID251
    with monkeypatch.context() as patch:
        patch.setattr(Clock, "now", lambda _: later)
        assert loaded.run("maintain_tables").failure == ""
    shown, tables = report(loaded)
    assert (shown["stages removed"], tables["silver/visits"]["stages_removed"]) == (1, 1)
    assert not store.exists(left)
    assert shown["files removed"] == sum(row["files_removed"] for row in tables.values()) >= 26
    for table in TABLES:
        assert len(files_on_disk(loaded, table)) == tables[table]["files_after"]
    graph = loaded.platform.definitions
    selection = dg.AssetSelection.assets(["silver", "visits"], ["silver", "visits_dead_letter"])
    loaded.platform.definitions = graph.map_resolved_asset_specs(
        func=lambda spec: spec.replace_attributes(code_version="next"), selection=selection
    )
    assert loaded.compute("silver/visits", day(0)).failure == ""
    assert loaded.last("silver/visits", event_date=day(0)).record.code_version == "next"
    assert loaded.ids("silver/visits") == rows


def test_a_day_lands_while_maintenance_runs(loaded, spark, monkeypatch):
    """The table is free while its files are rewritten, and the night's work is done all the same."""
    scatter(loaded, spark, "bronze/visits", f"landed_on = '{day(1)}'")
    real = compaction._exchange

    def exchange(table, *arguments):
        if table.name == "bronze/visits":
            with table_lock(table.store, timeout_seconds=0):
                pass
            loaded.land(day(2), visits_of(2))
            assert loaded.react() == [("daily_visits", day(2))]
        return real(table, *arguments)

    monkeypatch.setattr(compaction, "_exchange", exchange)
    assert loaded.run("maintain_tables").failure == ""
    partitions = loaded.ledger("bronze/visits").state().statistics()
    assert {stats.files for key, stats in partitions.items() if dict(key)["landed_on"] == day(1)} == {1}
    assert len(loaded.ids("silver/visits", event_date=day(2))) == 40
    assert loaded.react() == []


def test_a_table_that_cannot_be_maintained_does_not_keep_the_others_from_it(loaded, spark):
    """A damaged file is named and warned of, its table stays as it is, the table after it is compacted."""
    for table, where in SCATTERED.items():
        scatter(loaded, spark, table, where)
    damaged = next(f for f in loaded.ledger("bronze/visits").state().files() if str(f["partition.landed_on"]) == day(0))
    loaded.ledger("bronze/visits").store.put(damaged["path"], b"no Parquet")
    before = loaded.versions()
    ended = loaded.run("maintain_tables")
    assert "bronze/visits: its small files cannot be merged, nothing was exchanged" in ended.failure
    assert not loaded.checks("/".join(KEY))["no_table_has_many_small_files"]
    verdict = loaded.evaluation("/".join(KEY), "no_table_has_many_small_files")
    assert (verdict.severity, set(verdict.metadata)) == (dg.AssetCheckSeverity.WARN, {"bronze/visits"})
    (said,) = verdict.metadata["bronze/visits"].value.values()
    assert re.fullmatch(r"\d+ of \d+ files are small, \d+ bytes on average", said)
    assert set(report(loaded)[1]) == {*TABLES} - {"bronze/visits"}
    row = report(loaded)[1]["silver/visits"]
    assert row["files_before"] - row["files_after"] == 11
    assert loaded.versions()["bronze/visits"] == before["bronze/visits"]


def test_statistics_that_another_writer_left_out_are_added(loaded, spark):
    """The file of one day is described again, its table has the same rows, and the report says so."""
    where, rows = f"event_date = '{day(0)}'", loaded.rows("gold/daily_visitors")
    spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        scatter(loaded, spark, "gold/daily_visitors", where, files=1)
    finally:
        spark.conf.unset("spark.databricks.delta.stats.collect")
    loaded.run("maintain_tables")
    described = {name: row["files_described"] for name, row in report(loaded)[1].items()}
    assert described["gold/daily_visitors"] == sum(described.values()) == 1
    assert sorted(map(str, loaded.rows("gold/daily_visitors"))) == sorted(map(str, rows))
    assert loaded.react() == []


def test_two_runs_never_maintain_at_once(loaded):
    """One pool with one slot."""
    (node,) = [node for node in loaded.platform.definitions.resolve_asset_graph().asset_nodes if node.key.path == KEY]
    assert node.pools == {"platform_maintenance"}
    assert loaded.platform.instance.get_concurrency_config().pool_config.default_pool_limit == 1
