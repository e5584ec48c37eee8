"""Fit of Python values to SQL types, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

__all__ = ["misfit"]

_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def misfit(value: object, kind: Any) -> str:  # noqa: ANN401 - a type in the log's form
    """Return the part of a value that does not fit a type, as text; empty if the value fits.

    Args:
        value: the value, without NULL. A date or a time may be a text in ISO 8601.
        kind: the type, in the form of the Delta log.
    """
    if isinstance(kind, str):
        return "" if _fits(value, kind) else repr(value)
    if kind["type"] == "struct":
        return _struct(value, kind["fields"])
    if kind["type"] == "array":
        return _all(value, kind["elementType"]) if _is_list(value) else repr(value)
    if not isinstance(value, Mapping):
        return repr(value)
    return _all([*value], kind["keyType"]) or _all([*value.values()], kind["valueType"])


def _struct(value: object, fields: Sequence[Mapping[str, Any]]) -> str:
    if not isinstance(value, Mapping):
        return repr(value)
    known = {each["name"]: each for each in fields}
    if strange := [name for name in value if name not in known]:
        return f"a struct with {', '.join(map(str, strange))}"
    for name, each in known.items():
        if value.get(name) is None:
            if not each["nullable"]:
                return f"a struct without {name}"
        elif found := misfit(value[name], each["type"]):
            return f"{found} in {name}"
    return ""


def _all(values: Any, kind: Any) -> str:  # noqa: ANN401 - as above
    found = (misfit(each, kind) for each in values if each is not None)
    return next(filter(None, found), "")


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _fits(value: object, kind: str) -> bool:
    """Return whether a value fits a scalar type; types that are unknown here fit."""
    if kind in _BITS:
        return _is_whole(value) and -(2 ** (_BITS[kind] - 1)) <= value < 2 ** (_BITS[kind] - 1)
    if decimal := _DECIMAL.fullmatch(kind):
        return _is_decimal(value, int(decimal[1]), int(decimal[2]))
    rule = _RULES.get(kind)
    return rule is None or rule(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_decimal(value: object, precision: int, scale: int) -> bool:
    if not (_is_whole(value) or isinstance(value, Decimal)):
        return False
    number = Decimal(value)  # type: ignore[arg-type]
    exponent = number.normalize().as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= scale and abs(number) < Decimal(10) ** (precision - scale)


def _is_date(value: object) -> bool:
    return (isinstance(value, date) and not isinstance(value, datetime)) or _reads(value, date.fromisoformat)


def _is_time(value: object) -> bool:
    return isinstance(value, datetime) or _reads(value, _time_of)


def _time_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _reads(value: object, read: Callable[[str], object]) -> bool:
    """Return whether a value is a text that can be read."""
    if not isinstance(value, str):
        return False
    try:
        read(value)
    except ValueError:
        return False
    return True


_RULES: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "binary": lambda value: isinstance(value, bytes | bytearray),
    "float": lambda value: _is_whole(value) or isinstance(value, float),
    "double": lambda value: _is_whole(value) or isinstance(value, float),
    "date": _is_date,
    "timestamp": _is_time,
    "timestamp_ntz": _is_time,
}
