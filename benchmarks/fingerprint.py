"""The fingerprint of rows against a hash that is not exact, and against writing the rows without any.

Ours: ``digest(row_hash(...))``, which is equal only for equal content. Theirs: the same digest of Spark's ``xxhash64``
over the same columns, which passes over NULLs inside of arrays and over the sign of a zero, and takes no MAP; and the
plain write, without an observation.

Fair, because all sides read the same Parquet files in one warm session, with the same columns, and the written files
are of the same rows. A MAP is left out of the comparison of hashes, which the plain one refuses, and is in the writes.
Flat columns, DOUBLE apart, are hashed by the same SQL on both sides: their ratio is the noise of the measurement.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.types.nesting import inside

__all__ = ["run"]

_FLAT = (
    "concat(id, '-', id % 7) AS visit_id",
    "timestamp_millis(1767571200000 + id * 86) AS event_time",
    "concat('/posts/', id % 40) AS page",
    "id % 60000 AS bytes",
    "if(id % 3 = 0, 0D, id / 7) AS amount",
)
_NESTED = (
    "id",
    "transform(sequence(1, 5), n -> if(n = 3 AND id % 5 = 0, NULL, concat('tag', id * n % 13))) AS tags",
    "named_struct('page', concat('/posts/', id % 40), 'seen', array(id % 3, NULL, id % 5)) AS visit",
    "map('screen', concat(id % 9), 'lang', if(id % 2 = 0, 'de', NULL)) AS device",
)


def run(*, quick: bool) -> list[Row]:
    """Measure both shapes: the hash alone, then within the write that it is observed in."""
    session, count = SparkEngine().session, 200 if quick else 1_000_000
    return [
        row
        for shape, columns in {"flat": _FLAT, "nested": _NESTED}.items()
        for row in _measure(session, shape, columns, count)
    ]


def _measure(session: SparkSession, shape: str, columns: tuple[str, ...], count: int) -> list[Row]:
    home, counters = settings().home / shape, Counters(session)
    session.range(count).selectExpr(*columns).write.parquet(str(home / "rows"))
    rows = session.read.parquet(str(home / "rows"))
    plain = rows.select(*[identifier(f.name) for f in rows.schema if not _holds_map(f.dataType)])
    exact, loose = digest(row_hash(plain.schema)), digest(f"xxhash64({_named(plain)})")
    hashes = interleave(
        {"exact": partial(_aggregated, plain, exact), "xxhash64": partial(_aggregated, plain, loose)},
        rounds=5,
        counters=counters,
    )
    observed = {"observed": digest(row_hash(rows.schema)), "not observed": ""}
    writes = interleave(
        {name: partial(_written, rows, home / "written", sql) for name, sql in observed.items()},
        rounds=5,
        counters=counters,
    )
    case = f"{count:,} {shape} rows"
    return [compare(f"hash {case}", *hashes), compare(f"write {case}", *writes)]


def _holds_map(kind: object) -> bool:
    return any(isinstance(each, MapType) for each in inside(kind))


def _named(rows: DataFrame) -> str:
    return ", ".join(f"{identifier(c)}, {identifier(c)} IS NULL" for c in rows.columns)


def _aggregated(rows: DataFrame, sql: str, _: int) -> None:
    assert rows.selectExpr(sql).first() is not None


def _written(rows: DataFrame, folder: Path, sql: str, _: int) -> None:
    seen = Observation()
    measured = rows.observe(seen, F.expr(sql).alias("digest")) if sql else rows
    measured.write.mode("overwrite").parquet(str(folder))
    assert not sql or seen.get["digest"]
