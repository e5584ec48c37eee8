"""Deliveries: what is complete in a landing folder wakes the table that loads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from dedp_assets.graph.requests import decide
from dedp_assets.patterns.connectors.deliveries import Delivery
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.log import Ledger, Transactions
from dedp_assets.patterns.ingestion.readiness_marker import plan_ready
from resources.clock import Clock
from resources.environments import settings
from resources.landing import Landing

__all__ = ["on_delivery"]

_SLACK_NS = 2_000_000_000
_AT_ONCE = 25
_SETTLE_SECONDS = 2
"""How long a late file has to be left alone. One that grows later on is read again: its delivery is another then."""
_MANY = 1_000
"""Names of which it is quicker to list every key than to look at each."""


def on_delivery(
    name: str,
    *,
    dataset: str,
    table: TableSpec,
    job: Any,  # noqa: ANN401 - Dagster does not export the type of a job over assets
    description: str,
    partitions: dg.TimeWindowPartitionsDefinition | None = None,
) -> dg.SensorDefinition:
    """Make the sensor that starts a job for each complete delivery that was not loaded yet.

    Args:
        name: what the sensor is called.
        dataset: folder of the landing zone.
        table: the table that loads it; the commit that loaded a delivery names it (``notes["delivery"]``).
        job: the job to start.
        description: what people read about the sensor.
        partitions: the partitions of the table, if each folder below ``dataset`` is one of them; otherwise the folder
            holds one delivery, complete each time.
    """
    once = 1 if partitions else 2

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=once * settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=description,
        required_resource_keys={"lake", "landing", "clock"},
        metadata={"watches": dataset, "for table": table.name},
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        lake, landing, clock = context.resources.lake, context.resources.landing, context.resources.clock
        ledger = lake.ledger(table.name)
        if partitions is None:
            return _look_at_one(context, landing.delivery(dataset), ledger, job.name, clock)
        watch = _Watch(dataset, table, job.name, partitions)
        return watch.look(context, ledger, landing, clock)

    return look


@dataclass(frozen=True, slots=True)
class _Watch:
    dataset: str
    table: TableSpec
    job: str
    partitions: dg.TimeWindowPartitionsDefinition

    def look(
        self, context: dg.SensorEvaluationContext, ledger: Ledger, landing: Landing, clock: Clock
    ) -> dg.SensorResult:
        """Look only at folders that changed since the last tick or were held back then."""
        cursor: dict[str, Any] = {"since": 0, "seen": {}, "waiting": [], **json.loads(context.cursor or "{}")}
        recent = dict(landing.touched(self.dataset, since_ns=cursor["since"] - _SLACK_NS))
        touched = {name for name, changed_ns in recent.items() if cursor["seen"].get(name) != changed_ns}
        days, strange = self._days({*touched, *cursor["waiting"]}, clock)
        consumed = _consumed(ledger, self.table.partition_by[0], days)
        deliveries = (landing.delivery(self.dataset, day) for day in days)
        plan = plan_ready(deliveries, consumed=consumed, now=clock.now(), settle_seconds=_SETTLE_SECONDS)
        decision = decide(context.instance, plan, asset=self.table.name, job_name=self.job)
        chosen = decision.requests[:_AT_ONCE]
        waiting = sorted({*decision.held, *plan.partitions})
        since, settled = max([cursor["since"], *recent.values()]), clock.now().timestamp() * 1e9 - _SLACK_NS
        # A change in the moment of a look may leave the time as it was: only what has settled is not looked at again.
        seen = {name: changed_ns for name, changed_ns in recent.items() if since - _SLACK_NS <= changed_ns < settled}
        after = json.dumps({"since": since, "seen": seen, "waiting": waiting})
        if chosen:
            return dg.SensorResult(run_requests=list(chosen), cursor=after)
        return dg.SensorResult(skip_reason=_reason(plan.reason, {**decision.held, **strange}), cursor=after)

    def _days(self, names: set[str], clock: Clock) -> tuple[list[str], dict[str, str]]:
        """Tell the folder names that are partitions from the others, and say why those are not."""
        first = self.partitions.start.strftime(self.partitions.fmt)
        with dg.partition_loading_context(effective_dt=clock.now()):
            if len(names) > _MANY:
                days = sorted(names.intersection(self.partitions.get_partition_keys()))
            else:
                days = sorted(name for name in names if _is_key(self.partitions, name))
        return days, dict.fromkeys(names - set(days), f"is no day between {first} and today")


def _look_at_one(
    context: dg.SensorEvaluationContext, delivery: Delivery, ledger: Ledger, job: str, clock: Clock
) -> dg.SensorResult | dg.SkipReason:
    """Ask for a load if the delivery is not the one that was loaded last."""
    named = replace(delivery, partition=ledger.name)
    last = ledger.latest({}) if ledger.exists() else None
    known = str(last.record.notes.get("delivery", "")) if last and last.record else ""
    plan = plan_ready([named], consumed={ledger.name: known} if known else {}, now=clock.now())
    decision = decide(context.instance, plan, asset=ledger.name, job_name=job)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason(_reason(plan.reason, decision.held))


def _consumed(ledger: Ledger, column: str, days: list[str]) -> dict[str, str]:
    """Find the identity of the delivery that each day was loaded from, by one walk back from the newest commit.

    Only days that have a transaction are looked for.
    """
    cursors = ledger.transactions() if days else Transactions()
    waiting = {day for day in days if cursors.written(ledger.name, {column: day})}
    found: dict[str, str] = {}
    for commit in ledger.history() if waiting else ():
        notes = commit.record.notes if commit.record else {}
        places = [*map(dict, commit.changed), *([commit.record.partition] if commit.record else [])]
        touched = waiting & {place.get(column) for place in places}
        found.update(dict.fromkeys(touched, str(notes.get("delivery", ""))))
        waiting -= touched
        if not waiting:
            break
    return found


def _reason(summary: str, held: Mapping[str, str]) -> str:
    shown = [f"{key}: {reason}" for key, reason in sorted(held.items())[:5]]
    more = f"; and {len(held) - 5} more" if len(held) > 5 else ""
    return "; ".join([summary, *shown]) + more


def _is_key(partitions: dg.TimeWindowPartitionsDefinition, name: str) -> bool:
    try:
        return partitions.has_partition_key(name)
    except ValueError:
        return False
