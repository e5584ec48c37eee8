"""Partition values: the typed identity of a value, and the spellings in Python, log, SQL and folder.

==========  ==================================================  ==========================================
spelling    who writes it                                       2026-01-05 00:00 UTC as TIMESTAMP
==========  ==================================================  ==========================================
Python      callers, delta-rs                                   ``datetime(2026, 1, 5, tzinfo=utc)``
log         Delta's log, commit records and transaction ids     ``2026-01-05T00:00:00.000000Z``
SQL         predicates and constants of a query                 ``CAST('2026-01-05T00:…Z' AS TIMESTAMP)``
folder      the stage of a write, while Spark fills it          ``partition0=v1767571200000000``
==========  ==================================================  ==========================================

The log's spelling is the identity: equal values of a type have one text, whoever wrote them, and NULL is ``None``. A
type of which that cannot be said (``-0.0`` of DOUBLE, BINARY, DECIMAL, which readers spell in several ways) is no type
of a partition column, and a value that the log cannot hold (an empty string, which the Delta protocol reads as NULL) is
counted and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import SUBSTITUTED, half_character, identifier

__all__ = [
    "equals",
    "folder_value",
    "from_folder",
    "is_possible",
    "literal",
    "logged",
    "misfit",
    "quoted",
    "sql_type",
    "stored_type",
    "text",
    "to_folder",
]

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What Spark calls the folder of NULL; a string that reads so would become NULL wherever a folder tells the value."""

_LONGEST_FOLDER_BYTES = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_NAMES = {
    **dict.fromkeys(("BIGINT", "LONG"), "long"),
    **dict.fromkeys(("INT", "INTEGER"), "integer"),
    **dict.fromkeys(("SMALLINT", "SHORT"), "short"),
    **dict.fromkeys(("TINYINT", "BYTE"), "byte"),
    **dict.fromkeys(("FLOAT", "REAL"), "float"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), "timestamp"),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), "decimal(10,0)"),
    **{name: name.lower() for name in ("STRING", "DATE", "BOOLEAN", "BINARY", "DOUBLE", "TIMESTAMP_NTZ", "VARIANT")},
}


def stored_type(declared: str) -> str:
    """Return the log's name of a declared SQL type; empty for nested types and types unknown here.

    Example:
        >>> stored_type("BIGINT"), stored_type("Decimal(6, 2)"), stored_type("ARRAY<INT>")
        ('long', 'decimal(6,2)', '')
    """
    name = declared.upper().replace(" ", "")
    if name.startswith(("DECIMAL(", "DEC(", "NUMERIC(")):
        precision, _, scale = name.partition("(")[2].rstrip(")").partition(",")
        return f"decimal({precision},{scale or 0})"
    return "string" if name.startswith("VARCHAR(") else _NAMES.get(name, "")


def is_possible(kind: str) -> bool:
    """Return whether a column of the stored type ``kind`` can be a partition column."""
    return kind in _READ


def text(value: object, kind: str) -> str | None:
    """Return a value, given as a Python value or text, in the log's spelling; ``None`` for NULL.

    Args:
        value: the value, or its text in any usual spelling: of a time, ISO 8601 with or without fraction and zone.
        kind: the column's type as the log stores it (``date``, ``long``).

    Raises:
        ValueError: if it is no value of that type that a partition can have.

    Example:
        >>> from datetime import date
        >>> text(date(2026, 1, 5), "date"), text(True, "boolean"), text("+7", "integer")
        ('2026-01-05', 'true', '7')
    """
    if value is None:
        return None
    if kind not in _READ:
        raise ValueError(f"{kind} is no type of a partition column")
    try:
        return _READ[kind](value)
    except OverflowError:
        raise ValueError(f"{value} lies outside of the years 1 to 9999 in UTC") from None


@lru_cache(maxsize=1 << 16, typed=True)
def logged(value: str | None, kind: str) -> str | None:
    """Return a partition value of any writer's log in the library's spelling; unreadable values unchanged."""
    if value in (None, ""):
        return None
    try:
        return text(value, kind)
    except ValueError:
        return value


def literal(value: str | None, kind: str) -> str:
    """Write a value in the log's spelling as an SQL expression of type ``kind``."""
    return f"CAST({'NULL' if value is None else quoted(value)} AS {sql_type(kind)})"


def equals(column: str, value: str | None, kind: str) -> str:
    """Write the SQL predicate of the rows with the value in ``column``; the predicate is never NULL."""
    name = identifier(column)
    return f"{name} IS NULL" if value is None else f"{name} <=> {literal(value, kind)}"


def to_folder(column: str, kind: str) -> str:
    """Write the SQL expression of a column's values as folder names, independent of the session time zone.

    Of a text that no folder can be called by, it is the beginning: rows with such a value are refused, and shown.
    """
    name = identifier(column)
    if kind == "string":
        return f"if({misfit(column, kind)}, concat('w', translate(left({name}, 20), chr(0), '?')), concat('v', {name}))"
    return f"concat('v', CAST({f'unix_micros({name})' if kind == 'timestamp' else name} AS STRING))"


def from_folder(value: str | None, kind: str) -> str | None:
    """Return a folder name of :func:`to_folder` in the log's spelling; unreadable names without prefix."""
    if value is None or value == NO_VALUE:
        return None
    bare = value[1:]
    try:
        return text(_EPOCH + timedelta(microseconds=int(bare)) if kind == "timestamp" else bare, kind)
    except (ValueError, OverflowError):
        return bare


def folder_value(column: str, kind: str) -> str:
    """Write the SQL expression that reads values back from a column with folder names."""
    bare = f"substring({identifier(column)}, 2)"
    return f"timestamp_micros(CAST({bare} AS BIGINT))" if kind == "timestamp" else f"CAST({bare} AS {sql_type(kind)})"


def misfit(column: str, kind: str) -> str:
    """Write the SQL predicate of rows with a value that the log cannot hold; empty if none is possible."""
    name = identifier(column)
    if kind == "string":
        escaped = rf"""regexp_replace({name}, '[\\x01-\\x1f"#%\'*/:=?\\\\\\x7f{{\\[\\]^]', '%00')"""
        return (
            f"coalesce({name} IN ('', '{NO_VALUE}') OR contains({name}, chr(0)) OR "
            f"octet_length({escaped}) > {_LONGEST_FOLDER_BYTES}, false)"
        )
    if kind in ("date", "timestamp", "timestamp_ntz"):
        bounds = {"date": ("DATE'0001-01-01'", "DATE'9999-12-31'")}.get(
            kind, tuple(f"CAST('{t}' AS {sql_type(kind)})" for t in ("0001-01-01 00:00:00", "9999-12-31 00:00:00"))
        )
        return f"coalesce(NOT {name} BETWEEN {bounds[0]} AND {bounds[1]}, false)"
    return ""


def quoted(value: str) -> str:
    r"""Write ``value`` as an SQL string literal, safe from Spark's substitution of variables.

    Spark replaces ``${env:HOME}`` in every SQL text, also inside of a literal, so that no ``${`` may stand there.

    Raises:
        ConfigError: if the text has half of a character, which nothing can store.

    Example:
        >>> print(quoted("it's ${env:HOME}"))
        'it\'s \u0024{env:HOME}'
    """
    if half := half_character(value):
        raise ConfigError(f"a text must consist of whole characters, not {value!r} with {half}")
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace(SUBSTITUTED, "\\u0024{")
    return f"'{escaped}'"


def sql_type(kind: str) -> str:
    """Name a stored type in SQL."""
    return {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}.get(kind, kind.upper())


def _string(value: object) -> str:
    if not isinstance(value, str) or value in ("", NO_VALUE) or "\0" in value or half_character(value):
        raise ValueError("a text of whole characters, neither empty nor Spark's word for NULL, is needed")
    return value


def _date(value: object) -> str:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str) or len(value) != 10:
        raise ValueError("a date is needed")
    return date.fromisoformat(value).isoformat()


def _boolean(value: object) -> str:
    if str(value).lower() not in ("true", "false"):
        raise ValueError("true or false is needed")
    return str(value).lower()


def _integer(bits: int) -> Callable[[object], str]:
    def spelled(value: object) -> str:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
        if number is None or "_" in str(value) or not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"an integer of {bits} bits is needed")
        return str(number)

    return spelled


def _moment(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or len(value) < len("2026-01-05") or value[4:5] != "-":
        raise ValueError("a time is needed")
    # Python 3.10 reads three or six digits of a second and no Z.
    day, _, clock = value.replace("T", " ").partition(" ")
    clock, zone = (clock[:-1], "+00:00") if clock.endswith("Z") else (clock, "")
    whole, _, fraction = clock.partition(".")
    return datetime.fromisoformat(f"{day} {whole or '00:00:00'}.{fraction:0<6}{zone}")


def _timestamp(value: object) -> str:
    moment = _moment(value)
    instant = moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    return f"{instant.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _local(value: object) -> str:
    moment = _moment(value)
    if moment.tzinfo is not None:
        raise ValueError("a time without a zone is needed")
    return moment.isoformat(sep=" ", timespec="microseconds")


_READ: Mapping[str, Callable[[Any], str]] = {
    "string": _string,
    "date": _date,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "timestamp_ntz": _local,
    **{kind: _integer(bits) for kind, bits in _INTEGERS.items()},
}
