"""The versions of keys: half-open intervals of event time that follow from a set of changes and from nothing else.

A version remembers the instant of every change that says what it says: one that comes late may cut it anywhere. A
deletion begins a version, too, which has no values and is never the current one. So the versions of a key follow each
other without a gap from its first change on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.modeling._changes import AT, CHANGE, GONE, SEQUENCE, STATE, Dimension, by, settled

__all__ = ["VERSION", "versions", "with_current", "with_previous"]

VERSION: Mapping[str, Column] = {
    "valid_from": Column("TIMESTAMP", "when this version began", required=True),
    "valid_to": Column("TIMESTAMP", "when the next one began; NULL if there is none"),
    "is_current": Column("BOOLEAN", "whether it is the newest one of a key that is not deleted", required=True),
    "is_deleted": Column("BOOLEAN", "whether the key was deleted then; such a version has no values", required=True),
    "changes": Column(f"ARRAY<{CHANGE}>", "the changes that say so; the first one began it", required=True),
}
"""Columns of a table of versions, beside its keys and the ones whose values are kept."""

_RUN, _FORMER = f"{RESERVED}run", f"{RESERVED}former"


def versions(present: DataFrame, changes: DataFrame, *, dimension: Dimension) -> DataFrame:
    """Compute all versions of some keys from those that are there and from further changes; lazy."""
    keys, tracked = dimension.stream.keys, dimension.tracked
    known = present.select(
        *by(keys), *by(tracked), F.col("is_deleted").alias(GONE), F.inline("changes").alias(AT, SEQUENCE)
    )
    found = settled(known.unionByName(changes), keys, tracked)
    by_key = Window.partitionBy(*by(keys))
    ordered, state = by_key.orderBy(AT, STATE, GONE), F.struct(STATE, GONE)
    begun = found.withColumn(_RUN, (~F.lag(state).over(ordered).eqNullSafe(state)).cast("INT"))
    change = F.struct(F.col(AT).alias("at"), F.col(SEQUENCE).alias("sequence"))
    rows = (
        begun.withColumn(_RUN, F.sum(_RUN).over(ordered))
        .groupBy(*by(keys), _RUN)
        .agg(
            *[F.first(identifier(c)).alias(c) for c in tracked],
            F.min(AT).alias("valid_from"),
            F.first(GONE).alias("is_deleted"),
            F.sort_array(F.collect_list(change)).alias("changes"),
        )
        .drop(_RUN)
    )
    following = F.lead("valid_from").over(by_key.orderBy("valid_from", "changes"))
    ended = rows.withColumn("valid_to", following)
    return ended.withColumn("is_current", F.expr("valid_to IS NULL AND NOT is_deleted"))


def with_current(rows: DataFrame, keys: Sequence[str], column: str, name: str) -> DataFrame:
    """Add to all versions of a key the value that its newest one has; NULL if the key is deleted."""
    everything = Window.partitionBy(*by(keys)).orderBy("valid_from")
    everything = everything.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    return rows.withColumn(name, F.last(identifier(column)).over(everything))


def with_previous(rows: DataFrame, keys: Sequence[str], column: str, name: str) -> DataFrame:
    """Add to each version the value that a column had before it got the present one; deletions are passed over."""
    living = Window.partitionBy(*by(keys), "is_deleted").orderBy("valid_from")
    value = F.col(identifier(column))
    before = rows.withColumn(_FORMER, F.lag(F.struct(value.alias("value"))).over(living))
    moved = F.when(~F.col(_FORMER)["value"].eqNullSafe(value), F.col(_FORMER))
    moved = F.when(F.col(_FORMER).isNotNull(), moved)
    former = before.withColumn(_FORMER, moved).withColumn(_FORMER, F.last(_FORMER, ignorenulls=True).over(living))
    return former.withColumn(name, F.col(_FORMER)["value"]).drop(_FORMER)
