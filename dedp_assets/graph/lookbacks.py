"""Look-backs: one run a day for the newest complete partition, and for those before it that changed since."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from dedp_assets.graph.batches import owned_by
from dedp_assets.graph.feeds import Feed
from dedp_assets.graph.run_tags import CAUSE
from dedp_assets.graph.tables import LakeTable
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.error_management.static_late_data_integrator import judge_beyond_lookback, plan_lookback
from resources.lake import Lake

__all__ = ["changed_upstream", "complete", "look_back"]


def look_back(
    table: LakeTable[...],
    job: Any,  # noqa: ANN401 - Dagster does not export the type of a job over assets
    *,
    lookback: int,
    cron_schedule: str,
    description: str,
) -> dg.ScheduleDefinition:
    """Make the schedule that asks for the newest complete partition of a table and what is late for those before it.

    A run takes a range of partitions, oldest first, and passes over those that did not change. What is late beyond the
    look-back is an observation of the table, with the number of partitions as a figure that plots.

    Args:
        table: a table with time partitions that does not follow the tables that it reads, or only what is late.
        job: the job that computes it.
        lookback: how many partitions before the newest complete one are looked at.
        cron_schedule: when, in UTC.
        description: what it is for.

    Raises:
        ConfigError: for a table that a look-back does not fit.
    """
    if not isinstance(table.partitions, dg.TimeWindowPartitionsDefinition) or not table.reads or table.follows is True:
        raise ConfigError(
            f"{table.spec.name}: a look-back is for a table with time partitions that reads tables and does not follow "
            'them from the beginning (follows=False or "late")'
        )
    partitions = table.partitions

    @dg.schedule(
        name=f"{table.name}_every_day",
        job=job,
        cron_schedule=cron_schedule,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
        required_resource_keys={"lake"},
    )
    def look(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        keys = complete(partitions, context.scheduled_execution_time)
        if not keys:
            return dg.SkipReason("no partition is complete yet")
        changed, applied = _versions(context.resources.lake, table)
        plan = plan_lookback(changed, applied, current=keys[-1:], partitions=keys, lookback=lookback)
        finding = judge_beyond_lookback(changed, applied, current=keys[-1:], partitions=keys, lookback=lookback)
        told: dict[str, Any] = {"partitions late beyond the look-back": finding.figures["partitions"]}
        told |= {"which": finding.note} if finding.note else {}
        context.instance.report_runless_asset_event(dg.AssetObservation(table.spec.name.split("/"), metadata=told))
        if not plan.partitions:
            return dg.SkipReason(f"{plan.reason} of {lookback} before {keys[-1]}")
        return [_request(table.spec.name, stretch, plan) for stretch in _stretches(plan, keys, changed)]

    return look


def complete(partitions: dg.TimeWindowPartitionsDefinition, at: datetime) -> list[str]:
    """List the partitions whose time was over at a moment."""
    with dg.partition_loading_context(effective_dt=at):
        keys = partitions.get_partition_keys()
    return [key for key in keys if partitions.time_window_for_partition_key(key).end <= at]


def _versions(lake: Lake, table: LakeTable[...]) -> tuple[dict[str, int], dict[str, int]]:
    """Read, by partition key, the version that changed upstream last and the one that was applied last.

    Of several upstream tables it is the sum, as in the table's cursor; a key that one of them lacks is left out.
    """
    target = lake.ledger(table.spec.name)
    by_table = [changed_upstream(lake, upstream, feed) for upstream, feed in table.reads.items()]
    keys = set.intersection(*map(set, by_table))
    changed = {key: sum(known[key] for known in by_table) for key in sorted(keys)}
    cursors = target.transactions()
    applied = {key: cursors.applied(target.name, owned_by(key, table.spec)) for key in changed}
    return changed, {key: version for key, version in applied.items() if version is not None}


def changed_upstream(lake: Lake, upstream: TableSpec, feed: Feed) -> dict[str, int]:
    """Read, by the keys that it feeds, the version that changed an upstream table last."""
    source, found = lake.ledger(upstream.name), dict[str, int]()
    for partition, version in (source.changes()[1] if source.exists() else {}).items():
        for key in feed.feeds(dict(partition)):
            found[key] = max(version, found.get(key, -1))
    return found


def _stretches(plan: Plan, keys: list[str], changed: Mapping[str, int]) -> Iterator[list[str]]:
    """Divide a plan where upstream holds nothing, so that a run asks for no partition that cannot be computed."""
    stretch: list[str] = []
    for key in keys[keys.index(min(plan.partitions)) :]:
        if key in changed:
            stretch.append(key)
        elif stretch:
            yield from _trimmed(stretch, plan)
            stretch = []
    yield from _trimmed(stretch, plan)


def _trimmed(stretch: list[str], plan: Plan) -> Iterator[list[str]]:
    chosen = [key for key in stretch if key in plan.causes]
    if chosen:
        yield [chosen[0], chosen[-1]]


def _request(table: str, stretch: list[str], plan: Plan) -> dg.RunRequest:
    first, last = stretch
    ends = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    version = max(version for key, version in plan.cursor.items() if first <= key <= last)
    return dg.RunRequest(run_key=f"{table}:{first}..{last}@{version}", tags={**ends, CAUSE: "look-back"})
