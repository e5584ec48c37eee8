"""Dagster's SQLite files, without what Dagster computes anew each time that it opens one of them.

A run in a test takes a second, and opens such files more than a hundred times: each time with an engine of its own, in
which every statement is compiled again, and for each new file with all migrations that there ever were.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log.sqlite import sqlite_event_log  # noqa: TID251 - it has no setting for this
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager  # noqa: TID251
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager  # noqa: TID251
from dagster._core.storage.runs.sqlite import sqlite_run_storage  # noqa: TID251
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage  # noqa: TID251
from sqlalchemy import Engine, create_engine
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


def keep_what_is_the_same() -> None:
    """Make Dagster's storages in this process keep engines and migrations, and copy no output of steps to files."""
    for storage in _STORAGES:
        storage.create_engine = _kept_engine  # type: ignore[attr-defined]
    ScriptDirectory.from_config = _kept_migrations  # type: ignore[method-assign, assignment]
    LocalComputeLogManager.capture_logs = NoOpComputeLogManager.capture_logs  # type: ignore[method-assign, assignment]
