"""JSON records in Python: fault of a record, texts of members, nested values, and paths of misfits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from dedp_assets.patterns.core.parsing.strict_json import (
    Fraction,
    HalfCharacter,
    Numbers,
    RepeatedMember,
    Repeating,
    Whole,
    parse_json,
    written,
)
from dedp_assets.patterns.core.types.exact_values import reader_of
from dedp_assets.patterns.core.types.sql_types import is_nested, spelled

__all__ = ["ReadRecord", "Nested", "read_record", "read_texts", "members_of", "text_of"]

_PLAIN = frozenset({str, Whole, Fraction, type(None)})
_BLANK = " \t\n\x0b\f\r"


class ReadRecord(NamedTuple):
    """Parts of a JSON record from which columns are made.

    Attributes:
        fault: fault of the record as a whole; empty for a JSON object.
        texts: text of each scalar column, and where anything nested does not fit, of each nested column.
        nested: value of each nested column.
        misfits: sentences about what does not fit inside of nested columns, and repeated members.
    """

    fault: str = ""
    texts: Sequence[str | None] = ()
    nested: Sequence[Any] = ()
    misfits: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Nested:
    """Conversion of the JSON values of a nested column.

    Attributes:
        kind: type of the column.
        zone: name of the time zone of times without an offset.
        special: whether NaN and infinities are values of a DOUBLE or FLOAT.
    """

    kind: DataType
    zone: str = "UTC"
    special: bool = False

    def column(self, value: Any, name: str, misfits: list[str]) -> Any:  # noqa: ANN401 - JSON, a value
        """Return the value of the column; ``None`` if anything inside does not fit.

        Args:
            value: the value, numbers as written.
            name: name of the column.
            misfits: takes a sentence for each misfit.
        """
        before = len(misfits)
        found = self._value(value, self.kind, name, misfits)
        return found if len(misfits) == before else None

    def _value(self, value: Any, kind: DataType, path: str, misfits: list[str]) -> Any:  # noqa: ANN401 - JSON, a value
        """Return a JSON value as a type that JSON can become, with ``None`` for each misfit."""
        if value is None:
            return None
        if isinstance(kind, StructType) and isinstance(value, dict):
            return self._struct(value, kind, path, misfits)
        if isinstance(kind, MapType) and isinstance(value, dict):
            _name_repeated(value, path, misfits)
            return [(key, self._value(each, kind.valueType, f"{path}.{key}", misfits)) for key, each in value.items()]
        if isinstance(kind, ArrayType) and isinstance(value, list):
            return [self._value(each, kind.elementType, f"{path}[{n}]", misfits) for n, each in enumerate(value)]
        found = None if is_nested(kind) else self._scalar(value, kind)
        if found is None:
            misfits.append(f"{path} is not a {spelled(kind)}")
        return found

    def _struct(self, value: dict[str, Any], kind: StructType, path: str, misfits: list[str]) -> dict[str, Any]:
        _name_repeated(value, path, misfits)
        missing = [field.name for field in kind.fields if not field.nullable and value.get(field.name) is None]
        misfits += [f"{path}.{name} is missing" for name in missing]
        return {
            field.name: self._value(value.get(field.name), field.dataType, f"{path}.{field.name}", misfits)
            for field in kind.fields
        }

    def _scalar(self, value: Any, kind: DataType) -> Any:  # noqa: ANN401 - JSON, a value
        name = kind.simpleString()
        if isinstance(value, dict | list) and not name.startswith(("string", "varchar")):
            return None
        return reader_of(name, zone=self.zone, special=self.special)(text_of(value) or "")


def read_record(names: Sequence[str], record: str | None, nested: Mapping[str, Nested]) -> ReadRecord:
    """Return the texts and nested values of a JSON record.

    Args:
        names: names of the scalar columns.
        record: the text.
        nested: name -> conversion of each nested column.

    Example:
        >>> read_record(["id", "tag"], '{"id": 1.50, "tags": ["a"]}', {})
        ReadRecord(fault='', texts=['1.50', None], nested=(), misfits=())
    """
    members, fault, repeats = members_of(record, "marked" if nested else "texts")
    values = list(map(members.get, names))
    if not _PLAIN.issuperset(map(type, values)):
        members = members if nested else members_of(record, "marked")[0]
        values = [text_of(members.get(name)) for name in names]
    if not nested and not repeats:
        return ReadRecord(fault, values)
    misfits: list[str] = []
    found = [each.column(members.get(name), name, misfits) for name, each in nested.items()]
    if misfits:
        values += [text_of(members.get(name)) for name in nested]
    elif repeats:
        misfits.append("a key is there twice")
    return ReadRecord(fault, values, found, misfits)


def read_texts(texts: Sequence[str | None], nested: Mapping[str, Nested]) -> ReadRecord:
    """Return the nested values of columns with JSON texts.

    Args:
        texts: one for each nested column, in order.
        nested: name -> conversion of each column.
    """
    misfits: list[str] = []
    found = []
    for text, (name, each) in zip(texts, nested.items(), strict=True):
        try:
            value = None if text is None else parse_json(text, numbers="marked", repeated=True)
        except ValueError:
            value = None
            misfits.append(f"{name} is not a {spelled(each.kind)}")
        found.append(each.column(value, name, misfits))
    return ReadRecord(nested=found, misfits=misfits)


def members_of(record: str | None, numbers: Numbers) -> tuple[dict[str, Any], str, bool]:
    """Return the members of a JSON object, and the fault of the record as a whole.

    Args:
        record: the text.
        numbers: form of numbers.

    Returns:
        The members, without a fault; the fault; and whether an object inside of a member is a :class:`Repeating`.
    """
    try:
        found, repeats = _parsed(record or "", numbers)
    except HalfCharacter:
        return {}, "half of a surrogate pair", False
    except ValueError:
        return {}, _fault_of(record), False
    if isinstance(found, Repeating):
        return {}, "; ".join(f"{name} is there twice" for name in found.twice), False
    return (found, "", repeats) if isinstance(found, dict) else ({}, "not a JSON object", False)


def _parsed(record: str, numbers: Numbers) -> tuple[Any, bool]:
    """Return a JSON value, and whether an object has repeated members."""
    try:
        return parse_json(record, numbers=numbers), False
    except RepeatedMember:
        return parse_json(record, numbers=numbers, repeated=True), True


def text_of(value: Any) -> str | None:  # noqa: ANN401 - JSON
    """Return the text of a value: a string's characters, a number as written, or JSON; ``None`` for null."""
    return value if type(value) is str or value is None else written(value)


def _fault_of(record: str | None) -> str:
    if record is not None and not record.strip(_BLANK):
        return "blank line"
    try:
        several = parse_json(f"[{record}]", numbers="marked", repeated=True)
    except ValueError:
        several = ()
    return "more than one JSON value" if len(several) > 1 else "malformed JSON"


def _name_repeated(value: dict[str, Any], path: str, misfits: list[str]) -> None:
    if isinstance(value, Repeating):
        misfits += [f"{path}.{name} is there twice" for name in value.twice]
