"""Stores of a registry: a file, or a schema of a PostgreSQL database.

A request that changes something is one transaction, alone among those of its subjects: of two registrations at once,
the later one is judged against what the first one left. A process may be killed at any moment: a request is kept whole
or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import psycopg
from filelock import FileLock

from dedp_assets.local.registry.schemas import Content, Reference, RegistryError, Version
from dedp_assets.local.registry.subjects import Records
from dedp_assets.patterns.core.errors import NotReady

__all__ = ["FileStore", "Memory", "PostgresStore", "Store"]

_FILE = "schemas.json"


class Store(Protocol):
    """Keeper of records."""

    def reading(self) -> AbstractContextManager[Records]:
        """Open the current records."""

    def writing(self, *scopes: str) -> AbstractContextManager[Records]:
        """Open the records for changes; the end of the block commits, an error rolls back.

        Args:
            scopes: the subjects, or the scope of everything, that nobody else changes meanwhile.
        """


class Memory:
    """Records in memory, in the form of the file."""

    def __init__(self) -> None:
        self._contents: dict[int, Content] = {}
        self._versions: dict[str, dict[int, Version]] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._ids: dict[str, int] = {}

    def versions(self, subject: str) -> Sequence[Version]:
        """Return the versions of a subject."""
        return sorted(self._versions.get(subject, {}).values())

    def every_version(self) -> Sequence[Version]:
        """Return the versions of all subjects."""
        return [version for versions in self._versions.values() for version in versions.values()]

    def uses(self, content_id: int) -> Sequence[Version]:
        """Return the versions with a content."""
        return [version for version in self.every_version() if version.id == content_id]

    def content(self, content_id: int) -> Content | None:
        """Return the content of an id."""
        return self._contents.get(content_id)

    def identified(self, guid: str) -> int | None:
        """Return the id of the content with an identity."""
        return self._ids.get(guid)

    def identify(self, content: Content) -> int:
        """Return the id of a content."""
        # Contents are never removed, so that no id is given twice.
        content_id = self._ids.setdefault(content.guid, len(self._contents) + 1)
        self._contents[content_id] = content
        return content_id

    def add(self, version: Version) -> None:
        """Add a version."""
        self._versions.setdefault(version.subject, {})[version.number] = version

    def hide(self, version: Version) -> None:
        """Mark a version as softly deleted."""
        self._versions[version.subject][version.number] = replace(version, deleted=True)

    def forget(self, version: Version) -> None:
        """Remove a version."""
        del self._versions[version.subject][version.number]

    def setting(self, scope: str, name: str) -> str:
        """Return the value of a setting."""
        return self._settings.get(scope, {}).get(name, "")

    def set(self, scope: str, name: str, value: str) -> None:
        """Change a setting."""
        if value:
            self._settings.setdefault(scope, {})[name] = value
        else:
            self._settings.get(scope, {}).pop(name, None)

    def as_text(self) -> str:
        """Return the records as JSON."""
        contents = {str(content_id): _content_as_json(content) for content_id, content in self._contents.items()}
        versions = [list(astuple(version)) for version in self.every_version()]
        kept = {"contents": contents, "versions": versions, "settings": self._settings}
        return json.dumps(kept, ensure_ascii=False)

    @staticmethod
    def of(text: str) -> Memory:
        """Return the records that :meth:`as_text` wrote."""
        made, kept = Memory(), json.loads(text)
        made._contents = {int(content_id): _content(content) for content_id, content in kept["contents"].items()}
        made._ids = {content.guid: content_id for content_id, content in made._contents.items()}
        made._settings = kept["settings"]
        for each in kept["versions"]:
            made.add(Version(*each))
        return made


class FileStore:
    """Records in one JSON file, replaced atomically.

    Args:
        folder: folder of the file.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / _FILE

    @contextmanager
    def reading(self) -> Iterator[Records]:
        """Open the current records."""
        yield self._read()

    @contextmanager
    def writing(self, *scopes: str) -> Iterator[Records]:  # noqa: ARG002 - one writer for all of them
        """Open the records for changes."""
        with FileLock(self._file.with_suffix(".lock")):
            records = self._read()
            before = records.as_text()
            yield records
            if (after := records.as_text()) != before:
                self._write(after)

    def _read(self) -> Memory:
        try:
            return Memory.of(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Memory()
        except (ValueError, KeyError, TypeError) as error:
            raise RegistryError(50001, f"{self._file} is not readable ({error}): restore the file") from error

    def _write(self, text: str) -> None:
        draft = self._file.with_suffix(".partial")
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)


_TABLES = """
CREATE SCHEMA IF NOT EXISTS schema_registry;
CREATE TABLE IF NOT EXISTS schema_registry.contents (
    id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, guid UUID NOT NULL UNIQUE, content TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS schema_registry.versions (
    subject TEXT, number INTEGER, id INTEGER NOT NULL REFERENCES schema_registry.contents, deleted BOOLEAN NOT NULL,
    PRIMARY KEY (subject, number)
);
CREATE INDEX IF NOT EXISTS versions_by_id ON schema_registry.versions (id);
CREATE TABLE IF NOT EXISTS schema_registry.settings (
    scope TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (scope, name)
);
"""
_LOCKED = "SELECT pg_advisory_xact_lock(hashtext('schema_registry'), hashtext(%s))"


class PostgresStore:
    """Records in the schema ``schema_registry`` of a PostgreSQL database.

    Args:
        connect: opens a connection.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._made = False
        self._making = Lock()

    @contextmanager
    def reading(self) -> Iterator[Records]:
        """Open the current records."""
        with self._connection() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield _Rows(connection)

    @contextmanager
    def writing(self, *scopes: str) -> Iterator[Records]:
        """Open the records for changes."""
        with self._connection() as connection:
            # Always in the same order, so that no two transactions wait for each other.
            for scope in sorted({*scopes}):
                connection.execute(_LOCKED, [f"scope {scope}"])
            yield _Rows(connection)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with self._connect() as connection:
                self._make(connection)
                yield connection
        except (psycopg.Error, NotReady) as error:
            text = str(error).partition("\n")[0]
            raise RegistryError(50001, f"the database of the registry does not answer: {text}") from error

    def _make(self, connection: psycopg.Connection[Any]) -> None:
        """Create the tables, once for each process."""
        with self._making:
            if not self._made:
                connection.execute(_LOCKED, ["tables"])
                connection.execute(_TABLES)
                connection.commit()
                self._made = True


class _Rows:
    """Records of one transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def versions(self, subject: str) -> Sequence[Version]:
        return self._versions("SELECT * FROM schema_registry.versions WHERE subject = %s ORDER BY number", subject)

    def every_version(self) -> Sequence[Version]:
        return self._versions("SELECT * FROM schema_registry.versions")

    def uses(self, content_id: int) -> Sequence[Version]:
        return self._versions("SELECT * FROM schema_registry.versions WHERE id = %s", content_id)

    def content(self, content_id: int) -> Content | None:
        found = self._one("SELECT content FROM schema_registry.contents WHERE id = %s", [content_id])
        return _content(json.loads(found)) if found is not None else None

    def identified(self, guid: str) -> int | None:
        found: int | None = self._one("SELECT id FROM schema_registry.contents WHERE guid = %s", [guid])
        return found

    def identify(self, content: Content) -> int:
        if (known := self.identified(content.guid)) is not None:
            return known
        # Somebody who registers the content for another subject is waited for.
        self._connection.execute(
            "INSERT INTO schema_registry.contents (guid, content) VALUES (%s, %s) ON CONFLICT (guid) DO NOTHING",
            [content.guid, json.dumps(_content_as_json(content))],
        )
        found: int = self._one("SELECT id FROM schema_registry.contents WHERE guid = %s", [content.guid])
        return found

    def add(self, version: Version) -> None:
        self._connection.execute("INSERT INTO schema_registry.versions VALUES (%s, %s, %s, %s)", astuple(version))

    def hide(self, version: Version) -> None:
        self._connection.execute(
            "UPDATE schema_registry.versions SET deleted = TRUE WHERE subject = %s AND number = %s",
            [version.subject, version.number],
        )

    def forget(self, version: Version) -> None:
        self._connection.execute(
            "DELETE FROM schema_registry.versions WHERE subject = %s AND number = %s", [version.subject, version.number]
        )

    def setting(self, scope: str, name: str) -> str:
        found = self._one("SELECT value FROM schema_registry.settings WHERE scope = %s AND name = %s", [scope, name])
        return str(found or "")

    def set(self, scope: str, name: str, value: str) -> None:
        if not value:
            self._connection.execute(
                "DELETE FROM schema_registry.settings WHERE scope = %s AND name = %s", [scope, name]
            )
            return
        self._connection.execute(
            "INSERT INTO schema_registry.settings VALUES (%s, %s, %s) "
            "ON CONFLICT (scope, name) DO UPDATE SET value = EXCLUDED.value",
            [scope, name, value],
        )

    def _versions(self, query: str, *values: object) -> Sequence[Version]:
        return [Version(*row) for row in self._connection.execute(query, values)]

    def _one(self, query: str, values: Sequence[object]) -> Any:  # noqa: ANN401 - a value of a row
        row = self._connection.execute(query, values).fetchone()
        return row[0] if row else None


def _content_as_json(content: Content) -> dict[str, Any]:
    return {
        "schema": content.schema,
        "kind": content.kind,
        "references": list(map(astuple, content.references)),
        "more": content.more,
    }


def _content(kept: dict[str, Any]) -> Content:
    references = tuple(Reference(*each) for each in kept["references"])
    return Content(kept["schema"], kept["kind"], references, kept["more"])
