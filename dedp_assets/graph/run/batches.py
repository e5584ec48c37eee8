"""Partitions of one step: the partitions to compute, and the result of each.

A partition is settled if its last commit was computed from the same inputs by the same code and its files are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.contracts import CONTRACT
from dedp_assets.graph.catalogue.figures import Figure
from dedp_assets.graph.catalogue.rendering import Did
from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.inputs.feeds import Pinned
from dedp_assets.graph.inputs.staleness import is_computed_from
from dedp_assets.graph.outcomes.failures import sentence
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals, judged_by
from dedp_assets.graph.outcomes.run_tags import (
    CAUSE,
    event_attributes,
    goal_of,
    is_comparing,
    is_forced,
    provenance_of,
    unchanged,
)
from dedp_assets.graph.run.attempts import Attempts, partition_keys
from dedp_assets.graph.run.column_traces import ColumnTraces
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError, PatternError
from dedp_assets.patterns.core.measuring.costs import total
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Commit, LostFile, Table, Target, lost_files, lost_files_message
from dedp_assets.patterns.flow.exclusive_choice import Choice, Router

__all__ = ["NOT_COMPUTED", "BatchResult", "Inputs", "Step", "Work", "compute_all", "contracts_of", "latest", "owned_by"]

NOT_COMPUTED = "not computed"
"""Under this name an observation of a partition says why a run did not compute it."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one partition's computation, pinned before the start.

    Attributes:
        identities: upstream name -> version or content identity; equal ones and equal code mean equal rows.
        sequence: upstream version this partition applies; ``None`` counts runs.
        notes: facts for the ledger.
        found: what was looked at to know all this, for the computation to read exactly that; not for the ledger.
        pinned: the upstream tables, in the order in which they are declared.
        remark: a sentence for the run's log.
    """

    identities: Mapping[str, Any]
    sequence: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    found: Any = None
    pinned: tuple[Pinned, ...] = ()
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A partition to compute, with the pinned versions of the upstream tables.

    Attributes:
        key: Dagster's partition key; empty for an unpartitioned table.
        inputs: what to read.
        provenance: what the commit will say about this run.
    """

    key: str
    inputs: Inputs
    provenance: Provenance

    def target(self, table: Table, audits: Sequence[Audit] = ()) -> Target:
        """Return the target of the step's write to ``table``: the owned partition, provenance and audits."""
        return table.target(self.provenance, partition=self.owned(table), audits=audits)

    def owned(self, table: Table) -> dict[str, str]:
        """Return the partition of ``table`` that this step replaces: the key in the first partition column."""
        return owned_by(self.key, table.spec)

    def applied(self, table: Table) -> int | None:
        """Return the upstream version that ``table`` has applied.

        ``None`` to compute from everything.

        ``None`` if it has to be computed from everything: it was not written yet, somebody asks for it, files of it are
        lost, or other code computed it.
        """
        run = self.provenance
        if run.replay or run.cause == "repair" or not table.ledger.exists():
            return None
        version = table.ledger.transactions().applied(table.name, self.owned(table))
        return version if version is None or run.sequence is None or version < run.sequence else None


def contracts_of(context: dg.AssetExecutionContext) -> dict[str, str]:
    """Return the versions of the published contracts of the tables that a step writes, by table."""
    metadata = context.assets_def.metadata_by_key
    return {"/".join(key.path): str(each[CONTRACT]) for key, each in metadata.items() if CONTRACT in each}


def owned_by(key: str, table: TableSpec) -> dict[str, str]:
    """Return the partition or execution of a table for a key; empty for the whole table."""
    return {table.executed_by or table.partition_by[0]: key} if key else {}


@dataclass(frozen=True, slots=True)
class Work:
    """The computation of one table, partition by partition.

    Attributes:
        target: the table whose checks are reported.
        reads: partition key -> what to read; raises if it is not ready.
        build: computes and publishes one partition.
        beside: further tables that ``build`` writes.
        figures: how the tables' figures are shown.
        lineage: table name -> which columns upstream its columns are computed from.
        refusals: where refused partitions are noted, for nobody to ask for them again in vain.
        router: chooses the branch of each partition, if not all are of this table.
        branch: the branch that this table is.
        sources: systems outside of the lake that rows come from.
        owner: who answers for the tables.
        traces: the observed lineage of the tables.
        declaration: digest of the declared columns and gates.
        references: tables that rows are looked up in.
    """

    target: Table
    reads: Callable[[str], Inputs]
    build: Callable[[Step], WriteResult]
    beside: tuple[Table, ...] = ()
    figures: Mapping[str, Figure | str] = field(default_factory=dict)
    lineage: Mapping[str, dg.TableColumnLineage] = field(default_factory=dict)
    refusals: Refusals | None = None
    router: Router | None = field(default=None, kw_only=True)
    branch: str = field(default="", kw_only=True)
    sources: Sequence[Source] = field(default=(), kw_only=True)
    owner: str = field(default="", kw_only=True)
    traces: ColumnTraces | None = field(default=None, kw_only=True)
    declaration: str = field(default="", kw_only=True)
    references: tuple[Table, ...] = field(default=(), kw_only=True)

    def choose(self, key: str) -> Choice | None:
        """Choose the branch of a partition by the router.

        Returns:
            The choice; ``None`` for work without a router.
        """
        return self.router.choose(key) if self.router else None

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table that ``build`` writes."""
        return (self.target, *self.beside)


@dataclass(slots=True)
class BatchResult(Attempts):
    """The results of the partitions of one step.

    Attributes:
        done: partition key -> what was done.
        held: partition key -> why an earlier step of this run did not do what it is computed from.
        skipped: partition key -> the other branch that it belongs to.
        read: partition key -> its inputs, as far as they were found.
    """

    done: dict[str, Did] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, Choice] = field(default_factory=dict)
    read: dict[str, Inputs] = field(default_factory=dict)

    @property
    def findings(self) -> dict[str, Sequence[Finding]]:
        """The findings of partitions refused by audits, by partition key."""
        return {key: error.findings for key, error in self.errors.items() if isinstance(error, AuditFailed)}

    def failures(self) -> dict[str, str]:
        """Return, for each partition that failed or was held, the reason in one sentence."""
        held = {key: reason for key, reason in self.held.items() if key not in self.skipped}
        return dict(sorted({**held, **self.sentences()}.items()))


def latest(table: Table, key: str, *, until: int | None = None) -> Commit | None:
    """Return the newest commit of a key's partition of ``table`` up to a version.

    ``None`` if absent.
    """
    return table.ledger.latest(owned_by(key, table.spec), until=until) if table.ledger.exists() else None


def compute_all(context: dg.AssetExecutionContext, work: Work, at: datetime) -> BatchResult:
    """Compute the run's partitions in order, and go on after a refused partition."""
    keys = partition_keys(context)
    held = _held(context, keys) if len(keys) > 1 else {}
    batch = BatchResult(context.op_execution_context, work.target.name, held=held)
    read = batch.read
    for key in keys:
        with batch.at(key):
            choice = work.choose(key)
            if choice and choice.branch != work.branch:
                batch.skipped[key] = choice
            elif key not in batch.held:
                read[key] = work.reads(key)
                batch.done[key] = _compute_one(context, work, key, read[key], at)
        if batch.broken:
            break
        if work.refusals and (error := batch.refused.get(key)):
            work.refusals.note(key, _refusal(context, work, key, read.get(key), error))
    batch.tag_refused(lambda key: read[key].sequence if key in read else "")
    if tag := _unchanged_tag(work.target.name, batch.done):
        context.instance.add_run_tags(context.run.run_id, tag)
    return batch


def _compute_one(context: dg.AssetExecutionContext, work: Work, key: str, inputs: Inputs, at: datetime) -> Did:
    if inputs.remark:
        context.log.info(inputs.remark)
    did = _compute(context, work, Step(key, inputs, _provenance(context, work.target, inputs, at)))
    if work.refusals:
        work.refusals.clear(key)
    return did


def _refusal(
    context: dg.AssetExecutionContext, work: Work, key: str, inputs: Inputs | None, error: PatternError
) -> Refusal:
    """Return the note on a refusal, under every goal that a request may name."""
    read = [inputs.sequence, inputs.notes.get("delivery")] if inputs else []
    table = work.target
    named = [*read, goal_of(context.run.tags, table.name, key)]
    goals = tuple(str(goal) for goal in named if goal is not None)
    letters, stage = (error.letters, error.stage or "") if isinstance(error, AuditFailed) else ((), "")
    written, references = ([each.ledger for each in of] for of in (work.tables, work.references))
    judges = judged_by(work.declaration, written, references)
    reason = sentence(table.name, key, error)
    return Refusal(goals, _code_version(context, table), context.run.run_id, reason, letters, stage, judges)


def _compute(context: dg.AssetExecutionContext, work: Work, step: Step) -> Did:
    last = {table: latest(table, step.key) for table in work.tables}
    finished = all(_is_from(commit, table, step) for table, commit in last.items())
    lost = {table: files for table in work.tables if last[table] and (files := _lost(table, step))}
    because = "; ".join(lost_files_message(table.name, files) for table, files in lost.items())
    asked = "" if not step.provenance.replay else "somebody asked for it (force)"
    if finished and not lost and not asked:
        since = last[work.target]
        context.log.info(f"{work.target.name} {step.key}: unchanged since version {since.version if since else 0}")
        return Did(unchanged=since.version if since else 0, commits=last)
    if lost:
        context.log.warning(f"{work.target.name} {step.key} is computed again: {because}")
        step = replace(step, provenance=replace(step.provenance, cause="repair"))
        _clear_lost(work, step, lost)
    read = total(pinned.size() for pinned in step.inputs.pinned)
    result = _built(work, replace(step, provenance=replace(step.provenance, read=read)))
    if lost and (still := [lost_files_message(t.name, files) for t in lost if (files := _lost(t, step))]):
        raise ContractError(f"{'; '.join(still)}, and they cannot be computed again: put them back from a backup")
    return _did(work, step, result, because=(because or asked) if finished else because)


def _built(work: Work, step: Step) -> WriteResult:
    """Compute a partition.

    Raises:
        Conflict: if files were removed while the partition was computed from them.
    """
    try:
        return work.build(step)
    except (ConfigError, *SPARK_ERRORS) as error:
        gone = [pinned.table.name for pinned in step.inputs.pinned if pinned.is_gone()]
        if not gone:
            raise
        raise Conflict(
            f"{work.target.name} {step.key}: files of {', '.join(gone)} were removed while they were read, by an "
            "erasure or a vacuum: the partition is computed again from the present rows"
        ) from error


def _did(work: Work, step: Step, result: WriteResult, *, because: str) -> Did:
    """Return the result of a computed partition, with the commit of each table in the pattern's result."""
    results = {each.table: each for each in (result, *result.beside)}
    versions = {t: results[t.name].version if t.name in results else None for t in work.tables}
    return Did(
        unchanged=None if result.applied else result.version,
        because=because,
        outcome=result.reason,
        commits={table: latest(table, step.key, until=version) for table, version in versions.items()},
        results={table: results[table.name] for table in work.tables if table.name in results},
        written=tuple(results.values()),
    )


def _lost(table: Table, step: Step) -> Sequence[LostFile]:
    return lost_files(table.store, table.ledger.state(), step.owned(table))


def _clear_lost(work: Work, step: Step, lost: Mapping[Table, object]) -> None:
    """Empty the step's partitions with lost files in further outputs, which the computation reads."""
    for table in lost:
        if table is not work.target and (partition := step.owned(table)):
            # Other inputs than the step's: whatever becomes of the step, the partition does not count as computed.
            emptied = replace(step.provenance, inputs={"lost files": step.provenance.run_id}, replay=True)
            table.clear(partition=partition, provenance=emptied)


def _is_from(commit: Commit | None, table: Table, step: Step) -> bool:
    """Return whether a commit's rows were computed from the step's inputs by the step's code."""
    # A table keyed by executions names its newest one for every partition.
    own = not table.spec.executed_by or (commit and commit.record and commit.record.partition == step.owned(table))
    return bool(own) and is_computed_from(commit, step.inputs.identities, step.provenance.code_version)


def _provenance(context: dg.AssetExecutionContext, target: Table, inputs: Inputs, at: datetime) -> Provenance:
    notes = {"trigger": event_attributes(context.run.tags), "contracts": contracts_of(context)}
    chosen = context.op_execution_context.op_config
    forced = is_forced(context.run.tags) or bool(chosen and chosen.get("force"))
    provenance = provenance_of(context.run, target.name, code_version=_code_version(context, target), at=at)
    return replace(
        provenance,
        inputs=inputs.identities,
        sequence=inputs.sequence,
        cause="forced" if forced and CAUSE not in context.run.tags else provenance.cause,
        replay=forced,
        compare=is_comparing(context.run.tags),
        notes={**inputs.notes, **{name: each for name, each in notes.items() if each}},
    )


def _code_version(context: dg.AssetExecutionContext, table: Table) -> str:
    return context.assets_def.code_versions_by_key.get(dg.AssetKey(table.name.split("/"))) or "1"


def _held(context: dg.AssetExecutionContext, keys: Sequence[str]) -> dict[str, str]:
    """Return the keys that an earlier step of this run did not compute upstream, each with the reason."""
    graph = context.job_def.asset_layer
    parents = {parent for key in context.selected_asset_keys for parent in graph.get(key).parent_keys}
    logged = context.instance.all_logs(context.run.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION)
    seen = [entry.dagster_event.asset_observation_data.asset_observation for entry in logged if entry.dagster_event]
    reasons = {
        o.partition: o.metadata[NOT_COMPUTED].value
        for o in seen
        if o.asset_key in parents and o.partition in keys and NOT_COMPUTED in o.metadata
    }
    return {key: str(sentence) for key, sentence in reasons.items() if key is not None}


def _unchanged_tag(table: str, done: Mapping[str, Did]) -> dict[str, str]:
    since = {key: did.unchanged for key, did in done.items() if did.unchanged is not None}
    if not since:
        return {}
    alone = len(done) == 1
    return unchanged(table, f"since version {next(iter(since.values()))}" if alone else f"{len(since)} of {len(done)}")
