"""Runs of upstream partitions: under way, or failed without another attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import dagster as dg
from dagster_shared.check import CheckError

from dedp_assets.graph.inputs.fan_in import RunStates
from dedp_assets.graph.outcomes.refusals import Refusals
from dedp_assets.graph.outcomes.run_tags import REQUEST, is_backlog, keys_of
from dedp_assets.patterns.delta import Store
from dedp_assets.patterns.flow._branches import State

__all__ = ["ATTEMPTS", "ENDED_BADLY", "OPEN", "assets_of", "partitions_of", "repository_of", "run_states"]

ATTEMPTS = 3
"""How often the reconciler starts a run for the same request."""
OPEN = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""Statuses of runs under way, queued ones included."""
ENDED_BADLY = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
"""Statuses of runs that ended without success."""
_NEWEST = 100
"""How many of the newest failed runs count; a branch whose failure is older is waited for until the deadline."""
_WILL_RETRY = "dagster/will_retry"


def run_states(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition | None, refused: Callable[[str], Store]
) -> RunStates:
    """Read the runs under way and the newest failed runs at once, for a lookup by table and partition key.

    Who reads the tables' logs afterwards sees what a run wrote that has ended meanwhile.

    Args:
        instance: where runs are recorded.
        repository: the code location.
        refused: finds the notes on refused partitions of a table.
    """
    under_way = instance.get_runs(dg.RunsFilter(statuses=OPEN))
    ended = instance.get_runs(dg.RunsFilter(statuses=ENDED_BADLY), limit=_NEWEST)
    attempts = Counter(run.tags.get(REQUEST, "") for run in ended)
    final = [run for run in ended if _is_final(run, attempts)]

    @cache
    def states(table: str) -> Mapping[str, State]:
        key = dg.AssetKey(table.split("/"))
        partitions = partitions_of(key, repository)

        def keys(runs: Iterable[dg.DagsterRun]) -> list[str]:
            mine = [run for run in runs if key in assets_of(run, repository)]
            return [each for run in mine for each in keys_of(run.tags, partitions)]

        found: dict[str, State] = dict.fromkeys([*Refusals(refused(table)).by_key(), *keys(final)], "failed")
        found.update(dict.fromkeys(keys(under_way), "running"))
        return found

    return states


def repository_of(context: dg.AssetExecutionContext) -> dg.RepositoryDefinition | None:
    """Return the code location of a run.

    Returns:
        The code location; ``None`` for a run in a process that loaded no code location.
    """
    try:
        return context.repository_def
    except CheckError:
        return None


def assets_of(run: dg.DagsterRun, repository: dg.RepositoryDefinition | None) -> set[dg.AssetKey]:
    """Return the tables of a run: the run's asset selection, otherwise all assets of the job."""
    if run.asset_selection is not None:
        return set(run.asset_selection)
    known = repository is not None and repository.has_job(run.job_name)
    return set(repository.get_job(run.job_name).asset_layer.selected_asset_keys) if repository and known else set()


def partitions_of(
    asset: dg.AssetKey, repository: dg.RepositoryDefinition | None
) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of an asset.

    ``None`` without partitions, and for an asset that was removed while its runs wait.
    """
    known = repository.asset_graph if repository else None
    return known.get(asset).partitions_def if known and known.has(asset) else None


def _is_final(run: dg.DagsterRun, attempts: Mapping[str, int]) -> bool:
    """Return whether a failed run is the last attempt of Dagster and of the reconciler."""
    asked = run.tags.get(REQUEST, "")
    again = run.tags.get(_WILL_RETRY) == "true" or is_backlog(run.tags)
    return not again and (not asked or attempts[asked] >= ATTEMPTS)
