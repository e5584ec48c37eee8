"""In-process runs, recorded in the code location's job history for re-execution from the UI."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

# `execute_in_process` is the public way, and its runs belong to no code location: the UI cannot re-execute them.
from dagster._core.definitions.job_base import InMemoryJob  # noqa: TID251
from dagster._core.execution.api import create_execution_plan, execute_run_iterator  # noqa: TID251
from dagster._core.remote_origin import (  # noqa: TID251
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.snap import snapshot_from_execution_plan  # noqa: TID251

from dedp_assets.graph.outcomes.run_tags import ran_by
from dedp_assets.project import project

__all__ = ["execute"]

_REPOSITORY = "__repository__"
_LABEL = ".dagster/repository"


def execute(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    *,
    tags: Mapping[str, str],
    run_config: Mapping[str, Any],
    assets: Iterable[dg.AssetKey] = (),
    checks: Iterable[dg.AssetCheckKey] = (),
) -> list[dg.DagsterEvent]:
    """Run a job in this process and return all events; a failed step is an event and raises no exception.

    Args:
        instance: where the run is recorded.
        job: the job, with its resources.
        tags: tags of the run.
        run_config: Dagster's.
        assets: the assets to compute; empty for all of the job.
        checks: the checks to run with those assets.
    """
    selected, judged = (frozenset(assets) or None), (frozenset(checks) if assets else None)
    subset = job.get_subset(asset_selection=selected, asset_check_selection=judged) if selected else job
    plan = create_execution_plan(InMemoryJob(subset), run_config, instance_ref=instance.get_ref(), tags=tags)
    named = project().name
    location = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(named), _REPOSITORY)
    run = instance.create_run(
        job_name=job.name,
        run_id=None,
        run_config=run_config,
        status=dg.DagsterRunStatus.NOT_STARTED,
        tags={**job.run_tags, **tags, _LABEL: f"{_REPOSITORY}@{named}"},
        root_run_id=None,
        parent_run_id=None,
        step_keys_to_execute=plan.step_keys_to_execute,
        execution_plan_snapshot=snapshot_from_execution_plan(plan, subset.get_job_snapshot_id()),
        job_snapshot=subset.get_job_snapshot(),
        parent_job_snapshot=subset.get_parent_job_snapshot(),
        asset_selection=selected,
        asset_check_selection=judged,
        resolved_op_selection=None,
        op_selection=None,
        remote_job_origin=RemoteJobOrigin(location, job.name),
        job_code_origin=None,
        asset_graph=subset.asset_layer.asset_graph,
    )
    instance.add_run_tags(run.run_id, ran_by(os.getpid(), run.run_id))
    return list(execute_run_iterator(InMemoryJob(job), run, instance))
