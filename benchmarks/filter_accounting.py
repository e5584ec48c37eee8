"""A filter that counts what each of its conditions drops against the same filter without.

Ours: ``intercept_filters`` with four conditions, the counts of all of them, of the first failures and of the NULLs
observed in the pass that writes those that stay. Theirs: ``rows.filter(...)`` with the same conditions.

Fair, because both read the same Parquet files in the same session, publish by the same ``Table.stage(...).publish()``
with a tally of the rows they read, and hold the same rows in every round. The tally of the plain filter counts after
the filter, so that a source may skip rows by the conditions; ours has to see each of them. Each round filters other
rows than the one before by the same conditions, as a job does day by day. For orientation, a line shows the same filter
before Spark's and Delta's own overwrite of the partition, without any accounting.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.filter_interceptor import filter_measures, intercept_filters

__all__ = ["run"]

_DAY = {"event_date": "2026-01-05"}
_SPEC = TableSpec(
    "silver/visits",
    {
        "visit_id": Column("STRING", required=True),
        "event_time": Column("TIMESTAMP", required=True),
        "page": Column("STRING", required=True),
        "referrer": Column("STRING"),
        "status": Column("INT"),
        "bytes": Column("BIGINT"),
        "event_date": Column("DATE", required=True),
    },
    partition_by=("event_date",),
)
_CONDITIONS = {
    "has_a_referrer": "trim(referrer) <> ''",
    "is_a_website": "referrer RLIKE '^https?://'",
    "page_was_shown": "status < 400",
    "is_small": "bytes < 55000",
}
_ALL = " AND ".join(f"({sql})" for sql in _CONDITIONS.values())
_DIGEST = ("count(1)", "bit_xor(xxhash64(visit_id, event_time, page, referrer, status, bytes, event_date))")
_SOURCE = (
    "concat(id, '-', id % 7) AS visit_id",
    "timestamp_millis(1767571200000 + id % 86400000) AS event_time",
    "concat('/posts/', id % 40) AS page",
    "if(id % 11 = 0, NULL, concat('https://site-', id % 90, '.example/')) AS referrer",
    "CAST(if(id % 50 = 0, 500, if(id % 70 = 0, NULL, 200)) AS INT) AS status",
    "(id + {0}) % 60000 AS bytes",
)


def run(*, quick: bool) -> list[Row]:
    """Measure small and large partitions."""
    session, home = SparkEngine().session, settings().home
    sizes = (200,) if quick else (100_000, 1_000_000)
    return [row for count in sizes for row in _measure(session, home, count)]


def _measure(session: SparkSession, home: Path, count: int) -> list[Row]:
    sources = [str(home / f"source-{count}-{number}") for number in range(2)]
    for number, source in enumerate(sources):
        session.range(0, count, 1, 2).selectExpr(*[sql.format(number) for sql in _SOURCE]).write.parquet(source)
    ours = Table(_SPEC, home / f"ours-{count}", session)
    theirs = Table(_SPEC, home / f"theirs-{count}", session)
    bare = home / f"bare-{count}"

    def rows(number: int) -> DataFrame:
        dated = f"DATE '{_DAY['event_date']}' AS event_date"
        return session.read.parquet(sources[number % 2]).selectExpr("*", dated)

    def intercepted(number: int) -> None:
        split = intercept_filters(rows(number), conditions=_CONDITIONS, identity=["visit_id"])
        kept, seen = tally(split, identity=["visit_id"], measures=filter_measures(_CONDITIONS))
        assert _publish(ours, kept, RowsRead(tally=seen))

    def plain(number: int) -> None:
        counted, seen = tally(rows(number).filter(_ALL), identity=["visit_id"])
        assert _publish(theirs, counted, RowsRead(tally=seen))

    def overwritten(number: int) -> None:
        writer = rows(number).filter(_ALL).write.format("delta").mode("overwrite")
        writer.option("replaceWhere", f"event_date = DATE '{_DAY['event_date']}'").save(str(bare))

    rows(1).filter(_ALL).write.format("delta").partitionBy("event_date").save(str(bare))
    works = {"intercepted": intercepted, "plain filter": plain, "Spark and Delta alone": overwritten}
    numbered = {name: _numbered(work) for name, work in works.items()}
    sides = interleave(
        numbered,
        rounds=7,
        warm_up=3,
        repeats=3 if count < 200_000 else 1,
        counters=Counters(session),
    )
    for name in ("intercepted", "plain filter"):
        numbered[name](0)
    assert ours.read().selectExpr(*_DIGEST).collect() == theirs.read().selectExpr(*_DIGEST).collect()
    ours_took, filtered, alone = sides
    return [
        compare(f"{count:,} rows, 4 conditions", ours_took, filtered, at_most=1.05 if count >= 100_000 else None),
        compare(f"{count:,} rows, nothing accounted", ours_took, alone),
    ]


def _publish(table: Table, rows: DataFrame, rows_read: RowsRead) -> bool:
    run = Provenance(asset=table.name, run_id="benchmark")
    return table.stage(rows, partition=_DAY, provenance=run, rows_read=rows_read).publish().changed


def _numbered(work: Callable[[int], None]) -> Callable[[int], None]:
    """Give each execution a number of its own, so that no publish holds the rows of the one before."""
    numbers = itertools.count()
    return lambda _: work(next(numbers))
