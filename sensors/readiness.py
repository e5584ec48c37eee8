"""Readiness: a delivery's marker wakes the run of its partition."""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import dagster as dg

from dedp_assets.partitions import DAILY
from dedp_assets.patterns.connectors.deliveries import Delivery
from dedp_assets.patterns.delta.log import Ledger, Transactions
from dedp_assets.patterns.ingestion.readiness_marker import plan_ready
from resources.clock import Clock
from resources.environments import settings
from resources.lake import Lake
from resources.landing import Landing
from sensors.requests import decide

__all__ = ["devices_delivered", "visits_delivered"]

_SLACK_NS = 2_000_000_000
_AT_ONCE = 25


@dg.sensor(
    job_name="daily_visits",
    minimum_interval_seconds=settings().tick_seconds,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="A marked landing day, or a file that came after the marker, starts that day's run.",
)
def visits_delivered(
    context: dg.SensorEvaluationContext, lake: Lake, landing: Landing, clock: Clock
) -> dg.SensorResult | dg.SkipReason:
    """Look only at folders that changed since the last tick or were held back then."""
    cursor: dict[str, Any] = {"since": 0, "seen": {}, "waiting": [], **json.loads(context.cursor or "{}")}
    recent = dict(landing.touched("visits", since_ns=cursor["since"] - _SLACK_NS))
    touched = {name for name, changed_ns in recent.items() if cursor["seen"].get(name) != changed_ns}
    days, strange = _days({*touched, *cursor["waiting"]}, clock)
    ledger = lake.ledger("bronze/visits")
    consumed = _consumed(ledger, days)
    plan = plan_ready((landing.delivery("visits", day) for day in days), consumed=consumed, now=clock.now())
    decision = decide(context.instance, plan, asset="bronze/visits", job_name="daily_visits")
    chosen = decision.requests[:_AT_ONCE]
    waiting = sorted({*decision.held, *plan.partitions})
    since, settled = max([cursor["since"], *recent.values()]), clock.now().timestamp() * 1e9 - _SLACK_NS
    # A change in the moment of a look may leave the time as it was: only what has settled is not looked at again.
    seen = {name: changed_ns for name, changed_ns in recent.items() if since - _SLACK_NS <= changed_ns < settled}
    after = json.dumps({"since": since, "seen": seen, "waiting": waiting})
    if chosen:
        return dg.SensorResult(run_requests=list(chosen), cursor=after)
    return dg.SensorResult(skip_reason=_reason(plan.reason, {**decision.held, **strange}), cursor=after)


@dg.sensor(
    job_name="refresh_devices",
    minimum_interval_seconds=2 * settings().tick_seconds,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="A marked delivery of the devices reference starts its load.",
)
def devices_delivered(
    context: dg.SensorEvaluationContext, lake: Lake, landing: Landing, clock: Clock
) -> dg.SensorResult | dg.SkipReason:
    """Ask for a load if the delivery is not the one that was loaded last."""
    delivery = landing.delivery("devices")
    named = Delivery("bronze/devices", delivery.files, delivery.marker, delivery.manifest, delivery.strange)
    known = _identity(lake.ledger("bronze/devices"))
    plan = plan_ready([named], consumed={named.partition: known} if known else {}, now=clock.now())
    decision = decide(context.instance, plan, asset="bronze/devices", job_name="refresh_devices")
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason(_reason(plan.reason, decision.held))


def _days(names: set[str], clock: Clock) -> tuple[list[str], dict[str, str]]:
    """Folder names that are partitions of the graph, and why the others are not."""
    first, last = DAILY.start.date().isoformat(), clock.now().date().isoformat()
    days = sorted(name for name in names if first <= name <= last and _is_day(name))
    return days, dict.fromkeys(names - set(days), f"is no day between {first} and today")


def _is_day(name: str) -> bool:
    try:
        return date.fromisoformat(name).isoformat() == name
    except ValueError:
        return False


def _consumed(ledger: Ledger, days: list[str]) -> dict[str, str]:
    """Day -> identity of the delivery it was loaded from; the log is searched only for days that have a transaction.

    One walk back from the newest commit finds them all.
    """
    cursors = ledger.transactions() if days else Transactions()
    waiting = {day for day in days if cursors.written(ledger.name, {"landed_on": day})}
    found: dict[str, str] = {}
    for commit in ledger.history() if waiting else ():
        notes = commit.record.notes if commit.record else {}
        places = [*map(dict, commit.changed), *([commit.record.partition] if commit.record else [])]
        touched = waiting & {place.get("landed_on") for place in places}
        found.update(dict.fromkeys(touched, str(notes.get("delivery", ""))))
        waiting -= touched
        if not waiting:
            break
    return found


def _identity(ledger: Ledger) -> str:
    last = ledger.latest({}) if ledger.exists() else None
    return str(last.record.notes.get("delivery", "")) if last and last.record else ""


def _reason(summary: str, held: Mapping[str, str]) -> str:
    shown = [f"{key}: {reason}" for key, reason in sorted(held.items())[:5]]
    more = f"; and {len(held) - 5} more" if len(held) > 5 else ""
    return "; ".join([summary, *shown]) + more
