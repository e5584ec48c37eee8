"""Schema Compatibility Enforcer: a schema change passes only if the protected readers can still read.

Problem: stateful pipelines depend on fields; a producer removes one that it thinks is obsolete, and jobs fail at once.
Solution: judge each new schema against the last one, or all, by the rules of its format: new readers with old data
    (backward), old readers with new data (forward), both (full). A table keeps its columns, and adds them on request.
Consequences: evolution is rigid: a rename takes three steps (add, fill both, remove). Each pair is judged once.
Choose instead: Schema Migrator, if readers have to move; Constraints Enforcer, if values and not types are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError, ContractError, SchemaMismatch
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.schema_changes import SchemaChange, may_widen, schema_changes
from dedp_assets.patterns.delta import Table, TableState
from dedp_assets.patterns.quality._compatibility import avro_compatibility as avro
from dedp_assets.patterns.quality._compatibility import json_compatibility as json_schema
from dedp_assets.patterns.quality._compatibility import table_compatibility as tables
from dedp_assets.patterns.quality._compatibility.incompatibility import Problem

__all__ = ["judge_schema", "enforce_compatibility"]

SchemaText: TypeAlias = str
"""Text of a schema in one of the dialects."""
_DIRECTIONS: Mapping[str, tuple[str, ...]] = {
    "NONE": (),
    "BACKWARD": ("BACKWARD",),
    "FORWARD": ("FORWARD",),
    "FULL": ("BACKWARD", "FORWARD"),
}
_TRANSITIVE = "_TRANSITIVE"


@typed
def judge_schema(
    new: SchemaText,
    history: Sequence[SchemaText],
    *,
    mode: str = "BACKWARD",
    dialect: Literal["AVRO", "JSON", "TABLE"] = "AVRO",
    policy: Literal["STRICT", "LENIENT"] = "STRICT",
    logical_types: bool = False,
) -> Finding:
    """Judge whether a schema may follow earlier schemas, with all incompatibilities.

    Args:
        new: text of the schema.
        history: texts of the earlier schemas, oldest first; a mode that is not transitive looks at the last one only.
        mode: ``NONE``, ``BACKWARD`` (new readers read old data), ``FORWARD`` (old readers read new data) or ``FULL``
            (both), in any case; with ``_TRANSITIVE`` against all of ``history``.
        dialect: language of the texts: an Avro schema, a JSON Schema, or the schema of a Spark table in JSON
            (``rows.schema.json()``).
        policy: for JSON Schema: ``LENIENT`` allows properties to come to an open model and to leave a closed one.
        logical_types: for Avro: whether another decimal scale or unit of time is refused, which readers that go by
            their own logical type read wrong by powers of ten.

    Returns:
        ``new_schema_is_compatible``; its note says every incompatibility in a sentence. The figure
        ``incompatibilities`` lists each: ``direction`` (``BACKWARD`` or ``FORWARD``), ``version`` (place in
        ``history``, from 1), ``path`` of the field, ``rule`` and ``message``.

    Raises:
        ContractError: for a text that is no valid schema of the dialect; ``new`` or the place in ``history`` is named.
        ConfigError: for an unknown mode.

    Example:
        >>> v1 = '{"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}]}'
        >>> v2 = v1.replace('"string"', '"int"')
        >>> judge_schema(v2, [v1]).note
        'BACKWARD, version 1: page: string cannot be read as int (type_changed)'
    """
    directions, transitive = _mode(mode)
    _read(dialect, new, "new")
    options = {"lenient": policy == "LENIENT", "logical_types": logical_types}
    compared = (history if transitive else history[-1:]) if directions else ()
    first = len(history) - len(compared) + 1
    found = []
    for version, old in enumerate(compared, start=first):
        _read(dialect, old, f"version {version} of the history")
        for direction in directions:
            problems = _problems(dialect, direction, new, old, **options)
            found += [_stated(problem, direction=direction, version=version) for problem in problems]
    figures = {"compared": len(compared), "incompatibilities": found}
    sentences = (f"{each['direction']}, version {each['version']}: {_sentence(each)}" for each in found)
    return Finding("new_schema_is_compatible", passed=not found, figures=figures, note="; ".join(sentences))


@typed
def enforce_compatibility(
    new: DataFrame | TableSpec, table: Table, *, mode: str = "BACKWARD", new_columns: bool = False
) -> Finding:
    """Refuse rows, or a declaration, whose columns a stored table cannot or may not take over.

    Nothing is changed here: what passes is made by the next write of the table under the new declaration
    (``Table.ensure``). All that a stored table can do (adding columns that may be NULL, widening types) is compatible
    with each earlier version of it, so a transitive mode judges the same. A partition that is filled again is written
    by the columns of today: its rows have NULL in later columns. Rows by the columns of their time are those of
    ``table.read(version=...)``.

    Args:
        new: rows to be written, whose types may be narrower than the table's; or the declaration to come.
        table: the table as it is stored.
        mode: readers that are protected, as for :func:`judge_schema`; no mode lets a column be dropped or renamed.
        new_columns: whether columns that the table does not have may be added.

    Returns:
        ``columns_are_compatible`` with the figures ``added`` and ``widened``, names of columns and nested fields.

    Raises:
        SchemaMismatch: names every incompatible field with the broken rule; nothing was written.
        ConfigError: for an unknown mode, or a type in the declaration that only Spark can read.

    Example:
        >>> visits = table("visits", "page STRING, seconds INT", ("/a", 3))
        >>> enforce_compatibility(frame("page STRING, seconds INT, ad_id STRING", ("/b", 4, "x")), visits)
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.SchemaMismatch: visits: ad_id: the table has no such column; new_columns=True \
allows one that may be NULL (column_unknown): nothing was written
    """
    directions, _ = _mode(mode)
    if not table.ledger.exists():
        return Finding("columns_are_compatible", passed=True, note=f"{table.name} is not there yet")
    state = table.ledger.state()
    changes = list(_changes_of(new, state))
    widens = may_widen(state.properties, new.properties if isinstance(new, TableSpec) else {})
    found = tables.in_place(changes, widens=widens, additions=new_columns, fixed=state.partition_columns)
    for direction in directions:
        found += _TABLE_RULES[direction](changes)
    if found:
        sentences = "; ".join(dict.fromkeys(_sentence(_stated(problem)) for problem in found))
        raise SchemaMismatch(f"{table.name}: {sentences}: nothing was written")
    names = {kind: [change.name for change in changes if change.kind == kind] for kind in ("added", "retyped")}
    return Finding(
        "columns_are_compatible", passed=True, figures={"added": names["added"], "widened": names["retyped"]}
    )


_TABLE_RULES: Mapping[str, Callable[[Sequence[SchemaChange]], list[Problem]]] = {
    "BACKWARD": tables.backward,
    "FORWARD": tables.forward,
}


def _mode(mode: str) -> tuple[tuple[str, ...], bool]:
    """Return the directions of a mode, and whether all versions count."""
    name = mode.upper()
    base = name.removesuffix(_TRANSITIVE)
    if base not in _DIRECTIONS or name == f"NONE{_TRANSITIVE}":
        known = ", ".join(_DIRECTIONS)
        raise ConfigError(f"mode must be {known}, or with {_TRANSITIVE} behind all but NONE, not {mode!r}")
    return _DIRECTIONS[base], name != base


def _read(dialect: str, text: str, what: str) -> Any:  # noqa: ANN401 - a schema of the dialect
    try:
        return _parsed(dialect, text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ContractError(f"{what} is no valid schema ({dialect}): {reason}") from error


@lru_cache(maxsize=1_000)
def _parsed(dialect: str, text: str) -> Any:  # noqa: ANN401 - as above
    return {"AVRO": avro.read, "JSON": json_schema.read, "TABLE": tables.read}[dialect](text)


@lru_cache(maxsize=10_000)
def _problems(
    dialect: str, direction: str, new: str, old: str, *, lenient: bool, logical_types: bool
) -> tuple[Problem, ...]:
    """List the obstacles of a pair of texts; each pair is judged once per process."""
    if dialect == "TABLE":
        changes = list(schema_changes(_parsed(dialect, old), _parsed(dialect, new)))
        return tuple(_TABLE_RULES[direction](changes))
    reader, writer = (new, old) if direction == "BACKWARD" else (old, new)
    schemas = _parsed(dialect, reader), _parsed(dialect, writer)
    if dialect == "JSON":
        return tuple(json_schema.problems(*schemas, lenient=lenient))
    return tuple(avro.problems(*schemas, logical_types=logical_types))


def _stated(problem: Problem, **where: object) -> dict[str, Any]:
    return {**where, "path": problem.path, "rule": problem.rule, "message": problem.message}


def _sentence(stated: Mapping[str, Any]) -> str:
    return f"{stated['path'] or 'the schema'}: {stated['message']} ({stated['rule']})"


def _changes_of(new: DataFrame | TableSpec, state: TableState) -> Iterator[SchemaChange]:
    """List the changes of a stored table that a declaration, or rows, ask for."""
    held = list(state.columns.values())
    if isinstance(new, TableSpec):
        columns = new.columns.items()
        wanted = [_declared(new.name, name, column.type, required=column.required) for name, column in columns]
        return schema_changes(held, wanted)
    return tables.of_rows(schema_changes(held, [field.jsonValue() for field in new.schema.fields]))


def _declared(table: str, name: str, kind: str, *, required: bool) -> Mapping[str, Any]:
    found = ddl.field(name, kind, required=required)
    if found is None:
        raise ConfigError(f"{table}: the type of {name} must be one that can be compared without Spark, not {kind}")
    return found
