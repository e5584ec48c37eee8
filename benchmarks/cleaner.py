"""A week emptied by metadata against Delta's DELETE of the same week, in a table and in one of ten times its rows.

Ours: ``load_unit(None, ...)``: files out of the log, with the transaction and the record of every write.
Theirs: ``DELETE FROM ... WHERE day BETWEEN``, a condition that is not the partition, of a table without partitions, so
that files are read and written; and ``DELETE FROM ... WHERE week =`` of a table partitioned as ours is, where Delta
drops files by their partition, too. Then each side against itself: ten times the rows against the rows.

Fair, because all tables hold the same rows, each round empties another week in each of them, and what is left is
compared by digest at the end.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measure import Counters, Row, Side, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.idempotency.fast_metadata_cleaner import load_unit

__all__ = ["run"]

_SPEC = TableSpec(
    "staging/visits_by_week",
    {
        "visit_id": Column("STRING", required=True),
        "page": Column("STRING"),
        "bytes": Column("BIGINT"),
        "day": Column("DATE", required=True),
        "week": Column("STRING"),
    },
    partition_by=("week",),
)
_MONDAY, _ROUNDS, _WARM_UP = date(2026, 1, 5), 7, 2
_WEEKS = _ROUNDS + _WARM_UP + 1
_ROWS = (
    "concat(id, '-', id % 7) AS visit_id",
    "concat('/posts/', id % 40) AS page",
    "id % 60000 AS bytes",
    f"date_add(DATE '{_MONDAY}', CAST(id % {7 * _WEEKS} AS INT)) AS day",
    f"CAST(date_add(DATE '{_MONDAY}', CAST(id % {7 * _WEEKS} DIV 7 * 7 AS INT)) AS STRING) AS week",
)
_DIGEST = ("count(1)", "bit_xor(xxhash64(visit_id, page, bytes, day))")


def run(*, quick: bool) -> list[Row]:
    """Measure a table, and one with ten times its rows."""
    session, home = SparkEngine().session, settings().home
    counts = (200,) if quick else (300_000, 3_000_000)
    measured = {count: _measure(session, home, count) for count in counts}
    rows = []
    for count, (metadata, condition, partition) in measured.items():
        goal = 0.1 if count >= 1_000_000 else None
        rows.append(compare(f"{count:,} rows, files rewritten", metadata, condition, at_most=goal))
        rows.append(compare(f"{count:,} rows, files dropped", metadata, partition, at_most=1.0))
    for one, *more in zip(*measured.values(), strict=True):
        rows += [compare(f"ten times the rows, {one.name}", ten, one) for ten in more]
    return rows


def _measure(session: SparkSession, home: Path, count: int) -> list[Side]:
    rows = session.range(0, count, 1, 4).selectExpr(*_ROWS)
    ours = Table(_SPEC, home / f"ours-{count}", session)
    run = Provenance(asset=_SPEC.name, run_id="benchmark")
    ours.stage(rows.repartition(4), provenance=run).publish()
    flat, parted = str(home / f"flat-{count}"), str(home / f"parted-{count}")
    ours.read().repartition(4).write.format("delta").save(flat)
    ours.read().write.format("delta").partitionBy("week").save(parted)

    def cleaned(number: int) -> None:
        emptied = load_unit(None, ours.target(run), days={_week(number)[0]: number}, by="day")
        assert emptied.changed

    def by_condition(number: int) -> None:
        first, last = _week(number)
        session.sql(f"DELETE FROM delta.`{flat}` WHERE day BETWEEN DATE '{first}' AND DATE '{last}'").collect()

    def by_partition(number: int) -> None:
        session.sql(f"DELETE FROM delta.`{parted}` WHERE week = '{_week(number)[0]}'").collect()

    sides = interleave(
        {"emptied by metadata": cleaned, "DELETE by day": by_condition, "DELETE of the partition": by_partition},
        rounds=_ROUNDS,
        warm_up=_WARM_UP,
        counters=Counters(session),
    )
    tables = [ours.read(), *(session.read.format("delta").load(location) for location in (flat, parted))]
    held = [table.selectExpr(*_DIGEST).collect() for table in tables]
    assert held[0] == held[1] == held[2]
    return sides


def _week(number: int) -> tuple[str, str]:
    first = _MONDAY + timedelta(days=7 * number)
    return first.isoformat(), (first + timedelta(days=6)).isoformat()
