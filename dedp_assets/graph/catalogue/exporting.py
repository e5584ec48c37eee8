"""Export of a lineage graph: as JSON values for programs, and as Mermaid text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dedp_assets.patterns.core.running.lineage import CONSUMERS, SOURCES, Dataset, LineageEdge, LineageGraph
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage, ColumnOrigin

__all__ = ["Origins", "as_json", "as_mermaid", "kind_of"]

_KINDS = {CONSUMERS: "consumer", SOURCES: "source"}
_SHAPES = {"consumer": ("([", "])"), "source": ("[/", "/]"), "table": ("[", "]")}
_ESCAPED = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "\n": " "})

Origins = Mapping[str, Mapping[str, Sequence[str]]]
"""Table -> column -> upstream columns, each as ``layer/dataset.column``."""


def as_json(
    graph: LineageGraph,
    columns: Mapping[str, Mapping[str, str]],
    origins: Origins,
    observed: Mapping[str, ColumnLineage] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a graph as JSON values: datasets with columns, jobs, edges, and the origins of columns.

    Args:
        graph: the graph.
        columns: table -> column -> type.
        origins: declared origins of columns.
        observed: table -> column lineage in the plans of runs, which stands in place of the declared origins.
    """
    return {
        "datasets": [
            _dataset(each, columns.get(each.name, {}), origins.get(each.name, {}), observed.get(each.name))
            for each in graph.datasets
        ],
        "jobs": [
            {
                "name": job.name,
                "inputs": [str(each) for each in job.inputs],
                "outputs": [str(each) for each in job.outputs],
                "note": job.note,
            }
            for job in graph.jobs
        ],
        "edges": [_edge(each) for each in graph.edges],
    }


def as_mermaid(graph: LineageGraph, *, marked: Dataset | None = None) -> str:
    """Return a graph as the text of a Mermaid flowchart.

    Args:
        graph: the graph.
        marked: dataset to show in bold.
    """
    numbers = {each: f"n{number}" for number, each in enumerate(graph.datasets)}
    lines = ["flowchart LR"]
    for each, number in numbers.items():
        before, after = _SHAPES[kind_of(each)]
        lines.append(f'    {number}{before}"{str(each).translate(_ESCAPED)}"{after}')
    pairs = dict.fromkeys((numbers[edge.source], numbers[edge.target]) for edge in graph.edges)
    lines += [f"    {source} --> {target}" for source, target in pairs]
    lines += [f"    style {numbers[marked]} stroke-width:4px"] if marked in numbers else []
    return "\n".join(lines) + "\n"


def kind_of(dataset: Dataset) -> str:
    """Return the kind of a node: table, source or consumer."""
    return _KINDS.get(dataset.namespace, "table")


def _dataset(
    dataset: Dataset,
    columns: Mapping[str, str],
    origins: Mapping[str, Sequence[str]],
    observed: ColumnLineage | None,
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": str(dataset), "kind": kind_of(dataset), "owner": dataset.owner}
    if kind_of(dataset) != "table":
        return found
    traced = observed.columns if observed else {}
    found["columns"] = [
        {"name": name, "type": kind, **_origin(origins.get(name, ()), traced.get(name))}
        for name, kind in columns.items()
    ]
    if observed:
        found["influences"] = [{"column": str(each), "effect": each.effect} for each in observed.influences]
        found["gaps"] = list(observed.gaps)
    return found


def _origin(declared: Sequence[str], observed: ColumnOrigin | None) -> dict[str, Any]:
    """Return the origins of a column: observed, or declared where no input is known."""
    if observed is None:
        return {"from": list(declared)}
    how = {str(each): each.transformation for each in observed.inputs}
    opaque = {"opaque": observed.opaque} if observed.opaque else {}
    return {"from": list(how) or list(declared), "observed": how, **opaque}


def _edge(edge: LineageEdge) -> dict[str, Any]:
    seen = {"first_seen": edge.first_seen, "last_seen": edge.last_seen}
    times = {name: moment.isoformat() for name, moment in seen.items() if moment}
    return {"source": str(edge.source), "job": edge.job, "target": str(edge.target), **times}
