"""Vacuum: deletion of files neither needed since a cutoff nor claimed by a running write.

The cutoff is the caller's. Spark's VACUUM and deltalake's both ask the machine's clock, know nothing of stages, and
deltalake's would delete deletion vectors that are in use, so the choice is made here, from the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.moments import milestones
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.vectors import VECTOR_FILE, vector_file
from dedp_assets.patterns.delta.snapshots.definition import require_open
from dedp_assets.patterns.delta.storage.coordination import AGAIN, table_lock
from dedp_assets.patterns.delta.storage.locations import STAGE
from dedp_assets.patterns.delta.storage.store import Entry, Store
from dedp_assets.patterns.delta.tables import Table

__all__ = ["claimed_stages", "log_hours", "remove_unneeded", "safe_hours", "unneeded"]

_AT_ONCE = 1000
"""Files removed between two looks at the lock; a bucket removes as many by one request."""
_HOURS = {"minute": 1 / 60, "hour": 1, "day": 24, "week": 168}
_WEEK = 168.0
_MONTH = 720.0
_CLAIM = re.compile(r"\.(staged-\w+)\.claim")
_DRAFT = re.compile(r"\.[0-9a-f]{32}\.tmp")


def safe_hours(state: TableState) -> float:
    """Return the retention of removed files in hours: the declared property, or a week.

    The property is ``delta.deletedFileRetentionDuration``.
    """
    return _hours(state, "delta.deletedFileRetentionDuration") or _WEEK


def log_hours(state: TableState) -> float:
    """Return the retention of the log in hours: the declared property, or 30 days.

    The property is ``delta.logRetentionDuration``.
    """
    return _hours(state, "delta.logRetentionDuration") or _MONTH


def _hours(state: TableState, name: str) -> float:
    durations = re.findall(r"(\d+) (\w+?)s?\b", state.properties.get(name, ""))
    return sum(int(number) * _HOURS.get(unit, _WEEK) for number, unit in durations)


def remove_unneeded(table: Table, *, cutoff: datetime, provenance: Provenance) -> WriteResult:
    """Delete the files that no milestone and no version since ``cutoff`` needs, with a note in the log.

    Parquet files, deletion vectors and remains of a stage go that were last written before ``cutoff``. Claimed stages
    stay whatever their age, and so does every file of a table that shows versions. Runs under the table's lock: no
    statement is in the middle of a write.
    """
    with table_lock(table.store) as held:
        claimed = claimed_stages(table.store)
        state = table.ledger.state()
        if state.closed:
            kept = dict.fromkeys(("files_removed", "bytes_removed", "stages_in_use"), 0)
            reason = "its versions are removed by an expiry only"
            return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason, figures=kept)
        require_open(table.name, state)
        found = list(unneeded(table.store, state, _needed(table.ledger, state, cutoff), cutoff, claimed))
        freed = sum(file.size_bytes for file in found)
        for first in range(0, len(found), _AT_ONCE):
            held.confirm()
            table.store.delete(*[file.path for file in found[first : first + _AT_ONCE]], tidy=True)
        data = sum(file.path.endswith((".parquet", ".bin")) for file in found)
        figures = {"files_removed": data, "bytes_removed": freed, "stages_in_use": len(claimed)}
        if not found:
            reason = f"nothing to remove: every file is needed by a version since {cutoff.isoformat()}"
            return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason, figures=figures)
        record = CommitRecord.of(provenance, content=f"vacuum up to {cutoff.isoformat()}", figures=figures)
        info = commits.info(record, "VACUUM END", state, {"numDeletedFiles": data})
        version = _noted(table, info)
    reason = f"{data} files ({freed} bytes) that no version since {cutoff.isoformat()} needs were removed"
    return WriteResult(table.name, version, applied=True, changed=False, reason=reason, figures=figures)


def _noted(table: Table, info: dict[str, Any]) -> int:
    """Commit a note to the log after the newest version, whoever wrote that; return the new version."""
    for last in AGAIN.tries():
        before = table.ledger.state()
        info["commitInfo"].update(commits.in_commit_time(table.store, before))
        try:
            commits.write(table.store, before.version + 1, [info])
            break
        except Conflict:
            if last:
                raise
    return before.version + 1


def _needed(ledger: Ledger, state: TableState, cutoff: datetime) -> Callable[[str], bool]:
    """Return a test for a file of a milestone, or of a version current at ``cutoff`` or later.

    A deletion vector is needed as its data file is; every vector is, where the log does not tell.
    """
    needed = [file["path"] for file in state.files()]
    vectors = ledger.vector_files()
    for commit in ledger.newest_first():
        if commit.timestamp < cutoff:
            break
        needed += commit.files_past
    for version in {*milestones(ledger).values()}:
        # Of a version that nobody can read any more, because another engine cleaned up the log, nothing is kept.
        with suppress(ContractError, NotReady):
            needed += [file["path"] for file in ledger.state(version).files()]
            needed += [path for add in ledger.added_files(version).values() if (path := vector_file(add))]
    addresses = {ledger.store.address_of(unquote(path)) for path in needed}
    addresses |= {ledger.store.address_of(path) for path in vectors or ()}

    def is_needed(path: str) -> bool:
        unknown = vectors is None and VECTOR_FILE.fullmatch(path.rpartition("/")[2]) is not None
        return unknown or ledger.store.address_of(path) in addresses

    return is_needed


def unneeded(
    store: Store, state: TableState, needed: Callable[[str], bool], cutoff: datetime, claimed: Collection[str]
) -> Iterator[Entry]:
    """List the unneeded files of data, dead stages and drafts, last written before ``cutoff``."""
    for file in _candidates(store, state, claimed):
        folder, _, name = file.path.rpartition("/")
        # A checksum file goes with the file it is about.
        subject = name[1:-4] if name.startswith(".") and name.endswith(".crc") else name
        dead_claim = (claim := _CLAIM.fullmatch(name)) and claim[1] not in claimed
        data = (subject.endswith(".parquet") and not subject.startswith((".", "_"))) or VECTOR_FILE.fullmatch(subject)
        if not (data or folder.startswith(STAGE) or dead_claim or _DRAFT.fullmatch(name)):
            continue
        if needed(f"{folder}/{subject}" if folder else subject):
            continue
        if file.modified_ns < cutoff.timestamp() * 1_000_000_000:
            yield file


def _candidates(store: Store, state: TableState, claimed: Collection[str]) -> Iterator[Entry]:
    """List the files in the table's folder and in subfolders that may hold data."""
    for file in store.files():
        folder, _, name = file.path.partition("/")
        if not name or (folder not in claimed and _holds_data(folder, state)):
            yield file


def claimed_stages(store: Store) -> set[str]:
    """List the stages claimed by a running write."""
    claims = [(file.path, match[1]) for file in store.files(deep=False) if (match := _CLAIM.fullmatch(file.path))]
    return {stage for name, stage in claims if store.is_claimed(name)}


def _holds_data(folder: str, state: TableState) -> bool:
    """Return whether a folder may hold data files: any folder but the log and hidden folders."""
    partitioned = any(folder.startswith(f"{column}=") for column in state.partition_columns)
    return partitioned or folder == "_change_data" or not folder.startswith(("_", "."))
