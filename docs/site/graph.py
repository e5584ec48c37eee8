"""The case study's graph around the tables that a pattern computes: a picture, the same in Mermaid, and a list."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from dedp_assets.graph.catalogue.exporting import as_mermaid
from dedp_assets.graph.checks.lineage import declared_lineage
from dedp_assets.graph.declare import LakeTable
from dedp_assets.patterns.catalog import Pattern
from dedp_assets.patterns.core.running.lineage import Dataset, LineageGraph
from dedp_assets.project import project
from docs.site.pages import CHECKOUT, fenced, folded
from docs.site.pictures import neighbours

__all__ = ["place_of"]

_MOST = 8


@dataclass(frozen=True)
class _World:
    tables: tuple[LakeTable[...], ...]
    graph: LineageGraph


@cache
def _world() -> _World:
    """Load the declared tables and the graph of all datasets."""
    loaded = project().tables()
    return _World(tuple(loaded), declared_lineage(loaded, project().jobs()))


def place_of(pattern: Pattern) -> str:
    """Write a pattern's place in the graph: the tables that it computes, or the modules that call it."""
    tables = [each for each in _world().tables if _uses(each, pattern)]
    if not tables:
        return _callers(pattern)
    graph, own = _world().graph, {spec.name for each in tables for spec in each.tables}
    nodes = [each for each in graph.datasets if each.name in own][:_MOST]
    parts = [f"- `{each.spec.name}`, in `{_source(each)}`" for each in tables]
    text = "\n".join(parts) + "\n"
    if nodes:
        shown = ", ".join(f"`{each}`" for each in nodes)
        text = f"Around {shown}, from left to right:\n\n{_picture(graph, nodes)}\n{text}\n{_mermaid(graph, nodes)}"
    return text


def _uses(table: LakeTable[...], pattern: Pattern) -> bool:
    """Tell whether a table is computed by a function of the pattern's module."""
    functions = [each.func if isinstance(each, partial) else each for each in table.patterns]
    return any(getattr(each, "__module__", "") == pattern.module.__name__ for each in functions)


def _source(table: LakeTable[...]) -> str:
    """Return the file of a table's declaration."""
    return _file(table.function.__module__) if hasattr(table.function, "__module__") else ""


def _file(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _callers(pattern: Pattern) -> str:
    """List the modules outside of the library that import a pattern which no table names."""
    name = pattern.module.__name__
    found = [path for path in _modules() if f"from {name} import" in _text(path)]
    if not found:
        return "No table of the case study is computed by it; its tests and its example show it at work.\n"
    lines = "\n".join(f"- `{path.relative_to(CHECKOUT)}`" for path in found)
    return f"No table names it as its pattern; these modules call it:\n\n{lines}\n"


@cache
def _modules() -> tuple[Path, ...]:
    folders = [path for path in (CHECKOUT / "dedp_assets").iterdir() if path.is_dir() and path.name != "patterns"]
    return tuple(sorted(path for folder in (*folders, CHECKOUT / "sensors") for path in folder.rglob("*.py")))


@cache
def _text(path: Path) -> str:
    return path.read_text()


def _around(graph: LineageGraph, nodes: Collection[Dataset]) -> tuple[list[Dataset], list[Dataset]]:
    """Return the datasets that some datasets are computed from, and those computed from them."""
    before = {each.source for each in graph.edges if each.target in nodes}
    after = {each.target for each in graph.edges if each.source in nodes}
    return sorted(before - {*nodes}, key=str)[:_MOST], sorted(after - {*nodes}, key=str)[:_MOST]


def _picture(graph: LineageGraph, nodes: list[Dataset]) -> str:
    before, after = _around(graph, nodes)
    edges = {(str(each.source), str(each.target)) for each in graph.edges}
    return neighbours([*map(str, before)], [*map(str, nodes)], [*map(str, after)], edges)


def _mermaid(graph: LineageGraph, nodes: list[Dataset]) -> str:
    """Write the same as text for Mermaid, which a reader can paste where Mermaid is drawn."""
    before, after = _around(graph, nodes)
    shown = {*before, *nodes, *after}
    edges = [e for e in graph.edges if {e.source, e.target} <= shown and {e.source, e.target} & {*nodes}]
    datasets = tuple(each for each in graph.datasets if each in shown)
    part = replace(graph, datasets=datasets, jobs=(), edges=tuple(edges))
    return folded("The picture as Mermaid text", fenced(as_mermaid(part, marked=nodes[0]), "text"))
