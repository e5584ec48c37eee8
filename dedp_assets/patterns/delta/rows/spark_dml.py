"""Delta's own MERGE and DELETE, for tables whose rows only Spark can change.

Column mapping, row tracking, generated columns, a change feed: such a table's files cannot be
exchanged by metadata alone. Its merges and deletes are Delta's, under the table's lock, with the same transaction and
record, in a session of their own, so that nobody else's commits carry them. Their rows cannot be audited before they
are visible, so audits are refused; what they did is counted by Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.core.results import RowCounts, WriteResult
from dedp_assets.patterns.core.running.disks import writing_to
from dedp_assets.patterns.delta.commit import idempotency, spark_writer
from dedp_assets.patterns.delta.commit.sessions import private
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.commit_info import Commit
from dedp_assets.patterns.delta.rows.row_change import RowChangeRequest
from dedp_assets.patterns.delta.snapshots.lost_files import require_files
from dedp_assets.patterns.delta.staging.guards import require_untouched
from dedp_assets.patterns.delta.staging.stages import new_stage
from dedp_assets.patterns.delta.storage.coordination import AGAIN, require_lock, table_lock

__all__ = ["committed", "run"]

Statement = Callable[[SparkSession, DataFrame | None], object]
"""Runs in a session of its own, with the source as that session reads it."""

_PADDED = "DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT"
"""Error class of Delta for a merge that compares columns which Spark pads to a length."""

_COUNTED = {
    "source": ("numSourceRows",),
    "inserted": ("numTargetRowsInserted",),
    "updated": ("numTargetRowsUpdated",),
    "deleted": ("numTargetRowsDeleted", "numDeletedRows"),
}


def run(
    table: TableHandle,
    statement: Statement,
    content: str,
    request: RowChangeRequest,
    *,
    source: DataFrame | None = None,
    why: str,
) -> WriteResult:
    """Run a Delta statement as one commit; a retry of an applied statement writes nothing.

    Args:
        table: the table to change.
        statement: runs it.
        content: tells it from other changes.
        request: who asks for it.
        source: rows that the statement reads.
        why: what the table has that calls for it.

    Raises:
        ConfigError: if audits are asked for.
        ContractError: if a row would break a constraint of the table.
        Conflict: if other writers do not yield, or somebody removed the files of the source.
    """
    if request.audits:
        names = ", ".join(audit.name for audit in request.audits)
        raise ConfigError(
            f"{table.name} has {why}, so Delta itself changes its rows, and nothing could judge {names} before they "
            "are visible: give no audits and no option that brings one (order_by of a merger), or overwrite the "
            "partition"
        )
    require_lock(table.store)
    record, meter = request.record(content), request.meter
    if applied := idempotency.decide(table.ledger, table.ledger.state(), record).applied:
        return idempotency.already_applied(table.name, record, applied)
    stage = new_stage(table.store)
    try:
        if source is not None:
            with writing_to(stage.store.address):
                meter.jobs(source.sparkSession)(source.write.parquet)(stage.store.address)
        written = [(file.path, file.size_bytes) for file in stage.store.files() if file.path.endswith(".parquet")]
        with meter.waiting(table_lock(table.store)):
            for last in meter.trying(AGAIN.tries()):
                state = table.ledger.state()
                decision = idempotency.decide(table.ledger, state, record)
                if decision.applied:
                    return idempotency.already_applied(table.name, record, decision.applied)
                require_files(stage.store, written)
                require_untouched(table, request.owned, request.since)
                if _ran(
                    table,
                    statement,
                    spark_writer.sql_settings(record.costing(meter.cost()), decision),
                    source,
                    stage.store.address,
                    last=last,
                ):
                    break
            return committed(table, state.version, record)
    finally:
        stage.discard()


def committed(table: TableHandle, before: int, record: CommitRecord) -> WriteResult:
    """Build the result of a statement from the commit after ``before`` that carries ``record``.

    Without that commit, no row matched.
    """
    ours = [commit for commit in table.ledger.commits(since=before) if commit.record == record]
    if not ours:
        return WriteResult(table.name, before, applied=False, changed=False, reason="no row matched")
    return WriteResult(
        table=table.name,
        version=ours[-1].version,
        applied=True,
        changed=bool(ours[-1].changed),
        reason=f"{ours[-1].operation} committed",
        rows=_counts(ours[-1]),
        partition=record.partition,
        figures=_figures(ours[-1]),
    )


def _ran(
    table: TableHandle,
    statement: Statement,
    settings: Mapping[str, str],
    source: DataFrame | None,
    folder: str,
    *,
    last: bool,
) -> bool:
    """Run the statement; return whether no conflict with another writer occurred."""
    try:
        with writing_to(table.store.address), private(table.session, settings) as session:
            statement(session, None if source is None else session.read.schema(source.schema).parquet(folder))
    except SPARK_ERRORS as error:
        if broken := spark_writer.violation(error):
            raise ContractError(f"{table.name}: nothing was changed. {broken}") from error
        if _PADDED in str(error):
            raise ConfigError(
                f"{table.name} has a CHAR column, and Delta cannot compare one in a merge: declare it as VARCHAR, or "
                "overwrite the partition"
            ) from error
        if last or not spark_writer.is_conflict(error):
            raise
        return False
    return True


def _figures(commit: Commit) -> dict[str, int]:
    counted = {name: int(value) for name, value in commit.metrics.items() if value.isdigit()}
    named = {name: counted[metric] for name, metrics in _COUNTED.items() for metric in metrics if metric in counted}
    return {**counted, **named}


def _counts(commit: Commit) -> RowCounts:
    """Return the row counts by Delta's metrics, which do not count source rows without effect."""
    figures = _figures(commit)
    if "source" not in figures:
        return RowCounts()
    written = figures.get("inserted", 0) + figures.get("updated", 0)
    return RowCounts(read=figures["source"], written=written, represented=figures["source"])
