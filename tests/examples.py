"""The names that an example in a docstring finds: small frames, tables, and the servers they need."""

from __future__ import annotations

import ast
import doctest
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from tests.helpers import NOW
from tests.sinks import Inbox

NAMES = {name: name for name in ("spark", "frame", "table", "rows", "run", "database", "inbox")}
"""Name in an example -> fixture."""


_from_module = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]
# Python asks where a decorated function was made, which is the decorator's module, and would pass its example over.
doctest.DocTestFinder._from_module = lambda finder, module, found: (  # type: ignore[attr-defined]
    _from_module(finder, module, inspect.unwrap(found) if callable(found) else found)
)


def used(example: pytest.DoctestItem) -> set[str]:
    """The fixtures of the names that an example uses."""
    statements = (ast.parse(statement.source) for statement in example.dtest.examples)
    found = {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return {NAMES[name] for name in found & NAMES.keys()}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An example that uses Spark is a Spark test, and one that uses a server a slow one."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and (names := used(item)):
            item.add_marker(pytest.mark.slow if "database" in names else pytest.mark.spark)


@pytest.fixture(autouse=True)
def _example_names(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        fixtures = used(request.node)
        doctest_namespace.clear()  # pytest keeps one for all examples, so that one could lean on another's names
        doctest_namespace.update({n: request.getfixturevalue(f) for n, f in NAMES.items() if f in fixtures})


@pytest.fixture
def frame(spark: Any) -> Callable[..., DataFrame]:
    """``frame("id INT, day STRING", (1, "mon"), (2, "tue"))``: a DataFrame of those rows."""
    return lambda columns, *rows: spark.createDataFrame(rows, columns)


@pytest.fixture
def table(spark: Any, frame: Any, tmp_path: Path) -> Callable[..., Table]:
    """``table("visits", "id INT", (1,))``: a Delta table that holds those rows; without rows it is not created yet."""
    return tables_in(spark, frame, tmp_path)


def tables_in(spark: Any, frame: Any, folder: Path, **properties: str) -> Callable[..., Table]:
    """The maker of the tables of an example, in a folder, each with these properties of Delta."""

    def make(name: str | TableSpec, columns: Any = "", *rows: Any, partition_by: Any = ()) -> Table:
        made = name if isinstance(name, TableSpec) else TableSpec(name, _declared(columns), tuple(partition_by))
        made = replace(made, properties={**made.properties, **properties})
        new = Table(made, folder / made.name, spark)
        if rows:
            held = frame(", ".join(f"{name} {column.type}" for name, column in made.columns.items()), *rows)
            new.stage(held, provenance=Provenance(asset=made.name, run_id="before")).publish()
        return new

    return make


def _declared(columns: str | Mapping[str, Column]) -> Mapping[str, Column]:
    if not isinstance(columns, str):
        return columns
    stated = (column.split() for column in columns.split(","))
    return {name: Column(kind, classification="public") for name, kind in stated}


@pytest.fixture
def rows() -> Callable[[DataFrame | Table], list[tuple[Any, ...]]]:
    """``rows(frame_or_table)``: its rows as sorted tuples."""
    return lambda held: sorted(map(tuple, (held.read() if isinstance(held, Table) else held).collect()))


@pytest.fixture
def inbox() -> Inbox:
    """``inbox.ids("x")``: a sink that takes two records a request, and what destination ``x`` took, in order."""
    return Inbox(limit=2)


@pytest.fixture
def run() -> Provenance:
    """Who writes, in an example."""
    return Provenance(asset="example", run_id="run-1", at=NOW)
