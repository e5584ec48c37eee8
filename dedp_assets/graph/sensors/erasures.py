"""Sensor over requests to erase persons: a run for each asked or approved request, without a wait."""

import dagster as dg

from dedp_assets.graph.erasure.cases import Cases
from dedp_assets.graph.erasure.going_on import JOB
from dedp_assets.graph.outcomes.run_tags import CAUSE, REQUEST
from dedp_assets.graph.reconcile.reconciling import Tried
from dedp_assets.graph.reconcile.requests import NOT_RETRIED, tried
from dedp_assets.graph.resources.environments import settings

__all__ = ["erasures_requested"]

_ASSET = "platform/erasures"


def erasures_requested() -> dg.SensorDefinition:
    """Make the sensor that starts the job of the requests once for each that was asked or approved.

    A run that failed is tried again, up to three times; what a run leaves open goes on by the job's schedule.
    """

    @dg.sensor(
        name="erasures_requested",
        job_name=JOB,
        minimum_interval_seconds=settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="A request to erase persons that was asked is planned, and one that was approved is carried out.",
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        cases, faults = Cases.of(settings().home).read()
        wanted = [f"{_ASSET}/{case.request}@{case.state}" for case in cases if case.state in ("asked", "approved")]
        ended = tried(context.instance, dict.fromkeys(wanted, ""), failed_only=True)
        progress = {request: ended.get(request, Tried()) for request in wanted}
        chosen = [(request, made.run_key(request)) for request, made in progress.items() if not made.given_up]
        if chosen:
            return dg.SensorResult(run_requests=[_request(*each) for each in chosen])
        held = [f"{request}: {made.given_up}" for request, made in progress.items()]
        return dg.SkipReason("; ".join([*held, *faults.values()]) or "no request was asked or approved")

    return evaluate


def _request(request: str, run_key: str) -> dg.RunRequest:
    return dg.RunRequest(run_key=run_key, tags={CAUSE: "erasure", REQUEST: request, **NOT_RETRIED})
