"""Leases: locks by an object that the holder renews, and that others take over once too old.

The holder creates the object if it is absent, renews it while the work lasts, and removes it at the end, each time only
if it is still the holder's. Whoever finds one that was not renewed for its time takes it over. Its age is told by the
clock of the store that wrote it, so the clocks of the holders do not count. A lease ends some time after its holder was
killed; a holder that slept for longer than its time loses it, and the holder's next step under it is refused.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeGuard

from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.running.permissions import inheriting
from dedp_assets.patterns.delta.storage.s3_bucket import Bucket, Seen

__all__ = ["LeaseClaim", "ObjectLease", "is_leased"]

_WAITING = Backoff(first_seconds=0.05, longest_seconds=1)
_RENEWALS = 3
"""Number of renewals in the lifetime of a lease; two may fail."""
_WHOLE_SECONDS = 1
"""By so much a store's clock may overstate an age."""


@dataclass(slots=True, eq=False)
class ObjectLease:
    """A lease on an object, from acquisition to release.

    Attributes:
        bucket: where the object is.
        key: of the object.
        seconds: time without a renewal after which others may take it over.
        place: name of what it locks, for messages.
    """

    bucket: Bucket
    key: str
    seconds: float
    place: str
    _holder: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _tag: str = field(default="", init=False)
    _asked: float = field(default=0.0, init=False)
    _renewed: float = field(default=0.0, init=False)
    _writes: int = field(default=0, init=False)
    _lost: bool = field(default=False, init=False)
    _process: int = field(default_factory=os.getpid, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _turn: threading.RLock = field(default_factory=threading.RLock, init=False)

    def take(self, timeout_seconds: float) -> None:
        """Take the lease, and begin renewals in the background.

        Raises:
            ConfigError: if the server ignores conditions, by which a lease is one holder's.
            TimeoutError: if somebody else keeps it for longer.
        """
        ends, failures = time.monotonic() + timeout_seconds, 0
        taken = self._is_new()
        # One that is held is looked at: servers let writers of one object wait for each other.
        while not taken and not self._is_taken_over():
            failures += 1
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self.place} is held by another process")
            time.sleep(min(left, _WAITING.pause(failures)))
        with suppress(ConnectionError):  # an answer that is lost proves nothing: the next lease asks again
            self.bucket.require_conditions(self.key)
        threading.Thread(target=inheriting(self._renewing), name=f"lease of {self.place}", daemon=True).start()

    @contextmanager
    def held(self, timeout_seconds: float) -> Iterator[ObjectLease]:
        """Hold the lease until the block ends.

        Raises:
            TimeoutError: if somebody else keeps it for longer, or took it over before the block ended.
        """
        self.take(timeout_seconds)
        try:
            yield self
        except BaseException:
            self.give_up()
            raise
        if not self.give_up():
            raise self._gone()

    def confirm(self) -> None:
        """Make sure that the lease is held, with time left for the next step.

        Raises:
            TimeoutError: if somebody else took it over, or may have.
        """
        if time.monotonic() - self._renewed > self.seconds / _RENEWALS:
            with suppress(OSError):  # as long as its time is not over, it stands
                self._renew()
        if self._is_over():
            raise self._gone()

    def give_up(self) -> bool:
        """Remove the object if still the holder's; return false if the lease was lost."""
        self._ended.set()
        if os.getpid() != self._process:
            return True  # the copy in a forked process is nobody's to give up
        with self._turn:
            if self._lost:
                return False
            try:
                if self.bucket.delete_if(self.key, self._tag):
                    return True
                # The answer to the last renewal may have been lost, and the e-tag with it.
                seen = self.bucket.aged(self.key)
                return self._is_ours(seen) and self.bucket.delete_if(self.key, seen.tag)
            except OSError:
                return not self._is_over()  # it ends by itself

    def _is_new(self) -> bool:
        """Create the lease object; return whether the server confirmed the creation.

        After a creation without an answer, :meth:`_is_taken_over` finds the holder in the content.
        """
        with suppress(FileExistsError, ConnectionError):
            return self._write(None)
        return False

    def _is_taken_over(self) -> bool:
        """Take a lease that was given up, or not renewed in time."""
        seen = self.bucket.aged(self.key)
        if seen is None:
            return self._is_new()
        if self._is_ours(seen):
            self._tag, self._renewed = seen.tag, self._asked
            return True
        if not _is_current(seen, self.seconds):
            with suppress(FileExistsError, FileNotFoundError, ConnectionError):
                return self._write(seen.tag)
        return False

    def _is_ours(self, seen: Seen | None) -> TypeGuard[Seen]:
        return seen is not None and _stated(seen).get("holder") == self._holder

    def _write(self, tag: str | None) -> bool:
        """Write the object as the holder's: a new one, or in place of the one with an e-tag."""
        self._asked = time.monotonic()
        # No two writes are the same: an e-tag is made of the content, and an old one must never fit again.
        self._writes += 1
        stated = {"holder": self._holder, "seconds": self.seconds, "writes": self._writes}
        content = json.dumps(stated).encode()
        self._tag = (
            self.bucket.create(self.key, content) if tag is None else self.bucket.exchange(self.key, content, tag)
        )
        self._renewed = self._asked
        return True

    def _renew(self) -> None:
        """Write the object again.

        Where the answer to a former renewal was lost, the content tells whose object it is.
        """
        with self._turn:
            if self._ended.is_set() or self._lost:
                return
            try:
                self._write(self._tag)
            except (FileExistsError, FileNotFoundError):
                seen = self.bucket.aged(self.key)
                if not self._is_ours(seen):
                    self._lost = True
                    return
                self._tag = seen.tag
                self._write(self._tag)

    def _renewing(self) -> None:
        while not self._ended.wait(self.seconds / _RENEWALS) and not self._lost:
            with suppress(OSError):  # tried again the next time
                self._renew()

    def _is_over(self) -> bool:
        return self._lost or time.monotonic() - self._renewed > self.seconds

    def _gone(self) -> TimeoutError:
        return TimeoutError(
            f"{self.place}: the lock was not renewed for {self.seconds:g} s and is no longer this process's, so what "
            "was left to do was not done: run again"
        )


class LeaseClaim:
    """A lease that ends when the claim is released or forgotten."""

    def __init__(self, lease: ObjectLease) -> None:
        self._end = weakref.finalize(self, inheriting(lease.give_up))

    def release(self) -> None:
        """Give up the lease."""
        self._end()


def is_leased(bucket: Bucket, key: str, seconds: float) -> bool:
    """Return whether somebody holds a lease, of ``seconds`` unless the object says otherwise."""
    seen = bucket.aged(key)
    return seen is not None and _is_current(seen, seconds)


def _is_current(seen: Seen, seconds: float) -> bool:
    stated = _stated(seen).get("seconds")
    time_of_it = stated if isinstance(stated, int | float) else seconds
    return seen.age_seconds < time_of_it + _WHOLE_SECONDS


def _stated(seen: Seen) -> dict[str, object]:
    with suppress(ValueError):
        if isinstance(found := json.loads(seen.content), dict):
            return found
    return {}
