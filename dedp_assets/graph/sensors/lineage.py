"""Lineage: a sensor that delivers the events of runs to a server for OpenLineage."""

from __future__ import annotations

import dagster as dg

from dedp_assets.graph.mail.lineage_outbox import LineageOutbox, LineageReceiver
from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.delta import LocalStore

__all__ = ["lineage"]

_LEAST_SECONDS = 30


def lineage(url: str) -> dg.SensorDefinition:
    """Make the sensor that delivers events of lineage; the sensor requests no run.

    Args:
        url: address of the server.

    Raises:
        ConfigError: for an address that is none of HTTP.
    """
    receiver = LineageReceiver(url)

    @dg.sensor(
        name="lineage",
        minimum_interval_seconds=max(_LEAST_SECONDS, settings().tick_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="What runs read and wrote is sent to the server of DEDP_LINEAGE_URL, in order and at least once; "
        "what it does not take waits.",
        required_resource_keys={"clock", "lake"},
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        folder, now = context.resources.lake.lineage, context.resources.clock.now()
        if not folder:
            return dg.SkipReason("the lake has no folder for events of lineage")
        report = LineageOutbox(LocalStore(folder)).deliver([receiver], now)
        return dg.SkipReason(report.get(receiver.name, "another process delivers"))

    return evaluate
