"""Base snapshot of a change: the newest snapshot, or an earlier snapshot brought back by the commit.

The table is not rewound for a change that starts from an earlier snapshot: one commit takes the files of later versions
out, brings those of the earlier version back, and exchanges what the change rewrites. So no reader ever sees the table
without the change, and nothing is half done if the run dies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltalake.transaction import AddAction

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.commit import idempotency
from dedp_assets.patterns.delta.commit.file_exchange import StoredFile
from dedp_assets.patterns.delta.commit.idempotency import Decision
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.log.vectors import file_identity

__all__ = ["BaseSnapshot", "FindBase", "newest_snapshot", "stored_file"]


@dataclass(frozen=True)
class _Former(TableState):
    """A table state with the files of an earlier version under the present declaration."""

    before: TableState | None = field(default=None, repr=False)

    def files(self) -> Sequence[Mapping[str, Any]]:
        """List the files of the earlier version."""
        return self.before.files() if self.before else ()

    def keyed_files(self) -> Sequence[KeyedFile]:
        """List the files of the earlier version, each paired with the file's partition."""
        return self.before.keyed_files() if self.before else ()


@dataclass(frozen=True)
class BaseSnapshot:
    """Snapshot whose rows a change rewrites, with the result of the idempotency check.

    Attributes:
        state: the table as it is, which the commit follows.
        decision: transaction id and version, or the commit that made the change before.
        before: the earlier snapshot that the change starts from; ``None`` for the newest one.
        notes: notes of the commit record about the base.
        remark: suffix of the result's reason.
    """

    state: TableState
    decision: Decision
    before: TableState | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""

    @cached_property
    def rows(self) -> TableState:
        """The table with the files whose rows are changed."""
        now = self.state
        if self.before is None:
            return now
        return _Former(now.version, now.opened, now.declared, now.added, before=self.before)

    @property
    def version(self) -> int | None:
        """The earlier version that the change starts from; ``None`` for the newest version."""
        return self.before.version if self.before else None

    def file_diff(
        self, ledger: Ledger, rewritten: Sequence[KeyedFile]
    ) -> tuple[Sequence[KeyedFile], Sequence[AddAction]]:
        """List the files to remove, and the files of the earlier version to add again."""
        if self.before is None:
            return rewritten, ()
        newest, former = self.state.file_identities(), self.before.file_identities()
        gone = {file_identity(file) for file, _ in rewritten}
        removed = [pair for pair in self.state.keyed_files() if file_identity(pair[0]) in (newest - former) | gone]
        back = [pair for pair in self.before.keyed_files() if file_identity(pair[0]) in former - newest - gone]
        actions = ledger.added({file["path"] for file, _ in back}, until=self.before.version)
        return removed, [stored_file(file, key, actions.get(file["path"], {})) for file, key in back]


FindBase = Callable[[TableHandle, CommitRecord], BaseSnapshot]
"""Finds the base snapshot of a change by the table and the change's record, and runs the idempotency check."""


def newest_snapshot(table: TableHandle, record: CommitRecord) -> BaseSnapshot:
    """Return the newest snapshot of the table as the base of a change.

    Raises:
        Conflict: if a newer upstream version was applied.
        TransactionReused: if the same inputs were applied before with other rows.
    """
    state = table.ledger.state()
    return BaseSnapshot(state, idempotency.decide(table.ledger, state, record))


def stored_file(file: Mapping[str, Any], key: Partition, action: Mapping[str, Any]) -> StoredFile:
    """Describe an active file to be added again, as the add action in the log does.

    Args:
        file: the file.
        key: the partition of the file.
        action: the file's add action in the log; empty if the log does not hold it any more.
    """
    vector = file.get("deletionVector", {})
    rows = file.get("num_records")
    counted = {} if rows is None else {"numRecords": rows + vector.get("cardinality", 0)}
    return StoredFile(
        path=file["path"],
        size=file["size_bytes"],
        partition_values=dict(key),
        modification_time=action.get("modificationTime", 0),
        data_change=True,
        stats=action.get("stats") or json.dumps(counted),
        further={name: file[name] for name in ("deletionVector",) if name in file} | _tags(action),
    )


def _tags(action: Mapping[str, Any]) -> dict[str, Any]:
    return {name: action[name] for name in ("tags", "clusteringProvider") if action.get(name)}
