"""Decoder of ``pgoutput``, the format of PostgreSQL's published log: bytes in, transactions out.

Protocol version 1 with values as text: a transaction comes whole, after its commit, in the order of commits.
Described in PostgreSQL's manual under "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from dedp_assets.patterns.core.errors import ContractError

__all__ = ["Change", "Relation", "Row", "Transaction", "decode", "position_text"]

Row = Mapping[str, str | None]
"""Column -> its value as PostgreSQL writes it, ``None`` for NULL."""

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
_IDENTITIES = (b"d", b"n", b"f", b"i")
_ROWS: dict[bytes, Literal["insert", "update", "delete"]] = {b"I": "insert", b"U": "update", b"D": "delete"}
_PASSED_OVER = (b"O", b"Y", b"M")  # where a transaction came from, names of types, messages of applications


@dataclass(frozen=True, slots=True)
class Relation:
    """The table of the following changes, with the columns at the time of the changes.

    Attributes:
        oid: PostgreSQL's number of the table.
        name: ``schema.table``.
        whole_rows: whether changes carry the whole former row (``REPLICA IDENTITY FULL``).
        columns: column -> its type's number and modifier.
    """

    oid: int
    name: str
    whole_rows: bool
    columns: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a single row, or of a whole table without row images.

    Attributes:
        operation: ``insert``, ``update``, ``delete``, ``truncate``, or ``schema`` where a table is first seen or
            has changed its columns.
        before: the former row of an update or delete.
        after: the new row of an insert or update.
    """

    operation: Literal["insert", "update", "delete", "truncate", "schema"]
    relation: Relation
    before: Row | None = field(default=None, repr=False)
    after: Row | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed transaction.

    Attributes:
        ends_at: position in the log right behind its commit; orders transactions.
        committed_at: by the server's clock.
        changes: in the order they were made.
    """

    ends_at: int
    committed_at: datetime
    changes: tuple[Change, ...]


def decode(messages: Iterable[bytes]) -> Iterator[Transaction]:
    """Decode a sequence of messages into transactions.

    Raises:
        ContractError: for a message that protocol version 1 does not have, one that is cut off or damaged, and messages
            in an order that no log has: what is not understood may be a change, and is not passed over.
    """
    log = _Log()
    for message in messages:
        try:
            done = log.take(_MessageReader(message))
        except (ValueError, OverflowError, struct.error) as error:
            shown = f"{message[:1]!r} of {len(message)} bytes" if isinstance(message, bytes) else type(message).__name__
            raise ContractError(f"pgoutput message {shown} cannot be decoded ({error}): read the log again") from None
        if done:
            yield done


def position_text(position: int) -> str:
    """Write a position in the log as PostgreSQL does, e.g. ``0/17C3EB8``."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


class _Log:
    """Decoder state: tables by oid, and the open transaction."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}
        self._changes: list[Change] = []
        self._commit: int | None = None
        self._ended = -1

    def take(self, reader: _MessageReader) -> Transaction | None:
        """Decode the next message; return a transaction at a commit, otherwise ``None``."""
        kind = reader.byte()
        if kind in _PASSED_OVER:
            return None
        if kind not in (b"B", b"C", b"R", b"T", *_ROWS):
            raise ContractError(f"pgoutput message {kind!r} is not part of protocol version 1: ask for that version")
        if (kind == b"B") is (self._commit is not None):
            raise ValueError("it does not lie between the begin of one transaction and its commit")
        done = None
        if kind == b"B":
            self._commit, _, _ = reader.take("!QqI")
        elif kind == b"C":
            done = self._committed(reader)
        elif kind == b"R":
            relation = reader.relation()
            self._relations[relation.oid] = relation
            self._changes.append(Change("schema", relation))
        elif kind == b"T":
            count, _ = reader.take("!IB")
            self._changes += [Change("truncate", self._named(oid)) for oid in reader.take(f"!{count}I")]
        else:
            self._changes.append(self._changed(_ROWS[kind], reader))
        reader.require_end()
        return done

    def _committed(self, reader: _MessageReader) -> Transaction:
        _, at, ends_at, microseconds = reader.take("!BQQq")
        if at != self._commit or not max(at, self._ended) < ends_at < 1 << 63:
            raise ValueError("its position is not behind its transaction and the one before")
        done = Transaction(ends_at, _EPOCH + timedelta(microseconds=microseconds), tuple(self._changes))
        self._changes, self._commit, self._ended = [], None, ends_at
        return done

    def _changed(self, operation: Literal["insert", "update", "delete"], reader: _MessageReader) -> Change:
        (oid,) = reader.take("!I")
        relation, before, after = self._named(oid), None, None
        part = reader.byte()
        if part in (b"K", b"O") and operation != "insert":
            before, part = reader.row(relation, {}), b"" if operation == "delete" else reader.byte()
        if part == b"N" and operation != "delete":
            after = reader.row(relation, before or {})
        if (after is None) is not (operation == "delete") or (operation == "delete" and before is None):
            raise ValueError(f"it lacks a row of its {operation}")
        return Change(operation, relation, before, after)

    def _named(self, oid: int) -> Relation:
        if oid not in self._relations:
            raise ValueError(f"it is about a table {oid} that no message has named")
        return self._relations[oid]


class _MessageReader:
    """A sequential reader of a binary message."""

    def __init__(self, message: bytes) -> None:
        if not isinstance(message, bytes):
            raise ValueError("it is not bytes")  # noqa: TRY004 - as for others that are no message
        self._message = message
        self._at = 0

    def require_end(self) -> None:
        if self._at != len(self._message):
            raise ValueError(f"it has {len(self._message) - self._at} bytes more than it states")

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._message, self._at)
        self._at += struct.calcsize(layout)
        return values

    def byte(self) -> bytes:
        return self.bytes(1)

    def bytes(self, count: int) -> bytes:
        """Take the next ``count`` bytes."""
        self._at += count
        if self._at > len(self._message):
            raise ValueError("it is cut off")
        return self._message[self._at - count : self._at]

    def text(self) -> str:
        found = self.bytes(self._message.index(b"\0", self._at) - self._at).decode()
        self._at += 1
        return found

    def relation(self) -> Relation:
        (oid,) = self.take("!I")
        name = f"{self.text()}.{self.text()}"
        identity, count = self.take("!cH")
        if identity not in _IDENTITIES:
            raise ValueError(f"its replica identity is {identity!r}")
        columns = {}
        for _ in range(count):
            self.byte()
            column = self.text()
            columns[column] = self.take("!Ii")
        if len(columns) != count:
            raise ValueError("two of its columns have one name")
        return Relation(oid, name, identity == b"f", columns)

    def row(self, relation: Relation, former: Row) -> Row:
        """Take a row; an unchanged large value, left out of the log, comes from the former row."""
        (count,) = self.take("!H")
        if count != len(relation.columns):
            raise ValueError(f"its row has {count} values, and its table {len(relation.columns)} columns")
        values: dict[str, str | None] = {}
        for column in relation.columns:
            kind = self.byte()
            if kind == b"t":
                (length,) = self.take("!I")
                values[column] = self.bytes(length).decode()
            elif kind == b"n":
                values[column] = None
            elif kind != b"u":
                raise ValueError(f"a value of its row is of the kind {kind!r}")
            elif column in former:
                values[column] = former[column]
        return values
