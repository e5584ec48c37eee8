"""Reads of a PostgreSQL table's log by a replication slot, and keyed writes, with plain SQL.

A slot remembers on the server how far its reader has come, and keeps the log from there on. Looking does not move it
(*peek*), so the reader first stores what it saw and then moves the slot (*advance*): what a crash interrupts comes
again.

What is to be written is received in temporary tables first, then exchanged for the rows of its tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dedp_assets.patterns.connectors.definitions import Definition, define
from dedp_assets.patterns.connectors.parts import calling, one_row
from dedp_assets.patterns.connectors.pgoutput import Change, Relation, Row, Transaction, decode, position_text
from dedp_assets.patterns.core.audits import not_empty, require_passed
from dedp_assets.patterns.core.errors import (
    AmbiguousKeys,
    ConfigError,
    Conflict,
    ContractError,
    NotReady,
    PatternError,
    SchemaMismatch,
)
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.keys import require_distinct

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = [
    "RESNAPSHOT",
    "Changed",
    "Described",
    "Incoming",
    "PostgresTable",
    "SlotState",
    "Snapshot",
    "advance",
    "connected",
    "describe",
    "exchange",
    "peek",
    "reading_at",
    "receive",
    "slot_state",
    "snapshot",
    "writing",
]

RESNAPSHOT = "take a new snapshot (resnapshot=True)"
_OR_NULL = type(None)
_NAME = re.compile(r"[a-z0-9_]{1,54}")
# Values are text in the log, in the snapshot and in the tables: always the same text for the same value.
_TEXT = (
    "SET datestyle = 'ISO'; SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'; SET bytea_output = 'hex'; "
    "SET extra_float_digits = 1"
)
# A policy would leave rows out of what is read, and the log leaves none out: then reading is an error.
_READING = f"{_TEXT}; SET row_security = off"
_CONNECTING = {
    r"password authentication failed|no password supplied|role .* does not exist|no pg_hba.conf entry": "28P01",
    r"database .* does not exist": "3D000",
}
_REMEDIES: Mapping[str, tuple[type[PatternError], str]] = {
    "28P01": (ConfigError, "correct the user or the password of this source"),
    "3D000": (ConfigError, "correct the database of this source"),
    "42501": (ConfigError, "let an administrator grant SELECT and REPLICATION to this user"),
    "42P01": (ConfigError, "correct the table's name"),
    "42704": (ContractError, f"somebody dropped what this source reads by: {RESNAPSHOT}"),
    "42710": (Conflict, "another run takes its snapshot right now: run again later"),
    "53400": (ConfigError, "raise max_replication_slots of the server, or drop slots that nobody reads"),
    "55000": (ContractError, f"the slot cannot be read any more: {RESNAPSHOT}"),
    "55006": (Conflict, "another run reads from the slot right now: run again later"),
}
_UNWRITTEN: Mapping[str, tuple[type[PatternError], str]] = {
    "23505": (AmbiguousKeys, "keep one row for each key"),
    "25006": (ConfigError, "name a server that takes writes"),
    "40001": (Conflict, "run again"),
    "40P01": (Conflict, "run again"),
    "42501": (ConfigError, "let an administrator grant this user to write there"),
    "42703": (SchemaMismatch, "add the column to the table, or leave it out"),
    "42P01": (ConfigError, "create the table, or correct its name"),
    "42P10": (ConfigError, "make these columns the primary key of the table, or the columns of a unique index"),
}
_OF_COLUMN = re.compile(r"column \"?(.+?)\"?(: |$)", re.MULTILINE)


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
        if self.name.count(".") != 1:
            raise ConfigError(f"{self.name!r} is no table: write schema.table")
        if not _NAME.fullmatch(self.slot):
            raise ConfigError(f"{self.slot!r} is no slot: lower-case letters, digits and underscores, at most 54")

    @property
    def identifier(self) -> sql.Identifier:
        """The name, quoted for SQL."""
        return sql.Identifier(*self.name.split("."))


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
    """

    table: str
    columns: Sequence[str]
    keys: Sequence[str]
    rows: Iterable[Sequence[str | None]] = field(repr=False)
    owned: Mapping[str, str] = field(default_factory=dict)
    may_be_empty: bool = False

    def __post_init__(self) -> None:
        if self.table.count(".") != 1:
            raise ConfigError(f"{self.table!r} is no table: write schema.table")
        require_distinct(f"{self.table}: keys=", self.keys)
        lacking = {*self.keys, *self.owned} - {*self.columns}
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
    with _naming_errors("the database"), _opened(connect, "the database") as connection:
        connection.execute(_TEXT)
        yield connection


def receive(connection: psycopg.Connection[Any], incoming: Incoming, number: int) -> None:
    """Load rows into a temporary table with the types and constraints of the final table.

    Raises:
        AmbiguousKeys: if a key is NULL.
        AuditFailed: if there is no row for the part that is owned.
        ContractError: if a row lies outside of the part that is owned.
    """
    with _naming_errors(incoming.table):
        _receive(connection, incoming, _received(number))


def _receive(connection: psycopg.Connection[Any], incoming: Incoming, received: sql.Identifier) -> None:
    create = "CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING ALL)"
    connection.execute(sql.SQL(create).format(received, _named(incoming.table)))
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
    with _naming_errors(incoming.table):
        return _exchange(connection, incoming, _named(incoming.table), _received(number))


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


@contextmanager
def connected(source: PostgresTable) -> Iterator[psycopg.Connection[Any]]:
    """Open a connection for the time of a block.

    Raises:
        NotReady: if the server does not answer, or stops to; nothing was lost and a later run goes on.
        PatternError: what else PostgreSQL refuses, with the remedy.
    """
    with _translating(source), _opened(source.connect, source.name) as connection:
        connection.execute(_READING)
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
        (source.slot, *source.name.split(".")),
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
    with _translating(source), _opened(source.connect, source.name, replication="database") as creator:
        create = sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')")
        temporary = sql.Identifier(name or f"{source.slot}_snapshot")
        made, kinds = creator.execute(create.format(temporary)).fetchall(), (str, str, str, (str, _OR_NULL))
        _, position, exported, _ = one_row(made, kinds, asked=f"{source.name}: a new slot")
        with _opened(source.connect, source.name) as reader:
            reader.execute(_READING)
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


def _opened(connect: Callable[..., psycopg.Connection[Any]], what: str, **settings: Any) -> psycopg.Connection[Any]:  # noqa: ANN401
    """Open a connection by an external function, with exceptions translated."""
    with calling(f"{what}: the function that connects", known=psycopg.Error):
        connection = connect(autocommit=True, **settings)
        if not hasattr(connection, "execute"):
            raise TypeError(f"it gives {type(connection).__name__}, which is no connection")
        return connection


@contextmanager
def _translating(source: PostgresTable) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        # From None: the driver's own error could show what it was connecting with.
        raise _translated(source, error) from None


def _translated(source: PostgresTable, error: psycopg.Error) -> PatternError:
    message = " ".join(str(error).split())
    state = error.sqlstate or next((s for text, s in _CONNECTING.items() if re.search(text, message)), "")
    if state in _REMEDIES:
        kind, remedy = _REMEDIES[state]
        return kind(f"{source.name}: {message}; {remedy}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return NotReady(
            f"{source.name}: the database does not answer ({message}); nothing is lost, the next run goes on"
        )
    return ContractError(f"{source.name}: PostgreSQL refuses ({message}); nothing was captured by this step")


def _upsert(incoming: Incoming, table: sql.Identifier, received: sql.Identifier) -> sql.Composed:
    """Return the SQL that upserts by key and counts inserts and updates; equal rows are left alone."""
    rest = [column for column in incoming.columns if column not in incoming.keys]
    update = sql.Composed([sql.SQL("DO NOTHING")])
    if rest:
        values = [
            [sql.SQL("{}.{}").format(sql.SQL(side), sql.Identifier(c)) for c in rest] for side in ("old", "EXCLUDED")
        ]
        old, new = (sql.SQL(", ").join(side) for side in values)
        update = sql.SQL("DO UPDATE SET ({}) = ROW ({}) WHERE ({}) IS DISTINCT FROM ({})").format(
            _columns(rest), new, old, new
        )
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


def _named(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))


def _received(number: int) -> sql.Identifier:
    return sql.Identifier("pg_temp", f"received_{number}")


def _columns(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _owned(incoming: Incoming) -> sql.Composed:
    values = incoming.owned.items()
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(c), sql.Literal(v)) for c, v in values)


@contextmanager
def _naming_errors(table: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _unwritten(table, error) from None


def _unwritten(table: str, error: psycopg.Error) -> PatternError:
    """Translate an error of a refused write, with the column and without values."""
    where = _OF_COLUMN.search(error.diag.context or "")
    column = error.diag.column_name or (where[1] if where else "")
    message = re.sub(r': ".*"$', "", error.diag.message_primary or " ".join(str(error).split()), flags=re.DOTALL)
    problem = f"{table}: {f'column {column}: ' if column and 'column' not in message else ''}{message}"
    state = error.sqlstate or next((s for text, s in _CONNECTING.items() if re.search(text, message)), "")
    if remedy := _UNWRITTEN.get(state) or (_REMEDIES.get(state) if state in _CONNECTING.values() else None):
        return remedy[0](f"{problem}; nothing was written: {remedy[1]}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return NotReady(f"{problem}: run again once the database answers; what was written already is found then")
    return ContractError(f"{problem}; nothing was written")


def _at(connection: psycopg.Connection[Any]) -> str:
    info = connection.info
    return f"database {info.dbname} at {info.host}:{info.port}"
