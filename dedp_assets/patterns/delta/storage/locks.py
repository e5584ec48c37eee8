"""Lock of a table: one writer at a time.

Spark's commit on a local disk is atomic only inside one JVM, and delta-rs does not know Spark's lock, so every commit
of the library happens under a lock of its own: the one of the table's store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.delta.storage.store import Store, require

__all__ = ["table_lock"]


@contextmanager
def table_lock(store: Store, *, timeout_seconds: float = 600) -> Iterator[None]:
    """Hold the writer's lock of the table in ``store``.

    Raises:
        Conflict: if another writer keeps it for longer than ``timeout_seconds``.
        ConfigError: if nobody may write there, or the store cannot tell writers apart.
    """
    require(store, "lock", "put_if_absent")
    with ExitStack() as held:
        try:
            held.enter_context(store.lock(timeout_seconds))
        except TimeoutError:
            message = f"{store.name} is being written by another process for more than {timeout_seconds:g} s"
            raise Conflict(f"{message} ({store.address})") from None
        except OSError as error:
            raise ConfigError(f"{store.name} cannot be written: its lock cannot be taken ({error})") from error
        yield
