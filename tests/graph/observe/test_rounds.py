"""Rounds that remember: they find what a first round finds, and keep few samples."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.declare import About, Baseline, Due, Expects, LakeTable, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.observe.rounds import Rounds
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.parsing.field_census import CENSUS, FieldCensus, FieldFigures
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.observability.lag_detector import LagSample
from tests.helpers import a_record, write_log
from tests.logs import LogOverTime

BEGIN = datetime(2026, 1, 5, tzinfo=timezone.utc)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOURLY = dg.HourlyPartitionsDefinition("2026-01-04-00", fmt="%Y-%m-%d-%H", end_offset=1)
KEYS = [(BEGIN + hour * HOUR).strftime("%Y-%m-%d-%H") for hour in range(6)]
EXPECTS = Expects(gap_minutes=90, volume=Baseline(), variation=0.5, lag_minutes=60, due=Due(within_minutes=30))


def declared(name: str, reads: str, expects: Expects) -> LakeTable[...]:
    """A table by hour that nobody computes."""

    def build(step: Step, into: Target) -> WriteResult:
        raise AssertionError("nobody computes it")

    columns = {"id": Column("BIGINT"), "day": Column("STRING"), "happened_at": Column("TIMESTAMP")}
    upstream, spec = (
        TableSpec(each, columns, partition_by=("day",), event_time="happened_at", comment="x") for each in (reads, name)
    )
    about, code = About("team:x", expects=expects), {"patterns": [Table.overwrite], "code_version": "1"}
    return lake_table(spec, reads=Reads({upstream: same("day")}), runs=Runs(HOURLY), about=about, **code)(build)


TABLES = [
    declared("bronze/clicks", "source/clicks", replace(EXPECTS, lag_minutes=None)),
    declared("silver/clicks", "bronze/clicks", EXPECTS),
]


class World:
    """Two tables, and a round that remembers."""

    def __init__(self, root: Any) -> None:
        self.root, self.now = root, BEGIN
        self.lake = Lake(root=str(root), engine=SparkEngine())
        self.begin()
        self.rounds = Rounds(TABLES)

    def begin(self) -> None:
        self.logs = {table.spec.name: LogOverTime(self.root / table.spec.name, "x") for table in TABLES}
        for log in self.logs.values():
            log.name = f"{log.location.parent.name}/{log.location.name}"
            log.create(self.now)

    def write(self, name: str, key: str, rows: int) -> None:
        upstream = self.logs["bronze/clicks"].version if name.startswith("silver") else None
        self.logs[name].write(self.now, key, rows, newest=self.now - MINUTE, upstream=upstream)

    def look(self, rounds: Rounds) -> Counter[Any]:
        seen = rounds.judge(self.lake, self.now, runs=self.runs)
        return Counter(seen.measured.measurements)

    def runs(self, table: LakeTable[...]) -> list[dg.RunRecord]:
        """A run of the first partition, under way until the partition's end."""
        done = self.now > BEGIN + 2 * HOUR
        run = dg.DagsterRun(
            "compute",
            run_id="00000000-0000-0000-0000-000000000001",
            status=dg.DagsterRunStatus.SUCCESS if done else dg.DagsterRunStatus.STARTED,
            tags={"dagster/partition": KEYS[0]},
            asset_selection=frozenset({dg.AssetKey(table.spec.name.split("/"))}),
        )
        ended = BEGIN + 2 * HOUR if done else None
        times = {"start_time": (BEGIN + HOUR).timestamp(), "end_time": ended.timestamp() if ended else None}
        return [dg.RunRecord(1, run, BEGIN + HOUR, ended or BEGIN + HOUR, **times)]


STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(["bronze/clicks", "silver/clicks"]), st.sampled_from(KEYS),
              st.sampled_from([0, 90, 100, 900])),
    st.tuples(st.just("wait"), st.integers(1, 150)),
    st.tuples(st.just("clock back"), st.integers(1, 150)),
    st.tuples(st.sampled_from(["optimize", "delete", "alter"]), st.sampled_from(["bronze/clicks", "silver/clicks"])),
)  # fmt: skip


@given(steps=st.lists(STEPS, max_size=12))
def test_a_round_that_remembers_finds_what_a_first_round_finds(tmp_path_factory, steps):
    """Whatever was written, and wherever the clock goes."""
    world = World(tmp_path_factory.mktemp("world"))
    for kind, *about in steps:
        if kind == "write":
            world.write(*about)
        elif kind in ("wait", "clock back"):
            world.now += about[0] * MINUTE * (1 if kind == "wait" else -1)
        elif kind == "delete":
            world.logs[about[0]].delete(world.now, KEYS[0])
        else:
            getattr(world.logs[about[0]], kind)(world.now)
        first = Rounds(TABLES, list(world.rounds.samples))
        assert world.look(first) == world.look(world.rounds)
        assert first.samples == world.rounds.samples
        world.now += MINUTE
        assert world.look(Rounds(TABLES, list(world.rounds.samples))) == world.look(world.rounds)


def test_a_round_over_unchanged_tables_opens_no_commit(tmp_path, monkeypatch):
    """What it costs does not grow with the logs."""
    world = World(tmp_path)
    for key in KEYS:
        world.write("bronze/clicks", key, 100)
        world.write("silver/clicks", key, 100)
    world.now += 7 * HOUR
    world.look(world.rounds)
    read = []
    monkeypatch.setattr("dedp_assets.patterns.delta.storage.local_store.content_of", read.append)
    for _ in range(5):
        world.now += MINUTE
        assert world.look(world.rounds)
    assert read == []


def test_a_log_that_is_begun_again_is_judged_as_it_is(tmp_path):
    """With as many versions as before, nothing tells but the files."""
    world = World(tmp_path)
    world.write("bronze/clicks", KEYS[0], 100)
    world.write("silver/clicks", KEYS[0], 100)
    world.now += 2 * HOUR
    world.look(world.rounds)
    for log in world.logs.values():
        shutil.rmtree(log.location)
    world.begin()
    world.write("bronze/clicks", KEYS[1], 7)
    world.write("silver/clicks", KEYS[1], 7)
    world.now += MINUTE
    first = Rounds(TABLES, list(world.rounds.samples))
    assert world.look(first) == world.look(world.rounds)


@pytest.mark.parametrize("hours", [1, 12])
def test_unchanged_tables_have_two_samples_however_often_they_are_looked_at(tmp_path, hours):
    """The first one says since when: also of a stall that is longer than the samples are kept."""
    world = World(tmp_path)
    world.write("bronze/clicks", KEYS[0], 100)
    begun = world.now
    for _ in range(6 * hours):
        world.look(world.rounds)
        world.now += 10 * MINUTE
    assert len(world.rounds.samples) == 2
    (lag,) = (each for each in world.look(world.rounds) if each.metric == "lag")
    assert (lag.verdict, lag.since) == ("fail", begun)


def test_a_consumer_of_the_night_may_stand_still_all_day(tmp_path):
    """As long as its limit allows a row to wait; beyond that, it is a trouble."""
    world = World(tmp_path)
    tables = [TABLES[0], replace(TABLES[1], about=About("team:x", expects=Expects(lag_minutes=26 * 60)))]
    rounds, found = Rounds(tables), {}
    world.write("bronze/clicks", KEYS[0], 100)
    world.write("silver/clicks", KEYS[0], 100)
    for hour in range(30):
        world.now += HOUR
        world.write("bronze/clicks", (BEGIN + hour * HOUR).strftime("%Y-%m-%d-%H"), 100)
        measured = rounds.judge(world.lake, world.now).measured.troubles
        found[hour] = [each.metric for each in measured if each.table == "silver/clicks"]
    assert not any(found[hour] for hour in range(24))
    assert "lag_seconds" in found[28]


def test_a_partition_of_a_topic_that_is_silent_while_others_move_is_a_trouble(tmp_path):
    """The silence of the whole topic is none, and neither is a partition of a table that expects nothing."""
    world = World(tmp_path)
    tables = [replace(TABLES[0], about=About("team:x", expects=Expects(partition_gap_minutes=30))), TABLES[1]]
    rounds = Rounds(tables)

    def look(minute: int, *ends: int) -> list[tuple[str, str]]:
        now = BEGIN + minute * MINUTE
        samples = [
            LagSample(consumer=table, producer="visits", partition=str(number), seen_at=now, produced=end, consumed=end)
            for number, end in enumerate(ends)
            for table in ("bronze/clicks", "silver/clicks")
        ]
        seen = rounds.judge(world.lake, now, samples=samples)
        gaps = [each for each in seen.measured.troubles if each.metric == "gap" and each.table == "visits"]
        return [(each.partition, each.reason) for each in gaps]

    assert [look(minute, minute, 1 + min(minute, 10)) for minute in (0, 10, 20, 30, 40)] == [[]] * 5
    assert look(41, 41, 11) == [("1", "visits, partition 1: no record for 31 min, while others move")]
    assert look(50, 50, 12) == []
    assert look(120, 50, 12) == []


def test_the_fields_of_the_newest_partition_are_measured(tmp_path):
    """A table whose commits counted fields has figures of new and of changed ones; another table has none."""
    usual = FieldCensus(100, declared={"id": FieldFigures({"integer": 100})})
    changed = FieldCensus(
        100, 0, 100, {"id": FieldFigures({"string": 100}, mistyped=100)}, {"mail": FieldFigures({"string": 100})}
    )
    records = [
        a_record("silver/clicks", {"day": key}, figures={CENSUS: census.as_dict()})
        for key, census in zip(KEYS, (usual, usual, changed), strict=False)
    ]
    columns = {"id": "long", "day": "string", "happened_at": "timestamp"}
    write_log(tmp_path / "silver/clicks", columns, ["day"], [{"record": record} for record in records])
    seen = Rounds(TABLES).judge(Lake(root=str(tmp_path), engine=SparkEngine()), BEGIN).measured.measurements
    found = [each for each in seen if "fields" in each.metric]
    assert {(each.metric, each.table, each.partition, each.verdict, each.value) for each in found} == {
        ("records_with_new_fields", "silver/clicks", KEYS[2], "warn", 100),
        ("changed_fields", "silver/clicks", KEYS[2], "warn", 1),
    }


def test_in_the_lake_of_the_demo_nothing_is_late(tmp_path):
    """Nothing arrives after the demo, whenever somebody looks; an odd volume is a trouble there, too."""
    world = World(tmp_path)
    for key, rows in zip(KEYS, (100, 100, 100, 900), strict=False):
        world.write("bronze/clicks", key, rows)
        world.write("silver/clicks", key, rows)
    world.now += timedelta(days=300)

    about = About("team:x", expects=replace(EXPECTS, lag_minutes=None, due=Due("12:00")))
    tables = [replace(TABLES[0], about=about), TABLES[1]]

    def troubles():
        seen = Rounds(tables).judge(world.lake, world.now)
        return {each.metric for each in seen.measured.troubles}

    assert {"gap", "pipeline_seconds", "partition_rows"} <= troubles()
    world.lake.mark_demo()
    assert troubles() == {"partition_rows", "partition_variation"}
    assert world.lake.names() == ["bronze/clicks", "silver/clicks"]


@pytest.mark.parametrize("limit", [1, 5, 7, 12, 26, 100])
@pytest.mark.parametrize("behind", [0.5, 0.9, 1.2, 2])
def test_a_lag_is_known_whatever_its_limit(tmp_path, limit, behind):
    """Of a reader of a topic that moves on, always so far behind: the samples alone tell the age of the unread."""
    lake, table = Lake(root=str(tmp_path), engine=SparkEngine()), TABLES[0]
    table = replace(table, about=About("team:x", expects=Expects(lag_minutes=limit * 60)))
    rounds, verdicts = Rounds([table]), []
    for step in range(8 * 32):
        hour = step * limit / 32
        ends = {"produced": int(1000 * hour), "consumed": max(int(1000 * (hour - behind * limit)), 0)}
        now = BEGIN + hour * HOUR
        sample = LagSample(consumer="bronze/clicks", producer="visits", partition="0", seen_at=now, **ends)
        seen = rounds.judge(lake, now, samples=[sample]).measured.measurements
        verdicts += [each.verdict for each in seen if each.metric == "lag_seconds" and each.partition == "visits"]
    assert set(verdicts[-16:]) == {"fail" if behind > 1 else "ok"}
