"""``pgoutput``, the format in which PostgreSQL publishes its log, decoded: bytes in, transactions out.

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
_ROWS: dict[bytes, Literal["insert", "update", "delete"]] = {b"I": "insert", b"U": "update", b"D": "delete"}
_PASSED_OVER = b"OYM"  # where a transaction came from, names of types, messages of applications


@dataclass(frozen=True, slots=True)
class Relation:
    """The table that the following changes belong to, with the columns it had then.

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
    """A change of one row; or of a whole table, which has no row before or after it.

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
        ContractError: for a message that protocol version 1 does not have.
    """
    relations: dict[int, Relation] = {}
    changes: list[Change] = []
    for message in messages:
        reader = _Reader(message)
        kind = reader.byte()
        if kind == b"B":
            changes = []
        elif kind == b"C":
            _, _, ends_at, microseconds = reader.take("!BqQq")
            yield Transaction(ends_at, _EPOCH + timedelta(microseconds=microseconds), tuple(changes))
        elif kind == b"R":
            relation = reader.relation()
            relations[relation.oid] = relation
            changes.append(Change("schema", relation))
        elif kind in _ROWS:
            changes.append(_row_change(kind, reader, relations))
        elif kind == b"T":
            count, _ = reader.take("!IB")
            changes += [Change("truncate", relations[oid]) for oid in reader.take(f"!{count}I")]
        elif kind not in _PASSED_OVER:
            raise ContractError(f"pgoutput message {kind!r} is not part of protocol version 1: ask for that version")


def position_text(position: int) -> str:
    """Write a position in the log as PostgreSQL does, e.g. ``0/17C3EB8``."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _row_change(kind: bytes, reader: _Reader, relations: Mapping[int, Relation]) -> Change:
    (oid,) = reader.take("!I")
    relation, before, after = relations[oid], None, None
    part = reader.byte()
    if part in b"KO":
        before = reader.row(relation, {})
        part = reader.byte()
    if part == b"N":
        after = reader.row(relation, before or {})
    return Change(_ROWS[kind], relation, before, after)


class _Reader:
    """A binary message, read value by value from its front."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._at = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._message, self._at)
        self._at += struct.calcsize(layout)
        return values

    def byte(self) -> bytes:
        """Take the next byte; empty at the end."""
        self._at += 1
        return self._message[self._at - 1 : self._at]

    def text(self) -> str:
        end = self._message.index(b"\0", self._at)
        found = self._message[self._at : end].decode()
        self._at = end + 1
        return found

    def relation(self) -> Relation:
        (oid,) = self.take("!I")
        name = f"{self.text()}.{self.text()}"
        identity, count = self.take("!cH")
        columns = {}
        for _ in range(count):
            self.byte()
            column = self.text()
            columns[column] = self.take("!Ii")
        return Relation(oid, name, identity == b"f", columns)

    def row(self, relation: Relation, former: Row) -> Row:
        """Take a row; a large value that did not change is not in the log and comes from the former row."""
        (count,) = self.take("!H")
        values: dict[str, str | None] = {}
        for column, _ in zip(relation.columns, range(count), strict=True):
            kind = self.byte()
            if kind == b"t":
                (length,) = self.take("!I")
                values[column] = self._message[self._at : self._at + length].decode()
                self._at += length
            elif kind == b"n":
                values[column] = None
            elif column in former:
                values[column] = former[column]
        return values
