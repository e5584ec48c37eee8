"""Half-open windows [start, end) of a column, adjacent without overlap or gap.

Bounds are exact to the microsecond: times carry their zone and are compared as instants, counters as integers.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier

__all__ = ["FOREVER", "Bound", "Window", "cut", "interval", "windowless", "within"]

Bound = datetime | int
Window = tuple[Bound, Bound]
"""Start, which belongs to the window, and end, which does not."""

FOREVER = (datetime(1, 1, 2, tzinfo=timezone.utc), datetime(9999, 1, 1, tzinfo=timezone.utc))
"""Times between which windows lie; beyond are infinity and what people write for it."""
_LONGEST = 366 * 24 * 3600
_MOST = 1_000_000
_COUNTERS = ("byte", "short", "integer", "long")


def cut(origin: Bound, *, length: int, until: Bound, key_format: str) -> dict[str, Window]:
    """Return the windows from ``origin`` by key: all that end by ``until``, and the next window.

    Args:
        origin: start of the first window.
        length: of a window, in seconds; of integers in their unit.
        until: where the windows that are over end.
        key_format: ``strftime`` format of a start in UTC; integers are their own keys.

    Raises:
        ConfigError: for a length below 1, or over a year, a time without zone, windows that share a key, or too many.
    """
    if length < 1 or isinstance(origin, datetime) != isinstance(until, datetime):
        raise ConfigError(
            f"no windows of length {length} lie between origin {origin!r} and until {until!r}: length must be at least "
            "1, the others both times or both whole numbers"
        )
    first, last = _exact(origin), _exact(until)
    if isinstance(origin, datetime) and length > _LONGEST:
        raise ConfigError(f"length must be at most {_LONGEST} seconds, not {length}")
    step: Any = timedelta(seconds=length) if isinstance(origin, datetime) else length
    if (number := (last - first) // step) > _MOST:
        raise ConfigError(
            f"length={length} makes {number} windows from origin to until: at most {_MOST} can be planned"
        )
    starts = [first + number * step for number in range(max(0, (last - first) // step) + 1)]
    windows = {s.strftime(key_format) if isinstance(s, datetime) else str(s): (s, s + step) for s in starts}
    if len(windows) < len(starts):
        raise ConfigError(f"windows of {length} s share keys of the format {key_format}: it has to tell them apart")
    return windows


def interval(window: Window) -> str:
    """Write a window as ``start/end``, times as ISO 8601 in UTC."""
    start, end = (_exact(bound) for bound in window)
    return "/".join(bound.isoformat() if isinstance(bound, datetime) else str(bound) for bound in (start, end))


def within(rows: DataFrame, column: str, window: Window) -> str:
    """Return an SQL predicate for rows with ``column`` in ``window``, fit for predicate pushdown.

    Nothing is done to the column, only the bounds are brought to its type: TIMESTAMP, TIMESTAMP_NTZ (taken as UTC) or
    an integer.

    Raises:
        ConfigError: for bounds of another type, without time zone, or that no value lies between.
    """
    kind = fields_of(rows, [column])[0].dataType.typeName()
    if {isinstance(b, datetime) for b in window} != {kind.startswith("timestamp")} or not kind.startswith(
        ("timestamp", *_COUNTERS)
    ):
        raise ConfigError(f"{column} is of type {kind.upper()}, its windows cannot lie between {window!r}")
    start, end = (_exact(bound) for bound in window)
    if start >= end:
        raise ConfigError(f"no value of {column} lies in [{window[0]}, {window[1]}): the end is not part of a window")
    return f"{identifier(column)} >= {_literal(start, kind)} AND {identifier(column)} < {_literal(end, kind)}"


def windowless(rows: DataFrame, column: str) -> str:
    """Return an SQL predicate for rows whose ``column`` no window will ever hold.

    That is no value, and of times what stands for infinity: Spark's JDBC reader makes the first and the last day of it.
    """
    kind, name = fields_of(rows, [column])[0].dataType.typeName(), identifier(column)
    if not kind.startswith("timestamp"):
        return f"{name} IS NULL"
    first, last = (_literal(bound, kind) for bound in FOREVER)
    return f"{name} IS NULL OR {name} < {first} OR {name} >= {last}"


def _exact(bound: Bound) -> Any:  # noqa: ANN401 - a time in UTC or an integer
    if isinstance(bound, datetime) and bound.tzinfo is None:
        raise ConfigError(f"{bound} has no time zone: nobody can tell which rows lie before it")
    return bound.astimezone(timezone.utc) if isinstance(bound, datetime) else bound


def _literal(bound: Bound, kind: str) -> str:
    if not isinstance(bound, datetime):
        return str(bound)
    if kind == "timestamp":
        return f"TIMESTAMP_LTZ '{bound.isoformat(sep=' ')}'"
    return f"TIMESTAMP_NTZ '{bound.replace(tzinfo=None).isoformat(sep=' ')}'"
