"""Lineage of the declared tables: the graph, and the check that observed runs agree with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.lineage import CONSUMERS, LAKE, SOURCES, Dataset, LineageGraph, LineageJob

__all__ = ["declared_lineage"]


def declared_lineage(tables: Sequence[LakeTable[...]]) -> LineageGraph:
    """Return the lineage of declared tables, with their sources and the readers outside of the platform as nodes.

    Args:
        tables: the declared tables.
    """
    owners = [Dataset(LAKE, spec.name, table.about.owner) for table in tables for spec in table.tables]
    return LineageGraph.of([job for table in tables for job in _jobs_of(table)], owners)


def _jobs_of(table: LakeTable[...]) -> Iterable[LineageJob]:
    upstream = [Dataset(LAKE, spec.name) for spec in table.reads.upstream]
    sources = [Dataset(SOURCES, each.name, each.owner) for each in table.reads.sources]
    own = tuple(Dataset(LAKE, spec.name) for spec in table.tables)
    yield LineageJob(table.name, (*upstream, *sources), own)
    if table.about.used_by:
        yield LineageJob(f"readers of {table.spec.name}", own[:1], (Dataset(CONSUMERS, table.about.used_by),))
