"""Writes that the system refuses: to a full disk, or without permission."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from dedp_assets.patterns.core.errors import ConfigError, NotReady, PatternError
from dedp_assets.patterns.core.running.permissions import require_allowed

__all__ = ["NoRoom", "Unwritable", "refused_write", "writing_to"]


class NoRoom(NotReady, OSError):
    """A disk that is full, or does not work, for now."""


class Unwritable(ConfigError, OSError):
    """A refused write, for a missing permission or a read-only disk."""


_FULL = (NoRoom, "the disk is full", "make room, and run again")
_FORBIDDEN = (Unwritable, "this user may not write there", "give the right to write, or name another place")
_REFUSALS: dict[int, tuple[str, type[PatternError], str, str]] = {
    errno.ENOSPC: ("No space left on device", *_FULL),
    errno.EDQUOT: ("Disk quota exceeded", *_FULL),
    errno.EIO: ("Input/output error", NoRoom, "the disk does not work", "look at the disk, and run again"),
    errno.EROFS: (
        "Read-only file system",
        Unwritable,
        "the disk is read-only",
        "mount it for writing, or name another",
    ),
    errno.EACCES: ("Permission denied", *_FORBIDDEN),
    errno.EPERM: ("Operation not permitted", *_FORBIDDEN),
}
"""Number of the system -> text of the system, error, reason, and remedy."""
_ONLY_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Refusals that no read of a source meets."""
_SQLITE = {
    "database or disk is full": "No space left on device",
    "attempt to write a readonly database": "Read-only file system",
}
"""Text of SQLite, in which runs are recorded -> text of the system."""
_HADOOP = re.compile(r"Mkdirs failed to create|failed to create .*\bdirectory")


def refused_write(place: str, error: BaseException) -> PatternError | None:
    """Return the library's error for a write that the system refused; ``None`` for any other error.

    Args:
        place: what was written, with the place.
        error: an ``OSError``, or an error of Spark's, whose text quotes the system's. A write of Spark's reads its
            sources, too: a permission that is missing counts if the text names ``place``.
    """
    known, answer = getattr(error, "errno", None), getattr(error, "strerror", None) or ""
    if known in _REFUSALS and answer not in ("", os.strerror(known)):  # a bucket's, with the missing right
        return _REFUSALS[known][1](f"{place}: {answer}")
    text = "" if isinstance(error, OSError) else str(error)
    text = next((system for words, system in _SQLITE.items() if words in text), text)
    for number, (system, kind, why, remedy) in _REFUSALS.items():
        if known == number or (system in text and (number in _ONLY_WRITES or place in text)):
            return kind(f"{place} cannot be written, as {why}: {remedy}")
    if _HADOOP.search(text):
        return Unwritable(f"{place} cannot be written, as no folder can be made there: name another place")
    return None


@contextmanager
def writing_to(place: str) -> Iterator[None]:
    """Raise the errors of a write that the system refuses as errors of the library.

    Args:
        place: the address of what is written.

    Raises:
        NoRoom: if the disk is full.
        Unwritable: if this user may not write there.
        ConfigError: if the block is restricted to other places.
    """
    require_allowed("write", place)
    try:
        yield
    except Exception as error:
        if isinstance(error, PatternError) or (refused := refused_write(place, error)) is None:
            raise
        raise refused from error
