"""Groups aggregated where their rows lie against the same groups after a shuffle.

Ours: ``aggregate_locally`` over a day that ``lay_out`` wrote in buckets. Theirs: ``aggregate`` over the same table. One
case has about five rows for each key, so that tasks can hardly aggregate before the shuffle; the other has 1,000 keys.

Fair, because both read the same files of the same version in one session, and their rows are compared in the end. What
it cost to lay the rows out once is not in it: it pays if several readers group by that key.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.storage.bucket import lay_out
from dedp_assets.patterns.value.distributed_aggregator import aggregate
from dedp_assets.patterns.value.local_aggregator import Layout, aggregate_locally

__all__ = ["run"]

_BY_VISIT = Layout(by=("visit_id",), buckets=8)
_DAY = {"event_date": "2026-01-05"}
_SPEC = TableSpec(
    "silver/visits",
    {
        "visit_id": Column("STRING", required=True),
        "page": Column("STRING", required=True),
        "bytes": Column("BIGINT"),
        "event_date": Column("DATE", required=True),
        **_BY_VISIT.declared,
    },
    partition_by=("event_date", "bucket"),
    checks=_BY_VISIT.checks,
)
_LOCAL = {"pages": "count(page)", "bytes": "sum(bytes)", "first": "min(page)", "last": "max(page)"}


def run(*, quick: bool) -> list[Row]:
    """Measure many small groups, and few large ones."""
    session, count = SparkEngine().session, 1_000 if quick else 1_000_000
    session.conf.set("spark.sql.shuffle.partitions", _BY_VISIT.buckets)
    return [_measure(session, count, keys) for keys in ((count // 5,) if quick else (count // 5, 1_000))]


def _measure(session: SparkSession, count: int, keys: int) -> Row:
    table = Table(_SPEC, settings().home / f"visits-{keys}", session)
    rows = session.range(0, count, 1, 2).selectExpr(
        f"concat('visit ', xxhash64(id) % {keys // 2}) AS visit_id",
        "concat('/posts/', id % 40) AS page",
        "id % 60000 AS bytes",
        f"DATE '{_DAY['event_date']}' AS event_date",
    )
    lay_out(rows, table.target(Provenance(asset=table.name, run_id="benchmark"), partition=_DAY), layout=_BY_VISIT)

    def local() -> DataFrame:
        return aggregate_locally(
            table,
            keys=["visit_id"],
            measures=_LOCAL,
            layout=_BY_VISIT,
            partitions=[_DAY],
            version=table.ledger.version(),
        )

    def distributed() -> DataFrame:
        return aggregate(table.read(_DAY), keys=["visit_id"], measures=_LOCAL)

    sides = interleave(
        {"local": _computed(local), "distributed": _computed(distributed)},
        rounds=7,
        warm_up=2,
        counters=Counters(session),
    )
    assert local().exceptAll(distributed()).isEmpty()
    assert distributed().exceptAll(local()).isEmpty()
    return compare(f"{count:,} rows, {keys:,} keys", *sides, at_most=1 if keys > 1_000 else None)


def _computed(rows: Callable[[], DataFrame]) -> Callable[[int], None]:
    return lambda _: rows().write.format("noop").mode("overwrite").save()
