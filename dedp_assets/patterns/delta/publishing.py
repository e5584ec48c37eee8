"""Publishing: how a write becomes one commit, exactly once.

A commit carries a transaction: ``table/partition/generation`` at the upstream version it applies. Under the table's
lock the ledger is asked about a write before it happens: it is new, a retry of one already applied, or a retry that
came back with other data.

Writes that replace rows at an upstream version, appends, and writes that name no upstream version keep cursors of their
own: no kind uses up a number that another kind needs.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.errors import Conflict, ContractError, TransactionReused
from dedp_assets.patterns.core.observing import SPARK_ERRORS
from dedp_assets.patterns.core.partitions import equals
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.core.results import RowCounts, WriteResult
from dedp_assets.patterns.delta import commits
from dedp_assets.patterns.delta.definition import require_replaceable
from dedp_assets.patterns.delta.log import (
    Commit,
    Cursor,
    Ledger,
    Partition,
    TableState,
    generation_id,
    is_append,
    transaction_id,
)
from dedp_assets.patterns.delta.reading import lies_outside
from dedp_assets.patterns.delta.stages import Stage
from dedp_assets.patterns.delta.store import Store
from dedp_assets.patterns.delta.verification import FilesGone, require_files

__all__ = [
    "SPARK_ERRORS",
    "Decision",
    "Told",
    "already_applied",
    "attempts",
    "channel_of",
    "decide",
    "commit_by_spark",
    "commit_files",
    "commit_transactions",
    "exchange_files",
    "is_conflict",
    "only_spark_changes",
    "other_rows",
    "raise_generation",
    "require_channel",
    "require_staged",
    "same_write",
    "serves",
    "sql_settings",
    "violation",
]

_CONFLICT = re.compile(
    r"DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)"
    r"|(Concurrent\w+|MetadataChanged|ProtocolChanged|FileAlreadyExists)Exception"
)
_VIOLATION = re.compile(r"(CHECK constraint|NOT NULL constraint)[^\n]*")
_COMPUTED = re.compile(r"delta\.generationExpression|__CHAR_VARCHAR_TYPE_STRING\W+char\(")
_SERVED = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "variantType",
}


@dataclass(frozen=True, slots=True)
class Told:
    """The words of a table's history about a commit: Delta's name of the operation, its parameters and figures."""

    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Decision:
    """The ledger's answer about a write before it happens.

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
        same = before.fingerprint == record.fingerprint
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
    same = before is not None and before.fingerprint == record.fingerprint and not append
    return Decision(app_id, sequence, same_rows=same and not lost, rewrite=latest is not None, repair=same and lost)


def channel_of(ledger: Ledger, state: TableState, partition: Mapping[str, str]) -> str | None:
    """Find the channel that the rows of ``partition`` came by; ``None`` if it has no rows, or nobody recorded it.

    Only commits that brought rows tell: deleting some of them afterwards changes no channel.
    """
    if not state.holds(partition):
        return None
    records = (commit.record for commit in ledger.history() if commit.changes(partition))
    return next((record.channel for record in records if record and "stage" in record.notes), None)


def already_applied(table: str, record: CommitRecord, commit: Commit) -> WriteResult:
    """Make the result of a retry whose write is in the table already."""
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
    """Refuse rows for a value of ``column`` whose rows came by another channel; an empty ``column`` allows any.

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


def serves(state: TableState) -> bool:
    """Tell whether the metadata-only transaction can serve the table; if not, Spark's own writer has to."""
    return not state.mapped and not state.identities and state.features <= _SERVED


def only_spark_changes(state: TableState) -> str:
    """Say why rows of the table can be changed by Delta's own statements only; empty if they need not be."""
    if not serves(state):
        return "features that only Spark writes"
    if state.properties.get("delta.enableChangeDataFeed", "false").lower() == "true":
        return "a change feed"
    if _COMPUTED.search(json.dumps(list(state.columns.values()))):
        return "columns whose values Spark computes or pads"
    if any(lies_outside(file["path"]) for file in state.files()):
        return "files outside of its folder"
    return ""


def commit_files(
    state: TableState,
    stage: Stage,
    record: CommitRecord,
    decision: Decision,
    *,
    append: bool = False,
    only: Collection[Partition] | None = None,
) -> None:
    """Commit old files out and staged files in, transaction and record with them, without touching a row.

    Args:
        state: the table as it was when the write was decided on.
        stage: the staged files, which are not committed if the partition holds the same rows already.
        record: goes into the commit as its user metadata.
        decision: transaction id and version.
        append: keep the partition's present files.
        only: replace just these partitions among the ones the write owns.

    Raises:
        Conflict: if another writer changed what this commit replaces.
    """
    adds: Sequence[AddAction] = stage.adds
    gone = [] if append else [f for f in state.keyed_files() if record.partition.items() <= dict(f[1]).items()]
    if decision.same_rows:
        adds, gone = (), []
    elif only is not None and not decision.repair:
        adds = [add for add in adds if _key(add.partition_values) in only]
        gone = [(file, key) for file, key in gone if key in only]
    by = json.dumps(list(state.partition_columns))
    told = Told(
        "WRITE",
        {"mode": "Append" if append else "Overwrite", "partitionBy": by},
        {
            "numFiles": len(adds),
            "numOutputRows": record.rows.get("written", 0),
            "numOutputBytes": sum(add.size for add in adds),
        },
    )
    # A repair is like a compaction: other files, the same rows, so nobody downstream has to do anything.
    change = not decision.repair
    exchange_files(
        stage.store.above(), state, adds, gone, record=record, decision=decision, told=told, data_change=change
    )


def require_staged(store: Store, adds: Iterable[AddAction]) -> None:
    """Look at files once more that a commit is about to name; the caller holds the table's lock.

    Raises:
        FilesGone: if one is not there, or is cut short.
    """
    require_files(store, [(unquote(add.path), add.size) for add in adds])


def exchange_files(
    store: Store,
    state: TableState,
    adds: Iterable[AddAction],
    gone: Iterable[tuple[Mapping[str, Any], Partition]],
    *,
    record: CommitRecord,
    decision: Decision,
    told: Told,
    data_change: bool = True,
) -> None:
    """Commit files in and files out, transaction and record with them, as the version after ``state``.

    Args:
        store: the table's.
        state: the table as it was when the write was decided on.
        adds: files that become part of the table, with paths as the log writes them.
        gone: files of ``state`` that stop being part of it, as :meth:`TableState.keyed_files` gives them.
        record: goes into the commit as its user metadata.
        decision: transaction id and version.
        told: what the table's history says of the commit.
        data_change: whether readers of changes have to look at what goes and what comes.

    Raises:
        Conflict: if another writer committed meanwhile, or files to add are gone (:class:`FilesGone`).
        ConfigError: if rows would be taken from a table that only takes appends.
    """
    now, adds, removed = commits.now_ms(), list(adds), list(gone)
    require_staged(store, adds)
    if removed:
        require_replaceable(store.name, state)
    content: list[dict[str, Any]] = [
        commits.info(record, told.operation, state, told.metrics, told.parameters, appends=not removed),
        {"txn": {"appId": decision.app_id, "version": decision.sequence, "lastUpdated": now}},
    ]
    for file, key in removed:
        gone_since = {"deletionTimestamp": now, "extendedFileMetadata": True, "dataChange": data_change}
        values = {"partitionValues": dict(key), "size": file["size_bytes"]}
        content.append({"remove": {"path": file["path"], **gone_since, **values}})
    for add in adds:
        described = {"path": add.path, "partitionValues": dict(add.partition_values), "size": add.size}
        stated = {"modificationTime": add.modification_time, "dataChange": data_change, "stats": add.stats}
        content.append({"add": {**described, **stated}})
    commits.write(store, state.version + 1, content)
    commits.keep_readable(store, state)


def commit_by_spark(
    rows: DataFrame,
    record: CommitRecord,
    decision: Decision,
    *,
    location: str,
    kinds: Mapping[str, str],
    append: bool = False,
) -> None:
    """Make the same commit by Spark's own writer, for tables that the metadata-only transaction cannot serve."""
    if decision.same_rows:
        rows, append = rows.limit(0), True
    writer = rows.write.format("delta").mode("append" if append else "overwrite")
    if record.partition and not append:
        predicate = " AND ".join(equals(c, value, kinds[c]) for c, value in record.partition.items())
        writer = writer.option("replaceWhere", predicate)
    writer = writer.option("txnAppId", decision.app_id).option("txnVersion", decision.sequence)
    writer.option("userMetadata", record.to_json()).save(location)


def raise_generation(ledger: Ledger, session: Callable[[], SparkSession] | None = None) -> None:
    """Start a new generation of transaction ids: what was applied before a restore may be applied again."""
    app_id, state = generation_id(ledger.name), ledger.state()
    version = (state.transaction(app_id) or 0) + 1
    if session is None or serves(state):
        commit_transactions(ledger, {app_id: version}, "new generation")
    else:
        nothing = session().read.format("delta").load(ledger.store.address).limit(0)
        writer = nothing.write.format("delta").mode("append").option("userMetadata", "new generation")
        writer.option("txnAppId", app_id).option("txnVersion", version).save(ledger.store.address)


def commit_transactions(ledger: Ledger, moved: Mapping[str, int], note: str) -> None:
    """Commit transaction ids and their versions alone, without a change of rows."""
    state, now = ledger.state(), commits.now_ms()
    actions = [{"txn": {"appId": app_id, "version": to, "lastUpdated": now}} for app_id, to in moved.items()]
    commits.write(ledger.store, state.version + 1, [commits.info(note, "WRITE", state, {}, appends=True), *actions])
    commits.keep_readable(ledger.store, state)


def sql_settings(record: CommitRecord, decision: Decision) -> dict[str, str]:
    """List the session settings that put the transaction and the record into the commit of an SQL statement."""
    return {
        "spark.databricks.delta.write.txnAppId": decision.app_id,
        "spark.databricks.delta.write.txnVersion": str(decision.sequence),
        "spark.databricks.delta.commitInfo.userMetadata": record.to_json(),
    }


def is_conflict(error: Exception) -> bool:
    """Tell whether a commit was lost to another writer, by the error's text, which is the same over Spark Connect."""
    if isinstance(error, FilesGone):
        return False
    return isinstance(error, Conflict) or (isinstance(error, SPARK_ERRORS) and bool(_CONFLICT.search(str(error))))


def violation(error: Exception) -> str:
    """Name the constraint of the table that a statement's rows broke, as Delta says it; empty if they broke none."""
    found = _VIOLATION.search(str(error))
    return found[0].strip() if found else ""


def attempts(count: int = 5, *, pause_seconds: float = 0.1) -> Iterator[bool]:
    """Yield, ``count`` times, whether this is the last attempt; pause between them, longer each time and at random."""
    for number in range(count):
        if number:
            time.sleep(random.uniform(0.5, 1) * pause_seconds * 2**number)  # noqa: S311 - jitter, not a secret
        yield number == count - 1


def _require_current(ledger: Ledger, record: CommitRecord, last: int | None, sequence: int, after: int | None) -> None:
    """Refuse rows that were read before something else was applied."""
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
    """Find the record of the partition's newest commit, if that was a write of the same kind by the library."""
    if latest is None or latest.record is None or latest.record.partition != record.partition:
        return None
    return latest.record if append or not is_append(latest) else None


def _began_before(record: CommitRecord, latest: Commit) -> bool:
    """Tell whether the run of ``record`` started before the one whose rows it would replace."""
    theirs = latest.record.at if latest.record and not is_append(latest) else ""
    return bool(record.at) and record.at < theirs


def _append_of(ledger: Ledger, app_id: str, record: CommitRecord, last: int | None) -> Commit | None:
    """Find the commit that appended the upstream version of ``record``, whatever was written since.

    Appends move their cursor upwards only, so of a version above the last one nothing has to be read, and a retry reads
    back no further than to where its version would be.
    """
    if last is None or record.sequence is None or record.sequence > last:
        return None
    moves = ledger.moved(app_id)
    found = next((commit for commit in moves if commit.transactions[app_id] <= record.sequence), None)
    return found if found and found.transactions[app_id] == record.sequence else None


def same_write(before: CommitRecord, record: CommitRecord) -> bool:
    """Tell whether two records are of one write: the same inputs by the same code."""
    identified = bool(record.inputs) or record.sequence is not None
    same_code = before.code_version == record.code_version
    return identified and same_code and before.inputs == record.inputs and record.sequence in (None, before.sequence)


def other_rows(table: str, before: CommitRecord, record: CommitRecord) -> str:
    """Say that the same write came back with other rows."""
    return (
        f"{table} {slice_name(record.partition)}: code version {record.code_version} read the same inputs before and "
        f"came back with other rows ({before.fingerprint} then, {record.fingerprint} now). Something the inputs do not "
        "name has changed: name it in the inputs, or raise the code version or ask for a replay to publish these rows"
    )


def _key(values: Mapping[str, str | None]) -> Partition:
    return tuple(sorted(values.items()))
