"""Sample records of a producer, judged by the JSON Schema with which the table judges records.

A value of Python is written as a producer sends it: a date as a text, a decimal as its digits, bytes in base64. Names
are those of the columns whatever their case, as for Spark and Delta.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from dedp_assets.patterns.core.names import half_character
from dedp_assets.patterns.core.parsing.json_schemas import RecordSchema, column_schema
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.nesting import Kind, fold
from dedp_assets.patterns.core.types.widening import WHOLE

__all__ = ["Samples"]

_MISFIT = "\0misfit"
"""Key of the object in place of a value that no JSON of its type stands for; the value's text is below."""
_LEAST_FLOAT = 2.0**-149


class Samples:
    """Judge of the values of records.

    Args:
        columns: columns of the contract.

    Attributes:
        unread: column -> its type, which only Spark can read: its values are not judged.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        declared = {name: ddl.field("value", column.type) for name, column in columns.items()}
        self.unread = {name: columns[name].type for name, found in declared.items() if found is None}
        self._kinds = {name: {**found, "type": _listed(found["type"])} for name, found in declared.items() if found}
        schemas = {name: column_schema(found, nullable=True) for name, found in self._kinds.items()}
        self._schema = RecordSchema("", {"type": "object", "properties": schemas}, {})

    def misfits(self, record: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """Yield each column whose value does not fit, and the part that does not.

        Args:
            record: column -> value.
        """
        written = {name: _written(record.get(name), found["type"]) for name, found in self._kinds.items()}
        found = dict[str, str]()
        for error in self._schema.validator.iter_errors(written):
            name, *path = error.instance_path
            found.setdefault(str(name), _shown(error, path))
        yield from found.items()


def _shown(error: Any, path: Sequence[str | int]) -> str:  # noqa: ANN401 - an error of the validator
    """Return the part of a value that does not fit."""
    if strange := getattr(error.kind, "unexpected", ()):
        return f"a struct with {', '.join(strange)}"
    if missing := getattr(error.kind, "property", ""):
        return f"a struct without {missing}"
    value = error.instance
    shown = value[_MISFIT] if isinstance(value, dict) and _MISFIT in value else repr(value)
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    return f"{shown} in {place}" if place else shown


def _listed(kind: Kind) -> Kind:
    """Return a type with lists of entries in place of maps, whose keys need not be texts."""
    return fold(
        kind,
        scalar=str,
        struct=lambda kind, fields: {**kind, "fields": [{**each, "type": inner} for each, inner in fields]},
        array=lambda kind, inner: {**kind, "elementType": inner},
        map=lambda _, key, value: {"type": "array", "elementType": _entry(key, value), "of_entries": True},
    )


def _entry(key: Kind, value: Kind) -> Kind:
    parts = (("key", key, False), ("value", value, True))
    return {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": null} for name, kind, null in parts]}


def _written(value: object, kind: Kind) -> Any:  # noqa: ANN401 - JSON
    """Return a value as JSON of a record."""
    if value is None:
        return None
    if isinstance(kind, str):
        return _scalar(value, kind)
    if kind["type"] == "struct":
        return _struct(value, kind["fields"]) if isinstance(value, Mapping) else _misfit(value)
    found: object = value
    if kind.get("of_entries"):
        found = [{"key": k, "value": v} for k, v in value.items()] if isinstance(value, Mapping) else None
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        return _misfit(value)
    return [_written(each, kind["elementType"]) for each in found]


def _struct(value: Mapping[Any, object], fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kinds = {each["name"].lower(): each for each in fields}
    found = dict[str, Any]()
    for name, inner in value.items():
        each = kinds.get(str(name).lower())
        found[each["name"] if each else str(name)] = _written(inner, each["type"]) if each else None
    return found


def _scalar(value: object, kind: str) -> Any:  # noqa: ANN401 - JSON
    for types, write in _WRITERS.get("decimal" if kind.startswith("decimal") else kind, ()):
        if isinstance(value, types):
            return write(value)
    if isinstance(value, str):
        return _misfit(value) if half_character(value) else value
    is_number = isinstance(value, int | float)
    return value if is_number and not (kind in WHOLE and isinstance(value, float)) else _misfit(value)


def _misfit(value: object) -> dict[str, str]:
    return {_MISFIT: repr(value)}


def _decimal(value: Any) -> Any:  # noqa: ANN401 - a number; JSON
    if isinstance(value, bool) or not Decimal(value).is_finite():
        return _misfit(value)
    digits = f"{Decimal(value):f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _finite(value: float) -> float:
    return value if isfinite(value) else 0.0


def _instant(value: datetime) -> str:
    return value.isoformat() if value.tzinfo else f"{value.isoformat()}Z"


def _instant_text(value: str) -> str:
    """Return the text of an instant with a zone; UTC, as for the table, without one."""
    text = value.replace(" ", "T", 1)
    _, _, clock = text.partition("T")
    return text if any(mark in clock for mark in "Zz+-") or not clock else f"{text}Z"


_Writer = tuple[tuple[type, ...], Callable[[Any], Any]]
_WRITERS: Mapping[str, Sequence[_Writer]] = {
    "date": (((datetime,), _misfit), ((date,), date.isoformat)),
    "timestamp": (((datetime,), _instant), ((str,), _instant_text)),
    "timestamp_ntz": (
        ((datetime,), lambda value: _misfit(value) if value.tzinfo else value.isoformat()),
        ((str,), lambda value: value.replace(" ", "T", 1)),
    ),
    "decimal": (((int, Decimal), _decimal),),
    "binary": (((bytes, bytearray), lambda value: b64encode(value).decode()),),
    # Both hold what is no number of JSON; a value that is too large is for the schema to refuse.
    "float": (((float,), lambda value: _misfit(value) if 0 < abs(value) < _LEAST_FLOAT else _finite(value)),),
    "double": (((float,), _finite),),
}
"""Type -> values of Python and the JSON that each becomes; any other value stays, or is a misfit."""
