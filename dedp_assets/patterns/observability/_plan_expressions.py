"""Expressions in the text of a Spark plan: the origin of an expression's value.

Spark prints columns as ``name#id`` and neither quotes names nor texts, so that a text may look like anything. What is
known is marked first: the columns that the rows have, by name and id together. What then still looks like a column is
not understood, and said to be so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dedp_assets.patterns.core.column_lineage import Effect, Transformation
from dedp_assets.patterns.observability._plan_values import CONSTANT, Cause, Value, combined, influences_of, opaque

__all__ = ["Column", "Expressions", "Unread", "columns_of", "groups", "pieces"]

ID = re.compile(r"#(\d+)L?(?:-T\d+ms)?")
_MARK = re.compile(r"\ue000(\d+)\ue001")
_SUBQUERY = re.compile(r"\ue002(\d+)\ue003")
_SUBQUERIES = re.compile(r"(?:scalar-subquery|lateral-subquery|exists|list)#\d+ \[")
_FIELDS = re.compile(r"(?:\.[A-Za-z_]\w*)+", re.ASCII)
_END = re.compile(r"$|[,)\]\[]| (?:[A-Z]{2,}\b|[-+*/%=<>&|^]|else\b|windowspecdefinition\()")
"""What may follow a path: behind anything else the name of a field may go on, and less of the path is taken."""
_COMPLETE = re.compile(r"(?:\ue001|#\d+L?(?:-T\d+ms)?)$")
_LAMBDA = re.compile(r"lambda \w+#\d+")
_UNREAD = re.compile(r"(?<=[^\s(,\[])#\d+")
_UDF = re.compile(r"\)#\d+L?")
_OPEN, _CLOSE = "([{", ")]}"
_CASES = re.compile(r"\bCASE WHEN |\bWHEN | THEN | ELSE | END\b")
_CHOOSING = ("pivotfirst(", "nvl2(")
"""Functions whose first argument decides between the others."""
_RANKING = ("row_number(", "rank(", "dense_rank(", "percent_rank(", "cume_dist(", "ntile(")
_AGGREGATES = re.compile(
    r"(?:^|[(\s,])(?:any_value|approx_\w+|array_agg|avg|bit_\w+|bool_\w+|collect_\w+|corr|count\w*|covar_\w+|every|first"
    r"|first_value|grouping\w*|hll_\w+|histogram_\w+|kll_\w+|kurtosis|last|last_value|listagg|max\w*|mean|median|min\w*"
    r"|mode|percentile\w*|pivotfirst|product|regr_\w+|skewness|some|std\w*|string_agg|sum|theta_\w+|try_avg|try_sum"
    r"|var_\w+|variance)\($"
)


class Unread(ValueError):
    """A text of a plan that is not understood."""


@dataclass(frozen=True)
class Column:
    """A column of rows in a plan.

    Attributes:
        names: its name; several, where the text does not tell where the name begins.
        value: where its values come from.
    """

    names: tuple[str, ...]
    value: Value


@dataclass(frozen=True)
class _Region:
    start: int
    end: int
    effect: Effect | None
    function: str = ""


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
        """Read a column that a node makes or hands on: its id, names and value.

        Raises:
            Unread: for a text that is neither a column nor an expression with a name.
        """
        if whole := _MARK.fullmatch(text):
            return whole[1], self.columns[whole[1]]
        named = re.fullmatch(r"(.*)#(\d+)L?(?:-T\d+ms)?", text, re.DOTALL)
        if named is None:
            raise Unread(f"{_short(text)} is no column")
        places = [place for place in _outside(named[1], " AS ")]
        if not places:
            if self.unknown is None or _MARK.search(text):
                raise Unread(f"{_short(text)} has no name")
            return named[2], Column((named[1],), self.unknown)
        names = tuple(_plain(named[1][place + 4 :]) for place in places)
        value = self.value(named[1][: places[0]])
        between = named[1][places[0] : places[-1]]
        if len(places) > 1 and ("#" in between or _MARK.search(between)):
            value = opaque(f"{_short(text)} can be read in several ways")
        return named[2], Column(names, value)

    def value(self, text: str) -> Value:
        """Return the origin of an expression's value."""
        text = text.strip()
        if found := self._field(text):
            return found
        if inner := _SUBQUERY.fullmatch(text):
            return self._subquery(int(inner[1]))
        for head, reader in (
            ("named_struct(", self._struct),
            ("struct(", self._struct),
            ("update_fields(", self._updated),
        ):
            if text.startswith(head) and closing(text, len(head) - 1) == len(text) - 1:
                arguments = pieces(text[len(head) : -1])
                if (made := reader(arguments)) is not None:
                    return made
        return self._computed(text)

    def _field(self, text: str) -> Value | None:
        """Return the origin of a column, or of a field of a struct column; ``None`` for another expression."""
        found = _MARK.match(text)
        rest = text[found.end() :] if found else ""
        if found is None or not (not rest or _FIELDS.fullmatch(rest)):
            return None
        return _below(self.columns[found[1]].value, rest)

    def _struct(self, arguments: Sequence[str]) -> Value | None:
        names, values = arguments[0::2], arguments[1::2]
        if len(arguments) % 2 or any(_MARK.search(name) or "#" in name for name in names):
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

    def _computed(self, text: str) -> Value:
        """Return the origin of a computed value: every column in the expression, by its place in it."""
        try:
            regions = [*_regions(text)]
        except Unread as error:
            return opaque(str(error))
        parts, indirect = list[Value](), set[Cause]()
        for found in _MARK.finditer(text):
            value = self._at(text, found)
            effect = _effect_at(regions, found.start()) or ("SORT" if _sorts(text, found.end()) else None)
            if effect:
                indirect |= influences_of(value, effect)
                parts.append(Value(unknown=value.unknown))
            else:
                parts.append(value.changed(self._kind(text, found)))
        for found in _SUBQUERY.finditer(text):
            value = self._subquery(int(found[1]))
            effect = _effect_at(regions, found.start())
            indirect |= influences_of(value, effect) if effect else set()
            parts.append(Value(unknown=value.unknown) if effect else value.changed("TRANSFORMATION"))
        named = [each for each in regions if each.function]
        parts += [opaque(f"{each.function} is a function whose code no plan shows") for each in named]
        parts += self._leftovers(text)
        whole = combined([*parts, Value(indirect=frozenset(indirect))])
        return Value(whole.direct, whole.indirect, whole.unknown)

    def _at(self, text: str, found: re.Match[str]) -> Value:
        """Return the origin of a column in an expression, with the path that follows as far as it is certain."""
        path = _FIELDS.match(text, found.end())
        value = self.columns[found[1]].value
        if path is None:
            return value
        steps = path[0][1:].split(".")
        if not _END.match(text, path.end()):
            steps.pop()
        return _below(value, "".join(f".{step}" for step in steps))

    def _kind(self, text: str, found: re.Match[str]) -> Transformation:
        """Return what becomes of a column in an expression: outside of the keys, an aggregation computes it."""
        if self.keys is None:
            return "TRANSFORMATION"
        if found[1] not in self.keys:
            return "AGGREGATION"
        return (
            "AGGREGATION"
            if any(_AGGREGATES.search(text[: p + 1]) for p in _around(text, found.start()))
            else "TRANSFORMATION"
        )

    def _leftovers(self, text: str) -> Iterator[Value]:
        """Return what is not known about an expression: ids that its rows do not have."""
        left = _UDF.sub(")", _LAMBDA.sub("", text))
        if _UNREAD.search(left):
            yield self.unknown or opaque(f"{_short(text)} names what its rows do not have")

    def _subquery(self, number: int) -> Value:
        value, causes = self.subqueries[number]
        return Value(value.direct, value.indirect | causes, value.unknown)

    def _without_subqueries(self, text: str) -> str:
        parts, done = list[str](), 0
        for found in _SUBQUERIES.finditer(text):
            if found.start() < done:
                continue
            if self._used >= len(self.subqueries) or (end := closing(text, found.end() - 1)) < 0:
                raise Unread(f"{_short(text)} has a subquery that the plan does not show")
            parts += [text[done : found.start()], f"\ue002{self._used}\ue003"]
            self._used += 1
            done = end + 1
        return "".join([*parts, text[done:]])


def pieces(text: str) -> list[str]:
    """Split a list at its commas, outside of brackets.

    Raises:
        Unread: if brackets do not match.
    """
    cuts = [-2, *_outside(text, ", "), len(text)]
    return [text[start + 2 : end] for start, end in zip(cuts, cuts[1:], strict=False)] if text else []


def columns_of(text: str) -> list[str]:
    """Split a list of columns: only behind a column does a comma separate two, as names may have commas."""
    found = list[str]()
    for piece in pieces(text):
        if found and not _COMPLETE.search(found[-1]):
            found[-1] += f", {piece}"
        else:
            found.append(piece)
    return found


def groups(text: str) -> list[str]:
    """List the contents of the outermost square brackets.

    Raises:
        Unread: if brackets do not match.
    """
    found, start = list[str](), 0
    while (start := text.find("[", start)) >= 0:
        if (end := closing(text, start)) < 0:
            raise Unread(f"the brackets of {_short(text)} do not match")
        found.append(text[start + 1 : end])
        start = end + 1
    return found


def closing(text: str, start: int) -> int:
    """Find the bracket that closes the one at ``start``; -1 if none does."""
    expected = list[str]()
    for place in range(start, len(text)):
        if (each := text[place]) in _OPEN:
            expected.append(_CLOSE[_OPEN.index(each)])
        elif each in _CLOSE:
            if not expected or expected.pop() != each:
                return -1
            if not expected:
                return place
    return -1


def _outside(text: str, separator: str) -> Iterator[int]:
    """Find a separator outside of brackets.

    Raises:
        Unread: if brackets do not match.
    """
    expected = list[str]()
    for place, each in enumerate(text):
        if each in _OPEN:
            expected.append(_CLOSE[_OPEN.index(each)])
        elif each in _CLOSE:
            if not expected or expected.pop() != each:
                raise Unread(f"the brackets of {_short(text)} do not match")
        elif not expected and each == separator[0] and text.startswith(separator, place):
            yield place
    if expected:
        raise Unread(f"the brackets of {_short(text)} do not match")


def _around(text: str, place: int) -> Iterator[int]:
    """Find the open brackets around a place, from the inside out."""
    depth = 0
    for position in range(place - 1, -1, -1):
        if text[position] in _CLOSE:
            depth += 1
        elif text[position] in _OPEN:
            if not depth:
                yield position
            depth = max(0, depth - 1)


def _regions(text: str) -> Iterator[_Region]:
    """List the parts of an expression that decide about its value, and the calls of functions without a plan.

    Raises:
        Unread: if they do not fit together.
    """
    yield from _conditions(text)
    for head, effect in (
        (r"\bif \(", "CONDITIONAL"),
        (r" FILTER \(", "CONDITIONAL"),
        (r" windowspecdefinition\(", "WINDOW"),
    ):
        for found in re.finditer(head, text):
            yield _Region(found.start(), _closed(text, found.end() - 1), effect)  # type: ignore[arg-type]
    for name in _CHOOSING:
        for found in re.finditer(rf"\b{re.escape(name)}", text):
            inner = text[found.end() : _closed(text, found.end() - 1)]
            yield _Region(found.end(), found.end() + len(pieces(inner)[0]), "CONDITIONAL")
    if " windowspecdefinition(" in text:
        for found in re.finditer("|".join(rf"\b{re.escape(name)}" for name in _RANKING), text):
            yield _Region(found.start(), _closed(text, found.end() - 1), "WINDOW")
    for found in _UDF.finditer(text):
        start = next(_around(text, found.start()), None)
        name = re.search(r"[^\s(,]+$", text[:start]) if start is not None else None
        if start is None or name is None:
            raise Unread(f"{_short(text)} calls what has no name")
        yield _Region(start, found.start(), None, name[0])


def _conditions(text: str) -> Iterator[_Region]:
    """List the conditions of CASE expressions, nested ones among them."""
    opened = list[int | None]()
    for found in _CASES.finditer(text):
        word = found[0].split()[0]
        if word == "CASE":
            opened.append(found.end())
        elif not opened:  # a text with such a word
            continue
        elif (word == "THEN") != (opened[-1] is not None):
            raise Unread(f"the CASE of {_short(text)} is not understood")
        elif word == "THEN":
            yield _Region(opened[-1] or 0, found.start(), "CONDITIONAL")
            opened[-1] = None
        elif word == "WHEN":
            opened[-1] = found.end()
        elif word == "END":
            opened.pop()
    if opened:
        raise Unread(f"the CASE of {_short(text)} is not understood")


def _closed(text: str, start: int) -> int:
    if (end := closing(text, start)) < 0:
        raise Unread(f"the brackets of {_short(text)} do not match")
    return end


def _effect_at(regions: Sequence[_Region], place: int) -> Effect | None:
    """Return the effect of the smallest part that decides and holds a place."""
    around = [each for each in regions if each.effect and each.start <= place < each.end]
    return min(around, key=lambda each: each.end - each.start).effect if around else None


def _sorts(text: str, end: int) -> bool:
    return text.startswith((" ASC NULLS", " DESC NULLS"), end)


def _below(value: Value, path: str) -> Value:
    for name in path[1:].split(".") if path else []:
        value = value.field(name)
    return value


def _ends_with(text: str, name: str) -> bool:
    """Return whether a text ends with a column's name and not with the end of a longer one."""
    head, tail = text[: len(text) - len(name)], text[len(text) - len(name) :]
    if not name or tail.lower() != name.lower():
        return False
    return not head or not (head[-1].isalnum() or head[-1] == "_") or not (name[0].isalnum() or name[0] == "_")


def _plain(name: str) -> str:
    return _MARK.sub("", name)


def _short(text: str) -> str:
    """Return the beginning of a text of a plan, for a message."""
    told = _SUBQUERY.sub("(subquery)", _MARK.sub("?", text))
    return told if len(told) <= 60 else f"{told[:57]}..."
