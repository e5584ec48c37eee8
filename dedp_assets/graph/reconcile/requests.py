"""Run requests from a plan: once per version that a partition has to reach, again after a failed run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from dedp_assets.graph.catalogue.selections import checks_of
from dedp_assets.graph.run.failures import failure_of
from dedp_assets.graph.run.run_tags import CAUSE, REQUEST, refusal, refusals
from dedp_assets.patterns.core.results import Plan

__all__ = ["ATTEMPTS", "ENDED_BADLY", "NOT_RETRIED", "Decision", "decide", "in_flight", "is_running", "runs_of"]

ATTEMPTS = 3
NOT_RETRIED = {"dagster/max_retries": "0"}
"""Tags of runs that Dagster does not start again after a crash, because a sensor asks for them again."""
ENDED_BADLY = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_OPEN = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a plan: runs to request, and reasons for held partitions."""

    requests: tuple[dg.RunRequest, ...]
    held: Mapping[str, str]


def in_flight(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition | None, *, launched_by: str = ""
) -> dict[str, set[str]]:
    """Return the tables and partition keys of queued or running runs, with every key of a range.

    Args:
        instance: where runs are recorded.
        repository: the code location.
        launched_by: a sensor whose runs count from when they were launched: one that its daemon only created before it
            died is launched when the sensor asks for it again.
    """
    found: dict[str, set[str]] = {}
    for run in instance.get_runs(dg.RunsFilter(statuses=_OPEN)):
        created = run.status is dg.DagsterRunStatus.NOT_STARTED
        if created and launched_by and run.tags.get("dagster/sensor_name") == launched_by:
            continue
        for asset in _assets(run, repository):
            partitions = repository.asset_graph.get(asset).partitions_def if repository else None
            found.setdefault("/".join(asset.path), set()).update(_partitions(run.tags, partitions))
    return found


def runs_of(instance: dg.DagsterInstance, requests: Sequence[str]) -> dict[str, list[dg.DagsterRun]]:
    """Return the ended runs of requests, newest first."""
    found: dict[str, list[dg.DagsterRun]] = {}
    for run in instance.get_runs(dg.RunsFilter(tags={REQUEST: list(requests)})) if requests else ():
        if run.is_finished:
            found.setdefault(run.tags[REQUEST], []).append(run)
    return found


def is_running(instance: dg.DagsterInstance, job_name: str) -> bool:
    """Return whether a run of the job is queued or running."""
    return bool(instance.get_runs(dg.RunsFilter(job_name=job_name, statuses=_OPEN), limit=1))


def decide(
    instance: dg.DagsterInstance,
    plan: Plan,
    *,
    asset: str,
    job_name: str = "",
    behind: Mapping[str, Sequence[str]] | None = None,
    together: Mapping[str, Sequence[str]] | None = None,
    repository: dg.RepositoryDefinition | None = None,
) -> Decision:
    """Turn a plan into run requests.

    The run key is ``asset:partition@version``, so however often a plan comes back, one run starts for it. A run that
    crashed is tried again, under a key of its own, up to three times; one that was refused is not, until its inputs
    change.

    Args:
        instance: where runs are recorded.
        plan: partition keys, causes and versions.
        asset: the table that the runs are for.
        job_name: the job that computes it; without one the runs are of tables.
        behind: partition key -> tables that have to get there, where a run computes several beside each other: a
            refusal of one of them does not keep the others from being tried again.
        together: table -> every table that the same step writes, for runs of tables.
        repository: the code location, for runs of tables: they leave out the checks that run alone.
    """
    requests, held = [], dict(plan.held)
    for key in plan.partitions:
        named, cursor = "" if key == asset else key, plan.cursor[key]
        request = f"{asset}:{key}@{cursor}"
        failed = _failed(instance, {REQUEST: request})
        tables = behind.get(key, [asset]) if behind else [asset]
        refused = {table: runs for table in tables if (runs := _failed(instance, refusal(table, named, cursor)))}
        wanted = [table for table in tables if table not in refused]
        other = [] if behind else [run for run in failed if refusals(run.tags)]
        if other or not wanted:
            said = failure_of(instance, [*other, *(runs[0] for runs in refused.values())][0])
            held[key] = f"refused at {cursor}: {said or 'waits for new data, a fix or an approval (`dedp status`)'}"
        elif len(failed) >= ATTEMPTS:
            held[key] = f"gave up after {ATTEMPTS} failed runs: look at run {failed[0].run_id[:8]}"
        else:
            selection = [
                dg.AssetKey(name.split("/")) for table in wanted for name in (together or {}).get(table, [table])
            ]
            requests.append(
                dg.RunRequest(
                    run_key=request + (f"#{len(failed) + 1}" if failed else ""),
                    partition_key=named or None,
                    job_name=job_name or None,
                    asset_selection=None if job_name else selection,
                    asset_check_keys=checks_of(repository.asset_graph, selection)
                    if repository and not job_name
                    else None,
                    tags={CAUSE: plan.causes[key], REQUEST: request, **NOT_RETRIED},
                )
            )
    return Decision(tuple(requests), held)


def _assets(run: dg.DagsterRun, repository: dg.RepositoryDefinition | None) -> set[dg.AssetKey]:
    """Return the tables of a run: its asset selection, otherwise all assets of its job."""
    if run.asset_selection is not None:
        return set(run.asset_selection)
    known = repository is not None and repository.has_job(run.job_name)
    return set(repository.get_job(run.job_name).asset_layer.selected_asset_keys) if repository and known else set()


def _partitions(tags: Mapping[str, str], partitions: dg.PartitionsDefinition[str] | None) -> Sequence[str]:
    first, last = (tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end"))
    if first and last and partitions:
        return partitions.get_partition_keys_in_range(dg.PartitionKeyRange(first, last))
    return [tags["dagster/partition"]] if "dagster/partition" in tags else [""]


def _failed(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> Sequence[dg.DagsterRun]:
    return instance.get_runs(dg.RunsFilter(statuses=ENDED_BADLY, tags=dict(tags)))
