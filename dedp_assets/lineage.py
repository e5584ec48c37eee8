"""``dedp lineage``: the graph of tables with observed edges, and the impact of a change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dedp_assets.graph.catalogue.exporting import as_json, as_mermaid, kind_of
from dedp_assets.graph.checks.lineage import column_origins, column_types, declared_lineage, judge_lineage
from dedp_assets.graph.run.column_traces import traced_tables
from dedp_assets.patterns.connectors.lineage_outbox import LineageOutbox
from dedp_assets.patterns.core.column_lineage import broken_references
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.lineage import Dataset, LineageGraph, ObservedRun
from dedp_assets.patterns.observability.dataset_tracker import Impact, Root, affected_by, root_of
from dedp_assets.project import project
from dedp_assets.resources.environments import Settings
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.spark import SparkEngine

if TYPE_CHECKING:
    from dedp_assets.graph.declare import LakeTable
    from dedp_assets.patterns.core.column_lineage import ColumnLineage

__all__ = ["compare", "lineage"]

Form = Literal["text", "json", "mermaid"]


def lineage(settings: Settings, named: Sequence[str] = (), *, form: Form = "text", on: date | None = None) -> int:
    """Print the graph of all tables, the impact of a change, or the first of several faulty tables.

    Args:
        settings: where everything is.
        named: tables, sources or consumers by their names in the graph: none for the whole graph, one for the impact of
            a change, several for the place where a fault of all of them began.
        form: how to print.
        on: UTC day of observed runs to take the graph from, instead of the declarations.

    Raises:
        ConfigError: if the graph has no such dataset.
    """
    tables = project().tables()
    graph = declared_lineage(tables, project().jobs()).observing(_runs(settings))
    if on:
        start = datetime.combine(on, time(), timezone.utc)
        graph = graph.between(start, start + timedelta(days=1, microseconds=-1))
    datasets = [_named(graph, each) for each in named]
    if not datasets:
        _print_graph(graph, tables, form, settings)
    elif len(datasets) == 1:
        _print_impact(graph, datasets[0], form)
    else:
        _print_root(root_of(graph, datasets), form)
    return 0


def compare(settings: Settings, now: datetime) -> int:
    """Print undeclared reads and writes of observed runs, and the share of declared flows.

    Args:
        settings: where everything is.
        now: current time, with time zone.

    Returns:
        1 if something is undeclared, otherwise 0.
    """
    runs = _runs(settings)
    found, measured = judge_lineage(project().tables(), project().jobs(), runs, now)
    share = measured.measurements[0].value or 0
    _say(f"{len(runs)} observed runs, {share:.1%} of all flows are declared.")
    for name, lines in found.figures.items():
        for line in lines:
            _say(f"{name.replace('_', ' ')}: {line}")
    declared = {name: [*columns] for name, columns in column_types(project().tables()).items()}
    for name, lineage in _traced(settings, project().tables()).items():
        if not (broken := broken_references(lineage, declared)).passed:
            _say(f"traced by earlier code: {name}: {broken.note}")
    return 1 if found.refuses else 0


def _runs(settings: Settings) -> list[ObservedRun]:
    return list(LineageOutbox(settings.home / "lineage").runs(namespace=settings.lineage_namespace))


def _named(graph: LineageGraph, name: str) -> Dataset:
    """Return the dataset of the graph with a name."""
    found = next((each for each in graph.datasets if name == str(each)), None)
    if found is None:
        names = [str(each) for each in graph.datasets]
        near = get_close_matches(name, names, n=3) or [
            each for each in names if kind_of(_named(graph, each)) == "table"
        ]
        raise ConfigError(f"the table must be one of the graph, such as {', '.join(near) or 'none yet'}, not {name}")
    return found


def _restricted(graph: LineageGraph, datasets: set[Dataset]) -> LineageGraph:
    """Return the part of a graph between some datasets."""
    edges = tuple(each for each in graph.edges if {each.source, each.target} <= datasets)
    return replace(graph, datasets=tuple(each for each in graph.datasets if each in datasets), jobs=(), edges=edges)


def _as_dict(impact: Impact) -> dict[str, Any]:
    """Return an impact as JSON values."""
    return {
        "direct": [{"name": str(each), "kind": kind_of(each), "owner": each.owner} for each in impact.direct],
        "indirect": [{"name": str(each), "kind": kind_of(each), "owner": each.owner} for each in impact.indirect],
        "owners": list(impact.owners),
    }


def _traced(settings: Settings, tables: Sequence[LakeTable[...]]) -> dict[str, ColumnLineage]:
    """Return the column lineage of tables in the plans of their last runs."""
    lake = Lake(root=str(settings.lakehouse), engine=SparkEngine())
    return traced_tables(lake, [spec.name for table in tables for spec in table.tables])


def _print_graph(graph: LineageGraph, tables: Sequence[LakeTable[...]], form: Form, settings: Settings) -> None:
    if form == "mermaid":
        _say(as_mermaid(graph))
        return
    if form == "json":
        found = as_json(graph, column_types(tables), column_origins(tables), _traced(settings, tables))
        _say(json.dumps(found, indent=2))
        return
    grid = Grid("dataset", "read by", "owner", "last seen, UTC", title="Lineage", title_justify="left")
    for dataset in graph.datasets:
        for target, seen in _targets(graph, dataset):
            grid.add_row(escape(str(dataset)), escape(target), escape(dataset.owner), seen)
    Console(width=150).print(grid)


def _targets(graph: LineageGraph, dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Yield the datasets that a dataset feeds, each with the time of the last observed run."""
    for edge in graph.edges:
        if edge.source == dataset:
            yield str(edge.target), f"{edge.last_seen:%Y-%m-%d %H:%M}" if edge.last_seen else ""


def _print_impact(graph: LineageGraph, dataset: Dataset, form: Form) -> None:
    impact = affected_by(graph, dataset)
    part = _restricted(graph, {dataset, *impact.direct, *impact.indirect})
    if form == "mermaid":
        _say(as_mermaid(part, marked=dataset))
        return
    if form == "json":
        edges = as_json(part, {}, {})["edges"]
        _say(json.dumps({"dataset": str(dataset), **_as_dict(impact), "edges": edges}, indent=2))
        return
    title = f"What a change of {dataset} hits"
    grid = Grid("how", "what", "kind", "owner", title=escape(title), title_justify="left")
    for how, datasets in (("direct", impact.direct), ("indirect", impact.indirect)):
        for each in datasets:
            grid.add_row(how, escape(str(each)), kind_of(each), escape(each.owner))
    Console(width=150).print(grid if impact.direct else f"Nothing reads {dataset}.")


def _print_root(root: Root, form: Form) -> None:
    if form == "json":
        found = {"roots": root.datasets, "explained": root.explained}
        _say(json.dumps({name: [str(each) for each in datasets] for name, datasets in found.items()}, indent=2))
        return
    for each in root.datasets:
        _say(f"the fault began in {each}" + (f", of {each.owner}" if each.owner else ""))
    for each in root.explained:
        _say(f"{each} is downstream of it")


def _say(text: str) -> None:
    print(text)  # noqa: T201
