"""CHECK constraints as keywords of a JSON Schema: comparisons of single columns with constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Limit", "limits_of"]

_TOKEN = re.compile(
    r"""\s*(?: (?P<text>'[^'\\$]*'(?!\s*['"]))
      | (?P<number>-?\d{1,15}(?:\.\d{1,9})?(?![\w.]))
      | (?P<compare><=|>=|<>|!=|=|<|>)
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign>[(),]) )\s*""",
    re.VERBOSE | re.ASCII,
)
_LENGTHS = ("LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH", "LEN")
_BOUNDS = {"<": "exclusiveMaximum", "<=": "maximum", ">": "exclusiveMinimum", ">=": "minimum"}
_WHOLE = ("byte", "short", "integer", "long")


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of a column's values.

    Attributes:
        column: name of the column as declared.
        nullable: whether NULL satisfies the limit.
        keywords: keywords of a JSON Schema for values other than NULL.
    """

    column: str
    nullable: bool
    keywords: Mapping[str, Any] = field(default_factory=dict)


class _UnclearPredicate(Exception):
    """Error for a predicate without an equivalent keyword."""


def limits_of(check: str, kinds: Mapping[str, Any]) -> list[Limit] | None:
    """Translate an SQL predicate into limits of columns.

    ``None`` without a translation.

    All limits must hold. Read are comparisons with a constant, BETWEEN, IN and IS NOT NULL, of a number, a text or the
    length of a text, joined by AND. A whole predicate about one column may begin with ``column IS NULL OR``: otherwise
    NULL does not satisfy it.

    Args:
        check: the predicate.
        kinds: column -> its type as the log stores it.

    Example:
        >>> limits_of("price IS NULL OR price BETWEEN 1 AND 5", {"price": "integer"})
        [Limit(column='price', nullable=True, keywords={'minimum': 1, 'maximum': 5})]
        >>> limits_of("price > 2 * cost", {"price": "integer", "cost": "integer"}) is None
        True
    """
    try:
        return _PredicateParser(_tokens(check), {name.lower(): (name, kind) for name, kind in kinds.items()}).whole()
    except _UnclearPredicate:
        return None


def _tokens(check: str) -> list[tuple[str, str]]:
    found, place = [], 0
    while place < len(check):
        token = _TOKEN.match(check, place)
        if token is None:
            raise _UnclearPredicate
        kind = str(token.lastgroup)
        found.append((kind, token[kind]))
        place = token.end()
    return found


class _PredicateParser:
    """Reads the tokens of a predicate, from the left."""

    def __init__(self, tokens: list[tuple[str, str]], columns: Mapping[str, tuple[str, Any]]) -> None:
        self._left, self._columns = tokens[::-1], columns

    def whole(self) -> list[Limit]:
        words = [text.upper() for _, text in self._left[::-1]]
        if words[1:4] != ["IS", "NULL", "OR"]:
            return self._to_end(self._all)
        column, _ = self._column()
        del self._left[-3:]
        limits = self._to_end(self._all)
        if {limit.column for limit in limits} != {column}:
            raise _UnclearPredicate
        return [Limit(column, nullable=True, keywords=limit.keywords) for limit in limits]

    def _to_end(self, read: Any) -> list[Limit]:  # noqa: ANN401 - a method
        limits: list[Limit] = read()
        if self._left:
            raise _UnclearPredicate
        return limits

    def _all(self) -> list[Limit]:
        """Read limits joined by AND, in parentheses or not."""
        limits = self._each()
        while self._takes("AND"):
            limits += self._each()
        return limits

    def _each(self) -> list[Limit]:
        if self._takes("("):
            limits = self._all()
            self._next(")")
            return limits
        column, keywords = self._measured() if self._peek() in _LENGTHS else self._compared()
        return [Limit(column, nullable=False, keywords=keywords)]

    def _measured(self) -> tuple[str, Mapping[str, Any]]:
        """Read a limit of a text's length."""
        self._left.pop()
        self._next("(")
        column, kind = self._column()
        self._next(")")
        low, high = 0, None
        operator = self._next("BETWEEN", "=", ">", ">=", "<", "<=")
        first = self._constant("integer")
        if kind != "string":
            raise _UnclearPredicate
        if operator == "BETWEEN":
            self._next("AND")
            low, high = first, self._constant("integer")
        else:
            low = first + (operator == ">") if operator in ("=", ">", ">=") else 0
            high = first - (operator == "<") if operator in ("=", "<", "<=") else None
        if not isinstance(low, int) or low < 0 or (high is not None and (not isinstance(high, int) or high < 0)):
            raise _UnclearPredicate
        return column, {"minLength": low, **({} if high is None else {"maxLength": high})}

    def _compared(self) -> tuple[str, Mapping[str, Any]]:
        column, kind = self._column()
        operator = self._next("IS", "IN", "BETWEEN", "=", "<>", "!=", *_BOUNDS)
        if operator == "IS":
            self._next("NOT")
            self._next("NULL")
            return column, {}
        if operator == "IN":
            self._next("(")
            values = [self._constant(kind)]
            while self._takes(","):
                values.append(self._constant(kind))
            self._next(")")
            return column, {"enum": values}
        value = self._constant(kind)
        if operator in ("=", "<>", "!="):
            return column, {"const": value} if operator == "=" else {"not": {"const": value}}
        if kind == "string":
            raise _UnclearPredicate  # JSON Schema has no order of texts
        if operator == "BETWEEN":
            self._next("AND")
            return column, {"minimum": value, "maximum": self._constant(kind)}
        return column, {_BOUNDS[operator]: value}

    def _column(self) -> tuple[str, Any]:
        kind, text = self._left.pop() if self._left else ("", "")
        name = text[1:-1].replace("``", "`") if kind == "quoted" else text
        if kind not in ("word", "quoted") or name.lower() not in self._columns:
            raise _UnclearPredicate
        return self._columns[name.lower()]

    def _constant(self, kind: Any) -> Any:  # noqa: ANN401 - a type of the log, a value of JSON
        found, text = self._left.pop() if self._left else ("", "")
        if found == "text" and kind == "string":
            return text[1:-1]
        # A FLOAT is compared as a DOUBLE that is near its text; a whole number is the same in both.
        fraction = "." in text
        if found != "number" or not (kind in _WHOLE or kind == "double" or (kind == "float" and not fraction)):
            raise _UnclearPredicate
        return float(text) if fraction else int(text)

    def _peek(self) -> str:
        """Return the next word in capitals if a function is called, otherwise an empty text."""
        called = len(self._left) > 1 and self._left[-2][1] == "("
        return self._left[-1][1].upper() if called else ""

    def _takes(self, word: str) -> bool:
        if self._left and self._left[-1][0] in ("word", "sign") and self._left[-1][1].upper() == word:
            self._left.pop()
            return True
        return False

    def _next(self, *words: str) -> str:
        kind, text = self._left.pop() if self._left else ("", "")
        if kind not in ("word", "sign", "compare") or text.upper() not in words:
            raise _UnclearPredicate
        return text.upper()
