"""Coordination of a table's writers by the store's lock or by optimistic commits.

A commit puts the log file of the next version only if that file is absent, so of two writers that decided on the same
version one commits; the other gets a :class:`Conflict` and decides again. Where the store has a lock, a writer holds
the lock from its decision to its commit, and no decision is made in vain.

Some work needs :func:`table_lock`, and is refused in a store without one. Spark's own commit is atomic only inside one
JVM on a local disk, and may write over a file that another program put on S3. A removal of files is no commit: another
writer could bring a file back between the look at the log and the removal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TypeVar

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.running.disks import refused_write
from dedp_assets.patterns.delta.storage.store import Hold, Store, require

__all__ = ["AGAIN", "has_lock", "in_turn", "require_lock", "table_lock", "turn"]

T = TypeVar("T")

AGAIN = Backoff(attempts=5, first_seconds=0.2)
"""Attempts of a write against conflicts with other writers."""


def turn(store: Store) -> AbstractContextManager[Hold | None]:
    """Enclose decision and commit of a write; after a conflict inside, the writer has to decide again.

    Raises:
        Conflict: if another writer keeps the table for too long.
        ConfigError: if nobody may write there, or a commit could be written over.
    """
    require(store, "put_if_absent")
    return table_lock(store) if has_lock(store) else nullcontext()


def has_lock(store: Store) -> bool:
    """Return whether the writers of a table in ``store`` hold a lock for their turn."""
    return "lock" in store.can


def require_lock(store: Store) -> None:
    """Refuse a store without a lock, for commits by Spark, removals of files and series of commits.

    Raises:
        ConfigError: names the location.
    """
    require(store, "lock", "put_if_absent")


@contextmanager
def table_lock(store: Store, *, timeout_seconds: float = 600) -> Iterator[Hold]:
    """Hold the writer's lock of the table in ``store``.

    It is confirmed before each step that nobody can take back.

    Raises:
        Conflict: if another writer keeps it for longer than ``timeout_seconds``.
        ConfigError: if nobody may write there, or the store has no lock.
    """
    require_lock(store)
    with ExitStack() as held:
        try:
            lock = held.enter_context(store.lock(timeout_seconds))
        except TimeoutError:
            message = f"{store.name} is being written by another process for more than {timeout_seconds:g} s"
            raise Conflict(f"{message} ({store.address})") from None
        except ConnectionError:
            raise  # it may pass
        except OSError as error:
            untaken = ConfigError(f"{store.name} cannot be written: its lock cannot be taken ({error})")
            raise (refused_write(f"{store.name} ({store.address})", error) or untaken) from error
        yield lock


def in_turn(store: Store, write: Callable[[], T]) -> T:
    """Run decision and commit of a write, again after each conflict, and return the result.

    Raises:
        Conflict: if other writers do not yield.
    """
    for last in AGAIN.tries():
        with turn(store):
            try:
                return write()
            except Conflict:
                if last:
                    raise
    raise AssertionError("unreachable")
