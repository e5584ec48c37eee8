"""A round of all detectors over ten thousand partitions: the first one, over unchanged tables, and after a commit.

Ours: ``Rounds.look``, as the sensor ``alerts`` calls it: gaps, volumes, variation, lag and deadlines of fifty declared
tables, with the newest runs and six hours of samples. Theirs: deltalake opens each table, or brings a kept one up to
date, and lists the active files, which is what anything has to do that judges volumes; it judges nothing.

Fair, because both read the same logs, written by hand as the platform's commits are, without checkpoints and data
files; no JVM may start. The goals are absolute, CPU seconds of one round: 1 s for the first one, and 0.1 s for one over
unchanged tables, or after one more commit. The runs are a list; what one query of the run storage costs is a line of
its own, without a goal: it is Dagster's time, and does not grow with the partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property, partial
from pathlib import Path

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.measure import Row, compare, interleave
from dedp_assets.graph.declare import About, Baseline, Due, Expects, LakeTable, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.observe.deadlines import recent_records, records_of
from dedp_assets.graph.observe.rounds import RoundResult, Rounds
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from tests.logs import LogOverTime

__all__ = ["run"]

_NOW = datetime(2026, 10, 31, 12, 30, tzinfo=timezone.utc)
_LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)
_EVERY, _SAMPLED = timedelta(seconds=60), timedelta(hours=6)
_LAYERS = ("source", "bronze", "silver", "gold", "serving", "staging")
_RUNS, _DAYS = 500, 3
_DAILY = dg.DailyPartitionsDefinition("2026-01-01", end_offset=1)
_HOURLY = dg.HourlyPartitionsDefinition("2026-01-01-00", fmt="%Y-%m-%d-%H", end_offset=1)
_EXPECTS = partial(Expects, gap_minutes=3_000, variation=0.5, lag_minutes=180)
_OF_DAYS = _EXPECTS(volume=Baseline(season="weekday", last=8), due=Due("06:00", zone="Europe/Berlin"))
_OF_HOURS = _EXPECTS(volume=Baseline(last=24), due=Due(within_minutes=30))


def run(*, quick: bool) -> list[Row]:
    """Measure ten lines of five tables, half of them by day and half by hour, with 200 partitions each."""
    lines, each = (2, 30) if quick else (10, 200)
    world = _World(settings().home / "lake", lines, each)
    rows = []
    for name, most in {"the first round": 1.0, "unchanged": 0.1, "one commit": 0.1}.items():
        before = partial(world.prepare, name)
        sides = interleave({"look": world.look, "deltalake": world.list_files}, rounds=5, before=before)
        row = compare(f"{5 * lines} tables of {each} partitions, {name}", *sides)
        met = None if quick else row.ours["cpu"] <= most
        rows.append(replace(row, goal=f"<= {most:g} s CPU", reached=f"{row.ours['cpu']:.3f} s", met=met))
    with dg.DagsterInstance.ephemeral() as instance:
        for record in world.records:
            instance.add_run(record.dagster_run)
        query = interleave(
            {
                "recent": lambda _: _counted(recent_records(instance, _LONG_AGO, days=_DAYS)),
                "all": lambda _: _counted(instance.get_run_records()),
            },
            rounds=5,
        )
    return [*rows, compare(f"{_RUNS} runs of the run storage", *query)]


def _counted(records: Sequence[dg.RunRecord]) -> dict[str, float]:
    return {"runs": len(records)}


@dataclass
class _World:
    """Tables with logs and runs, and what each side keeps of them."""

    root: Path
    lines: int
    partitions: int
    now: datetime = _NOW
    rounds: Rounds = field(init=False)
    opened: dict[str, DeltaTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = [_declared(line, depth) for line in range(self.lines) for depth in range(1, len(_LAYERS))]
        self.lake = Lake(root=str(self.root), engine=SparkEngine())
        self.logs = {each.spec.name: LogOverTime(self.root / each.spec.name, each.spec.name) for each in self.tables}
        for table in self.tables:
            self.logs[table.spec.name].create(_NOW - timedelta(days=300))
            for key, at in self._keys(table):
                self.write(table, key, at)
        self.rounds = Rounds(self.tables)
        self.look(0)
        # What the sensor has sampled before, by a stored history that nobody thinned yet.
        steps = range(1, 200)
        old = [replace(s, seen_at=s.seen_at - n * _SAMPLED / 200) for s in self.rounds.samples for n in steps]
        self.rounds = Rounds(self.tables, [*old, *self.rounds.samples])

    def _keys(self, table: LakeTable[...]) -> list[tuple[str, datetime]]:
        """List the keys of a table, each with the time of the commit."""
        calendar = _DAILY if table.runs.partitions is _DAILY else _HOURLY
        unit = timedelta(days=1) if calendar is _DAILY else timedelta(hours=1)
        last = _NOW.replace(hour=0 if unit.days else _NOW.hour, minute=0)
        late = timedelta(minutes=5 + _LAYERS.index(table.spec.name.partition("/")[0]))
        begins = [last - unit * back for back in range(self.partitions, 0, -1)]
        return [(each.strftime(calendar.fmt), each + unit + late) for each in begins]

    def write(self, table: LakeTable[...], key: str, at: datetime) -> None:
        """Commit a partition that has applied the newest version of its upstream table."""
        upstream = next((self.logs[spec.name].version for spec in table.reads.tables if spec.name in self.logs), None)
        rows = 10_000 + sum(map(ord, key)) % 100
        self.logs[table.spec.name].write(at, key, rows, newest=at - timedelta(minutes=1), upstream=upstream)

    @cached_property
    def records(self) -> list[dg.RunRecord]:
        """The newest runs of the tables, each of one partition."""
        found = [_ran(table, key, at) for table in self.tables for key, at in self._keys(table)]
        return sorted(found, key=lambda each: each.create_timestamp)[-_RUNS:]

    def prepare(self, name: str, number: int) -> None:
        """Forget everything before a first round, or commit to a table."""
        if name == "the first round":
            self.rounds = Rounds(self.tables, self.rounds.samples)
            self.opened.clear()
        elif name == "one commit":
            table = self.tables[number]
            self.write(table, self._keys(table)[-1][0], self.now)

    def look(self, _: int) -> None:
        """One round, a minute after the last one."""
        self.now += _EVERY
        seen = self.rounds.judge(self.lake, self.now, runs=lambda table: records_of(self.records, table, None))
        self.require_sound(seen)

    def require_sound(self, seen: RoundResult) -> None:
        """Refuse a round that has not judged everything."""
        judged = {(each.table, each.metric) for each in seen.measured.measurements}
        assert not seen.unjudged
        for metric in ("gap", "partition_rows", "partition_variation"):
            assert len({table for table, name in judged if name == metric}) == len(self.tables), metric
        assert len({table for table, name in judged if name == "lag"}) == len(self.tables) - self.lines

    def list_files(self, _: int) -> None:
        """List the active files of each table."""
        for table in self.tables:
            name = table.spec.name
            known = self.opened.get(name)
            if known:
                known.update_incremental()
            opened = self.opened.setdefault(name, known or DeltaTable(str(self.root / name)))
            assert pa.table(opened.get_add_actions(flatten=True)).num_rows


def _spec(line: int, depth: int) -> TableSpec:
    kinds = {"id": "BIGINT", "day": "STRING", "happened_at": "TIMESTAMP"}
    columns = {name: Column(kind, classification="public") for name, kind in kinds.items()}
    name = f"{_LAYERS[depth]}/line_{line}"
    return TableSpec(name, columns, partition_by=("day",), event_time="happened_at", comment="x")


def _declared(line: int, depth: int) -> LakeTable[...]:
    """Declare a table that nobody computes: of even lines by day, of odd ones by hour."""

    def build(step: Step, into: Target) -> WriteResult:  # noqa: ARG001 - of a declaration
        raise AssertionError("nobody computes it")

    by_day = line % 2 == 0
    expects = _OF_DAYS if by_day else _OF_HOURS
    return lake_table(
        _spec(line, depth),
        reads=Reads({_spec(line, depth - 1): same("day")}),
        runs=Runs(_DAILY if by_day else _HOURLY),
        about=About("team:x", expects=expects if depth > 1 else replace(expects, lag_minutes=None)),
        patterns=[Table.overwrite],
        code_version="1",
    )(build)


def _ran(table: LakeTable[...], key: str, at: datetime) -> dg.RunRecord:
    """Make the record of a run of two minutes that committed a partition."""
    run = dg.DagsterRun(
        "compute",
        status=dg.DagsterRunStatus.SUCCESS,
        tags={"dagster/partition": key},
        asset_selection=frozenset({dg.AssetKey(table.spec.name.split("/"))}),
    )
    begun, ended = at - timedelta(minutes=2), at + timedelta(seconds=5)
    return dg.RunRecord(1, run, begun, ended, start_time=begun.timestamp(), end_time=ended.timestamp())
