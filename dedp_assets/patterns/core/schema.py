"""Declaration of a table: columns, partitions, constraints, properties."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.classes import Place
from dedp_assets.patterns.core.column import TAGS, Column, withheld
from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.layout import (
    STATISTICS,
    TableLayout,
    bounded,
    require_layout,
    stated_names,
)
from dedp_assets.patterns.core.names import SUBSTITUTED, identifier, require_name, reserved
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.running.digests import as_plain
from dedp_assets.patterns.core.types.partitions import is_possible, stored_type

__all__ = [
    "DECLARED",
    "DROPPED",
    "TIMES",
    "Column",
    "TableLayout",
    "TableSpec",
    "require_declared",
    "require_holds",
    "shape",
    "without_comments",
]

_PROPERTIES = {
    "delta.checkpointInterval": "20",
    # The log is the ledger: what it forgets is known only by transaction cursors from then on.
    "delta.logRetentionDuration": "interval 365 days",
}
DECLARED = "dedp.declaration"
"""Table property with the parts of a declaration that Delta has no place for, as JSON."""
DROPPED = "dedp.dropped"
"""Table property with the names, in lower case, of dropped columns that data files may still hold, as a JSON list."""
_STATED = ("key", "executed_by", "event_time", "one_channel_per")
"""Options of a table that Delta has no place for."""
TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
"""Types of a column with a time."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The declaration of a table.

    Attributes:
        name: ``layer/dataset``, the path below the lakehouse root.
        columns: column name -> :class:`Column`, in order, partition columns included.
        partition_by: partition columns, in order.
        checks: constraint name -> SQL predicate every row must satisfy; NULL does not satisfy it.
        comment: what one row is.
        one_channel_per: partition column of which each value takes rows by one channel only (``Provenance.channel``):
            what came by one is neither replaced nor mixed with what comes by another.
        properties: further Delta table properties.
        key: columns that tell the rows apart, if the table promises that: no write of the library brings a key twice,
            or NULL in one. Rows are merged by it or replace a partition that it names, or the table; none is appended.
        executed_by: name of what tells the executions apart that all change the whole table, e.g. ``event_date``; no
            column that it is partitioned by. Empty if a run owns a partition, or all there is.
        event_time: column with the time at which the event of a row happened: a TIMESTAMP, or a DATE where only the
            day is known. Empty if a row is of no event; the time of loading or of a change of the row is another one.
        adopted: whether the table has another owner, who chose its properties: the library sets none of its defaults,
            and none beyond ``properties`` but the one that states the key, the executions, the event time and the tags
            of columns.
        layout: how rows lie within the partitions. Buckets add their partition column and constraint.

    Raises:
        ConfigError: if a partition column is not declared, or is of a type that cannot tell partitions apart; if the
            event time is no column, or of a type without a time.
    """

    name: str
    columns: Mapping[str, Column]
    partition_by: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    one_channel_per: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    executed_by: str = ""
    event_time: str = ""
    adopted: bool = False
    layout: TableLayout = TableLayout()  # noqa: RUF009 - frozen

    def __hash__(self) -> int:
        return hash(self.name)

    def __post_init__(self) -> None:
        require_types(self)
        self._add_buckets()
        if ours := reserved(self.columns):
            raise ConfigError(f"{self.name}: names like {', '.join(ours)} are the library's own: rename the column")
        for what, names in (("partition", self.partition_by), ("key", self.key)):
            if unknown := [c for c in names if c not in self.columns]:
                raise ConfigError(f"{self.name}: {what} columns {unknown} are not among its columns")
        for column in self.partition_by:
            declared = self.columns[column].type
            if declared.upper().lstrip().startswith("CHAR") or not is_possible(stored_type(declared)):
                raise ConfigError(
                    f"{self.name} cannot be partitioned by {column}: not every {declared} has one spelling that "
                    "its log can hold, so partition by a text, a whole number, a BOOLEAN, a date or a time"
                )
        if self.executed_by in self.partition_by:
            raise ConfigError(f"{self.name}: executed_by must not be a partition column, as {self.executed_by} is")
        if self.one_channel_per and self.one_channel_per not in self.partition_by:
            raise ConfigError(
                f"{self.name}: {self.one_channel_per} is no partition column, so no channel can own its values"
            )
        require_distinct(f"{self.name}: key=", self.key)
        _require_event_time(self)
        _refuse_unusable(self)
        stated = {} if self.adopted else self.properties
        require_layout(self.name, self.columns, self.partition_by, stated, self.layout)

    def _add_buckets(self) -> None:
        """Declare the column and the constraint of declared buckets, before anything is judged."""
        if self.layout != TableLayout():
            object.__setattr__(self, "layout", self.layout.spelled(self.columns))  # the record is frozen
        if buckets := self.layout.buckets:
            by = dict.fromkeys((*self.partition_by, buckets.column))
            for name, value in {
                "columns": {**self.columns, **buckets.declared},
                "partition_by": tuple(by),
                "checks": {**self.checks, **buckets.checks},
            }.items():
                object.__setattr__(self, name, value)

    def adds(self, column: str) -> bool:
        """Return whether a write adds the column: the bucket of declared buckets."""
        return self.layout.buckets is not None and column == self.layout.buckets.column

    def withheld(self, place: Place) -> tuple[str, ...]:
        """List the columns whose values may not come to a place, by their classes (``core.classes``)."""
        return withheld(self.columns, place)

    @property
    def content(self) -> tuple[str, ...]:
        """Columns of a row's content, without technical columns."""
        return tuple(name for name, column in self.columns.items() if not column.technical)

    @property
    def bounded(self) -> tuple[str, ...]:
        """List the columns of the data files with a minimum and a maximum in Delta's statistics."""
        return bounded(self.columns, self.partition_by)

    def table_properties(self) -> dict[str, str]:
        """Return Delta's table properties: library defaults, spec, no statistics of withheld columns."""
        defaults, quiet = {} if self.adopted else _PROPERTIES, self.withheld("log")
        shown = self.layout.statistics or [name for name in self.bounded if name not in quiet]
        listed = {STATISTICS: stated_names(shown)}
        statistics = listed if shown else {"delta.dataSkippingNumIndexedCols": "0"}
        chosen = statistics if quiet or self.layout.statistics else {}
        stated = {DECLARED: ours} if (ours := self.beyond_delta()) else {}
        return {**defaults, **chosen, **self.layout.table_properties, **stated, **self.properties}

    def beyond_delta(self) -> str:
        """Write the options without a place in Delta's metadata as JSON; empty if all have defaults."""
        tags = {name: {tag: getattr(column, tag) for tag in TAGS} for name, column in self.columns.items()}
        tagged = {name: some for name, each in tags.items() if (some := {t: v for t, v in each.items() if v})}
        options = {name: getattr(self, name) for name in _STATED} | {"layout": as_plain(self.layout)}
        stated = {name: value for name, value in {**options, "columns": tagged}.items() if value}
        return json.dumps(stated, sort_keys=True) if stated else ""


def require_declared(spec: TableSpec, rows: DataFrame) -> None:
    """Refuse rows with columns that differ from ``spec``, nested fields included.

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
        raise SchemaMismatch(f"{spec.name}: {'; '.join(problems)}: declare what it holds, and what class it is of")


def require_holds(spec: TableSpec, columns: Mapping[str, Column], *, alone_with: Iterable[str] | None = None) -> None:
    """Refuse a table without the columns of a pattern, before the pattern calls an external system.

    Args:
        spec: the table's declaration.
        columns: what the pattern writes.
        alone_with: the columns that ``partition`` names, if the pattern writes none but these and ``columns``.

    Raises:
        SchemaMismatch: names every missing, differently typed and further column.
    """
    held = {name.lower(): column.type.strip().upper() for name, column in spec.columns.items()}
    problems = [f"{name} is missing" for name in columns if name.lower() not in held]
    problems += [
        f"{name} is {kind}, not {column.type}"
        for name, column in columns.items()
        if (kind := held.get(name.lower(), column.type)) != column.type
    ]
    if alone_with is not None:
        others = {name.lower() for name in (*columns, *alone_with)}
        problems += [
            f"{name} is written by nothing, and partition does not name it"
            for name in spec.columns
            if name.lower() not in others
        ]
    if problems:
        raise SchemaMismatch(
            f"{spec.name}: {'; '.join(problems)}: correct its declaration; nothing was sent or written"
        )


def shape(kind: Any) -> Any:  # noqa: ANN401 - a type in Spark's JSON form
    """Return a type in the log's form without nullability, which does not affect whether values fit."""
    return _without(kind, ("containsNull", "valueContainsNull", "nullable", "metadata"))


def without_comments(kind: Any) -> Any:  # noqa: ANN401 - a type in Spark's JSON form
    """Return a type in the log's form without the metadata of nested fields, such as comments."""
    return _without(kind, ("metadata",))


def _without(kind: Any, ignored: Collection[str]) -> Any:  # noqa: ANN401 - a type in Spark's JSON form
    if isinstance(kind, dict):
        return {key: _without(value, ignored) for key, value in kind.items() if key not in ignored}
    return [_without(item, ignored) for item in kind] if isinstance(kind, list) else kind


def _require_event_time(spec: TableSpec) -> None:
    """Refuse an event time that is no column of the table, or no time."""
    name = spec.event_time
    if name and name not in spec.columns:
        known = ", ".join(spec.columns)
        raise ConfigError(f"{spec.name}: event_time must be a column of the table ({known}), not {name}")
    if name and (kind := spec.columns[name].type).strip().upper() not in TIMES:
        raise ConfigError(f"{spec.name}: event_time must be a column of type TIMESTAMP or DATE, not {name}, a {kind}")


def _refuse_unusable(spec: TableSpec) -> None:
    """Refuse a declaration whose faults are detectable without Spark."""
    if not spec.name or any(part in ("", ".", "..") for part in spec.name.split("/")):
        raise ConfigError(f"{spec.name!r} names no table: give layer/dataset, the path below the lakehouse root")
    for what, names in (("columns", spec.columns), ("partition columns", spec.partition_by), ("checks", spec.checks)):
        if twice := _same_but_for_case(names):
            raise ConfigError(f"{spec.name} has {what} {twice}: Spark does not tell apart what differs in case only")
    _require_names(spec)
    if "" in spec.columns:
        raise ConfigError(f"{spec.name} has a column without a name: give it one")
    if spec.columns and set(spec.partition_by) == set(spec.columns):
        raise ConfigError(f"{spec.name} is partitioned by all its columns: leave one that its files can hold")
    if wrong := [key for key, value in spec.properties.items() if not isinstance(value, str)]:
        raise ConfigError(f"{spec.name}: property {wrong[0]} is {spec.properties[wrong[0]]!r}: give it as text")


def _require_names(spec: TableSpec) -> None:
    """Refuse columns and fields with names that no SQL text can hold."""
    for name, column in spec.columns.items():
        try:
            require_name(name)
        except ConfigError as error:
            raise ConfigError(f"{spec.name}: {error}") from None
        if "\0" in f"{name}{column.type}":
            raise ConfigError(
                f"{spec.name}: a column must have a name without NUL, which no engine reads, not {name!r}"
            )
        if SUBSTITUTED in column.type:
            raise ConfigError(
                f"{spec.name}: the type of {name} must have names without {SUBSTITUTED}, not {column.type}"
            )


def _same_but_for_case(names: Iterable[str]) -> list[str]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.lower(), []).append(name)
    return next((same for same in found.values() if len(same) > 1), [])
