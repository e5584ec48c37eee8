"""Data files that the log names and that are missing, or cut short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.log.vectors import vector_file
from dedp_assets.patterns.delta.storage.store import Entry, Store

__all__ = ["FilesGone", "LostFile", "LostFileWatch", "lost_files", "require_files", "lost_files_message"]

_SHOWN = 3


class FilesGone(Conflict):
    """Conflict by removed staged files, resolved only by staging the rows again."""


@dataclass(frozen=True, slots=True)
class LostFile:
    """A data file of the log that is missing or cut short.

    Attributes:
        path: below the table's folder, as it is on disk.
        partition: the partition its rows belong to.
        what: what is wrong with it.
    """

    path: str
    partition: Partition
    what: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


def lost_files(store: Store, state: TableState, *partitions: Mapping[str, str | None]) -> list[LostFile]:
    """List the missing or truncated data files of the named partitions (of all if none is named)."""
    files = [
        pair
        for pair in state.keyed_files()
        if not partitions or any(named.items() <= dict(pair[1]).items() for named in partitions)
    ]
    return _lost(store, _sized(files))


@dataclass(slots=True)
class LostFileWatch:
    """Repeated search of one table for lost data files; the log is read again after a commit only."""

    _ledger: Ledger | None = field(default=None, init=False)
    _version: tuple[int, object] = field(default=(-1, None), init=False)
    _files: Sequence[tuple[str, Partition, int | None]] = field(default=(), init=False)

    def poll(self, ledger: Ledger) -> list[LostFile]:
        """List the missing or truncated data files of the newest version.

        Args:
            ledger: the table's.

        Raises:
            ContractError: if the log is damaged.
            NotReady: if there is no table.
        """
        if self._ledger is None or self._ledger.store != ledger.store:
            self._ledger = ledger
        newest = self._ledger.files.newest()
        if newest != self._version:
            self._files = _sized(self._ledger.state(newest[0]).keyed_files())
            self._version = newest
        return _lost(ledger.store, self._files)


def require_files(store: Store, files: Iterable[tuple[str, int]]) -> None:
    """Check existence and size of staged files (path, bytes) before a read or a commit.

    Raises:
        FilesGone: if one is not there, or is cut short.
    """
    lost = _lost(store, [(path, (), size) for path, size in files])
    if lost:
        path, what = lost[0].path, lost[0].what
        more = f", like {len(lost) - 1} more" if len(lost) > 1 else ""
        raise FilesGone(
            f"{store.name}: {path} {what}{more} since it was written, and nothing was committed. A VACUUM with a "
            "retention of 0 hours does that: run the step again, and keep what is younger than the longest step"
        )


def lost_files_message(table: str, lost: Sequence[LostFile]) -> str:
    """Describe lost files in one clause, with the first few paths."""
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return f"{table} lacks {len(lost)} of its data files ({', '.join(map(str, lost[:_SHOWN]))}{more})"


def _sized(files: Sequence[KeyedFile]) -> list[tuple[str, Partition, int | None]]:
    """List data files with their size, and the files with deletion vectors, whose size no log states."""
    found: list[tuple[str, Partition, int | None]] = []
    found += [(unquote(file["path"]), key, file["size_bytes"]) for file, key in files]
    vectors = {vector: key for file, key in files if (vector := vector_file(file))}
    return [*found, *((path, key, None) for path, key in vectors.items())]


def _lost(store: Store, files: Sequence[tuple[str, Partition, int | None]]) -> list[LostFile]:
    """List the missing or truncated files among ``files`` (path, partition, size).

    Nothing is known of a file with a scheme, which another store has.
    """
    named = [(path, path.removeprefix("file:"), key, size) for path, key, size in files if "://" not in path]
    found = store.entries([each for _, each, _, _ in named])
    losses = ((path, key, _loss(found.get(each), size)) for path, each, key, size in named)
    return [LostFile(path, key, what) for path, key, what in losses if what]


def _loss(found: Entry | None, size_bytes: int | None) -> str:
    """Describe the damage of a data file; empty if sound."""
    if found is None:
        return "is missing"
    return "" if size_bytes in (None, found.size_bytes) else f"has {found.size_bytes} of {size_bytes} bytes"
