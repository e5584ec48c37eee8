"""Reads of a PostgreSQL table's log by a replication slot, with plain SQL.

A slot remembers on the server how far its reader has come, and keeps the log from there on. Looking does not move it
(*peek*), so the reader first stores what it saw and then moves the slot (*advance*): what a crash interrupts comes
again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.postgres.definitions import Definition, define
from dedp_assets.patterns.connectors.postgres.errors import RESNAPSHOT, naming_read_errors
from dedp_assets.patterns.connectors.postgres.pgoutput import Change, Relation, Transaction, decode, position_text
from dedp_assets.patterns.connectors.postgres.sessions import READING, opened, schema_and_table, table_identifier
from dedp_assets.patterns.connectors.web.parts import one_row
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["Described", "PostgresTable", "SlotState", "advance", "connected", "describe", "peek", "slot_state"]

_OR_NULL = type(None)
_NAME = re.compile(r"[a-z0-9_]{1,54}")


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table of a PostgreSQL database, with the replication slot of the reader.

    Attributes:
        name: ``schema.table``.
        slot: name of the slot and of the publication, both of this one reader; lower case, digits, underscores.
        connect: opens a connection; takes further libpq settings as keywords.

    Raises:
        ConfigError: for names that cannot be.

    Example:
        >>> PostgresTable("public.users", "dedp_users", connect=psycopg.connect)
        PostgresTable(name='public.users', slot='dedp_users')
    """

    name: str
    slot: str
    connect: Callable[..., psycopg.Connection[Any]] = field(repr=False)

    def __post_init__(self) -> None:
        schema_and_table(self.name, "name")
        if not _NAME.fullmatch(self.slot):
            raise ConfigError(f"{self.slot!r} is no slot: lower-case letters, digits and underscores, at most 54")

    @property
    def identifier(self) -> sql.Identifier:
        """The name, quoted for SQL."""
        return table_identifier(self.name)


@dataclass(frozen=True, slots=True)
class Described:
    """The present state of a table: oid, published columns with types, and definition."""

    oid: int
    columns: Mapping[str, str]
    definition: Definition


@dataclass(frozen=True, slots=True)
class SlotState:
    """State of a replication slot on the server.

    Attributes:
        confirmed: position up to which its reader has confirmed the log.
        newest: position of the newest record on the server's disk.
        retained_bytes: log that the server keeps on its disk for this slot.
        status: ``reserved``, ``extended``, ``unreserved`` (about to be removed) or ``lost``.
    """

    confirmed: int
    newest: int
    retained_bytes: int
    status: str

    @property
    def at(self) -> str:
        """The confirmed position in PostgreSQL's notation."""
        return position_text(self.confirmed)

    @property
    def behind_bytes(self) -> int:
        """Log written since the reader's last confirmation, of all tables."""
        return max(self.newest - self.confirmed, 0)


@contextmanager
def connected(source: PostgresTable) -> Iterator[psycopg.Connection[Any]]:
    """Open a connection for the time of a block.

    Raises:
        NotReady: if the server does not answer, or stops to; nothing was lost and a later run goes on.
        PatternError: what else PostgreSQL refuses, with the remedy.
    """
    with naming_read_errors(source.name), opened(source.connect, source.name) as connection:
        connection.execute(READING)
        yield connection


def describe(connection: psycopg.Connection[Any], source: PostgresTable, *, keys: Sequence[str]) -> Described:
    """Return the present state of a table; refuse a table unfit for capture.

    Raises:
        ConfigError: if the table cannot be captured as it is; the text says what to change.
        ContractError: if its publication is gone.
    """
    found = connection.execute(
        """
        SELECT c.oid::bigint, c.relkind::text, c.relreplident::text, current_setting('wal_level'),
          ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
                AND a.attnum = ANY(i.indkey) WHERE i.indrelid = c.oid AND i.indisprimary ORDER BY 1),
          (SELECT attnames::text[] FROM pg_publication_tables v JOIN pg_publication USING (pubname)
           WHERE pubname = %s AND v.schemaname = n.nspname AND v.tablename = c.relname AND rowfilter IS NULL
           AND pubinsert AND pubupdate AND pubdelete AND pubtruncate),
          EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND NOT i.indimmediate),
          EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
        """,
        (source.slot, *schema_and_table(source.name)),
    ).fetchone()
    if found is None:
        raise ConfigError(f"{_at(connection)} has no table {source.name}: correct its name")
    kinds = (int, str, str, str, list, (list, _OR_NULL), bool, bool)
    oid, kind, identity, wal_level, primary, published, deferred, inherited = one_row([found], kinds, asked=source.name)
    _require_own_rows(source, deferrable=deferred, inherited=inherited)
    if kind != "r":
        raise ConfigError(f"{source.name} is no ordinary table: capture its partitions, or the tables behind the view")
    if wal_level != "logical":
        raise ConfigError(f"{_at(connection)} has wal_level={wal_level}: set it to logical and restart the server")
    if sorted(keys) != primary:
        raise ConfigError(
            f"{source.name} has the primary key {primary}, not {list(keys)}: rows need one to be told apart"
        )
    if identity != "f":
        raise ConfigError(
            f"{source.name} does not log former rows: ALTER TABLE {source.name} REPLICA IDENTITY FULL on the source"
        )
    if published is None:
        raise ContractError(
            f"{source.name}: the publication {source.slot} does not hold all of its changes: {RESNAPSHOT}"
        )
    definition = define(connection, oid=oid, publication=source.slot, columns=published)
    ordered = sorted(definition.columns.items(), key=lambda column: column[1][0])
    return Described(oid, {column: kind for column, (_, kind, _) in ordered}, definition)


def _require_own_rows(source: PostgresTable, *, deferrable: bool, inherited: bool) -> None:
    """Refuse a table with a deferrable primary key or with inheriting tables."""
    if deferrable:
        raise ConfigError(
            f"{source.name} has a DEFERRABLE primary key: two rows may have one key for a while, so make it one that "
            "is NOT DEFERRABLE"
        )
    if inherited:
        raise ConfigError(f"{source.name} has tables that inherit from it: capture those, and detach them from it")


def slot_state(connection: psycopg.Connection[Any], source: PostgresTable) -> SlotState | None:
    """Return the state of the slot; ``None`` for a missing slot."""
    found = connection.execute(
        "SELECT coalesce(confirmed_flush_lsn - '0/0', 0)::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint, "
        "coalesce(pg_current_wal_flush_lsn() - restart_lsn, 0)::bigint, wal_status "
        "FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()",
        (source.slot,),
    ).fetchone()
    if found is None:
        return None
    return SlotState(*one_row([found], (int, int, int, (str, _OR_NULL)), asked=f"{source.name}: slot {source.slot}"))


def peek(
    connection: psycopg.Connection[Any], source: PostgresTable, *, until: int, limit: int, oid: int = 0, slot: str = ""
) -> list[Transaction]:
    """Read the unconfirmed transactions up to ``until``, oldest first, with one table's changes only.

    Args:
        connection: a connection to the source.
        source: the table and its slot.
        oid: PostgreSQL's number of the table, which stays when it is renamed; 0 leaves out all changes.
        slot: a copy of the slot to read instead.
        until: position behind which nothing is read.
        limit: ends behind the transaction with which so many messages were read; a transaction is never cut.

    Raises:
        ContractError: if changes were logged without their former rows.
    """
    cursor = connection.cursor(binary=True)
    cursor.execute(
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, '0/0'::pg_lsn + %s::numeric, %s, "
        "'proto_version', '1', 'publication_names', %s)",
        (slot or source.slot, until, limit, source.slot),
    )
    messages = (one_row([row], (bytes,), asked=f"{source.name}: its log")[0] for row in cursor)
    try:
        found = list(decode(messages))
    except ContractError as error:
        raise ContractError(f"{source.name}: {str(error).removeprefix(f'{source.name}: ')}") from None
    return [_ours(connection, source, oid, transaction) for transaction in found]


def advance(connection: psycopg.Connection[Any], source: PostgresTable, position: int) -> None:
    """Advance the slot to ``position``, and never back; the server may discard the log before."""
    connection.execute(
        "SELECT pg_replication_slot_advance(slot_name, '0/0'::pg_lsn + %(to)s::numeric) FROM pg_replication_slots "
        "WHERE slot_name = %(slot)s AND confirmed_flush_lsn < '0/0'::pg_lsn + %(to)s::numeric",
        {"slot": source.slot, "to": position},
    ).fetchone()


def _ours(connection: psycopg.Connection[Any], source: PostgresTable, oid: int, found: Transaction) -> Transaction:
    changes = tuple(change for change in found.changes if change.relation.oid == oid)
    if any(not change.relation.whole_rows for change in changes):
        raise ContractError(
            f"{source.name} was changed while it did not log former rows: ALTER TABLE {source.name} REPLICA IDENTITY "
            f"FULL on the source, then {RESNAPSHOT}"
        )
    return replace(found, changes=tuple(_typed(connection, change) for change in changes))


def _typed(connection: psycopg.Connection[Any], change: Change) -> Change:
    """Add the names of column types to a schema change; return other changes unchanged."""
    return replace(change, after=_types(connection, change.relation)) if change.operation == "schema" else change


def _types(connection: psycopg.Connection[Any], relation: Relation) -> dict[str, str]:
    numbers = list(relation.columns.values())
    named = connection.execute(
        "SELECT format_type(o::oid, m) FROM unnest(%s::bigint[], %s::int[]) WITH ORDINALITY AS t(o, m, n) ORDER BY n",
        ([oid for oid, _ in numbers], [modifier for _, modifier in numbers]),
    ).fetchall()
    types = [one_row([row], (str,), asked=f"{relation.name}: the type of a column")[0] for row in named]
    if len(types) != len(numbers):
        raise ContractError(f"{relation.name}: the database names {len(types)} types of {len(numbers)} columns")
    return dict(zip(relation.columns, types, strict=True))


def _at(connection: psycopg.Connection[Any]) -> str:
    info = connection.info
    return f"database {info.dbname} at {info.host}:{info.port}"
