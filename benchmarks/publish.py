"""An audited publish against a bare Spark + Delta overwrite of the same partition with the same rows.

Ours: ``Table.stage(...).publish()`` with a tally, three audits, six constraints, row accounting and a commit record.
Theirs: ``df.write.format("delta").mode("overwrite").option("replaceWhere", ...)`` into a table without any constraint,
and nothing else.

Fair, because both read the same Parquet files with the same expression in the same session, write all columns, replace
a partition that is there already, and collect file statistics. Theirs does not check anything: whatever ours adds is
paid by ours. Every round writes other rows than the one before by the same statement, as a job does day by day (ours
would notice equal ones and write nothing), and what both tables hold is compared in every round.

For orientation, lines show what the gate adds to the latency of a window: ``audit_write_audit_publish`` with all of the
above against the same ``Table.stage(...).publish()`` without tally, audits and constraints. ``s held`` is how long rows
that were written waited for their verdict and their commit.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, explain, files_of, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, TableState
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish

__all__ = ["run"]

_DAY = "2026-01-05"
_PARTITION = {"event_date": _DAY}
_WHERE = f"event_date = DATE '{_DAY}'"
_SPEC = TableSpec(
    "silver/visits",
    {
        "visit_id": Column("STRING", required=True),
        "event_time": Column("TIMESTAMP", required=True),
        "user_id": Column("STRING", required=True, classification="personal"),
        "page": Column("STRING", required=True),
        "status": Column("INT"),
        "bytes": Column("BIGINT"),
        "event_date": Column("DATE", required=True),
    },
    partition_by=("event_date",),
    checks={"known_status": "status IS NULL OR status BETWEEN 100 AND 599"},
)
_AUDITS = (
    Audit(name="errors_are_few", of="errors", where="status >= 500", per="written", fail_above=0.2),
    Audit(name="there_are_pages", of="pages", sql="approx_count_distinct(page)", fail_below=1),
    Audit(name="volume_is_usual", of="written", per="usual", fail_below=0.5, fail_above=2),
)
_LINE = """
    to_json(struct(concat(id, '-', id % 7) AS visit_id, timestamp_millis(1767571200000 + id % 86400000) AS event_time,
                   concat('u', xxhash64(id) % 5000) AS user_id, concat('/posts/', id % 40) AS page,
                   CAST(if(id % 50 = 0, 500, 200) AS INT) AS status, (id + {0}) % 60000 AS bytes))
"""
_TYPED = "visit_id STRING, event_time TIMESTAMP, user_id STRING, page STRING, status INT, bytes BIGINT"
_GOALS = {1_000: 0.4, 1_000_000: 0.9}
_SOURCES = 2
"""Number of sources that rounds take in turn."""


def run(*, quick: bool) -> list[Row]:
    """Measure typed rows and rows that are parsed from JSON on the way, small and large."""
    session, home = SparkEngine().session, settings().home
    sizes = (500,) if quick else tuple(_GOALS)
    kinds = (True,) if quick else (True, False)
    rows = [_measure(session, home, count, parsed=parsed) for count in sizes for parsed in kinds]
    return [*rows, *(_gate(session, home, count) for count in sizes)]


def _measure(session: SparkSession, home: Path, count: int, *, parsed: bool) -> Row:
    folder = home / f"publish-{count}-{parsed}"
    _write_source(session, folder / "source", count, parsed=parsed)
    bare, table = folder / "bare", Table(_SPEC, folder / "audited", session)
    rows = _rows(session, folder / "source", parsed=parsed)
    rows(1).write.format("delta").partitionBy("event_date").save(str(bare))

    def ours(_: int) -> dict[str, float]:
        _publish(rows(next(publishes)), table, count)
        return files_of(_adds(table.location))

    def theirs(_: int) -> dict[str, float]:
        writer = rows(next(overwrites)).write.format("delta").mode("overwrite")
        writer.option("replaceWhere", _WHERE).save(str(bare))
        return files_of(_adds(bare))

    small = count < 100_000
    publishes, overwrites = itertools.count(), itertools.count()
    sides = interleave(
        {"audited publish": ours, "bare overwrite": theirs},
        rounds=5,
        warm_up=3,  # the compiler of the JVM is at work in all of them
        repeats=3 if small else 1,
        before=lambda number: _require_equal(session, table.location, bare, count) if number else None,
        counters=Counters(session),
    )
    _require_equal(session, table.location, bare, count)
    kind = "parsed from JSON" if parsed else "typed, no transformation"
    row = compare(f"{count:,} rows, {kind}", *sides, at_most=_GOALS.get(count))
    if row.met is False:
        row.why = explain(
            lambda: _publish(rows(10_000), table, count), ["ensure", "stage_rows", "_staged_files", "publish", "decide"]
        )
    return row


def _gate(session: SparkSession, home: Path, count: int) -> Row:
    """The same windows through the gate and past it."""
    folder = home / f"gate-{count}"
    _write_source(session, folder / "source", count, parsed=False)
    loose = {name: replace(column, required=False) for name, column in _SPEC.columns.items()}
    gated = Table(_SPEC, folder / "gated", session)
    past = Table(replace(_SPEC, columns=loose, checks={}), folder / "past", session)
    rows, held, written = _rows(session, folder / "source", parsed=False), itertools.count(), itertools.count()
    run = Provenance(asset=_SPEC.name, run_id="benchmark")

    def ours(_: int) -> dict[str, float]:
        counted, seen = tally(rows(next(held)), identity=["visit_id"])
        rows_read = RowsRead(tally=seen, figures={"usual": count})
        result = audit_write_audit_publish(
            counted, gated.target(run, partition=_PARTITION, audits=_AUDITS, rows_read=rows_read)
        )
        return {"s held": result.figures["held_seconds"]}

    def theirs(_: int) -> None:
        assert past.overwrite(rows(next(written)), partition=_PARTITION, provenance=run).changed

    sides = interleave(
        {"through the gate": ours, "past the gate": theirs},
        rounds=5,
        warm_up=3,
        repeats=3 if count < 100_000 else 1,
        counters=Counters(session),
    )
    return compare(f"{count:,} rows, through and past the gate", *sides)


def _publish(rows: DataFrame, table: Table, count: int) -> None:
    counted, seen = tally(rows, identity=["visit_id"])
    rows_read = RowsRead(tally=seen, figures={"usual": count})
    provenance = Provenance(asset=table.name, run_id="benchmark", pattern="idempotency.data_overwrite")
    staged = table.stage(counted, partition=_PARTITION, provenance=provenance, audits=_AUDITS, rows_read=rows_read)
    assert staged.publish().changed


def _write_source(session: SparkSession, folder: Path, count: int, *, parsed: bool) -> None:
    for number in range(_SOURCES):
        lines = session.range(0, count, 1, 2).selectExpr(f"{_LINE.format(number)} AS raw")
        found = lines if parsed else lines.selectExpr(f"from_json(raw, '{_TYPED}') AS visit").select("visit.*")
        found.write.parquet(str(folder / str(number)))


def _rows(session: SparkSession, folder: Path, *, parsed: bool) -> Any:  # noqa: ANN401 - a function
    def of_round(number: int) -> DataFrame:
        found = session.read.schema("raw STRING" if parsed else _TYPED).parquet(str(folder / str(number % _SOURCES)))
        typed = found.selectExpr(f"from_json(raw, '{_TYPED}') AS visit").select("visit.*") if parsed else found
        return typed.selectExpr("*", f"DATE '{_DAY}' AS event_date")

    return of_round


def _adds(location: Path) -> Sequence[Mapping[str, Any]]:
    table = DeltaTable(str(location))
    return TableState(table.version(), lambda: table).files()


def _require_equal(session: SparkSession, ours: Path, theirs: Path, count: int) -> None:
    """Both tables hold the same rows."""
    digest = "count(1), bit_xor(xxhash64(visit_id, event_time, user_id, page, status, bytes, event_date))"
    found = [session.sql(f"SELECT {digest} FROM delta.`{path}`").collect() for path in (ours, theirs)]
    assert found[0] == found[1], found
    assert found[0][0][0] == count
