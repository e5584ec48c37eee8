"""Code location of a test: tables in order and at once, whose runs wait and fail as files beside the lake say.

``fail-DAY`` refuses the day's total, ``hold-TABLE-DAY`` keeps the day's run of a table from ending.
"""

import time
from pathlib import Path

import dagster as dg

from dedp_assets.graph.declare import About, AtOnce, InOrder, Pinned, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.sensors.reconciler import reconcilers
from dedp_assets.location import CONSOLE, lake_resources
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Table, Target
from tests.hand_written import commit_day, daily

DAYS = dg.DailyPartitionsDefinition("2026-01-05", end_date="2026-01-10")
AMOUNTS, TOTALS, HEAVY, CRITICAL = map(daily, ("silver/amounts", "gold/totals", "gold/heavy", "gold/critical"))
STATED = {"reads": Reads({AMOUNTS: same("day")}), "about": About("team:x"), "patterns": [Table.overwrite]}


def published(name: str, step: Step, lake: Lake, **notes: int) -> WriteResult:
    """Commit a day once its run is no longer held."""
    home = Path(settings().home)
    while (home / f"hold-{name.replace('/', '-')}-{step.key}").exists():
        time.sleep(0.1)
    if (home / f"fail-{step.key}").exists() and name == TOTALS.name:
        raise ContractError(f"the amount of {step.key} is not to be believed")
    version = commit_day(lake, name, step.key, step.inputs.identities, step.inputs.sequence, **notes)
    return WriteResult(name, version, applied=True, changed=True, reason="computed")


@lake_table(TOTALS, runs=Runs(DAYS, InOrder(hands_over=TOTALS)), code_version="1", **STATED)
def totals(step: Step, amounts: Pinned, before: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Count the days so far."""
    left = before.table.ledger.latest(before.partitions[0], until=before.version) if before.partitions else None
    return published(TOTALS.name, step, lake, days=1 + (left.record.notes["days"] if left else 0))


@lake_table(HEAVY, runs=Runs(DAYS, AtOnce(2)), code_version="1", **STATED)
def heavy(step: Step, amounts: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Copy a day; two days at once."""
    return published(HEAVY.name, step, lake)


@lake_table(CRITICAL, runs=Runs(DAYS, AtOnce(1, priority=5)), code_version="1", **STATED)
def critical(step: Step, amounts: Pinned, into: Target, lake: Lake) -> WriteResult:
    """Copy a day, within a slot of its own."""
    return published(CRITICAL.name, step, lake)


TABLES = [totals, heavy, critical]
defs = dg.Definitions(
    assets=[table.definition() for table in TABLES],
    jobs=[dg.define_asset_job("count_days", dg.AssetSelection.assets(TOTALS.name.split("/")))],
    sensors=reconcilers(TABLES, []),
    resources=lake_resources(),
    loggers={"console": CONSOLE},
    executor=dg.in_process_executor,
)
