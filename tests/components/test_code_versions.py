"""Code versions of declarations in YAML: a change of what decides on rows is another one, and nothing else is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.graph.declare import LakeTable
from tests.components.chains import test_declaring
from tests.components.chains.test_declaring import yaml_of
from tests.components.declarations import SPECS
from tests.components.landed import test_declaring_landings

DESCRIBING = ("comment", "classification", "purpose", "technical", "replica", "description")
LANDED = ("columns", "format", "partitions", "event_time", "keys", "order_by", "keep", "rules", "new_columns")


def is_of_table(path):
    """Whether an attribute of a table decides on its rows."""
    of = ("table", "beside", "reads", "steps", "code_version")
    return path[1] in of and (path[-1] not in DESCRIBING or path[1] in ("reads", "steps"))


def is_of_valid(path):
    """Whether an attribute of a landing decides on the valid records."""
    return path[1] in (*LANDED, "code_version") and path[-1] not in DESCRIBING


def is_of_landed(path):
    """Whether an attribute of a landing decides on the records as landed."""
    dated = path[1] != "columns" or path[2] == "picked_up"
    return dated and path[1] in ("columns", "format", "partitions", "event_time", "code_version") and is_of_valid(path)


def tables_in(value: Any) -> list[LakeTable[...]] | None:
    """The tables of a declaration; none of one with a fault."""
    drafts, faults = drafts_of(yaml_of(value), "defs.yaml")
    found = [completed(each, SPECS) for each in drafts]
    if faults or any(wrong for *_, wrong in found):
        return None
    return [table for made, *_ in found for table in (made if isinstance(made, tuple) else (made,))]


def another(value: Any) -> Any:
    """A value of the same type."""
    if isinstance(value, bool):
        return not value
    return {str: lambda: f"{value} ", int: lambda: value + 1, float: lambda: value / 2}.get(type(value), lambda: None)()


def edited(value: Any, path: Any, how: str) -> Any:
    """The declaration with an attribute left out, or with another value."""
    found = copy.deepcopy(value)
    above: Any = found
    for key in path[:-1]:
        above = above[key]
    if how == "left out":
        del above[path[-1]]
    else:
        above[path[-1]] = another(above[path[-1]])
    return found


CASES = [
    (test_declaring, 0, is_of_table),
    (test_declaring_landings, 0, is_of_landed),
    (test_declaring_landings, 1, is_of_valid),
]


@pytest.mark.parametrize(("module", "number", "decides"), CASES, ids=["table", "landed records", "valid records"])
def test_what_decides_on_rows_is_another_code_version_and_nothing_else_is(module, number, decides):
    """Each attribute of a declaration that may be left out or be another one, tried in turn."""
    before, tried = tables_in(module.VALUE)[number].code_version, {"left out": 0, "another": 0}
    for path, value in module.ALL:
        for how in tried:
            if how == "another" and isinstance(value, dict | list):
                continue
            tables = tables_in(edited(module.VALUE, path, how))
            if tables is None:
                continue
            tried[how] += 1
            changed = tables[number].code_version != before
            assert changed <= decides(path), f"{path} {how}"
            if how == "another":
                assert changed >= decides(path), f"{path} {how}"
    assert min(tried.values()) > 10, tried


@pytest.mark.parametrize(("module", "number", "decides"), CASES, ids=["table", "landed records", "valid records"])
def test_what_refuses_rows_is_another_declaration(module, number, decides):
    """Columns and gates are, so that a partition that they refused is asked for again; what describes is not."""
    before = tables_in(module.VALUE)[number].declaration
    for path, value in module.ALL:
        tables = None if isinstance(value, dict | list) else tables_in(edited(module.VALUE, path, "another"))
        if tables and path[1] == "gates" and path[2] in ("audits", "checks") and (number or module is test_declaring):
            assert tables[number].declaration != before or path[-2] == "checks", path
        if tables and path[1] in ("about", "runs", "steps", "marker", "settled_minutes", "rules"):
            assert tables[number].declaration == before, path
