"""Visits in staging by week: few large partitions for tests of load, old ones frozen into months."""

from datetime import timedelta

import dagster as dg

from dedp_assets.defs.staging.visits import REPLICA
from dedp_assets.graph.batches import Step
from dedp_assets.graph.feeds import Pinned, day_to_week
from dedp_assets.graph.tables import lake_table
from dedp_assets.partitions import WEEKLY
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.patterns.idempotency.fast_metadata_cleaner import (
    UNITS_LEAVE_ROOM,
    freeze_units,
    load_unit,
    plan_units,
)
from resources.clock import Clock
from resources.lake import Lake

VISITS_BY_WEEK = TableSpec(
    "staging/visits_by_week",
    {**REPLICA.columns, "week": Column("STRING", "Monday of the ISO week, or the days that it was frozen with")},
    partition_by=("week",),
    comment="One row per visit, as staging/visits has it.",
)
MAY_CHANGE_DAYS = 60
"""How long a day of staging may be pushed again before its week is frozen, in days."""


@lake_table(
    VISITS_BY_WEEK,
    reads={REPLICA: day_to_week("event_date")},
    derived={"week": ["event_date"]},
    partitions=WEEKLY,
    audits=(UNITS_LEAVE_ROOM,),
    checks={
        "input_is_not_empty": "A week without a visit is refused.",
        "rows_are_of_their_days": "A visit of a day that is not loaded with it would be doubled, or lost, later.",
    },
    used_by="tests of load, on real volumes",
    patterns=[load_unit, plan_units],
    owner="team:web-analytics",
    code_version="1",
)
def visits_by_week(step: Step, visits: Pinned, table: Table) -> WriteResult:
    """Add the days that are new to their week; if a loaded one changed, empty the week by metadata and load all."""
    present = visits.changed_by("event_date")
    anew = step.applied(table) is None
    plan = plan_units(present, table.ledger, unit="week", asked=present if anew else ())
    days = plan.cursor or present
    return load_unit(
        visits.of("event_date", days).rows(),
        table.target(step.provenance, audits=[UNITS_LEAVE_ROOM]),
        days=days,
        by="event_date",
    )


@dg.op
def freeze_old_weeks(context: dg.OpExecutionContext, lake: Lake, clock: Clock) -> None:
    """Freeze the weeks of the months that nobody pushes again."""
    table, now = lake.table(VISITS_BY_WEEK), clock.now()
    if table.ledger.exists():
        run = Provenance(asset=VISITS_BY_WEEK.name, run_id=context.run_id, at=now)
        before = now.date() - timedelta(days=MAY_CHANGE_DAYS)
        frozen = freeze_units(table.target(run), before=before, larger="month", unit="week")
        context.log.info(frozen.reason)


@dg.job(description="Weeks of staging that can no longer change, merged into months by metadata alone.")
def freeze_weeks() -> None:
    """Freeze old weeks."""
    freeze_old_weeks()


freeze_weeks_every_month = dg.ScheduleDefinition(
    name="freeze_weeks_every_month",
    job=freeze_weeks,
    cron_schedule="0 4 1 * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="At 04:00 UTC on the first of each month, after the maintenance.",
)
