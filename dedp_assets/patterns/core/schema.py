"""What a table declares about itself, and the step that makes the stored table agree with it.

Creating and altering are commits of their own, before and apart from any write: two writers that race to create a table
or to change its properties would otherwise fail each other's data commits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.log import TableState
from dedp_assets.patterns.core.names import identifier, reserved
from dedp_assets.patterns.core.partitions import is_possible, misfit, quoted, stored_type, text
from dedp_assets.patterns.core.results import Split

__all__ = [
    "Column",
    "TableSpec",
    "alterations",
    "conform",
    "constraints",
    "creation",
    "require_declared",
    "require_partition",
    "require_replaceable",
    "require_usable",
    "shape",
]

_PROPERTIES = {
    "delta.checkpointInterval": "20",
    # The log is the ledger: what it forgets is known only by transaction cursors from then on.
    "delta.logRetentionDuration": "interval 365 days",
}
_BOUNDED = ("BIGINT", "BYTE", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT", "LONG", "SHORT", "STRING", "TIMESTAMP")
_PREFIX = "delta.constraints."
_LENGTH = re.compile(r"(?:var)?char\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        type: Spark SQL type (``STRING``, ``TIMESTAMP``, ``ARRAY<STRING>``).
        comment: what the values mean, with their unit.
        required: NOT NULL; violations are counted and refused.
        personal: personal data: no minimum or maximum of it goes into the log's statistics.
        technical: says when or by whom a row was made and not what it is; left out of the content fingerprint.
        replica: what a transformed replica holds instead: ``""`` (the values; nothing, if they are personal),
            ``"pseudonym"`` (a keyed hash), or an SQL expression of the column's type over the columns of its row.
    """

    type: str
    comment: str = ""
    required: bool = False
    personal: bool = False
    technical: bool = False
    replica: str = ""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table's declaration.

    Attributes:
        name: ``layer/dataset``, the path below the lakehouse root.
        columns: column name -> :class:`Column`, in order, partition columns included.
        partition_by: partition columns, in order.
        checks: constraint name -> SQL predicate every row must satisfy; NULL does not satisfy it.
        comment: what one row is.
        one_channel_per: partition column of which each value takes rows by one channel only (``Provenance.channel``):
            what came by one is neither replaced nor mixed with what comes by another.
        properties: further Delta table properties.

    Raises:
        ConfigError: if a partition column is not declared, or is of a type that cannot tell partitions apart.
    """

    name: str
    columns: Mapping[str, Column]
    partition_by: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    one_channel_per: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if ours := reserved(self.columns):
            raise ConfigError(f"{self.name}: names like {', '.join(ours)} are the library's own: rename the column")
        unknown = [c for c in self.partition_by if c not in self.columns]
        if unknown:
            raise ConfigError(f"{self.name}: partition columns {unknown} are not among its columns")
        for column in self.partition_by:
            declared = self.columns[column].type
            if declared.upper().lstrip().startswith("CHAR") or not is_possible(stored_type(declared)):
                raise ConfigError(
                    f"{self.name} cannot be partitioned by {column}: not every {declared} has one spelling that "
                    "its log can hold. Partition by a text, a whole number, a BOOLEAN, a date or a time"
                )
        if self.one_channel_per and self.one_channel_per not in self.partition_by:
            raise ConfigError(
                f"{self.name}: {self.one_channel_per} is no partition column, so no channel can own its values"
            )
        _refuse_unusable(self)

    @property
    def personal(self) -> tuple[str, ...]:
        """Columns with personal data."""
        return tuple(name for name, column in self.columns.items() if column.personal)

    @property
    def content(self) -> tuple[str, ...]:
        """Columns that say what a row is."""
        return tuple(name for name, column in self.columns.items() if not column.technical)

    def table_properties(self) -> dict[str, str]:
        """Delta table properties: the library's defaults, statistics without personal columns, the spec's own."""
        shown = [
            name
            for name, column in self.columns.items()
            if not column.personal and name not in self.partition_by and column.type.upper().startswith(_BOUNDED)
        ]
        listed = {"delta.dataSkippingStatsColumns": ",".join(shown)}
        statistics = listed if shown else {"delta.dataSkippingNumIndexedCols": "0"}
        return {**_PROPERTIES, **(statistics if self.personal else {}), **self.properties}


def require_usable(spec: TableSpec, session: SparkSession) -> None:
    """Refuse a declaration that Spark could not create a table of, before it creates half of one.

    Raises:
        ConfigError: without columns, or for a type or a constraint that Spark cannot evaluate; names it.
    """
    if not spec.columns:
        raise ConfigError(f"{spec.name} declares no columns: declare at least one before anything is written to it")
    nothing = ", ".join(f"CAST(NULL AS {column.type}) AS {identifier(name)}" for name, column in spec.columns.items())
    rows = _analysed(f"{spec.name}: its columns", lambda: session.sql(f"SELECT {nothing}"))
    for name, rule in spec.checks.items():
        _analysed(f"{spec.name}: constraint {name}", partial(rows.filter, rule))


def _analysed(what: str, rows: Callable[[], DataFrame]) -> DataFrame:
    try:
        found = rows()
        # Over Spark Connect nothing is analysed before the engine is asked, and a schema may be known without it.
        _ = found.isStreaming
    except AnalysisException as error:
        raise ConfigError(f"{what} cannot be evaluated: {str(error).splitlines()[0]}") from error
    return found


def creation(spec: TableSpec, location: str) -> Iterator[str]:
    """The SQL statements that create the table of ``spec`` in ``location``."""
    columns = ", ".join(
        f"{identifier(name)} {c.type}{' NOT NULL' if c.required else ''}{_comment(c.comment)}"
        for name, c in spec.columns.items()
    )
    partitions = f" PARTITIONED BY ({', '.join(map(identifier, spec.partition_by))})" if spec.partition_by else ""
    yield (
        f"CREATE TABLE IF NOT EXISTS delta.`{location}` ({columns}) USING DELTA{partitions}"
        f"{_comment(spec.comment)} TBLPROPERTIES ({_properties(spec.table_properties())})"
    )
    for name, predicate in spec.checks.items():
        yield f"ALTER TABLE delta.`{location}` ADD CONSTRAINT {identifier(name)} CHECK ({predicate})"


def alterations(spec: TableSpec, location: str, state: TableState) -> Iterator[str]:
    """The SQL statements that bring the stored table up to ``spec``: new columns, constraints and properties.

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
        if f"{_PREFIX}{name}".lower() not in {key.lower() for key in state.properties}:
            yield f"ALTER TABLE {table} ADD CONSTRAINT {identifier(name)} CHECK ({predicate})"
    stale = {k: v for k, v in spec.table_properties().items() if state.properties.get(k) != v}
    if stale:
        yield f"ALTER TABLE {table} SET TBLPROPERTIES ({_properties(stale)})"


def constraints(state: TableState) -> dict[str, str]:
    """Every rule the stored table has, whoever added it: constraint name -> SQL predicate.

    These are all the rules that Spark's writer would enforce row by row: NOT NULL at any depth, CHECK, invariants,
    lengths of CHAR and VARCHAR, generated columns; and that a partition value is one that the log can hold.

    Raises:
        ConfigError: if there is one that cannot be stated as a predicate.
    """
    rules: dict[str, str] = {}
    for name, field_ in state.columns.items():
        rules |= dict(_of_field(name, field_))
    for column, kind in state.kinds.items():
        if unfit := misfit(column, kind):
            rules[f"{column}_is_a_partition_value"] = f"NOT {unfit}"
    checks = {key[len(_PREFIX) :]: value for key, value in state.properties.items() if key.startswith(_PREFIX)}
    both = {name: f"({rules[name]}) AND ({checks[name]})" for name in rules if name in checks}
    return {**rules, **checks, **both}


def _of_field(name: str, column: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The rules that stand in the schema's entry of one column."""
    told = column.get("metadata", {})
    yield from _not_null(name, identifier(name), column)
    if expression := told.get("delta.generationExpression"):
        yield f"{name}_is_generated", f"{identifier(name)} <=> ({expression})"
    if stated := told.get("delta.invariants"):
        yield f"{name}_keeps_its_invariant", json.loads(stated)["expression"]["expression"]
    if declared := str(told.get("__CHAR_VARCHAR_TYPE_STRING", "")):
        if not (length := _LENGTH.fullmatch(declared)):
            raise ConfigError(
                f"{name} is {declared.upper()}: lengths inside of a column cannot be checked before the rows are "
                "published. Declare STRING there, and the length as a CHECK"
            )
        yield f"{name}_is_a_{declared}", f"coalesce(char_length({identifier(name)}) <= {length[1]}, true)"


def _not_null(name: str, path: str, column: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A field that must not be NULL is missing, too, where the column around it is NULL: so Delta reads it."""
    if not column["nullable"]:
        yield f"{name}_is_not_null", f"{path} IS NOT NULL"
    inner = column["type"]
    for each in inner["fields"] if isinstance(inner, dict) and inner["type"] == "struct" else ():
        yield from _not_null(f"{name}.{each['name']}", f"{path}.{identifier(each['name'])}", each)


def require_partition(table: str, state: TableState, owned: Mapping[str, object]) -> dict[str, str]:
    """Spell the values of a partition as the log does, by the names that the table has.

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


def require_replaceable(table: str, state: TableState) -> None:
    """Refuse to take rows away from a table that only grows.

    Raises:
        ConfigError: if the table is append-only.
    """
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        raise ConfigError(
            f"{table} is append-only (delta.appendOnly), none of its rows can be replaced or deleted: append to it, or "
            "declare it without that property"
        )


def conform(table: str, rows: DataFrame | Split, keep: str, state: TableState) -> None:
    """Refuse rows whose columns are not exactly the stored table's, by name and type.

    Raises:
        SchemaMismatch: names every missing, unknown and differently typed column.
    """
    frame = rows.rows if isinstance(rows, Split) else rows
    names = set(rows.parts[keep] if isinstance(rows, Split) else frame.columns)
    problems = []
    if missing := [name for name in state.columns if name not in names]:
        problems.append(f"missing columns {missing}")
    if unknown := sorted(names - set(state.columns)):
        problems.append(f"unknown columns {unknown}")
    for column in frame.schema.fields:
        given, stored = column.dataType.jsonValue(), state.columns.get(column.name, {}).get("type")
        if column.name in names and stored is not None and shape(given) != shape(stored):
            problems.append(f"{column.name} is {given}, the table has {stored}")
    if problems:
        raise SchemaMismatch(f"{table}: {'; '.join(problems)}")


def require_declared(spec: TableSpec, rows: DataFrame) -> None:
    """Refuse rows with anything that ``spec`` does not declare, fields inside of columns included.

    Raises:
        SchemaMismatch: names every undeclared, missing and differently typed column.
    """
    casts = ", ".join(f"CAST(NULL AS {column.type}) AS {identifier(name)}" for name, column in spec.columns.items())
    declared = {f.name: f.dataType.jsonValue() for f in rows.sparkSession.sql(f"SELECT {casts}").schema.fields}
    stored = {f.name: f.dataType.jsonValue() for f in rows.schema.fields}
    problems = [f"{name} is not declared" for name in stored if name not in declared]
    problems += [f"{name} is declared and not there" for name in declared if name not in stored]
    problems += [
        f"{name} is declared as {spec.columns[name].type} and is {rows.schema[name].dataType.simpleString()}"
        for name in declared
        if name in stored and shape(declared[name]) != shape(stored[name])
    ]
    if problems:
        raise SchemaMismatch(f"{spec.name}: {'; '.join(problems)}: declare what it holds, and what of it is personal")


def shape(kind: Any) -> Any:  # noqa: ANN401 - a type in Spark's JSON form
    """Drop nullability from a type in the form of the log: it says nothing about whether values fit."""
    if isinstance(kind, dict):
        ignored = ("containsNull", "valueContainsNull", "nullable", "metadata")
        return {key: shape(value) for key, value in kind.items() if key not in ignored}
    return [shape(item) for item in kind] if isinstance(kind, list) else kind


def _refuse_migration(spec: TableSpec, state: TableState) -> None:
    if tuple(spec.partition_by) != state.partition_columns:
        raise SchemaMismatch(
            f"{spec.name} is partitioned by {list(state.partition_columns)}, declared is {list(spec.partition_by)}: "
            "write a new table and move the rows"
        )
    gone = [name for name in state.columns if name not in spec.columns]
    if gone:
        raise SchemaMismatch(f"{spec.name} has columns {gone} that are no longer declared: declare or migrate them")
    required = [name for name, c in spec.columns.items() if c.required and name not in state.columns]
    if required:
        raise SchemaMismatch(f"{spec.name} cannot add required columns {required} to stored rows: add them as optional")
    if differing := list(_differences(spec, state)):
        raise SchemaMismatch(f"{spec.name}: {'; '.join(differing)}: this needs a migration")


def _differences(spec: TableSpec, state: TableState) -> Iterator[str]:
    """What the stored columns and constraints are, and the declared ones of the same name are not."""
    for name in (name for name in spec.columns if name in state.columns):
        column, stored = spec.columns[name], state.columns[name]
        if column.required and stored["nullable"]:
            yield f"{name} is declared as required, the table allows NULL"
        if stored_type(column.type) not in ("", stored["type"]):
            yield f"{name} is declared as {column.type}, the table has {stored['type']}"
    held = {key.lower(): rule for key, rule in state.properties.items()}
    for name, predicate in spec.checks.items():
        rule = held.get(f"{_PREFIX}{name}".lower(), predicate)
        if rule != predicate:
            yield f"constraint {name} is declared as {predicate}, the table has {rule}"


def _refuse_unusable(spec: TableSpec) -> None:
    """Refuse what can be seen to be unusable without Spark."""
    if not spec.name or any(part in ("", ".", "..") for part in spec.name.split("/")):
        raise ConfigError(f"{spec.name!r} names no table: give layer/dataset, the path below the lakehouse root")
    for what, names in (("columns", spec.columns), ("partition columns", spec.partition_by), ("checks", spec.checks)):
        if twice := _same_but_for_case(names):
            raise ConfigError(f"{spec.name} has {what} {twice}: Spark does not tell apart what differs in case only")
    if spec.columns and set(spec.partition_by) == set(spec.columns):
        raise ConfigError(f"{spec.name} is partitioned by all its columns: leave one that its files can hold")
    if wrong := [key for key, value in spec.properties.items() if not isinstance(value, str)]:
        raise ConfigError(f"{spec.name}: property {wrong[0]} is {spec.properties[wrong[0]]!r}: give it as text")


def _same_but_for_case(names: Iterable[str]) -> list[str]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.lower(), []).append(name)
    return next((same for same in found.values() if len(same) > 1), [])


def _properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(key)} = {quoted(value)}" for key, value in properties.items())


def _comment(text: str) -> str:
    return f" COMMENT {quoted(text)}" if text else ""
