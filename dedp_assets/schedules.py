"""The daily schedule. Completeness does not hang on it: the readiness sensor finds what it misses."""

from datetime import timedelta

import dagster as dg

from dedp_assets.jobs import DAILY_VISITS
from resources.lake import Lake
from resources.landing import Landing

__all__ = ["visits_every_day"]


@dg.schedule(
    cron_schedule="30 1 * * *",
    job=DAILY_VISITS,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Yesterday's visits at 01:30 UTC, if they have landed and nobody has loaded them yet.",
)
def visits_every_day(
    context: dg.ScheduleEvaluationContext, lake: Lake, landing: Landing
) -> dg.RunRequest | dg.SkipReason:
    """Ask for yesterday's run, unless its delivery is not ready or the readiness sensor was faster."""
    day = (context.scheduled_execution_time - timedelta(days=1)).date().isoformat()
    delivery = landing.delivery("visits", day)
    if reason := delivery.refusal():
        return dg.SkipReason(f"{day}: {reason}")
    ledger = lake.ledger("bronze/visits")
    last = ledger.latest({"landed_on": day}) if ledger.exists() else None
    if last and last.record and last.record.notes.get("delivery") == delivery.identity:
        return dg.SkipReason(f"{day} is loaded already, at version {last.version}")
    return dg.RunRequest(run_key=f"bronze/visits:{day}@{delivery.identity}", partition_key=day)
