"""Copy-on-write: files with changed rows are rewritten in a stage, audited, and exchanged.

Nothing of it happens under the table's lock but the exchange, one metadata-only commit: exactly the files that were
read out, the staged ones in, transaction id and record with them. If another writer changed what was read, the whole
change is computed again; readers never see half of it, nor rows that nobody audited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import Conflict, PatternError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.core.results import RowCounts, Split, WriteResult
from dedp_assets.patterns.delta.commit import file_exchange, idempotency
from dedp_assets.patterns.delta.commit.commits import Operation
from dedp_assets.patterns.delta.commit.file_exchange import StoredFile
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.table_state import KeyedFile
from dedp_assets.patterns.delta.log.vectors import file_identity
from dedp_assets.patterns.delta.rows.base_snapshot import BaseSnapshot
from dedp_assets.patterns.delta.rows.marking import taken_out
from dedp_assets.patterns.delta.rows.row_change import RowChange, RowChangeRequest
from dedp_assets.patterns.delta.snapshots.definition import require_replaceable
from dedp_assets.patterns.delta.snapshots.lost_files import FilesGone
from dedp_assets.patterns.delta.staging.comparing import changed_rows
from dedp_assets.patterns.delta.staging.guards import (
    discarded_if_unjudged,
    layout_of,
    refusal,
    require_same_erasures,
    require_untouched,
)
from dedp_assets.patterns.delta.staging.metrics import Measuring
from dedp_assets.patterns.delta.staging.rewrite_counts import WRITTEN, Outcomes, rows_in
from dedp_assets.patterns.delta.staging.row_accounting import Accounting, StageVerdict
from dedp_assets.patterns.delta.staging.stage_files import stage_rows
from dedp_assets.patterns.delta.staging.stages import Stage, read_cost, written
from dedp_assets.patterns.delta.storage.coordination import AGAIN, turn

__all__ = ["rewrite"]

_CHANGES = ("inserted", "updated", "deleted")


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A staged and audited change before the commit."""

    relevant: object
    removed: Sequence[KeyedFile]
    marked: Sequence[StoredFile]
    stage: Stage
    judged: StageVerdict
    record: CommitRecord

    @property
    def changed(self) -> bool:
        """Return whether any row is inserted, updated, deleted or confirmed."""
        return self.changes_rows or bool(self.judged.figures.get("confirmed"))

    @property
    def changes_rows(self) -> bool:
        """Return whether any row is inserted, updated or deleted."""
        return any(self.judged.figures[name] for name in _CHANGES)


def rewrite(table: TableHandle, change: RowChange, request: RowChangeRequest) -> WriteResult:
    """Apply a change as one audited commit; a retry of an applied change writes nothing.

    Raises:
        AuditFailed: if a rule or a constraint of the table refuses the rows; the stage stays for inspection.
        TransactionReused: if the same inputs were applied before with other rows.
        Conflict: if a newer upstream version was applied, or other writers do not yield.
        ContractError: if the base snapshot is gone.
        NotReady: if the base snapshot lacks what has to be there first.
    """
    prepared: _Prepared | None = None
    gone: BaseException | None = None
    for _ in request.meter.trying(AGAIN.tries()):
        if prepared is None:
            base = request.base(table, change.content)
            if base.decision.applied:
                return idempotency.already_applied(table.name, request.record(change.content), base.decision.applied)
            with request.meter.jobs(table.session):
                prepared = _prepare(table, change, request, base)
        try:
            with request.meter.waiting(turn(table.store)):
                if done := _publish(table, change, request, prepared):
                    return done
        except _Outdated as error:
            prepared.stage.discard()
            prepared, gone = None, error.__cause__
        except PatternError:
            prepared.stage.discard()
            raise
    if prepared is not None:
        prepared.stage.discard()
    raise gone or Conflict(
        f"{table.name} {slice_name(request.about)}: other writers changed the rows that this run changes, each time it "
        "tried: run it again"
    )


def _publish(
    table: TableHandle, change: RowChange, request: RowChangeRequest, prepared: _Prepared
) -> WriteResult | None:
    """Commit the staged change, unless another writer committed first.

    Returns:
        The result of the write; ``None`` if another writer committed first.

    Raises:
        _Outdated: if others changed what the change depends on, or removed what was staged.
    """
    base = request.base(table, change.content)
    if base.decision.applied:
        prepared.stage.discard()
        return idempotency.already_applied(table.name, prepared.record, base.decision.applied)
    require_untouched(table, request.owned, request.since)
    require_same_erasures(table, request.erasures)
    if _relevant(change, base) != prepared.relevant:
        raise _Outdated
    state, record = base.state, _noted(prepared.record, base)
    staged = prepared.stage.adds if prepared.changed else ()
    removed, back = base.file_diff(table.ledger, prepared.removed if prepared.changed else ())
    marked = prepared.marked if prepared.changed else ()
    added, changes_rows = (
        [*staged, *marked, *back],
        prepared.changes_rows or bool(back) or len(removed) > len(prepared.removed),
    )
    if "stage" in record.notes:
        idempotency.require_channel(table.ledger, state, record, table.spec.one_channel_per, staged)
    try:
        file_exchange.exchange_files(
            table.store,
            state,
            added,
            removed,
            record=record.costing(request.meter.cost() + written(staged) + read_cost([file for file, _ in removed])),
            decision=base.decision,
            operation=Operation(change.operation, metrics=_metrics(prepared, len(removed), len(added), len(marked))),
            data_change=changes_rows,
        )
    except FilesGone as error:
        raise _Outdated from error
    except Conflict:
        return None
    (prepared.stage.finish if prepared.changed else prepared.stage.discard)()
    return _result(table, base, prepared, changed=changes_rows and bool(removed or added))


def _metrics(prepared: _Prepared, removed: int, added: int, marked: int) -> dict[str, int]:
    """Return the metrics of the commit, in which a marked file is neither removed nor added."""
    files = {"numRemovedFiles": removed - marked, "numAddedFiles": added - marked}
    vectors = {"numDeletionVectorsAdded": marked} if marked else {}
    return {**prepared.judged.account.metrics, **files, **vectors}


class _Outdated(Exception):
    """Conflict with another writer about read or staged files, the schema or the properties."""


def _relevant(change: RowChange, base: BaseSnapshot) -> object:
    """Select the read set of a change for conflict detection: candidate files, schema, properties."""
    state = base.rows
    files = frozenset(file_identity(file) for file, _ in change.candidates(state))
    declared = (state.properties, state.features, state.snapshot.schema().to_json(), state.partition_columns)
    return files, base.version, declared


def _prepare(table: TableHandle, change: RowChange, request: RowChangeRequest, base: BaseSnapshot) -> _Prepared:
    state = base.rows
    outcomes = Outcomes(change.source, rows_in(state.files()))
    accounting = Accounting.of(table.name, outcomes, state, request.owned, request.audits)
    if why := file_exchange.only_spark_changes(state):
        raise Conflict(f"{table.name} has {why} since this run looked at it: run it again")
    files = change.candidates(state)
    placed = state.marks_rows and not accounting.measures_others
    with change.plan(state, files, placed=placed) as plan, taken_out(table.store, plan) as (planned, taken):
        if planned.removed:
            require_replaceable(table.name, state)
        rows, others = planned.rows, planned.others
        if others is not None and accounting.measures_others:
            rows, others = rows.unionByName(others.withColumn(OUTCOME, F.lit("kept"))), None
        measuring = Measuring(
            accounting.measures(),
            accounting.asked(),
            accounting.landed(),
            aside=(OUTCOME,),
            where=WRITTEN,
            others=others,
            in_one_task=planned.in_one_task,
        )
        stage = stage_rows(Split.of(rows), layout_of(table, state, request.owned), measuring=measuring)
        with discarded_if_unjudged(stage):
            judged = accounting.judge(
                stage.observed,
                request.provenance.approval,
                staged=stage.rows,
                replaced=taken.rows if placed else rows_in(file for file, _ in planned.removed),
            )
            if request.provenance.compare:
                judged = judged.also(changed_rows(judged.figures), request.provenance.approval)
            marked = taken.marked(table.ledger, state, stage.store)
        if judged.refused:
            raise refusal(table, request.owned, judged, stage, rows.filter(accounting.balance.kept))
    # A commit that brings rows says by its stage that it does.
    brings = {"stage": stage.store.name} if judged.figures["inserted"] else {}
    noted = replace(request.provenance, notes={**request.provenance.notes, **brings})
    record = judged.record(noted, request.about, change.content)
    return _Prepared(_relevant(change, base), planned.removed, marked, stage, judged, record)


def _noted(record: CommitRecord, base: BaseSnapshot) -> CommitRecord:
    return replace(record, notes={**record.notes, **base.notes}) if base.notes else record


def _result(table: TableHandle, base: BaseSnapshot, prepared: _Prepared, *, changed: bool) -> WriteResult:
    figures = prepared.record.figures
    done = [f"{figures[name]} rows {name}" for name in (*_CHANGES, "confirmed") if figures.get(name)]
    return WriteResult(
        table=table.name,
        version=base.state.version + 1,
        applied=True,
        changed=changed,
        reason=(", ".join(done) or "no row is to be changed") + base.remark,
        rows=RowCounts(**prepared.record.rows),
        partition=prepared.record.partition,
        findings=prepared.judged.findings,
        figures=figures,
    )
