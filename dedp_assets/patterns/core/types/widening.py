"""Widening of scalar types: one table of types, wider types and uses."""

from __future__ import annotations

import re
from itertools import product
from typing import Literal

from pyspark.sql.types import DataType

from dedp_assets.patterns.core.types.nesting import Kind

__all__ = ["WHOLE", "Widening", "digits", "is_widening"]

Widening = Literal["lossless", "delta", "files", "contract", "avro"]
"""Use of a wider type.

``lossless``: the type that two sides meet in, with all values as they were. ``delta``: the new type of a stored column,
by Delta's type widening. ``files``: the type by which a query reads files, texts with a length included. ``contract``:
the type of which a consumer takes values, as the same kind of value. ``avro``: the reader's type, by Avro's promotions.
"""
_TABLE = (
    ("byte short", "integer long", "lossless delta files contract"),
    ("byte", "short", "lossless delta files contract"),
    ("integer", "long", "lossless delta files contract avro"),
    ("float", "double", "lossless delta files contract avro"),
    ("byte short", "float", "lossless"),
    ("byte short", "double", "lossless delta files"),
    ("integer", "double", "lossless delta files avro"),
    ("integer long", "float", "avro"),
    ("long", "double", "avro"),
    ("byte short integer long", "decimal", "lossless delta files"),
    ("decimal", "byte short integer long", "lossless"),
    ("decimal", "decimal", "lossless delta files contract"),
    ("date", "timestamp_ntz", "delta files"),
    ("char varchar", "string", "lossless files"),
    ("char varchar", "char varchar", "files"),
    ("varchar", "varchar string", "contract"),
    ("string binary", "string binary", "avro"),
)
"""Types, their wider types (if these have room for the digits or characters), and the uses."""
_WIDENED = {triple for row in _TABLE for triple in product(*map(str.split, row))}
WHOLE = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Integer type -> number of decimal digits of the maximum; numbers with fewer digits fit the type."""
_SIZED = re.compile(r"(decimal|varchar|char)\((\d+)(?:,(-?\d+))?\)")
_ENDLESS = 1 << 32


def is_widening(before: Kind, after: Kind, use: Widening) -> bool:
    """Return whether a scalar type widens to another one, or two types are equal.

    Args:
        before: the type, in the form of the log.
        after: the wider type.
        use: what the wider type is for.

    Example:
        >>> is_widening("integer", "long", "delta"), is_widening("decimal(9,2)", "decimal(10,4)", "delta")
        (True, False)
        >>> is_widening("long", "double", "lossless"), is_widening("long", "double", "avro")
        (False, True)
    """
    if before == after or not isinstance(before, str) or not isinstance(after, str):
        return bool(before == after)
    (one, whole, places), (other, room, smaller) = _measured(before), _measured(after)
    if one == "long" and use != "lossless":
        whole += 1  # Spark's decimal for a BIGINT has 20 digits, which Delta asks for, though its numbers have 19
    if other in WHOLE:
        room -= 1
    return (one, other, use) in _WIDENED and whole <= room and places <= smaller


def digits(kind: DataType) -> tuple[int, int]:
    """Count the digits before and after the point in exact numbers of a type; other types have no limit."""
    name, whole, places = _measured(str(kind.jsonValue()))
    return (whole, places) if name == "decimal" or name in WHOLE else (_ENDLESS, _ENDLESS)


def _measured(kind: str) -> tuple[str, int, int]:
    """Return a type's name without a size, and the digits before and after the point, or the characters."""
    if sized := _SIZED.fullmatch(kind):
        places = int(sized[3] or 0)
        return sized[1], int(sized[2]) - places, places
    return (kind, WHOLE[kind], 0) if kind in WHOLE else (kind, _ENDLESS, _ENDLESS)
