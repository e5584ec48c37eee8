"""Expressions in the text of a Spark plan: the origin of an expression's value.

Spark prints columns as ``name#id`` and neither quotes names nor texts, so that a text may look like anything. What is
known is marked first: the columns that the rows have, by name and id together. What then still looks like a column is
not understood, and said to be so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dedp_assets.patterns.core.column_lineage import Transformation
from dedp_assets.patterns.observability._plans.regions import UDF, effect_at, regions_of
from dedp_assets.patterns.observability._plans.texts import (
    ID,
    MARK,
    SUBQUERY,
    Unread,
    around,
    closing,
    outside,
    pieces,
    short,
)
from dedp_assets.patterns.observability._plans.values import Cause, Value, combined, influences_of, opaque

__all__ = ["Column", "Expressions"]

_SUBQUERIES = re.compile(r"(?:scalar-subquery|lateral-subquery|exists|list)#\d+ \[")
_FIELDS = re.compile(r"(?:\.[A-Za-z_]\w*)+", re.ASCII)
_END = re.compile(r"$|[,)\]\[]| (?:[A-Z]{2,}\b|[-+*/%=<>&|^]|else\b|windowspecdefinition\()")
"""Pattern of the text after a complete field path; before other text the path ends a field earlier."""
_LAMBDA = re.compile(r"lambda \w+#\d+")
_UNREAD = re.compile(r"(?<=[^\s(,\[])#\d+")
_AGGREGATES = re.compile(
    r"(?:^|[(\s,])(?:any_value|approx_\w+|array_agg|avg|bit_\w+|bool_\w+|collect_\w+|corr|count\w*|covar_\w+|every|first"
    r"|first_value|grouping\w*|hll_\w+|histogram_\w+|kll_\w+|kurtosis|last|last_value|listagg|max\w*|mean|median|min\w*"
    r"|mode|percentile\w*|pivotfirst|product|regr_\w+|skewness|some|std\w*|string_agg|sum|theta_\w+|try_avg|try_sum"
    r"|var_\w+|variance)\($"
)


@dataclass(frozen=True)
class Column:
    """A column of rows in a plan.

    Attributes:
        names: its name; several, where the text does not tell where the name begins.
        value: where its values come from.
    """

    names: tuple[str, ...]
    value: Value


@dataclass
class Expressions:
    """Reader of the expressions of one node of a plan.

    Attributes:
        columns: id -> column of the rows that the node reads.
        unknown: what an id is that the rows do not have.
        subqueries: value and influences of each subquery, in the order of the text.
        keys: ids of the columns in the keys, of an aggregation.
    """

    columns: Mapping[str, Column]
    unknown: Value | None = None
    subqueries: Sequence[tuple[Value, frozenset[Cause]]] = ()
    keys: frozenset[str] | None = None
    _used: int = field(default=0, init=False)

    def marked(self, text: str) -> str:
        """Replace the columns of the rows, and the subqueries, by marks.

        Raises:
            Unread: if the text has other subqueries than the plan.
        """
        parts, done = list[str](), 0
        for found in ID.finditer(text):
            column = self.columns.get(found[1])
            head = text[done : found.start()]
            name = next((n for n in column.names if _ends_with(head, n)), None) if column else None
            if name is not None:
                parts += [head[: len(head) - len(name)], f"\ue000{found[1]}\ue001"]
                done = found.end()
        return self._without_subqueries("".join([*parts, text[done:]]))

    def item(self, text: str) -> tuple[str, Column]:
        """Read a column that a node makes or hands on: id, names and value.

        Raises:
            Unread: for a text that is neither a column nor an expression with a name.
        """
        if whole := MARK.fullmatch(text):
            return whole[1], self.columns[whole[1]]
        named = re.fullmatch(r"(.*)#(\d+)L?(?:-T\d+ms)?", text, re.DOTALL)
        if named is None:
            raise Unread(f"{short(text)} is no column")
        places = [*outside(named[1], " AS ")]
        if not places:
            if self.unknown is None or MARK.search(text):
                raise Unread(f"{short(text)} has no name")
            return named[2], Column((named[1],), self.unknown)
        names = tuple(_plain(named[1][place + 4 :]) for place in places)
        value = self.value(named[1][: places[0]])
        between = named[1][places[0] : places[-1]]
        if len(places) > 1 and ("#" in between or MARK.search(between)):
            value = opaque(f"{short(text)} can be read in several ways")
        return named[2], Column(names, value)

    def value(self, text: str) -> Value:
        """Return the origin of an expression's value."""
        text = text.strip()
        if found := self._field(text):
            return found
        if inner := SUBQUERY.fullmatch(text):
            return self._subquery(int(inner[1]))
        for head, reader in (
            ("named_struct(", self._struct),
            ("struct(", self._struct),
            ("update_fields(", self._updated),
            ("max_by(", self._chosen),
            ("min_by(", self._chosen),
        ):
            if text.startswith(head) and closing(text, len(head) - 1) == len(text) - 1:
                arguments = pieces(text[len(head) : -1])
                if (made := reader(arguments)) is not None:
                    return made
        return self._computed(text)

    def _field(self, text: str) -> Value | None:
        """Return the origin of a column, or of a field of a struct column.

        ``None`` for another expression.
        """
        found = MARK.match(text)
        rest = text[found.end() :] if found else ""
        if found is None or not (not rest or _FIELDS.fullmatch(rest)):
            return None
        return _below(self.columns[found[1]].value, rest)

    def _struct(self, arguments: Sequence[str]) -> Value | None:
        names, values = arguments[0::2], arguments[1::2]
        if len(arguments) % 2 or any(MARK.search(name) or "#" in name for name in names):
            return None
        made = {name.lower(): self.value(value) for name, value in zip(names, values, strict=True)}
        inputs = combined([each.changed("TRANSFORMATION") for each in made.values()])
        return Value(inputs.direct, inputs.indirect, inputs.unknown, fields=made)

    def _updated(self, arguments: Sequence[str]) -> Value | None:
        base, *operations = arguments
        changed: dict[str, Value] = {}
        for each in operations:
            parts = pieces(each[len("WithField(") : -1]) if each.startswith("WithField(") and each[-1] == ")" else []
            if len(parts) != 2 or not parts[0].isidentifier():
                return None
            changed[parts[0].lower()] = self.value(parts[1])
        before = self.value(base)
        inputs = combined([each.changed("TRANSFORMATION") for each in (before, *changed.values())])
        return Value(inputs.direct, inputs.indirect, inputs.unknown, fields=changed, base=before)

    def _chosen(self, arguments: Sequence[str]) -> Value | None:
        """Return the origin of the value that another one is greatest or least with.

        ``None`` for an array of such values.
        """
        if len(arguments) != 2:
            return None
        value, order = map(self.value, arguments)
        return value.chosen_by(influences_of(order, "SORT"))

    def _computed(self, text: str) -> Value:
        """Return the origin of a computed value: every column of the expression, by position."""
        try:
            regions = regions_of(text)
        except Unread as error:
            return opaque(str(error))
        parts, indirect = list[Value](), set[Cause]()
        for found in MARK.finditer(text):
            value = self._at(text, found)
            effect = effect_at(regions, found.start()) or ("SORT" if _sorts(text, found.end()) else None)
            if effect:
                indirect |= influences_of(value, effect)
                parts.append(Value(unknown=value.unknown))
            else:
                parts.append(value.changed(self._kind(text, found)))
        for found in SUBQUERY.finditer(text):
            value = self._subquery(int(found[1]))
            effect = effect_at(regions, found.start())
            indirect |= influences_of(value, effect) if effect else set()
            parts.append(Value(unknown=value.unknown) if effect else value.changed("TRANSFORMATION"))
        named = [each for each in regions if each.function]
        parts += [opaque(f"{each.function} is a function whose code no plan shows") for each in named]
        parts += self._leftovers(text)
        whole = combined([*parts, Value(indirect=frozenset(indirect))])
        return Value(whole.direct, whole.indirect, whole.unknown)

    def _at(self, text: str, found: re.Match[str]) -> Value:
        """Return the origin of a column in an expression, with the certain part of the path that follows."""
        path = _FIELDS.match(text, found.end())
        value = self.columns[found[1]].value
        if path is None:
            return value
        steps = path[0][1:].split(".")
        if not _END.match(text, path.end()):
            steps.pop()
        return _below(value, "".join(f".{step}" for step in steps))

    def _kind(self, text: str, found: re.Match[str]) -> Transformation:
        """Return the transformation of a column in an expression; outside of the keys, an aggregation."""
        if self.keys is None:
            return "TRANSFORMATION"
        if found[1] not in self.keys:
            return "AGGREGATION"
        return (
            "AGGREGATION"
            if any(_AGGREGATES.search(text[: p + 1]) for p in around(text, found.start()))
            else "TRANSFORMATION"
        )

    def _leftovers(self, text: str) -> Iterator[Value]:
        """Return the unknown parts of an expression: ids of no column of the rows."""
        left = UDF.sub(")", _LAMBDA.sub("", text))
        if _UNREAD.search(left):
            yield self.unknown or opaque(f"{short(text)} names what its rows do not have")

    def _subquery(self, number: int) -> Value:
        value, causes = self.subqueries[number]
        return Value(value.direct, value.indirect | causes, value.unknown)

    def _without_subqueries(self, text: str) -> str:
        parts, done = list[str](), 0
        for found in _SUBQUERIES.finditer(text):
            if found.start() < done:
                continue
            if self._used >= len(self.subqueries) or (end := closing(text, found.end() - 1)) < 0:
                raise Unread(f"{short(text)} has a subquery that the plan does not show")
            parts += [text[done : found.start()], f"\ue002{self._used}\ue003"]
            self._used += 1
            done = end + 1
        return "".join([*parts, text[done:]])


def _sorts(text: str, end: int) -> bool:
    return text.startswith((" ASC NULLS", " DESC NULLS"), end)


def _below(value: Value, path: str) -> Value:
    for name in path[1:].split(".") if path else []:
        value = value.field(name)
    return value


def _ends_with(text: str, name: str) -> bool:
    """Return whether a text ends with a whole column name."""
    head, tail = text[: len(text) - len(name)], text[len(text) - len(name) :]
    if not name or tail.lower() != name.lower():
        return False
    return not head or not (head[-1].isalnum() or head[-1] == "_") or not (name[0].isalnum() or name[0] == "_")


def _plain(name: str) -> str:
    return MARK.sub("", name)
