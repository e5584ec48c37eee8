"""Alerts: a sensor that follows the troubles of the platform and delivers messages to channels."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.observe.observing import Observer
from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.observability.lag_detector import LagSample

__all__ = ["alerts"]

_LEAST_SECONDS = 30


def no_positions(_: object, __: datetime) -> Sequence[LagSample]:
    """Sample nothing."""
    return ()


def alerts(
    tables: Sequence[LakeTable[...]],
    *,
    positions: Callable[[Any, datetime], Sequence[LagSample]] = no_positions,
    resources: Collection[str] = (),
) -> dg.SensorDefinition:
    """Make the sensor of alerts over the declared tables; the sensor requests no run.

    Args:
        tables: the declared tables of the graph.
        positions: samples positions of producers and consumers outside of the lake, by the sensor's resources.
        resources: names of the resources that ``positions`` asks for.
    """
    observer, every = Observer(tables), frozenset(spec.name for table in tables for spec in table.tables)

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=max(_LEAST_SECONDS, settings().tick_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Refused and given up partitions, unreadable logs, stale tables and what detectors find are "
        "episodes, announced by the channels of DEDP_ALERTS once as raised and once as cleared.",
        required_resource_keys={"alerts", "clock", "journal", "lake", "landing", *resources},
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        given = context.resources
        now, found = given.clock.now(), 0
        try:
            observed = observer.observe(
                given.lake,
                given.landing,
                given.journal,
                now,
                instance=context.instance,
                repository=context.repository_def,
                positions=partial(positions, given, now),
            )
            announced = observed.announced
            found = len(announced)
            # A trouble that nobody can see now has not ended.
            unjudged = observed.unjudged | (every if observed.unread else set())
            given.alerts.observe(announced, now, unjudged=unjudged, undecided=observed.undecided)
            if observed.unread:
                raise ContractError("; ".join(observed.unread))
        finally:
            # What is owed leaves also where the observation fails.
            report = given.alerts.deliver(now)
        return dg.SkipReason(_report(found, report))

    return evaluate


def _report(found: int, delivered: Mapping[str, str]) -> str:
    """Return the sentence of a tick: the number of troubles, and the answer of each channel."""
    channels = "; ".join(f"{name}: {answer}" for name, answer in delivered.items())
    return f"{found} troubles" + (f"; {channels}" if channels else "; no channel delivers (DEDP_ALERTS)")
