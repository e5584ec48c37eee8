"""Base snapshot of a change: the newest or, for a batch that is run again, an earlier snapshot.

An execution of the past begins with the rows that were there before it. The table is not rewound first: one commit
takes the files of later versions out, brings those of the former version back, and exchanges what the execution
changes. So no reader ever sees the table without the execution, and nothing is half done if the run dies.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltalake.transaction import AddAction

from dedp_assets.patterns.core.errors import Conflict, ContractError, TransactionReused
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.commit import idempotency
from dedp_assets.patterns.delta.commit.idempotency import Decision
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.log.transactions import Cursor, transaction_id
from dedp_assets.patterns.delta.rows.executions import EXECUTION, Execution, Executions, Start, executions_of
from dedp_assets.patterns.delta.snapshots.reading import missing

__all__ = ["Ground", "ground_of"]


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


@dataclass(frozen=True, slots=True)
class Ground:
    """Base snapshot of a change, with the result of the idempotency check.

    Attributes:
        state: the table as it is, which the commit follows.
        rows: the table with the files whose rows are changed.
        decision: transaction id and version, or the commit that made the change before.
        start: where an execution starts; ``None`` for any other change.
        key: the execution.
    """

    state: TableState
    rows: TableState
    decision: Decision
    start: Start | None = None
    key: str = ""

    @property
    def base(self) -> int | None:
        """The earlier version that the change starts from; ``None`` for the newest version."""
        return self.start.base if self.start else None

    @property
    def remark(self) -> str:
        """Suffix of the result's reason: base version and batches still to re-run."""
        if self.start is None or self.start.base is None:
            return ""
        follow = f"; {', '.join(self.start.pending)} have to follow" if self.start.pending else ""
        return f", on the rows of version {self.start.base}{follow}"

    def noted(self, record: CommitRecord) -> CommitRecord:
        """Return the record with a note of the execution: key, base version, pending executions."""
        if self.start is None:
            return record
        base = self.state.version if self.start.base is None else self.start.base
        note = {"key": self.key, "base": base, "after": self.start.after, "pending": list(self.start.pending)}
        return replace(record, notes={**record.notes, EXECUTION: note})

    def exchanged(
        self, ledger: Ledger, rewritten: Sequence[KeyedFile]
    ) -> tuple[Sequence[KeyedFile], Sequence[AddAction]]:
        """List the files to remove, and the files of the earlier version to add again."""
        if self.base is None:
            return rewritten, ()
        here = {file["path"] for file, _ in self.state.keyed_files()}
        there = {file["path"] for file, _ in self.rows.keyed_files()}
        gone = {file["path"] for file, _ in rewritten}
        removed = [pair for pair in self.state.keyed_files() if pair[0]["path"] in (here - there) | gone]
        back = [pair for pair in self.rows.keyed_files() if pair[0]["path"] in there - here - gone]
        described = ledger.added({file["path"] for file, _ in back}, until=self.base)
        return removed, [_add(file, key, described.get(file["path"], {})) for file, key in back]


def ground_of(table: TableHandle, record: CommitRecord, due: Collection[str] | None) -> Ground:
    """Find the base snapshot of a change, and run the idempotency check.

    Args:
        table: the table.
        record: the record of the change, as far as it is known.
        due: executions that have to be in the rows before it; ``None`` if their order is no matter.

    Raises:
        Conflict: if a newer upstream version was applied.
        ContractError: if the rows before the execution are gone.
        NotReady: if an execution before it is not in the rows.
        TransactionReused: if the same inputs were applied before with other rows.
    """
    state = table.ledger.state()
    if due is None:
        return Ground(state, state, idempotency.decide(table.ledger, state, record))
    ((_, key),) = record.partition.items()
    executions = executions_of(table.ledger, until=state.version).now
    decision = _decide(table.ledger, state, record, executions.find(key))
    if decision.applied:
        return Ground(state, state, decision)
    start = executions.start(table.name, key, due)
    if start.base is None:
        return Ground(state, state, decision, start, key)
    before = _version(table, executions, start.base, key)
    return Ground(state, _Former(state.version, state.opened, state.declared, before), decision, start, key)


def _decide(ledger: Ledger, state: TableState, record: CommitRecord, standing: Execution | None) -> Decision:
    kind: Cursor = "runs" if record.sequence is None else ""
    app_id = transaction_id(ledger.name, record.partition, state.generation(ledger.name), kind)
    sequence = (state.transaction(app_id) or 0) + 1 if record.sequence is None else record.sequence
    if standing is None:
        return Decision(app_id, sequence)
    commit = ledger.commit(standing.version)
    before = commit.record
    if before and idempotency.same_write(before, record):
        if before.fingerprint == record.fingerprint:
            return Decision(app_id, sequence, applied=commit)
        if not record.replay:
            raise TransactionReused(idempotency.other_rows(ledger.name, before, record))
    if None not in (standing.applied, record.sequence) and record.sequence < standing.applied:  # type: ignore[operator]
        raise Conflict(
            f"{ledger.name} {standing.key} already applied upstream version {standing.applied}, this run read version "
            f"{record.sequence} and is stale: run it on version {standing.applied} or a newer one"
        )
    return Decision(app_id, sequence)


def _version(table: TableHandle, executions: Executions, version: int, key: str) -> TableState:
    """Read the state of an earlier version, if all data files exist.

    Raises:
        ContractError: names the earliest execution that can be run again.
    """
    if _is_there(table, version):
        return table.ledger.state(version)
    possible = [each.key for each in executions.standing if _is_there(table, each.base)]
    next_ = next((other for other in possible if other > key), "the next one")
    rebuild = f", or all from {possible[0]} on" if possible and possible[0] < key else ""
    raise ContractError(
        f"{table.name}: {key} cannot be run again, because a vacuum removed files of version {version}, the rows "
        f"before it; nothing was changed. The earliest execution after it that can be run again is {next_}{rebuild}. "
        "What shall be restorable for longer needs a longer retention"
    )


def _is_there(table: TableHandle, version: int) -> bool:
    return table.ledger.identity(version) is not None and not missing(table.store, table.ledger.state(version))


def _add(file: Mapping[str, Any], key: Partition, described: Mapping[str, Any]) -> AddAction:
    rows = {} if file.get("num_records") is None else {"numRecords": file["num_records"]}
    return AddAction(
        path=file["path"],
        size=file["size_bytes"],
        partition_values=dict(key),
        modification_time=described.get("modificationTime", 0),
        data_change=True,
        stats=described.get("stats") or json.dumps(rows),
    )
