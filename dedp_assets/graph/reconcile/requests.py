"""Runs that Dagster knows, and the planner's choice as run requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import shorten

import dagster as dg

from dedp_assets.graph.catalogue.selections import checks_of
from dedp_assets.graph.inputs.upstream_runs import ENDED_BADLY, OPEN, assets_of, partitions_of
from dedp_assets.graph.outcomes.failures import failure_of
from dedp_assets.graph.outcomes.refusals import Refusal
from dedp_assets.graph.outcomes.run_tags import (
    BECAUSE,
    CAUSE,
    CODE,
    REQUEST,
    keys_of,
    range_tags,
    refusal,
    refusals,
    request_of,
)
from dedp_assets.graph.reconcile.reconciling import Ask, Tried, Want, plan_requests
from dedp_assets.patterns.core.results import Plan

__all__ = ["NOT_RETRIED", "RunRequests", "decide", "in_flight", "is_running", "run_request", "tried"]

NOT_RETRIED = {"dagster/max_retries": "0"}
"""Tags of runs that Dagster does not start again after a crash, because a sensor asks for them again."""
_PRIORITY = "dagster/priority"
_LONGEST = 500
"""Most characters of the reasons in a tag: of a run of many partitions the plan lists each."""


@dataclass(frozen=True, slots=True)
class RunRequests:
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
    for run in instance.get_runs(dg.RunsFilter(statuses=OPEN)):
        created = run.status is dg.DagsterRunStatus.NOT_STARTED
        if created and launched_by and run.tags.get("dagster/sensor_name") == launched_by:
            continue
        for asset in assets_of(run, repository):
            partitions = partitions_of(asset, repository)
            found.setdefault("/".join(asset.path), set()).update(keys_of(run.tags, partitions) or [""])
    return found


def tried(instance: dg.DagsterInstance, requests: Mapping[str, str], *, failed_only: bool = False) -> dict[str, Tried]:
    """Count the ended runs of each request by status, or the failed runs alone with ``failed_only``.

    Args:
        instance: where runs are recorded.
        requests: name of a request -> present code, by which attempts are counted; a run without a code counts, too.
        failed_only: whether runs that succeeded do not count.
    """
    statuses = ENDED_BADLY if failed_only else [*ENDED_BADLY, dg.DagsterRunStatus.SUCCESS]
    found: dict[str, list[dg.DagsterRun]] = {}
    for run in _runs(instance, {REQUEST: list(requests)}, statuses) if requests else ():
        found.setdefault(run.tags[REQUEST], []).append(run)
    return {request: _counted(runs, requests[request]) for request, runs in found.items()}


def _counted(runs: Sequence[dg.DagsterRun], code: str) -> Tried:
    present = [run for run in runs if _is_by(run, code)]
    failed = sum(run.status in ENDED_BADLY for run in present)
    return Tried(failed, len(present) - failed, runs[0].run_id, len(runs) - len(present))


def _is_by(run: dg.DagsterRun, code: str) -> bool:
    return run.tags.get(CODE, code) == code


def is_running(instance: dg.DagsterInstance, job_name: str) -> bool:
    """Return whether a run of the job is queued or running."""
    return bool(instance.get_runs(dg.RunsFilter(job_name=job_name, statuses=OPEN), limit=1))


def decide(
    instance: dg.DagsterInstance,
    plan: Plan,
    *,
    asset: str,
    job_name: str = "",
    computes: Sequence[str] = (),
    repository: dg.RepositoryDefinition | None = None,
    code: str = "",
) -> RunRequests:
    """Turn a plan into run requests.

    However often a plan comes back, one run succeeds for a version. A run that crashed is tried again, up to three
    times; one that was refused is not, until its inputs change.

    Args:
        instance: where runs are recorded.
        plan: partition keys, causes and versions.
        asset: the table that the runs are for.
        job_name: the job that computes it; without one the runs are of tables.
        computes: the tables of a run without a job; ``asset`` alone if empty.
        repository: the code location, for runs of tables: they leave out the checks that run alone.
        code: version of the code and the declaration; what another one refused or failed is asked for again.
    """
    computed = {asset: computes or (asset,)}
    want = partial(Want, (asset,), state="behind", job=job_name, computes=computed, named=asset, code=code)
    wants = [
        want("" if key == asset else key, str(plan.cursor[key]), reason="", cause=plan.causes[key])
        for key in plan.partitions
    ]
    ended = partial(tried, instance, failed_only=True)
    outcome = plan_requests(wants, busy={}, refused=partial(_refused, instance, code), tried=ended, limit=len(wants))
    asked = {ask.want.key for ask in outcome.asks}
    held = {gap.key or asset: gap.reason for gap in outcome.gaps if gap.key not in asked}
    return RunRequests(tuple(run_request(ask, repository) for ask in outcome.asks), {**plan.held, **held})


def run_request(ask: Ask, repository: dg.RepositoryDefinition | None) -> dg.RunRequest:
    """Return Dagster's request of a chosen run.

    Args:
        ask: the run.
        repository: the code location: a run of tables leaves out the checks that run alone.
    """
    want, last = ask.want, ask.wants[-1]
    several = range_tags(want.key, last.key, {each.key: each.goal for each in ask.more}) if ask.more else {}
    tables = None if want.job else [dg.AssetKey(name.split("/")) for name in ask.tables]
    return dg.RunRequest(
        run_key=ask.run_key,
        partition_key=None if several else want.key or None,
        job_name=want.job or None,
        asset_selection=tables,
        asset_check_keys=checks_of(repository.asset_graph, tables) if repository and tables else None,
        tags={
            **want.profile,
            **several,
            CAUSE: want.cause,
            REQUEST: want.request,
            **NOT_RETRIED,
            **_queued(want),
            **_reasons(ask.wants),
        },
    )


def _reasons(wants: Sequence[Want]) -> dict[str, str]:
    """Return the tag with the distinct reasons of partitions; empty without a reason."""
    reasons = dict.fromkeys(f"{want.state}: {want.reason}" for want in wants if want.reason)
    return {BECAUSE: shorten("; ".join(reasons), _LONGEST, placeholder=" ...")} if reasons else {}


def _queued(want: Want) -> dict[str, str]:
    """Return the tags of code and priority."""
    return {**({CODE: want.code} if want.code else {}), **({_PRIORITY: str(want.priority)} if want.priority else {})}


def _refused(instance: dg.DagsterInstance, code: str, table: str, key: str, goal: str) -> Refusal | None:
    """Return the refusal by this code of a request, or of the table at the same goal, from the runs."""
    own = [run for run in _runs(instance, {REQUEST: request_of(table, key, goal)}) if refusals(run.tags)]
    found = (run for run in [*own, *_runs(instance, refusal(table, key, goal))] if _is_by(run, code))
    run = next(found, None)
    if run is None:
        return None
    text = failure_of(instance, run) or "waits for new data, a fix or an approval (`dedp status`)"
    return Refusal((goal,), "", run.run_id, f"refused at {goal}: {text}")


def _runs(
    instance: dg.DagsterInstance,
    tags: Mapping[str, str | list[str]],
    statuses: Sequence[dg.DagsterRunStatus] = ENDED_BADLY,
) -> Sequence[dg.DagsterRun]:
    return instance.get_runs(dg.RunsFilter(statuses=statuses, tags=dict(tags)))
