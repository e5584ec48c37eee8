"""Snapshots of a PostgreSQL table at a position of the log, without gap or overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dedp_assets.patterns.connectors.postgres.errors import naming_read_errors
from dedp_assets.patterns.connectors.postgres.pgoutput import Row
from dedp_assets.patterns.connectors.postgres.sessions import READING, opened
from dedp_assets.patterns.connectors.postgres.slots import Described, PostgresTable, connected, describe
from dedp_assets.patterns.connectors.web.parts import one_row
from dedp_assets.patterns.core.errors import Conflict, ContractError
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["Snapshot", "reading_at", "snapshot"]

_OR_NULL = type(None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table's rows as of a position of the log.

    Attributes:
        position: the log's first transaction that is not in ``rows`` ends behind it.
        taken_at: by the server's clock.
        table: the table's number and columns.
        rows: its rows; to be read once, inside the ``with`` block.
        keep: makes the slot at this position the permanent one; replaces a former one.
    """

    position: int
    taken_at: datetime
    table: Described
    rows: Iterator[Row] = field(repr=False)
    keep: Callable[[], None] = field(repr=False)


@contextmanager
def snapshot(source: PostgresTable, *, keys: Sequence[str]) -> Iterator[Snapshot]:
    """Read the table's rows at the start of a new slot, without gap or overlap with the log.

    The slot is a temporary one until it is kept: whatever dies before leaves nothing on the server. While it lasts, a
    second snapshot of the same source is refused.
    """
    with connected(source) as connection:
        _publish(connection, source, keys)
        # Asked before the slot begins, so that no change behind its position was committed at an earlier time.
        asked = connection.execute("SELECT clock_timestamp()").fetchall()
        (taken_at,) = one_row(asked, (datetime,), asked=f"{source.name}: the server's clock")
    with _exported(source, keys) as (creator, reader, position, table):
        slot, temporary = sql.Literal(source.slot), f"{source.slot}_snapshot"

        def keep() -> None:
            drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {}"
            creator.execute(sql.SQL(drop).format(slot))
            copy = sql.SQL("SELECT pg_copy_logical_replication_slot({}, {}, false)")
            creator.execute(copy.format(sql.Literal(temporary), slot))

        yield Snapshot(position, taken_at, table, _rows(reader, source, table), keep)


@contextmanager
def reading_at(
    source: PostgresTable, *, keys: Sequence[str]
) -> Iterator[tuple[psycopg.Connection[Any], int, Described]]:
    """Read the table as of a single log position, for the time of a block.

    No slot is kept or moved.

    Yields:
        A connection that sees the rows of that position, the position, and the table.
    """
    with _exported(source, keys, name=f"{source.slot}_compare_{uuid4().hex[:8]}") as (_, reader, position, table):
        yield reader, position, table


@contextmanager
def _exported(
    source: PostgresTable, keys: Sequence[str], name: str = ""
) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any], int, Described]]:
    """Create a temporary slot, and a connection that reads the table as of the slot's start."""
    with naming_read_errors(source.name), opened(source.connect, source.name, replication="database") as creator:
        create = sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')")
        temporary = sql.Identifier(name or f"{source.slot}_snapshot")
        made, kinds = creator.execute(create.format(temporary)).fetchall(), (str, str, str, (str, _OR_NULL))
        _, position, exported, _ = one_row(made, kinds, asked=f"{source.name}: a new slot")
        with opened(source.connect, source.name) as reader:
            reader.execute(READING)
            begin = sql.SQL(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}; "
                "LOCK TABLE {} IN ACCESS SHARE MODE"
            )
            reader.execute(begin.format(sql.Literal(exported), source.identifier))
            table = describe(reader, source, keys=keys)
            moved = "SELECT relfilenode <> pg_relation_filenode(oid) FROM pg_class WHERE oid = %s"
            asked = reader.execute(moved, (table.oid,)).fetchall()
            (rewritten,) = one_row(asked, ((bool, _OR_NULL),), asked=source.name)
            if rewritten:  # The rows that this snapshot could see are in a file that is gone: it would see none.
                raise Conflict(f"{source.name} was rewritten while its snapshot began: run again later")
            asked = reader.execute("SELECT (%s::pg_lsn - '0/0')::bigint", (position,)).fetchall()
            (number,) = one_row(asked, (int,), asked=f"{source.name}: its position")
            yield creator, reader, number, table


def _publish(connection: psycopg.Connection[Any], source: PostgresTable, keys: Sequence[str]) -> None:
    """Publish all changes of the table, unless published already."""
    try:
        describe(connection, source, keys=keys)
    except ContractError:
        name = sql.Identifier(source.slot)
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(name))
        connection.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, source.identifier))


def _rows(reader: psycopg.Connection[Any], source: PostgresTable, table: Described) -> Iterator[Row]:
    columns = sql.SQL(", ").join(sql.Identifier(column) for column in table.columns)
    query = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT").format(columns, source.identifier)
    with reader.cursor().copy(query) as copy:
        kinds = ((str, _OR_NULL),) * len(table.columns)
        for values in copy.rows():
            if len(values) != len(kinds) or not all(map(isinstance, values, kinds)):
                # Values may be personal: none of them is shown.
                raise ContractError(f"{source.name}: a row has {len(values)} values, where {len(kinds)} texts belong")
            yield dict(zip(table.columns, values, strict=True))
