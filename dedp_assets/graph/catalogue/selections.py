"""Asset selections of jobs: tables with the checks of their written rows."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import dagster as dg

__all__ = ["RUNS_ALONE", "checks_of", "running_alone", "writing"]

RUNS_ALONE = "runs alone"
"""Metadata of a check that judges what is stored: a run that writes leaves it out."""


def writing(selection: dg.AssetSelection) -> dg.AssetSelection:
    """Return a job's selection without the checks that run alone.

    Dagster adds every check of a selected asset to a job.
    """
    return selection - _RunAlone()


def running_alone() -> dg.AssetSelection:
    """Select every check that runs alone, and no table."""
    return _RunAlone()


def checks_of(graph: Any, tables: Iterable[dg.AssetKey]) -> list[dg.AssetCheckKey]:  # noqa: ANN401 - Dagster's asset graph
    """List the checks that judge the written rows of the tables."""
    wanted = set(tables)
    found = (key for key in graph.asset_check_keys if key.asset_key in wanted)
    return sorted(key for key in found if RUNS_ALONE not in graph.get_check_spec(key).metadata)


class _RunAlone(dg.AssetSelection):
    """A selection of every check that runs alone, without assets."""

    def resolve_inner(self, asset_graph: Any, allow_missing: bool) -> AbstractSet[dg.AssetKey]:  # noqa: ANN401, ARG002, FBT001
        return set()

    def resolve_checks_inner(self, asset_graph: Any, allow_missing: bool) -> AbstractSet[dg.AssetCheckKey]:  # noqa: ANN401, ARG002, FBT001
        checks = asset_graph.asset_check_keys
        return {key for key in checks if RUNS_ALONE in asset_graph.get_check_spec(key).metadata}

    def to_serializable_asset_selection(self, asset_graph: Any) -> dg.AssetSelection:  # noqa: ANN401
        return dg.AssetSelection.checks(*self.resolve_checks_inner(asset_graph, allow_missing=False))
