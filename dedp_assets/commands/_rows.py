"""Rows on a terminal, with long texts cut, and rows as JSON values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from rich.cells import cell_len

from dedp_assets.commands._output import Grid, console
from dedp_assets.patterns.delta import QueryRows

__all__ = ["as_lines", "as_records"]

_LONGEST = 60
_HIDDEN = "***"
_BETWEEN = 3
"""Characters between the columns of a grid."""


def as_records(answer: QueryRows) -> list[dict[str, Any]]:
    """Return rows as JSON values, with the names of the columns.

    A number of exact decimals and a time are texts, binary values are texts of hexadecimal digits, and a map is a list
    of pairs.
    """
    return [dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows]


def as_lines(answer: QueryRows, *, masked: Sequence[str] = ()) -> list[str | Grid]:
    """Return rows as a grid, or as a line for each value where the grid is wider than the terminal.

    Args:
        answer: the rows.
        masked: columns whose values are not shown.
    """
    hidden = [column in masked for column in answer.columns]
    rows = [[_cell(value, hides=hides) for value, hides in zip(row, hidden, strict=True)] for row in answer.rows]
    widths = [max(map(cell_len, each)) + _BETWEEN for each in zip(answer.columns, *rows, strict=True)]
    if sum(widths) < console().width:
        grid = Grid(*answer.columns)
        for row in rows:
            grid.add_row(*row)
        return [grid]
    longest, lines = max(map(cell_len, answer.columns)), list[str | Grid]()
    for number, row in enumerate(rows, start=1):
        pairs = zip(answer.columns, row, strict=True)
        lines += [f"row {number}", *(f"  {name}{' ' * (longest - cell_len(name))}  {cell}" for name, cell in pairs)]
    return lines


def _cell(value: Any, *, hides: bool) -> str:  # noqa: ANN401 - a value of any type
    """Write a value in one line of a terminal."""
    if value is None:
        return _HIDDEN if hides else "NULL"
    plain = _plain(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _plain(value: Any) -> Any:  # noqa: ANN401 - as above
    """Return a value as a JSON value."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return next((write(value) for kind, write in _WRITERS.items() if isinstance(value, kind)), value)


def _object(value: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): _plain(each) for name, each in value.items()}


_WRITERS: Mapping[Any, Callable[[Any], Any]] = {
    date: lambda value: value.isoformat(),
    time: lambda value: value.isoformat(),
    timedelta: str,
    Decimal: str,
    bytes: lambda value: value.hex(),
    dict: _object,
    (list, tuple): lambda value: [_plain(each) for each in value],
}
"""Type, or types -> function that writes a value."""
