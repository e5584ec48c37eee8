"""Terms of an expression with marked columns and matching brackets: calls, conditions, fields, casts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dedp_assets.patterns.core.sql.column_lineage import Effect, Transformation
from dedp_assets.patterns.observability._plans.texts import (
    ID,
    MARK,
    Ambiguous,
    UnreadablePlan,
    closing,
    flat,
    pieces,
    short,
)
from dedp_assets.patterns.observability._plans.values import CONSTANT, Cause, Value, combined, influences_of, opaque

__all__ = ["WITHOUT_CODE", "PlanColumn", "Terms"]

WITHOUT_CODE = "is a function whose code no plan shows"
"""End of the reason of a Python function: all that decides in it is among its inputs."""

_TERM = re.compile(
    r"\ue000(?P<column>\d+)\ue001|\ue002(?P<subquery>\d+)\ue003|(?P<case>\bCASE WHEN )|(?P<choice>\bif \()"
    r"|lambda (?P<variable>\w+#\d+)|(?P<call>[\w$.]*)\(|(?P<list>\[)|(?P<left>(?<=[^\s(,\[])#\d+)"
)
"""Beginning of a term; what stands between terms (operators, texts, numbers) has no inputs."""
_END = r"$|[,)\]\[\ue004]| (?:[A-Z]{2,}\b|[-+*/%=<>&|^!]|(?:as|div|else)\b|windowspecdefinition\()"
"""Pattern of the text after a complete path of fields."""
_PATH = re.compile(rf"\.[A-Za-z_]\w*(?: \w+|\.[A-Za-z_]\w*)*?(?={_END})", re.ASCII)
"""Path of fields, whose names may have blanks."""
_WORD = re.compile(r"CASE WHEN |\bWHEN | THEN | ELSE | END\b")
_TYPE = re.compile(
    r"(?:[a-z_]+(?:\(\d+(?:, ?-?\d+)?\))?|(?:struct|array|map)<.*>|interval .*)(?: collate \w+)?", re.DOTALL
)
_FRAME = re.compile(r"(?:^|, )(?:specifiedwindowframe\([^()]*(?:\([^()]*\)[^()]*)*\)|unspecifiedframe\$\(\))$")
_FILTERED, _WINDOWED = " FILTER (WHERE ", " windowspecdefinition("
_ORDERED = re.compile(r" (?:ASC|DESC) NULLS (?:FIRST|LAST)")
_AGGREGATES = re.compile(
    r"any_value|approx_\w+|array_agg|avg|bit_\w+|bool_\w+|collect_\w+|corr|count\w*|covar_\w+|every|first"
    r"|first_value|grouping\w*|hll_\w+|histogram_\w+|kll_\w+|kurtosis|last|last_value|listagg|max\w*|mean|median|min\w*"
    r"|mode|percentile\w*|pivotfirst|product|regr_\w+|skewness|some|std\w*|string_agg|sum|theta_\w+|try_avg|try_sum"
    r"|var_\w+|variance"
)
_RANKING = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_CHOOSING = ("pivotfirst", "nvl2")
"""Functions whose first argument decides between the others."""
_PASSING = re.compile(
    r"any_value|array|array_\w+|coalesce|collect_list|collect_set|concat|element_at|filter|first|first_value|flatten|get"
    r"|greatest|ifnull|knownnotnull|lag|last|last_value|lead|least|max|min|nth_value|nullif|nvl|reverse|shuffle|slice"
    r"|sort_array|try_element_at"
)
"""Functions whose value is one of their arguments, or an element of one: a field of it is theirs."""
_BODY_ALONE = ("exists", "forall", "transform")
"""Functions whose result has the values of their lambda, and none of the array itself."""
_LAMBDA = "lambdafunction("


@dataclass(frozen=True)
class PlanColumn:
    """A column of rows in a plan.

    Attributes:
        names: its name; several, where the text does not tell where the name begins.
        value: where its values come from.
    """

    names: tuple[str, ...]
    value: Value


@dataclass
class Terms:
    """Reader of one expression, with the attributes of the node's reader."""

    columns: Mapping[str, PlanColumn]
    subqueries: Sequence[tuple[Value, frozenset[Cause]]]
    unknown: Value | None
    structs: frozenset[str]
    keys: frozenset[str] | None
    _variables: dict[str, Value] = field(default_factory=dict, init=False)

    def read(self, text: str) -> Value:
        """Return the origin of an expression's value: of the only term, or of all terms.

        Raises:
            UnreadablePlan: if they do not fit together.
        """
        found = [*self._found(text)]
        if len(found) == 1 and found[0][:2] == (0, len(text)):
            return found[0][2]
        return combined([each.changed("TRANSFORMATION") for _, _, each in found])

    def subquery(self, number: int) -> Value:
        """Return the origin of the value of a subquery, with the influences on the rows."""
        value, causes = self.subqueries[number]
        return Value(value.direct, value.indirect | causes, value.unknown)

    def _found(self, text: str) -> Iterator[tuple[int, int, Value]]:
        """Yield the terms of an expression: begin, end and value."""
        place = 0
        while found := _TERM.search(text, place):
            value, end = _READERS[str(found.lastgroup)](self, text, found)
            value, place = self._below(value, text, end)
            if ordered := _ORDERED.match(text, place):
                value, place = Value(indirect=influences_of(value, "SORT"), unknown=value.unknown), ordered.end()
            yield found.start(), place, value

    def _column(self, _: str, found: re.Match[str]) -> tuple[Value, int]:
        number = found["column"]
        value = self.columns[number].value
        return (value if self.keys is None or number in self.keys else value.kept("AGGREGATION")), found.end()

    def _inner(self, _: str, found: re.Match[str]) -> tuple[Value, int]:
        return self.subquery(int(found["subquery"])), found.end()

    def _variable(self, _: str, found: re.Match[str]) -> tuple[Value, int]:
        return self._variables.get(found["variable"], CONSTANT), found.end()

    def _left(self, text: str, found: re.Match[str]) -> tuple[Value, int]:
        """Return an id of no column of the rows."""
        return self.unknown or opaque(f"{short(text)} names what its rows do not have"), found.end()

    def _list(self, text: str, found: re.Match[str]) -> tuple[Value, int]:
        end = closing(text, found.start())
        return self.read(text[found.end() : end]).changed("TRANSFORMATION"), end + 1

    def _case(self, text: str, found: re.Match[str]) -> tuple[Value, int]:
        """Return the origin of a CASE: the values, decided by the conditions."""
        conditions, values, end = _cases(text[found.start() :])
        return self._one_of(values, conditions), found.start() + end

    def _choice(self, text: str, found: re.Match[str]) -> tuple[Value, int]:
        """Return the origin of ``if (a) b else c``."""
        end = closing(text, found.end() - 1)
        values, opened = text[end + 2 :], 1
        for each in re.finditer(r"\bif \(| else ", flat(values)):
            opened += -1 if "else" in each[0] else 1
            if not opened:
                first, other = values[: each.start()], values[each.end() :]
                alone = MARK.fullmatch(first)
                if alone and alone[1] in self.structs and re.search(r"[\ue001)\]]\.[A-Za-z_]", other):
                    raise Ambiguous(f"the field of {short(text)} may be one of both values")
                return self._one_of([first, other], [text[found.end() : end]]), len(text)
        raise UnreadablePlan(f"the if of {short(text)} is not understood")

    def _one_of(self, values: Sequence[str], conditions: Sequence[str]) -> Value:
        """Return the origin of a value that is one of several, decided by conditions."""
        choices, decides = ([self.read(each) for each in texts] for texts in (values, conditions))
        made = combined([each.changed("TRANSFORMATION") for each in choices])
        causes = [influences_of(each, "CONDITIONAL") for each in decides]
        unknown = [each.unknown for each in decides]
        return Value(made.direct, made.indirect.union(*causes), made.unknown.union(*unknown), choices=tuple(choices))

    def _call(self, text: str, found: re.Match[str]) -> tuple[Value, int]:
        """Return the origin of a call with filter and window, or of an expression in brackets."""
        end = closing(text, found.end() - 1)
        head, content, end = found["call"].lower(), text[found.end() : end], end + 1
        if code := ID.match(text, end):
            name = re.search(r"[^\s(,]*$", text[: found.end() - 1])
            reason = opaque(f"{name[0] if name else head} {WITHOUT_CODE}")
            return combined([self._called("", content).changed("TRANSFORMATION"), reason]), code.end()
        value = self._called(head, content) if head else self.read(content)
        if text.startswith(_FILTERED, end):
            stop = closing(text, end + _FILTERED.index("("))
            value, end = self._because(value, text[end + len(_FILTERED) : stop], "CONDITIONAL"), stop + 1
        if text.startswith(_WINDOWED, end):
            stop, begun = closing(text, end + len(_WINDOWED) - 1), end + len(_WINDOWED)
            if not _FRAME.search(text[begun:stop]):
                raise UnreadablePlan(f"the window of {short(text)} is not understood")
            if head in _RANKING:
                value = Value(indirect=influences_of(value, "WINDOW"), unknown=value.unknown)
            value, end = self._because(value, text[begun:stop], "WINDOW"), stop + 1
        return value, end

    def _because(self, value: Value, text: str, effect: Effect) -> Value:
        """Return a value that an expression decides, too."""
        decides = self.read(text)
        causes = value.indirect | influences_of(decides, effect)
        return replace(value, indirect=causes, unknown=value.unknown | decides.unknown)

    def _called(self, head: str, content: str) -> Value:
        arguments = pieces(content)
        if arguments and (special := _SPECIAL.get(head)):
            return special(self, arguments)
        if any(each.startswith(_LAMBDA) for each in arguments):
            return self._with_lambda(head, arguments)
        is_aggregate = self.keys is not None and _AGGREGATES.fullmatch(head)
        kind: Transformation = "AGGREGATION" if is_aggregate else "TRANSFORMATION"
        values, causes = [self.read(each).kept(kind) for each in arguments], frozenset[Cause]()
        if head in _CHOOSING and values:
            decides, *values = values
            causes = influences_of(decides, "CONDITIONAL")
        made = combined([each.changed(kind) for each in values])
        choices = tuple(values) if _PASSING.fullmatch(head) else ()
        return Value(made.direct, made.indirect | causes, made.unknown, choices=choices)

    def _with_lambda(self, head: str, arguments: Sequence[str]) -> Value:
        """Return the origin of a call with lambdas, whose variables are elements of the other arguments."""
        held = [self.read(each).kept("TRANSFORMATION") for each in arguments if not each.startswith(_LAMBDA)]
        element = held[0] if len(held) == 1 else combined([each.changed("TRANSFORMATION") for each in held])
        made = [] if head in _BODY_ALONE else held
        for each in arguments:
            if each.startswith(_LAMBDA):
                body, *rest = pieces(each[len(_LAMBDA) : -1])
                self._variables |= {name.removeprefix("lambda "): element for name in rest}
                made.append(self.read(body))
        whole = combined([each.changed("TRANSFORMATION") for each in made])
        return replace(whole, choices=tuple(made)) if head in ("transform", "filter") else whole

    def _struct(self, arguments: Sequence[str]) -> Value:
        names, values = arguments[0::2], arguments[1::2]
        if len(arguments) % 2 or any(MARK.search(name) or "#" in name for name in names):
            raise UnreadablePlan("the fields of a struct are not understood")
        made = {name.lower(): self.read(value) for name, value in zip(names, values, strict=True)}
        inputs = combined([each.changed("TRANSFORMATION") for each in made.values()])
        return Value(inputs.direct, inputs.indirect, inputs.unknown, fields=made)

    def _updated(self, arguments: Sequence[str]) -> Value:
        base, *operations = arguments
        changed: dict[str, Value] = {}
        for each in operations:
            parts = pieces(each[len("WithField(") : -1]) if each.startswith("WithField(") and each[-1] == ")" else []
            if len(parts) != 2 or not parts[0].isidentifier():
                raise UnreadablePlan("the fields of a struct are not understood")
            changed[parts[0].lower()] = self.read(parts[1])
        before = self.read(base)
        inputs = combined([each.changed("TRANSFORMATION") for each in (before, *changed.values())])
        return Value(inputs.direct, inputs.indirect, inputs.unknown, fields=changed, base=before)

    def _chosen(self, arguments: Sequence[str]) -> Value:
        """Return the origin of the value with the greatest or least order; of an array of values, of all."""
        value, *order = [self.read(each) for each in arguments]
        if len(order) != 1:
            return combined([each.changed("AGGREGATION") for each in (value, *order)])
        found = value.kept("AGGREGATION", influences_of(order[0], "SORT"))
        return replace(found, unknown=found.unknown | order[0].unknown)

    def _cast(self, arguments: Sequence[str]) -> Value:
        """Return the origin of a cast value; a struct may get other names of fields, by position."""
        text = ", ".join(arguments)
        places = [found.start() for found in re.finditer(" as ", flat(text)) if _TYPE.fullmatch(text[found.end() :])]
        if not places:
            raise UnreadablePlan(f"the cast of {short(text)} is not understood")
        value, kind = self.read(text[: places[0]]), text[places[0] + len(" as ") :]
        if kind.startswith("struct<"):
            return value.renamed(_fields_of(kind))
        return value.renamed(()) if "struct<" in kind else value.changed("TRANSFORMATION")

    def _below(self, value: Value, text: str, end: int) -> tuple[Value, int]:
        """Return the origin of a field or an element of a value, and where the path ends."""
        while True:
            if text.startswith("[", end):
                stop = closing(text, end)
                index, value = self.read(text[end + 1 : stop]), value.kept("TRANSFORMATION")
                if index.direct or index.indirect or index.unknown:
                    both = combined([value, index.changed("TRANSFORMATION")])
                    value = Value(both.direct, both.indirect, both.unknown, choices=(value, index))
                end = stop + 1
            elif path := _PATH.match(text, end):
                for step in path[0][1:].split("."):
                    value = value.field(step)
                end = path.end()
            elif text.startswith(".", end) and (value.plain or value.choices or value.fields):
                flat_value = value.changed("TRANSFORMATION")
                return replace(flat_value, unknown=value.unknown | {f"{short(text)} has a field with an odd name"}), end
            else:
                return value, end


def _cases(text: str) -> tuple[list[str], list[str], int]:
    """Return the conditions, the values and the end of a CASE at the beginning of a text.

    Raises:
        UnreadablePlan: if its words do not fit together.
    """
    found: dict[str, list[str]] = {"condition": [], "value": []}
    depth, begun, part = 0, 0, ""
    for each in _WORD.finditer(flat(text)):
        word = each[0].split()[0]
        depth += 1 if word == "CASE" else 0
        if depth > 1:
            depth -= 1 if word == "END" else 0
            continue
        if word != "CASE":
            if (word == "THEN") != (part == "condition"):
                break
            found[part].append(text[begun : each.start()])
        if word == "END":
            return found["condition"], found["value"], each.end()
        begun, part = each.end(), "condition" if "WHEN" in each[0] else "value"
    raise UnreadablePlan(f"the CASE of {short(text)} is not understood")


def _fields_of(kind: str) -> list[str]:
    """List the names of a struct's fields in the text of the type."""
    shown, depth = list[str](), 0
    for each in kind[len("struct<") : -1]:
        depth += (each in "<(") - (each in ">)")
        shown.append("\0" if depth else each)
    return [each.partition(":")[0] for each in "".join(shown).split(",")]


_READERS: Mapping[str, Callable[[Terms, str, re.Match[str]], tuple[Value, int]]] = {
    "column": Terms._column,
    "subquery": Terms._inner,
    "case": Terms._case,
    "choice": Terms._choice,
    "variable": Terms._variable,
    "call": Terms._call,
    "list": Terms._list,
    "left": Terms._left,
}
_SPECIAL: Mapping[str, Callable[[Terms, Sequence[str]], Value]] = {
    "named_struct": Terms._struct,
    "struct": Terms._struct,
    "update_fields": Terms._updated,
    "max_by": Terms._chosen,
    "min_by": Terms._chosen,
    "cast": Terms._cast,
    "try_cast": Terms._cast,
}
