"""Dagster's SQLite files, without what Dagster computes anew each time that it opens one of them.

A run in a test takes a second, and opens such files more than a hundred times: each time with an engine of its own, in
which every statement is compiled again, and for each new file with all migrations that there ever were.
"""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from typing import Any

import dagster as dg
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log import in_memory as in_memory_events  # noqa: TID251
from dagster._core.storage.event_log.sqlite import sqlite_event_log  # noqa: TID251 - it has no setting for this
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager  # noqa: TID251
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager  # noqa: TID251
from dagster._core.storage.runs import in_memory as in_memory_runs  # noqa: TID251
from dagster._core.storage.runs.sqlite import sqlite_run_storage  # noqa: TID251
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage  # noqa: TID251
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

_STORAGES = (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage)


@lru_cache(maxsize=64)
def _engine(url: str, timeout: float) -> Engine:
    return create_engine(url, poolclass=NullPool, connect_args={"timeout": timeout})


def _kept_engine(url: str, *, connect_args: dict[str, Any] | None = None, **_: Any) -> Engine:
    return _engine(url, (connect_args or {}).get("timeout", 5.0))


_read_migrations = ScriptDirectory.from_config
_migrations: dict[str, ScriptDirectory] = {}


def _kept_migrations(config: Config) -> ScriptDirectory:
    location = str(config.get_main_option("script_location"))
    if location not in _migrations:
        _migrations[location] = _read_migrations(config)
    return _migrations[location]


@lru_cache(maxsize=1)
def _first_in_memory() -> Engine:
    first = create_engine("sqlite://", poolclass=NullPool)
    first.connect().close()  # now it knows which SQLite this is
    return first


def _engine_in_memory(url: str, *, poolclass: type[NullPool]) -> Engine:
    """Make the engine of a database of its own, which knows the statements that those before it have compiled."""
    made, first = create_engine(url, poolclass=poolclass), _first_in_memory()
    made.dialect, made._compiled_cache = first.dialect, first._compiled_cache
    return made


class _Tables:
    """Tables of an in-memory storage, noted as migrated: created once in this process, and copied from then on."""

    def __init__(self, storage: Any, name: str) -> None:
        self._metadata, self._stamp = getattr(storage, name), storage.stamp_alembic_rev
        self._made = sqlite3.connect(":memory:", check_same_thread=False)
        self._complete = False
        setattr(storage, name, self)
        storage.stamp_alembic_rev, storage.create_engine = self.stamp, _engine_in_memory

    def create_all(self, connection: Connection) -> None:
        """Create the tables."""
        if self._complete:
            self._made.backup(connection.connection.driver_connection)
        else:
            self._metadata.create_all(connection)

    def stamp(self, config: Config, connection: Connection) -> None:
        """Note that the tables are migrated; copies are."""
        if not self._complete:
            self._stamp(config, connection)
            connection.connection.driver_connection.commit()
            connection.connection.driver_connection.backup(self._made)
            self._complete = True


def keep_what_is_the_same() -> None:
    """Make Dagster keep engines, migrations, tables and components in this process, and copy no output to files."""
    for storage in _STORAGES:
        storage.create_engine = _kept_engine  # type: ignore[attr-defined]
    _Tables(in_memory_events, "SqlEventLogStorageMetadata")
    _Tables(in_memory_runs, "RunStorageSqlMetadata")
    dg.load_from_defs_folder = lru_cache(dg.load_from_defs_folder)
    ScriptDirectory.from_config = _kept_migrations  # type: ignore[method-assign, assignment]
    LocalComputeLogManager.capture_logs = NoOpComputeLogManager.capture_logs  # type: ignore[method-assign, assignment]
