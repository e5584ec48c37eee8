"""Parquet statistics: a file's footer in the words of Delta's log."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

__all__ = ["file_statistics", "may_be_true"]

_LONGEST_TEXT = 64
"""Longest bound that the log repeats, in characters; a longer minimum is cut, a longer maximum left out."""


def file_statistics(file: Any, columns: Collection[str]) -> tuple[int, str]:  # noqa: ANN401 - pyarrow
    """Return a Parquet file's row count, and Delta statistics (bounds, NULL counts) as JSON.

    Bounds that the footer lacks (nested columns, BINARY, timestamps as INT96) are left out: readers then skip nothing.
    """
    footer = pq.ParquetFile(file).metadata
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    leaves = {n: footer.schema.column(n) for n in range(footer.num_columns)}
    for place, leaf in leaves.items():
        # A field of a nested column has a path longer than its name, though its path may read like a dotted name.
        if leaf.name == leaf.path and leaf.name in columns:
            with suppress(OverflowError, ValueError):  # a time that Python cannot hold
                _describe(footer, place, leaf.name, found)
    return footer.num_rows, json.dumps({"numRecords": footer.num_rows, **found})


def may_be_true(file: Any, column: str) -> bool:  # noqa: ANN401 - pyarrow
    """Return whether a BOOLEAN column of a Parquet file may hold TRUE, by the bounds in the footer."""
    footer = pq.ParquetFile(file).metadata
    place = next(n for n in range(footer.num_columns) if footer.schema.column(n).path == column)
    chunks = [footer.row_group(n).column(place).statistics for n in range(footer.num_row_groups)]
    return any(chunk is None or (chunk.max if chunk.has_min_max else chunk.num_values > 0) for chunk in chunks)


def _describe(footer: Any, place: int, column: str, found: dict[str, dict[str, Any]]) -> None:  # noqa: ANN401 - pyarrow
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    chunks = [group.column(place).statistics for group in groups if group.num_rows]
    if any(chunk is None or not chunk.has_null_count for chunk in chunks):
        return
    nulls = sum(chunk.null_count for chunk in chunks)
    found["nullCount"][column] = nulls
    bounded = [chunk for chunk in chunks if chunk.has_min_max]
    if not bounded or len(bounded) < sum(1 for chunk in chunks if chunk.num_values):
        return
    low, high = _bound(min(c.min for c in bounded)), _bound(max(c.max for c in bounded))
    if isinstance(low, str):
        low = low[:_LONGEST_TEXT]
    if low is not None:
        found["minValues"][column] = low
    if high is not None and not (isinstance(high, str) and len(high) > _LONGEST_TEXT):
        found["maxValues"][column] = high


def _bound(value: object) -> object:
    """Convert a Parquet minimum or maximum to the equal JSON value.

    Returns:
        The JSON value; ``None`` for a value without an equal one in JSON.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return f"{value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        number = float(value)
        return number if math.isfinite(number) and Decimal(repr(number)) == value else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None
