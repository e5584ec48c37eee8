"""Visitors whom partners ask to be forgotten, removed once a week in one batch."""

import json
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from dedp_assets.case_study.defs.silver.partner_visits import PARTNER_VISITS
from dedp_assets.graph.declare import Every, Job, Source, lake_job
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Provenance
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta import Store, Table, store_at
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
    """Remove the visits of all landed requests, and purge the table once the retention of the last removal is over.

    Raises:
        ContractError: for lines that are no request, after the requests of all other lines are carried out.
    """
    table, now = lake.table(PARTNER_VISITS), clock.now()
    asked, faults = requests_in(store_at(settings().landing_zone).within(DATASET))
    if table.ledger.exists() and asked:
        _remove(table, asked, context, now)
    else:
        context.log.info("no visitor asks to be forgotten")
    if faults:
        raise ContractError("; ".join(faults))


def requests_in(landed: Store) -> tuple[list[Removal], list[str]]:
    """Read the landed requests, a repeated line once, and the faults of lines that are no request."""
    found, faults = dict[Removal, None](), list[str]()
    for file in landed.files():
        for number, line in enumerate(landed.read(file.path).splitlines(), start=1):
            try:
                found |= {_request_in(line): None} if line.strip() else {}
            except (ValueError, TypeError, KeyError):  # their texts may quote the id
                faults.append(f'{DATASET}/{file.path} line {number} must be {{"request": "R-17", "id": "v1"}}')
    return [*found], faults


def _request_in(line: bytes) -> Removal:
    stated = json.loads(line)
    return Removal(request=stated["request"], id=stated["id"])


def _remove(table: Table, asked: Sequence[Removal], context: dg.OpExecutionContext, now: datetime) -> None:
    into = table.target(Provenance(asset=table.name, run_id=context.run_id, at=now, cause="removal"))
    removed = remove_rows(asked, into, key="user_id", now=now)
    context.log.info(f"{removed.reason}; {removed.figures['requests']}")
    try:
        context.log.info(purge_removed(into, now=now).reason)
    except NotReady as waiting:
        context.log.info(str(waiting))
