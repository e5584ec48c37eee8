"""Reads of a table at a pinned version, by the data files in the log.

Spark's Delta reader rebuilds the table's state in a Spark job before it reads the first row, at every version anew. The
ledger knows the files in milliseconds, so where nothing but plain Parquet files makes up the table (no deletion
vectors, no column mapping), they are read directly. Any other table is left to the Delta reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import permutations
from urllib.parse import unquote

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType, StructField, StructType

from dedp_assets.patterns.core.names import RESERVED, identifier, select_list
from dedp_assets.patterns.core.types.partitions import equals, literal, quoted, sql_type
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import CLOSED, KeyedFile, TableState
from dedp_assets.patterns.delta.snapshots.places import (
    FILE,
    PLACE_TYPES,
    PLACES,
    PLAIN_PATH,
    ROW,
    plain_uri,
    plain_uri_of,
    without_deleted,
)
from dedp_assets.patterns.delta.storage.locations import STAGE, literal_path
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["bytes_of", "lies_outside", "missing_files", "predicate", "read_at", "read_files"]

_PLAIN = {
    CLOSED,
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "clustering",
    "domainMetadata",
    "generatedColumns",
    "invariants",
    "v2Checkpoint",
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_MOST_PARTITIONS = _MOST_FILES = 64
"""Most partitions and files of a direct read; Delta's reader is as fast for more, and skips files by filters."""
_MOST_COMPARED = 16
"""The number of files that every row of :func:`_together` may be compared with."""
_FEW_ROWS, _FEW_BYTES = 10_000, 1 << 20
"""What one task reads and computes by itself: rows of one task are grouped, joined and ranked without a shuffle."""
_PLACE = f"{RESERVED}place"


def read_at(
    session: SparkSession, store: Store, state: TableState, partitions: Sequence[Mapping[str, str | None]]
) -> DataFrame:
    """Read the rows of the named partitions (all, if none is named) as the table was at ``state``; lazy."""
    files = _files(store, state, partitions) if state.features <= _PLAIN and not state.mapped else None
    schema = StructType.fromJson(json.loads(state.snapshot.schema().to_json()))
    if files is None or len(files) > _MOST_PARTITIONS or sum(map(len, files.values())) > _MOST_FILES:
        rows = session.read.format("delta").option("versionAsOf", state.version).load(store.address)
        wanted = " OR ".join(f"({predicate(named, state)})" for named in partitions)
        shown = _columns(schema, (file["path"] for file, _ in state.keyed_files()))
        return (rows.filter(wanted) if wanted else rows).selectExpr(*select_list(shown))
    if not files:
        return session.createDataFrame([], schema)
    stored = StructType([field for field in schema.fields if field.name not in state.partition_columns])
    if partitions and len(files) > 1 and _are_told_by_path(store, files, stored):
        rows = _together(session, store, files, stored, schema, state.kinds)
    else:
        reader = session.read.schema(stored)
        parts = [_part(reader, paths, schema, dict(key), state.kinds) for key, paths in files.items()]
        rows = reduce(DataFrame.unionByName, parts)
    return rows.coalesce(1) if _are_few(state, files) else rows


def read_files(
    session: SparkSession,
    store: Store,
    state: TableState,
    files: Iterable[KeyedFile],
    *,
    named: bool = False,
    placed: bool = False,
) -> DataFrame:
    """Read the rows of ``files`` only, as of ``state``, without rows that a deletion vector deletes; lazy.

    Args:
        session: the Spark session.
        store: the table's.
        state: the table as it is.
        files: some of its active files, each with its partition.
        named: whether rows say in a column :data:`FILE` where they come from.
        placed: whether rows say so, and in a column :data:`ROW` their position in the file, counted from 0.
    """
    schema, files = StructType.fromJson(json.loads(state.snapshot.schema().to_json())), list(files)
    marked = {unquote(file["path"]): file["deletionVector"] for file, _ in files if "deletionVector" in file}
    shown = [FILE] * (named or placed) + [ROW] * placed
    also = dict(list(PLACES.items())[: 2 if placed or marked else int(named)])
    by_key: dict[Partition, list[str]] = {}
    for file, key in files:
        by_key.setdefault(key, []).append(unquote(file["path"]))
    if not by_key:
        nothing = session.createDataFrame([], schema)
        return nothing.selectExpr("*", *[f"CAST(NULL AS {PLACE_TYPES[name]}) AS {name}" for name in shown])
    stored = StructType([field for field in schema.fields if field.name not in state.partition_columns])
    if len(by_key) > _MOST_PARTITIONS:
        rows = _by_file(session, store, by_key, stored, schema, state.kinds, also)
    else:
        reader = session.read.schema(stored)
        parts = [
            _part(reader, [*map(store.address_of, paths)], schema, dict(key), state.kinds, select_list(also))
            for key, paths in by_key.items()
        ]
        rows = reduce(DataFrame.unionByName, parts)
    if not marked:
        return rows
    paths = [path for each in by_key.values() for path in each]
    return without_deleted(store, rows, paths, marked).select(*[identifier(c) for c in (*schema.names, *shown)])


def bytes_of(state: TableState, partitions: Sequence[Mapping[str, str | None]]) -> int:
    """Return the size of the files of named partitions (of all, if none is named), by the log, in bytes."""
    files = state.keyed_files()
    named = [file for file, key in files if not partitions or any(p.items() <= dict(key).items() for p in partitions)]
    return sum(file["size_bytes"] for file in named)


def missing_files(store: Store, state: TableState, partitions: Sequence[Mapping[str, str | None]] = ()) -> list[str]:
    """List files of the named partitions (of all, if none is named) at ``state`` that a vacuum removed."""
    files = [path for paths in (_files(store, state, partitions) or {}).values() for path in paths]
    found = store.entries(files)
    return [path for path in files if path not in found]


def lies_outside(path: str) -> bool:
    """Return whether the log names a file by an absolute path, as the log of a clone does."""
    return path.startswith("/") or bool(_SCHEME.match(path))


def _files(
    store: Store, state: TableState, partitions: Sequence[Mapping[str, str | None]]
) -> dict[Partition, list[str]] | None:
    """List the active files by partition; ``None`` if a file lies outside the table's folder."""
    found: dict[Partition, list[str]] = {}
    for file, key in state.keyed_files():
        path = unquote(file["path"])
        if lies_outside(path):
            return None
        if not partitions or any(named.items() <= dict(key).items() for named in partitions):
            found.setdefault(key, []).append(store.address_of(path))
    return found


def _are_few(state: TableState, partitions: Collection[Partition]) -> bool:
    """Return whether partitions have so few rows, by the log, that one task is faster than a shuffle."""
    held = [each for key, each in state.statistics().items() if key in partitions]
    rows, size = sum(each.rows for each in held), sum(each.bytes for each in held)
    return rows <= _FEW_ROWS and size <= _FEW_BYTES and all(each.exact for each in held)


def _part(
    reader: DataFrameReader,
    paths: list[str],
    schema: StructType,
    values: Mapping[str, str | None],
    kinds: Mapping[str, str],
    also: Sequence[str] = (),
) -> DataFrame:
    rows = reader.parquet(*[literal_path(path) for path in paths])
    constants = {c: literal(value, str(kinds[c])) for c, value in values.items()}
    return rows.selectExpr(*select_list({**_columns(schema, paths), **constants}), *also)


def _columns(schema: StructType, paths: Iterable[str]) -> dict[str, str]:
    """Return SQL for each column of a table's files, with floats that statistics do not pass over.

    Bounds by delta-rs leave NaN out, while Spark's NaN is greater than any number, so ``x > 5`` would lose rows. The
    stages of the library state no bound that a NaN could exceed.
    """
    staged = all(STAGE in path for path in paths)
    return {f.name: identifier(f.name) if staged else _compared(identifier(f.name), f.dataType) for f in schema.fields}


def _compared(value: str, kind: DataType) -> str:
    """Return SQL for a value itself, by an expression that Spark and Delta do not compare with statistics."""
    if isinstance(kind, (DoubleType, FloatType)):
        return f"nanvl({value}, CAST('NaN' AS {kind.simpleString()}))"
    if not isinstance(kind, StructType):
        return value
    fields = {f.name: (f"{value}.{identifier(f.name)}", f.dataType) for f in kind.fields}
    shown = {name: _compared(field, of) for name, (field, of) in fields.items()}
    if all(shown[name] == field for name, (field, _) in fields.items()):
        return value
    made = ", ".join(f"{quoted(name)}, {field}" for name, field in shown.items())
    return f"if({value} IS NULL, NULL, named_struct({made}))"


def _are_told_by_path(store: Store, files: Mapping[Partition, Sequence[str]], stored: StructType) -> bool:
    """Return whether ``_metadata`` shows the paths of a few files as the table's log does."""
    paths = [f"/{_below(store, path)}" for each in files.values() for path in each]
    if len(paths) > _MOST_COMPARED or "_metadata" in map(str.lower, stored.names):
        return False
    return all(map(PLAIN_PATH.fullmatch, paths)) and not any(a.endswith(b) for a, b in permutations(paths, 2))


def _together(
    session: SparkSession,
    store: Store,
    files: Mapping[Partition, Sequence[str]],
    stored: StructType,
    schema: StructType,
    kinds: Mapping[str, str],
) -> DataFrame:
    """Read the rows of a few named partitions in one frame, with partition values by file.

    A frame, a projection and a union for each partition are three analyses each. Whoever filters by a partition column
    afterwards reads all of the files, which is why a read of the whole table does not come this way.
    """
    paths = [literal_path(path) for each in files.values() for path in each]
    of_file = {
        key: " OR ".join(f"endswith(_metadata.file_path, '/{_below(store, path)}')" for path in each)
        for key, each in files.items()
    }
    values = {}
    for column, kind in kinds.items():
        held = {key: literal(dict(key)[column], kind) for key in files}
        cases = [f"WHEN {of_file[key]} THEN {value}" for key, value in held.items()]
        values[column] = f"CASE {' '.join(cases)} END" if len({*held.values()}) > 1 else next(iter(held.values()))
    shown = {**_columns(schema, paths), **values}
    return session.read.schema(stored).parquet(*paths).selectExpr(*select_list(shown))


def _below(store: Store, path: str) -> str:
    return path.removeprefix(f"{store.address}/")


def _by_file(
    session: SparkSession,
    store: Store,
    files: Mapping[Partition, list[str]],
    stored: StructType,
    schema: StructType,
    kinds: Mapping[str, str],
    also: Mapping[str, str],
) -> DataFrame:
    """Read the rows of many partitions, with partition values joined by file."""
    columns = list(kinds)
    every = [(path, dict(key)) for key, paths in files.items() for path in paths]
    known = [(plain_uri(store.uri_of(path)), *[values[c] for c in columns]) for path, values in every]
    names = [_PLACE, *columns]
    values = session.createDataFrame(known, StructType([StructField(name, StringType()) for name in names]))
    paths = [literal_path(store.address_of(path)) for path, _ in every]
    rows = (
        session.read.schema(stored)
        .parquet(*paths)
        .selectExpr("*", *select_list(also), f"{plain_uri_of('_metadata.file_path')} AS {_PLACE}")
    )
    cast = {c: f"CAST({identifier(c)} AS {sql_type(kind)})" for c, kind in kinds.items()}
    joined = rows.join(F.broadcast(values), _PLACE)
    shown = select_list({**_columns(schema, paths), **cast})
    return joined.selectExpr(*shown, *also)


def predicate(partition: Mapping[str, str | None], state: TableState, alias: str = "") -> str:
    """Write the SQL predicate of one partition in the log's spelling; ``true`` for the whole table."""
    return " AND ".join(alias + equals(c, value, state.kinds[c]) for c, value in partition.items()) or "true"
