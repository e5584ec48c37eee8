"""Opened files of this machine: content, tag and metadata by the fewest calls."""

from __future__ import annotations

import os

from dedp_assets.patterns.delta.storage.store import Entry

__all__ = ["content_of", "entry_of", "tag_of"]

_COMMIT_BYTES, _MORE_BYTES = 1 << 14, 1 << 20
"""Bytes of the first read of a file, which is all of most commits, and of each further read."""


def content_of(file: int) -> bytes:
    """Read an opened file to the end, and close the file."""
    try:
        content = os.read(file, _COMMIT_BYTES)
        if more := os.read(file, _COMMIT_BYTES):
            parts = [content, more]
            while more := os.read(file, _MORE_BYTES):
                parts.append(more)
            content = b"".join(parts)
    finally:
        os.close(file)
    return content


def entry_of(path: str, found: os.stat_result) -> Entry:
    """Return the metadata of a file by the answer to ``stat``."""
    return Entry(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, tag_of(found))


def tag_of(found: os.stat_result) -> object:
    """Return the tag of a file by the answer to ``stat``."""
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
