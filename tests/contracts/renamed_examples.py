"""The examples of patterns under other names of columns: a new pattern is tried with odd ones by being there."""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress
from functools import cached_property

from pyspark.sql import Row

from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.schema import TableSpec
from tests.contracts.test_rerun_law import Example, names
from tests.helpers import a_run
from tests.sinks import Inbox

_SCHEMA = re.compile(r"\w+ [A-Z][A-Z0-9_<>(),]*(, \w+ [A-Z][A-Z0-9_<>(),]*)*")
_TYPE = re.compile(r"[A-Z]+(<.*>|\(.*\))?")
_TABLES_OWN = ("partition_by", "key")
_OF_EXPRESSIONS = ("select", "selectExpr", "filter", "orderBy")
_NAMED_AFTER = "(?:previous_|current_)?"
"""What the library puts before the name of a column to name another one after it."""


class NotThePattern(Exception):
    """An error of a statement that prepares or looks at rows: the example itself does something with the column."""


class RenamedExample(Example):
    """The example of a pattern, whose columns can have any names and be maps."""

    @cached_property
    def columns(self):
        """The columns of the frames and tables that it makes from texts."""
        texts = [
            node.value
            for statement in self.statements
            for node in ast.walk(ast.parse(statement.source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SCHEMA.fullmatch(node.value)
        ]
        return {pair.split(" ")[0] for text in texts for pair in text.split(", ") if " " in text}

    @property
    def tried(self):
        """Whether it has columns, and takes all of them from Spark."""
        return bool(self.columns) and "database" not in self.fixtures

    @cached_property
    def stated(self):
        """What its statements state, as its header has it: the example itself is run with all others."""
        wants = [statement.want for statement in self.statements]
        return ["refused" if "Traceback" in want else _stated(want or "None") for want in wants]

    def results(self, renaming, request):
        """What its statements state under a renaming, under the plain names again."""
        space = {**self.module, **{name: request.getfixturevalue(name) for name in self.fixtures}}
        space |= {"frame": _Frames(renaming, self.columns), "table": _tables(renaming, self.columns)}
        space |= {"inbox": Inbox(limit=2)}
        found = [self._told(statement, renaming, space) for statement in self.statements]
        assert renaming.columns_used == self.columns, "the example has columns that were not renamed"
        return [each if statement.want else None for each, statement in zip(found, self.statements, strict=True)]

    def _told(self, statement, renaming, space):
        try:
            return self._executed(statement, renaming, space)
        except PatternError:
            raise
        except Exception as error:
            if renaming.wrapped and not names(statement) & {*self.module["__all__"]}:
                raise NotThePattern from error
            raise

    def _executed(self, statement, renaming, space):
        (node,) = _Names(renaming, self.columns).visit(ast.parse(statement.source)).body
        if not isinstance(node, ast.Expr):
            exec(compile(ast.fix_missing_locations(ast.Module([node], [])), "<example>", "exec"), space)  # noqa: S102
            return None
        shown = isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") == "show"
        asked = node.value.func.value if shown else node.value
        value = compile(ast.fix_missing_locations(ast.Expression(asked)), "<example>", "eval")
        if shown:
            return _cells(eval(value, space), renaming)  # noqa: S307 - the library's own text
        if not statement.exc_msg:
            return _plain(eval(value, space), renaming)  # noqa: S307 - the library's own text
        with suppress(PatternError):
            return _plain(eval(value, space), renaming)  # noqa: S307
        return "refused"


class _Names(ast.NodeTransformer):
    """The columns of an example under their names in use: as a text, as the key of a mapping, and within SQL."""

    def __init__(self, renaming, columns):
        self.renaming, self.columns, self.name = renaming, columns, renaming
        each = "|".join(sorted(columns, key=len, reverse=True))
        self.token = re.compile(rf"(?<![\w`'/$])({_NAMED_AFTER})({each})(?![\w`'(])")

    def visit_Constant(self, node):
        if not isinstance(node.value, str) or _SCHEMA.fullmatch(node.value):
            return node
        if node.value in self.columns:
            return ast.Constant(self.name(node.value))
        if node.value.startswith("{"):
            return node
        return ast.Constant(self.token.sub(self._quoted, node.value))

    def _quoted(self, found):
        name = found[1] + self.renaming(found[2])
        self.renaming.plain[name] = found[0]
        return identifier(name)

    def visit_Call(self, node):
        if getattr(node.func, "id", "") in ("frame", "table"):
            node.args[:2] = [arg if isinstance(arg, ast.Constant) else self.visit(arg) for arg in node.args[:2]]
        else:
            own = self._of_expressions if getattr(node.func, "attr", "") in _OF_EXPRESSIONS else self.visit
            node.args, node.func = [own(arg) for arg in node.args], self.visit(node.func)
        for keyword in node.keywords:
            keyword.value = self._declared(keyword.value) if keyword.arg in _TABLES_OWN else self.visit(keyword.value)
        return node

    def visit_Dict(self, node):
        kinds = [value.value for value in node.values if isinstance(value, ast.Constant)]
        columns = [value for value in node.values if getattr(getattr(value, "func", None), "id", "") == "Column"]
        declares = bool(columns) or (kinds and all(isinstance(k, str) and _TYPE.fullmatch(k) for k in kinds))
        node.keys = [key and (self._declared(key) if declares else self.visit(key)) for key in node.keys]
        node.values = [self.visit(value) for value in node.values]
        return node

    def _of_expressions(self, node):
        return self._with(self.renaming.q, node)

    def _declared(self, node):
        return self._with(self.renaming.declared, node)

    def _with(self, name, node):
        self.name = name
        try:
            return self.visit(node)
        finally:
            self.name = self.renaming


class _Frames:
    """``frame`` of an example: texts that hold JSON have its fields renamed."""

    def __init__(self, renaming, columns):
        self.renaming, self.columns = renaming, columns

    def __call__(self, columns, *rows):
        return self.renaming.frame(columns, *[tuple(map(self._value, row)) for row in rows])

    def _value(self, value):
        with suppress(ValueError, TypeError, AttributeError):
            fields = json.loads(value).items()
            return json.dumps({self.renaming.declared(k) if k in self.columns else k: v for k, v in fields})
        return value


def _tables(renaming, columns):
    """``table`` of an example; its rows come with columns in a text."""
    frame = _Frames(renaming, columns)

    def table(name, columns="", *rows, partition_by=()):
        if not isinstance(name, TableSpec):
            held = renaming.columns(columns) if isinstance(columns, str) else columns
            name = TableSpec(name, held, tuple(partition_by))
        made = renaming.make_table(name)
        if rows:
            made.overwrite(frame(columns, *rows), provenance=a_run(run_id="before"))
        return made

    return table


def _stated(want):
    """A value as the header has it; of a frame that is shown the texts of its cells."""
    if not want.startswith("+"):
        return _plain(ast.literal_eval(want), None)
    lines = [line for line in want.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def _cells(frame, renaming):
    rows = [[_plain(value, renaming) for value in row] for row in frame.collect()]
    return [["NULL" if value is None else str(value) for value in row] for row in rows]


def _plain(value, renaming):
    if isinstance(value, Row):
        return _plain(value.asDict(), renaming)
    if isinstance(value, dict) and [*value] == ["it"]:
        return value["it"]
    if isinstance(value, dict):
        return {_plain(k, renaming): _plain(v, renaming) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, renaming) for each in value]
    if isinstance(value, str) and renaming:
        for name in sorted(renaming.plain, key=len, reverse=True):
            value = value.replace(name, renaming.plain[name])
    return value
