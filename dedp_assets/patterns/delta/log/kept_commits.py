"""Commits that were read ahead of a reader, as bytes."""

from __future__ import annotations

__all__ = ["KeptCommits"]

_KEPT_BYTES = 1 << 26
"""Most bytes of commits kept for a second reader: some ten thousand commits that write a partition each."""


class KeptCommits:
    """Bytes and tags of commits that were read ahead, by version, up to a number of bytes."""

    def __init__(self) -> None:
        self.commits: dict[int, tuple[bytes, object]] = {}
        self._left = _KEPT_BYTES

    def keep(self, version: int, raw: bytes, tag: object) -> None:
        """Keep a commit if the bytes left are enough."""
        if version not in self.commits and len(raw) <= self._left:
            self._left -= len(raw)
            self.commits[version] = raw, tag

    def take(self, version: int) -> tuple[bytes, object] | None:
        """Return a commit and forget the commit."""
        found = self.commits.pop(version, None)
        if found is not None:
            self._left += len(found[0])
        return found
