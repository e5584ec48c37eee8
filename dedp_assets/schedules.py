"""What happens every day. Completeness does not hang on it: the readiness sensor finds what the schedule misses."""

from datetime import datetime, time, timedelta, timezone

import dagster as dg

from dedp_assets.jobs import DAILY_VISITS, LOAD_LEGACY_VISITS, MAINTAIN_TABLES
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.ingestion.incremental_loader import plan_windows
from resources.lake import Lake
from resources.landing import Landing
from resources.postgres import OperationalDatabase

__all__ = ["legacy_visits_every_day", "maintenance_every_night", "visits_every_day"]

_CATCH_UP_DAYS = 7
_DAY_SECONDS = 86_400

maintenance_every_night = dg.ScheduleDefinition(
    name="maintenance_every_night",
    job=MAINTAIN_TABLES,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Compaction and vacuum at 03:00 UTC, apart from the jobs that write the tables.",
)


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


@dg.schedule(
    cron_schedule="30 0 * * *",
    job=LOAD_LEGACY_VISITS,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="At 00:30 UTC, the days of the last week whose legacy visits are not loaded, and the one before them.",
)
def legacy_visits_every_day(
    context: dg.ScheduleEvaluationContext, lake: Lake, operational: OperationalDatabase
) -> list[dg.RunRequest] | dg.SkipReason:
    """Let the target's log say which days are due; the day before is read again for rows that came late."""
    try:
        operational.require_answer()
    except PatternError as error:
        return dg.SkipReason(str(error))
    now = context.scheduled_execution_time.astimezone(timezone.utc)
    today = datetime.combine(now.date(), time(), timezone.utc)
    plan = plan_windows(
        lake.ledger("bronze/legacy_visits"),
        column="ingested_on",
        origin=today - timedelta(days=_CATCH_UP_DAYS),
        length=_DAY_SECONDS,
        until=today,
        lookback=1,
    )
    key = "bronze/legacy_visits:{}@" + today.date().isoformat()
    return [dg.RunRequest(run_key=key.format(day), partition_key=day) for day in plan.partitions]
