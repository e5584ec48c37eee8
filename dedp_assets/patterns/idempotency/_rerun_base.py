"""Base snapshots of executions: newest snapshot for a first run, preceding snapshot for a rerun.

An execution of the past begins with the rows that were there before it; those after it are taken back by the same
commit, and have to follow.
"""

from __future__ import annotations

from collections.abc import Collection

from dedp_assets.patterns.core.errors import Conflict, ContractError, TransactionReused
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta import (
    BaseSnapshot,
    Decision,
    FindBase,
    Ledger,
    TableHandle,
    TableState,
    missing_files,
    other_rows,
    same_write,
    transaction_id,
)
from dedp_assets.patterns.idempotency._executions import EXECUTION, Execution, Executions, ExecutionStart, executions_of

__all__ = ["base_before"]


def base_before(due: Collection[str]) -> FindBase:
    """Return the function that finds the base snapshot of an execution.

    Args:
        due: executions that have to be in the rows before the execution; later ones do not count.
    """
    return lambda table, record: _base(table, record, due)


def _base(table: TableHandle, record: CommitRecord, due: Collection[str]) -> BaseSnapshot:
    """Find the snapshot that an execution starts from, and run the idempotency check.

    Raises:
        Conflict: if a newer upstream version was applied.
        ContractError: if the rows before the execution are gone.
        NotReady: if an execution before it is not in the rows.
        TransactionReused: if the same inputs were applied before with other rows.
    """
    state = table.ledger.state()
    ((_, key),) = record.partition.items()
    executions = executions_of(table.ledger, until=state.version).now
    decision = _decide(table.ledger, state, record, executions.find(key))
    if decision.applied:
        return BaseSnapshot(state, decision)
    start = executions.start(table.name, key, due)
    if start.base is None:
        return BaseSnapshot(state, decision, notes=_note(start, key, state.version))
    before = _version(table, executions, start.base, key)
    follow = f"; {', '.join(start.pending)} have to follow" if start.pending else ""
    remark = f", on the rows of version {start.base}{follow}"
    return BaseSnapshot(state, decision, before, notes=_note(start, key, start.base), remark=remark)


def _note(start: ExecutionStart, key: str, base: int) -> dict[str, object]:
    """Build the note of an execution: key, base version, pending executions."""
    return {EXECUTION: {"key": key, "base": base, "after": start.after, "pending": list(start.pending)}}


def _decide(ledger: Ledger, state: TableState, record: CommitRecord, standing: Execution | None) -> Decision:
    generation = state.generation(ledger.name)
    app_id = transaction_id(ledger.name, record.partition, generation, "runs" if record.sequence is None else "")
    sequence = (state.transaction(app_id) or 0) + 1 if record.sequence is None else record.sequence
    if standing is None:
        return Decision(app_id, sequence)
    commit = ledger.commit(standing.version)
    before = commit.record
    if before and same_write(before, record):
        if before.same_content(record):
            return Decision(app_id, sequence, applied=commit)
        if not record.replay:
            raise TransactionReused(other_rows(ledger.name, before, record))
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
    return table.ledger.identity(version) is not None and not missing_files(table.store, table.ledger.state(version))
