"""Versions of keys over thirty daily batches (SCD type 2) against ``mack``'s ``type_2_scd_upsert``.

Ours: ``keep_versions`` with its audit, constraints, row accounting and a commit record; it also takes changes that come
late, twice, or delete; once with deletion vectors. Theirs: ``mack`` takes changes in the order of time only, and
updates the rows in place.

Fair, because both read the same Parquet file of a day's changes in the same session and start with the same rows; the
changes come in order, and after the last batch the versions of both are compared row by row. One more line holds the
last batches against the first ones: the history grows by a day's changes each time, and the time should not.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from delta.tables import DeltaTable
from mack import type_2_scd_generic_upsert
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, Side, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, ChangeStream, keep_versions

__all__ = ["run"]

_OWN = {"user_id": Column("BIGINT", required=True), "email": Column("STRING"), "segment": Column("INT")}
_SPEC = TableSpec("silver/users", {**_OWN, **VERSION})
_STREAM = ChangeStream(keys=["user_id"], event_time="changed_at")
_VERSIONS = ("user_id", "email", "segment", "is_current", "changed_at", "ended_at")
_MARKED = {"delta.enableDeletionVectors": "true"}
_DAYS, _ENDS = 30, 5


def run(*, quick: bool) -> list[Row]:
    """Measure a small dimension and a large one; 2 % of the keys change a day."""
    session, home = SparkEngine().session, settings().home
    return [row for count in ((200,) if quick else (20_000, 500_000)) for row in _measure(session, home, count)]


def _measure(session: SparkSession, home: Path, count: int) -> list[Row]:
    folder = home / f"versions-{count}"
    ours, theirs = Table(_SPEC, folder / "ours", session), folder / "theirs"
    marked = Table(replace(_SPEC, properties=_MARKED), folder / "marked", session)
    first = _changes(session, count, 0)
    for table in (ours, marked):
        _keep(table, first, "first")
    values = ("user_id", "email", "segment", "true AS is_current", "changed_at", "CAST(NULL AS TIMESTAMP) AS ended_at")
    first.selectExpr(*values).write.format("delta").save(str(theirs))

    def batch(number: int) -> DataFrame:
        return session.read.parquet(str(folder / f"day-{number}"))

    def prepare(number: int) -> None:
        _changes(session, count, number + 1).coalesce(1).write.parquet(str(folder / f"day-{number}"))

    def mack(number: int) -> None:
        table = DeltaTable.forPath(session, str(theirs))
        names = ("is_current", "changed_at", "ended_at")
        type_2_scd_generic_upsert(table, batch(number), "user_id", ["email", "segment"], *names)

    sides = interleave(
        {
            "keep_versions": lambda number: _keep(ours, batch(number), str(number)),
            "by vectors": lambda number: _keep(marked, batch(number), str(number)),
            "mack": mack,
        },
        rounds=_DAYS,
        warm_up=0,
        before=prepare,
        counters=Counters(session),
    )
    renamed = {"valid_from": "changed_at", "valid_to": "ended_at"}
    held = [table.read().withColumnsRenamed(renamed).select(*_VERSIONS) for table in (ours, marked)]
    found = {_digest(rows) for rows in (*held, session.read.format("delta").load(str(theirs)).select(*_VERSIONS))}
    assert len(found) == 1, found
    mine, with_vectors, macks = sides
    # The compiler of the JVM is at work in the first ones.
    early = Side(f"batches {_ENDS + 1} to {2 * _ENDS}", mine.samples[_ENDS : 2 * _ENDS] or mine.samples)
    last = Side(f"batches {_DAYS - _ENDS + 1} to {_DAYS}", mine.samples[-_ENDS:])
    ends, by_vectors = ([Side(s.name, s.samples[-_ENDS:]) for s in (each, macks)] for each in (mine, with_vectors))
    what = f"2 % of {count:,} keys a day"
    return [
        compare(f"{what}, the last batches", *ends, at_most=0.33 if count > 2_000 else None),
        compare(f"{what}, the last batches, by vectors", *by_vectors, at_most=0.33 if count > 2_000 else None),
        compare(f"{what}, last against early", last, early, at_most=1.2 if count > 2_000 else None),
    ]


def _keep(table: Table, changes: DataFrame, run_id: str) -> None:
    run = Provenance(asset=table.name, run_id=run_id)
    assert keep_versions(changes, table.target(run), stream=_STREAM).changed


def _changes(session: SparkSession, count: int, day: int) -> DataFrame:
    """All keys on the first day, then each fiftieth, others every day."""
    keys = session.range(count, numPartitions=2) if not day else session.range(count // 50, numPartitions=2)
    own = "id" if not day else f"(id * 50 + {day} * 7 % 50) AS id"
    return keys.selectExpr(own).selectExpr(
        "id AS user_id",
        f"concat('user', id, '.', {day}, '@mail.example') AS email",
        f"CAST((id + {day}) % 7 AS INT) AS segment",
        f"timestamp_seconds(1767571200 + {day} * 86400 + id % 3600) AS changed_at",
    )


def _digest(rows: DataFrame) -> tuple[object, ...]:
    return tuple(rows.selectExpr("count(1)", digest(row_hash(rows.schema.fields))).collect()[0])
