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

from dedp_assets.patterns.core.errors import Conflict

__all__ = ["table_lock"]


@contextmanager
def table_lock(location: Path, *, timeout_seconds: float = 600) -> Iterator[None]:
    """Hold the writer's lock of the table in folder ``location``.

    Raises:
        Conflict: if another writer keeps it for longer than ``timeout_seconds``.
    """
    path = location.parent / f".{location.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=timeout_seconds)
    try:
        lock.acquire()
    except Timeout:
        message = f"{location.name} is being written by another process for more than {timeout_seconds:g} s ({path})"
        raise Conflict(message) from None
    try:
        yield
    finally:
        lock.release()
