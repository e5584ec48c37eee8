"""Types of columns by the values in files: conservative, with the values of other types.

A type is taken if nearly every value has it exactly, as the exact conversion reads it; otherwise a column is text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from dedp_assets.patterns.connectors.encoding.date_readings import Reading, readings_of
from dedp_assets.patterns.core.names import identifier

__all__ = ["NEARLY_ALL", "ColumnValues", "is_value"]

NEARLY_ALL = 0.98
"""Share of a column's values that must have its type."""
_HALF, _SOME = 0.5, 3
_KEPT, _FIELDS, _DEEPEST = 1_000, 100, 20
_INTEGER, _WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,18})"), re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"-?(?:(?:0|[1-9][0-9]*)[.][0-9]*|[.][0-9]+|(?:0|[1-9][0-9]*)(?=[eE]))(?:[eE][+-]?[0-9]+)?")
_LEADING = re.compile(r"[+-]?0[0-9]+(?:\.[0-9]*)?|\+[0-9.]+")
_DATE = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OFFSET = "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
_TIME = re.compile(_DATE.pattern + r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6}0*)?" + _OFFSET)
_PLAIN_FIELD = re.compile(r"[^ ,;{}()\n\t=.`\"]+")
_NUMBERS_OF_TIME = {
    re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"): (
        "days, with type: DATE, format: yyyyMMdd"
    ),
    re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[01][0-9]|2[0-3])(?:[0-5][0-9]){2}"): (
        "times, with type: TIMESTAMP, format: yyyyMMddHHmmss"
    ),
    re.compile(r"1[0-9]{9}"): "times, with type: TIMESTAMP, format: epoch_seconds",
    re.compile(r"1[0-9]{12}"): "times, with type: TIMESTAMP, format: epoch_millis",
}


_TEXTS_OF_NUMBERS = {
    _WHOLE: "whole numbers of more than 64 bits",
    re.compile(r"-?[0-9]{1,3}(?:[, '][0-9]{3})*(?:[.][0-9]*)?"): "numbers with signs between thousands",
    re.compile(r"-?(?:[0-9]+(?:,[0-9]*)?|,[0-9]+)"): "numbers with a decimal comma: state decimal: ',' in the format",
    re.compile(r"-?[0-9]{1,3}(?:[.][0-9]{3})*(?:,[0-9]*)?"): "numbers with points between thousands",
    re.compile(
        r"[A-Z][a-z]{2,8},? [0-9]{1,2}[ -][A-Z][a-z]{2}.*[0-9]{2}:[0-9]{2}.*|[A-Z][a-z]{2} [A-Z][a-z]{2} .*[0-9]{4}"
    ): (
        "times behind the name of a weekday, which no date pattern of Spark reads: deliver times without it, or cut it "
        "off in a step of SQL: to_timestamp(substring(..., 6), \"d MMM yyyy HH:mm:ss 'GMT'\")"
    ),
}
"""Shape of texts -> what they are, where they are no numbers to the conversion."""
_NULLS = frozenset({"na", "n/a", "#n/a", "null", "none", "nil", "nan", "-", "--", "?", ".", "\\n"})
"""Words for no value, in small letters."""
_BOOLEANS = frozenset({"true", "false", "t", "f", "yes", "no", "y", "n", "on", "off"})
"""Words for true and false, in small letters."""


@dataclass
class ColumnValues:
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
    fields: dict[str, ColumnValues] = field(default_factory=dict)
    elements: ColumnValues | None = None

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
                self.fields.setdefault(name, ColumnValues()).add_json(each, depth)
            return
        self._add("ARRAY", "[...]")
        self.elements = self.elements or ColumnValues()
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
        found = self._reading()
        return ("TIMESTAMP" if found.has_time else "DATE") if found else "STRING"

    def pattern(self) -> str:
        """Return the date pattern of the texts; empty without a pattern, or for several readings."""
        found = self._reading() if self.values else None
        return found.pattern if found else ""

    def _reading(self) -> Reading | None:
        found = self._readings(NEARLY_ALL)
        return found[0] if len(found) == 1 else None

    def _readings(self, share: float) -> list[Reading]:
        """Return the readings of a share of the texts that are no type's own."""
        texts = Counter({text: n for text, n in self.texts.items() if _kind_of(text) == "STRING"})
        return readings_of(texts, share) if texts and texts.total() >= share * self.texts.total() else []

    def remark(self) -> str:
        """Return the values that do not fit the type, why a column is text, or a second meaning of numbers."""
        kind, reading = self.type(), self._reading() if self.values else None
        if kind == "STRING":
            return self._why_text()
        if reading:
            return self._unread(reading).replace("are no", "are not as")
        if kind.startswith(("STRUCT", "ARRAY")):
            return ""
        return self._misfits(kind) or (self._of_time() if kind == "BIGINT" else "")

    def _misfits(self, kind: str) -> str:
        """Return the number of values of other types than one, and some of these values."""
        fitting = ("BIGINT", "DOUBLE") if kind == "DOUBLE" else (kind,)
        some = [text for text in self.texts if _kind_of(text) not in fitting]
        return self._without(kind, self.values - sum(self.kinds[each] for each in fitting), some)

    def _without(self, kind: str, count: int, some: list[str]) -> str:
        odd = ", ".join(repr(each[:20]) for each in some[:_SOME])
        found = f"{count} of {self.values} values are no {kind}: {odd}" if count else ""
        if not count or not all(each.lower() in _NULLS for each in some):
            return found
        return f"{found}; if they stand for no value, state nulls: {sorted({*some})} in the format"

    def _of_time(self) -> str:
        """Return the times that whole numbers may stand for."""
        may_be = (what for shape, what in _NUMBERS_OF_TIME.items() if all(map(shape.fullmatch, self.texts)))
        found = next(may_be, "")
        return f"may be {found}" if found else ""

    def _why_text(self) -> str:
        """Return why no other type than text holds the values."""
        if not self.values:
            return "no value"
        found = (
            self._of_several_readings(), self._of_numbers(), self._of_booleans(), self._nearly(), self._nearly_read()
        )  # fmt: skip
        return f"text: {next(filter(None, found), 'no number, date or time')}"

    def _of_several_readings(self) -> str:
        several, first = self._readings(NEARLY_ALL), next(iter(self.texts))[:20]
        return f"{' or '.join(each.pattern for each in several)}? {first!r} may be both" if several else ""

    def _of_numbers(self) -> str:
        if self.kinds["LEADING"]:
            return "leading zeros, or a sign"
        return next((what for shape, what in _TEXTS_OF_NUMBERS.items() if all(map(shape.fullmatch, self.texts))), "")

    def _of_booleans(self) -> str:
        """Return whether two words stand for true and false."""
        words = sorted(self.texts)
        if len(words) > 2 or not all(each.lower() in _BOOLEANS for each in words):
            return ""
        return f"{' and '.join(map(repr, words))} may be a BOOLEAN, of which true and false are read alone"

    def _nearly(self) -> str:
        """Return the values that are not of a type that at least half of the values have."""
        likely = (("BOOLEAN",), ("BIGINT", "DOUBLE"), ("DATE",), ("TIMESTAMP",), ("STRUCT",), ("ARRAY",))
        kinds = next((each for each in likely if self._share(*each) >= _HALF), ())
        if kinds and self._share(*kinds) == 1:
            return "objects or lists that no column holds" if kinds[0] in ("STRUCT", "ARRAY") else ""
        return self._misfits(kinds[-1]) if kinds else ""

    def _nearly_read(self) -> str:
        """Return the values that are not of a date pattern that at least half of the values have."""
        half = self._readings(_HALF)
        return self._unread(half[0]).replace("are no", "are not as") if len(half) == 1 else ""

    def _unread(self, reading: Reading) -> str:
        wrong = Counter({text: n for text, n in self.texts.items() if reading.moment(text) is None})
        return self._without(reading.pattern, wrong.total(), list(wrong))

    def _share(self, *kinds: str) -> float:
        return sum(self.kinds[kind] for kind in kinds) / self.values

    def _struct(self) -> str:
        plain = all(_PLAIN_FIELD.fullmatch(name) for name in self.fields)
        if not self.fields or len(self.fields) > _FIELDS or not plain:
            return "STRING"
        if len({name.lower() for name in self.fields}) < len(self.fields):
            return "STRING"
        return f"STRUCT<{', '.join(f'{_field(name)}: {each.type()}' for name, each in self.fields.items())}>"


def is_value(text: str) -> bool:
    """Return whether a text is a number, a date or a time, and so no name of a column."""
    return _kind_of(text) not in ("STRING", "BOOLEAN")


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
    if _DECIMAL.fullmatch(text):
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
