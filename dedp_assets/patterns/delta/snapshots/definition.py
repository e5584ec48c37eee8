"""Schema of a table: agreement with the declaration, and requirements on rows.

Creating and altering are commits of their own, before and apart from any write: two writers that race to create a table
or to change its properties would otherwise fail each other's data commits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import DROPPED, TableSpec
from dedp_assets.patterns.core.sql.sql_options import reason_of, require_of_one_row, truth
from dedp_assets.patterns.core.types.meeting import as_held, held_problems
from dedp_assets.patterns.core.types.partitions import misfit, quoted, text
from dedp_assets.patterns.core.types.schema_changes import CONSTRAINTS, differences, made_in_place
from dedp_assets.patterns.delta.log.protocol import unwritable
from dedp_assets.patterns.delta.log.table_state import TableState

__all__ = [
    "alterations",
    "conform",
    "conformed",
    "constraints",
    "content_columns",
    "creation",
    "held_types",
    "require_open",
    "require_partition",
    "require_replaceable",
    "require_usable",
]

_LENGTH = re.compile(r"(?:var)?char\((\d+)\)")


def require_usable(spec: TableSpec, session: SparkSession) -> None:
    """Refuse a declaration that Spark cannot evaluate, before the table is created in part.

    Raises:
        ConfigError: without columns, or for a type or a constraint that Spark cannot evaluate; names it.
    """
    if not spec.columns:
        raise ConfigError(f"{spec.name} declares no columns: declare at least one before anything is written to it")
    nothing = ", ".join(f"CAST(NULL AS {column.type}) AS {identifier(name)}" for name, column in spec.columns.items())
    rows = _analysed(f"{spec.name}: its columns", lambda: session.sql(f"SELECT {nothing}"))
    require_of_one_row(f"{spec.name}: constraint", spec.checks)
    for name, rule in spec.checks.items():
        _analysed(f"{spec.name}: constraint {name}", partial(rows.filter, truth(rule)))


def _analysed(what: str, rows: Callable[[], DataFrame]) -> DataFrame:
    try:
        found = rows()
        # Over Spark Connect nothing is analysed before the engine is asked, and a schema may be known without it.
        _ = found.isStreaming
    except AnalysisException as error:
        raise ConfigError(f"{what} cannot be evaluated: {reason_of(error)}") from error
    return found


def creation(spec: TableSpec, location: str) -> Iterator[str]:
    """Write the SQL statements that create the table of ``spec`` in ``location``."""
    columns = ", ".join(
        f"{identifier(name)} {c.type}{' NOT NULL' if c.required else ''}{_comment(c.comment)}"
        for name, c in spec.columns.items()
    )
    partitions = f" PARTITIONED BY ({', '.join(map(identifier, spec.partition_by))})" if spec.partition_by else ""
    clustered = f" CLUSTER BY ({', '.join(map(identifier, spec.layout.cluster_by))})" if spec.layout.cluster_by else ""
    properties = {**spec.table_properties(), **spec.layout.of_new_table}
    yield (
        f"CREATE TABLE IF NOT EXISTS delta.`{location}` ({columns}) USING DELTA{partitions}{clustered}"
        f"{_comment(spec.comment)} TBLPROPERTIES ({_properties(properties)})"
    )
    for name, predicate in spec.checks.items():
        yield f"ALTER TABLE delta.`{location}` ADD CONSTRAINT {identifier(name)} CHECK ({predicate})"


def alterations(spec: TableSpec, location: str, state: TableState) -> Iterator[str]:
    """Write the SQL statements that add columns, constraints and properties of ``spec`` to the table.

    Raises:
        SchemaMismatch: if the stored table differs in a way that needs a migration (types, dropped or reordered
            partition columns, a new required column).
    """
    _refuse_migration(spec, state)
    table = f"delta.`{location}`"
    for name, column in spec.columns.items():
        if name not in state.columns:
            yield f"ALTER TABLE {table} ADD COLUMNS ({identifier(name)} {column.type}{_comment(column.comment)})"
    for name, predicate in spec.checks.items():
        if f"{CONSTRAINTS}{name}".lower() not in {key.lower() for key in state.properties}:
            yield f"ALTER TABLE {table} ADD CONSTRAINT {identifier(name)} CHECK ({predicate})"
    if stale := {k: v for k, v in spec.table_properties().items() if state.properties.get(k) != v}:
        yield f"ALTER TABLE {table} SET TBLPROPERTIES ({_properties(stale)})"
    changes = made_in_place(spec, state.columns, state.properties)
    yield from (f"ALTER TABLE {table} {change.clause}" for change in changes)


def constraints(table: str, state: TableState) -> dict[str, str]:
    """List every rule of the stored table, whoever added the rule: constraint name -> SQL predicate.

    These are all the rules that Spark's writer would enforce row by row: NOT NULL at any depth, CHECK, invariants,
    lengths of CHAR and VARCHAR, generated columns; and that a partition value is one that the log can hold.

    Args:
        table: what messages call it.
        state: the table.

    Raises:
        ConfigError: if there is one that cannot be stated as a predicate.
    """
    rules: dict[str, str] = {}
    for name, field_ in state.columns.items():
        rules |= dict(_of_field(table, name, field_))
    for column, kind in state.kinds.items():
        if unfit := misfit(column, kind):
            rules[f"{column}_is_a_partition_value"] = f"NOT {unfit}"
    checks = {key[len(CONSTRAINTS) :]: value for key, value in state.properties.items() if key.startswith(CONSTRAINTS)}
    both = {name: f"({rules[name]}) AND ({checks[name]})" for name in rules if name in checks}
    return {**rules, **checks, **both}


def content_columns(spec: TableSpec, state: TableState) -> list[str]:
    """List the stored columns without the technical columns."""
    technical = {name.lower() for name in {*spec.columns} - {*spec.content}}
    return [name for name in state.columns if name.lower() not in technical]


def _of_field(table: str, name: str, column: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List the rules in the schema entry of one column."""
    details = column.get("metadata", {})
    yield from _not_null(name, identifier(name), column)
    if expression := details.get("delta.generationExpression"):
        yield f"{name}_is_generated", f"{identifier(name)} <=> ({expression})"
    if stated := details.get("delta.invariants"):
        try:
            rule = str(json.loads(stated)["expression"]["expression"])
        except (ValueError, TypeError, KeyError):
            raise ConfigError(
                f"{table}: the invariant of {name} cannot be read, so no row can be checked against it: {stated!r}"
            ) from None
        yield f"{name}_keeps_its_invariant", rule
    if declared := str(details.get("__CHAR_VARCHAR_TYPE_STRING", "")):
        if not (length := _LENGTH.fullmatch(declared)):
            raise ConfigError(
                f"{table}: {name} is {declared.upper()}: lengths inside of a column cannot be checked before the rows "
                "are published. Declare STRING there, and the length as a CHECK"
            )
        yield f"{name}_is_a_{declared}", f"coalesce(char_length({identifier(name)}) <= {length[1]}, true)"


def _not_null(name: str, path: str, column: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List the NOT NULL rules of a column and nested fields; as in Delta, a NULL parent violates a rule."""
    if not column["nullable"]:
        yield f"{name}_is_not_null", f"{path} IS NOT NULL"
    inner = column["type"]
    for each in inner["fields"] if isinstance(inner, dict) and inner["type"] == "struct" else ():
        yield from _not_null(f"{name}.{each['name']}", f"{path}.{identifier(each['name'])}", each)


def require_partition(table: str, state: TableState, owned: Mapping[str, object]) -> dict[str, str]:
    """Return a partition in the log's spelling, under the table's column names.

    A partition that no row can lie in is refused before anything is computed for it.

    Args:
        table: what messages call it.
        state: the table.
        owned: partition column -> value, Python's or its text; names are compared as Spark compares them.

    Raises:
        ConfigError: if ``owned`` names a column the table is not partitioned by, or a value its type does not have.
    """
    known = {column.lower(): column for column in state.partition_columns}
    if foreign := [column for column in owned if column.lower() not in known]:
        raise ConfigError(f"{table} is partitioned by {list(state.partition_columns)}, not by {foreign}")
    spelled: dict[str, str] = {}
    for given, value in owned.items():
        column = known[given.lower()]
        kind = state.kinds[column]
        try:
            found = text(value, kind)
        except ValueError as error:
            raise ConfigError(
                f"{table} has no partition {column}={value!r}: its values are of type {kind.upper()} ({error})"
            ) from None
        if found is None or column in spelled:
            raise ConfigError(f"{table}: {column} is named twice, or without a value: {dict(owned)}")
        spelled[column] = found
    return spelled


def require_open(table: str, state: TableState) -> None:
    """Refuse to write a closed table, and a table with features that no writer of the library knows.

    Raises:
        ConfigError: if it is a version, or shows versions, or asks its writers for more; names what.
    """
    if state.closed:
        raise ConfigError(
            f"{table} is closed: its rows are those of a version, which is written once. Load a new version "
            "(proxy.load_version), or show another one (proxy.switch_version)"
        )
    if asked := unwritable(state.protocol):
        raise ConfigError(
            f"{table} asks its writers to know {', '.join(asked)}, which neither the library nor Spark's Delta writer "
            "does: it can be read, and nothing was written. Drop the feature where the table is made, or write a copy"
        )


def require_replaceable(table: str, state: TableState) -> None:
    """Refuse to remove rows from an append-only table.

    Raises:
        ConfigError: if the table is append-only, or closed.
    """
    require_open(table, state)
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        raise ConfigError(
            f"{table} is append-only (delta.appendOnly), so no row of it can be replaced or deleted: append to it, or "
            "declare it without that property"
        )


def held_types(state: TableState) -> StructType:
    """Return the schema of a stored table as Spark's ``StructType``."""
    return StructType.fromJson({"type": "struct", "fields": list(state.columns.values())})


def conform(table: str, split: Split, keep: str, state: TableState) -> None:
    """Refuse rows whose columns or column types do not fit the stored table.

    Raises:
        SchemaMismatch: names every missing and unknown column, and each whose values may be none of the table's type.
    """
    names = set(split.parts[keep])
    problems = []
    if missing := [name for name in state.columns if name not in names]:
        problems.append(f"missing columns {missing}")
    if unknown := sorted(names - set(state.columns)):
        problems.append(f"unknown columns {unknown}")
    held = StructType([field for field in held_types(state).fields if field.name in names])
    if problems := [*problems, *held_problems(split.rows, held)]:
        raise SchemaMismatch(f"{table}: {'; '.join(problems)}")


def conformed(table: str, rows: DataFrame, state: TableState) -> DataFrame:
    """Give plain rows the types of the stored table's columns; lazy.

    Raises:
        SchemaMismatch: as :func:`conform`.
    """
    conform(table, Split.of(rows), "valid", state)
    return as_held(rows, held_types(state), table)


def _refuse_migration(spec: TableSpec, state: TableState) -> None:
    if tuple(spec.partition_by) != state.partition_columns:
        raise SchemaMismatch(
            f"{spec.name} is partitioned by {list(state.partition_columns)}, declared is {list(spec.partition_by)}: "
            f"`dedp layout {spec.name} --apply` rewrites it, beside its readers"
        )
    if gone := [name for name in state.columns if name not in spec.columns]:
        raise SchemaMismatch(f"{spec.name} has columns {gone} that are no longer declared: declare or migrate them")
    if required := [name for name, c in spec.columns.items() if c.required and name not in state.columns]:
        raise SchemaMismatch(f"{spec.name} cannot add required columns {required} to stored rows: add them as optional")
    spent = json.loads(state.properties.get(DROPPED, "[]"))
    if again := [name for name in spec.columns if name not in state.columns and name.lower() in spent]:
        raise SchemaMismatch(
            f"{spec.name} cannot add {again} once more: its files still hold the dropped columns, whose values would "
            "come back. Choose another name"
        )
    if differing := [*differences(spec, state.columns, state.properties)]:
        raise SchemaMismatch(f"{spec.name}: {'; '.join(differing)}: this needs a migration")


def _properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(key)} = {quoted(value)}" for key, value in properties.items())


def _comment(text: str) -> str:
    return f" COMMENT {quoted(text)}" if text else ""
