"""Default checks: every table of the graph has one of each kind, or says why not; their limits stand in one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dedp_assets.case_study.defs as case_study
from dedp_assets.graph import checks
from dedp_assets.graph.declare import About, declared
from dedp_assets.graph.declare.defaults import KINDS, takes_null_shares, takes_volume
from dedp_assets.patterns.core.errors import ConfigError

TABLES = {table.spec.name: table for table in declared(case_study)}


def checked_by(declared, judged):
    """The kinds of default checks of a declared table, each with the name of the check."""
    found = {
        "freshness": _freshness(declared, judged, ()),
        "completeness": "every_partition_is_current" if _is_kept(declared) else "",
        "volume": _volume(declared),
        "null_shares": _nulls(declared),
        "constraints": "stored_rows_keep_constraints" if _has_constraints(declared) else "",
    }
    return {kind: check for kind, check in found.items() if check}


def _freshness(declared, judged, below):
    """The check of a table's freshness; a table that keeps up is as fresh as its upstream tables, or their reasons."""
    expects, name = declared.about.expects, declared.spec.name
    if declared.fresh:
        return "data_is_recent"
    if expects.due or expects.gap_minutes or expects.every_minutes:
        return "expects"
    upstream = [judged.get(each.name) for each in declared.reads.tables if each.name != name]
    followed = _is_kept(declared) and upstream and name not in below
    down = (*below, name)
    fresh = followed and all(
        each and ("freshness" in each.unchecked or _freshness(each, judged, down)) for each in upstream
    )
    return "freshness of upstream tables, and every_partition_is_current" if fresh else ""


def _volume(declared):
    if declared.about.expects.volume is not None:
        return "expects.volume"
    return "newest_volume_is_usual" if takes_volume(declared) else ""


def _nulls(declared):
    if all(column.required for column in declared.spec.columns.values()):
        return "every column is NOT NULL"
    return "null_shares_are_usual" if takes_null_shares(declared) else ""


def _has_constraints(declared):
    return all(
        table.checks or table.key or any(column.required for column in table.columns.values())
        for table in declared.tables
    )


def _is_kept(declared):
    """Whether the reconciler keeps a table current."""
    return bool(declared.lands or (declared.runs.follows and declared.reads.tables))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_check_of_each_kind_or_a_reason(name):
    """And no reason for a kind that is checked."""
    checked, reasons = checked_by(TABLES[name], TABLES), TABLES[name].unchecked
    assert [kind for kind in KINDS if kind not in checked] == [kind for kind in KINDS if kind in reasons]


def test_a_reason_is_one_line():
    """It stands in a table."""
    reasons = [reason for table in TABLES.values() for reason in table.unchecked.values()]
    assert len(reasons) > 40
    assert not [reason for reason in reasons if "\n" in reason or not 10 < len(reason) < 100]


def test_a_wrong_exception_is_refused():
    """An unknown kind, and a kind without a reason."""
    with pytest.raises(ConfigError, match=r"unchecked must name kinds of default checks .*, not 'fresh'"):
        About("team:x", unchecked={"fresh": "no need"})
    with pytest.raises(ConfigError, match="unchecked must say why there is no check of volume, not ' '"):
        About("team:x", unchecked={"volume": " "})


def numbers(module: ast.Module) -> Iterator[str]:
    """The names with a number as a default: constants, attributes of records, and parameters."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            given = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(given[::-1], node.args.defaults[::-1]), *zip(node.args.kwonlyargs, node.args.kw_defaults)]  # noqa: B905
            yield from (name.arg for name, value in pairs if is_number(value))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and is_number(node.value):
            yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def is_number(value: ast.expr | None) -> bool:
    """Whether an expression is a number alone, also a negative or a multiplied one."""
    if isinstance(value, ast.UnaryOp | ast.BinOp):
        return all(is_number(each) for each in ast.iter_child_nodes(value) if isinstance(each, ast.expr))
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def test_no_check_has_a_limit_of_its_own():
    """A number that a check starts from stands in the file of defaults; others are units, or sizes of lists."""
    found = {
        f"{file.stem}.{name}"
        for folder in checks.__path__
        for file in Path(folder).glob("*.py")
        for name in numbers(ast.parse(file.read_text()))
    }
    shown, units = {"causes._FAILED_RUNS", "completeness._SHOWN", "catching_up._MOST"}, {"contracts._WEEK"}
    assert found == shown | units


def test_a_number_is_found_wherever_a_default_may_stand():
    """So that the rule above can fail."""
    text = "A = 1\nclass B:\n    c: float = -0.5\ndef f(d=2 * 3, *, e=4.0, g=None, h=True): i = 'x'\n"
    assert {*numbers(ast.parse(text))} == {"A", "c", "d", "e"}
