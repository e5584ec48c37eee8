"""One writer per table.

Spark's commit on a local disk is atomic only inside one JVM, and delta-rs does not know Spark's lock, so every commit
of the library happens under a lock of its own. It is a file lock: the operating system releases it when the process
dies, however it dies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from dedp_assets.patterns.core.errors import ConfigError, Conflict

__all__ = ["claim", "is_claimed", "table_lock"]


@contextmanager
def table_lock(location: Path, *, timeout_seconds: float = 600) -> Iterator[None]:
    """Hold the writer's lock of the table in folder ``location``.

    Raises:
        Conflict: if another writer keeps it for longer than ``timeout_seconds``.
        ConfigError: if nobody may write there.
    """
    path = location.parent / f".{location.name}.lock"
    lock = FileLock(path, timeout=timeout_seconds)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        message = f"{location.name} is being written by another process for more than {timeout_seconds:g} s ({path})"
        raise Conflict(message) from None
    except OSError as error:
        raise ConfigError(f"{location.name} cannot be written: its lock {path} cannot be taken ({error})") from error
    try:
        yield
    finally:
        lock.release()


def claim(path: Path) -> FileLock:
    """Claim ``path`` until the returned lock is released or forgotten, or this process dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = FileLock(path, thread_local=False)
    held.acquire(timeout=0)
    return held


def is_claimed(path: Path) -> bool:
    """Tell whether a living process claims ``path``."""
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
