"""Verification: a table's log held against what is stored, without a JVM and without reading a row.

A table can be green and unreadable: its log is whole, and a data file that it names is gone. Names and sizes of the
files are compared with the log, the log with its own checksums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import Conflict, ContractError
from dedp_assets.patterns.delta.log import Ledger, Partition, TableState
from dedp_assets.patterns.delta.logfiles import Fault, log_faults, stated_figures
from dedp_assets.patterns.delta.store import Store

__all__ = ["FilesGone", "LostFile", "Verification", "lost_files", "require_files", "tell_lost", "verify_table"]

_SHOWN = 3


class FilesGone(Conflict):
    """Staged files that somebody removed: only staging the rows once more helps."""


@dataclass(frozen=True, slots=True)
class LostFile:
    """A data file that the log names and nobody can read.

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


@dataclass(frozen=True, slots=True)
class Verification:
    """The faults that were found in one table.

    Attributes:
        table: its name.
        version: the version that was looked at; -1 if the log gives none.
        files: data files of that version.
        faults: what is wrong with the log.
        lost: data files that are not there as the log describes them.
    """

    table: str
    version: int
    files: int
    faults: tuple[Fault, ...] = ()
    lost: tuple[LostFile, ...] = ()

    @property
    def sound(self) -> bool:
        """Tell whether no fault was found."""
        return not self.faults and not self.lost


def lost_files(store: Store, state: TableState, *partitions: Mapping[str, str | None]) -> list[LostFile]:
    """List the data files of the named partitions (of all, if none is named) that are missing or cut short."""
    found = []
    for file, key in state.keyed_files():
        if not partitions or any(named.items() <= dict(key).items() for named in partitions):
            path = unquote(file["path"])
            if what := _loss(store, path, file["size_bytes"]):
                found.append(LostFile(path, key, what))
    return found


def require_files(store: Store, files: Iterable[tuple[str, int]]) -> None:
    """Look at staged files, each a path and its size in bytes, that are about to be read or named in a commit.

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


def tell_lost(table: str, lost: Sequence[LostFile]) -> str:
    """Describe the loss in one clause, with the first few files."""
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return f"{table} lacks {len(lost)} of its data files ({', '.join(map(str, lost[:_SHOWN]))}{more})"


def verify_table(ledger: Ledger) -> Verification:
    """Hold a table's log against its checksums and its files.

    Args:
        ledger: the table's.

    Raises:
        NotReady: if there is no table.
    """
    faults = log_faults(ledger.store)
    faults += _unknown_actions(ledger, {fault.file for fault in faults})
    try:
        state = ledger.state()
    except ContractError:
        return Verification(ledger.name, -1, 0, tuple(faults))
    faults += _contradictions(ledger)
    lost = lost_files(ledger.store, state)
    return Verification(ledger.name, state.version, len(state.files()), tuple(faults), tuple(lost))


def _loss(store: Store, path: str, size_bytes: int) -> str:
    """Say what is wrong with a data file; empty if it is sound, or lies behind a path with a scheme."""
    if "://" in path:
        return ""
    try:
        size = store.entry(path.removeprefix("file:")).size_bytes
    except OSError:
        return "is missing"
    return "" if size == size_bytes else f"has {size} of {size_bytes} bytes"


def _unknown_actions(ledger: Ledger, known: Collection[str]) -> Iterator[Fault]:
    """Find commits that are valid JSON and lack what a commit has to have."""
    for version in range(ledger.version() + 1):
        file = f"_delta_log/{version:020d}.json"
        if file not in known and ledger.store.exists(file):
            try:
                ledger.commit(version)
            except ContractError as error:
                yield Fault(file, f"is damaged ({error.__cause__})", "put it back from a backup")


def _contradictions(ledger: Ledger) -> Iterator[Fault]:
    """List where the log and the checksum file of one of its versions disagree on files and bytes."""
    stated = stated_figures(ledger.store)
    if stated is None:
        return
    version, figures = stated
    path = f"_delta_log/{version:020d}.crc"
    try:
        files = ledger.state(version).files()
    except ContractError:
        return
    held = {"numFiles": len(files), "tableSizeBytes": sum(file["size_bytes"] for file in files)}
    if held != figures:
        shown = f"states {figures['numFiles']} files of {figures['tableSizeBytes']} bytes, the log holds "
        shown += f"{held['numFiles']} of {held['tableSizeBytes']}"
        yield Fault(path, shown, "put the commits up to that version back from a backup; they lack what it counted")
