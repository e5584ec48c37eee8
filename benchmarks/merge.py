"""An audited merge against Delta's bare MERGE of the same changes into the same rows.

Ours: ``Table.merge`` with three audits, five constraints, row accounting, refusal of repeated keys and a commit record;
nobody sees a row before all of it passed.
Theirs: the SQL statement ``MERGE INTO`` on a table without any constraint, and nothing else.

Fair, because both read the same Parquet file of changes in the same session and merge it by the same key with the same
three clauses into tables that hold the same rows, in as many files at the beginning; neither is partitioned, and keys
are hit all over the table, so that almost every file has to be written anew. Every round brings other changes (nine in
ten update a row, a tenth inserts or deletes one), and what both tables hold is compared in every round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, explain, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Delete, Insert, Ledger, Merge, Table, Update

__all__ = ["run"]

_SPEC = TableSpec(
    "silver/users",
    {
        "user_id": Column("BIGINT", required=True),
        "login": Column("STRING", required=True, classification="personal"),
        "biography": Column("STRING"),
        "age": Column("INT", required=True),
        "changed_at": Column("TIMESTAMP", required=True),
    },
    checks={"age_is_possible": "age BETWEEN 0 AND 150"},
)
_AUDITS = (
    Audit(name="biographies_are_there", of="silent", where="biography IS NULL", per="written", fail_above=0.5),
    Audit(name="deletions_are_few", of="deleted", per="source", fail_above=0.2),
    Audit(name="volume_is_usual", of="after", per="before", fail_below=0.5, fail_above=2),
)
_CLAUSES = (Delete(when="s.gone"), Update(when="s.changed_at > t.changed_at"), Insert(when="NOT s.gone"))
_COLUMNS = ", ".join(_SPEC.columns)
_THEIRS = f"""
    MERGE INTO delta.`{{table}}` t USING {{changes}} s ON t.user_id = s.user_id
    WHEN MATCHED AND s.gone THEN DELETE
    WHEN MATCHED AND s.changed_at > t.changed_at THEN UPDATE SET {", ".join(f"{c} = s.{c}" for c in _SPEC.columns)}
    WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({_COLUMNS}) VALUES ({", ".join(f"s.{c}" for c in _SPEC.columns)})
"""
_SIZES = {(5_000, 100): 0.7, (1_000_000, 10_000): 1.0}


def run(*, quick: bool) -> list[Row]:
    """Measure few changes of a small table, and 1 % of a large one."""
    session, home = SparkEngine().session, settings().home
    sizes = {(200, 20): None} if quick else _SIZES
    return [_measure(session, home, *size, goal) for size, goal in sizes.items()]


def _measure(session: SparkSession, home: Path, count: int, changes: int, goal: float | None) -> Row:
    folder = home / f"merge-{count}"
    bare, table = folder / "bare", Table(_SPEC, folder / "audited", session)
    rows = _users(session.range(0, count, 1, 2), 0)
    table.overwrite(rows, provenance=_run(0))
    table.read().write.format("delta").save(str(bare))
    read = session.read

    def prepare(number: int) -> None:
        if number:
            _require_equal(session, table.location, bare)
        _changes(session, count, changes, number).coalesce(1).write.parquet(str(folder / f"changes-{number}"))

    def ours(number: int) -> dict[str, float]:
        _merge(table, read.parquet(str(folder / f"changes-{number}")), number)
        return _files(table.ledger)

    def theirs(number: int) -> dict[str, float]:
        found = read.parquet(str(folder / f"changes-{number}"))
        session.sql(_THEIRS.replace("{table}", str(bare)), changes=found).collect()
        return _files(Ledger(bare))

    small = count < 100_000
    sides = interleave(
        {"audited merge": ours, "bare MERGE": theirs},
        rounds=9 if small else 5,
        warm_up=6 if small else 3,  # the compiler of the JVM is at work in all of them
        before=prepare,
        counters=Counters(session),
    )
    _require_equal(session, table.location, bare)
    row = compare(f"{changes:,} changes of {count:,} rows", *sides, at_most=goal)
    if goal is not None:
        prepare(99)
        found = read.parquet(str(folder / "changes-99"))
        inside = ["ensure", "check", "profile_merge", "plan", "stage_rows", "_staged_files", "candidates", "decide"]
        row.why = explain(lambda: _merge(table, found, 99), [*inside, "exchange"])
    return row


def _merge(table: Table, changes: DataFrame, number: int) -> None:
    merged = table.merge(changes, Merge(["user_id"], _CLAUSES), provenance=_run(number + 1), audits=_AUDITS)
    assert merged.changed


def _run(number: int) -> Provenance:
    return Provenance(asset=_SPEC.name, run_id="benchmark", sequence=number, inputs={"changes": number})


def _users(ids: DataFrame, round_: int) -> DataFrame:
    return ids.selectExpr(
        "id AS user_id",
        "concat('login ', hex(xxhash64(id))) AS login",
        f"if(id % 3 = 0, NULL, repeat(hex(xxhash64(id, {round_})), 4)) AS biography",
        "CAST(abs(xxhash64(id)) % 80 AS INT) AS age",
        f"timestamp_seconds(1767571200 + {round_} * 3600 + id % 3600) AS changed_at",
    )


def _changes(session: SparkSession, count: int, changes: int, number: int) -> DataFrame:
    """Keys all over the table; each tenth one is gone, or new."""
    step = count // changes
    ids = session.range(0, changes).selectExpr(
        f"if(id % 10 = 1, {count} + {number} * {changes} + id, id * {step} + {number} % {step}) AS id"
    )
    return _users(ids, number + 1).selectExpr("*", f"user_id % {step * 10} = {number} % {step} AS gone")


def _files(ledger: Ledger) -> dict[str, float]:
    commit: Any = ledger.commit(ledger.version())
    files = ledger.state().files()
    return {"files": len(files), "written": len(commit.files_added)}


def _require_equal(session: SparkSession, ours: Path, theirs: Path) -> None:
    """Both tables hold the same rows."""
    tables = [session.read.format("delta").load(str(path)) for path in (ours, theirs)]
    found = [rows.selectExpr("count(1)", digest(row_hash(rows.schema.fields))).collect() for rows in tables]
    assert found[0] == found[1], found
