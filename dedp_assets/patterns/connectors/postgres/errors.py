"""Errors of PostgreSQL as errors of the library: the sentence, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
from dedp_assets.patterns.core.secret import masked

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = optional("psycopg")

__all__ = ["BEHIND_POLICY", "RESNAPSHOT", "is_behind_policy", "naming_read_errors", "naming_write_errors"]

RESNAPSHOT = "take a new snapshot (resnapshot=True)"
BEHIND_POLICY = "let an administrator give this user BYPASSRLS, or name a view whose owner reads all rows"
"""Remedy for a table of which a policy shows some rows only."""
_CANCELLED = (NotReady, "somebody cancelled it at the server: run again")
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
    "57014": _CANCELLED,
}
_UNWRITTEN: Mapping[str, tuple[type[PatternError], str]] = {
    "23505": (AmbiguousKeys, "keep one row for each key"),
    "25006": (ConfigError, "name a server that takes writes"),
    "40001": (Conflict, "run again"),
    "40P01": (Conflict, "run again"),
    "42501": (ConfigError, "let an administrator grant this user to write there"),
    "42703": (SchemaMismatch, "add the column to the table, or leave it out"),
    "42P01": (ConfigError, "create the table, or correct its name"),
    "57014": _CANCELLED,
    "42P10": (ConfigError, "make these columns the primary key of the table, or the columns of a unique index"),
}
_OF_COLUMN = re.compile(r"column \"?(.+?)\"?(: |$)", re.MULTILINE)


@contextmanager
def naming_read_errors(table: str) -> Iterator[None]:
    """Raise PostgreSQL's error of a read as an error of the library, with the remedy."""
    try:
        yield
    except psycopg.Error as error:
        # From None: the driver's own error could show what it was connecting with.
        raise _unread(table, error) from None


def is_behind_policy(message: str) -> bool:
    """Return whether a message of PostgreSQL says that a policy would leave rows out."""
    return "row-level security policy" in message


def _unread(table: str, error: psycopg.Error) -> PatternError:
    message = " ".join(masked(str(error)).split())
    state = error.sqlstate or next((s for text, s in _CONNECTING.items() if re.search(text, message)), "")
    if state in _REMEDIES:
        kind, remedy = _REMEDIES[state]
        remedy = BEHIND_POLICY if is_behind_policy(message) else remedy
        return kind(f"{table}: {message}; {remedy}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return NotReady(f"{table}: the database does not answer ({message}); nothing is lost, the next run goes on")
    return ContractError(f"{table}: PostgreSQL refuses ({message}); nothing was captured by this step")


@contextmanager
def naming_write_errors(table: str) -> Iterator[None]:
    """Raise PostgreSQL's error of a write as an error of the library, with the column, not the value."""
    try:
        yield
    except psycopg.Error as error:
        raise _unwritten(table, error) from None


def _unwritten(table: str, error: psycopg.Error) -> PatternError:
    """Translate an error of a refused write, with the column and without values."""
    where = _OF_COLUMN.search(error.diag.context or "")
    column = error.diag.column_name or (where[1] if where else "")
    message = re.sub(
        r': ".*"$', "", error.diag.message_primary or " ".join(masked(str(error)).split()), flags=re.DOTALL
    )
    problem = f"{table}: {f'column {column}: ' if column and 'column' not in message else ''}{message}"
    state = error.sqlstate or next((s for text, s in _CONNECTING.items() if re.search(text, message)), "")
    if remedy := _UNWRITTEN.get(state) or (_REMEDIES.get(state) if state in _CONNECTING.values() else None):
        return remedy[0](f"{problem}; nothing was written: {remedy[1]}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return NotReady(f"{problem}: run again once the database answers; what was written already is found then")
    return ContractError(f"{problem}; nothing was written")
