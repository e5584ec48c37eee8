"""Versions of keys: half-open intervals of event time, derived from a set of changes alone.

A version remembers the instant of every change that says what it says: one that comes late may cut it anywhere. A
deletion begins a version, too, which has no values and is never the current one. So the versions of a key follow each
other without a gap from its first change on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.rows import same
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.modeling._changes import (
    AT,
    BEFORE,
    CHANGE,
    GONE,
    SEQUENCE,
    STATE,
    Dimension,
    by,
    effective_changes,
    in_order,
    named,
)

__all__ = ["VERSION", "versions", "with_current", "with_previous"]

VERSION: Mapping[str, Column] = {
    "valid_from": Column("TIMESTAMP", "when this version began", required=True, classification="public"),
    "valid_to": Column("TIMESTAMP", "when the next one began; NULL if there is none", classification="public"),
    "is_current": Column(
        "BOOLEAN", "whether it is the newest one of a key that is not deleted", required=True, classification="public"
    ),
    "is_deleted": Column(
        "BOOLEAN",
        "whether the key was deleted then; such a version has no values",
        required=True,
        classification="public",
    ),
    "changes": Column(
        f"ARRAY<{CHANGE}>", "the changes that say so; the first one began it", required=True, classification="public"
    ),
}
"""Columns of a table of versions, beside its keys and the ones whose values are kept."""

_RUN, _END, _FORMER = f"{RESERVED}run", f"{RESERVED}end", f"{RESERVED}former"


def versions(present: DataFrame, changes: DataFrame, *, dimension: Dimension) -> DataFrame:
    """Compute all versions of the keys from present versions and further changes; lazy."""
    keys, tracked = named(dimension.stream.keys), named(dimension.tracked)
    known = present.selectExpr(*keys, *tracked, f"inline(changes) AS ({AT}, {SEQUENCE})", f"is_deleted AS {GONE}")
    found = effective_changes(known.unionByName(changes), dimension.stream.keys, dimension.tracked)
    begins = f"NOT ({BEFORE}.{STATE} <=> {STATE} AND {BEFORE}.{GONE} <=> {GONE})"
    over = f"OVER ({in_order(dimension.stream.keys)})"
    numbered = found.selectExpr(
        "*", f"count_if({begins}) {over} AS {_RUN}", f"lead(if({begins}, {AT}, NULL)) {over} AS {_END}"
    )
    # Where the next one begins at the instant of a change, the two contradict each other: it is left without a moment.
    of_run = [
        *[f"first({c}) AS {c}" for c in tracked],
        f"if(max({AT}) >= max({_END}), max({_END}), min({AT})) AS valid_from",
        f"max({_END}) AS valid_to",
        f"first({GONE}) AS is_deleted",
        f"sort_array(collect_list(struct({AT} AS at, {SEQUENCE} AS sequence))) AS changes",
    ]
    rows = numbered.groupBy(*by(dimension.stream.keys), _RUN).agg(*map(F.expr, of_run))
    return rows.selectExpr("*", "valid_to IS NULL AND NOT is_deleted AS is_current")


def with_current(rows: DataFrame, keys: Sequence[str], column: str, name: str) -> DataFrame:
    """Add the value of a key's newest version to all versions; NULL for a deleted key."""
    everything = Window.partitionBy(*by(keys)).orderBy("valid_from")
    everything = everything.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    return rows.withColumn(name, F.last(identifier(column)).over(everything))


def with_previous(rows: DataFrame, keys: Sequence[str], column: str, name: str) -> DataFrame:
    """Add the previous distinct value of a column to each version; deletions are skipped."""
    living = Window.partitionBy(*by(keys), "is_deleted").orderBy("valid_from")
    value = F.col(identifier(column))
    before = rows.withColumn(_FORMER, F.lag(F.struct(value.alias("value"))).over(living))
    (kept,) = fields_of(rows, [column])
    moved = F.when(~F.expr(same(kept, f"{_FORMER}.value", identifier(column))), F.col(_FORMER))
    moved = F.when(F.col(_FORMER).isNotNull(), moved)
    former = before.withColumn(_FORMER, moved).withColumn(_FORMER, F.last(_FORMER, ignorenulls=True).over(living))
    return former.withColumn(name, F.col(_FORMER)["value"]).drop(_FORMER)
