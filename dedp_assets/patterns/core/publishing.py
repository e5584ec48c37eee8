"""Publishing: how a write becomes one commit, exactly once.

A commit carries a transaction: ``table/partition/generation`` at the upstream version it applies. The claim, made under
the table's lock, decides whether a write is new, a retry of one already applied, or a retry that came back with other
data.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.errors import ConfigError, Conflict, TransactionReused
from dedp_assets.patterns.core.log import Commit, Ledger, Partition, TableState, generation_id, transaction_id
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.staging import Stage

__all__ = [
    "SPARK_ERRORS",
    "Claim",
    "attempts",
    "channel_of",
    "claim",
    "commit_by_spark",
    "commit_files",
    "commit_transaction",
    "is_conflict",
    "raise_generation",
    "serves",
    "session_settings",
    "sql_settings",
    "violation",
]

SPARK_ERRORS = (PySparkException, Py4JError)
"""What a Spark action may raise: an embedded session does not translate every error of the JVM."""

_CONFLICT = re.compile(
    r"DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)"
    r"|(Concurrent\w+|MetadataChanged|ProtocolChanged|FileAlreadyExists)Exception"
)
_VIOLATION = re.compile(r"(CHECK constraint|NOT NULL constraint)[^\n]*")
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
class Claim:
    """What the ledger says about a write before it happens.

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


def claim(
    ledger: Ledger,
    state: TableState,
    record: CommitRecord,
    *,
    append: bool = False,
    after: int | None = None,
    lost: bool = False,
) -> Claim:
    """Decide whether ``record``'s write is new.

    Args:
        ledger: the table's log.
        state: the table as it is.
        record: what the commit will say.
        append: whether the present rows stay.
        after: upstream version that has to be the last one applied (0: none yet); ``None`` asks for none.
        lost: whether data files of the partition are gone, so that what was applied before has to be written again.

    Raises:
        TransactionReused: if this write was already applied with other rows.
        Conflict: if a newer upstream version was applied already, so that this run's rows are stale.
    """
    app_id = transaction_id(ledger.name, record.partition, state.generation(ledger.name))
    last = state.transaction(app_id)
    latest = _append_of(ledger, app_id, record) if append else ledger.latest(record.partition, until=state.version)
    before = latest.record if latest and latest.record and latest.record.partition == record.partition else None
    sequence = (last or 0) + 1 if record.sequence is None else record.sequence
    if last is not None and before is not None and _same_write(before, record):
        same = before.fingerprint == record.fingerprint
        if same and not (lost and not append):
            return Claim(app_id, sequence, applied=latest)
        if not same and (append or not record.replay):
            raise TransactionReused(_other_rows(ledger.name, before, record))
    if after is not None and after != (last or 0):
        raise Conflict(
            f"{ledger.name} {slice_name(record.partition)} applied upstream version {last or 0} meanwhile, this run "
            f"went on from version {after}: run it again"
        )
    if last is not None and sequence < last:
        raise Conflict(
            f"{ledger.name} {slice_name(record.partition)} already applied upstream version {last}, this run read "
            f"version {sequence} and is stale: run it again"
        )
    if sequence == last and append:
        raise TransactionReused(f"{ledger.name} already applied version {sequence} under {app_id}, with other rows")
    if sequence == last:
        # Other code or inputs at the same upstream version are a deliberate replay: a transaction of its own.
        app_id = f"{app_id}/{record.code_version}"
        replayed = state.transaction(app_id)
        sequence = sequence if replayed is None else max(sequence, replayed + 1)
    same = before is not None and before.fingerprint == record.fingerprint and not append
    return Claim(app_id, sequence, same_rows=same and not lost, rewrite=latest is not None, repair=same and lost)


def channel_of(ledger: Ledger, state: TableState, partition: Mapping[str, str]) -> str | None:
    """The channel that the rows of ``partition`` came by; ``None`` if it holds none, or nobody recorded where from.

    Only commits that brought rows tell: deleting some of them afterwards changes no channel.
    """
    if not state.holds(partition):
        return None
    records = (commit.record for commit in ledger.history() if commit.changes(partition))
    return next((record.channel for record in records if record and "stage" in record.notes), None)


def serves(state: TableState) -> bool:
    """Whether the metadata-only transaction can serve the table; if not, Spark's own writer has to."""
    return not state.mapped and state.features <= _SERVED


def commit_files(
    state: TableState,
    stage: Stage,
    record: CommitRecord,
    claimed: Claim,
    *,
    append: bool = False,
    only: Collection[Partition] | None = None,
) -> None:
    """One metadata-only transaction: old files out, staged files in, transaction and record with them.

    Args:
        state: the table as it was when the write was claimed.
        stage: the staged files; none are committed if the partition holds the same rows already.
        record: goes into the commit as its user metadata.
        claimed: transaction id and version.
        append: keep the partition's present files.
        only: replace just these partitions among the ones the write owns.

    Raises:
        Conflict: if another writer changed what this commit replaces.
    """
    adds: list[AddAction | RemoveAction] = list(stage.adds)
    mode, filters = "append", None
    if claimed.same_rows:
        adds = []
    elif claimed.repair:
        # Like a compaction: other files, the same rows, so nobody downstream has to do anything.
        rewritten = [replace(add, data_change=False) for add in stage.adds]
        adds = [*rewritten, *_removals(state, record.partition, data_change=False)]
    elif only is not None:
        kept = [add for add in stage.adds if _key(add.partition_values) in only]
        adds = [*kept, *_removals(state, record.partition, only=only)]
    elif not append:
        mode, filters = "overwrite", [(column, "=", value) for column, value in record.partition.items()]
    metrics = {
        "numFiles": str(len(stage.adds)),
        "numOutputRows": str(record.rows.get("written", 0)),
        "numOutputBytes": str(sum(add.size for add in stage.adds)),
    }
    properties = CommitProperties(
        custom_metadata={"userMetadata": record.to_json(), "operationMetrics": metrics},
        app_transactions=[Transaction(claimed.app_id, claimed.sequence)],
        max_commit_retries=0,
    )
    _transact(state, adds, mode, filters or None, properties)


def commit_by_spark(
    rows: DataFrame, record: CommitRecord, claimed: Claim, *, location: str, append: bool = False
) -> None:
    """The same commit by Spark's own writer, for tables that the metadata-only transaction cannot serve."""
    if claimed.same_rows:
        rows, append = rows.limit(0), True
    writer = rows.write.format("delta").mode("append" if append else "overwrite")
    if record.partition and not append:
        predicate = " AND ".join(f"`{column}` = {quoted(value)}" for column, value in record.partition.items())
        writer = writer.option("replaceWhere", predicate)
    writer = writer.option("txnAppId", claimed.app_id).option("txnVersion", claimed.sequence)
    writer.option("userMetadata", record.to_json()).save(location)


def raise_generation(ledger: Ledger, session: Callable[[], SparkSession] | None = None) -> None:
    """Start a new generation of transaction ids: what was applied before a restore may be applied again."""
    app_id, state = generation_id(ledger.name), ledger.state()
    version = (state.transaction(app_id) or 0) + 1
    if session is None or serves(state):
        commit_transaction(ledger, app_id, version, "new generation")
    else:
        nothing = session().read.format("delta").load(str(ledger.location)).limit(0)
        writer = nothing.write.format("delta").mode("append").option("userMetadata", "new generation")
        writer.option("txnAppId", app_id).option("txnVersion", version).save(str(ledger.location))


def commit_transaction(ledger: Ledger, app_id: str, version: int, note: str) -> None:
    """A commit that changes no row and only moves the transaction ``app_id``."""
    moved = CommitProperties(custom_metadata={"userMetadata": note}, app_transactions=[Transaction(app_id, version)])
    _transact(ledger.state(), [], "append", None, moved)


def sql_settings(record: CommitRecord, claimed: Claim) -> dict[str, str]:
    """Session settings that put the transaction and the record into the commit of an SQL statement."""
    return {
        "spark.databricks.delta.write.txnAppId": claimed.app_id,
        "spark.databricks.delta.write.txnVersion": str(claimed.sequence),
        "spark.databricks.delta.commitInfo.userMetadata": record.to_json(),
    }


@contextmanager
def session_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for the time of a block; it keeps none of them."""
    try:
        for key, value in settings.items():
            session.conf.set(key, value)
        yield
    finally:
        for key in settings:
            session.conf.unset(key)


def is_conflict(error: Exception) -> bool:
    """Whether a commit was lost to another writer. Spark's classes differ over Spark Connect, their text does not."""
    return isinstance(error, Conflict) or (isinstance(error, SPARK_ERRORS) and bool(_CONFLICT.search(str(error))))


def violation(error: Exception) -> str:
    """Which constraint of the table a statement's rows broke, as Delta says it; empty if they broke none."""
    found = _VIOLATION.search(str(error))
    return found[0].strip() if found else ""


def attempts(count: int = 5, *, pause_seconds: float = 0.1) -> Iterator[bool]:
    """Yield, ``count`` times, whether this is the last attempt; pause between them, longer each time and at random."""
    for number in range(count):
        if number:
            time.sleep(random.uniform(0.5, 1) * pause_seconds * 2**number)  # noqa: S311 - jitter, not a secret
        yield number == count - 1


def _append_of(ledger: Ledger, app_id: str, record: CommitRecord) -> Commit | None:
    """The commit that appended the upstream version of ``record``, whatever was written since."""
    return next((c for c in ledger.history() if c.transactions.get(app_id) == record.sequence), None)


def _same_write(before: CommitRecord, record: CommitRecord) -> bool:
    identified = bool(record.inputs) or record.sequence is not None
    same_code = before.code_version == record.code_version
    return identified and same_code and before.inputs == record.inputs and record.sequence in (None, before.sequence)


def _other_rows(table: str, before: CommitRecord, record: CommitRecord) -> str:
    return (
        f"{table} {slice_name(record.partition)}: code version {record.code_version} read the same inputs before and "
        f"came back with other rows ({before.fingerprint} then, {record.fingerprint} now). Something the inputs do not "
        "name has changed: name it in the inputs, or raise the code version or ask for a replay to publish these rows"
    )


def _key(values: Mapping[str, str | None]) -> Partition:
    return tuple(sorted(values.items()))


def _removals(
    state: TableState, owned: Mapping[str, str], *, only: Collection[Partition] | None = None, data_change: bool = True
) -> Iterator[RemoveAction]:
    now_ms = time.time_ns() // 1_000_000
    for file, key in state.keyed_files():
        if owned.items() <= dict(key).items() and (only is None or key in only):
            yield RemoveAction(file["path"], data_change, now_ms, file["size_bytes"], dict(key))


def _transact(state: TableState, actions: list[Any], mode: str, filters: Any, properties: CommitProperties) -> None:  # noqa: ANN401
    table = state.snapshot
    try:
        table.create_write_transaction(
            actions, mode, table.schema(), list(state.partition_columns), filters, commit_properties=properties
        )
    except CommitFailedError as error:
        if "Unsupported table features" in str(error):
            raise ConfigError(f"the table has features that only Spark can write: {error}") from error
        raise Conflict(f"another writer changed the table first: {error}") from error
