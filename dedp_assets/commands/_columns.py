"""Paths of a column's values, as lines of two trees and as a document for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dedp_assets.graph.catalogue.column_graph import ColumnPaths, column_graph, paths_of, require_column
from dedp_assets.graph.checks.lineage import column_origins, column_types
from dedp_assets.patterns.core.running.lineage import Dataset, LineageEdge
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage

if TYPE_CHECKING:
    from dedp_assets.graph.declare import LakeTable

__all__ = ["as_document", "as_trees", "column_paths"]


def column_paths(named: str, tables: Sequence[LakeTable[...]], observed: Mapping[str, ColumnLineage]) -> ColumnPaths:
    """Return the paths of a column of the declared tables.

    Args:
        named: ``layer/dataset.column``.
        tables: the declared tables.
        observed: table -> column lineage in the plans of runs.

    Raises:
        ConfigError: for a table or a column that is not there.
    """
    columns = column_types(tables)
    sources = {spec.name: [each.name for each in table.reads.sources] for table in tables for spec in table.tables}
    graph = column_graph(columns, column_origins(tables), observed, sources)
    return paths_of(graph, require_column(named, columns), observed)


def as_document(paths: ColumnPaths) -> dict[str, Any]:
    """Return the paths of a column as JSON values."""
    return {
        "column": str(paths.column),
        "upstream": [*map(_edge, paths.upstream)],
        "ends": [*map(str, paths.ends)],
        "downstream": [*map(_edge, paths.downstream)],
        "rows_chosen_by": list(paths.chosen_by),
        "chooses_rows_of": list(paths.chooses),
        "unknown": dict(paths.unknown),
    }


def as_trees(paths: ColumnPaths) -> Iterator[str]:
    """Yield the paths of a column as lines: a tree upstream, and a tree downstream."""
    yield str(paths.column)
    yield "comes from" if paths.upstream else "comes from nothing that is known"
    yield from _tree(paths.column, paths.upstream, lambda edge: edge.target, lambda edge: edge.source)
    yield "goes into" if paths.downstream else "goes into no column that is known"
    yield from _tree(paths.column, paths.downstream, lambda edge: edge.source, lambda edge: edge.target)
    if paths.chosen_by:
        yield f"rows of its table are chosen by {', '.join(paths.chosen_by)}"
    if paths.chooses:
        yield f"chooses rows of {', '.join(paths.chooses)}"
    for column, why in paths.unknown.items():
        yield f"further inputs of {column} may be missing: {why}"


def _edge(edge: LineageEdge) -> dict[str, str]:
    return {"source": str(edge.source), "how": edge.job, "target": str(edge.target)}


def _tree(
    node: Dataset,
    edges: Sequence[LineageEdge],
    here: Callable[[LineageEdge], Dataset],
    there: Callable[[LineageEdge], Dataset],
) -> Iterator[str]:
    """Yield a line for each edge from a node on, indented by depth; a node is followed once."""
    waiting, seen = [(1, edge) for edge in reversed(edges) if here(edge) == node], {node}
    while waiting:
        depth, edge = waiting.pop()
        found = there(edge)
        yield f"{'  ' * depth}{found} ({edge.job}{', as above' if found in seen else ''})"
        if found not in seen:
            seen.add(found)
            waiting += [(depth + 1, each) for each in reversed(edges) if here(each) == found]
