"""Chains: tables of which a partition is computed from the one before it, run from the first that is not current."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.graph.batches import owned_by
from dedp_assets.graph.lookbacks import changed_upstream, complete
from dedp_assets.graph.run_tags import CAUSE
from dedp_assets.graph.tables import LakeTable
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from resources.lake import Lake

__all__ = ["run_chain"]


def run_chain(
    table: LakeTable[...],
    job: Any,  # noqa: ANN401 - Dagster does not export the type of a job over assets
    *,
    cron_schedule: str,
    description: str,
    lookback: int,
) -> dg.ScheduleDefinition:
    """Make the schedule that asks for a range: from the oldest partition not current to the newest complete one.

    The run goes through the range in order and passes over what is computed from the same as before; so a correction
    goes on as far as it changes something, and no further.

    Args:
        table: a table with time partitions in order (``in_order=True``) that does not follow the tables that it reads.
        job: the job that computes it.
        cron_schedule: when, in UTC.
        description: what it is for.
        lookback: how many partitions before the newest complete one may have changed; older ones count as current once
            they are there.

    Raises:
        ConfigError: for another table.
    """
    partitions = table.partitions
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition) or not table.in_order or table.follows:
        raise ConfigError(f"{table.spec.name}: a chain has time partitions, in_order=True and follows=False")

    @dg.schedule(
        name=f"{table.name}_every_day",
        job=job,
        cron_schedule=cron_schedule,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
        required_resource_keys={"lake"},
    )
    def look(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        at = context.scheduled_execution_time
        keys = complete(partitions, at)
        behind = next(_behind(context.resources.lake, table, keys, lookback, at), None)
        if behind is None:
            return dg.SkipReason(
                f"{table.spec.name} is current up to {keys[-1]}" if keys else "no partition is complete"
            )
        ends = {"dagster/asset_partition_range_start": behind, "dagster/asset_partition_range_end": keys[-1]}
        return dg.RunRequest(run_key=f"{table.spec.name}:{behind}..{keys[-1]} at {at}", tags={**ends, CAUSE: "chain"})

    return look


def _behind(lake: Lake, table: LakeTable[...], keys: Sequence[str], lookback: int, at: datetime) -> Iterator[str]:
    """Yield the partitions that are not current, oldest first, from the first one on that upstream has rows for."""
    known = [changed_upstream(lake, upstream, feed) for upstream, feed in table.reads.items()]
    first = min((key for changed in known for key in changed), default=None)
    if first is None:
        return
    ledger = lake.ledger(table.spec.name)
    written = ledger.transactions()
    near = set(keys[-1 - lookback :])
    for key in (key for key in keys if key >= first):
        there = written.reached(table.spec.name, owned_by(key, table.spec)) is not None
        try:
            if not there or (key in near and not table.is_current(lake, key, at)):
                yield key
        except NotReady:
            yield key
