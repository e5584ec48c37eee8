"""Data files that the log names and that are missing, or cut short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.storage.store import Store

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
    found = []
    for file, key in state.keyed_files():
        if not partitions or any(named.items() <= dict(key).items() for named in partitions):
            path = unquote(file["path"])
            if what := _loss(store, path, file["size_bytes"]):
                found.append(LostFile(path, key, what))
    return found


@dataclass(slots=True)
class LostFileWatch:
    """Repeated search of one table for lost data files; the log is read again after a commit only."""

    _version: tuple[int, object] = field(default=(-1, None), init=False)
    _files: Sequence[tuple[str, Partition, int]] = field(default=(), init=False)

    def poll(self, ledger: Ledger) -> list[LostFile]:
        """List the missing or truncated data files of the newest version.

        Args:
            ledger: the table's.

        Raises:
            ContractError: if the log is damaged.
            NotReady: if there is no table.
        """
        version = ledger.version()
        known = version, ledger.identity(version)
        if known != self._version:
            files = ledger.state(version).keyed_files()
            self._files = [(unquote(file["path"]), key, file["size_bytes"]) for file, key in files]
            self._version = known
        found = ((path, key, _loss(ledger.store, path, size)) for path, key, size in self._files)
        return [LostFile(path, key, what) for path, key, what in found if what]


def require_files(store: Store, files: Iterable[tuple[str, int]]) -> None:
    """Check existence and size of staged files (path, bytes) before a read or a commit.

    Raises:
        FilesGone: if one is not there, or is cut short.
    """
    lost = [(path, what) for path, size in files if (what := _loss(store, path, size))]
    if lost:
        path, what = lost[0]
        more = f", like {len(lost) - 1} more" if len(lost) > 1 else ""
        raise FilesGone(
            f"{store.name}: {path} {what}{more} since it was written, and nothing was committed. A VACUUM with a "
            "retention of 0 hours does that: run the step again, and keep what is younger than the longest step"
        )


def lost_files_message(table: str, lost: Sequence[LostFile]) -> str:
    """Describe lost files in one clause, with the first few paths."""
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return f"{table} lacks {len(lost)} of its data files ({', '.join(map(str, lost[:_SHOWN]))}{more})"


def _loss(store: Store, path: str, size_bytes: int) -> str:
    """Describe the damage of a data file; empty if sound, or if the path has a scheme."""
    if "://" in path:
        return ""
    try:
        size = store.entry(path.removeprefix("file:")).size_bytes
    except OSError:
        return "is missing"
    return "" if size == size_bytes else f"has {size} of {size_bytes} bytes"
