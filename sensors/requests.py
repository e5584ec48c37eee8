"""From a plan to run requests: one for each version a partition has to reach, again after a crash, never twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from dedp_assets.partitions import DAILY
from dedp_assets.patterns.core.results import Plan
from dedp_assets.run_tags import CAUSE, refusal, refusals

__all__ = ["ATTEMPTS", "ENDED_BADLY", "REQUEST", "Decision", "decide", "in_flight", "is_running"]

REQUEST = "dedp/request"
ATTEMPTS = 3
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
    """What becomes of a plan: runs to request, and why others are not."""

    requests: tuple[dg.RunRequest, ...]
    held: Mapping[str, str]


def in_flight(instance: dg.DagsterInstance, repository: dg.RepositoryDefinition | None, *tables: str) -> set[str]:
    """Partition keys that queued or running runs compute for one of ``tables``; of a range, every day."""
    wanted = {dg.AssetKey(table.split("/")) for table in tables}
    runs = instance.get_runs(dg.RunsFilter(statuses=_OPEN))
    return {key for run in runs if wanted & _assets(run, repository) for key in _partitions(run.tags)}


def _assets(run: dg.DagsterRun, repository: dg.RepositoryDefinition | None) -> set[dg.AssetKey]:
    """The tables that a run computes: those it was started for, or else all of its job."""
    if run.asset_selection is not None:
        return set(run.asset_selection)
    known = repository is not None and repository.has_job(run.job_name)
    return set(repository.get_job(run.job_name).asset_layer.selected_asset_keys) if repository and known else set()


def _partitions(tags: Mapping[str, str]) -> Sequence[str]:
    first, last = (tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end"))
    if first and last:
        return DAILY.get_partition_keys_in_range(dg.PartitionKeyRange(first, last))
    return [tags["dagster/partition"]] if "dagster/partition" in tags else []


def is_running(instance: dg.DagsterInstance, job_name: str) -> bool:
    """Whether a run of the job is queued or running."""
    return bool(instance.get_runs(dg.RunsFilter(job_name=job_name, statuses=_OPEN), limit=1))


def decide(
    instance: dg.DagsterInstance,
    plan: Plan,
    *,
    asset: str,
    job_name: str,
    behind: Mapping[str, Sequence[str]] | None = None,
) -> Decision:
    """Turn a plan into run requests.

    The run key is ``asset:partition@version``, so however often a plan comes back, one run starts for it. A run that
    crashed is tried again, under a key of its own, up to three times; one that was refused is not, until its inputs
    change.

    Args:
        instance: where runs are recorded.
        plan: partition keys, causes and versions.
        asset: the table that the runs are for.
        job_name: the job that computes it.
        behind: partition key -> tables that have to get there, where the job computes several beside each other: a
            refusal of one of them does not keep the others from being tried again.
    """
    requests, held = [], dict(plan.held)
    for key in plan.partitions:
        request = f"{asset}:{key}@{plan.cursor[key]}"
        failed = _failed(instance, {REQUEST: request})
        tables = behind.get(key, [asset]) if behind else [asset]
        refused = [_failed(instance, refusal(t, key if key != asset else "", plan.cursor[key])) for t in tables]
        if all(refused) or (not behind and any(refusals(run.tags) for run in failed)):
            held[key] = f"refused at {plan.cursor[key]}: waits for new data, a fix or an approval"
        elif len(failed) >= ATTEMPTS:
            held[key] = f"gave up after {ATTEMPTS} failed runs: look at run {failed[0].run_id[:8]}"
        else:
            attempt = f"#{len(failed) + 1}" if failed else ""
            tags = {CAUSE: plan.causes[key], REQUEST: request}
            requests.append(
                dg.RunRequest(
                    run_key=request + attempt,
                    partition_key=key if key != asset else None,
                    job_name=job_name,
                    tags=tags,
                )
            )
    return Decision(tuple(requests), held)


def _failed(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> Sequence[dg.DagsterRun]:
    return instance.get_runs(dg.RunsFilter(statuses=ENDED_BADLY, tags=dict(tags)))
