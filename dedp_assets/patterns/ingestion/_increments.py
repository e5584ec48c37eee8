"""An increment read again: merge of the source's present rows with the rows loaded before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import Ledger

__all__ = ["KEPT", "LATE", "merged", "require_same_window"]

KEPT, LATE = f"{RESERVED}kept", f"{RESERVED}late"
"""Columns that mark rows which the source shows no longer, and rows which it shows for the first time."""


def merged(shown: DataFrame, present: DataFrame, keys: Sequence[str], delta: str) -> DataFrame:
    """Return the source's rows, and the loaded rows whose key the source no longer has.

    Each side is read once.
    """
    both = shown.withColumn(KEPT, F.lit(False)).unionByName(present.withColumn(KEPT, F.lit(True)))  # noqa: FBT003
    over = f"OVER (PARTITION BY {', '.join(map(identifier, keys))})"
    dated, known, seen = f"{identifier(delta)} IS NOT NULL", f"{RESERVED}known", f"{RESERVED}shown"
    marks = f"bool_or({KEPT}) {over} AS {known}", f"bool_or(NOT {KEPT} AND {dated}) {over} AS {seen}"
    left = both.selectExpr("*", *marks).filter(f"NOT ({KEPT} AND {seen})")
    return left.selectExpr("*", f"NOT {known} AND {dated} AS {LATE}").drop(known, seen)


def require_same_window(ledger: Ledger, partition: Mapping[str, str], asked: str) -> None:
    """Refuse to load a window other than the window that the partition already holds.

    Raises:
        ConfigError: names both windows.
    """
    last = ledger.latest(partition)
    held = last.record.notes.get("window", asked) if last and last.record else asked
    if held != asked:
        raise ConfigError(f"{ledger.name} {slice_name(partition)} holds the window {held}, not {asked}")
