"""Token vault: random tokens of values, and the values behind the tokens, in a SQLite file.

No Delta table: its history would keep what is removed. Removed rows are overwritten in the file. The file holds no
value in the clear: it finds a value by a keyed hash, and has it encrypted with AES-256-GCM.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.secrets.private_database import private_database
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.masking import MaskingKey, by_batch, keyed_digest, normalised
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types, typed

__all__ = ["Reversal", "TokenVault", "token_of"]

ciphers = optional("cryptography.hazmat.primitives.ciphers.aead")

_VAULT = "token vault"
_AT_ONCE = 500  # values in a statement
_TABLES = """
    CREATE TABLE IF NOT EXISTS vault (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, key TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS tokens (
        token TEXT PRIMARY KEY, of TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS reversals (at TEXT, who TEXT, token TEXT, outcome TEXT);
"""


@dataclass(frozen=True, slots=True)
class Reversal:
    """One request for the value behind a token.

    Attributes:
        at: when, in ISO 8601.
        who: the identity that asked.
        asked: the pseudonym that was asked about.
        outcome: ``granted``, ``refused``, or ``unknown`` if no value is behind it.
    """

    at: str
    who: str
    asked: str
    outcome: str


@dataclass(frozen=True, slots=True)
class TokenVault:
    """The tokens of values, and who may ask for the values.

    Processes of one machine share the file, and two that meet a new value at once get one token. Executors on other
    machines have another file under that path, or none, and are refused.

    Who holds the key and may read the file can read all of it: ``readers`` keeps apart those who have neither.

    Attributes:
        file: the SQLite file, made at the first use and readable by its owner alone; its folder exists.
        key: the key by which values are found and encrypted.
        readers: identities that may ask for values.
        id: random name of the vault, by which a process knows the file.

    Raises:
        ConfigError: if the file is of another key, or no vault.
        NotReady: if the file cannot be opened.
    """

    file: Path
    key: MaskingKey
    readers: Sequence[str] = ()
    id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        require_types(self)
        with private_database(self.file, of=_VAULT, tables=_TABLES) as vault:
            vault.execute("INSERT OR IGNORE INTO vault VALUES (1, ?, ?)", (secrets.token_hex(8), self._proof()))
            (found,) = vault.execute("SELECT id, key FROM vault").fetchall()
        object.__setattr__(self, "id", found[0])
        self._require_own(found)

    @typed
    def tokens(self, of: str, values: Collection[str]) -> Mapping[str, str]:
        """Return the token of each value; a new value gets a random one.

        Args:
            of: what the values are, such as ``email``: one value has one token there, in whatever table.
            values: the values.

        Raises:
            NotReady: if the vault cannot be read, or is not on this machine.
        """
        digests = {keyed_digest(self.key.of("find"), of, value): value for value in values}
        with self._opened() as vault:
            self._require_own(vault.execute("SELECT id, key FROM vault").fetchone())
            found = _known(vault, digests)
            if new := digests.keys() - found.keys():
                made = [self._row(of, digest, digests[digest]) for digest in new]
                vault.execute("BEGIN IMMEDIATE")
                # Of two at once, the second finds the row of the first, and takes its token.
                vault.executemany("INSERT INTO tokens VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING", made)
                vault.execute("COMMIT")
                found |= _known(vault, new)
        return {value: found[digest] for digest, value in digests.items() if digest in found}

    @typed
    def reveal(self, tokens: Sequence[str], *, who: str, at: datetime) -> Mapping[str, str]:
        """Return the values behind tokens to a reader, and log the request, also a refused one.

        Args:
            tokens: the tokens. One without a value, as of a removed one, is left out of the result.
            who: the identity that asks.
            at: when, with a time zone.

        Raises:
            ConfigError: if ``who`` is none of the readers.
            NotReady: if the vault cannot be read.
        """
        granted = who in self.readers
        with self._opened() as vault:
            rows = _selected(vault, "token, of, value", "token", tokens) if granted else []
            found = {token: self._unsealed(token, of, sealed) for token, of, sealed in rows}
            outcomes = {t: "refused" if not granted else "granted" if t in found else "unknown" for t in tokens}
            log = [(at.isoformat(), who, token, outcome) for token, outcome in outcomes.items()]
            vault.execute("BEGIN IMMEDIATE")
            vault.executemany("INSERT INTO reversals VALUES (?, ?, ?, ?)", log)
            vault.execute("COMMIT")
        if not granted:
            readers = ", ".join(self.readers) or "nobody"
            raise ConfigError(f"who must be one of the readers of the token vault ({readers}), not {who}; it is logged")
        return found

    @typed
    def remove(self, of: str, values: Collection[str]) -> int:
        """Remove values from the vault; return the number of removed values.

        A value that comes again later gets another token. A value is given as its tokens were made: normalised, unless
        they are of exact texts.

        Raises:
            NotReady: if the vault cannot be changed.
        """
        digests = [keyed_digest(self.key.of("find"), of, value) for value in {*values, *map(normalised, values)}]
        with self._opened() as vault:
            vault.execute("BEGIN IMMEDIATE")
            done = [vault.execute("DELETE FROM tokens WHERE digest = ?", (d,)).rowcount for d in digests]
            vault.execute("COMMIT")
        return sum(done)

    def forget(self, values: Collection[str]) -> int:
        """Remove values of every kind from the vault, and return the number of removed values.

        Raises:
            NotReady: if the vault cannot be changed.
        """
        with self._opened() as vault:
            kinds = [of for (of,) in vault.execute("SELECT DISTINCT of FROM tokens")]
        return sum(self.remove(of, values) for of in kinds)

    def reversals(self) -> list[Reversal]:
        """Return all requests for values, in order.

        Raises:
            NotReady: if the vault cannot be read.
        """
        with self._opened() as vault:
            return [Reversal(*row) for row in vault.execute("SELECT * FROM reversals ORDER BY rowid")]

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        return private_database(self.file, of=_VAULT)

    def _require_own(self, found: tuple[str, str] | None) -> None:
        """Refuse another file than the one that was opened first, and another key."""
        if found is None or found[0] != self.id:
            raise NotReady(f"the token vault {self.file} is another one here: all tasks must run on its machine")
        if found[1] != self._proof():
            raise ConfigError(f"key must be the one of the token vault {self.file}, not {self.key.id}")

    def _proof(self) -> str:
        return keyed_digest(self.key.of("vault"), "key", "")

    def _row(self, of: str, digest: str, value: str) -> tuple[str, str, str, bytes]:
        token, nonce = f"tok_{secrets.token_hex(16)}", secrets.token_bytes(12)
        return token, of, digest, nonce + self._cipher().encrypt(nonce, value.encode(), f"{token}|{of}".encode())

    def _unsealed(self, token: str, of: str, sealed: bytes) -> str:
        value: bytes = self._cipher().decrypt(sealed[:12], sealed[12:], f"{token}|{of}".encode())
        return value.decode()

    def _cipher(self) -> Any:  # noqa: ANN401 - of an optional package
        return ciphers.AESGCM(self.key.of("seal").secret)


def token_of(column: str, vault: TokenVault, *, of: str, exact: bool) -> Column:
    """Replace the texts of a column by their tokens; NULL stays NULL.

    A vault that answers for some values alone fails the job, so that nothing is published.
    """

    def tokens(values: list[str | None]) -> list[str | None]:
        asked = [v if v is None or exact else normalised(v) for v in values]
        wanted = {v for v in asked if v is not None}
        found = vault.tokens(of, wanted) if wanted else {}
        answered = {found[v] for v in wanted if found.get(v)}
        if len(answered) < len(wanted):
            raise NotReady(
                f"column {column}: the token vault answered for {len(answered)} of {len(wanted)} values of {of}, each "
                "of which needs a token of its own: nothing is written, run the step again"
            )
        return [None if v is None else found[v] for v in asked]

    return by_batch(tokens, F.col(identifier(column)))


def _known(vault: sqlite3.Connection, digests: Collection[str]) -> dict[str, str]:
    return dict(_selected(vault, "digest, token", "digest", digests))


def _selected(vault: sqlite3.Connection, columns: str, by: str, values: Collection[str]) -> list[Any]:
    """Select rows by the values of one column."""
    listed, found = list(values), list[Any]()
    for start in range(0, len(listed), _AT_ONCE):
        part = listed[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part))
        found += vault.execute(f"SELECT {columns} FROM tokens WHERE {by} IN ({marks})", part)  # noqa: S608 - own names
    return found
