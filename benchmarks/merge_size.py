"""A merge by the size of the table, against an overwrite of all of it, and by deletion vectors.

Ours: ``merge_changes`` of the Merger pattern, without an order: keys are looked at, refused if repeated, counted, and a
row that is as it was is no change.
Theirs: the same merge into a table of a tenth or a hundredth of the size; or, for the change of 1 % of the rows,
``Table.overwrite`` by the complete rows, which somebody else has computed already; or the same merge into a table
without deletion vectors, which writes each touched file again.

Fair, because all tables lie in files of as many rows each, which hold neighbouring keys, as a table has that grows by
its keys. Each round changes other values of the same number of rows: of one file, or of one row in a hundred all over
the table. What merge and overwrite leave is compared in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Counters, Row, compare, interleave
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.rows import digest, row_hash
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.idempotency.merger import merge_changes

__all__ = ["run"]

_SPEC = TableSpec(
    "silver/users",
    {
        "user_id": Column("BIGINT", required=True),
        "login": Column("STRING"),
        "biography": Column("STRING"),
        "age": Column("INT"),
    },
)
_MARKED = {"delta.enableDeletionVectors": "true"}
_SCATTERED, _NEIGHBOURS = "all over it", "in one file"


def run(*, quick: bool) -> list[Row]:
    """Measure tables of growing numbers of files, then a change of 1 % against an overwrite."""
    session, home = SparkEngine().session, settings().home
    rows, sizes, files = (100, (1, 2, 4), 4) if quick else (20_000, (1, 10, 100), 50)
    against = [_against_overwrite(session, home, files, rows, where) for where in (_NEIGHBOURS, _SCATTERED)]
    return [*_sizes(session, home, rows, sizes), *against, _by_vectors(session, home, files, rows)]


def _sizes(session: SparkSession, home: Path, rows: int, sizes: Sequence[int]) -> list[Row]:
    changes, counters = rows // 20, Counters(session)
    tables = {files: _table(session, home / f"{files}", files, rows) for files in sizes}

    def side(files: int, number: int) -> dict[str, float]:
        found = session.range(0, rows, rows // changes, 1)
        return _merge(tables[files], _rows(found, number + 1), number)

    sides = interleave(
        {f"{files} files": partial(side, files) for files in tables}, rounds=9, warm_up=6, counters=counters
    )
    one, *more = sides
    case = f"{changes:,} changes, table of {rows:,} rows a file"
    return [compare(f"{case}: {side.name} against 1", side, one, at_most=1.05) for side in more]


def _against_overwrite(session: SparkSession, home: Path, files: int, rows: int, where: str) -> Row:
    count = files * rows
    merged, replaced = (_table(session, home / f"{where}-{name}", files, rows) for name in ("merged", "replaced"))
    changed = "id % 100 = 0" if where == _SCATTERED else f"id < {count // 100}"

    def merge(number: int) -> dict[str, float]:
        return _merge(merged, _rows(session.range(0, count, 1, 2).filter(changed), number + 1), number)

    def overwrite(number: int) -> dict[str, float]:
        ids = session.range(0, count, 1, files)
        others, ours = _rows(ids.filter(f"NOT ({changed})"), 0), _rows(ids.filter(changed), number + 1)
        result = replaced.overwrite(others.unionAll(ours), provenance=_run(number))
        return {"written": len(replaced.ledger.commit(result.version).files_added)}

    sides = interleave({"merge": merge, "overwrite": overwrite}, rounds=5, warm_up=2, counters=Counters(session))
    content = ["count(1)", digest(row_hash(merged.read().schema.fields))]
    found = [table.read().selectExpr(*content).collect() for table in (merged, replaced)]
    assert found[0] == found[1], found
    return compare(f"1 % of {count:,} rows, {where}", *sides)


def _by_vectors(session: SparkSession, home: Path, files: int, rows: int) -> Row:
    """Measure changes of rows all over a table, and the kilobytes that each merge writes."""
    count = files * rows
    specs = {"deletion vectors": replace(_SPEC, properties=_MARKED), "copy on write": _SPEC}
    tables = {name: _table(session, home / name, files, rows, spec) for name, spec in specs.items()}

    def side(name: str, number: int) -> dict[str, float]:
        table, changed = tables[name], session.range(0, count, 1, 2).filter("id % 100 = 0")
        before = _bytes_below(table)
        _merge(table, _rows(changed, number + 1), number)
        return {"written KB": (_bytes_below(table) - before) / 1024}

    sides = interleave({name: partial(side, name) for name in tables}, rounds=5, warm_up=2, counters=Counters(session))
    content = ["count(1)", digest(row_hash(tables["copy on write"].read().schema.fields))]
    found = [table.read().selectExpr(*content).collect() for table in tables.values()]
    assert found[0] == found[1], found
    return compare(f"1 % of {count:,} rows, {_SCATTERED}: what is written", *sides)


def _bytes_below(table: Table) -> int:
    return sum(file.size_bytes for file in table.store.files() if not file.path.startswith("_delta_log"))


def _table(session: SparkSession, folder: Path, files: int, rows: int, spec: TableSpec = _SPEC) -> Table:
    table = Table(spec, folder, session)
    table.overwrite(_rows(session.range(0, files * rows, 1, files), 0), provenance=_run(-1))
    assert len(table.ledger.state().files()) == files
    return table


def _merge(table: Table, changes: DataFrame, number: int) -> dict[str, float]:
    result = merge_changes(changes, table.target(_run(number)), keys=["user_id"])
    assert result.changed
    return {"written": len(table.ledger.commit(result.version).files_added)}


def _rows(ids: DataFrame, round_: int) -> DataFrame:
    return ids.selectExpr(
        "id AS user_id",
        "concat('login ', hex(xxhash64(id))) AS login",
        f"repeat(hex(xxhash64(id, {round_})), 4) AS biography",
        "CAST(abs(xxhash64(id)) % 80 AS INT) AS age",
    )


def _run(number: int) -> Provenance:
    return Provenance(asset=_SPEC.name, run_id="benchmark", sequence=number + 1, inputs={"changes": number})
