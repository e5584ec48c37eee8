"""Declared SQL types, parsed without Spark into the form of the Delta log's schema.

Only what is certain is read. Of anything else it is for Spark to say what it means, or to refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dedp_assets.patterns.core.types.partitions import stored_type

__all__ = ["LENGTH", "field", "is_storable"]

LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
"""Key of a field's metadata under which Spark keeps the declared length of a text."""

_TOKEN = re.compile(r"[A-Za-z_]\w*|`(?:[^`]|``)+`|\d+|'[^'\\$]*'|[<>(),:]|\S", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SIZED_TEXT = re.compile(r"\s*(VAR|)CHAR(?:ACTER)?\s*\(\s*0*([1-9]\d{0,8})\s*\)\s*", re.IGNORECASE)
_NOT_IN_A_NAME = set(" ,;{}()\n\t=")
_LARGEST_PRECISION = 38


class _UnclearType(Exception):
    """A declaration that only Spark can read."""


def field(name: str, declared: str, *, required: bool = False, comment: str = "") -> dict[str, Any] | None:
    """Return a column in the form of the log's schema; ``None`` for a type that only Spark can parse.

    Example:
        >>> field("id", "BIGINT", required=True)
        {'name': 'id', 'type': 'long', 'nullable': False, 'metadata': {}}
        >>> field("at", "MAP<STRING, INTERVAL DAY>") is None
        True
    """
    metadata = {"comment": comment} if comment else {}
    kind: Any = "string"
    if sized := _SIZED_TEXT.fullmatch(declared):
        metadata[LENGTH] = f"{sized[1].lower()}char({sized[2]})"
    else:
        try:
            kind = _TypeParser(_TOKEN.findall(declared)).whole()
        except _UnclearType:
            return None
    found = {"name": name, "type": kind, "nullable": not required, "metadata": metadata}
    return found if is_storable(name) else None


def is_storable(name: str) -> bool:
    """Return whether data files can store a column of this name."""
    return bool(name) and not _NOT_IN_A_NAME & set(name)


class _TypeParser:
    """Reads the tokens of a type, from the left."""

    def __init__(self, tokens: list[str]) -> None:
        self._left = tokens[::-1]

    def whole(self) -> Any:  # noqa: ANN401 - as above
        kind = self._kind()
        if self._left:
            raise _UnclearType
        return kind

    def _next(self, *expected: str) -> str:
        token = self._left.pop() if self._left else ""
        if not token or (expected and token.upper() not in expected):
            raise _UnclearType
        return token

    def _takes(self, *words: str) -> bool:
        """Consume the given words if the next tokens match."""
        found = [token.upper() for token in self._left[::-1][: len(words)]] == list(words)
        if found:
            del self._left[-len(words) :]
        return found

    def _kind(self, *, required_inside: bool = True) -> Any:  # noqa: ANN401 - as above
        word = self._next().upper()
        if word == "STRUCT":
            return self._struct(required_inside=required_inside)
        if word == "ARRAY":
            self._next("<")
            kind = {"type": "array", "elementType": self._kind(required_inside=False), "containsNull": True}
            self._next(">")
            return kind
        if word == "MAP":
            return self._map()
        return self._scalar(word)

    def _map(self) -> Mapping[str, Any]:
        self._next("<")
        key = self._scalar(self._next().upper())
        self._next(",")
        value = self._kind(required_inside=False)
        self._next(">")
        if key == "variant":
            raise _UnclearType
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}

    def _scalar(self, word: str) -> str:
        digits = []
        if self._takes("("):
            digits = [self._next()]
            while self._takes(","):
                digits.append(self._next())
            self._next(")")
        kind = stored_type(f"{word}({','.join(digits)})" if digits else word)
        if digits:
            whole, fraction = [int(number) if number.isdigit() else -1 for number in (*digits, "0")[:2]]
            if not kind.startswith("decimal") or len(digits) > 2 or not 0 <= fraction <= whole <= _LARGEST_PRECISION:
                raise _UnclearType
            kind = f"decimal({whole},{fraction})"
        if not kind or kind == "decimal(0,0)":
            raise _UnclearType
        return kind

    def _struct(self, *, required_inside: bool) -> Mapping[str, Any]:
        self._next("<")
        fields = [self._field(required_inside=required_inside)]
        while self._takes(","):
            fields.append(self._field(required_inside=required_inside))
        self._next(">")
        if len({each["name"].lower() for each in fields}) < len(fields):
            raise _UnclearType
        return {"type": "struct", "fields": fields}

    def _field(self, *, required_inside: bool) -> Mapping[str, Any]:
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not _NAME.fullmatch(name):
            raise _UnclearType
        self._takes(":")
        kind = self._kind(required_inside=required_inside)
        required = self._takes("NOT", "NULL")
        metadata = {"comment": self._text()} if self._takes("COMMENT") else {}
        if not is_storable(name) or (required and not required_inside):
            raise _UnclearType
        return {"name": name, "type": kind, "nullable": not required, "metadata": metadata}

    def _text(self) -> str:
        token = self._next()
        if len(token) < 2 or not token.startswith("'"):
            raise _UnclearType
        return token[1:-1]
