"""Nodes of Spark's analysed plan: the columns that come out of each, and what decides about its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Protocol

from dedp_assets.patterns.core.column_lineage import Effect
from dedp_assets.patterns.core.names import NAMED_ROWS
from dedp_assets.patterns.observability._plan_expressions import Column, Expressions, Unread, columns_of, groups, pieces
from dedp_assets.patterns.observability._plan_values import (
    CONSTANT,
    Cause,
    Value,
    combined,
    influences_of,
    opaque,
    positional,
)

__all__ = ["Rows", "Walk"]

_GENERATED = re.compile(r"(.*), (?:true|false)(?:, [^\[]*)?, \[", re.DOTALL)
_OUR_VIEW = re.compile(r"_pyspark_\w+")
_PASSING = (
    "CollectMetrics", "EventTimeWatermark", "GlobalLimit", "LocalLimit", "Offset", "PipeOperator", "RebalancePartitions",
    "Repartition", "RepartitionByExpression", "ResolvedHint", "ReturnAnswer", "Sample", "Tail", "UnresolvedHint",
)  # fmt: skip
_CODE = re.compile(r"(?:MapIn|PythonMapIn|FlatMap|TransformWith|MapPartitions|MapElements|MapGroups|AppendColumns)\w*")
_LEAVES = (
    "LogicalRDD",
    "LogicalRelation",
    "Relation",
    "RelationV2",
    "DataSourceV2Relation",
    "ExternalRDD",
    "HiveTableRelation",
)
_CONSTANT_LEAVES = ("LocalRelation", "OneRowRelation", "Range", "CommandResult")


class _Node(Protocol):
    text: str
    children: list[_Node]
    subqueries: list[_Node]


@dataclass(frozen=True)
class Rows:
    """The rows that come out of a node.

    Attributes:
        columns: id -> column.
        ids: ids of the columns, in order; ``None`` if the order is not known.
        causes: what decides about the rows.
        gaps: why ``causes`` may not be all.
        unknown: what an id is that is not among the columns.
        named: whether an input with a name is below, so that a view above is none.
        leaf: whether nothing but names is above the stored rows.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    ids: tuple[str, ...] | None = ()
    causes: frozenset[Cause] = frozenset()
    gaps: frozenset[str] = frozenset()
    unknown: Value | None = None
    named: bool = False
    leaf: bool = False

    def made(self, found: Sequence[tuple[str, Column]], *more: Cause) -> Rows:
        """Return rows with other columns, decided by the same and ``more``."""
        ids = tuple(number for number, _ in found)
        return replace(self, columns=dict(found), ids=ids, causes=self.causes | {*more}, leaf=False)


@dataclass
class Walk:
    """A walk over the nodes of one plan, from the leaves up.

    Attributes:
        tables: name of an input in the plan -> the table that it stands for.
    """

    tables: Mapping[str, str]
    _shared: dict[str, Rows] = field(default_factory=dict)

    def read(self, node: _Node, outer: Mapping[str, Column] = {}) -> Rows:  # noqa: B006 - never changed
        """Return the rows that come out of a node; ``outer`` are the columns around a subquery."""
        name = kind[0] if (kind := re.match(r"'?\w+", node.text)) else ""
        if name in ("CTERelationRef", "UnionLoopRef"):
            return self._referenced(name, node.text)
        below = [self._child(each, outer) for each in node.children]
        together = _joined(below)
        if name in _LEAVES or name in _CONSTANT_LEAVES:
            return _leaf(name, node.text)
        around = {**outer, **together.columns}
        inner = [self.read(each, around) for each in node.subqueries]
        together = replace(together, gaps=together.gaps.union(*(each.gaps for each in inner)))
        handler = _HANDLERS.get(name)
        try:
            if name == "WithCTE" and below:
                return below[-1]
            if name in ("SubqueryAlias", "View") and len(below) == 1:
                return self._named(name, node.text, below[0])
            if name in _PASSING and len(below) == 1:
                return replace(below[0], leaf=False)
            if handler is not None:
                subqueries = [(_first(each), each.causes) for each in inner]
                reader = Expressions(around, together.unknown, subqueries)
                return handler(node.text[len(name) :].strip(), _Reading(together, below, inner, reader))
            if _CODE.fullmatch(name):
                return _code(node.text, together, Expressions(around, together.unknown))
        except Unread as error:
            return _not_understood(name, str(error), together)
        except (ValueError, LookupError):
            return _not_understood("", f"{name} of the plan has another form than known", together)
        return _not_understood("", f"{name or 'a node'} of the plan is not understood", replace(together, columns={}))

    def _child(self, node: _Node, outer: Mapping[str, Column]) -> Rows:
        rows = self.read(node, outer)
        if found := re.match(r"CTERelationDef (\d+)", node.text):
            self._shared[found[1]] = rows
        return rows

    def _referenced(self, name: str, text: str) -> Rows:
        """Return the rows of a common table expression under their new ids."""
        number = re.match(r"\w+ (\d+)", text)
        known = self._shared.get(number[1]) if number and name == "CTERelationRef" else None
        listed = _attributes(groups(text)[0], ", ") if "[" in text else []
        if known is None or known.ids is None or len(known.ids) != len(listed):
            why = "a recursive query goes round" if name == "UnionLoopRef" else "a WITH clause is not understood"
            return Rows(ids=None, unknown=opaque(why), gaps=frozenset([why]))
        values = [known.columns[each].value if each in known.columns else known.unknown for each in known.ids]
        made = [
            (number, Column((name,), value or CONSTANT)) for (name, number), value in zip(listed, values, strict=True)
        ]
        return known.made(made)

    def _named(self, name: str, text: str, rows: Rows) -> Rows:
        """Return the rows under a name: an input, if the name is that of a table, or the first one above its rows."""
        parts = re.match(r"SubqueryAlias (.*)" if name == "SubqueryAlias" else r"View \((.*?), \[", text, re.DOTALL)
        called = parts[1] if parts else ""
        plain = called[1:-1].replace("``", "`") if re.fullmatch(r"`(?:[^`]|``)*`", called) else called
        table = self.tables.get(plain) or (plain[len(NAMED_ROWS) :] if plain.startswith(NAMED_ROWS) else "")
        first = not rows.named and not _OUR_VIEW.fullmatch(plain) and (name == "View" or rows.leaf)
        if not (table or first) or plain.startswith("__auto_generated"):
            return rows
        if rows.ids is None:
            return replace(rows, named=True)
        source = table or plain
        columns = {
            number: Column(each.names, Value({(source, (each.names[0],)): "IDENTITY"}, plain=True))
            for number, each in rows.columns.items()
        }
        return Rows(columns, rows.ids, named=True, leaf=True)


@dataclass(frozen=True)
class _Reading:
    rows: Rows
    below: Sequence[Rows]
    inner: Sequence[Rows]
    expressions: Expressions

    def decided(self, text: str, effect: Effect) -> Rows:
        """Return the rows, decided by an expression as well."""
        try:
            value = self.expressions.value(self.expressions.marked(text))
        except Unread as error:
            return replace(self.rows, gaps=self.rows.gaps | {str(error)}, leaf=False)
        causes = self.rows.causes | influences_of(value, effect)
        return replace(self.rows, causes=causes, gaps=self.rows.gaps | value.unknown, leaf=False)


def _project(text: str, at: _Reading) -> Rows:
    listed = columns_of(groups(at.expressions.marked(text))[0])
    return at.rows.made([at.expressions.item(each) for each in listed])


def _aggregate(text: str, at: _Reading) -> Rows:
    found = groups(at.expressions.marked(text))
    keys, made = (found[0], found[1]) if len(found) > 1 else ("", found[0])
    at.expressions.keys = frozenset(re.findall(r"\ue000(\d+)\ue001", keys))
    key = combined([at.expressions.value(each) for each in pieces(keys)])
    rows = at.rows.made([at.expressions.item(each) for each in columns_of(made)], *influences_of(key, "GROUP_BY"))
    return replace(rows, gaps=rows.gaps | key.unknown)


def _window(text: str, at: _Reading) -> Rows:
    made, *_ = groups(at.expressions.marked(text))
    at.expressions.keys = frozenset(at.expressions.columns)
    found = [at.expressions.item(each) for each in columns_of(made)]
    return _added(at.rows, found)


def _generate(text: str, at: _Reading) -> Rows:
    marked = at.expressions.marked(text)
    head = _GENERATED.match(marked)
    if head is None:
        raise Unread("a generator has no columns")
    made = _attributes(marked[head.end() : -1], ", ")
    call = re.fullmatch(r"(\w+)\((.*)\)", head[1], re.DOTALL)
    arguments = pieces(call[2]) if call else []
    values = [at.expressions.value(head[1]).changed("TRANSFORMATION")] * len(made)
    if call and call[1] == "stack":
        values = _stacked(at, arguments[1:], len(made))
    elif call and call[1] == "explode" and len(made) == 1 and len(arguments) == 1:
        array = at.expressions.value(arguments[0])
        changed = array.changed("TRANSFORMATION")
        values = [replace(changed, plain=array.plain)]
    return _added(at.rows, [(n, Column((name,), v)) for (name, n), v in zip(made, values, strict=True)])


def _stacked(at: _Reading, arguments: Sequence[str], width: int) -> list[Value]:
    if not width or len(arguments) % width:
        raise Unread("stack has other columns than values")
    return [positional([at.expressions.value(each) for each in arguments[n::width]]) for n in range(width)]


def _expand(text: str, at: _Reading) -> Rows:
    projections, outputs = groups(at.expressions.marked(text))
    rows = [pieces(each) for each in groups(projections)]
    made = [_named_id(each, at) for each in columns_of(outputs)]
    if any(len(each) != len(made) for each in rows):
        raise Unread("an expansion has other columns than values")
    values = [positional([at.expressions.value(each[n]) for each in rows]) for n in range(len(made))]
    return at.rows.made([(n, Column((name,), value)) for (name, n), value in zip(made, values, strict=True)])


def _named_id(text: str, at: _Reading) -> tuple[str, str]:
    if whole := re.fullmatch(r"\ue000(\d+)\ue001", text):
        return at.expressions.columns[whole[1]].names[0], whole[1]
    return _attributes(text, ", ")[0]


def _union(text: str, at: _Reading) -> Rows:
    first = at.below[0] if at.below else Rows(ids=None)
    if any(each.ids is None or len(each.ids) != len(first.ids or ()) for each in at.below) or first.ids is None:
        return _not_understood("", "the branches of a union are not understood", replace(at.rows, columns={}))
    made = []
    for place, number in enumerate(first.ids):
        column = first.columns.get(number)
        branches = [_value_of(each, (each.ids or ())[place]) for each in at.below]
        made.append((number, Column(column.names if column else (), positional(branches))))
    return at.rows.made(made)


def _set(text: str, at: _Reading) -> Rows:
    """Return the rows of INTERSECT or EXCEPT: those of the left side, chosen by all columns of both."""
    left = at.below[0]
    causes = [influences_of(each.value, "FILTER") for rows in at.below for each in rows.columns.values()]
    chosen = at.rows.causes.union(*causes)
    return replace(left, causes=chosen, gaps=at.rows.gaps, named=at.rows.named, leaf=False)


def _join(text: str, at: _Reading) -> Rows:
    kind, _, condition = text.partition(", ")
    rows = at.decided(condition, "JOIN") if condition else replace(at.rows, leaf=False)
    if kind.startswith(("LeftSemi", "LeftAnti")):
        left = at.below[0]
        return replace(rows, columns=left.columns, ids=left.ids, unknown=left.unknown)
    return rows


def _lateral(text: str, at: _Reading) -> Rows:
    if len(at.inner) != 1:
        raise Unread("a lateral join is not understood")
    inner = at.inner[0]
    rows = _joined([at.rows, inner])
    condition = at.expressions.marked(text).partition(", ")[2].partition(", ")[2]
    causes = influences_of(at.expressions.value(condition), "JOIN") if condition else frozenset[Cause]()
    return replace(rows, causes=rows.causes | causes, leaf=False)


def _distinct(text: str, at: _Reading) -> Rows:
    causes = [influences_of(each.value, "GROUP_BY") for each in at.rows.columns.values()]
    return replace(at.rows, causes=at.rows.causes.union(*causes), leaf=False)


def _code(text: str, rows: Rows, expressions: Expressions) -> Rows:
    """Return the columns that a Python function makes of whole rows: each may come from all of them."""
    marked = expressions.marked(text)
    listed = groups(marked)
    made = _attributes(listed[-1], ", ")
    call = next(iter(re.findall(r"([^\s(,]+)\(", marked)), "a function")
    inputs = combined(
        [each.value.changed("TRANSFORMATION") for n, each in rows.columns.items() if f"\ue000{n}\ue001" in marked]
    )
    reason = opaque(f"{call} is a function whose code no plan shows")
    value = combined([inputs, reason])
    return rows.made([(number, Column((name,), value)) for name, number in made])


def _leaf(name: str, text: str) -> Rows:
    """Return the columns of stored rows, whose name stands above them, or of constants."""
    if name == "Range":
        return Rows(ids=None, unknown=CONSTANT)
    # Names may have brackets that do not match.
    listed = re.search(r"\[(.*)\]", text, re.DOTALL)
    try:
        found = _attributes(listed[1], "," if name == "Relation" else ", ") if listed else []
    except Unread as error:
        return Rows(ids=None, unknown=opaque(str(error)))
    constant = name in _CONSTANT_LEAVES
    columns = {
        number: Column((each,), CONSTANT if constant else Value({("", (each,)): "IDENTITY"}, plain=True))
        for each, number in found
    }
    return Rows(columns, tuple(number for _, number in found), leaf=not constant)


def _attributes(text: str, separator: str) -> list[tuple[str, str]]:
    """List the names and ids of new columns."""
    found, start = list[tuple[str, str]](), 0
    while start < len(text):
        part = re.compile(rf"(.*?)#(\d+)L?(?:-T\d+ms)?(?:{separator}|$)", re.DOTALL).match(text, start)
        if part is None:
            raise Unread("a list of columns is not understood")
        found.append((part[1], part[2]))
        start = part.end()
    return found


def _added(rows: Rows, found: Sequence[tuple[str, Column]]) -> Rows:
    ids = None if rows.ids is None else (*rows.ids, *(number for number, _ in found))
    return replace(rows, columns={**rows.columns, **dict(found)}, ids=ids, leaf=False)


def _joined(below: Sequence[Rows]) -> Rows:
    """Return the columns of several rows side by side."""
    if len(below) == 1:
        return below[0]
    ids = None if any(each.ids is None for each in below) else tuple(n for each in below for n in each.ids or ())
    unknown = [each.unknown for each in below if each.unknown]
    columns = reduce(lambda all_of_it, each: {**all_of_it, **each.columns}, below, dict[str, Column]())
    causes = frozenset[Cause]().union(*(each.causes for each in below))
    gaps = frozenset[str]().union(*(each.gaps for each in below))
    named = any(each.named for each in below)
    return Rows(columns, ids, causes, gaps, combined(unknown) if unknown else None, named)


def _first(rows: Rows) -> Value:
    return _value_of(rows, rows.ids[0]) if rows.ids else rows.unknown or CONSTANT


def _value_of(rows: Rows, number: str) -> Value:
    column = rows.columns.get(number)
    return column.value if column else rows.unknown or CONSTANT


def _not_understood(name: str, why: str, rows: Rows) -> Rows:
    """Return rows of which only the columns are known that come from below: an id stands for the same value for ever."""
    reason = f"{name}: {why}" if name else why
    unknown = combined([opaque(reason), *([rows.unknown] if rows.unknown else [])])
    return replace(rows, ids=None, unknown=unknown, gaps=rows.gaps | {reason}, leaf=False)


_HANDLERS: Mapping[str, Callable[[str, _Reading], Rows]] = {
    "Project": _project,
    "Aggregate": _aggregate,
    "Window": _window,
    "Generate": _generate,
    "Expand": _expand,
    "Union": _union,
    "Intersect": _set,
    "Except": _set,
    "Join": _join,
    "AsOfJoin": _join,
    "LateralJoin": _lateral,
    "Distinct": _distinct,
    "Filter": lambda text, at: at.decided(text, "FILTER"),
    "Sort": lambda text, at: at.decided(groups(at.expressions.marked(text))[0], "SORT"),
    "Deduplicate": lambda text, at: at.decided(groups(at.expressions.marked(text))[0], "GROUP_BY"),
    "DeduplicateWithinWatermark": lambda text, at: at.decided(groups(at.expressions.marked(text))[0], "GROUP_BY"),
    "CTERelationDef": lambda text, at: at.rows,
}
