"""Nightly schedules: the newest complete and late partitions, or a range of partitions in order."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, cast

import dagster as dg

from dedp_assets.graph.declare.runs import Nightly
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.revisions import Revisions
from dedp_assets.graph.inputs.staleness import needed_versions
from dedp_assets.graph.outcomes.run_tags import range_request
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.error_management.static_late_data_integrator import judge_beyond_lookback, plan_lookback

__all__ = ["look_back", "run_chain"]


def look_back(
    table: LakeTable[...],
    nightly: Nightly,
    job: Any,  # noqa: ANN401 - Dagster does not export the type of a job over assets
) -> dg.ScheduleDefinition:
    """Return the schedule of the newest complete partition and of late partitions within the look-back.

    A run takes a range of partitions, oldest first, and passes over those that did not change. What is late beyond the
    look-back is an observation of the table, with the number of partitions as a figure that plots.

    Args:
        table: the table.
        nightly: time and look-back.
        job: the job that computes the table.
    """
    lookback = nightly.lookback

    @dg.schedule(**_stated(table, nightly, job))
    def evaluate(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        complete = _complete(table, context.scheduled_execution_time)
        keys = [key for key in complete if table.runs.takes(key)]
        if not {*keys} & {*complete[-1 - lookback :]}:  # of a branch, all days may lie before the look-back
            return dg.SkipReason("no partition within the look-back is complete yet")
        changed, applied = _versions(context.resources.lake, table, keys[-1 - lookback :])
        plan = plan_lookback(changed, applied, current=keys[-1:], partitions=keys, lookback=lookback)
        finding = judge_beyond_lookback(changed, applied, current=keys[-1:], partitions=keys, lookback=lookback)
        metadata: dict[str, Any] = {"partitions late beyond the look-back": finding.figures["partitions"]}
        metadata |= {"which": finding.note} if finding.note else {}
        context.instance.report_runless_asset_event(dg.AssetObservation(table.spec.name.split("/"), metadata=metadata))
        if not plan.partitions:
            return dg.SkipReason(f"{plan.reason} of {lookback} before {keys[-1]}")
        return [_request(table, stretch, plan) for stretch in _stretches(plan, keys, changed)]

    return evaluate


def run_chain(
    table: LakeTable[...],
    nightly: Nightly,
    job: Any,  # noqa: ANN401 - as above
) -> dg.ScheduleDefinition:
    """Return the schedule of a range: from the oldest stale partition to the newest complete partition.

    The run goes through the range in order and passes over what is computed from the same as before; so a correction
    goes on as far as it changes something, and no further.

    Args:
        table: a table whose partitions are in order.
        nightly: time and look-back; partitions older than it count as current once they are there.
        job: the job that computes the table.
    """
    lookback, name = nightly.lookback, table.spec.name

    @dg.schedule(**_stated(table, nightly, job))
    def evaluate(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        at = context.scheduled_execution_time
        keys = _complete(table, at)
        behind = next(_behind(context.resources.lake, table, keys, lookback, at), None)
        if behind is None:
            return dg.SkipReason(f"{name} is current up to {keys[-1]}" if keys else "no partition is complete")
        return range_request(name, behind, keys[-1], f" at {at}", cause="chain")

    return evaluate


def _stated(table: LakeTable[...], nightly: Nightly, job: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    return {
        "name": f"{table.name}_every_day",
        "job": job,
        "cron_schedule": nightly.cron,
        "execution_timezone": "UTC",
        "default_status": dg.DefaultScheduleStatus.RUNNING,
        "description": nightly.description
        or f"Complete partitions of {table.spec.name} that are missing, or whose upstream tables changed.",
        "required_resource_keys": {"lake"},
    }


def _complete(table: LakeTable[...], at: datetime) -> list[str]:
    """List the partitions whose time window had ended at a moment."""
    # A rule of the declaration: a table with a schedule by night has partitions by time.
    partitions = cast("dg.TimeWindowPartitionsDefinition", table.runs.partitions)
    with dg.partition_loading_context(effective_dt=at):
        keys = partitions.get_partition_keys()
    return [key for key in keys if partitions.time_window_for_partition_key(key).end <= at]


def _versions(lake: Lake, table: LakeTable[...], near: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return, by partition key, the upstream version that a run would apply, and the last applied version.

    Of several upstream tables, one may have dealt with a key of the look-back (``near``) without a row.
    """
    newest = _newest(lake, table)
    keys = set.intersection(*map(set, newest.values())) | {k for known in newest.values() for k in known if k in near}
    keys = {key for key in keys if table.runs.takes(key)}
    ledgers = [lake.ledger(spec.name) for spec in table.reads.revised_by]
    revisions = [Revisions.of(ledger, until=ledger.version()) for ledger in ledgers if ledger.exists()]
    needed = needed_versions(table.reads.tables, newest, keys, table_of=lake.table, revisions=revisions)
    cursors = lake.ledger(table.spec.name).transactions()
    # A restore begins a generation without applied versions: what it took back is asked for again.
    applied = {key: cursors.applied(table.spec.name, owned_by(key, table.spec)) for key in needed}
    changed = {key: needed[key] for key in sorted(needed)}
    return changed, {key: version for key, version in applied.items() if version is not None}


def _newest(lake: Lake, table: LakeTable[...]) -> dict[str, dict[str, int]]:
    """Return, by upstream table and partition key, the newest version that feeds the partition."""
    ledgers = {spec: lake.ledger(spec.name) for spec in table.reads.tables}
    changed = {spec: ledger.changes()[1] if ledger.exists() else {} for spec, ledger in ledgers.items()}
    return {spec.name: feed.newest(changed[spec]) for spec, feed in table.reads.tables.items()}


def _stretches(plan: Plan, keys: Sequence[str], changed: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Divide a plan into ranges at keys without upstream data, which no run can compute."""
    for has_upstream, stretch in groupby(keys, key=changed.__contains__):
        chosen = [key for key in stretch if has_upstream and key in plan.causes]
        if chosen:
            yield chosen[0], chosen[-1]


def _request(table: LakeTable[...], stretch: tuple[str, str], plan: Plan) -> dg.RunRequest:
    first, last = stretch
    version = max(version for key, version in plan.cursor.items() if first <= key <= last)
    # What was refused or failed is asked for once more by other code or another declaration.
    return range_request(table.spec.name, first, last, f"@{version} by {table.code}", cause="look-back")


def _behind(lake: Lake, table: LakeTable[...], keys: Sequence[str], lookback: int, at: datetime) -> Iterator[str]:
    """Yield the stale partitions, oldest first, starting at the first partition with upstream rows."""
    first = min((key for known in _newest(lake, table).values() for key in known), default=None)
    if first is None:
        return
    ledger = lake.ledger(table.spec.name)
    written = ledger.transactions()
    recent = set(keys[-1 - lookback :])
    for key in (key for key in keys if key >= first):
        is_processed = written.reached(table.spec.name, owned_by(key, table.spec)) is not None
        try:
            if not is_processed or (key in recent and not table.is_current(lake, key, at)):
                yield key
        except NotReady:
            yield key
