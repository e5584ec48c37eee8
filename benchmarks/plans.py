"""A plan of runs against the first tick of the reconciler, over the same graph of tables written by hand.

Ours: the whole plan, wave by wave to the end, with nothing remembered. Theirs: one poll of the reconciler, with nothing
remembered, which plans the first wave alone. The graph has a table of each day at its head, and tables that read one or
two tables before them; every table has as many partitions as the side says, in a log with a checkpoint. "First
load": the head alone is there, and each partition of each table is planned. "Late": the newest month of the head
changed, and all tables follow.

Fair, because both read the same logs with the same code: the ratio is the price of the waves after the first one. The
goal is absolute, CPU seconds of a plan of 10,000 partitions. No JVM may start.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from benchmarks.measure import Row, compare, explain, interleave
from dedp_assets.graph.declare import About, LakeTable, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.reconcile.planning import plan_runs
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table, Target, transaction_id
from tests.hand_written import daily
from tests.helpers import write_log

__all__ = ["run"]

_LAST = date(2026, 10, 31)
_NOW = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
_GOAL_SECONDS = 2.0
_LATE_DAYS = 31


def run(*, quick: bool) -> list[Row]:
    """Measure plans of a first load, and a plan after late data."""
    tables, partitions, days = (5, 200, 40) if quick else (50, 10_000, 10_000)
    few = partitions // tables
    first, late = _Graph("first", tables, few, loaded=False), _Graph("late", tables, days)
    return [
        _measure(f"first load of {tables} tables of {few:,} days", first, goal=True),
        _measure(f"{tables} tables of {days:,} days, a month of them late", late, goal=False),
    ]


class _Graph:
    """Tables by day, whose logs are written by hand."""

    def __init__(self, name: str, tables: int, days: int, *, loaded: bool = True) -> None:
        root = settings().home / name
        self.lake = Lake(root=str(root / "lake"), engine=SparkEngine())
        self.landing = Landing(root=str(root / "landing"))
        self.days = [(_LAST - timedelta(days=back)).isoformat() for back in range(days - 1, -1, -1)]
        self.tables = [*_declared(tables - 1, self.days[0])]
        self._write(root / "lake/bronze/head", self.days)
        for table in self.tables if loaded else ():
            applied = len(table.reads.tables)  # the first version of each upstream table
            self._write(root / "lake" / table.spec.name, self.days, applied=applied)
        if loaded:
            self._write(root / "lake/bronze/head", self.days[-_LATE_DAYS:], checkpoint=False)

    def _write(self, folder: Path, days: list[str], *, applied: int = 1, checkpoint: bool = True) -> None:
        name = "/".join(folder.parts[-2:])
        cursors = {transaction_id(name, {"day": day}, 0): applied for day in days}
        write_log(
            folder, {"id": "long", "day": "date"}, ["day"], [{"changed": [{"day": d} for d in days], "txn": cursors}]
        )
        if checkpoint:
            DeltaTable(str(folder)).create_checkpoint()

    def plan(self, _: int) -> dict[str, float]:
        """Plan all waves."""
        runs = plan_runs(self.tables, self.lake, self.landing, _NOW).runs
        return {"runs": len(runs), "partitions": sum(len(run.places) for run in runs)}

    def tick(self, _: int) -> dict[str, float]:
        """Poll once."""
        outcome, _overview = Reconciler(self.tables).reconcile(self.lake, self.landing, _NOW)
        return {"runs": len(outcome.asks)}


def _declared(number: int, first: str) -> Iterator[LakeTable[...]]:
    """Declare tables that read one or two of the tables before them."""
    partitions = dg.DailyPartitionsDefinition(first)

    before: list[TableSpec] = [daily("bronze/head")]
    for each in range(number):
        reads = {before[each // 3]: same("day"), **({before[each // 5]: same("day")} if each % 2 else {})}

        def build(step: Step, into: Target) -> WriteResult:  # noqa: ARG001
            raise AssertionError("nobody computes it")

        before.append(daily(f"silver/t{each:02}"))
        stated: dict[str, Any] = {"about": About("team:x"), "patterns": [Table.overwrite], "code_version": "1"}
        yield lake_table(before[-1], reads=Reads(reads), runs=Runs(partitions), **stated)(build)


def _measure(case: str, graph: _Graph, *, goal: bool) -> Row:
    sides = interleave({"plan": graph.plan, "first tick": graph.tick}, rounds=3, warm_up=1)
    row = compare(case, *sides)
    row.reached = f"{row.ours['cpu']:.2f} s"
    if goal:
        row.goal, row.met = f"<= {_GOAL_SECONDS:g} s CPU", row.ours["cpu"] <= _GOAL_SECONDS
    if row.ours["cpu"] > _GOAL_SECONDS:
        inside = ["reconcile", "follow", "glimpses", "applied", "simulate", "fed_by"]
        row.why = explain(partial(graph.plan, 0), inside)
    return row
