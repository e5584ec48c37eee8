"""Vacuum: deletes files that are neither current, nor were removed since a cutoff, nor are claimed by a running write.

The cutoff is the caller's. Spark's VACUUM and deltalake's both ask the machine's clock, know nothing of stages, and
deltalake's would delete deletion vectors that are in use, so the choice is made here, from the log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import commits, publishing
from dedp_assets.patterns.delta.locks import is_claimed, table_lock
from dedp_assets.patterns.delta.log import Ledger, TableState
from dedp_assets.patterns.delta.tables import Table

__all__ = ["remove_unneeded", "safe_hours"]

_HOURS = {"minute": 1 / 60, "hour": 1, "day": 24, "week": 168}
_WEEK = 168.0
_CLAIM = re.compile(r"\.(staged-\w+)\.claim")


def safe_hours(state: TableState) -> float:
    """Look up how long removed files stay (``delta.deletedFileRetentionDuration``); a week if nothing is declared."""
    stated = re.findall(r"(\d+) (\w+?)s?\b", state.properties.get("delta.deletedFileRetentionDuration", ""))
    return sum(int(number) * _HOURS.get(unit, _WEEK) for number, unit in stated) or _WEEK


def remove_unneeded(table: Table, *, cutoff: datetime, provenance: Provenance) -> WriteResult:
    """Delete the files that no version current at ``cutoff`` or later needs, and note that in the log.

    Only Parquet files (and whatever a stage left behind) that were last written before ``cutoff`` go; deletion vectors
    stay. Claimed stages stay whatever their age. Runs under the table's lock: no statement is in the middle of a write.
    """
    with table_lock(table.location):
        state = table.ledger.state()
        found = list(_unneeded(table.location, state, _needed(table.ledger, state, cutoff), cutoff))
        freed = sum(file.stat().st_size for file in found)
        for file in found:
            file.unlink(missing_ok=True)
        for folder in sorted({parent for file in found for parent in file.parents}, key=lambda f: -len(f.parts)):
            if folder.is_relative_to(table.location) and folder != table.location:
                with suppress(OSError):
                    folder.rmdir()
        data = sum(file.suffix == ".parquet" for file in found)
        figures = {"files_removed": data, "bytes_removed": freed, "stages_in_use": len(_claimed(table.location))}
        if not found:
            reason = f"nothing to remove: every file is needed by a version since {cutoff.isoformat()}"
            return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason, figures=figures)
        record = CommitRecord.of(provenance, content=f"vacuum up to {cutoff.isoformat()}", figures=figures)
        info = commits.info(record, "VACUUM END", state, {"numDeletedFiles": data})
        for last in publishing.attempts():
            try:
                version = table.ledger.version() + 1
                commits.write(table.location, version, [info])
                break
            except Conflict:
                if last:
                    raise
    reason = f"{data} files ({freed} bytes) that no version since {cutoff.isoformat()} needs were removed"
    return WriteResult(table.name, version, applied=True, changed=False, reason=reason, figures=figures)


def _needed(ledger: Ledger, state: TableState, cutoff: datetime) -> set[Path]:
    """List the files of the newest version, and of every version that was current at ``cutoff`` or later."""
    needed = [file["path"] for file in state.files()]
    for commit in ledger.history():
        if commit.timestamp < cutoff:
            break
        needed += commit.files_past
    return {ledger.location / unquote(path) for path in needed}


def _unneeded(location: Path, state: TableState, needed: set[Path], cutoff: datetime) -> Iterator[Path]:
    claimed = _claimed(location)
    for folder, folders, names in os.walk(location):
        here = Path(folder)
        if here == location:
            folders[:] = [name for name in folders if name not in claimed and _holds_data(name, state)]
        staged = here != location and here.relative_to(location).parts[0].startswith("staged-")
        for name in names:
            # A checksum file goes with the file it is about.
            subject = name[1:-4] if name.startswith(".") and name.endswith(".crc") else name
            dead_claim = (claim := _CLAIM.fullmatch(name)) and claim[1] not in claimed
            data = subject.endswith(".parquet") and not subject.startswith((".", "_"))
            if not (data or staged or dead_claim) or here / subject in needed:
                continue
            if (here / name).stat().st_mtime < cutoff.timestamp():
                yield here / name


def _claimed(location: Path) -> set[str]:
    """List the names of the stages that somebody may still publish."""
    claims = [(file, match[1]) for file in location.glob(".staged-*") if (match := _CLAIM.fullmatch(file.name))]
    return {stage for file, stage in claims if is_claimed(file)}


def _holds_data(folder: str, state: TableState) -> bool:
    """Tell whether a folder of the table may hold data files: all but the log and other hidden ones."""
    partitioned = any(folder.startswith(f"{column}=") for column in state.partition_columns)
    return partitioned or folder == "_change_data" or not folder.startswith(("_", "."))
