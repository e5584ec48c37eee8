"""Idempotency check: a write is new, a retry of an applied write, or a retry with other rows.

A commit carries a transaction: ``table/partition/generation`` at the upstream version it applies. Under the table's
lock the ledger is asked about a write before it happens: it is new, a retry of one already applied, or a retry that
came back with other data.

Writes that replace rows at an upstream version, appends, and writes that name no upstream version keep cursors of their
own: no kind uses up a number that another kind needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deltalake.transaction import AddAction

from dedp_assets.patterns.core.errors import Conflict, ContractError, TransactionReused
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.core.results import RowCounts, WriteResult
from dedp_assets.patterns.delta.log.commit_info import Commit, is_append
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.transactions import Cursor, transaction_id

__all__ = ["Decision", "already_applied", "channel_of", "decide", "other_rows", "require_channel", "same_write"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of the idempotency check of a write.

    Attributes:
        app_id: transaction id to commit under.
        sequence: transaction version to commit.
        applied: the commit that applied this very write before, if one did.
        same_rows: whether the partition holds exactly these rows already.
        rewrite: whether the partition was written before.
        repair: whether these are the rows that the partition holds, and files of it are lost.
    """

    app_id: str
    sequence: int
    applied: Commit | None = None
    same_rows: bool = False
    rewrite: bool = False
    repair: bool = False


def decide(
    ledger: Ledger,
    state: TableState,
    record: CommitRecord,
    *,
    append: bool = False,
    after: int | None = None,
    lost: bool = False,
) -> Decision:
    """Decide whether ``record``'s write is new.

    Args:
        ledger: the table's log.
        state: the table as it is.
        record: what the commit will say.
        append: whether the present rows stay.
        after: upstream version that has to be the last one applied (0: none yet); ``None`` asks for no version.
        lost: whether data files of the partition are gone, so that what was applied before has to be written again.

    Raises:
        TransactionReused: if this write was already applied with other rows.
        Conflict: if a newer upstream version was applied already, so that this run's rows are stale.
    """
    kind: Cursor = "appends" if append else "runs" if record.sequence is None else ""
    app_id = transaction_id(ledger.name, record.partition, state.generation(ledger.name), kind)
    last = state.transaction(app_id)
    latest = (
        _append_of(ledger, app_id, record, last) if append else ledger.latest(record.partition, until=state.version)
    )
    before = _counterpart(latest, record, append=append)
    sequence = (last or 0) + 1 if record.sequence is None else record.sequence
    known = last is not None or state.written(ledger.name, record.partition)
    if known and before is not None and same_write(before, record):
        same = before.same_content(record)
        if same and not (lost and not append):
            return Decision(app_id, sequence, applied=latest)
        if not same and (append or not record.replay):
            raise TransactionReused(other_rows(ledger.name, before, record))
    _require_current(ledger, record, last, sequence, after)
    if latest and not append and record.sequence is None and _began_before(record, latest):
        raise Conflict(
            f"{ledger.name} {slice_name(record.partition)} was written at version {latest.version} by a run that "
            "started after this one, whose rows may be older: run it again"
        )
    if sequence == last and append:
        raise TransactionReused(f"{ledger.name} already applied version {sequence} under {app_id}, with other rows")
    if sequence == last:
        # Other code or inputs at the same upstream version are a deliberate replay: a transaction of its own.
        app_id = f"{app_id}/{record.code_version}"
        replayed = state.transaction(app_id)
        sequence = sequence if replayed is None else max(sequence, replayed + 1)
    same = before is not None and before.same_content(record) and not append
    return Decision(app_id, sequence, same_rows=same and not lost, rewrite=latest is not None, repair=same and lost)


def channel_of(ledger: Ledger, state: TableState, partition: Mapping[str, str]) -> str | None:
    """Find the channel of the rows in ``partition``; ``None`` if empty or not recorded.

    Only commits that brought rows tell: deleting some of them afterwards changes no channel.
    """
    if not state.holds(partition):
        return None
    last = ledger.last(lambda c: c.record and "stage" in c.record.notes and c.changes(partition))
    return last.record.channel if last and last.record else None


def already_applied(table: str, record: CommitRecord, commit: Commit) -> WriteResult:
    """Build the result of a retry whose write is in the table already."""
    before = commit.record or record
    return WriteResult(
        table=table,
        version=commit.version,
        applied=False,
        changed=False,
        reason=f"already applied at version {commit.version} by run {before.run_id}: nothing to do",
        rows=RowCounts(**before.rows),
        partition=record.partition,
        figures=before.figures,
    )


def require_channel(
    ledger: Ledger, state: TableState, record: CommitRecord, column: str, adds: Iterable[AddAction]
) -> None:
    """Refuse rows for a value of ``column`` that holds rows of another channel.

    An empty ``column`` allows any channel.

    Raises:
        ContractError: names the value, and both channels.
    """
    if not column:
        return
    owned, ours = record.partition.get(column), record.channel
    staged = {value for add in adds if (value := add.partition_values[column])}
    for value in [owned] if owned else sorted(staged):
        theirs = channel_of(ledger, state, {column: value})
        if theirs not in (None, ours):
            raise ContractError(
                f"{ledger.name} {column}={value} holds rows that came by {theirs or 'files'}: nothing by "
                f"{ours or 'files'} was published. Empty it by {theirs or 'files'} first, or deliver under another "
                f"{column}"
            )


def _require_current(ledger: Ledger, record: CommitRecord, last: int | None, sequence: int, after: int | None) -> None:
    """Refuse rows of a stale run: another upstream version was applied since the read."""
    if after is not None and after != (last or 0):
        raise Conflict(
            f"{ledger.name} {slice_name(record.partition)} applied upstream version {last or 0} meanwhile, this run "
            f"went on from version {after}: run it again"
        )
    if last is not None and sequence < last:
        raise Conflict(
            f"{ledger.name} {slice_name(record.partition)} already applied upstream version {last}, this run read "
            f"version {sequence} and is stale: run it on version {last} or a newer one"
        )


def _counterpart(latest: Commit | None, record: CommitRecord, *, append: bool) -> CommitRecord | None:
    """Return the record of the partition's newest commit; ``None`` for another kind of write."""
    if latest is None or latest.record is None or latest.record.partition != record.partition:
        return None
    return latest.record if append or not is_append(latest) else None


def _began_before(record: CommitRecord, latest: Commit) -> bool:
    """Return whether the run of ``record`` started before the run that wrote the rows to be replaced."""
    theirs = latest.record.at if latest.record and not is_append(latest) else ""
    return bool(record.at) and record.at < theirs


def _append_of(ledger: Ledger, app_id: str, record: CommitRecord, last: int | None) -> Commit | None:
    """Find the commit under ``app_id`` that appended the upstream version of ``record``.

    Appends move their cursor upwards only, so of a version above the last one nothing has to be read, and a retry reads
    back no further than to where its version would be.
    """
    if last is None or record.sequence is None or record.sequence > last:
        return None
    moves = ledger.moved(app_id)
    found = next((commit for commit in moves if commit.transactions[app_id] <= record.sequence), None)
    return found if found and found.transactions[app_id] == record.sequence else None


def same_write(before: CommitRecord, record: CommitRecord) -> bool:
    """Return whether two records describe the same write: same inputs, same code version."""
    identified = bool(record.inputs) or record.sequence is not None
    same_code = before.code_version == record.code_version
    return identified and same_code and before.inputs == record.inputs and record.sequence in (None, before.sequence)


def other_rows(table: str, before: CommitRecord, record: CommitRecord) -> str:
    """Describe a retry of the same inputs and code version with other rows, for the error message."""
    return (
        f"{table} {slice_name(record.partition)}: code version {record.code_version} read the same inputs before and "
        f"came back with other rows ({before.fingerprint} then, {record.fingerprint} now). Something the inputs do not "
        "name has changed: name it in the inputs, or raise the code version or ask for a replay to publish these rows"
    )
