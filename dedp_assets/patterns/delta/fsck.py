"""Consistency check of a stored table: log against files, without a JVM and without reading rows.

A table can be green and unreadable: its log is whole, and a data file that it names is gone. Names and sizes of the
files are compared with the log, the log with its own checksums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta.log.faults import TableFault, log_faults, stated_figures
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.snapshots.lost_files import LostFile, lost_files

__all__ = ["Verification", "verify_table"]


@dataclass(frozen=True, slots=True)
class Verification:
    """Faults found in one table.

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
    faults: tuple[TableFault, ...] = ()
    lost: tuple[LostFile, ...] = ()

    @property
    def sound(self) -> bool:
        """Return whether no fault was found."""
        return not self.faults and not self.lost


def verify_table(ledger: Ledger) -> Verification:
    """Check a table's log against version checksums and data files.

    Args:
        ledger: the table's.

    Raises:
        ConfigError: if a file lies in the place of the table's folder.
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


def _unknown_actions(ledger: Ledger, known: Collection[str]) -> Iterator[TableFault]:
    """List the commits of valid JSON that lack required fields of an action."""
    for version in ledger.files.versions():
        file = f"_delta_log/{version:020d}.json"
        try:
            _ = file in known or ledger.commit(version)
        except ContractError as error:
            if error.__cause__:  # else a gap in the log, which is a fault of its own
                yield TableFault(file, f"is damaged ({error.__cause__})", "put it back from a backup")


def _contradictions(ledger: Ledger) -> Iterator[TableFault]:
    """Compare number and bytes of files in the log with the newest checksum file; list a difference."""
    checksum = stated_figures(ledger.store)
    if checksum is None:
        return
    version, figures = checksum
    path = f"_delta_log/{version:020d}.crc"
    try:
        files = ledger.state(version).files()
    except ContractError:
        return
    held = {"numFiles": len(files), "tableSizeBytes": sum(file["size_bytes"] for file in files)}
    if held != figures:
        shown = f"states {figures['numFiles']} files of {figures['tableSizeBytes']} bytes, the log holds "
        shown += f"{held['numFiles']} of {held['tableSizeBytes']}"
        yield TableFault(
            path, shown, "put the commits up to that version back from a backup; they lack what it counted"
        )
