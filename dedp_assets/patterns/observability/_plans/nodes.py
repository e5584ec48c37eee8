"""Nodes of Spark's analysed plan: the columns of the result of each, and the columns that choose rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dedp_assets.patterns.core.names import NAMED_ROWS
from dedp_assets.patterns.core.sql.column_lineage import Effect
from dedp_assets.patterns.observability._plans.expressions import Expressions
from dedp_assets.patterns.observability._plans.rows import (
    LEAVES,
    Rows,
    first_value,
    leaf_rows,
    new_columns,
    not_understood,
    side_by_side,
    value_in,
    with_columns,
)
from dedp_assets.patterns.observability._plans.terms import WITHOUT_CODE, PlanColumn
from dedp_assets.patterns.observability._plans.texts import UnreadablePlan, inside, items, lists, pieces
from dedp_assets.patterns.observability._plans.tree import PlanNode
from dedp_assets.patterns.observability._plans.values import (
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
_MADE_BY_SPARK = re.compile(r"_pyspark_\w+$|__auto_generated")
"""Names of tables that Spark generates for frames in SQL, without a meaning for lineage."""
_PASSING = (
    "CollectMetrics", "EventTimeWatermark", "GlobalLimit", "LocalLimit", "Offset", "PipeOperator",
    "RebalancePartitions", "Repartition", "RepartitionByExpression", "ResolvedHint", "ReturnAnswer", "Sample",
    "Tail", "UnresolvedHint",
)  # fmt: skip
_CODE = re.compile(r"(?:MapIn|PythonMapIn|FlatMap|TransformWith|MapPartitions|MapElements|MapGroups|AppendColumns)\w*")


_NONE: Mapping[str, PlanColumn] = MappingProxyType({})


@dataclass
class Walk:
    """A walk over the nodes of one plan, from the leaves up.

    Attributes:
        tables: name of an input in the plan -> the table that it stands for.
        structs: ids of the columns of which the plan takes a field.
    """

    tables: Mapping[str, str]
    structs: frozenset[str] = frozenset()
    _shared: dict[str, Rows] = field(default_factory=dict)

    def read(self, node: PlanNode, outer: Mapping[str, PlanColumn] = _NONE) -> Rows:
        """Return the rows that come out of a node; ``outer`` are the columns around a subquery."""
        name = kind[0] if (kind := re.match(r"'?\w+", node.text)) else ""
        if name in LEAVES:
            return leaf_rows(name, node.text)
        below = [self._child(each, outer) for each in node.children]
        rows = side_by_side(below)
        around = {**outer, **rows.columns}
        inner = [self.read(each, around) for each in node.subqueries]
        rows = replace(rows, gaps=rows.gaps.union(*(each.gaps for each in inner)))
        subqueries = [(first_value(each), each.causes) for each in inner]
        reader = Expressions(around, rows.unknown, subqueries, self.structs)
        try:
            return self._read(name, _NodeReading(node.text[len(name) :].strip(), rows, below, inner, reader))
        except UnreadablePlan as error:
            return not_understood(f"{name}: {error}", rows)
        except (ValueError, LookupError):
            return not_understood(f"{name} of the plan has another form than known", rows)

    def _read(self, name: str, at: _NodeReading) -> Rows:
        if name in ("CTERelationRef", "UnionLoopRef"):
            return self._referenced(name, at.text)
        if name in ("SubqueryAlias", "View") and len(at.below) == 1:
            return self._named(name, at.text, at.rows)
        if handler := _HANDLERS.get(name):
            return handler(at)
        if _CODE.fullmatch(name):
            return _code(at)
        return not_understood(f"{name or 'a node'} of the plan is not understood", replace(at.rows, columns={}))

    def _child(self, node: PlanNode, outer: Mapping[str, PlanColumn]) -> Rows:
        rows = self.read(node, outer)
        if found := re.match(r"CTERelationDef (\d+)", node.text):
            self._shared[found[1]] = rows
        return rows

    def _referenced(self, name: str, text: str) -> Rows:
        """Return the rows of a common table expression under their new ids."""
        number = re.match(r"\d+", text)
        known = self._shared.get(number[0]) if number and name == "CTERelationRef" else None
        columns = re.search(r"\[(.*)\](?:, (?:true|false))*$", text, re.DOTALL)
        listed = new_columns(columns[1], ", ") if columns else []
        if known is None or known.ids is None or len(known.ids) != len(listed):
            why = "a recursive query goes round" if name == "UnionLoopRef" else "a WITH clause is not understood"
            return Rows(ids=None, unknown=opaque(why), gaps=frozenset([why]))
        values = [known.columns[each].value if each in known.columns else known.unknown for each in known.ids]
        made = [
            (number, PlanColumn((name,), value or CONSTANT))
            for (name, number), value in zip(listed, values, strict=True)
        ]
        return known.made(made)

    def _named(self, name: str, text: str, rows: Rows) -> Rows:
        """Return the rows under a name: an input, for the name of a table or the first name above stored rows."""
        called = text if name == "SubqueryAlias" else text[1:].partition(", [")[0]
        plain = called[1:-1].replace("``", "`") if re.fullmatch(r"`(?:[^`]|``)*`", called) else called
        table = self.tables.get(plain) or (plain[len(NAMED_ROWS) :] if plain.startswith(NAMED_ROWS) else "")
        first = not rows.named and not _MADE_BY_SPARK.match(plain) and (name == "View" or rows.leaf)
        if not table and not first:
            return rows
        columns = {
            number: PlanColumn(each.names, Value({(table or plain, (each.names[0],)): "IDENTITY"}, plain=True))
            for number, each in rows.columns.items()
        }
        return Rows(columns, rows.ids, unknown=rows.unknown, named=True, leaf=True)


@dataclass(frozen=True)
class _NodeReading:
    """A node to be read.

    Attributes:
        text: what stands behind its name.
        rows: all rows that it reads, side by side.
        below: the rows of each node that it reads.
        inner: the rows of each subquery.
        expressions: reader of its expressions.
    """

    text: str
    rows: Rows
    below: Sequence[Rows]
    inner: Sequence[Rows]
    expressions: Expressions

    def decided(self, text: str, effect: Effect) -> Rows:
        """Return the rows, decided by an expression as well."""
        try:
            value = self.expressions.value(self.expressions.marked(text))
        except UnreadablePlan as error:
            return replace(self.rows, gaps=self.rows.gaps | {str(error)}, leaf=False)
        causes = self.rows.causes | influences_of(value, effect)
        return replace(self.rows, causes=causes, gaps=self.rows.gaps | value.unknown, leaf=False)


def _project(at: _NodeReading) -> Rows:
    listed = items(inside(at.expressions.marked(at.text)))
    return at.rows.made([at.expressions.item(*each) for each in listed])


def _aggregate(at: _NodeReading) -> Rows:
    marked = at.expressions.marked(at.text)
    keys, made = lists(marked, 2) if "], [" in marked else ("", inside(marked))
    key = at.expressions.value(keys)
    at.expressions.keys = frozenset(re.findall(r"\ue000(\d+)\ue001", keys))
    rows = at.rows.made([at.expressions.item(*each) for each in items(made)], *influences_of(key, "GROUP_BY"))
    return replace(rows, gaps=rows.gaps | key.unknown)


def _window(at: _NodeReading) -> Rows:
    made = inside(at.expressions.marked(at.text))
    # Behind the windows, their keys and orders stand once more.
    made = re.split(r"(?<=\d)L?\], \[", made)[0] if "], [" in made else made
    at.expressions.keys = frozenset(at.expressions.columns)
    found = [at.expressions.item(*each) for each in items(made)]
    return with_columns(at.rows, found)


def _generate(at: _NodeReading) -> Rows:
    marked = at.expressions.marked(at.text)
    head = _GENERATED.match(marked)
    if head is None:
        raise UnreadablePlan("a generator has no columns")
    made = new_columns(marked[head.end() : -1], ", ")
    call = re.fullmatch(r"(\w+)\((.*)\)", head[1], re.DOTALL)
    values = [at.expressions.value(head[1]).changed("TRANSFORMATION")] * len(made)
    if call and call[1] == "stack":
        values = _stacked(at, pieces(call[2])[1:], len(made))
    elif call and call[1] in ("explode", "posexplode"):
        # Of an array: its elements, after their numbers; of a map: its keys, then its values.
        values[-1] = at.expressions.value(call[2]).kept("TRANSFORMATION")
    elif call and call[1] == "inline":
        values = _fields(at.expressions.value(call[2]), len(made))
    return with_columns(at.rows, [(n, PlanColumn((name,), v)) for (name, n), v in zip(made, values, strict=True)])


def _fields(array: Value, width: int) -> list[Value]:
    """Return the origins of the fields of an array's structs, which may have other names."""
    element = array.kept("TRANSFORMATION")
    only = element.choices[0] if len(element.choices) == 1 else element
    if only.fields is not None and len(only.fields) == width and not only.base:
        return [each.changed("TRANSFORMATION") for each in only.fields.values()]
    return [combined([element.changed("TRANSFORMATION"), opaque("inline may give fields other names")])] * width


def _stacked(at: _NodeReading, arguments: Sequence[str], width: int) -> list[Value]:
    if not width or len(arguments) % width:
        raise UnreadablePlan("stack has other columns than values")
    return [positional([at.expressions.value(each) for each in arguments[n::width]]) for n in range(width)]


def _expand(at: _NodeReading) -> Rows:
    projections, _, outputs = inside(at.expressions.marked(at.text)).rpartition("], [")
    rows = [pieces(each) for each in projections[1:-1].split("], [")]
    made = [_named_id(each, at) for each, _ in items(outputs)]
    if any(len(each) != len(made) for each in rows):
        raise UnreadablePlan("an expansion has other columns than values")
    values = [positional([at.expressions.value(each[n]) for each in rows]) for n in range(len(made))]
    return at.rows.made([(n, PlanColumn((name,), value)) for (name, n), value in zip(made, values, strict=True)])


def _named_id(text: str, at: _NodeReading) -> tuple[str, str]:
    if whole := re.fullmatch(r"\ue000(\d+)\ue001", text):
        return at.expressions.columns[whole[1]].names[0], whole[1]
    return new_columns(text, ", ")[0]


def _union(at: _NodeReading) -> Rows:
    first = at.below[0] if at.below else Rows(ids=None)
    if any(each.ids is None or len(each.ids) != len(first.ids or ()) for each in at.below) or first.ids is None:
        return not_understood("the branches of a union are not understood", replace(at.rows, columns={}))
    made = []
    for place, number in enumerate(first.ids):
        column = first.columns.get(number)
        branches = [value_in(each, (each.ids or ())[place]) for each in at.below]
        made.append((number, PlanColumn(column.names if column else (), positional(branches))))
    return at.rows.made(made)


def _set(at: _NodeReading) -> Rows:
    """Return the rows of INTERSECT or EXCEPT: rows of the left side, chosen by all columns of both."""
    left = at.below[0]
    causes = [influences_of(each.value, "FILTER") for rows in at.below for each in rows.columns.values()]
    chosen = at.rows.causes.union(*causes)
    return replace(left, causes=chosen, gaps=at.rows.gaps, named=at.rows.named, leaf=False)


def _join(at: _NodeReading) -> Rows:
    kind, _, condition = at.text.partition(", ")
    rows = at.decided(condition, "JOIN") if condition else replace(at.rows, leaf=False)
    if kind.startswith(("LeftSemi", "LeftAnti")):
        left = at.below[0]
        return replace(rows, columns=left.columns, ids=left.ids, unknown=left.unknown)
    return rows


def _lateral(at: _NodeReading) -> Rows:
    if len(at.inner) != 1:
        raise UnreadablePlan("a lateral join is not understood")
    inner = at.inner[0]
    rows = side_by_side([at.rows, inner])
    condition = at.expressions.marked(at.text).partition(", ")[2].partition(", ")[2]
    causes = influences_of(at.expressions.value(condition), "JOIN") if condition else frozenset[Cause]()
    return replace(rows, causes=rows.causes | causes, leaf=False)


def _distinct(at: _NodeReading) -> Rows:
    causes = [influences_of(each.value, "GROUP_BY") for each in at.rows.columns.values()]
    return replace(at.rows, causes=at.rows.causes.union(*causes), leaf=False)


def _code(at: _NodeReading) -> Rows:
    """Return the columns that a Python function makes of whole rows: each may come from all."""
    marked = at.expressions.marked(at.text)
    made = new_columns(marked.rpartition("[")[2].rpartition("]")[0], ", ")
    call = next(iter(re.findall(r"([^\s(,]+)\(", marked)), "a function")
    inputs = combined(
        [each.value.changed("TRANSFORMATION") for n, each in at.rows.columns.items() if f"\ue000{n}\ue001" in marked]
    )
    reason = opaque(f"{call} {WITHOUT_CODE}")
    value = combined([inputs, reason])
    return at.rows.made([(number, PlanColumn((name,), value)) for name, number in made])


_HANDLERS: Mapping[str, Callable[[_NodeReading], Rows]] = {
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
    "Filter": lambda at: at.decided(at.text, "FILTER"),
    "Sort": lambda at: at.decided(inside(at.text), "SORT"),
    "Deduplicate": lambda at: at.decided(inside(at.text), "GROUP_BY"),
    "DeduplicateWithinWatermark": lambda at: at.decided(inside(at.text), "GROUP_BY"),
    "CTERelationDef": lambda at: at.rows,
    "WithCTE": lambda at: at.below[-1],
    **dict.fromkeys(_PASSING, lambda at: replace(at.below[0], leaf=False)),
}
