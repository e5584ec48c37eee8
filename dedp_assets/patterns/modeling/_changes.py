"""Keyed change streams, and the resulting states, independent of the order of delivery.

Of the changes of one key at one instant the one with the greatest sequence counts. Two that differ and have the same
sequence, or none, are refused: nothing says which of them is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import not_empty, require_passed
from dedp_assets.patterns.core.columns import (
    COMPARED,
    FLAG,
    INSTANT,
    WHOLE_NUMBER,
    fields_of,
    require_columns,
    spelled_as,
)
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import row_hash
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.delta import Compute, StagedWrite, Target, held_types

__all__ = [
    "AT",
    "BEFORE",
    "CHANGE",
    "GONE",
    "SEQUENCE",
    "STATE",
    "ChangeStream",
    "Dimension",
    "by",
    "in_order",
    "named",
    "effective_changes",
]

CHANGE = "STRUCT<at: TIMESTAMP, sequence: BIGINT>"
"""Type of what is kept of a change: when it happened, and its place among those of the same instant."""

AT, SEQUENCE = f"{RESERVED}at", f"{RESERVED}sequence"
GONE, STATE, BEFORE = f"{RESERVED}is_gone", f"{RESERVED}state", f"{RESERVED}before"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStream:
    """Key, time, sequence and deletion columns of a change stream.

    Attributes:
        keys: columns that say what was changed; never NULL.
        event_time: column that says when, a TIMESTAMP.
        sequence: whole number that orders the changes of a key at one instant, the greatest counts; empty if none does.
        deleted: BOOLEAN column, true where the key is gone since; empty if nothing is ever deleted.

    Raises:
        ConfigError: if a key is named twice.
    """

    keys: Sequence[str]
    event_time: str
    sequence: str = ""
    deleted: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        require_distinct("keys=", self.keys)

    def of(self, spec: TableSpec) -> ChangeStream:
        """Spell the keys as a table does."""
        return replace(self, keys=spelled_as(spec.columns, self.keys))


@dataclass(frozen=True, slots=True)
class Dimension:
    """The target table of a change stream.

    Attributes:
        spec: the table; its columns that are neither keys nor added are taken from the changes.
        stream: the stream.
        added: columns that the pattern fills.

    Raises:
        ConfigError: if the table does not fit the stream and the pattern.
    """

    spec: TableSpec
    stream: ChangeStream
    added: Mapping[str, Column]

    def __post_init__(self) -> None:
        name, held, keys = self.spec.name, self.spec.columns, self.stream.keys
        if not keys or (loose := [key for key in keys if key not in held or not held[key].required]):
            raise ConfigError(f"{name} needs keys that it declares as required, not {loose if keys else 'none'}")
        if mine := [key for key in keys if key in self.added]:
            raise ConfigError(f"{name}: the pattern fills {', '.join(mine)}, which can be no key: rename it")
        if wrong := [c for c, column in self.added.items() if c not in held or held[c].type != column.type]:
            types = ", ".join(f"{c} {self.added[c].type}" for c in wrong)
            raise ConfigError(f"{name} has no columns {types}, which the pattern fills: declare them")
        if strict := [c for c in self.tracked if held[c].required]:
            raise ConfigError(f"{name} requires {', '.join(strict)}, which has no value where a key is deleted")

    @property
    def tracked(self) -> tuple[str, ...]:
        """The columns with values from the changes."""
        return tuple(c for c in self.spec.columns if c not in self.stream.keys and c not in self.added)

    def select(self, changes: DataFrame) -> DataFrame:
        """Select keys, values, event time, sequence and deletion flag of each change; lazy.

        Raises:
            ConfigError: for a column that is not there or cannot be used so.
        """
        stream = self.stream
        require_columns(changes, self.tracked)
        require_columns(changes, stream.keys, COMPARED)
        require_columns(changes, [stream.event_time], INSTANT)
        require_columns(changes, [stream.sequence], WHOLE_NUMBER)
        require_columns(changes, [stream.deleted], FLAG)
        gone = f"coalesce({identifier(stream.deleted)}, false)" if stream.deleted else "false"
        order = identifier(stream.sequence) if stream.sequence else "NULL"
        return changes.select(
            *by(stream.keys),
            *[F.expr(f"if({gone}, NULL, {identifier(c)})").alias(c) for c in self.tracked],
            F.col(identifier(stream.event_time)).alias(AT),
            F.expr(f"CAST({order} AS BIGINT)").alias(SEQUENCE),
            F.expr(gone).alias(GONE),
        )

    def write(
        self,
        changes: DataFrame,
        into: Target,
        compute: Compute,
        *,
        identity: Sequence[str],
        rebuild: bool,
    ) -> WriteResult:
        """Recompute the rows of the keys in ``changes``, or the whole table on request (``rebuild``).

        Args:
            changes: the changes.
            into: target of the write, with the table of this dimension.
            compute: present rows and selected changes -> all rows of their keys.
            identity: columns that tell the rows of one key apart.
            rebuild: whether ``changes`` are all there are, and the present rows do not count; no changes are refused
                where rows would go.
        """
        table, state = into.table, into.table.ensure()
        selected = as_held(self.select(changes), held_types(state), table.name)
        if not rebuild:
            keys = tuple(self.stream.keys)
            return table.recompute(
                selected,
                keys=keys,
                identity=(*keys, *identity),
                compute=compute,
                aside=[name for name, column in self.added.items() if CHANGE in column.type],
                provenance=into.run,
                audits=into.audits,
            )
        run = replace(into.run, replay=True)
        columns = ", ".join(f"CAST(NULL AS {c.type}) AS {identifier(name)}" for name, c in self.spec.columns.items())
        nothing = table.session.sql(f"SELECT {columns} WHERE false")
        staged = table.stage(compute(nothing, selected), provenance=run, audits=into.audits)
        if state.holds({}):
            _require_rows(staged, run)
        return staged.publish()


def _require_rows(staged: StagedWrite, run: Provenance) -> None:
    """Refuse an empty rebuild of a table with rows, unless a person has approved an empty table.

    It is no audit of the write: a check that only some runs have would be missing in all others.
    """
    try:
        require_passed(staged.table.name, [not_empty()], {"written": staged.stage.rows}, run.approval)
    except AuditFailed:
        staged.stage.discard()
        raise


def effective_changes(changes: DataFrame, keys: Sequence[str], tracked: Iterable[str]) -> DataFrame:
    """Keep the effective change of each key and instant once; contradicting changes are all kept.

    A hash of its values is in :data:`STATE`, and in :data:`BEFORE` what the change before it says. Each step that adds
    a column has all of Spark's analysis to it, so there are few of them.
    """
    newest, change = f"{RESERVED}newest", f"struct({AT}, {STATE}, {GONE})"
    peers = f"PARTITION BY {', '.join(named(keys))} ORDER BY {AT} RANGE BETWEEN CURRENT ROW AND CURRENT ROW"
    found = changes.selectExpr(
        "*", f"{row_hash(fields_of(changes, tracked))} AS {STATE}", f"max({SEQUENCE}) OVER ({peers}) AS {newest}"
    )
    counting = found.filter(f"{SEQUENCE} <=> {newest}")
    return counting.selectExpr("*", f"lag({change}) OVER ({in_order(keys)}) AS {BEFORE}").filter(
        f"NOT {BEFORE} <=> {change}"
    )


def in_order(keys: Iterable[str]) -> str:
    """Return the SQL window of a key's changes in order of time."""
    return f"PARTITION BY {', '.join(named(keys))} ORDER BY {AT}, {STATE}, {GONE}"


def named(columns: Iterable[str]) -> list[str]:
    """Return columns as quoted SQL identifiers."""
    return [*map(identifier, columns)]


def by(columns: Iterable[str]) -> list[Expression]:
    """Return references to columns by name, with special characters quoted."""
    return [F.col(identifier(c)).alias(c) for c in columns]
