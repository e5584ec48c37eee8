"""Graph of columns: a lineage graph with the columns of tables, and the sources below, as nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from dedp_assets.graph.catalogue.exporting import Origins
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.patterns.core.columns import spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.lineage import LAKE, SOURCES, Dataset, LineageEdge, LineageGraph
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage

__all__ = ["ColumnPaths", "column_graph", "paths_of", "require_column"]

_DECLARED, _LANDED = "declared", "landed"


@dataclass(frozen=True, slots=True)
class ColumnPaths:
    """The paths of a column's values.

    Attributes:
        column: the column.
        upstream: edges over which values come, down to columns that land.
        downstream: edges over which values go on.
        chosen_by: columns that choose the rows of the column's table, each with the effect.
        chooses: tables whose rows the column chooses, each with the effect.
        unknown: column of a path -> why further inputs of it may be missing.
    """

    column: Dataset
    upstream: tuple[LineageEdge, ...]
    downstream: tuple[LineageEdge, ...]
    chosen_by: tuple[str, ...] = ()
    chooses: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def ends(self) -> tuple[Dataset, ...]:
        """The columns and sources upstream that come from nothing else."""
        made = {edge.target for edge in self.upstream}
        return tuple(sorted({edge.source for edge in self.upstream} - made))

    def graph(self) -> LineageGraph:
        """Return the part of the graph that the paths are."""
        edges = (*self.upstream, *self.downstream)
        nodes = {self.column, *(node for edge in edges for node in (edge.source, edge.target))}
        return LineageGraph(tuple(sorted(nodes)), (), edges)


def column_graph(
    columns: Mapping[str, Collection[str]],
    origins: Origins,
    observed: Mapping[str, ColumnLineage],
    sources: Mapping[str, Sequence[str]],
) -> LineageGraph:
    """Return the graph of all columns.

    The job of an edge is the transformation that a run showed (``IDENTITY``, ``AGGREGATION``), or ``declared`` where no
    run showed one. A column without origins is ``landed`` from the sources of its table.

    Args:
        columns: table -> columns.
        origins: declared origins of columns.
        observed: table -> column lineage in the plans of runs, which stands in place of the declared origins.
        sources: table -> names of the sources that it reads.
    """
    edges = {
        edge.key: edge
        for table, names in columns.items()
        for name in names
        for edge in _edges(table, name, origins, observed.get(table), sources.get(table, ()))
    }
    nodes = {Dataset(LAKE, f"{table}.{name}") for table, names in columns.items() for name in names}
    nodes |= {node for edge in edges.values() for node in (edge.source, edge.target)}
    return LineageGraph(tuple(sorted(nodes)), (), tuple(edges[key] for key in sorted(edges)))


def paths_of(graph: LineageGraph, column: str, observed: Mapping[str, ColumnLineage]) -> ColumnPaths:
    """Return the paths of a column's values.

    Args:
        graph: the graph of all columns.
        column: ``layer/dataset.column``, a column of the graph.
        observed: as of :func:`column_graph`.
    """
    node = Dataset(LAKE, column)
    above, below = graph.upstream(node) | {node}, graph.downstream(node) | {node}
    up = tuple(edge for edge in graph.edges if edge.target in above)
    down = tuple(edge for edge in graph.edges if edge.source in below)
    on_path = {each.name for edge in (*up, *down) for each in (edge.source, edge.target)} | {column}
    unknown = {
        f"{table}.{name}": origin.opaque
        for table, lineage in observed.items()
        for name, origin in lineage.columns.items()
        if origin.opaque and f"{table}.{name}" in on_path
    }
    table, _, name = column.partition(".")
    own = observed.get(table, ColumnLineage({})).influences
    chosen_by = tuple(dict.fromkeys(f"{each} ({each.effect})" for each in own))
    chooses = tuple(
        dict.fromkeys(
            f"{target} ({each.effect})"
            for target, lineage in observed.items()
            for each in lineage.influences
            if (each.table, each.column.lower()) == (table, name.lower())
        )
    )
    return ColumnPaths(node, up, down, chosen_by, chooses, unknown)


def require_column(named: str, columns: Mapping[str, Collection[str]]) -> str:
    """Return a column as spelled in the table; of a field, the column around.

    Args:
        named: ``layer/dataset.column``.
        columns: table -> columns.

    Raises:
        ConfigError: for a table or a column that is not there, with the nearest names.
    """
    table, _, path = named.partition(".")
    require_table(table, columns, of="with declared columns")
    held = [*columns[table]]
    for name in spelled_as(held, [path, path.partition(".")[0]]):
        if name in held:
            return f"{table}.{name}"
    near = get_close_matches(path, held) or held[:3]
    such = ", ".join(f"{table}.{each}" for each in near)
    raise ConfigError(f"a column must be one of {table}, such as {such}, not {named}")


def _edges(
    table: str, name: str, origins: Origins, observed: ColumnLineage | None, sources: Sequence[str]
) -> Iterator[LineageEdge]:
    """Yield the edges into a column: observed, declared, or from the sources of the table."""
    target = Dataset(LAKE, f"{table}.{name}")
    traced = observed.columns.get(name) if observed else None
    if inputs := [each for each in (traced.inputs if traced else ()) if each.table]:
        for each in inputs:
            how = f"{each.transformation} of {each.field}" if each.field else each.transformation
            yield LineageEdge(Dataset(LAKE, f"{each.table}.{each.column}"), how, target)
        return
    if declared := origins.get(table, {}).get(name):
        yield from (LineageEdge(Dataset(LAKE, each), _DECLARED, target) for each in declared)
        return
    yield from (LineageEdge(Dataset(SOURCES, each), _LANDED, target) for each in sources)
