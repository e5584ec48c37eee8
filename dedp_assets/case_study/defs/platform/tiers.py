"""Storage tiers of the cubes: days that few look at lie on cheaper storage."""

import dagster as dg

from dedp_assets.case_study.defs.gold.visits_cube import VISITS_CUBE
from dedp_assets.graph.declare import Every, Job, lake_job
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Provenance
from dedp_assets.patterns.cost.storage_tiering import Tier, estimate_savings, move_to_tiers

PRICES = {"hot": 0.023, "cold": 0.004, "archive": 0.00099}
"""Dollars for a GB and month."""
FROM_DAYS = {"hot": 0, "cold": 365, "archive": 1095}


@lake_job(
    Job("move_to_tiers", description="Days of the cubes of visits, moved to the storage tier of their age."),
    Every(
        "30 4 1 * *",
        name="move_to_tiers_every_month",
        description="At 04:30 UTC on the first of each month, after the maintenance.",
    ),
    pool="gold_visits_cube",
    reads=[VISITS_CUBE],
    writes=[VISITS_CUBE],
)
def move_old_days(context: dg.OpExecutionContext, lake: Lake, clock: Clock) -> None:
    """Move days to storage tiers by age; days of three years and more are brought back before a read."""
    table, now = lake.table(VISITS_CUBE), clock.now()
    if table.ledger.exists():
        at = {name: lake.tier(name) for name in ("cold", "archive")}
        tiers = [
            Tier(name, FROM_DAYS[name], price, at=at.get(name, ""), online=name != "archive")
            for name, price in PRICES.items()
        ]
        run = Provenance(asset=VISITS_CUBE.name, run_id=context.run_id, at=now)
        moved = move_to_tiers(table.target(run), tiers=tiers, by="event_date", now=now)
        saved = estimate_savings(table.ledger, tiers=tiers, by="event_date", now=now)
        context.log.info(f"{moved.reason}; {saved.percent} % of the cost, {saved.annual:.2f} dollars a year, are saved")
