"""Distributed Aggregator: groups over a cluster, kept as states that merge exactly.

Problem: rows of one group are spread over many machines, or over two stores, and a week made of the averages of its
    days is wrong.
Solution: each task aggregates its own rows, a shuffle brings the parts of a group together, and parts are merged. What
    is stored is the mergeable state: counts, sums, bounds, sets of distinct values. Days merge to weeks, stores to one.
Consequences: one shuffle, of groups and not of rows; two with ``salt``. Sets grow with what they count: a sketch stays
    below 5 KB, with a standard error of 1.6 %. An average is divided by who reads it. ``grouping_id`` tells a total
    from a group of NULL.
Choose instead: Local Aggregator, if all rows of a group lie together already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, require_columns, require_free, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.sql.sql_options import naming_options
from dedp_assets.patterns.core.types.meeting import united
from dedp_assets.patterns.value import _states as states_of

__all__ = ["aggregate", "merge_aggregates", "aggregate_query", "GROUPING"]

GROUPING = "grouping_id"
"""Column that says which keys a row is a total over: a bit for each key, the last key's the lowest, 1 for a total."""

_SALT, _ALL = f"{RESERVED}salt", f"{RESERVED}all"
_REMOTE = {
    **dict.fromkeys(("count", "sum", "min", "max"), "{kind}({of})"),
    "distinct": "array_agg(DISTINCT {of}) FILTER (WHERE ({of}) IS NOT NULL)",
}


@typed
def aggregate(
    rows: DataFrame,
    *,
    keys: Sequence[str],
    measures: Mapping[str, str],
    sets: Sequence[Sequence[str]] | None = None,
    salt: int = 1,
) -> DataFrame:
    """Aggregate rows to one row of states for each group; lazy.

    A NULL of a key is a group of its own; every NaN is one value, and -0.0 is 0.0. Without rows there is no group.

    Args:
        rows: the rows.
        keys: columns that make a group; none for one row over everything.
        measures: name -> ``count``, ``sum``, ``min``, ``max``, ``distinct`` (the sorted set of values: read its
            ``size``) or ``sketch`` (read ``hll_sketch_estimate``) of an SQL expression. NULL is not measured.
        sets: sets of keys to aggregate by, all in one pass; the rows then have :data:`GROUPING`.
        salt: into how many parts to split each group, by its values, before they are merged. It helps a group that has
            most rows where states are large (``distinct``); others shrink to a row for each task before the shuffle.

    Raises:
        ConfigError: for a column that is not there, a measure that does not merge (an average, a sum of floats
            or of texts), or is of several expressions, sets that are not of the keys, or a salt below 1.

    Example:
        >>> visits = frame("day STRING, device STRING, ms INT", ("mon", "tv", 2), ("mon", None, 8), ("tue", None, 5))
        >>> measures = {"visits": "count(*)", "ms": "sum(ms)"}
        >>> days = aggregate(visits, keys=["day", "device"], measures=measures, sets=[["day", "device"], ["day"]])
        >>> days.orderBy("day", "grouping_id", "device").show()
        +---+------+-----------+------+---+
        |day|device|grouping_id|visits| ms|
        +---+------+-----------+------+---+
        |mon|  NULL|          0|     1|  8|
        |mon|    tv|          0|     1|  2|
        |mon|  NULL|          1|     2| 10|
        |tue|  NULL|          0|     1|  5|
        |tue|  NULL|          1|     1|  5|
        +---+------+-----------+------+---+
        <BLANKLINE>
        >>> week = merge_aggregates(days, keys=["device", "grouping_id"], measures=measures)
        >>> rows(week.filter("grouping_id = 1").selectExpr("ms / visits"))
        [(5.0,)]
    """
    known = states_of.parse(measures, _named(keys, sets))
    require_columns(require_free(rows), keys, COMPARED)
    if salt < 1:
        raise ConfigError(f"salt is the number of parts of a group, at least 1, not {salt}")
    prepared = rows.select(*_columns(keys), *states_of.inputs(rows, known))
    salted = [_SALT] if salt > 1 else []
    sql = states_of.partial(known)
    with naming_options(prepared, "measure", sql):
        if salted:
            values = ", ".join(f"{RESERVED}{n}" for n in range(len(known)))
            prepared = prepared.withColumn(_SALT, F.expr(f"pmod(xxhash64({values}), {salt})"))
        aggregates = [F.expr(aggregate).alias(name) for name, aggregate in sql.items()]
        if sets is None:
            states = _grouped(prepared, [*salted, *keys]).agg(*aggregates)
        else:
            by = [_columns([*salted, *spelled_as(keys, each)]) for each in sets]
            # The salt is the first column and never a total, so its bit is always 0.
            found = prepared.groupingSets(by, *_columns([*salted, *keys]))
            states = found.agg(F.grouping_id().alias(GROUPING), *aggregates)
    every = _named(keys, sets)
    if salted:
        return merge_aggregates(states.drop(_SALT), keys=every, measures=measures)
    return states.select(*_columns([*every, *measures]))


@typed
def merge_aggregates(
    states: DataFrame, *others: DataFrame, keys: Sequence[str], measures: Mapping[str, str]
) -> DataFrame:
    """Merge states into states of coarser groups, or states of several stores by group; lazy.

    Args:
        states: what :func:`aggregate` gave for the same measures.
        others: the same of other stores. Where types differ, all take the one that holds the values of each.
        keys: columns that make a group, :data:`GROUPING` among them if the states have it.
        measures: as they were aggregated.

    Raises:
        ConfigError: if totals would be merged with what they are totals over, and as :func:`aggregate`.
        SchemaMismatch: if no type holds the values of all.
    """
    require_distinct("keys=", keys)
    known = states_of.parse(measures, keys)
    if GROUPING in _lowered(states.columns) and GROUPING not in _lowered(keys):
        raise ConfigError(f"name {GROUPING} among the keys, or choose one level: totals hold their groups already")
    names = [*keys, *measures]
    for each in (states, *others):
        require_columns(each, names)
        states_of.require_exact(known, each.schema)
    stores = {"the states": states, **{f"the others ({n})": each for n, each in enumerate(others, 1)}}
    every = reduce(DataFrame.unionByName, [each.select(*_columns(names)) for each in united(stores, names).values()])
    found = _grouped(every, keys).agg(*states_of.merged(known, every.schema))
    return found.select(*_columns(names))


@typed
def aggregate_query(
    relation: str, *, keys: Sequence[str], measures: Mapping[str, str], sets: Sequence[Sequence[str]] | None = None
) -> str:
    """Return the aggregation as a PostgreSQL query, so that only groups leave the database.

    Args:
        relation: table, or query in parentheses with an alias, in SQL.
        keys: as :func:`aggregate`.
        measures: as :func:`aggregate`, over expressions of that database; a sketch is none. Texts have the bounds of
            the database's collation.
        sets: as :func:`aggregate`.

    Returns:
        A query, for Spark's JDBC reader (``query``) and :func:`merge_aggregates`.

    Raises:
        ConfigError: as :func:`aggregate`.
    """
    known = states_of.parse(measures, _named(keys, sets))
    if sketches := [m.name for m in known if m.kind not in _REMOTE]:
        raise ConfigError(f"{', '.join(sketches)}: PostgreSQL makes no sketch that Spark can merge; take distinct")
    columns = [_quoted(key) for key in keys]
    selected = [*columns, *([f"GROUPING({', '.join(columns)}) AS {GROUPING}"] if sets is not None else [])]
    selected += [f"{_REMOTE[m.kind].format(kind=m.kind, of=m.of)} AS {_quoted(m.name)}" for m in known]
    query = f"SELECT {', '.join(selected)} FROM {relation}"  # noqa: S608 - expressions are SQL by contract
    if not keys:
        return f"{query} HAVING count(*) > 0"
    grouped = [f"({', '.join(map(_quoted, spelled_as(keys, each)))})" for each in ([keys] if sets is None else sets)]
    return f"{query} GROUP BY GROUPING SETS ({', '.join(grouped)}) HAVING count(*) > 0"


def _named(keys: Sequence[str], sets: Sequence[Sequence[str]] | None) -> list[str]:
    """List the columns that identify a group."""
    for each in (keys, *(sets or ())):
        require_distinct("keys=", each)
    if sets is None:
        return [*keys]
    distinct = {frozenset(_lowered(each)) for each in sets}
    if not keys or not sets or len(distinct) < len(sets) or not frozenset().union(*distinct) <= {*_lowered(keys)}:
        raise ConfigError(f"give different sets of the keys {list(keys)}, not {[list(each) for each in sets]}")
    return [*keys, GROUPING]


def _grouped(rows: DataFrame, keys: Sequence[str]) -> GroupedData:
    """Group rows by keys; without a key by a constant, so that an empty input has no group."""
    return rows.groupBy(*_columns(keys)) if keys else rows.groupBy(F.lit(0).alias(_ALL))


def _lowered(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names]


def _columns(names: Sequence[str]) -> list[str]:
    return [identifier(name) for name in names]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
