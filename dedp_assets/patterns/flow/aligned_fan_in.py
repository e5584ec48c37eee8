"""Aligned Fan-In: a partition is computed once all upstream partitions have succeeded.

Problem: a daily report needs 24 hours. One job over all of them fails at hour 23 and repeats the day; a job that starts
    by the clock reports 23 hours as a day.
Solution: a small job for each hour, and the day's job once each hour is committed (AND). Branches are then aligned by
    column names (more rows), or by keys (more columns).
Consequences: the day waits for the slowest hour, and all hours may start at once: cap how many run. A failed hour is
    repeated alone; one that changes later makes the day stale, and the rerun replaces it.
Choose instead: Unaligned Fan-In, if a report that says what it lacks is better than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, fields_of, require_columns, require_free, spelled_as
from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.types.meeting import cast, equal, met, united
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.flow._branches import BranchState, counted, newest, require_branches, without_success

__all__ = ["plan_aligned", "unite_branches", "join_branches", "BranchState"]

_SIDES = ("the rows", "the other branch")
_KEEP = {"all": "full", "first": "left", "both": "inner"}
_COUNT = f"{RESERVED}count"


@typed
def plan_aligned(branches: Mapping[str, Mapping[str, BranchState]]) -> Plan:
    """Choose the partitions of which every branch has succeeded, in order.

    Args:
        branches: downstream partition -> each upstream partition that it is computed from -> its state.

    Returns:
        A plan whose ``cursor`` holds the newest upstream version of each chosen partition, and whose ``held`` names the
        branches that a partition waits for.

    Raises:
        ConfigError: for a partition without branches.

    Example:
        >>> hours = {"10": BranchState("succeeded", 4), "11": BranchState("succeeded", 5)}
        >>> plan = plan_aligned({"mon": hours, "tue": {**hours, "11": BranchState("failed")}})
        >>> plan.partitions, dict(plan.cursor), dict(plan.held)
        (('mon',), {'mon': 5}, {'tue': 'waits for 1 of 2: 11 (failed)'})
    """
    require_branches(branches)
    missing = {key: without_success(each) for key, each in sorted(branches.items())}
    ready = [key for key, states in missing.items() if not states]
    return Plan(
        tuple(ready),
        f"{len(ready)} of {len(branches)} partitions have all of their branches",
        causes=dict.fromkeys(ready, "aligned"),
        held={key: f"waits for {counted(states, len(branches[key]))}" for key, states in missing.items() if states},
        cursor={key: newest(branches[key]) for key in ready},
    )


@typed
def unite_branches(rows: DataFrame, other: DataFrame, *, missing: Literal["refuse", "null"] = "refuse") -> DataFrame:
    """Add the rows of another branch, aligned by column names and never by position; lazy.

    Args:
        rows: a branch, whose columns come first and in this order.
        other: another branch. A column of another type gives way to the type that holds the values of both.
        missing: what becomes of a column that one branch lacks: ``refuse``, or ``null`` in its rows.

    Raises:
        ConfigError: for columns of one name in a branch.
        SchemaMismatch: for a column that one branch lacks, and for types that do not meet without loss (a number that
            became a text); names each.
    """
    branches = dict(zip(_SIDES, (require_free(rows), require_free(other)), strict=True))
    for each in branches.values():
        require_columns(each, each.columns)
    shared = [column for column in rows.columns if column.lower() in _lowered(other)]
    if missing == "refuse" and (lacking := _lacking(branches)):
        raise SchemaMismatch(f"{'; '.join(lacking)}: add the column, or state missing='null'")
    mine, theirs = united(branches, shared).values()
    return mine.unionByName(theirs, allowMissingColumns=missing == "null")


@typed
def join_branches(
    rows: DataFrame, other: DataFrame, *, keys: Sequence[str], keep: Literal["all", "first", "both"] = "all"
) -> DataFrame:
    """Add the columns of another branch by key, at most one row for each key of a branch; lazy.

    A key that a branch has twice stops the job that reads the result: no row is multiplied. A row with NULL in a key
    column meets nothing.

    Args:
        rows: a branch, one row for each key.
        other: another branch, one row for each key.
        keys: the key columns, which both have.
        keep: the keys of the result: ``all`` of either branch, with NULL for what the other one lacks (a branch
            without rows adds NULLs), those of the ``first`` branch, or those that ``both`` have (without rows in a
            branch, none).

    Returns:
        The keys, the other columns of ``rows``, and those of ``other``.

    Raises:
        ConfigError: without a key, for a key that a branch lacks or that cannot be compared, and for any other column
            that both have.
        SchemaMismatch: if the types of a key do not meet without loss.
    """
    require_distinct("keys=", keys)
    if not keys:
        raise ConfigError("keys must name the columns that the branches have in common, not none")
    named = {key.lower() for key in keys}
    for each in (rows, other):
        require_columns(require_free(each), [*keys, *each.columns])
        require_columns(each, keys, COMPARED)
    if twice := [c for c in rows.columns if c.lower() in _lowered(other) - named]:
        raise ConfigError(f"both branches have a column {', '.join(twice)}, which is no key: rename one")
    pairs = list(zip(fields_of(rows, keys), fields_of(other, keys), strict=True))
    on = [equal(a, b, (f"a.{identifier(a.name)}", f"b.{identifier(b.name)}"), sides=_SIDES) for a, b in pairs]
    kinds = [met(a.name, a.dataType, b.dataType, _SIDES) for a, b in pairs]
    values = [
        [cast(f"{side}.{identifier(f.name)}", f.dataType, kind) for side, f in zip("ab", pair, strict=True)]
        for pair, kind in zip(pairs, kinds, strict=True)
    ]
    made = [F.expr(f"coalesce({', '.join(each)})").alias(key) for key, each in zip(keys, values, strict=True)]
    joined = (
        _once(rows, keys, _SIDES[0])
        .alias("a")
        .join(_once(other, keys, _SIDES[1]).alias("b"), F.expr(" AND ".join(on)), _KEEP[keep])
    )
    rest = [
        F.col(f"{side}.{identifier(c)}")
        for side, each in (("a", rows), ("b", other))
        for c in each.columns
        if c.lower() not in named
    ]
    return joined.select(*made, *rest)


def _once(rows: DataFrame, keys: Sequence[str], side: str) -> DataFrame:
    """Stop the job at a key that a branch has twice; a row without a key is no key."""
    columns = [identifier(key) for key in spelled_as(rows.columns, keys)]
    has_key = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    text = quoted(f"{side} have a key ({', '.join(keys)}) twice: make them one row for each key.")
    counted_rows = rows.withColumn(_COUNT, F.count("*").over(Window.partitionBy(*columns)))
    sound = f"if({_COUNT} > 1 AND {has_key}, CAST(raise_error({text}) AS BOOLEAN), true)"
    return counted_rows.filter(sound).drop(_COUNT)


def _lacking(branches: Mapping[str, DataFrame]) -> list[str]:
    """List the columns that one of two branches lacks, each as a sentence."""
    (one, mine), (other, theirs) = branches.items()
    pairs = ((one, mine, theirs), (other, theirs, mine))
    return [
        f"{side} lack {column}" if side == _SIDES[0] else f"{side} lacks {column}"
        for side, has, full in pairs
        for column in full.columns
        if column.lower() not in _lowered(has)
    ]


def _lowered(rows: DataFrame) -> set[str]:
    return {column.lower() for column in rows.columns}
