"""Data skipping: files that can hold a key, by the least and the greatest key of a source.

A file is left out only if the log proves that it holds none of the keys. Types whose order or text in the log is not
exact (floating point, decimals, timestamps) prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState

__all__ = ["Bounds", "candidates", "inside", "is_ordered"]

_EXACT: Mapping[str, type] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    "date": date,
    "string": str,
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest key of a source in one column.

    Attributes:
        low: the least one, ``None`` if all keys are NULL.
        high: the greatest one, likewise.
        nulls: whether NULL is among the keys, as a value that matches NULL.
    """

    low: Any
    high: Any
    nulls: bool = False


def inside(state: TableState, owned: Mapping[str, str]) -> Iterator[KeyedFile]:
    """List the files of the partitions ``owned``; all files without partition values."""
    return ((file, key) for file, key in state.keyed_files() if owned.items() <= dict(key).items())


def candidates(state: TableState, owned: Mapping[str, str], keys: Mapping[str, Bounds]) -> list[KeyedFile]:
    """List the files of the partitions ``owned`` that may hold a row with the ``keys`` of a source."""
    columns = {name.lower(): name for name in state.columns}
    exact = {columns[key.lower()]: bounds for key, bounds in keys.items() if is_ordered(state, columns[key.lower()])}
    return [
        (file, key)
        for file, key in inside(state, owned)
        if all(_may_hold(state, file, column, bounds) for column, bounds in exact.items())
    ]


def is_ordered(state: TableState, column: str) -> bool:
    """Return whether a column's bounds in the log are exact and in Python's order."""
    field = state.columns[column]
    plain = not any("collation" in name.lower() for name in field["metadata"])
    return isinstance(field["type"], str) and field["type"] in _EXACT and plain and "." not in column


def _may_hold(state: TableState, file: Mapping[str, Any], column: str, bounds: Bounds) -> bool:
    if column in state.partition_columns:
        low = high = file[f"partition.{column}"]
        nulls = low is None
        if nulls:
            return bounds.nulls
    else:
        low, high = file.get(f"min.{column}"), file.get(f"max.{column}")
        nulls = file.get(f"null_count.{column}") != 0
    if bounds.nulls and nulls:
        return True
    kind = _EXACT[state.columns[column]["type"]]
    known = all(type(value) is kind for value in (low, high))
    if bounds.low is None:  # the source has nothing but NULL in this column
        return False
    if not known or type(bounds.low) is not kind or type(bounds.high) is not kind:
        return True
    return bool(low <= bounds.high and bounds.low <= high)
