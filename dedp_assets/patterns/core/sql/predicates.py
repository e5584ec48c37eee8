"""Predicates proven sound without Spark: parsed, resolved and typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["is_sound"]

_TOKEN = re.compile(
    r"""(?P<isnull>\bIS\s+(?:NOT\s+)?NULL\b)
      | (?P<number>-?\b\d{1,18}(?:\.\d{1,9})?\b(?!\.))
      | (?P<text>'[^'\\$]*'(?!\s*['"]))
      | (?P<compare><=>|<=|>=|<>|!=|=|<|>)
      | (?P<word>\b[A-Za-z_]\w*\b(?!\s*\.))
      | (?P<quoted>`(?:[^`]|``)+`(?!\s*\.))
      | (?P<sign>[(),])
      | (?P<unknown>\S)""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long", "float", "double"), "n"),
    "string": "s",
    "date": "d",
    "timestamp": "t",
    "timestamp_ntz": "z",
    "boolean": "b",
}
_WORDS = {"AND": "&", "OR": "|", "NOT": "!", "BETWEEN": "W", "IN": "Y", "LIKE": "L"}
_SYNTAX = re.compile(
    "ALL|ANY|ARRAY|CASE|CAST|COLLATE|CURRENT_DATE|CURRENT_TIME|CURRENT_TIMESTAMP|CURRENT_USER|DATE|DISTINCT|DIV|ELSE|END"
    "|ESCAPE|EXISTS|EXTRACT|FALSE|FILTER|FIRST|FROM|ILIKE|INTERVAL|IS|LAST|LOCALTIMESTAMP|MAP|NULL|OVER|OVERLAY|POSITION"
    "|REGEXP|RLIKE|SELECT|SESSION_USER|SOME|STRUCT|SUBSTR|SUBSTRING|THEN|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_NTZ|TRIM|TRUE"
    "|USER|WHEN",
    re.IGNORECASE,
)
_RULES = [
    (re.compile(r"[nsdtzbx]I"), "P"),
    (re.compile(r"([nsdtz])!?W\1&\1"), "P"),
    (re.compile(r"([nsdtz])!?Y\(\1(?:,\1)*\)"), "P"),
    (re.compile(r"s!?Ls"), "P"),
    (re.compile(r"([nsdtz])c\1"), "P"),
    (re.compile(r"!P|\(P\)|P[&|]P"), "P"),
]


def is_sound(predicate: str, kinds: Mapping[str, Any]) -> bool:
    """Return whether Spark can certainly evaluate a predicate; ``False`` leaves the decision to Spark.

    Comparisons of columns and constants of one family of types, IN, BETWEEN, LIKE and IS NULL, joined by AND, OR and
    NOT: each token becomes a letter (a column of numbers ``n``, of texts ``s``), and what is a predicate becomes ``P``,
    until nothing but that is left.

    Args:
        predicate: an SQL predicate.
        kinds: column -> its type as the log stores it.

    Example:
        >>> is_sound("amount IS NULL OR amount >= 0", {"amount": "double"})
        True
        >>> is_sound("amount >= '0'", {"amount": "double"}), is_sound("nothing > 0", {"amount": "double"})
        (False, False)
    """
    letters = {name.lower(): _letter(kind) for name, kind in kinds.items()}
    shape = "".join(_spelled(found, letters) for found in _TOKEN.finditer(predicate))
    before = ""
    while shape != before:
        before = shape
        for rule, becomes in _RULES:
            shape = rule.sub(becomes, shape)
    return shape == "P"


def _letter(kind: Any) -> str:  # noqa: ANN401 - a type in Spark's JSON form
    return "n" if str(kind).startswith("decimal(") else _KINDS.get(str(kind), "x")


def _spelled(found: re.Match[str], letters: Mapping[str, str]) -> str:
    token = found[0]
    if found["word"]:
        return _WORDS.get(token.upper()) or letters.get("" if _SYNTAX.fullmatch(token) else token.lower(), "?")
    if found["quoted"]:
        return letters.get(token[1:-1].replace("``", "`").lower(), "?")
    return {"isnull": "I", "number": "n", "text": "s", "compare": "c", "sign": token}.get(str(found.lastgroup), "?")
