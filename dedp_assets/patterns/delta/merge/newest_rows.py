"""Newest row of each key by an order of columns, in a batch and against the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.rows import row_hash, same
from dedp_assets.patterns.delta.merge.clauses import Update

__all__ = ["differs", "newer_wins", "newest_rows", "places_agree", "without_place"]

_NEWEST, _STATE = f"{RESERVED}newest", f"{RESERVED}state"


def newest_rows(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str], faults: Iterable[str]) -> DataFrame:
    """Keep the newest row of each key without repeats, and faulty rows for refusal; lazy.

    Two rows of one place with other values are both kept: nothing says which of them is true.

    Args:
        rows: the rows.
        keys: columns that say which rows belong together.
        order_by: columns that order the rows of a key, the greatest counts.
        faults: SQL that is true of a row to be refused, such as of one without a place.
    """
    place = F.struct(*[F.col(identifier(c)) for c in order_by])
    greatest = F.max(place).over(Window.partitionBy(*[F.col(identifier(key)) for key in keys]))
    found = rows.withColumn(_NEWEST, greatest)
    found = found.filter((place == F.col(_NEWEST)) | F.expr(" OR ".join(faults))).drop(_NEWEST)
    found = found.withColumn(_STATE, F.expr(row_hash(fields_of(rows, rows.columns))))
    return found.dropDuplicates([*keys, _STATE]).drop(_STATE)


def differs(rows: DataFrame, columns: Iterable[str]) -> str:
    """Write the SQL condition of a merge that a source row has other values than the table's row."""
    values = fields_of(rows, columns)
    agree = " AND ".join(same(f, f"t.{identifier(f.name)}", f"s.{identifier(f.name)}") for f in values)
    return f"NOT ({agree or 'true'})"


def newer_wins(order_by: Sequence[str], other: str) -> list[Update]:
    """Return the clauses by which newer source rows replace the table's rows, and older rows do not.

    Args:
        order_by: columns that order the rows of a key.
        other: SQL condition that the values differ. Where they do at one place, the row is left without a place, for
            :func:`places_agree` to refuse.
    """
    mine, theirs = (f"struct({', '.join(f'{side}.{identifier(c)}' for c in order_by)})" for side in "st")
    contradiction = Update({order_by[0]: "NULL"}, when=f"{mine} = {theirs} AND {other}")
    return [contradiction, Update(when=f"{mine} > {theirs}")]


def places_agree(order_by: Sequence[str]) -> Audit:
    """Return the audit that no two truths have one place in the order."""
    return Audit.none_where("changes_of_one_place_agree", f"{identifier(order_by[0])} IS NULL")


def without_place(order_by: Iterable[str]) -> dict[str, str]:
    """Map faults of a source row to SQL: NULL in a required column."""
    return {f"no {column}": f"{identifier(column)} IS NULL" for column in order_by if column}
