"""Between the library and Dagster: declares tables as assets, runs partitions, and says in the UI what the ledger says.

The library knows nothing of Dagster; here its specs become asset specs, its findings check results, its commit records
materialization metadata, and its errors failures that are retried or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.batches import NOT_COMPUTED, TRANSIENT, Batch, Inputs, Step, Work, compute_all, latest, pin
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import (
    AuditFailed,
    PatternError,
)
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.log import Commit
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.rendering import Did, bounds, check_result, findings_of, metadata_of
from dedp_assets.run_tags import (
    APPROVED_AUDITS,
    APPROVED_BECAUSE,
    APPROVED_BY,
    CAUSE,
    FORCE,
    TRIGGER,
    approval_of,
    cause_of,
    refusal,
    refusals,
    told,
)

__all__ = [
    "APPROVED_AUDITS",
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
BEYOND_APPROVAL = "cannot be approved"
# Dagster takes an output for a materialization of every partition of the run. With this mark of its own it takes none;
# there is no public way to say which of them were computed.
_NO_MATERIALIZATION = {"__source_asset_observation__": True}


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
    batch = compute_all(context, work, at)
    _retry_transient(context, batch)
    commits = {(table, key): latest(table, part(key)) for table, part in work.tables.items() for key in batch.done}
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
    except TRANSIENT as error:
        raise _retry(context.retry_number) from error
    except PatternError as error:
        if not error.retryable:
            context.instance.add_run_tags(run.run_id, refusal(table.name, "", step.cursor))
        raise dg.Failure(str(error), allow_retries=False) from error
    finally:
        _report_appended(context, table, before, column)


def _retry_transient(context: dg.AssetExecutionContext, batch: Batch) -> None:
    """Ask for another attempt where one can help; what was done is reported by it."""
    number = context.op_execution_context.retry_number
    transient = next((error for error in batch.errors.values() if isinstance(error, TRANSIENT)), None)
    if transient and not batch.broken and number < _RETRIES:
        raise _retry(number) from transient


def _pass_on(
    work: Work, batch: Batch, commits: Mapping[tuple[Table, str], Commit | None]
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult | dg.AssetCheckEvaluation]:
    """Let the steps that follow go on with what was done; what was not is reported, and blocks only itself."""
    yield from _checks(work.target, replace(batch, errors={}), commits)
    yield from _evaluations(work.target.name, batch)
    for table in work.tables:
        yield dg.MaterializeResult(asset_key=table.name.split("/"), metadata=_NO_MATERIALIZATION)


def _failure(batch: Batch, failures: Mapping[str, str]) -> dg.Failure:
    stages = {key: e.stage or "none" for key, e in batch.errors.items() if isinstance(e, AuditFailed)}
    return dg.Failure(
        "; ".join(failures.values()),
        metadata={
            **{f"{key} refused rows".strip(): stage for key, stage in stages.items()},
            **{f"{key} {BEYOND_APPROVAL}".strip(): said for key, said in _beyond_approval(batch).items()},
        },
        allow_retries=False,
    )


def _is_read_later(context: dg.AssetExecutionContext) -> bool:
    """Whether a later step of this run reads what this one writes."""
    graph, mine, steps = context.job_def.asset_layer, context.selected_asset_keys, context.run.step_keys_to_execute
    children = {child for key in mine for child in graph.get(key).child_keys} - set(mine)
    later = {graph.get(child).assets_def.node_def.name for child in children & set(graph.selected_asset_keys)}
    return bool(later if steps is None else later & set(steps))


def _retry(number: int) -> dg.RetryRequested:
    """Ask for another attempt, after a pause that doubles each time."""
    return dg.RetryRequested(max_retries=_RETRIES, seconds_to_wait=_FIRST_WAIT_SECONDS * 2**number)


def _beyond_approval(batch: Batch) -> dict[str, str]:
    """Partition key -> what no person can overrule in its refusal."""
    found = {}
    for key, error in batch.errors.items():
        if isinstance(error, AuditFailed):
            fixed = [finding.name for finding in error.findings if finding.refuses and not finding.approvable]
            found[key] = ", ".join(fixed)
        else:
            found[key] = type(error).__name__
    return {key: said for key, said in found.items() if said}


def _tell_failures(context: dg.AssetExecutionContext, table: str, batch: Batch, failures: Mapping[str, str]) -> None:
    """Say of each partition that was not computed why, where people look at the asset."""
    for key, sentence in failures.items():
        if key:
            metadata = {NOT_COMPUTED: sentence}
            context.log_event(dg.AssetObservation(table.split("/"), partition=key, metadata=metadata))
        if batch.done or batch.broken:
            context.log.error(sentence)


def _checks(
    target: Table, batch: Batch, commits: Mapping[tuple[Table, str], Commit | None]
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


def _evaluations(table: str, batch: Batch) -> Iterator[dg.AssetCheckEvaluation]:
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
