"""Verdicts of filters: two bits for each condition of a row, in groups that a histogram can count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from dedp_assets.patterns.core.names import RESERVED

__all__ = ["AT_ONCE", "BINS", "EARLIER", "VERDICTS", "column_of", "counts", "first", "group_of", "rejected", "up_to"]

VERDICTS = f"{RESERVED}verdicts"
"""Column with two bits for each condition: whether it drops the row, and whether that is because it is NULL."""
_GROUP = f"{RESERVED}group_"
"""What begins the columns with the verdicts on a group of conditions."""
AT_ONCE = 5
"""How many conditions one histogram counts the verdicts on."""
EARLIER = 1 << 2 * AT_ONCE
"""Bit beside the verdicts of a group: a condition of an earlier group drops the row, too."""
BINS = 2 * 3**AT_ONCE


def column_of(conditions: Iterable[str], start: int) -> str:
    """Return the column name of a group of verdicts, unique for the conditions of a filter."""
    return f"{_GROUP}{hashlib.sha256(json.dumps(list(conditions)).encode()).hexdigest()[:16]}_{start}"


def rejected(place: int) -> int:
    return 1 << 2 * place


def up_to(place: int, earlier: int = 0) -> int:
    return sum(rejected(each) for each in range(place + 1)) | earlier


def first(place: int) -> str:
    """Return an SQL predicate for the rows whose first failed condition is at ``place``."""
    return f"{VERDICTS} & {up_to(place)}L = {rejected(place)}L"


def group_of(start: int) -> str:
    """Return SQL for a row's verdicts on a group of conditions; NULL if no condition drops the row."""
    own = f"shiftright({VERDICTS}, {2 * start}) & {EARLIER - 1}L"
    earlier = f"if({VERDICTS} & {sum(map(rejected, range(start)))}L = 0, 0L, {EARLIER}L)"
    return f"if({own} = 0, NULL, CAST({own} | {earlier} AS DOUBLE))"


def counts(masks: Sequence[tuple[int, int | None]], histogram: Sequence[Any] | None) -> list[int]:
    """Count the rows of a verdict histogram by mask and bits; ``None`` matches any bit of the mask."""
    # Spark merges equal bins of several tasks by a weighted mean.
    bins = [(round(verdicts), int(rows)) for verdicts, rows in histogram or ()]
    return [
        sum(rows for verdicts, rows in bins if (verdicts & mask == bits if bits is not None else verdicts & mask))
        for mask, bits in masks
    ]
