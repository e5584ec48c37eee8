"""Rows between the nodes of a plan: columns, and influences on the rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dedp_assets.patterns.observability._plans.terms import PlanColumn
from dedp_assets.patterns.observability._plans.texts import UnreadablePlan
from dedp_assets.patterns.observability._plans.values import CONSTANT, Cause, Value, combined, opaque

__all__ = [
    "LEAVES", "Rows", "first_value", "leaf_rows", "new_columns", "not_understood", "side_by_side", "value_in",
    "with_columns",
]  # fmt: skip

_CONSTANT = ("CommandResult", "LocalRelation", "OneRowRelation", "Range")
LEAVES = (
    "DataSourceV2Relation", "ExternalRDD", "HiveTableRelation", "LogicalRDD", "LogicalRelation", "Relation",
    "RelationV2", *_CONSTANT,
)  # fmt: skip
"""Nodes that read no other."""


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

    columns: Mapping[str, PlanColumn] = field(default_factory=dict)
    ids: tuple[str, ...] | None = ()
    causes: frozenset[Cause] = frozenset()
    gaps: frozenset[str] = frozenset()
    unknown: Value | None = None
    named: bool = False
    leaf: bool = False

    def made(self, found: Sequence[tuple[str, PlanColumn]], *more: Cause) -> Rows:
        """Return rows with other columns, decided by the same and ``more``."""
        ids = tuple(number for number, _ in found)
        return replace(self, columns=dict(found), ids=ids, causes=self.causes | {*more}, leaf=False)


def leaf_rows(name: str, text: str) -> Rows:
    """Return the columns of a leaf: of stored rows without a name yet, or of constants."""
    if name == "Range":
        return Rows(ids=None, unknown=CONSTANT)
    # Names may have brackets that do not match.
    listed = re.search(r"\[(.*)\]", text, re.DOTALL)
    try:
        found = new_columns(listed[1], "," if name == "Relation" else ", ") if listed else []
    except UnreadablePlan as error:
        return Rows(ids=None, unknown=opaque(str(error)))
    constant = name in _CONSTANT
    columns = {
        number: PlanColumn((each,), CONSTANT if constant else Value({("", (each,)): "IDENTITY"}, plain=True))
        for each, number in found
    }
    return Rows(columns, tuple(number for _, number in found), leaf=not constant)


def new_columns(text: str, separator: str) -> list[tuple[str, str]]:
    """List the names and ids of new columns."""
    found, start = list[tuple[str, str]](), 0
    while start < len(text):
        part = re.compile(rf"(.*?)#(\d+)L?(?:-T\d+ms)?(?:{separator}|$)", re.DOTALL).match(text, start)
        if part is None:
            raise UnreadablePlan("a list of columns is not understood")
        found.append((part[1], part[2]))
        start = part.end()
    return found


def with_columns(rows: Rows, found: Sequence[tuple[str, PlanColumn]]) -> Rows:
    ids = None if rows.ids is None else (*rows.ids, *(number for number, _ in found))
    return replace(rows, columns={**rows.columns, **dict(found)}, ids=ids, leaf=False)


def side_by_side(below: Sequence[Rows]) -> Rows:
    """Return the columns of several rows side by side."""
    if len(below) == 1:
        return below[0]
    ids = None if any(each.ids is None for each in below) else tuple(n for each in below for n in each.ids or ())
    unknown = [each.unknown for each in below if each.unknown]
    columns = {number: column for each in below for number, column in each.columns.items()}
    causes = frozenset[Cause]().union(*(each.causes for each in below))
    gaps = frozenset[str]().union(*(each.gaps for each in below))
    named = any(each.named for each in below)
    return Rows(columns, ids, causes, gaps, combined(unknown) if unknown else None, named)


def first_value(rows: Rows) -> Value:
    return value_in(rows, rows.ids[0]) if rows.ids else rows.unknown or CONSTANT


def value_in(rows: Rows, number: str) -> Value:
    column = rows.columns.get(number)
    return column.value if column else rows.unknown or CONSTANT


def not_understood(why: str, rows: Rows) -> Rows:
    """Return rows with the known columns from below only: an id stands for the same value for ever."""
    unknown = combined([opaque(why), *([rows.unknown] if rows.unknown else [])])
    return replace(rows, ids=None, unknown=unknown, gaps=rows.gaps | {why}, leaf=False)
