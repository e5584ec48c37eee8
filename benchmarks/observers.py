"""Profiles of a table of 20 columns: during the write, and in a separate job.

Online: ``observe_online`` against the same ``Table.stage(...).publish()`` without an observer, once with the sketches
of all rows and once of a sample of 1 %. Only the sample has a goal: sketches of all rows are the price of knowing more.
A third line has the least that one can observe, the number of rows, against the same bare write.

Offline: ``observe_offline`` against two ``describe`` scans of the same version, which is what one calls without a
library: ``describe`` alone has no quantiles and no distinct values, and ``summary`` has no distinct values and no
shapes; neither can be merged with the profile of another day. Deequ is no peer here: its newest build is for Spark 3.5
and Scala 2.12.

Fair, because both sides read the same files in one session; ours writes what it found into a table, theirs only
collects it. Every round of a write has other rows than the one before, or ours would write nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, Side, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.measuring.observing import Watch
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.quality.offline_observer import PROFILE, PROFILED_BY, observe_offline
from dedp_assets.patterns.quality.online_observer import observe_online

__all__ = ["run"]

_KINDS = {
    "BIGINT": "xxhash64(id, {n}) % 100000",
    "DOUBLE": "(xxhash64(id, {n}) % 1000000) / 7D",
    "STRING": "concat('value ', xxhash64(id, {n}) % 40)",
    "TIMESTAMP": "timestamp_millis(1767571200000 + xxhash64(id, {n}) % 86400000)",
}
_COLUMNS = {f"c{number}": (kind, sql) for number, (kind, sql) in enumerate([*_KINDS.items()] * 5)}
_GOAL = 1.05
_WHY = (
    "Spark evaluates observed aggregates row by row: 141 of 21 columns cost 40 to 80 ns each, even those that see no "
    "value. Two tries: sampled values copied by generated code instead of a condition in each sketch, and the length "
    "of a text in bytes (8 % of the pass, kept); one aggregate that collects sampled rows, for sketches made "
    "afterwards (1.8x before the second job, 1.4x without bounds and lengths, rows in the driver's memory; not kept)."
)


def run(*, quick: bool) -> list[Row]:
    """Measure both observers."""
    session, home, count = SparkEngine().session, settings().home, 200 if quick else 1_000_000
    goals = {0.01: None} if quick else {0.01: _GOAL, 1.0: None}
    online = [_online(session, home, count, share=share, goal=goal) for share, goal in goals.items()]
    return [*online, _least(session, home, count), _offline(session, home, count)]


def _online(session: SparkSession, home: Path, count: int, *, share: float, goal: float | None) -> Row:
    folder = home / f"observed-{share}"
    observed, profiles = (_table(session, folder / name, name) for name in ("observed", "profiles"))

    def ours(rows: DataFrame, number: int) -> dict[str, float]:
        run = Provenance(asset="observed", run_id=f"run-{number}")
        into, about = observed.target(run), profiles.target(run)
        by = [] if share == 1 else ["id"]
        result = observe_online(rows, into, about, on_fault="fail", sample=share, sample_by=by)
        return {"s apart": result.figures["observer_seconds"]}

    kind = "sketches of all rows" if share == 1 else f"sketches of {share:.0%}"
    case, why = f"{count:,} rows x 20 columns, {kind}", _WHY if goal else ""
    return compare(case, *_beside_bare(session, folder, count, "observed write", ours), at_most=goal, why=why)


def _least(session: SparkSession, home: Path, count: int) -> Row:
    folder = home / "counted"
    counting = _table(session, folder / "counted", "counted")

    def ours(rows: DataFrame, number: int) -> dict[str, float]:
        counting.target(f"run-{number}").stage(Watch({"seen": "count(1)"}).on(rows)).publish()
        return {}

    case = f"{count:,} rows x 20 columns, the number of rows"
    return compare(case, *_beside_bare(session, folder, count, "counted write", ours))


def _beside_bare(
    session: SparkSession, folder: Path, count: int, name: str, ours: Callable[[DataFrame, int], Mapping[str, float]]
) -> tuple[Side, Side]:
    """Measure a write against the bare write of the same rows, each round of other rows than the round before."""
    sources = [_source(session, folder / f"source{number}", count, number) for number in range(2)]
    bare = _table(session, folder / "bare", "bare")
    rounds = {side: itertools.count() for side in (name, "bare write")}

    def observed(_: int) -> Mapping[str, float]:
        number = next(rounds[name])
        return ours(sources[number % 2], number)

    def theirs(_: int) -> None:
        number = next(rounds["bare write"])
        bare.target(f"run-{number}").stage(sources[number % 2]).publish()

    sides = {name: observed, "bare write": theirs}
    first, second = interleave(sides, rounds=5, warm_up=2, counters=Counters(session))
    return first, second


def _offline(session: SparkSession, home: Path, count: int) -> Row:
    folder = home / "offline"
    table = _table(session, folder / "table", "table")
    table.overwrite(
        _source(session, folder / "source", count, 0), provenance=Provenance(asset="table", run_id="before")
    )
    rounds = itertools.count()

    def ours(_: int) -> None:
        number = next(rounds)
        profiles = _table(session, folder / f"profiles-{number}", "profiles")
        assert observe_offline(table, profiles.target(f"run-{number}")).applied

    def theirs(_: int) -> None:
        for _scan in range(2):
            table.read().describe().collect()

    sides = interleave({"profile": ours, "two describe scans": theirs}, rounds=3, warm_up=1, counters=Counters(session))
    return compare(f"{count:,} rows x 20 columns, offline", *sides, at_most=1 if count > 100_000 else None)


def _table(session: SparkSession, location: Path, name: str) -> Table:
    if name == "profiles":
        return Table(TableSpec("quality/profiles", PROFILE, PROFILED_BY), location, session)
    columns = {name: Column(kind) for name, (kind, _) in _COLUMNS.items()}
    return Table(TableSpec(f"silver/{name}", {"id": Column("BIGINT"), **columns}), location, session)


def _source(session: SparkSession, folder: Path, count: int, number: int) -> DataFrame:
    columns = [f"{sql.format(n=n + 100 * number)} AS {name}" for n, (name, (_, sql)) in enumerate(_COLUMNS.items())]
    session.range(0, count, 1, 2).selectExpr("id", *columns).write.parquet(str(folder))
    return session.read.parquet(str(folder))
