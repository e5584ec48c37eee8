"""Keyed writes to tables of a PostgreSQL, with plain SQL.

What is to be written is received in temporary tables first, then exchanged for the rows of its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dedp_assets.patterns.connectors.postgres.errors import naming_write_errors
from dedp_assets.patterns.connectors.postgres.sessions import SESSION, opened, schema_and_table, table_identifier
from dedp_assets.patterns.connectors.web.parts import one_row
from dedp_assets.patterns.core.audits import not_empty, require_passed
from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError, ContractError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.keys import require_distinct

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["Changed", "Incoming", "exchange", "receive", "writing"]


@dataclass(frozen=True, slots=True)
class Incoming:
    """Rows for a table.

    Attributes:
        table: ``schema.table``.
        columns: the columns that the rows have; the table's other columns take their defaults.
        keys: columns that tell rows apart: the primary key, or those of a unique index.
        rows: values as PostgreSQL reads them, in the order of ``columns``.
        owned: column -> value of the part of the table that the rows are all there is of.
        may_be_empty: whether no rows may empty that part.
        newest: columns that order the rows of a key, never NULL: a row that is there is replaced by a greater one only,
            whatever the order of delivery. Empty where the last one that comes counts.
    """

    table: str
    columns: Sequence[str]
    keys: Sequence[str]
    rows: Iterable[Sequence[str | None]] = field(repr=False)
    owned: Mapping[str, str] = field(default_factory=dict)
    may_be_empty: bool = False
    newest: Sequence[str] = ()

    def __post_init__(self) -> None:
        schema_and_table(self.table)
        require_distinct(f"{self.table}: keys=", self.keys)
        lacking = {*self.keys, *self.owned, *self.newest} - {*self.columns}
        if {*self.newest} & {*self.keys}:
            raise ConfigError(f"{self.table}: newest must be columns beside the key, not {', '.join(self.newest)}")
        if not self.keys or lacking:
            raise ConfigError(f"{self.table}: its rows need columns that are their key; missing: {sorted(lacking)}")


@dataclass(frozen=True, slots=True)
class Changed:
    """Numbers of rows inserted, updated and deleted by a write; equal rows are left alone."""

    inserted: int
    updated: int
    deleted: int


@contextmanager
def writing(connect: Callable[..., psycopg.Connection[Any]]) -> Iterator[psycopg.Connection[Any]]:
    """Open a connection for writes; rows received without an exchange are discarded after the block.

    Raises:
        NotReady: if the server does not answer, or stops to; asked at the end of a transaction, it may have done it.
        PatternError: what else PostgreSQL refuses, with the column and without the value.
    """
    with naming_write_errors("the database"), opened(connect, "the database") as connection:
        connection.execute(SESSION)
        yield connection


def receive(connection: psycopg.Connection[Any], incoming: Incoming, number: int) -> None:
    """Load rows into a temporary table with the types and constraints of the final table.

    Raises:
        AmbiguousKeys: if a key is NULL.
        AuditFailed: if there is no row for the part that is owned.
        ContractError: if a row lies outside of the part that is owned.
    """
    with naming_write_errors(incoming.table):
        _receive(connection, incoming, _received(number))


def _receive(connection: psycopg.Connection[Any], incoming: Incoming, received: sql.Identifier) -> None:
    create = "CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING ALL)"
    connection.execute(sql.SQL(create).format(received, table_identifier(incoming.table)))
    copy = sql.SQL("COPY {} ({}) FROM STDIN").format(received, _columns(incoming.columns))
    with connection.cursor().copy(copy) as into:
        for row in incoming.rows:
            into.write_row(row)
    connection.execute(sql.SQL("ANALYZE {}").format(received))
    without = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(sql.Identifier(c)) for c in incoming.keys)
    strange = sql.SQL("({}) IS NOT TRUE").format(_owned(incoming)) if incoming.owned else sql.SQL("false")
    count = sql.SQL("SELECT count(*), count(*) FILTER (WHERE {}), count(*) FILTER (WHERE {}) FROM {}")
    counted = connection.execute(count.format(without, strange, received)).fetchall()
    rows, keyless, outside = one_row(counted, (int,) * 3, asked=incoming.table)
    if incoming.owned and not incoming.may_be_empty:
        require_passed(incoming.table, [not_empty()], {"written": rows}, None)
    if keyless:
        raise AmbiguousKeys(f"{incoming.table}: {keyless} rows have no {', '.join(incoming.keys)}; nothing was written")
    if outside:
        raise ContractError(
            f"{incoming.table}: {outside} rows lie outside of {dict(incoming.owned)}; nothing was written"
        )


def exchange(connection: psycopg.Connection[Any], incoming: Incoming, number: int) -> Changed:
    """Upsert the received rows into the table by key.

    Of the part that is owned, rows that were not received are deleted.
    """
    with naming_write_errors(incoming.table):
        return _exchange(connection, incoming, table_identifier(incoming.table), _received(number))


def _exchange(
    connection: psycopg.Connection[Any], incoming: Incoming, table: sql.Identifier, received: sql.Identifier
) -> Changed:
    deleted = 0
    if incoming.owned:
        same = [sql.SQL("new.{0} = old.{0}").format(sql.Identifier(key)) for key in incoming.keys]
        delete = sql.SQL("DELETE FROM {} AS old WHERE {} AND NOT EXISTS (SELECT FROM {} AS new WHERE {})")
        gone = delete.format(table, _owned(incoming), received, sql.SQL(" AND ").join(same))
        deleted = connection.execute(gone).rowcount
    done = connection.execute(_upsert(incoming, table, received)).fetchall()
    inserted, updated = one_row(done, (int, int), asked=incoming.table)
    return Changed(inserted, updated, deleted)


def _upsert(incoming: Incoming, table: sql.Identifier, received: sql.Identifier) -> sql.Composed:
    """Return the SQL that upserts by key and counts inserts and updates; equal rows are left alone."""
    rest = [column for column in incoming.columns if column not in incoming.keys]
    update = sql.Composed([sql.SQL("DO NOTHING")])
    if rest:
        old, new = _columns_of("old", rest), _columns_of("EXCLUDED", rest)
        update = sql.SQL("DO UPDATE SET ({}) = ROW ({}) WHERE ({}) IS DISTINCT FROM ({})").format(
            _columns(rest), new, old, new
        )
        if incoming.newest:
            older, newer = _columns_of("old", incoming.newest), _columns_of("EXCLUDED", incoming.newest)
            update += sql.SQL(" AND ROW ({}) < ROW ({})").format(older, newer)
    # In the order of the key, so that two writers meet at the first row they share and not across two.
    return sql.SQL(
        "WITH done AS (INSERT INTO {} AS old ({}) SELECT {} FROM {} ORDER BY {} ON CONFLICT ({}) {} RETURNING "
        "xmax = 0 AS is_new) SELECT count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new) FROM done"
    ).format(
        table,
        _columns(incoming.columns),
        _columns(incoming.columns),
        received,
        _columns(incoming.keys),
        _columns(incoming.keys),
        update,
    )


def _received(number: int) -> sql.Identifier:
    return sql.Identifier("pg_temp", f"received_{number}")


def _columns(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _columns_of(side: Literal["old", "EXCLUDED"], names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{}.{}").format(sql.SQL(side), sql.Identifier(name)) for name in names)


def _owned(incoming: Incoming) -> sql.Composed:
    values = incoming.owned.items()
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(c), sql.Literal(v)) for c, v in values)
