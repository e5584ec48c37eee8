"""Visitors whom partners ask to be forgotten, removed once a week in one batch."""

import json

import dagster as dg

from dedp_assets.case_study.defs.silver.partner_visits import PARTNER_VISITS
from dedp_assets.graph.declare import Every, Job, Source, lake_job
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Provenance
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.delta import store_at
from dedp_assets.patterns.security.in_place_overwriter import Removal, purge_removed, remove_rows

JOB = "remove_visitors_of_partners"
DATASET = "partner_removals"
REQUESTS = Source(
    f"landing/{DATASET}",
    "Visitors whom partners ask to be forgotten: `id` and the name of the `request`, a line each.",
    kinds=("file", "json"),
    owner="team:partners",
)


@lake_job(
    Job(JOB, description="Visits of visitors whom partners ask to be forgotten, removed in one rewrite, then purged."),
    Every("50 4 * * 0", name="remove_visitors_every_week", description="At 04:50 UTC on Sundays: one batch a week."),
    pool="silver_partner_visits",
    reads=[REQUESTS, PARTNER_VISITS],
    writes=[PARTNER_VISITS],
)
def remove_visitors(context: dg.OpExecutionContext, lake: Lake, clock: Clock) -> None:
    """Remove the visitors of all requests that lie there, and what was removed long enough ago from the past."""
    table, now = lake.table(PARTNER_VISITS), clock.now()
    lying = store_at(settings().landing_zone).within(DATASET)
    lines = [line for file in lying.files() for line in lying.read(file.path).splitlines()]
    asked = [Removal(**json.loads(line)) for line in lines]
    if not table.ledger.exists() or not asked:
        context.log.info("no visitor asks to be forgotten")
        return
    into = table.target(Provenance(asset=table.name, run_id=context.run_id, at=now, cause="removal"))
    removed = remove_rows(asked, into, key="user_id", now=now)
    context.log.info(f"{removed.reason}; {removed.figures['requests']}")
    try:
        context.log.info(purge_removed(into, now=now).reason)
    except NotReady as waiting:
        context.log.info(str(waiting))
