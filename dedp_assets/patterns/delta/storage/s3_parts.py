"""Objects of a bucket as files that are read in parts."""

from __future__ import annotations

import io

from dedp_assets.patterns.delta.storage.s3_bucket import Bucket

__all__ = ["RangedObject"]

_END_BYTES = 1 << 16
"""Bytes of the first request, from the end of an object: as many as pyarrow reads for a footer."""


class RangedObject(io.RawIOBase):
    """An object as a file of Python's that is read in parts; each part is one request, but for the end.

    The end is read at once, and tells the size: a footer, or a small file as a whole, is one request.
    """

    def __init__(self, objects: Bucket, key: str) -> None:
        self._objects, self._key = objects, key
        self._end, self._size = objects.read_end(key, _END_BYTES)
        self._at = 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place, counted from the start, the current place or the end."""
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or to the end."""
        left = max(self._size - self._at, 0)
        length = left if size < 0 else min(size, left)
        begun = self._at - (self._size - len(self._end))
        if not length or begun >= 0:
            content = self._end[begun : begun + length] if length else b""
        else:
            content = self._objects.read_range(self._key, self._at, length)
        self._at += length
        return content
