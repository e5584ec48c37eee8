"""Envelope keys: data keys by purpose and person, wrapped by a key of the store of secrets.

The ring is a file of SQLite and no Delta table, whose history would keep what was deleted: ``secure_delete`` overwrites
a key that is shredded. A wrapped key is bound to its id, purpose and person, so that no row of the ring stands for
another one. Persons stand there as keyed hashes.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dedp_assets.patterns.connectors.secrets.key_files import KEY_BYTES, require_private
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.results import Access

__all__ = ["ID_BYTES", "DataKey", "KeyRing", "KeyState", "UnusableKey"]

ID_BYTES, _NONCE_BYTES = 8, 12
_BUSY_SECONDS = 60
_PERSONS = "the hashes of persons"
_TABLE = """
CREATE TABLE IF NOT EXISTS data_keys (
    id BLOB PRIMARY KEY, purpose TEXT NOT NULL, person BLOB NOT NULL, number INTEGER NOT NULL, wrapped BLOB,
    wrapped_by TEXT NOT NULL, until TEXT, UNIQUE (purpose, person, number)
)
"""
_SHRED = "UPDATE data_keys SET wrapped = NULL WHERE until <= ? AND wrapped IS NOT NULL"
_WRAPPED_OTHERWISE = "SELECT * FROM data_keys WHERE wrapped_by != ? AND wrapped IS NOT NULL"
_DELETE = "UPDATE data_keys SET until = ? WHERE purpose = ? AND person = ? AND wrapped IS NOT NULL"
_ERASE = "UPDATE data_keys SET wrapped = NULL, until = ? WHERE person = ? AND wrapped IS NOT NULL"
_RESTORE = """
UPDATE data_keys SET until = NULL WHERE until > ? AND purpose = ? AND person = ? AND wrapped IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class DataKey:
    """A data key.

    Attributes:
        id: random; stands beside each value.
        purpose: table or purpose of the values.
        value: the key, never shown.
    """

    id: bytes
    purpose: str
    value: bytes = field(repr=False)


class UnusableKey(ContractError):
    """A key that is unknown, of another purpose, deleted or shredded.

    Attributes:
        is_deleted: whether the key was deleted or shredded on purpose.
    """

    def __init__(self, text: str, *, is_deleted: bool = False) -> None:
        super().__init__(text)
        self.is_deleted = is_deleted


KeyState = DataKey | UnusableKey
"""A key, or the reason why the key is unusable."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The data keys of encrypted columns.

    Attributes:
        file: file of the ring, readable by its owner alone; tasks that encrypt by person open the file as well.
        wrapping: version -> key that wraps data keys; never shown.
        newest: version that wraps new data keys.
    """

    file: Path
    wrapping: Mapping[str, bytes] = field(repr=False)
    newest: str

    @classmethod
    def opened(cls, file: Path, current: Access, *older: Access) -> KeyRing:
        """Return the ring in a file, made if missing.

        The wrapping key is as ``read_secret`` returns it, 64 hexadecimal digits: the current version, and older ones by
        which data keys may still be wrapped, until :meth:`rewrap`.

        Raises:
            ConfigError: for a secret that is no such key, or a file open to others.
        """
        keys = {access.version: _unspelled(access) for access in (*older, current)}
        made = cls(file, keys, current.version)
        with made._ring():
            pass
        return made

    def current(self, purpose: str, person: str | None = None) -> DataKey:
        """Return the key of new values, made at the first use: one key, also of two runs at once.

        Raises:
            UnusableKey: if the newest key was deleted or shredded, so that nothing brings the person back by mistake.
        """
        found = self.current_of(purpose, [person])[person]
        if isinstance(found, UnusableKey):
            raise found
        return found

    def current_of(self, purpose: str, persons: Iterable[str | None]) -> Mapping[str | None, KeyState]:
        """Return person -> key of new values, made at the first use, or the reason why the key is unusable."""
        found = {}
        with self._ring() as ring:
            for person in persons:
                who = self._hashed(ring, person)
                if (row := self._newest(ring, purpose, who)) is None:
                    self._add(ring, purpose, who, number=1)
                    row = self._newest(ring, purpose, who)
                found[person] = self._state(row)
        return found

    def found(self, ids: Iterable[bytes]) -> Mapping[bytes, KeyState]:
        """Return id -> key, or the reason why the key is unusable."""
        states: dict[bytes, KeyState] = {}
        with self._ring() as ring:
            for key in ids:
                row = ring.execute("SELECT * FROM data_keys WHERE id = ?", (key,)).fetchone()
                unknown = f"key {key.hex()} is unknown to this ring: open the ring by which the value was encrypted"
                states[key] = self._state(row) if row else UnusableKey(unknown)
        return states

    def of_purpose(self, purpose: str) -> Mapping[bytes, KeyState]:
        """Return id -> key of a purpose, or the reason that the key is unusable; without keys of persons."""
        with self._ring() as ring:
            rows = ring.execute("SELECT * FROM data_keys WHERE purpose = ? AND person = x''", (purpose,))
            return {row["id"]: self._state(row) for row in rows.fetchall()}

    def rotate(self, purpose: str, person: str | None = None) -> str:
        """Make a new key for later values, and return the id; earlier values stay readable by their own keys."""
        with self._ring() as ring:
            who = self._hashed(ring, person)
            row = self._newest(ring, purpose, who)
            return self._add(ring, purpose, who, number=row["number"] + 1 if row else 1).hex()

    def delete(self, purpose: str, person: str | None = None, *, until: datetime) -> int:
        """Delete all keys of a purpose or a person until a :meth:`restore`, and return the number of keys.

        The grace ends at ``until``, which has a time zone; afterwards :meth:`shred` destroys the keys.

        Raises:
            ConfigError: for a time without a zone, or if there are no such keys.
        """
        if until.tzinfo is None:
            raise ConfigError(f"until must be a time with a time zone, not {until}")
        none = f"{purpose} has no keys to delete: name the table or the purpose of the values, and the person"
        return self._mark(_DELETE, until, purpose, person, none)

    def restore(self, purpose: str, person: str | None = None, *, now: datetime) -> int:
        """Bring deleted keys back within their grace, and return their number.

        Raises:
            ConfigError: if there are none, or their grace is over.
        """
        none = f"{purpose} has no keys to restore: none were deleted, or their grace is over"
        return self._mark(_RESTORE, now, purpose, person, none)

    def shred(self, *, now: datetime) -> int:
        """Destroy the deleted keys whose grace is over, for ever, and return their number."""
        with self._ring() as ring:
            return ring.execute(_SHRED, (_written(now),)).rowcount

    def erase(self, person: str, *, now: datetime) -> int:
        """Destroy all keys of a person, of every purpose and without a grace, and return their number."""
        with self._ring() as ring:
            return ring.execute(_ERASE, (_written(now), self._hashed(ring, person))).rowcount

    def wrapped_by(self) -> set[str]:
        """Return the versions of the wrapping key by which data keys are wrapped."""
        with self._ring() as ring:
            rows = ring.execute("SELECT DISTINCT wrapped_by FROM data_keys WHERE wrapped IS NOT NULL").fetchall()
        return {row["wrapped_by"] for row in rows}

    def rewrap(self) -> int:
        """Wrap all keys by the newest wrapping key, and return their number; no row of a table is touched."""
        with self._ring() as ring:
            rows = ring.execute(_WRAPPED_OTHERWISE, (self.newest,)).fetchall()
            for row in rows:
                wrapped = self._wrap(row["id"], row["purpose"], row["person"], self._unwrapped(row))
                changed = (wrapped, self.newest, row["id"])
                ring.execute("UPDATE data_keys SET wrapped = ?, wrapped_by = ? WHERE id = ?", changed)
        return len(rows)

    @contextmanager
    def _ring(self) -> Iterator[sqlite3.Connection]:
        """Open the ring for one transaction, alone."""
        if not self.file.exists():
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600))
        require_private(self.file)
        try:
            with closing(sqlite3.connect(self.file, timeout=_BUSY_SECONDS, isolation_level=None)) as ring:
                ring.row_factory = sqlite3.Row
                ring.execute("PRAGMA secure_delete = ON")
                ring.execute("BEGIN IMMEDIATE")
                ring.execute(_TABLE)
                yield ring
                ring.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise NotReady(f"the key ring {self.file} cannot be used now ({error}): run again") from None
        except sqlite3.DatabaseError:
            raise ConfigError(f"{self.file} must be a key ring, and is damaged: restore the file") from None

    def _newest(self, ring: sqlite3.Connection, purpose: str, who: bytes) -> Any:  # noqa: ANN401 - a row
        asked = "SELECT * FROM data_keys WHERE purpose = ? AND person = ? ORDER BY number DESC LIMIT 1"
        return ring.execute(asked, (purpose, who)).fetchone()

    def _add(self, ring: sqlite3.Connection, purpose: str, who: bytes, *, number: int) -> bytes:
        key = os.urandom(ID_BYTES)
        wrapped = self._wrap(key, purpose, who, os.urandom(KEY_BYTES))
        made = (key, purpose, who, number, wrapped, self.newest)
        ring.execute("INSERT INTO data_keys VALUES (?, ?, ?, ?, ?, ?, NULL)", made)
        return key

    def _hashed(self, ring: sqlite3.Connection, person: str | None) -> bytes:
        if person is None:
            return b""
        if (row := self._newest(ring, _PERSONS, b"")) is None:
            self._add(ring, _PERSONS, b"", number=1)
            row = self._newest(ring, _PERSONS, b"")
        return hmac.digest(self._unwrapped(row), person.encode(), "sha256")

    def _mark(self, change: str, at: datetime, purpose: str, person: str | None, none: str) -> int:
        with self._ring() as ring:
            done = ring.execute(change, (_written(at), purpose, self._hashed(ring, person)))
        if not done.rowcount:
            raise ConfigError(none)
        return done.rowcount

    def _state(self, row: Any) -> KeyState:  # noqa: ANN401 - a row
        try:
            return self._usable(row)
        except UnusableKey as fault:
            return fault

    def _usable(self, row: Any) -> DataKey:  # noqa: ANN401 - a row
        if row["wrapped"] is None:
            raise UnusableKey(f"key {row['id'].hex()} is shredded: the values are gone for ever", is_deleted=True)
        if row["until"] is not None:
            text = f"key {row['id'].hex()} is deleted, and can be restored until {row['until']} UTC"
            raise UnusableKey(text, is_deleted=True)
        return DataKey(row["id"], row["purpose"], self._unwrapped(row))

    def _wrap(self, key: bytes, purpose: str, who: bytes, value: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = _cipher(self.wrapping[self.newest]).encrypt(nonce, value, _bound(key, purpose, who))
        return nonce + sealed

    def _unwrapped(self, row: Any) -> bytes:  # noqa: ANN401 - a row
        name, held = row["id"].hex(), row["wrapped"]
        if row["wrapped_by"] not in self.wrapping:
            raise ConfigError(
                f"key {name} is wrapped by version {row['wrapped_by']} of the wrapping key, and the ring was opened "
                f"with {sorted(self.wrapping)}: open the ring with that version, too, and rewrap"
            )
        bound = _bound(row["id"], row["purpose"], row["person"])
        try:
            return bytes(
                _cipher(self.wrapping[row["wrapped_by"]]).decrypt(held[:_NONCE_BYTES], held[_NONCE_BYTES:], bound)
            )
        except optional("cryptography.exceptions").InvalidTag:
            raise ContractError(
                f"key {name} does not open by version {row['wrapped_by']} of the wrapping key: the pointer names "
                "another key, or the ring was changed"
            ) from None


def _bound(key: bytes, purpose: str, who: bytes) -> bytes:
    return b"dedp data key 1|" + key + who + purpose.encode()


def _cipher(key: bytes) -> Any:  # noqa: ANN401 - of an optional package
    return optional("cryptography.hazmat.primitives.ciphers.aead").AESGCM(key)


def _written(at: datetime) -> str:
    return at.astimezone(timezone.utc).replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")


def _unspelled(access: Access) -> bytes:
    try:
        found = bytes.fromhex(access.secret.reveal()) if access.secret else b""
    except ValueError:
        found = b""
    if len(found) != KEY_BYTES:
        raise ConfigError(
            f"the wrapping key must be {2 * KEY_BYTES} hexadecimal digits (`dedp secret put keys/columns --random`), "
            f"not the secret of {', '.join(map(str, access.allowed.get('read', ())))}"
        )
    return found
