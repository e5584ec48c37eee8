"""Types of columns by the values in files: conservative, with the values of other types.

A type is taken if nearly every value has it exactly, as the exact conversion reads it; otherwise a column is text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from dedp_assets.patterns.core.exact import NUMBER
from dedp_assets.patterns.core.names import identifier

__all__ = ["NEARLY_ALL", "PATTERNS", "Seen"]

NEARLY_ALL = 0.98
"""Share of a column's values that must have its type."""
PATTERNS: Mapping[str, str] = {
    "yyyy-MM-dd HH:mm": "%Y-%m-%d %H:%M",
    "yyyy-MM-dd'T'HH:mm": "%Y-%m-%dT%H:%M",
    "yyyy/MM/dd HH:mm:ss": "%Y/%m/%d %H:%M:%S",
    "M/d/yyyy H:mm:ss": "%m/%d/%Y %H:%M:%S",
    "M/d/yyyy H:mm": "%m/%d/%Y %H:%M",
    "M/d/yyyy h:mm:ss a": "%m/%d/%Y %I:%M:%S %p",
    "M/d/yyyy h:mm a": "%m/%d/%Y %I:%M %p",
    "d/M/yyyy H:mm:ss": "%d/%m/%Y %H:%M:%S",
    "d/M/yyyy H:mm": "%d/%m/%Y %H:%M",
    "d.M.yyyy H:mm:ss": "%d.%m.%Y %H:%M:%S",
    "d.M.yyyy H:mm": "%d.%m.%Y %H:%M",
    "yyyy/MM/dd": "%Y/%m/%d",
    "M/d/yyyy": "%m/%d/%Y",
    "d/M/yyyy": "%d/%m/%Y",
    "d.M.yyyy": "%d.%m.%Y",
}
"""Spark's date pattern -> Python's, of texts that are not as in ISO 8601."""
_KEPT, _FIELDS, _DEEPEST = 1_000, 100, 20
_INTEGER, _DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,18})"), re.compile(NUMBER.replace("*+", "*").replace("++", "+"))
_LEADING = re.compile(r"[+-]?0[0-9]+(?:\.[0-9]*)?|\+[0-9.]+")
_DATE = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OFFSET = "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
_TIME = re.compile(_DATE.pattern + r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6}0*)?" + _OFFSET)
_PLAIN_FIELD = re.compile(r"[^ ,;{}()\n\t=.`\"]+")


@dataclass
class Seen:
    """The values of one column.

    Attributes:
        values: values that are there.
        kinds: type -> how many values have it, by the narrowest type of each.
        texts: some of the values, and how often each is there.
        fields: for objects, the members.
        elements: for lists, the elements.
    """

    values: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    fields: dict[str, Seen] = field(default_factory=dict)
    elements: Seen | None = None

    def add_text(self, text: str) -> None:
        """Add a value of CSV."""
        self._add(_kind_of(text), text)

    def add_json(self, value: Any, depth: int = 0) -> None:  # noqa: ANN401 - any JSON
        """Add a value of JSON; a text is a time or a text, and never a number."""
        nested = isinstance(value, list | dict)
        if nested and depth < _DEEPEST:
            self._add_nested(value, depth + 1)
        elif value is not None:
            self._add("STRING" if nested else _kind_of_json(value), "..." if nested else str(value))

    def _add_nested(self, value: list[Any] | dict[str, Any], depth: int) -> None:
        if isinstance(value, dict):
            self._add("STRUCT", "{...}")
            for name, each in value.items():
                self.fields.setdefault(name, Seen()).add_json(each, depth)
            return
        self._add("ARRAY", "[...]")
        self.elements = self.elements or Seen()
        for each in value:
            self.elements.add_json(each, depth)

    def _add(self, kind: str, text: str) -> None:
        self.values += 1
        self.kinds[kind] += 1
        if len(self.texts) < _KEPT or text in self.texts:
            self.texts[text] += 1

    def type(self) -> str:
        """Return the SQL type of the column."""
        if not self.values or self.kinds["LEADING"]:
            return "STRING"
        if self._share("STRUCT") == 1:
            return self._struct()
        if self._share("ARRAY") == 1:
            return f"ARRAY<{self.elements.type() if self.elements else 'STRING'}>"
        for kind in ("BOOLEAN", "BIGINT", "DATE", "TIMESTAMP"):
            if self._share(kind) >= NEARLY_ALL:
                return kind
        if self._share("BIGINT", "DOUBLE") >= NEARLY_ALL:
            return "DOUBLE"
        pattern = self.pattern()
        return ("TIMESTAMP" if "H" in pattern or "h" in pattern else "DATE") if pattern else "STRING"

    def pattern(self) -> str:
        """Return the date pattern of the texts; empty without a pattern, or for several readings."""
        texts = Counter({text: n for text, n in self.texts.items() if _kind_of(text) == "STRING"})
        if not texts or texts.total() < NEARLY_ALL * self.texts.total():
            return ""
        fitting = [pattern for pattern in PATTERNS if _fits(texts, pattern)]
        return fitting[0] if fitting and (len(fitting) == 1 or _agree(texts, fitting)) else ""

    def misfits(self) -> tuple[int, list[str]]:
        """Return the number of values of other types than the column's, and some of these values."""
        kind, pattern = self.type(), self.pattern()
        fitting = {"DOUBLE": ("BIGINT", "DOUBLE")}.get(kind, (kind,))
        if kind == "STRING" or kind.startswith(("STRUCT", "ARRAY")):
            return 0, []
        if pattern:
            wrong = Counter({text: n for text, n in self.texts.items() if _moment(text, PATTERNS[pattern]) is None})
            return wrong.total(), list(wrong)[:3]
        some = [text for text in self.texts if _kind_of(text) not in fitting]
        return self.values - sum(self.kinds[each] for each in fitting), some[:3]

    def _share(self, *kinds: str) -> float:
        return sum(self.kinds[kind] for kind in kinds) / self.values

    def _struct(self) -> str:
        plain = all(_PLAIN_FIELD.fullmatch(name) for name in self.fields)
        if not self.fields or len(self.fields) > _FIELDS or not plain:
            return "STRING"
        if len({name.lower() for name in self.fields}) < len(self.fields):
            return "STRING"
        return f"STRUCT<{', '.join(f'{_field(name)}: {each.type()}' for name, each in self.fields.items())}>"


def _field(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else identifier(name)


@lru_cache(maxsize=100_000)
def _kind_of(text: str) -> str:
    """Return the narrowest type of a text; ``LEADING`` for digits that a number would not keep."""
    if text in ("true", "false"):
        return "BOOLEAN"
    if _LEADING.fullmatch(text):
        return "LEADING"
    if _INTEGER.fullmatch(text):
        return "BIGINT" if -(2**63) <= int(text) < 2**63 else "STRING"
    if _DECIMAL.fullmatch(text) and "." in text:
        return "DOUBLE"
    if _DATE.fullmatch(text):
        return "DATE" if _moment(text, "%Y-%m-%d") else "STRING"
    seconds = _moment(text[:19].replace("T", " "), "%Y-%m-%d %H:%M:%S") if _TIME.fullmatch(text) else None
    return "TIMESTAMP" if seconds else "STRING"


def _kind_of_json(value: Any) -> str:  # noqa: ANN401 - a scalar of JSON
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -(2**63) <= value < 2**63 else "STRING"
    if isinstance(value, float):
        return "DOUBLE"
    kind = _kind_of(value)
    return kind if kind in ("DATE", "TIMESTAMP") else "STRING"


def _moment(text: str, pattern: str) -> datetime | None:
    try:
        return datetime.strptime(text, pattern)  # noqa: DTZ007 - to compare readings of one text
    except ValueError:
        return None


def _fits(texts: Counter[str], pattern: str) -> bool:
    fitting = sum(n for text, n in texts.items() if _moment(text, PATTERNS[pattern]) is not None)
    return fitting >= NEARLY_ALL * texts.total()


def _agree(texts: Counter[str], patterns: list[str]) -> bool:
    """Return whether all patterns read every text as the same time."""
    return all(len({_moment(text, PATTERNS[pattern]) for pattern in patterns}) == 1 for text in texts)
