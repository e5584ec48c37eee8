"""Redaction of ids of persons in SQLite databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from dedp_assets.graph.erasure.spellings import Spellings

__all__ = ["is_database", "redact_database"]

_MARK = b"SQLite format 3\0"
_WAIT_SECONDS = 30.0


def is_database(content: bytes) -> bool:
    """Return whether a file is a SQLite database."""
    return content.startswith(_MARK)


def redact_database(file: Path, spellings: Spellings) -> int:
    """Redact the texts of a SQLite database, and overwrite the pages of the former texts.

    Returns:
        Number of places; -1 for a database that refuses the change, as by a key that two texts would share, or is busy.
    """
    try:
        with closing(sqlite3.connect(file, timeout=_WAIT_SECONDS, isolation_level=None)) as database:
            database.text_factory = bytes
            database.create_function("without", 1, lambda value: _without(value, spellings), deterministic=True)
            database.execute("BEGIN IMMEDIATE")
            places = _redact_tables(database)
            database.execute("COMMIT")
            if places:
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return places
    except sqlite3.DatabaseError:
        return -1


def _redact_tables(database: sqlite3.Connection) -> int:
    """Redact the texts of all tables, and drop the triggers for the time of the change.

    A trigger may keep the rows of an audit as they are.
    """
    stored = database.execute("SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'trigger')").fetchall()
    triggers = [(name.decode(), sql.decode()) for kind, name, sql in stored if kind == b"trigger"]
    places = 0
    for name, _ in triggers:
        database.execute(f"DROP TRIGGER {_quoted(name)}")
    for table in (_quoted(name.decode()) for kind, name, _ in stored if kind == b"table"):
        columns = [_quoted(row[1].decode()) for row in database.execute(f"PRAGMA table_info({table})")]
        for column in columns:
            # What the function returns is NULL, unless the value holds an id.
            redact = f"UPDATE {table} SET {column} = without({column}) WHERE without({column}) IS NOT NULL"  # noqa: S608 - names of the database
            places += database.execute(redact).rowcount
    for _, sql in triggers:
        database.execute(sql)
    return places


def _without(value: object, spellings: Spellings) -> str | bytes | None:
    """Return a redacted text or redacted bytes; ``None`` if the value holds no id."""
    content = value.encode() if isinstance(value, str) else value
    if not isinstance(content, bytes) or not spellings.found(content):
        return None
    redacted = spellings.without(content)
    return redacted.decode(errors="replace") if isinstance(value, str) else redacted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
