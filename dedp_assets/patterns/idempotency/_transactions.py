"""Transactions of PostgreSQL: atomic, idempotent writes of rows into several tables.

Rows arrive in temporary tables, which nobody else sees and which end with the connection, however it ends. Then one
short transaction moves them into their tables, and writes into a row beside them up to which upstream version they are:
a retry that finds it there does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedp_assets.patterns.connectors.postgres import (
    Changed,
    Incoming,
    exchange,
    receive,
    schema_and_table,
    writing,
)
from dedp_assets.patterns.connectors.web.parts import one_row
from dedp_assets.patterns.core.columns import require_rows
from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.parsing.json_texts import MICROSECONDS, options
from dedp_assets.patterns.core.records import Provenance

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["DatabaseTarget", "RowSet", "Written", "texts_of", "write_sets"]

_TABLE = "dedp_transactions"
_CREATED = """
    SELECT pg_advisory_xact_lock(hashtext({name}));
    CREATE TABLE IF NOT EXISTS {table} (
        target text, partition text, generation integer, sequence bigint, content text, run_id text,
        PRIMARY KEY (target, partition, generation))
"""
_NESTED = (T.StructType, T.ArrayType, T.MapType)


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows for a table of a database.

    Attributes:
        table: ``schema.table``.
        rows: one row for each key, with columns of the table's names; nested values become JSON.
        keys: columns that tell rows apart: the primary key, or those of a unique index.
        partition: column -> value of the part of the table that the rows are all there is of: what it holds under other
            keys is removed. Without, what is not among the rows stays.
        allow_empty: whether no rows may empty the partition; a source that delivers nothing is usually broken.
    """

    table: str
    rows: DataFrame
    keys: Sequence[str]
    partition: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True, slots=True)
class DatabaseTarget:
    """The destination of a write to several tables of a PostgreSQL database.

    Attributes:
        name: name of what is written, for all tables together.
        connect: opens a connection; takes psycopg's settings.
        run: who writes, from what upstream version (``sequence``), and why. The same inputs and code at the same
            version are written once, unless somebody asks for a replay.
        partition: the part of what is written that this write is about.
        generation: how often the target was begun again from nothing; notes of earlier generations do not count.
    """

    name: str
    connect: Callable[..., psycopg.Connection[Any]]
    run: Provenance
    partition: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True, slots=True)
class Written:
    """Record of a write, as stored in the database.

    Attributes:
        target: name of what is written, for all of its tables.
        partition: name of the part of it that is written.
        generation: how often the target was begun anew; what an earlier generation wrote does not count.
        sequence: upstream version that the rows are of.
        content: a text that is equal for equal rows: the code and its inputs.
        run_id: the run that writes.
    """

    target: str
    partition: str
    generation: int
    sequence: int
    content: str
    run_id: str

    @property
    def key(self) -> tuple[str, str, int]:
        """Name the place of the newest write: target, partition and generation."""
        return (self.target, self.partition, self.generation)

    def is_applied(self, last: Written | None) -> bool:
        """Return whether ``last`` is the same write: equal sequence and content.

        Raises:
            Conflict: if it was one of a newer upstream version.
        """
        if last is not None and last.sequence > self.sequence:
            raise Conflict(
                f"{self.target} {self.partition} already holds upstream version {last.sequence}, this run read version "
                f"{self.sequence} and is stale: run it again"
            )
        return last is not None and (last.sequence, last.content) == (self.sequence, self.content)


def write_sets(
    incoming: Sequence[Incoming],
    write: Written,
    *,
    connect: Callable[..., psycopg.Connection[Any]],
    again: bool = False,
) -> list[Changed] | None:
    """Write rows into several tables in one transaction; return ``None`` if applied before.

    Args:
        incoming: the rows of each table, all in the database that ``connect`` opens.
        write: what the database shall remember.
        connect: opens a connection; takes psycopg's settings.
        again: whether to write even what was written before.

    Returns:
        ``None`` if this write was applied before; else what became of the rows of each table.
    """
    marks = sql.Identifier(schema_and_table(incoming[0].table)[0], _TABLE)
    with writing(connect) as connection:
        _prepare(connection, marks)
        if write.is_applied(_last(connection, marks, write)) and not again:
            return None
        for number, each in enumerate(incoming):
            receive(connection, each, number)
        with connection.transaction():
            # Whoever writes the same thing at the same time waits here, and then finds it done.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (str(write.key),))
            if write.is_applied(_last(connection, marks, write)) and not again:
                return None
            changed = [exchange(connection, each, number) for number, each in enumerate(incoming)]
            _mark(connection, marks, write)
    return changed


def _prepare(connection: psycopg.Connection[Any], marks: sql.Identifier) -> None:
    """Create the table of applied writes if missing."""
    if connection.execute("SELECT to_regclass(%s)", (marks.as_string(connection),)).fetchone() == (None,):
        with connection.transaction():
            connection.execute(sql.SQL(_CREATED).format(name=sql.Literal(_TABLE), table=marks))


def _last(connection: psycopg.Connection[Any], marks: sql.Identifier, write: Written) -> Written | None:
    query = "SELECT sequence, content, run_id FROM {} WHERE (target, partition, generation) = (%s, %s, %s)"
    found = connection.execute(sql.SQL(query).format(marks), write.key).fetchone()
    if found is None:
        return None
    return Written(*write.key, *one_row([found], (int, str, str), asked=f"what {write.target} was written by last"))


def _mark(connection: psycopg.Connection[Any], marks: sql.Identifier, write: Written) -> None:
    statement = (
        "INSERT INTO {} VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (target, partition, generation) "
        "DO UPDATE SET (sequence, content, run_id) = (EXCLUDED.sequence, EXCLUDED.content, EXCLUDED.run_id)"
    )
    connection.execute(sql.SQL(statement).format(marks), (*write.key, write.sequence, write.content, write.run_id))


def texts_of(table: str, rows: DataFrame) -> Iterator[Sequence[str | None]]:
    """Read rows as texts in PostgreSQL's notation, partition by partition."""
    columns = [f"{_text(identifier(f.name), f.dataType)} AS {identifier(f.name)}" for f in rows.schema.fields]
    yield from require_rows(table, rows).selectExpr(*columns).toLocalIterator()


def _text(value: str, kind: T.DataType) -> str:
    if isinstance(kind, T.TimestampType):
        return f"date_format({value}, 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX')"
    if isinstance(kind, T.BinaryType):
        return rf"concat('\\x', hex({value}))"
    return f"to_json({value}, {options(MICROSECONDS)})" if isinstance(kind, _NESTED) else f"CAST({value} AS STRING)"
