"""Changing rows that are there: the files that hold them are rewritten beside the table, audited, and exchanged.

Nothing of it happens under the table's lock but the exchange, one metadata-only commit: exactly the files that were
read out, the staged ones in, transaction id and record with them. If another writer changed what was read, the whole
change is computed again; readers never see half of it, nor rows that nobody audited.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import Conflict, PatternError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.records import CommitRecord, Provenance, slice_name
from dedp_assets.patterns.core.results import RowCounts, Split, WriteResult
from dedp_assets.patterns.delta import publishing
from dedp_assets.patterns.delta.accounting import Accounting, Judged
from dedp_assets.patterns.delta.definition import require_replaceable
from dedp_assets.patterns.delta.grounds import Ground, ground_of
from dedp_assets.patterns.delta.locks import table_lock
from dedp_assets.patterns.delta.log import KeyedFile, TableState
from dedp_assets.patterns.delta.measuring import Measuring
from dedp_assets.patterns.delta.outcomes import WRITTEN, Outcomes, rows_in
from dedp_assets.patterns.delta.stages import Stage, stage_rows
from dedp_assets.patterns.delta.verification import FilesGone
from dedp_assets.patterns.delta.writes import discarded_if_unjudged, layout_of, refusal, require_untouched

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.tables import Table

__all__ = ["ChangeRequest", "Rewrite", "RowChange", "rewrite"]

_CHANGES = ("inserted", "updated", "deleted")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The files that a change replaces, and the rows that take their place.

    Attributes:
        removed: the files whose rows are written anew; they leave the table.
        rows: the rows of them, and every row that is new, with its outcome: inserted, updated, deleted, kept (as it
            was) or unused (a row of the source that changes nothing).
        others: the rest of their rows, kept without a look at them; ``None`` if ``rows`` are all.
        in_one_task: whether all rows are few enough to become one file.
    """

    removed: Sequence[KeyedFile]
    rows: DataFrame
    others: DataFrame | None = None
    in_one_task: bool = False


class RowChange(Protocol):
    """A change of rows that are in the table."""

    @property
    def operation(self) -> str:
        """Delta's name of the operation, as the log states it."""

    @property
    def content(self) -> str:
        """A text that tells this change from others."""

    @property
    def source(self) -> int | None:
        """The number of rows that it brings, ``None`` if it brings no rows."""

    def candidates(self, state: TableState) -> list[KeyedFile]:
        """List the files that may hold rows to change."""

    def plan(self, state: TableState, files: Sequence[KeyedFile]) -> AbstractContextManager[Rewrite]:
        """Plan what to do with ``files``, while the block lasts; may start a job that looks for the touched ones."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A request to change a table: who asks, and under which rules.

    Attributes:
        owned: partition values that every row lies in, before and after.
        provenance: who, from what, and why.
        audits: rules over the rows that are inserted or updated.
        execution: the execution that it is, of those that all change the whole table.
        due: executions that have to be in the rows before it; ``None`` if their order is no matter.
        since: version of the table that the change was computed from, if it was.
    """

    owned: Mapping[str, str]
    provenance: Provenance
    audits: Sequence[Audit] = ()
    execution: Mapping[str, str] = field(default_factory=dict)
    due: Collection[str] | None = None
    since: int | None = None

    @property
    def about(self) -> Mapping[str, str]:
        """The partition or the execution that the commit is of."""
        return self.execution or self.owned

    def record(self, content: str) -> CommitRecord:
        """Make the record of the commit, as far as it is known before."""
        return CommitRecord.of(self.provenance, content=content, owned=self.about)

    def ground(self, table: Table, content: str) -> Ground:
        """Find what the change is made on: the table as it is, or what it was before an execution."""
        return ground_of(table, self.record(content), self.due)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A change that is staged and audited, and waits for its commit."""

    relevant: object
    removed: Sequence[KeyedFile]
    stage: Stage
    judged: Judged
    record: CommitRecord

    @property
    def changed(self) -> bool:
        """Tell whether there is a row that is to be changed, or confirmed."""
        return self.tells or bool(self.judged.figures.get("confirmed"))

    @property
    def tells(self) -> bool:
        """Tell whether there is a change that readers have to look at."""
        return any(self.judged.figures[name] for name in _CHANGES)


def rewrite(table: Table, change: RowChange, request: ChangeRequest) -> WriteResult:
    """Make a change in one audited commit; a retry of the same change finds that it was made.

    Raises:
        AuditFailed: if a rule or a constraint of the table refuses the rows; the stage stays for inspection.
        TransactionReused: if the same inputs were applied before with other rows.
        Conflict: if a newer upstream version was applied, or other writers do not yield.
        ContractError: if what the table was before an execution is gone.
        NotReady: if an execution before it is not in the rows.
    """
    prepared: _Prepared | None = None
    gone: BaseException | None = None
    for _ in publishing.attempts():
        if prepared is None:
            ground = request.ground(table, change.content)
            if ground.decision.applied:
                return publishing.already_applied(table.name, request.record(change.content), ground.decision.applied)
            prepared = _prepare(table, change, request, ground)
        try:
            with table_lock(table.store):
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


def _publish(table: Table, change: RowChange, request: ChangeRequest, prepared: _Prepared) -> WriteResult | None:
    """Commit what is staged; do nothing if another writer, who knows no lock, committed at the same moment.

    Raises:
        _Outdated: if others changed what the change depends on, or removed what was staged.
    """
    ground = request.ground(table, change.content)
    if ground.decision.applied:
        prepared.stage.discard()
        return publishing.already_applied(table.name, prepared.record, ground.decision.applied)
    require_untouched(table, request.owned, request.since)
    if _relevant(change, ground) != prepared.relevant:
        raise _Outdated
    state, record = ground.state, ground.noted(prepared.record)
    staged = prepared.stage.adds if prepared.changed else ()
    removed, back = ground.exchanged(table.ledger, prepared.removed if prepared.changed else ())
    added, tells = [*staged, *back], prepared.tells or bool(back) or len(removed) > len(prepared.removed)
    if "stage" in record.notes:
        publishing.require_channel(table.ledger, state, record, table.spec.one_channel_per, staged)
    files = {"numRemovedFiles": len(removed), "numAddedFiles": len(added)}
    told = publishing.Told(change.operation, {}, {**prepared.judged.account.metrics, **files})
    try:
        publishing.exchange_files(
            table.store,
            state,
            added,
            removed,
            record=record,
            decision=ground.decision,
            told=told,
            data_change=tells,
        )
    except FilesGone as error:
        raise _Outdated from error
    except Conflict:
        return None
    if prepared.changed:
        prepared.stage.settle()
    else:
        prepared.stage.discard()
    return _result(table, ground, prepared, changed=tells and bool(removed or added))


class _Outdated(Exception):
    """Conflict with another writer: files that were read or staged, the schema or the properties changed meanwhile."""


def _relevant(change: RowChange, ground: Ground) -> object:
    """Select the read set of a change for conflict detection: candidate files, schema, properties."""
    state = ground.rows
    files = frozenset(file["path"] for file, _ in change.candidates(state))
    declared = (state.properties, state.features, state.snapshot.schema().to_json(), state.partition_columns)
    return files, ground.base, declared


def _prepare(table: Table, change: RowChange, request: ChangeRequest, ground: Ground) -> _Prepared:
    state = ground.rows
    accounting = Accounting.of(Outcomes(change.source, rows_in(state.files())), state, request.owned, request.audits)
    if why := publishing.only_spark_changes(state):
        raise Conflict(f"{table.name} has {why} since this run looked at it: run it again")
    files = change.candidates(state)
    with change.plan(state, files) as planned:
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
                replaced=rows_in(file for file, _ in planned.removed),
            )
        if judged.refused:
            raise refusal(table, request.owned, judged, stage, rows.filter(accounting.balance.kept))
    # A commit that brings rows says by its stage that it does.
    brings = {"stage": stage.store.name} if judged.figures["inserted"] else {}
    noted = replace(request.provenance, notes={**request.provenance.notes, **brings})
    record = judged.record(noted, request.about, change.content)
    return _Prepared(_relevant(change, ground), planned.removed, stage, judged, record)


def _result(table: Table, ground: Ground, prepared: _Prepared, *, changed: bool) -> WriteResult:
    figures = prepared.record.figures
    done = [f"{figures[name]} rows {name}" for name in (*_CHANGES, "confirmed") if figures.get(name)]
    return WriteResult(
        table=table.name,
        version=ground.state.version + 1,
        applied=True,
        changed=changed,
        reason=(", ".join(done) or "no row is to be changed") + ground.remark,
        rows=RowCounts(**prepared.record.rows),
        partition=prepared.record.partition,
        findings=prepared.judged.findings,
        figures=figures,
    )
