"""``dedp lineage``: graph of the tables, impact of a change, and paths of a column's values.

Exit code 1: a run read or wrote something undeclared (--compare).

Examples:
    dedp lineage silver/visits
    dedp lineage gold/daily_visitors.bytes
    dedp lineage --on yesterday --json
    dedp lineage --compare
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from dedp_assets.commands._arguments import day
from dedp_assets.commands._columns import as_document, as_trees, column_paths
from dedp_assets.commands._output import Grid, console, print_json, say
from dedp_assets.commands._tables import require_known
from dedp_assets.graph.catalogue.exporting import as_json, as_mermaid, kind_of
from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.checks.lineage import column_origins, column_types, declared_lineage, judge_lineage
from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.run.column_traces import traced_tables
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.lineage import Dataset, LineageGraph, ObservedRun
from dedp_assets.patterns.core.sql.column_lineage import broken_references
from dedp_assets.patterns.delta import LocalStore
from dedp_assets.patterns.observability.dataset_tracker import Impact, Root, affected_by, root_of
from dedp_assets.project import project

if TYPE_CHECKING:
    from dedp_assets.graph.catalogue.column_graph import ColumnPaths
    from dedp_assets.graph.declare import LakeTable
    from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage

__all__ = ["arguments", "compare", "lineage", "run"]

NEEDS = "dagster"
BESIDE = True

Form = Literal["text", "json", "mermaid"]
_NAMED = (
    "what a change hits; of several faulty tables, where the fault began; of TABLE.COLUMN, where its values come from"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the tables, the day of observed runs, and the form."""
    parser.add_argument("table", nargs="*", help=_NAMED)
    parser.add_argument("--on", type=day, metavar="DAY", help="what runs were observed to do on a UTC day")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="for programs, with columns")
    form.add_argument("--mermaid", dest="form", action="store_const", const="mermaid", help="as text of a flowchart")
    form.add_argument("--compare", dest="form", action="store_const", const="compare", help="what is not as declared")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Print the lineage in a form."""
    if chosen.form == "compare":
        return compare(settings, Clock().now())
    return lineage(settings, chosen.table, form=chosen.form or "text", on=chosen.on)


def lineage(settings: Settings, named: Sequence[str] = (), *, form: Form = "text", on: date | None = None) -> int:
    """Print the graph of all tables, the impact of a change, or the first of several faulty tables.

    Args:
        settings: where everything is.
        named: tables, sources or consumers by their names in the graph: none for the whole graph, one for the impact of
            a change, several for the place where a fault of all of them began; or one ``layer/dataset.column``.
        form: how to print.
        on: UTC day of observed runs to take the graph from, instead of the declarations.

    Raises:
        ConfigError: if the graph has no such dataset or column, or for a column among other names or with a day.
    """
    tables = project().tables()
    graph = declared_lineage(tables, project().jobs()).observing(_runs(settings))
    if on:
        start = datetime.combine(on, time(), timezone.utc)
        graph = graph.between(start, start + timedelta(days=1, microseconds=-1))
    known = {*map(str, graph.datasets)}
    if columns := [each for each in named if each not in known and "." in each and ":" not in each]:
        if len(named) > 1 or on:
            raise ConfigError(f"{columns[0]} must stand alone, as in `dedp lineage {columns[0]}`: it is a column")
        _print_column(column_paths(columns[0], tables, _traced(settings, tables)), form)
        return 0
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
    say(f"{len(runs)} observed runs, {share:.1%} of all flows are declared.")
    for name, lines in found.figures.items():
        for line in lines:
            say(f"{name.replace('_', ' ')}: {line}")
    declared = {name: [*columns] for name, columns in column_types(project().tables()).items()}
    for name, lineage in _traced(settings, project().tables()).items():
        if not (broken := broken_references(lineage, declared)).passed:
            say(f"traced by earlier code: {name}: {broken.note}")
    return 1 if found.refuses else 0


def _runs(settings: Settings) -> list[ObservedRun]:
    return list(LineageOutbox(LocalStore(str(settings.home / "lineage"))).runs(namespace=settings.lineage_namespace))


def _named(graph: LineageGraph, name: str) -> Dataset:
    """Return the dataset of the graph with a name."""
    datasets = {str(each): each for each in graph.datasets}
    require_known(name, datasets)
    require_table(name, datasets, of="of the lineage")
    return datasets[name]


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
    lake = lake_of(settings)
    return traced_tables(lake, [spec.name for table in tables for spec in table.tables])


def _print_graph(graph: LineageGraph, tables: Sequence[LakeTable[...]], form: Form, settings: Settings) -> None:
    if form == "mermaid":
        say(as_mermaid(graph))
        return
    if form == "json":
        print_json(as_json(graph, column_types(tables), column_origins(tables), _traced(settings, tables)))
        return
    grid = Grid("dataset", "read by", "owner", "last seen, UTC", title="Lineage")
    for dataset in graph.datasets:
        for target, seen in _targets(graph, dataset):
            grid.add_row(str(dataset), target, dataset.owner, seen)
    console().print(grid)


def _targets(graph: LineageGraph, dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Yield the datasets that a dataset feeds, each with the time of the last observed run."""
    for edge in graph.edges:
        if edge.source == dataset:
            yield str(edge.target), f"{edge.last_seen:%Y-%m-%d %H:%M}" if edge.last_seen else ""


def _print_impact(graph: LineageGraph, dataset: Dataset, form: Form) -> None:
    impact = affected_by(graph, dataset)
    part = _restricted(graph, {dataset, *impact.direct, *impact.indirect})
    if form == "mermaid":
        say(as_mermaid(part, marked=dataset))
        return
    if form == "json":
        edges = as_json(part, {}, {})["edges"]
        print_json({"dataset": str(dataset), **_as_dict(impact), "edges": edges})
        return
    title = f"What a change of {dataset} hits"
    grid = Grid("how", "what", "kind", "owner", title=title)
    for how, datasets in (("direct", impact.direct), ("indirect", impact.indirect)):
        for each in datasets:
            grid.add_row(how, str(each), kind_of(each), each.owner)
    console().print(grid if impact.direct else f"Nothing reads {dataset}.")


def _print_column(paths: ColumnPaths, form: Form) -> None:
    if form == "mermaid":
        say(as_mermaid(paths.graph(), marked=paths.column))
    elif form == "json":
        print_json(as_document(paths))
    else:
        for line in as_trees(paths):
            say(line)


def _print_root(root: Root, form: Form) -> None:
    if form == "json":
        found = {"roots": root.datasets, "explained": root.explained}
        print_json({name: [str(each) for each in datasets] for name, datasets in found.items()})
        return
    for each in root.datasets:
        say(f"the fault began in {each}" + (f", of {each.owner}" if each.owner else ""))
    for each in root.explained:
        say(f"{each} is downstream of it")
