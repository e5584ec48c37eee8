"""Visits in staging by week: few large partitions for load tests; old weeks are frozen into months."""

from datetime import timedelta

import dagster as dg

from dedp_assets.case_study.defs.staging.visits import REPLICA
from dedp_assets.graph.declare import (
    About,
    Every,
    Gates,
    Job,
    Pinned,
    Step,
    day_to_week,
    lake_job,
    lake_table,
)
from dedp_assets.graph.declare.partitions import WEEKLY
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, Provenance, TableSpec, Target, WriteResult, freeze_units, load_unit, plan_units
from dedp_assets.patterns.idempotency.fast_metadata_cleaner import UNITS_LEAVE_ROOM

VISITS_BY_WEEK = TableSpec(
    "staging/visits_by_week",
    {**REPLICA.columns, "week": Column("STRING", "Monday of the ISO week, or the days that it was frozen with")},
    partition_by=("week",),
    event_time=REPLICA.event_time,
    comment="One row per visit, as staging/visits has it.",
)
MAY_CHANGE_DAYS = 60
"""How long a day of staging may be pushed again before its week is frozen, in days."""
CHECKS = {"rows_are_of_their_days": "A visit of a day that is not loaded with it would be doubled, or lost, later."}


@lake_table(
    VISITS_BY_WEEK,
    reads={REPLICA: day_to_week("event_date")},
    runs=WEEKLY,
    gates=Gates([UNITS_LEAVE_ROOM], checks=CHECKS, if_empty="A week without a visit is refused."),
    about=About(used_by="tests of load, on real volumes", derived={"week": ["event_date"]}),
    patterns=[load_unit, plan_units],
)
def visits_by_week(step: Step, visits: Pinned, into: Target) -> WriteResult:
    """Add new days to their week; after a change of a loaded day, empty and load the whole week."""
    present = visits.changed_by("event_date")
    rebuild = step.applied(into.table) is None
    plan = plan_units(present, into.table.ledger, unit="week", asked=present if rebuild else ())
    days = plan.cursor or present
    return load_unit(visits.of("event_date", days).rows(), into, days=days, by="event_date")


@lake_job(
    Job(
        "freeze_weeks", description="Weeks of staging that can no longer change, merged into months by metadata alone."
    ),
    Every(
        "0 4 1 * *",
        name="freeze_weeks_every_month",
        description="At 04:00 UTC on the first of each month, after the maintenance.",
    ),
    reads=[VISITS_BY_WEEK],
    writes=[VISITS_BY_WEEK],
)
def freeze_old_weeks(context: dg.OpExecutionContext, lake: Lake, clock: Clock) -> None:
    """Freeze the weeks of months that are no longer replicated."""
    table, now = lake.table(VISITS_BY_WEEK), clock.now()
    if table.ledger.exists():
        run = Provenance(asset=VISITS_BY_WEEK.name, run_id=context.run_id, at=now)
        before = now.date() - timedelta(days=MAY_CHANGE_DAYS)
        frozen = freeze_units(table.target(run), before=before, larger="month", unit="week")
        context.log.info(frozen.reason)
