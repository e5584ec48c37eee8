"""Nightly removal of partitions past the retention of their classes, outside the backfill windows of readers."""

import dagster as dg

from dedp_assets.case_study.defs.bronze.visits import VISITS as LANDED
from dedp_assets.case_study.defs.silver.visits import DEAD_LETTER, VISITS
from dedp_assets.graph.declare import Every, Job, lake_job
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Provenance
from dedp_assets.patterns.governance.retention_policy import Retention, apply_retention, plan_retention

JOB = "apply_retention"
POLICY = (Retention("personal", 730), Retention("free text", 730), Retention("sensitive", 365))
"""Days of rows with a personal, free-text or sensitive column; rows with public columns alone have no limit."""
READERS = {LANDED: {VISITS.name: RETENTION_DAYS}, DEAD_LETTER: {VISITS.name: RETENTION_DAYS}}
"""Table -> its readers, with the days that each may compute again."""


@lake_job(
    Job(JOB, description="Partitions whose classes of columns are past their retention, removed by a plan of the log."),
    Every("40 4 * * *", name="apply_retention_every_night", description="At 04:40 UTC, before the vacuum."),
    pool="retention",
    reads=[*READERS],
    writes=[*READERS],
)
def remove_past_retention(context: dg.OpExecutionContext, lake: Lake, clock: Clock) -> None:
    """Remove the partitions past their retention, without partitions on legal hold or in the window of a reader."""
    now = clock.now()
    for spec, readers in READERS.items():
        table = lake.table(spec)
        if table.ledger.exists():
            plan = plan_retention(table, now=now, policy=POLICY, readers=readers)
            run = Provenance(asset=spec.name, run_id=context.run_id, at=now, cause="retention")
            context.log.info(apply_retention(plan, table.target(run)).reason)
