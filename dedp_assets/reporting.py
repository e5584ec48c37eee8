"""Between the library and Dagster: declares tables as assets, runs partitions, and says in the UI what the ledger says.

The library knows nothing of Dagster; here its specs become asset specs, its findings check results, its commit records
materialization metadata, and its errors failures that are retried or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import (
    AuditFailed,
    Conflict,
    ContractError,
    NotReady,
    PatternError,
    TransactionReused,
)
from dedp_assets.patterns.core.log import Commit, Ledger
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.tables import Table
from dedp_assets.patterns.core.verification import lost_files, tell_lost
from dedp_assets.rendering import Did, bounds, check_result, findings_of, metadata_of
from dedp_assets.run_tags import (
    APPROVED_BECAUSE,
    APPROVED_BY,
    CAUSE,
    FORCE,
    TRIGGER,
    approval_of,
    cause_of,
    is_forced,
    refusal,
    refusals,
    told,
    unchanged,
)

__all__ = [
    "APPROVED_BECAUSE",
    "APPROVED_BY",
    "BEYOND_APPROVAL",
    "CAUSE",
    "FORCE",
    "LAUNCHPAD",
    "TRIGGER",
    "Appending",
    "Inputs",
    "Step",
    "Work",
    "appending",
    "asset_spec",
    "check_specs",
    "outcome",
    "pin",
    "refusal",
    "refusals",
    "run",
    "told",
]

LAUNCHPAD = {
    "force": dg.Field(
        bool,
        default_value=False,
        description="Compute although nothing it is computed from has changed. Other rows than the same inputs gave "
        "before are then published, and the ledger says that somebody asked for it.",
    )
}
"""What may be chosen for a table in the launchpad; the run tag ``dedp/force=true`` asks for it in every table."""

_ALWAYS = ("rows_are_accounted_for", "rows_lie_in_their_partition", "constraints_hold")
_RETRIES = 2
_FIRST_WAIT_SECONDS = 2
_TRANSIENT = (Conflict, TimeoutError, ConnectionError)
_NOT_COMPUTED = "not computed"
BEYOND_APPROVAL = "cannot be approved"
# Dagster takes an output for a materialization of every partition of the run. With this mark of its own it takes none;
# there is no public way to say which of them were computed.
_NO_MATERIALIZATION = {"__source_asset_observation__": True}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What one partition's computation reads, pinned before it starts.

    Attributes:
        identities: upstream name -> version or content identity; equal ones and equal code mean equal rows.
        versions: upstream table -> version to read.
        sequence: upstream version this partition applies; ``None`` counts runs.
        notes: facts for the ledger.
        found: what was looked at to know all this, for ``build`` to read exactly that; not for the ledger.
    """

    identities: Mapping[str, Any]
    versions: Mapping[str, int] = field(default_factory=dict)
    sequence: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    found: Any = None


@dataclass(frozen=True, slots=True)
class Step:
    """One partition to compute.

    Attributes:
        key: Dagster's partition key; empty for an unpartitioned asset.
        inputs: what to read.
        provenance: what the commit will say about this run.
    """

    key: str
    inputs: Inputs
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Work:
    """How one table is computed, partition by partition.

    Attributes:
        target: the table whose checks are reported.
        owned: partition key -> partition values a run owns in ``target``.
        reads: partition key -> what to read; raises if it is not ready.
        build: computes and publishes one partition.
        beside: further tables that ``build`` writes, with the partition values it owns there.
    """

    target: Table
    owned: Callable[[str], Mapping[str, str]]
    reads: Callable[[str], Inputs]
    build: Callable[[Step], object]
    beside: Mapping[Table, Callable[[str], Mapping[str, str]]] = field(default_factory=dict)

    @property
    def tables(self) -> dict[Table, Callable[[str], Mapping[str, str]]]:
        """Every table that ``build`` writes."""
        return {self.target: self.owned, **self.beside}


def asset_spec(
    table: TableSpec,
    *,
    patterns: Sequence[Callable[..., Any]],
    owners: Sequence[str],
    code_version: str,
    deps: Sequence[Any] = (),
    partitions: dg.PartitionsDefinition | None = None,
) -> dg.AssetSpec:
    """A table as a software-defined asset: key, lineage, columns, owners, kinds, patterns at work (main one first)."""
    ids = [pattern.__module__.removeprefix("dedp_assets.patterns.") for pattern in patterns]
    named = ", ".join(id_.partition(".")[2].replace("_", " ").title() for id_ in ids)
    columns = [
        dg.TableColumn(name, c.type.lower(), c.comment, dg.TableColumnConstraints(nullable=not c.required))
        for name, c in table.columns.items()
    ]
    return dg.AssetSpec(
        table.name.split("/"),
        deps=deps,
        description=f"{table.comment}\n\nPatterns at work: {named}.",
        metadata={
            "dagster/column_schema": dg.TableSchema(
                columns, constraints=dg.TableConstraints(other=[f"{n}: {p}" for n, p in table.checks.items()])
            ),
            "dagster/table_name": table.name.replace("/", "."),
            "partitioned_by": ", ".join(table.partition_by) or "nothing",
            "patterns": ", ".join(ids),
        },
        group_name=table.name.split("/")[0],
        code_version=code_version,
        owners=owners,
        tags={"dedp/pattern": ids[0], "dedp/chapter": ids[0].partition(".")[0]},
        kinds={"spark", "deltalake", table.name.split("/")[0]},
        partitions_def=partitions,
    )


def check_specs(
    table: TableSpec, audits: Sequence[Audit], *names: str, partitions: dg.PartitionsDefinition | None = None
) -> list[dg.AssetCheckSpec]:
    """One blocking check for every audit, for the rules every write keeps, and for each further name."""
    described = {audit.name: bounds(audit) for audit in audits}
    return [
        dg.AssetCheckSpec(
            name,
            asset=dg.AssetKey(table.name.split("/")),
            description=described.get(name),
            blocking=True,
            partitions_def=partitions,
        )
        for name in dict.fromkeys([*_ALWAYS, *described, *names])
    ]


@dataclass(slots=True)
class _Batch:
    """What became of the partitions of one step.

    Attributes:
        done: partition key -> what was done.
        errors: partition key -> why it was not done.
        held: partition key -> why an earlier step of this run did not do what it is computed from.
        broken: what ended the step before all of its partitions were tried.
    """

    done: dict[str, Did] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    broken: Exception | None = None

    @property
    def findings(self) -> Iterator[tuple[str, Finding]]:
        """Every finding of a refusal, with its partition key."""
        for key, error in self.errors.items():
            yield from ((key, finding) for finding in (error.findings if isinstance(error, AuditFailed) else ()))

    def failures(self, table: str) -> dict[str, str]:
        """Partition key -> one sentence on why it was not done."""
        said = {key: _sentence(table, key, error) for key, error in self.errors.items()}
        return dict(sorted({**self.held, **said}.items()))


def run(
    context: dg.AssetExecutionContext, work: Work, *, at: datetime
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult | dg.AssetCheckEvaluation]:
    """Compute the run's partitions one after the other, each in commits of its own, and report them from the ledger.

    A partition whose inputs and code are what its last commit says they were is not computed again, unless files of it
    are lost or somebody asks for it. One that is refused or not ready does not keep the others of its run from being
    published, nor from being read by the steps that follow: the last one of them fails with its reason.

    Args:
        context: Dagster's.
        work: how the table is computed.
        at: when the run started.

    Raises:
        dagster.Failure: if a partition was refused or not ready; the failed checks are stored first.
        dagster.RetryRequested: if another writer was in the way, or something did not answer in time.
    """
    batch = _compute_all(context, work, at)
    _retry_transient(context, batch)
    commits = {(table, key): _latest(table, part(key)) for table, part in work.tables.items() for key in batch.done}
    failures = batch.failures(work.target.name)
    _tell_failures(context, work.target.name, batch, failures)
    if not failures and not batch.broken:
        yield from _checks(work.target, batch, commits)
        for table in work.tables:
            yield _materialization(context, table, batch.done, commits)
        return
    for table in work.tables:
        _log_materializations(context, table, batch.done, commits)
    if batch.done and not batch.broken and _is_read_later(context):
        yield from _pass_on(work, batch, commits)
        return
    yield from _checks(work.target, batch, commits)
    raise batch.broken or _failure(batch, failures)


def pin(upstream: Ledger, day: str, *partitions: Mapping[str, str | None], written: Mapping[str, str]) -> Inputs:
    """Pin the version of an upstream table that changed what a day is computed from last.

    A day that was written without a row changed nothing and is there all the same.

    Args:
        upstream: the upstream table's log.
        day: the partition key, for the message.
        partitions: the partitions that will be read.
        written: the partition that says that the upstream has dealt with the day.

    Raises:
        NotReady: if it has not.
    """
    version = upstream.version()
    newest = upstream.changed(*partitions, until=version) or upstream.latest(written, until=version)
    if newest is None:
        raise NotReady(f"{upstream.name} holds nothing of {day} yet: materialize that first")
    versions = {upstream.name: newest.version}
    return Inputs(versions, versions=versions, sequence=newest.version)


def outcome(table: TableSpec, finding: Finding) -> dg.AssetCheckResult:
    """A finding that stands in no commit of the table, as the result of the check of its name."""
    return check_result(table.name, finding.name, {"": finding})


@dataclass(slots=True)
class Appending:
    """A run that appends to a table.

    Attributes:
        provenance: what its commits will say about it.
        cursor: the position it goes on from, for the tag of a refusal.
    """

    provenance: Provenance
    cursor: str = ""


@contextmanager
def appending(
    context: dg.OpExecutionContext, table: Table, *, code_version: str, column: str, at: datetime
) -> Iterator[Appending]:
    """Run the block as one step that appends to ``table``, and report the partitions that it brought rows for.

    Args:
        context: Dagster's.
        table: where the block appends, in commits of its own.
        code_version: version of the code that computes the rows.
        column: partition column of the table that the asset is partitioned by.
        at: when the run started.

    Raises:
        dagster.Failure: if rows were refused or the upstream is not ready; what was appended before is reported.
        dagster.RetryRequested: if another writer was in the way, or something did not answer in time.
    """
    run = context.run
    before = table.ledger.version() if table.ledger.exists() else -1
    provenance = Provenance(
        asset=table.name,
        run_id=run.run_id,
        code_version=code_version,
        cause=cause_of(run),
        approval=approval_of(run),
        at=at,
    )
    step = Appending(provenance)
    try:
        yield step
    except _TRANSIENT as error:
        raise _retry(context.retry_number) from error
    except PatternError as error:
        if not error.retryable:
            context.instance.add_run_tags(run.run_id, refusal(table.name, "", step.cursor))
        raise dg.Failure(str(error), allow_retries=False) from error
    finally:
        _report_appended(context, table, before, column)


def _retry_transient(context: dg.AssetExecutionContext, batch: _Batch) -> None:
    """Ask for another attempt where one can help; what was done is reported by it."""
    number = context.op_execution_context.retry_number
    transient = next((error for error in batch.errors.values() if isinstance(error, _TRANSIENT)), None)
    if transient and not batch.broken and number < _RETRIES:
        raise _retry(number) from transient


def _pass_on(
    work: Work, batch: _Batch, commits: Mapping[tuple[Table, str], Commit | None]
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult | dg.AssetCheckEvaluation]:
    """Let the steps that follow go on with what was done; what was not is reported, and blocks only itself."""
    yield from _checks(work.target, replace(batch, errors={}), commits)
    yield from _evaluations(work.target.name, batch)
    for table in work.tables:
        yield dg.MaterializeResult(asset_key=table.name.split("/"), metadata=_NO_MATERIALIZATION)


def _failure(batch: _Batch, failures: Mapping[str, str]) -> dg.Failure:
    stages = {key: e.stage or "none" for key, e in batch.errors.items() if isinstance(e, AuditFailed)}
    return dg.Failure(
        "; ".join(failures.values()),
        metadata={
            **{f"{key} refused rows".strip(): stage for key, stage in stages.items()},
            **{f"{key} {BEYOND_APPROVAL}".strip(): said for key, said in _beyond_approval(batch).items()},
        },
        allow_retries=False,
    )


def _compute_all(context: dg.AssetExecutionContext, work: Work, at: datetime) -> _Batch:
    partitioned = context.has_partition_key or context.has_partition_key_range
    keys = list(context.partition_keys) if partitioned else [""]
    batch = _Batch(held=_held(context, keys) if len(keys) > 1 else {})
    refused: dict[str, str] = {}
    for key in keys:
        sequence: object = ""
        if key in batch.held:
            continue
        try:
            inputs = work.reads(key)
            sequence = inputs.sequence
            batch.done[key] = _compute(context, work, Step(key, inputs, _provenance(context, work.target, inputs, at)))
        except (PatternError, *_TRANSIENT) as error:
            batch.errors[key] = error
            if isinstance(error, PatternError) and not error.retryable:
                refused |= refusal(work.target.name, key, sequence)
        except Exception as error:  # whatever it is, what was done before it has to be reported
            batch.broken = error
            break
    if tags := {**refused, **_unchanged_tag(work.target.name, batch.done)}:
        context.instance.add_run_tags(context.run.run_id, tags)
    return batch


def _compute(context: dg.AssetExecutionContext, work: Work, step: Step) -> Did:
    parts = {table: part(step.key) for table, part in work.tables.items()}
    last = {table: _latest(table, part) for table, part in parts.items()}
    settled = all(commit and _is_from(commit, step) for commit in last.values())
    lost = {table: files for table, part in parts.items() if last[table] and (files := _lost(table, part))}
    because = "; ".join(tell_lost(table.name, files) for table, files in lost.items())
    asked = "" if not step.provenance.replay else "somebody asked for it (force)"
    if settled and not lost and not asked:
        since = last[work.target]
        context.log.info(f"{work.target.name} {step.key}: unchanged since version {since.version if since else 0}")
        return Did(unchanged=since.version if since else 0)
    if lost:
        context.log.warning(f"{work.target.name} {step.key} is computed again: {because}")
        step = replace(step, provenance=replace(step.provenance, cause="repair"))
        _clear_lost(work, step, lost)
    result = work.build(step)
    if lost and (still := [tell_lost(t.name, files) for t in lost if (files := _lost(t, parts[t]))]):
        raise ContractError(f"{'; '.join(still)}, and they cannot be computed again: put them back from a backup")
    said = result.reason if isinstance(result, WriteResult) else ""
    return Did(because=(because or asked) if settled else because, outcome=said)


def _lost(table: Table, partition: Mapping[str, str]) -> Sequence[Any]:
    return lost_files(table.location, table.ledger.state(), partition)


def _clear_lost(work: Work, step: Step, lost: Mapping[Table, object]) -> None:
    """Empty the partitions beside the target that nobody can read any more: what is built next to it reads them."""
    for table in lost:
        if table is not work.target and (part := work.tables[table](step.key)):
            emptied = replace(
                step.provenance, inputs={"lost files": step.provenance.run_id}, sequence=None, replay=True
            )
            table.clear(partition=part, provenance=emptied)


def _is_from(commit: Commit, step: Step) -> bool:
    """Whether a commit's rows were computed from the step's inputs by the step's code."""
    record, wanted = commit.record, step.provenance
    return record is not None and (record.inputs, record.code_version) == (step.inputs.identities, wanted.code_version)


def _provenance(context: dg.AssetExecutionContext, target: Table, inputs: Inputs, at: datetime) -> Provenance:
    asset_key = dg.AssetKey(target.name.split("/"))
    trigger = told(context.run.tags)
    chosen = context.op_execution_context.op_config
    forced = is_forced(context.run.tags) or bool(chosen and chosen.get("force"))
    return Provenance(
        asset=target.name,
        run_id=context.run.run_id,
        code_version=context.assets_def.code_versions_by_key.get(asset_key) or "1",
        inputs=inputs.identities,
        sequence=inputs.sequence,
        cause="forced" if forced and CAUSE not in context.run.tags else cause_of(context.run),
        approval=approval_of(context.run),
        replay=forced,
        at=at,
        notes={**inputs.notes, "trigger": trigger} if trigger else inputs.notes,
    )


def _held(context: dg.AssetExecutionContext, keys: Sequence[str]) -> dict[str, str]:
    """Of ``keys``, those that an earlier step of this run did not compute what they are computed from for, and why."""
    graph = context.job_def.asset_layer
    parents = {parent for key in context.selected_asset_keys for parent in graph.get(key).parent_keys}
    logged = context.instance.all_logs(context.run.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION)
    seen = [entry.dagster_event.asset_observation_data.asset_observation for entry in logged if entry.dagster_event]
    said = {
        o.partition: o.metadata[_NOT_COMPUTED].value for o in seen if o.asset_key in parents and o.partition in keys
    }
    return {key: str(sentence) for key, sentence in said.items() if key is not None}


def _is_read_later(context: dg.AssetExecutionContext) -> bool:
    """Whether a later step of this run reads what this one writes."""
    graph, mine, steps = context.job_def.asset_layer, context.selected_asset_keys, context.run.step_keys_to_execute
    children = {child for key in mine for child in graph.get(key).child_keys} - set(mine)
    later = {graph.get(child).assets_def.node_def.name for child in children & set(graph.selected_asset_keys)}
    return bool(later if steps is None else later & set(steps))


def _retry(number: int) -> dg.RetryRequested:
    """Ask for another attempt, after a pause that doubles each time."""
    return dg.RetryRequested(max_retries=_RETRIES, seconds_to_wait=_FIRST_WAIT_SECONDS * 2**number)


def _sentence(table: str, key: str, error: Exception) -> str:
    """One sentence that names the partition."""
    said = str(error) if key in str(error) else f"{table} {key}: {error}"
    if isinstance(error, TransactionReused):
        return f"{said}. To publish them, run it with force (dedp run {' '.join([table, key]).strip()} --force)"
    return said


def _beyond_approval(batch: _Batch) -> dict[str, str]:
    """Partition key -> what no person can overrule in its refusal."""
    found = {}
    for key, error in batch.errors.items():
        if isinstance(error, AuditFailed):
            fixed = [finding.name for finding in error.findings if finding.refuses and not finding.approvable]
            found[key] = ", ".join(fixed)
        else:
            found[key] = type(error).__name__
    return {key: said for key, said in found.items() if said}


def _tell_failures(context: dg.AssetExecutionContext, table: str, batch: _Batch, failures: Mapping[str, str]) -> None:
    """Say of each partition that was not computed why, where people look at the asset."""
    for key, sentence in failures.items():
        if key:
            metadata = {_NOT_COMPUTED: sentence}
            context.log_event(dg.AssetObservation(table.split("/"), partition=key, metadata=metadata))
        if batch.done or batch.broken:
            context.log.error(sentence)


def _unchanged_tag(table: str, done: Mapping[str, Did]) -> dict[str, str]:
    since = {key: did.unchanged for key, did in done.items() if did.unchanged is not None}
    if not since:
        return {}
    alone = len(done) == 1
    return unchanged(table, f"since version {next(iter(since.values()))}" if alone else f"{len(since)} of {len(done)}")


def _latest(table: Table, partition: Mapping[str, str]) -> Commit | None:
    return table.ledger.latest(partition) if table.ledger.exists() else None


def _checks(
    target: Table, batch: _Batch, commits: Mapping[tuple[Table, str], Commit | None]
) -> Iterator[dg.AssetCheckResult]:
    """One result per check, the worst over the run's partitions, with the figures of each."""
    seen: dict[str, dict[str, Finding]] = {}
    for key in batch.done:
        for finding in findings_of(commits[target, key]):
            seen.setdefault(finding.name, {})[key] = finding
    for key, finding in batch.findings:
        seen.setdefault(finding.name, {})[key] = finding
    for name, by_key in seen.items():
        yield check_result(target.name, name, by_key)


def _evaluations(table: str, batch: _Batch) -> Iterator[dg.AssetCheckEvaluation]:
    """The verdicts on partitions that were refused, each by itself, so that they do not block the others."""
    for key, finding in batch.findings:
        result = check_result(table, finding.name, {key: finding})
        yield dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(table.split("/")),
            check_name=finding.name,
            passed=result.passed,
            metadata=result.metadata,
            severity=result.severity,
            description=result.description,
            blocking=False,
            partition=key,
        )


def _materialization(
    context: dg.AssetExecutionContext,
    table: Table,
    done: Mapping[str, Did],
    commits: Mapping[tuple[Table, str], Commit | None],
) -> dg.MaterializeResult[Any]:
    asset_key = dg.AssetKey(table.name.split("/"))
    by_key = _reported(context, table, done, commits)
    if len(by_key) > 1:
        for key, metadata in by_key.items():
            context.add_asset_metadata(metadata, asset_key=asset_key, partition_key=key)
        return dg.MaterializeResult(asset_key=asset_key, metadata={"partitions": len(by_key)})
    ((key, metadata),) = by_key.items()
    commit = commits[table, key]
    version = dg.DataVersion(commit.record.fingerprint) if commit and commit.record else None
    return dg.MaterializeResult(asset_key=asset_key, metadata=metadata, data_version=version)


def _log_materializations(
    context: dg.AssetExecutionContext,
    table: Table,
    done: Mapping[str, Did],
    commits: Mapping[tuple[Table, str], Commit | None],
) -> None:
    """Record what was published, each partition by itself."""
    for key, metadata in _reported(context, table, done, commits).items():
        context.log_event(dg.AssetMaterialization(table.name.split("/"), partition=key or None, metadata=metadata))


def _reported(
    context: dg.AssetExecutionContext,
    table: Table,
    done: Mapping[str, Did],
    commits: Mapping[tuple[Table, str], Commit | None],
) -> dict[str, dict[str, Any]]:
    trigger = {f"trigger {name.replace('_', ' ')}": value for name, value in told(context.run.tags).items()}
    metadata = metadata_of(table, {key: commits[table, key] for key in done}, done)
    return {key: {**told_of, **trigger} for key, told_of in metadata.items()}


def _report_appended(context: dg.OpExecutionContext, table: Table, before: int, column: str) -> None:
    """A materialization of each partition that this run's commits after version ``before`` brought rows for."""
    commits = table.ledger.commits(since=before) if table.ledger.exists() else ()
    ours = [c for c in commits if c.record and c.record.run_id == context.run.run_id]
    changed = [(dict(partition)[column], commit) for commit in ours for partition in commit.changed]
    newest: dict[str, Commit | None] = {key: commit for key, commit in changed if key is not None}
    for key, metadata in metadata_of(table, dict(sorted(newest.items())), {}, column=column).items():
        context.log_event(dg.AssetMaterialization(table.name.split("/"), partition=key, metadata=metadata))
