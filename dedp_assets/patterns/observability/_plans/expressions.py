"""Expressions in the text of a Spark plan: the origin of an expression's value.

Spark prints columns as ``name#id`` and neither quotes names nor texts, so that a text may look like anything. What is
known is marked first: the columns that the rows have, by name and id together. Then the expression is read in every way
in which its brackets match. If two ways differ, or what still looks like a column is none, its value is opaque.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from dedp_assets.patterns.observability._plans.terms import PlanColumn, Terms
from dedp_assets.patterns.observability._plans.texts import (
    ID,
    MARK,
    SUBQUERY,
    Ambiguous,
    UnreadablePlan,
    closing,
    readings,
    short,
)
from dedp_assets.patterns.observability._plans.values import Cause, Value, combined, opaque

__all__ = ["Expressions"]

_SUBQUERIES = re.compile(r"(?:scalar-subquery|lateral-subquery|exists|list)#\d+ \[")


@dataclass
class Expressions:
    """Reader of the expressions of one node of a plan.

    Attributes:
        columns: id -> column of the rows that the node reads.
        unknown: what an id is that the rows do not have.
        subqueries: value and influences of each subquery, in the order of the text.
        structs: ids of columns that are structs, as far as the plan shows it.
        keys: ids of the columns in the keys, of an aggregation.
    """

    columns: Mapping[str, PlanColumn]
    unknown: Value | None = None
    subqueries: Sequence[tuple[Value, frozenset[Cause]]] = ()
    structs: frozenset[str] = frozenset()
    keys: frozenset[str] | None = None
    _used: int = field(default=0, init=False)

    def marked(self, text: str) -> str:
        """Replace the columns of the rows, and the subqueries, by marks."""
        parts, done = list[str](), 0
        for found in ID.finditer(text):
            column = self.columns.get(found[1])
            head = text[done : found.start()]
            name = next((n for n in column.names if _ends_with(head, n)), None) if column else None
            if name is not None:
                parts += [head[: len(head) - len(name)], f"\ue000{found[1]}\ue001"]
                done = found.end()
        return self._without_subqueries("".join([*parts, text[done:]]))

    def item(self, text: str, is_cut: bool = False) -> tuple[str, PlanColumn]:  # noqa: FBT001, FBT002 - as of `items`
        """Read a column that a node makes or hands on: id, names and value.

        Args:
            text: the column, or an expression with a name.
            is_cut: whether the text may be a part of an expression.

        Raises:
            UnreadablePlan: for a text that is neither a column nor an expression with a name.
        """
        if whole := MARK.fullmatch(text):
            return whole[1], self.columns[whole[1]]
        named = re.fullmatch(r"(.*)#(\d+)L?(?:-T\d+ms)?", text, re.DOTALL)
        if named is None:
            raise UnreadablePlan(f"{short(text)} is no column")
        places = [found.start() for found in re.finditer(" AS ", named[1])]
        if not places:
            if self.unknown is None or MARK.search(text):
                raise UnreadablePlan(f"{short(text)} has no name")
            return named[2], PlanColumn((named[1],), self.unknown)
        *inner, last = places
        # Unless its brackets match before it, the word is one of a text.
        places = [*(place for place in inner if _is_whole(named[1][:place])), last]
        names = tuple(MARK.sub("", named[1][place + 4 :]) for place in places)
        between = named[1][places[0] : places[-1]]
        values = [self.value(named[1][:place]) for place in places]
        differ = any(each.changed("TRANSFORMATION") != values[-1].changed("TRANSFORMATION") for each in values)
        if is_cut or differ or "#" in between or MARK.search(between):
            return named[2], PlanColumn(names, self._guessed(named[1], f"{short(text)} can be read in several ways"))
        return named[2], PlanColumn(names, values[0])

    def value(self, text: str) -> Value:
        """Return the origin of an expression's value; opaque, with all columns, if nothing else is certain."""
        found, why = list[Value](), f"the brackets of {short(text)} do not match"
        try:
            for reading in readings(text):
                try:
                    found.append(self._terms().read(reading))
                except Ambiguous:
                    raise
                except UnreadablePlan as error:
                    why = str(error)
        except Ambiguous as error:
            return self._guessed(text, str(error))
        if not found:
            return self._guessed(text, why)
        plain = [each.changed("TRANSFORMATION") for each in found]
        if any(each != plain[0] for each in plain):
            return self._guessed(text, f"{short(text)} can be read in several ways")
        same = all(each == found[0] for each in found)
        return found[0] if same else replace(plain[0], blurred=f"{short(text)} can be read in several ways")

    def _terms(self) -> Terms:
        return Terms(self.columns, self.subqueries, self.unknown, self.structs, self.keys)

    def _guessed(self, text: str, why: str) -> Value:
        """Return the origin of an unread text: every column may be an input, and others."""
        terms = self._terms()
        inputs = [self.columns[number].value for number in MARK.findall(text)]
        inner = [terms.subquery(int(number)) for number in SUBQUERY.findall(text)]
        return combined([*(each.changed("TRANSFORMATION") for each in (*inputs, *inner)), opaque(why)])

    def _without_subqueries(self, text: str) -> str:
        """Replace subqueries by marks; a text that looks like a subquery stays, and makes a column opaque."""
        parts, done, places = list[str](), 0, list[tuple[int, int]]()
        for found in _SUBQUERIES.finditer(text):
            if found.start() >= done:
                with suppress(UnreadablePlan):
                    done = closing(text, found.end() - 1) + 1
                    places.append((found.start(), done))
        if len(places) > len(self.subqueries) - self._used:
            return text
        done = 0
        for start, end in places:
            parts += [text[done:start], f"\ue002{self._used}\ue003"]
            self._used, done = self._used + 1, end
        return "".join([*parts, text[done:]])


def _ends_with(text: str, name: str) -> bool:
    """Return whether a text ends with a whole column name."""
    head, tail = text[: len(text) - len(name)], text[len(text) - len(name) :]
    if not name or tail.lower() != name.lower():
        return False
    return not head or not (head[-1].isalnum() or head[-1] == "_") or not (name[0].isalnum() or name[0] == "_")


def _is_whole(text: str) -> bool:
    """Return whether the brackets of a text match in any way, or in too many ways to say."""
    try:
        return next(readings(text), None) is not None
    except Ambiguous:
        return True
