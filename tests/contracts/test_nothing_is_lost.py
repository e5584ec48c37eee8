"""Every record of every input of every table: taken, a letter, counted, or declared to be in another table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from dedp_assets.case_study import defs
from dedp_assets.graph.declare import declared
from dedp_assets.graph.resources.environments import CHECKOUT

TABLES = declared(defs)
INPUTS = [(table, upstream) for table in TABLES for upstream in table.reads.tables]
DROPPING = {
    "filter",
    "where",
    "dropna",
    "limit",
    "sample",
    "distinct",
    "dropDuplicates",
    "subtract",
    "intersect",
    "join",
}
"""Methods of a DataFrame that leave out rows and say nothing of it."""
RUNS = {spec: table.runs for table in TABLES for spec in table.tables}
OTHER_DAYS = ("2026-01-07", "2025-12-10")
"""Days of which a branch of a choice by date takes one or the other: of the other branch, its table holds nothing."""
OF_A_DAY = {"DATE": "2026-01-07", "STRING": "2026-01-07-13", "INT": "3", "BIGINT": "3"}


def partitions(table):
    """One partition of each kind that a table may hold: with a value, and with NULL where a column allows that."""
    columns = {name: table.columns[name] for name in table.partition_by}
    day = next(each for each in OTHER_DAYS if table not in RUNS or RUNS[table].takes(each))
    known = {**OF_A_DAY, "DATE": day}
    values = [[known[c.type]] if c.required else [known[c.type], None] for c in columns.values()]
    return [dict(zip(columns, chosen, strict=True)) for chosen in product(*values)]


@pytest.mark.parametrize(
    ("table", "upstream"), INPUTS, ids=[f"{table.spec.name} of {read.name}" for table, read in INPUTS]
)
def test_each_partition_that_an_input_may_have_is_read_by_some_run(table, upstream):
    """Where a partition column allows NULL, the rows without a value are read as well: by whom they feed, or by all."""
    feed = table.reads.tables[upstream]
    for partition in partitions(upstream):
        keys = [*feed.feeds(partition)] or [OF_A_DAY["DATE"] if table.runs.partitions else ""]
        for key in keys:
            read = [wanted for wanted in feed.reads(key) if wanted.items() <= partition.items()]
            assert read, f"{table.spec.name} never reads {partition} of {upstream.name}"


@cache
def together() -> list[frozenset[str]]:
    """Names of the parts that splits of the library have, as its modules write them."""
    found = set()
    for path in (CHECKOUT / "dedp_assets" / "patterns").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Split"
            named = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "parts"
            for parts in [each for each in ast.walk(node) if isinstance(each, ast.Dict)] if made or named else []:
                found.add(frozenset(key.value for key in parts.keys if isinstance(key, ast.Constant)))
    return sorted(found, key=sorted)


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of the graph's modules."""
    for path in sorted(Path(next(iter(defs.__path__))).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(CHECKOUT)}: {node.name}", node


def drops(function: ast.FunctionDef) -> list[str]:
    """What in a function leaves out rows without a word."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    named = [f".{call.attr}(" for call in calls if isinstance(call, ast.Attribute) and call.attr in DROPPING]
    texts = [call for call in calls if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Constant)]
    named = [name for name in named if name not in {f".{call.attr}(" for call in texts}]
    parts = {
        node.slice.value
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }
    known = [whole for whole in together() if whole & parts]
    lost = min((sorted(whole - parts) for whole in known), key=len, default=[])
    return [*named, *[f"the part {part} of a split" for part in lost]]


def test_no_function_of_the_graph_leaves_out_rows_without_saying_where_they_are():
    """Rows are left out by what counts them, or by ``taken``, which names the table that has the rest."""
    assert frozenset({"valid", "dead"}) in together()
    found = {name: dropped for name, function in functions() if (dropped := drops(function))}
    assert found == {}


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        ("visits.rows().filter(RULE)", [".filter("]),
        ("rows.join(others, 'id')", [".join("]),
        ("divert_unprocessable(rows, **RECORD)['valid']", ["the part dead of a split"]),
        ("split['valid'], split['dead']", []),
        ("', '.join(names)", []),
        ("taken(visits.rows(), rest=VISITS, where=RULE)", []),
    ],
)
def test_what_leaves_out_rows_is_seen(code, lost):
    """The ways in which a table lost records before."""
    (function,) = ast.parse(f"def f():\n    return {code}\n").body
    assert drops(function) == lost


def test_who_takes_a_part_of_the_records_names_a_table_of_the_graph():
    """The rest of what ``taken`` takes lies in a table that some asset writes from the same records."""
    written = {spec for table in TABLES for spec in table.tables}
    assert {name: rest.name for name, rest in _rests() if rest not in written} == {}


def _rests():
    for table in TABLES:
        space = table.function.__globals__
        for node in ast.walk(ast.parse(Path(table.function.__code__.co_filename).read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "taken":
                (rest,) = (word.value.id for word in node.keywords if word.arg == "rest")
                yield table.spec.name, space[rest]
