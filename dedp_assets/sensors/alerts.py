"""Alerts: a sensor that follows the troubles of the platform and delivers messages to channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from dedp_assets.graph.checks.causes import find_causes
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.resources.environments import settings

__all__ = ["alerts"]

_LEAST_SECONDS = 30


def alerts(tables: Sequence[LakeTable[...]]) -> dg.SensorDefinition:
    """Make the sensor of alerts over the declared tables; the sensor requests no run.

    Args:
        tables: the declared tables of the graph.
    """
    looking = Reconciler(tables)

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=max(_LEAST_SECONDS, settings().tick_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Partitions that are refused or given up, unreadable logs and stale tables are episodes, announced "
        "by the channels of DEDP_ALERTS once as raised and once as cleared.",
        required_resource_keys={"alerts", "clock", "lake", "landing"},
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        resources = context.resources
        now = resources.clock.now()
        try:
            causes = find_causes(
                looking,
                resources.lake,
                resources.landing,
                now,
                instance=context.instance,
                repository=context.repository_def,
            )
            resources.alerts.observe(causes.alerts, now, unjudged=causes.unjudged)
        finally:
            # What is owed leaves also where the observation fails.
            report = resources.alerts.deliver(now)
        return dg.SkipReason(_report(len(causes.alerts), report))

    return evaluate


def _report(found: int, delivered: Mapping[str, str]) -> str:
    """Return the sentence of a tick: the number of troubles, and the answer of each channel."""
    channels = "; ".join(f"{name}: {answer}" for name, answer in delivered.items())
    return f"{found} troubles" + (f"; {channels}" if channels else "; no channel delivers (DEDP_ALERTS)")
