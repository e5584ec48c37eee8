"""Jobs, schedules and sensors that follow from declarations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.selections import writing
from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.nightly import look_back, run_chain
from dedp_assets.graph.declare.runs import Every, Job, Nightly, OnDelivery, OnEvent, OnMarkers, OnRequest, Polls
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.outcomes.failures import hiding_secrets
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["LakeJob", "job_of", "lake_job", "schedules_of", "sensors_of", "starting"]

_STARTS_A_JOB = (Nightly, OnDelivery, OnEvent, OnMarkers, Every, Polls)


@dataclass(frozen=True, eq=False)
class LakeJob:
    """A declared Dagster job of a single op, or over selected assets: a stream, or the upkeep of a table.

    Attributes:
        function: the op, whose parameters are the op's context and resources by name; ``None`` for a job over the
            assets that ``job`` selects.
        job: the job.
        when: what starts it.
        pool: pool of the op: that of the table that it writes.
        reads: tables and sources that the op reads, for the lineage.
        writes: tables that the op writes, for the lineage.
    """

    function: Callable[..., None] | None
    job: Job
    when: Every | Polls | OnRequest
    pool: str = ""
    reads: Sequence[TableSpec | Source] = ()
    writes: Sequence[TableSpec] = ()


Declared = LakeTable[...] | LakeJob


def lake_job(
    job: Job,
    when: Every | Polls,
    *,
    pool: str = "",
    reads: Sequence[TableSpec | Source] = (),
    writes: Sequence[TableSpec] = (),
) -> Callable[[Callable[..., None]], LakeJob]:
    """Declare a job whose only op is the decorated function.

    Args:
        job: name and purpose of the job.
        when: what starts it.
        pool: pool of the op: that of the table that it writes.
        reads: tables and sources that the function reads, for the lineage.
        writes: tables that the function writes, for the lineage.
    """
    return lambda function: LakeJob(function, job, when, pool, reads, writes)


@cache
def job_of(declared: Declared) -> Any:  # noqa: ANN401 - Dagster does not export the type of a job over assets
    """Make the job that the starts of a declaration request."""
    job = declared.job
    if isinstance(declared, LakeJob) and declared.function is not None:
        name = declared.function.__name__
        op = dg.op(name=name, pool=declared.pool or None)(hiding_secrets(name)(declared.function))
        return dg.GraphDefinition(name=job.name, node_defs=[op]).to_job(description=job.description)
    tables = declared.tables if isinstance(declared, LakeTable) else ()
    own = dg.AssetSelection.assets(*map(asset_key, tables))
    chosen = dg.AssetSelection.from_string(job.selection) if job.selection else own
    profile = dict(declared.runs.profile) if isinstance(declared, LakeTable) else {}
    return dg.define_asset_job(job.name, selection=writing(chosen), description=job.description, tags=profile)


def schedules_of(declared: Declared) -> list[dg.ScheduleDefinition]:
    """Make the schedules of a declaration."""
    made = [_every(each, declared) for each in _starts(declared) if isinstance(each, Every)]
    if isinstance(declared, LakeTable):
        make = run_chain if declared.runs.in_order else look_back
        made += [make(declared, each, job_of(declared)) for each in declared.runs.of(Nightly)]
    return made


def sensors_of(declared: Declared) -> list[dg.SensorDefinition]:
    """Make the sensors of a declaration, apart from the sensors over the whole graph."""
    return [_polls(each, declared) for each in _starts(declared) if isinstance(each, Polls)]


def starting(declarations: Sequence[Declared]) -> dg.Definitions:
    """Collect the jobs, schedules and sensors of all declarations."""
    return dg.Definitions(
        jobs=[job_of(each) for each in declarations if _has_job(each)],
        schedules=[schedule for each in declarations for schedule in schedules_of(each)],
        sensors=[sensor for each in declarations for sensor in sensors_of(each)],
    )


def _starts(declared: Declared) -> Sequence[object]:
    return declared.runs.starts if isinstance(declared, LakeTable) else (declared.when,)


def _has_job(declared: Declared) -> bool:
    own_job = isinstance(declared, LakeJob) or declared.runs.job
    return bool(own_job) or any(isinstance(each, _STARTS_A_JOB) for each in _starts(declared))


def _every(start: Every, declared: Declared) -> dg.ScheduleDefinition:
    status = dg.DefaultScheduleStatus.RUNNING if start.running else dg.DefaultScheduleStatus.STOPPED
    options: dict[str, Any] = {
        "name": start.name or (start.ask.__name__ if start.ask else None),
        "job": job_of(declared),
        "cron_schedule": start.cron,
        "execution_timezone": "UTC",
        "default_status": status,
        "description": start.description,
    }
    return dg.schedule(**options)(start.ask) if start.ask else dg.ScheduleDefinition(**options)


def _polls(start: Polls, declared: Declared) -> dg.SensorDefinition:
    return dg.sensor(
        name=start.ask.__name__,
        job=job_of(declared),
        minimum_interval_seconds=start.every_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if start.running else dg.DefaultSensorStatus.STOPPED,
        description=start.description,
    )(start.ask)
