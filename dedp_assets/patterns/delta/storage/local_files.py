"""Opened files of this machine: content, tag and metadata by the fewest calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from dedp_assets.patterns.delta.storage.store import Entry

__all__ = ["content_of", "entry_of", "scan", "tag_of"]

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


def scan(address: str, folder: str, *, deep: bool, links: bool = True) -> Iterator[Entry | str]:
    """List files as entries, everything else by path; the path of an empty folder ends with a slash.

    Args:
        address: path of the folder on this machine.
        folder: path of the folder below the store's location; empty for the location.
        deep: whether files in subfolders are listed.
        links: whether links to files count as files.
    """
    try:
        with os.scandir(address) as found:
            inside = list(found)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not inside and folder:
        yield f"{folder}/"
    for each in inside:
        path = f"{folder}/{each.name}" if folder else each.name
        if each.is_dir(follow_symlinks=False):
            yield from scan(each.path, path, deep=True, links=links) if deep else ()
        elif each.is_file(follow_symlinks=links):
            # A file that goes meanwhile is none.
            with suppress(FileNotFoundError):
                yield entry_of(path, each.stat())
        else:
            yield path
