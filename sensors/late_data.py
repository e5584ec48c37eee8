"""Late data: changed dates in an upstream table's log wake exactly those dates downstream, oldest first.

The cursor keeps the upstream version looked at and the dates still behind, so a tick pays for new commits only.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from dedp_assets.patterns.delta.log import Ledger, Partition
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from resources.clock import Clock
from resources.environments import settings
from resources.lake import Lake
from sensors.requests import decide, in_flight

__all__ = ["late_gold", "late_visits"]

_AT_ONCE = 25


def _late(
    name: str, *, upstream: str, downstream: tuple[str, ...], job_name: str, description: str
) -> dg.SensorDefinition:
    @dg.sensor(
        name=name,
        job_name=job_name,
        minimum_interval_seconds=settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=description,
    )
    def look(context: dg.SensorEvaluationContext, lake: Lake, clock: Clock) -> dg.SensorResult:
        cursor: dict[str, Any] = json.loads(context.cursor) if context.cursor else {"version": -1, "behind": {}}
        ledger = lake.ledger(upstream)
        version, found = ledger.changes(since=cursor["version"])
        behind: dict[str, int] = {**cursor["behind"], **_by_date(found)}
        reached = _reached([lake.ledger(name) for name in downstream], behind)
        applied = {day: min(versions.values()) for day, versions in reached.items() if len(versions) == len(downstream)}
        plan = plan_late_partitions(
            behind,
            applied,
            current=_current(clock),
            in_flight=in_flight(context.instance, context.repository_def, *downstream) if behind else (),
            limit=_AT_ONCE,
        )
        lagging = {d: [t for t in downstream if reached[d].get(t, -1) < v] for d, v in behind.items()}
        decision = decide(context.instance, plan, asset=downstream[0], job_name=job_name, behind=lagging)
        still = {day: v for day, v in behind.items() if applied.get(day, -1) < v}
        after = json.dumps({"version": version, "behind": still})
        if decision.requests:
            return dg.SensorResult(run_requests=list(decision.requests), cursor=after)
        waiting = [f"{day}: {reason}" for day, reason in sorted(decision.held.items())[:5]]
        reason = "; ".join([f"{plan.reason} up to version {version} of {upstream}", *waiting])
        return dg.SensorResult(skip_reason=reason, cursor=after)

    return look


def _by_date(found: Mapping[Partition, int]) -> dict[str, int]:
    """Partition -> version, by the date that owns the rows: their event date, or the landing day if they have none."""
    dates: dict[str, int] = {}
    for partition, version in found.items():
        values = dict(partition)
        day = values["event_date"] or values.get("landed_on")
        if day is not None:
            dates[day] = max(version, dates.get(day, -1))
    return dates


def _reached(ledgers: list[Ledger], days: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Date -> downstream table -> the upstream version that it has applied, if it has applied any."""
    cursors = [(ledger.name, ledger.transactions()) for ledger in ledgers if days]
    known = {day: {name: c.applied(name, {"event_date": day}) for name, c in cursors} for day in days}
    return {d: {name: v for name, v in versions.items() if v is not None} for d, versions in known.items()}


def _current(clock: Clock) -> str:
    """The first day that has no partition yet: whatever lies before may be processed."""
    return (clock.now().date() + timedelta(days=1)).isoformat()


late_visits = _late(
    "late_visits",
    upstream="bronze/visits",
    downstream=("silver/visits",),
    job_name="rebuild_silver_visits",
    description="Event dates that bronze received rows for since silver processed them.",
)
late_gold = _late(
    "late_gold",
    upstream="silver/visits",
    downstream=("gold/daily_page_views", "gold/daily_visitors"),
    job_name="rebuild_gold",
    description="Event dates that silver rewrote since gold was computed from them.",
)
