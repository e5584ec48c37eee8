"""Exact conversion in Python of texts inside of structs, lists and maps.

The accepted texts are those of ``core/exact``.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from dedp_assets.patterns.core.types.exact import DAY, LONGEST_NUMBER, NUMBER, OFFSET, SPECIAL, TIME

__all__ = ["reader_of"]

_Reader = Callable[[str], Any]
"""Function that returns the value of a text; ``None`` for a text without an exact value of the type."""
_WHOLE, _NUMBER, _DATE = re.compile("-?(?:0|[1-9][0-9]{0,18})"), re.compile(NUMBER), re.compile(DAY)
_LOCAL, _MOMENT = re.compile(f"({DAY})[T ]({TIME})"), re.compile(f"({DAY})[T ]({TIME})({OFFSET})")
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_TRUTHS = {"true": True, "false": False}
_LONGEST_OFFSET = timedelta(hours=18)


@lru_cache
def reader_of(kind: str, *, zone: str, special: bool = False) -> _Reader:
    """Return the function that converts a text to a scalar type.

    Args:
        kind: SQL type, as Spark spells it.
        zone: name of the time zone of times without an offset.
        special: whether NaN and infinities are values of a DOUBLE or FLOAT.

    Example:
        >>> read = reader_of("decimal(6,2)", zone="UTC")
        >>> read("12.340"), read("12.345")
        (Decimal('12.34'), None)
    """
    if kind in _BITS:
        return partial(_whole, bound=1 << _BITS[kind] - 1)
    if sized := re.fullmatch(r"(decimal|varchar)\((\d+)(?:,(\d+))?\)", kind):
        precision, scale = int(sized[2]), int(sized[3] or 0)
        if sized[1] == "varchar":
            return lambda text: text if len(text) <= precision else None
        return partial(_decimal, whole=precision - scale, scale=scale)
    if kind in ("double", "float"):
        return partial(_floating, make=float if kind == "double" else _single, special=special)
    if kind == "timestamp":
        return partial(_instant, zone=timezone.utc if zone in ("UTC", "Etc/UTC", "Z") else ZoneInfo(zone))
    return _OTHERS[kind]


def _whole(text: str, bound: int) -> int | None:
    value = int(text) if _WHOLE.fullmatch(text) else bound
    return value if -bound <= value < bound else None


def _decimal(text: str, whole: int, scale: int) -> Decimal | None:
    if len(text) > LONGEST_NUMBER or not _NUMBER.fullmatch(text) or re.search("[eE][+-]?0*[0-9]{4}", text):
        return None
    sign, digits, exponent = Decimal(text).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    decimals = len(shown) - len(digits) - int(exponent)
    if not shown:
        return Decimal(0)
    fits = decimals <= scale and len(shown) - decimals <= whole
    return Decimal((sign, tuple(map(int, shown)), -decimals)) if fits else None


def _floating(text: str, make: _Reader, special: bool) -> float | None:  # noqa: FBT001 - bound by name
    if special and text in SPECIAL:
        return float(text)
    value = make(text) if _NUMBER.fullmatch(text) else math.inf
    vanished = not value and re.match("[-+0.]*[1-9]", text)
    return None if math.isinf(value) or vanished else value


def _single(text: str) -> float:
    """Return the FLOAT nearest to a text.

    The FLOAT nearest to the nearest DOUBLE may be the second nearest to the text.
    """
    value: float = pa.scalar(text.removeprefix("+")).cast(pa.float32()).as_py()
    return value


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _local(text: str) -> datetime | None:
    found = _LOCAL.fullmatch(text)
    return _clock(found[1], found[2]) if found else None


def _instant(text: str, zone: tzinfo) -> datetime | None:
    """Return the instant of a time; a time that the zone's clocks skip is none."""
    found = _MOMENT.fullmatch(text)
    at = _clock(found[1], found[2]) if found else None
    if found is None or at is None:
        return None
    try:
        if found[3]:
            offset = _offset(found[3])
            return None if offset is None else (at - offset).replace(tzinfo=timezone.utc)
        instant = at.replace(tzinfo=zone).astimezone(timezone.utc)
        return instant if instant.astimezone(zone).replace(tzinfo=None) == at else None
    except OverflowError:
        return None


def _clock(day: str, time: str) -> datetime | None:
    seconds, _, fraction = time.partition(".")
    try:
        return datetime.fromisoformat(f"{day}T{seconds}.{fraction[:6]:0<6}")
    except ValueError:
        return None


def _offset(text: str) -> timedelta | None:
    digits = text.replace(":", "")
    hours, minutes = (0, 0) if digits == "Z" else (int(digits[1:3]), int(digits[3:] or 0))
    offset = timedelta(hours=hours, minutes=minutes)
    if offset > _LONGEST_OFFSET or minutes > 59:
        return None
    return -offset if text.startswith("-") else offset


def _bytes(text: str) -> bytes | None:
    try:
        value = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        return None
    return value if base64.b64encode(value).decode() == text else None


_OTHERS: Mapping[str, _Reader] = {
    "string": str,
    "boolean": _TRUTHS.get,
    "date": _day,
    "timestamp_ntz": _local,
    "binary": _bytes,
}
