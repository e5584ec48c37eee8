"""Dagster's run history in SQLite files, over connections that stay open.

Dagster's own SQLite storage makes an engine and a connection for each statement, and runs every schema migration for
the database of each run. Here an engine and its connections are kept for each file, and the database of a run starts as
a copy of an empty, migrated one. The files are Dagster's, unchanged: without ``storage`` in ``dagster.yaml`` Dagster's
own class goes on with them.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import dagster

# Dagster exports none of its storages, and has no setting for the way in which they connect.
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage  # noqa: TID251
from dagster._core.storage.runs import SqliteRunStorage  # noqa: TID251
from dagster._core.storage.schedules import SqliteScheduleStorage  # noqa: TID251
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage  # noqa: TID251
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

__all__ = ["RunHistory"]

_BUSY_SECONDS = 30
"""How long a statement waits for another process that writes to the same file."""
_OPEN_RUNS = 8
"""The number of databases of single runs that stay open in a process."""


class _Engines:
    """The database engines of this process, per file; only the most recently used engines stay open."""

    def __init__(self, *, at_most: int = 4, checkpoint: bool = False) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._lock = threading.Lock()
        self._at_most, self._checkpoint = at_most, checkpoint
        # SQLite forbids a forked process to use or close the connections of its parent.
        os.register_at_fork(after_in_child=self._forget)

    @contextmanager
    def connect(self, url: str) -> Iterator[Connection]:
        """Open a transaction on a connection to the database at ``url``."""
        with self._engine(url).begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections; the next transaction opens a connection."""
        with self._lock:
            while self._engines:
                self._engines.popitem()[1].dispose()

    def _engine(self, url: str) -> Engine:
        with self._lock:
            if url not in self._engines:
                self._engines[url] = self._made(url)
                while len(self._engines) > self._at_most:
                    self._engines.popitem(last=False)[1].dispose()
            self._engines.move_to_end(url)
            return self._engines[url]

    def _made(self, url: str) -> Engine:
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
        if self._checkpoint:
            # The UI watches the file of a run's database, to which only a checkpoint writes.
            event.listen(engine, "connect", lambda made, _: made.execute("PRAGMA wal_autocheckpoint = 1"))
        return engine

    def _forget(self) -> None:
        self._lock = threading.Lock()
        for engine in self._engines.values():
            engine.dispose(close=False)
        self._engines.clear()


class _Runs(SqliteRunStorage):
    """The storage of runs and run tags."""

    _engines = _Engines()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a transaction."""
        with self._engines.connect(self._conn_string) as connection:
            yield connection


class _Ticks(SqliteScheduleStorage):
    """The states and ticks of schedules and sensors."""

    _engines = _Engines()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a transaction."""
        with self._engines.connect(self._conn_string) as connection:
            yield connection


class _Events(SqliteEventLogStorage):
    """The storage of events: a database per run, and a database for queries across runs."""

    def __init__(self, base_dir: str) -> None:
        self._index, self._of_runs = _Engines(), _Engines(at_most=_OPEN_RUNS, checkpoint=True)
        self._tables = set[str]()
        super().__init__(base_dir)

    def wipe(self) -> None:
        """Delete the events of all runs."""
        self._of_runs.close()
        self._tables.clear()
        super().wipe()

    def has_table(self, table_name: str) -> bool:
        """Return whether a table is in the database for queries across runs.

        Dagster asks for each event of a check, and opens a connection for each answer; here for the first one.
        """
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def dispose(self) -> None:
        """Stop watching, and close the connections."""
        super().dispose()
        self._of_runs.close()
        self._index.close()

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            if shard not in self._initialized_dbs:
                self._migrate(shard)
                self._initialized_dbs.add(shard)
            engines = self._index if shard == INDEX_SHARD_NAME else self._of_runs
            with engines.connect(self.conn_string_for_shard(shard)) as connection:
                yield connection

    def _migrate(self, shard: str) -> None:
        """Create a missing database as a copy of an empty database; migrate a database of another version."""
        path, empty = Path(self.path_for_shard(shard)), self._empty()
        if not (_copied(empty, path) or _version(path) == _version(empty)):
            self._initdb(_short_lived(path))

    def _empty(self) -> Path:
        """Return an empty database of this Dagster version, next to the folder of run databases."""
        path = Path(self._base_dir).with_name(f"empty_run_{dagster.__version__}.db")
        if not path.exists():
            with TemporaryDirectory(dir=path.parent) as folder:
                made = Path(folder) / path.name
                self._initdb(_short_lived(made))
                made.replace(path)
        return path


class RunHistory(DagsterSqliteStorage):
    """Dagster's SQLite storage, over connections that stay open."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:  # noqa: ANN401 - Dagster's configuration
        history = Path(base_dir) / "history"
        self.base_dir, self._inst_data = base_dir, inst_data
        self._run_storage = _Runs.from_local(str(history))
        self._event_log_storage = _Events(str(history / "runs"))
        self._schedule_storage = _Ticks.from_local(str(Path(base_dir) / "schedules"))

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> RunHistory:  # noqa: ANN401 - Dagster's
        """Make the storage that ``dagster.yaml`` configures."""
        return cls(config_value["base_dir"], inst_data)


def _short_lived(path: Path) -> Engine:
    return create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": _BUSY_SECONDS})


def _copied(empty: Path, path: Path) -> bool:
    """Copy a database to ``path`` atomically, unless the file exists; return whether a copy was made."""
    if path.exists():
        return False
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    shutil.copyfile(empty, draft)
    try:
        os.link(draft, path)  # unlike a rename, it replaces nothing that another process made meanwhile
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _version(path: Path) -> str | None:
    """Return the migration version of a database; ``None`` without a version."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection, suppress(sqlite3.OperationalError):
        return next((str(row[0]) for row in connection.execute("SELECT version_num FROM alembic_version")), None)
    return None
