"""Bounded queues of tables in order: runs beyond the limit are rejected with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg

from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.upstream_runs import assets_of
from dedp_assets.graph.outcomes.run_tags import keys_of
from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.flow.single_runner import require_place

__all__ = ["reject_beyond"]


def reject_beyond(
    instance: dg.DagsterInstance, tables: Sequence[LakeTable[...]], repository: dg.RepositoryDefinition | None
) -> list[str]:
    """Cancel the newest queued runs beyond the limit of a table in order; return the reasons.

    The reason is the run's last event, and an observation of each of its partitions.

    Args:
        instance: where runs are recorded.
        tables: the declared tables.
        repository: the code location, for runs of jobs.
    """
    ordered = [table for table in tables if table.runs.in_order]
    if not ordered:
        return []
    queued = list(instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])))
    found = [each for table in ordered for each in _beyond(table, list(reversed(queued)), repository)]
    for table, run, reason in found:
        now = instance.get_run_by_id(run.run_id)
        if now is None or now.status is not dg.DagsterRunStatus.QUEUED:
            continue
        instance.report_run_canceled(now, reason)
        for key in keys_of(run.tags, table.runs.partitions):
            metadata = {NOT_COMPUTED: reason}
            observed = dg.AssetObservation(asset_key(table.spec), partition=key, metadata=metadata)
            instance.report_runless_asset_event(observed)
    return [reason for _, _, reason in found]


def _beyond(
    table: LakeTable[...], queued: Sequence[dg.DagsterRun], repository: dg.RepositoryDefinition | None
) -> Iterator[tuple[LakeTable[...], dg.DagsterRun, str]]:
    """Yield the runs of a table without a place in the queue, oldest first."""
    limit = table.runs.order.pending if table.runs.order else 0
    places: list[str] = []
    for run in queued:
        if asset_key(table.spec) not in assets_of(run, repository):
            continue
        keys = ", ".join(keys_of(run.tags, table.runs.partitions))
        try:
            require_place(places, request=f"{table.spec.name} {keys} (run {run.run_id[:8]})", limit=limit)
            places.append(run.run_id)
        except NotReady as error:
            yield table, run, str(error)
