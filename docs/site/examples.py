"""Examples of docstrings: the statements, the rows in and rows out as tables, and the call as YAML."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from dedp_assets.components.chains.operations import StepOperation, operations
from dedp_assets.components.tending.acting import actions
from dedp_assets.components.yaml.model import OneOf, PythonName, inside, models_in
from dedp_assets.patterns.catalog import Pattern
from docs.site.pages import table
from tests.components.in_yaml import is_run_as_action, plain

__all__ = ["call_in_yaml", "rows_in", "rows_out", "statements", "text_of"]

_MAKERS = ("frame", "table")


def statements(pattern: Pattern) -> list[doctest.Example]:
    """Return the statements of the example in a pattern's docstring."""
    stated = (inspect.getdoc(pattern.function) or "").rpartition("Example:\n")[2]
    return doctest.DocTestParser().get_examples(stated)


def text_of(pattern: Pattern) -> str:
    """Write the example as a console shows it."""
    lines = []
    for each in statements(pattern):
        first, *rest = each.source.rstrip().splitlines()
        lines += [f">>> {first}", *(f"... {line}" for line in rest), *each.want.replace("<BLANKLINE>", "").splitlines()]
    return "\n".join(lines)


def rows_in(pattern: Pattern) -> Iterator[tuple[str, str]]:
    """Yield the frames and tables that an example begins with: title, and the rows as a table."""
    for each in statements(pattern):
        for name, call in _assigned(each.source):
            with suppress(ValueError, TypeError, AttributeError):
                columns, rows = _made(call)
                if rows:
                    yield f"`{name}`", table(columns, [[_cell(cell) for cell in row] for row in rows])


def rows_out(pattern: Pattern) -> Iterator[tuple[str, str]]:
    """Yield the rows that an example ends with: the expression that shows the rows, and the rows as a table."""
    columns = {name: _made(call)[0] for each in statements(pattern) for name, call in _columned(each.source)}
    for each in statements(pattern):
        source = each.source.strip()
        if each.want.startswith("+-"):
            lines = [line for line in each.want.splitlines() if line.startswith("|")]
            head, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
            yield f"`{source}`", table(head, rows)
        elif source.startswith("rows("):
            with suppress(ValueError, SyntaxError, TypeError):
                rows = [[_cell(cell) for cell in row] for row in ast.literal_eval(each.want.strip())]
                width = len(rows[0]) if rows else 0
                named = columns.get(source[5:-1], _selected(source))
                if rows:
                    yield f"`{source}`", table(named if len(named) == width else [" "] * width, rows)


def _selected(source: str) -> list[str]:
    """Return the columns that an expression selects last; none if they are no plain texts."""
    calls = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
    found = [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr.startswith("select")]
    return [str(each.value) for call in found[:1] for each in call.args if isinstance(each, ast.Constant)]


def call_in_yaml(pattern: Pattern) -> tuple[str, str]:
    """Write the example's call of a pattern as a step of a table, or as an action of maintenance.

    Returns:
        ``steps`` or ``actions``, and the YAML; both empty for a function that no file can name.
    """
    operation, given = operations().get(pattern.id), _arguments(pattern)
    if operation is None:
        return "", ""
    stated = {name: _stated(operation, name, value) for name, value in given.items() if name in operation.options}
    stated = {name: value for name, value in stated.items() if value is not None}
    if pattern.id in actions() and is_run_as_action(operation):
        stated.pop("now", None)  # comes by itself
        of_run = {role for role in operation.over.values() if role in ("object", "earlier")}
        step: dict[str, Any] = {pattern.id: stated, **({"given": "my_lake.values:of_run"} if of_run else {})}
        return "actions", _dumped({"actions": [step]})
    return "steps", _dumped({"steps": [{pattern.id: stated | _data(operation, given)}]})


def _dumped(value: object) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, width=100, default_flow_style=None))


def _data(operation: StepOperation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data besides the rows of the step before, by the names that a file gives."""
    found: dict[str, Any] = {}
    for name, role in operation.data.items():
        if role == "object" and name in given:
            found[name] = f"my_lake.values:{name}"
        elif role in ("earlier", "beside") and name in given:
            found[name] = f"gold/{name}" if role == "beside" else name
        elif role in ("frames", "besides"):
            found[name] = {key: f"gold/{key}" if role == "besides" else key for key in given.get(name, ())}
    return found


class _Thing:
    """A stand-in for a table, a frame or a server of an example: has every attribute, and a place in a lake."""

    def __init__(self, name: object = "x", *_: object, **__: object) -> None:
        self.location = Path(f"/lake/{name if isinstance(name, str) else getattr(name, 'name', 'x')}")

    def __getattr__(self, name: str) -> _Thing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> _Thing:
        return self

    def version(self) -> int:
        """Return the version of a table."""
        return 1


class _Space(dict[str, Any]):
    """Names of an example, with a stand-in for each that only a run makes."""

    def __missing__(self, name: str) -> _Thing:
        if hasattr(builtins, name):
            raise KeyError(name)
        return _Thing(name)


def _arguments(pattern: Pattern) -> Mapping[str, Any]:
    """Return the arguments of the example's call of a pattern by name, with stand-ins for what only a run has."""
    main = pattern.function.__name__
    space = {**vars(pattern.module), "frame": _Thing, "table": _Thing, "mkdtemp": lambda: "/data"}
    names = _Space(space)
    for node in (ast.parse(each.source).body[0] for each in statements(pattern)):
        if isinstance(node, ast.Assign | ast.Expr) and (calls := [*_calls(node, main)]):
            return _bound(pattern, calls[0], space, names)
        if isinstance(node, ast.Assign | ast.FunctionDef) or (
            isinstance(node, ast.ImportFrom) and node.module != "tempfile"
        ):
            with suppress(Exception):
                exec(compile(ast.Module([node], []), main, "exec"), space, names)  # noqa: S102 - the library's text
            space.update(names)  # for lambdas and comprehensions
    return {}


def _calls(node: ast.AST, name: str) -> Iterator[ast.Call]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == name:
            yield each


def _bound(pattern: Pattern, call: ast.Call, space: dict[str, Any], names: _Space) -> Mapping[str, Any]:
    """Return the arguments of a call by the names of the parameters."""

    def value(node: ast.expr) -> Any:  # noqa: ANN401 - any argument
        try:
            return eval(compile(ast.Expression(node), "call", "eval"), space, names)  # noqa: S307 - the library's text
        except Exception:  # only a run can compute it
            return _Thing()

    given, named = list[Any](), dict[str, Any]()
    for each in call.args:
        given += value(each.value) if isinstance(each, ast.Starred) else [value(each)]
    for keyword in call.keywords:
        named |= {keyword.arg: value(keyword.value)} if keyword.arg else value(keyword.value)
    return inspect.signature(pattern.function).bind_partial(*given, **named).arguments


def _assigned(source: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the frames and tables with rows of a statement, by the name that each gets."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=False))
            for name, call in pairs:
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _MAKERS:
                    yield ast.unparse(name), call


def _columned(source: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the frames and tables of a statement whose columns are a text."""
    for name, call in _assigned(source):
        with suppress(ValueError, TypeError, AttributeError):
            _made(call)
            yield name, call


def _made(call: ast.Call) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return columns and rows of a call of ``frame`` or ``table``.

    Raises:
        ValueError: if a column or a value is no literal.
    """
    given = [ast.literal_eval(each) for each in call.args]
    columns, *rows = given if isinstance(call.func, ast.Name) and call.func.id == "frame" else given[1:]
    return [each.strip().partition(" ")[0] for each in _split(columns)], rows


def _split(columns: str) -> list[str]:
    """Split the text of columns at the commas between columns."""
    found, depth, begun = [], 0, 0
    for place, sign in enumerate(columns):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            found.append(columns[begun:place])
            begun = place + 1
    return [*found, columns[begun:]]


def _cell(value: object) -> str:
    """Write a value of a row as a cell: NULL as a word, and a text so that its blanks show."""
    if value is None:
        return "NULL"
    return f"`{value}`" if isinstance(value, str) and value.strip() else repr(value) if value == "" else str(value)


def _stated(operation: StepOperation, name: str, value: object) -> Any:  # noqa: ANN401 - data of YAML
    """Return an option as YAML has it: data, the name of an object in Python, or ``None`` if only a run has it."""
    kind = operation.model.model_fields[name].annotation
    if kind is PythonName:
        return f"my_lake.values:{name}"
    choices = [each for one in (kind, *inside(kind)) for each in models_in(one) if issubclass(each, OneOf)]
    try:
        stated = plain(value, choices[0] if choices else None)
        yaml.safe_dump(stated)
    except Exception:  # a stand-in is no data
        return None
    return stated
