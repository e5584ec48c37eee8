"""Coordination of a table's writers: a lock where the store has one, optimistic commits where it has none.

A commit puts the log file of the next version only if that file is absent, so of two writers that decided on the same
version one commits; the other gets a :class:`Conflict` and decides again. Where the store has a lock, a writer holds
the lock from its decision to its commit, and no decision is made in vain.

Spark's own commit asks for more: on a local disk it is atomic only inside one JVM, and on S3 it may write over a file
that another program put. What Spark commits is committed under :func:`table_lock`, and refused where there is none.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.delta.storage.store import Claim, Store, require

__all__ = [
    "CLAIM_SECONDS",
    "Coordination",
    "attempts",
    "coordination",
    "in_turn",
    "require_lock",
    "table_lock",
]

T = TypeVar("T")

CLAIM_SECONDS = 86_400
"""How long a claim lasts in a store without locks, where nobody sees that its holder died."""


class Coordination(Protocol):
    """What keeps the writers of one table from committing over each other."""

    def turn(self) -> AbstractContextManager[None]:
        """Enclose decision and commit of a write; after a conflict inside, the writer has to decide again.

        Raises:
            Conflict: if another writer keeps the table for too long.
            ConfigError: if nobody may write there.
        """

    def claim(self, path: str) -> Claim:
        """Claim a path for a write, so that no vacuum removes what the write has staged there."""

    def is_claimed(self, path: str) -> bool:
        """Tell whether a path is claimed by a write that may still be running."""


@dataclass(frozen=True, slots=True)
class Locked:
    """One writer at a time, by the store's lock; claims end with their process."""

    store: Store

    def turn(self) -> AbstractContextManager[None]:
        """Hold the store's lock."""
        return table_lock(self.store)

    def claim(self, path: str) -> Claim:
        """Lock the claim's file."""
        return self.store.claim(path)

    def is_claimed(self, path: str) -> bool:
        """Tell whether a living process holds the claim's lock."""
        return self.store.is_claimed(path)


@dataclass(frozen=True, slots=True)
class Optimistic:
    """Any number of writers at a time; claims end by their age.

    A write that takes longer than :data:`CLAIM_SECONDS` may lose its stage to a vacuum; its publish then finds the
    files gone and refuses.
    """

    store: Store

    def turn(self) -> AbstractContextManager[None]:
        """Hold nothing: the commit itself tells whether another writer was faster."""
        return nullcontext()

    def claim(self, path: str) -> Claim:
        """Write the claim's file, whose age counts."""
        self.store.put(path, b"")
        return _Unlocked()

    def is_claimed(self, path: str) -> bool:
        """Tell whether the claim's file is there and young."""
        try:
            age_ns = time.time_ns() - self.store.entry(path).modified_ns
        except FileNotFoundError:
            return False
        return age_ns < CLAIM_SECONDS * 1_000_000_000


class _Unlocked:
    """A claim that is over once its file is removed."""

    def release(self) -> None:
        """Release nothing: the file says all."""


def coordination(store: Store) -> Coordination:
    """Choose how the writers of a table are coordinated, by what its store can do.

    Raises:
        ConfigError: for a store in which a commit could be written over.
    """
    require(store, "put_if_absent")
    return Locked(store) if "lock" in store.can else Optimistic(store)


def require_lock(store: Store) -> None:
    """Refuse a store without a lock, for what Spark itself commits and for what is more than one commit.

    Raises:
        ConfigError: names the location.
    """
    require(store, "lock", "put_if_absent")


@contextmanager
def table_lock(store: Store, *, timeout_seconds: float = 600) -> Iterator[None]:
    """Hold the writer's lock of the table in ``store``.

    Raises:
        Conflict: if another writer keeps it for longer than ``timeout_seconds``.
        ConfigError: if nobody may write there, or the store has no lock.
    """
    require_lock(store)
    with ExitStack() as held:
        try:
            held.enter_context(store.lock(timeout_seconds))
        except TimeoutError:
            message = f"{store.name} is being written by another process for more than {timeout_seconds:g} s"
            raise Conflict(f"{message} ({store.address})") from None
        except OSError as error:
            raise ConfigError(f"{store.name} cannot be written: its lock cannot be taken ({error})") from error
        yield


def in_turn(store: Store, write: Callable[[], T]) -> T:
    """Let a writer decide and commit in its turn, again after each conflict, and return the result.

    Raises:
        Conflict: if other writers do not yield.
    """
    for last in attempts():
        with coordination(store).turn():
            try:
                return write()
            except Conflict:
                if last:
                    raise
    raise AssertionError("unreachable")


def attempts(count: int = 5, *, pause_seconds: float = 0.1) -> Iterator[bool]:
    """Yield, for each of ``count`` attempts, whether the attempt is the last; with backoff and jitter."""
    for number in range(count):
        if number:
            time.sleep(random.uniform(0.5, 1) * pause_seconds * 2**number)  # noqa: S311 - jitter, not a secret
        yield number == count - 1
