"""Dagster runs of a declared table: computation of the partitions, and a report of the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.lineage import observed_columns
from dedp_assets.graph.catalogue.rendering import Did, check_result, findings_of, materialized, metadata_of
from dedp_assets.graph.outcomes.failures import failure
from dedp_assets.graph.outcomes.run_tags import BECAUSE, event_attributes
from dedp_assets.graph.resources.masking import shown
from dedp_assets.graph.run.batches import NOT_COMPUTED, BatchResult, Work, compute_all, contracts_of
from dedp_assets.graph.run.choices import observe_skipped, path_taken, unjudged
from dedp_assets.graph.run.observed import observed_step
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.delta import Table

__all__ = ["run"]

_FURTHER = "constraints_hold"
"""Check of every table that takes the findings without a check of their own."""
_UNJUDGED = "nothing judged the rows by it before they were published"

Event = dg.MaterializeResult[Any] | dg.AssetCheckResult | dg.AssetCheckEvaluation | dg.Output[None]

# Dagster takes an output for a materialization of every partition of the run. With this mark of its own it takes none;
# there is no public way to say which of them were computed.
_NO_MATERIALIZATION = {"__source_asset_observation__": True}


def run(context: dg.AssetExecutionContext, work: Work, *, at: datetime) -> Iterator[Event]:
    """Compute the run's partitions in order, commit each separately, and yield the results.

    A partition whose inputs and code are what its last commit says they were is not computed again, unless files of it
    are lost or somebody asks for it. One that is refused or not ready does not keep the others of its run from being
    published, nor from being read by the steps that follow: the last one of them fails with its reason. One of another
    branch is skipped: the observation of it names the branch, and the step succeeds.

    Args:
        context: Dagster's.
        work: how the table is computed.
        at: when the run started.

    Raises:
        dagster.Failure: if a partition was refused or not ready; the failed checks are stored first.
        dagster.RetryRequested: if another writer was in the way, or something did not answer in time.
    """
    with observed_step(context, work) as seen:
        batch = compute_all(context, work, at)
        seen.note(batch)
        # Whoever delivers the end of the step finds the traced columns.
        columns = {table.name: _columns(context, work, table) for table in work.tables} if batch.done else {}
    batch.raise_retry()
    failures = batch.failures()
    _observe_failures(context, work.target.name, batch, failures)
    observe_skipped(context, work.tables, batch.skipped)
    if not (failures or batch.broken or batch.skipped):
        yield from _checks(context, work.target, batch.done, batch.findings)
        for table in work.tables:
            yield _materialization(context, work, table, batch.done, columns[table.name])
        return
    for table in work.tables:
        for key, metadata in _metadata(context, work, table, batch.done, columns.get(table.name, {})).items():
            context.log_event(dg.AssetMaterialization(table.name.split("/"), partition=key or None, metadata=metadata))
    passable = bool(batch.done or batch.skipped)
    if not batch.broken and (not failures or (passable and _is_read_later(context))):
        yield from _pass_on(context, work, batch)
        return
    yield from _checks(context, work.target, batch.done, batch.findings)
    batch.raise_broken()
    raise failure(batch.errors, failures)


def _pass_on(context: dg.AssetExecutionContext, work: Work, batch: BatchResult) -> Iterator[Event]:
    """Yield results that let later steps go on, and no materialization of a failed or skipped partition."""
    yield from _checks(context, work.target, batch.done, {})
    yield from _evaluations(context, work.target.name, batch)
    for table in work.tables:
        yield dg.MaterializeResult(asset_key=table.name.split("/"), metadata=_NO_MATERIALIZATION)


def _is_read_later(context: dg.AssetExecutionContext) -> bool:
    """Return whether a later step of this run reads this step's tables."""
    graph, mine, steps = context.job_def.asset_layer, context.selected_asset_keys, context.run.step_keys_to_execute
    children = {child for key in mine for child in graph.get(key).child_keys} - set(mine)
    later = {graph.get(child).assets_def.node_def.name for child in children & set(graph.selected_asset_keys)}
    return bool(later if steps is None else later & set(steps))


def _observe_failures(
    context: dg.AssetExecutionContext, table: str, batch: BatchResult, failures: Mapping[str, str]
) -> None:
    """Record the reason of each failed partition as an observation of the asset."""
    for key, sentence in failures.items():
        if key:
            metadata = {NOT_COMPUTED: sentence}
            context.log_event(dg.AssetObservation(table.split("/"), partition=key, metadata=metadata))
        if batch.done or batch.broken:
            context.log.error(sentence)


def _checks(
    context: dg.AssetExecutionContext,
    target: Table,
    done: Mapping[str, Did],
    refused: Mapping[str, Sequence[Finding]],
) -> Iterator[dg.AssetCheckResult | dg.Output[None]]:
    """Yield one result per declared check: the worst of the run's partitions, with all figures.

    Dagster waits for each declared check and takes no other, and fails a step for one that refuses. A check that judged
    nothing of a write warns; one of partitions that were not written has no result, and its last verdict stands.
    """
    seen, blocking = (
        dict[str, dict[str, Finding]](),
        {spec.name for spec in context.assets_def.check_specs if spec.blocking},
    )
    for key, did in done.items():
        returned = did.results[target].findings if target in did.results else ()
        for finding in _by_check(context, (*findings_of(did.commits.get(target)), *returned)):
            # A blocking check that fails would fail the step, and the pattern has returned: it published the rows, or
            # put them into quarantine.
            found = replace(finding, severity="warn") if finding.name in blocking else finding
            seen.setdefault(finding.name, {})[key] = found
    for key, findings in refused.items():
        for finding in _by_check(context, findings):
            seen.setdefault(finding.name, {})[key] = finding
    written = [key for key, did in done.items() if did.unchanged is None]
    for name in _declared(context) - seen.keys() if written else ():
        seen[name] = {key: Finding(name, passed=False, severity="warn", note=_UNJUDGED) for key in written}
    for name, by_key in seen.items():
        yield check_result(target.name, name, by_key, contracts_of(context).get(target.name, ""))
    yield from unjudged(context, seen)


def _declared(context: dg.AssetExecutionContext) -> set[str]:
    return {check.name for check in context.assets_def.check_keys}


def _by_check(context: dg.AssetExecutionContext, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield one finding per declared check; findings without a check of their own share one.

    A pattern brings audits of its own, whose names need not be declared, and some cannot be: they hold types, and the
    partition of the run.
    """
    declared, found, further = _declared(context), dict[str, Finding](), dict[str, Finding]()
    for finding in findings:
        (found if finding.name in declared and finding.name != _FURTHER else further)[finding.name] = finding
    yield from found.values()
    if further:
        worst = max(further.values(), key=lambda each: (each.refuses, not each.passed))
        figures = {name: figure for each in further.values() for name, figure in each.figures.items()}
        noted = [each for each in further.values() if each.note or not each.passed]
        note = "; ".join(each.note if each.name == _FURTHER else f"{each.name}: {each.note}" for each in noted)
        yield replace(worst, name=_FURTHER, figures=figures, note=note)


def _evaluations(
    context: dg.AssetExecutionContext, table: str, batch: BatchResult
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the verdicts on refused partitions as separate non-blocking evaluations."""
    refused = [(key, each) for key, found in batch.findings.items() for each in _by_check(context, found)]
    for key, finding in refused:
        result = check_result(table, finding.name, {key: finding}, contracts_of(context).get(table, ""))
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
    context: dg.AssetExecutionContext, work: Work, table: Table, done: Mapping[str, Did], columns: Mapping[str, Any]
) -> dg.MaterializeResult[Any]:
    asset_key = dg.AssetKey(table.name.split("/"))
    by_key = _metadata(context, work, table, done, columns)
    commit = next(iter(done.values())).commits.get(table)
    return materialized(context, asset_key, by_key, commit.record.fingerprint if commit and commit.record else None)


def _metadata(
    context: dg.AssetExecutionContext, work: Work, table: Table, done: Mapping[str, Did], columns: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the metadata of each partition key: the computation, plan, trigger and lineage."""
    trigger = {f"trigger {name.replace('_', ' ')}": value for name, value in event_attributes(context.run.tags).items()}
    commits = {key: did.commits.get(table) for key, did in done.items()}
    metadata = metadata_of(table, commits, done, figures=work.figures)
    planned = {"planned because": reasons} if (reasons := context.run.tags.get(BECAUSE, "")) else {}
    further = {**trigger, **planned, **columns}
    return {k: {**told_of, **path_taken(work.choose(k)), **further} for k, told_of in metadata.items()}


def _columns(context: dg.AssetExecutionContext, work: Work, table: Table) -> dict[str, Any]:
    """Return the observed column lineage of a table, or the declared one without an observation."""
    declared = work.lineage.get(table.name)
    if declared is None:
        return {}
    if work.traces is not None:
        try:
            if observed := work.traces.of(table.name):
                return {**observed_columns(declared, observed, work.traces.upstream, table.spec.columns)}
        except Exception as error:
            context.log.warning(f"the column lineage of {table.name} could not be traced: {shown(str(error))}")
    return {"dagster/column_lineage": declared} if declared.deps_by_column else {}
