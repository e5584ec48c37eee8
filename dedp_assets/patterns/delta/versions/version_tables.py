"""Versions: complete, write-once tables in the folder of the table that shows a version.

A version of the table ``gold/top_pages`` lies at ``gold/top_pages/.table-versions/<name>``, a Delta table of its own
that is written and audited as any other. Then it is closed: its protocol names a writer feature that no engine has
(:data:`CLOSED`), so each of them reads it and refuses to change it, its properties included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import count
from pathlib import PurePosixPath
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.delta.commit.commits import Operation, commit_actions, read_actions
from dedp_assets.patterns.delta.commit.file_exchange import serves
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.closing import protocol_of
from dedp_assets.patterns.delta.snapshots.lost_files import lost_files, lost_files_message
from dedp_assets.patterns.delta.storage.coordination import require_lock, table_lock
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.delta.storage.locations import require_vacant
from dedp_assets.patterns.delta.tables import Table

__all__ = [
    "Content",
    "close",
    "content_of",
    "folder_of",
    "load_of",
    "names",
    "new_version",
    "require_closable",
    "version_of",
]

_FOLDER, _FORMER = ".table-versions", ".versions"
"""Folder of the versions, whose name begins with a dot, so that no vacuum looks for unneeded files there; and the one
of tables that were made before. SeaweedFS keeps versions of objects under such a name, and lists nothing there."""


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a version by the log: load record, metadata, add actions.

    Attributes:
        load: the record of the write that filled it.
        metadata: its columns, partition columns and properties.
        files: the actions that add its data files, with paths below the version.
    """

    load: CommitRecord
    metadata: Mapping[str, Any]
    files: Sequence[Mapping[str, Any]]


def new_version(target: Table, provenance: Provenance) -> Table:
    """Open a new version of ``target``, under a never used name from run id and attempt.

    Raises:
        ConfigError: if ``target`` holds rows of its own, or its store cannot tell two writers apart.
    """
    require_lock(target.store)
    _require_showing(target)
    load = {"asset": provenance.asset, "run_id": provenance.run_id, "inputs": provenance.inputs}
    stem = re.sub(r"[^A-Za-z0-9_-]", "-", provenance.run_id)[:100] or "run"
    for attempt in count(1):
        with suppress(FileExistsError):
            file = f"{folder_of(target)}/{stem}-{attempt}.json"
            target.store.put_if_absent(file, json.dumps(load, default=str).encode())
            break
    return version_of(target, f"{stem}-{attempt}")


def folder_of(target: Table) -> str:
    """Return the folder of a table's versions, below the table."""
    store = target.store
    return _FORMER if isinstance(store, LocalStore) and store.has_files(_FORMER) else _FOLDER


def version_of(target: Table, name: str) -> Table:
    """Open the table of a version."""
    folder = f"{folder_of(target)}/{name}"
    return Table(
        replace(target.spec, name=f"{target.name}/{folder}"), target.store.within(folder), lambda: target.session
    )


def names(target: Table) -> dict[str, datetime]:
    """List the versions with any stored file, loaded or not: name -> start of the load."""
    folder = folder_of(target)
    given = [file for file in target.store.files(folder, deep=False) if file.path.endswith(".json")]
    since = {
        PurePosixPath(file.path).stem: datetime.fromtimestamp(file.modified_ns / 1e9, timezone.utc) for file in given
    }
    return {name: at for name, at in since.items() if target.store.list(f"{folder}/{name}")}


def load_of(version: Table) -> CommitRecord | None:
    """Find the record of the write that filled a version; ``None`` for an unfilled version."""
    last = version.ledger.last(lambda commit: commit.record and "stage" in commit.record.notes)
    return last.record if last else None


def require_closable(name: str, state: TableState) -> None:
    """Refuse a version with table features that only Spark can write.

    Raises:
        ConfigError: if only Spark can write it.
    """
    if not serves(state) or state.protocol["minWriterVersion"] in (5, 6):
        raise ConfigError(
            f"{name} has features that only Spark writes ({', '.join(sorted(state.features)) or 'mapped columns'}): "
            "declare it without them to keep it in versions"
        )


def close(version: Table) -> None:
    """Close a version to all writers; a closed version stays unchanged.

    Raises:
        ConfigError: for a table that only Spark can write: its files cannot be shown by another one.
    """
    with table_lock(version.store):
        state = version.ledger.state()
        if state.closed:
            return
        require_closable(version.name, state)
        note, closing = "closed: this version is written once", Operation("UPGRADE PROTOCOL")
        commit_actions(version.store, state, [{"protocol": protocol_of(state)}], record=note, operation=closing)


def content_of(version: Table) -> Content:
    """Read the content of a version, and check that no data file is lost.

    Raises:
        NotReady: if there is no such version, or it was not loaded to the end.
        ContractError: if files of it are lost.
    """
    load = load_of(version)
    if load is None:
        raise NotReady(f"{version.name} was never loaded to the end: load a version, or name one that stands")
    state = version.ledger.state()
    if lost := lost_files(version.store, state):
        raise ContractError(
            f"{lost_files_message(version.name, lost)}: name another version, or put them back from a backup"
        )
    if any("deletionVector" in file for file in state.files()):
        raise ContractError(
            f"{version.name} has rows that deletion vectors delete, and a version is shown by its files: compact the "
            "version with max_deleted_share=0 before"
        )
    actions = [action for number in range(state.version + 1) for action in read_actions(version.store, number)]
    active = {file["path"] for file in state.files()}
    return Content(
        load=load,
        metadata=[action["metaData"] for action in actions if "metaData" in action][-1],
        files=[action["add"] for action in actions if "add" in action and action["add"]["path"] in active],
    )


def _require_showing(target: Table) -> None:
    """Refuse versions in a folder with rows of an ordinary table or with foreign files."""
    if not target.ledger.exists():
        require_vacant(target.name, target.store)
    elif not target.ledger.state().closed:
        raise ConfigError(
            f"{target.name} is a table with rows of its own, which a switch would hide: keep versions under another "
            "name, or move it away"
        )
