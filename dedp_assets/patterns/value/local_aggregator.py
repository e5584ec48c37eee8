"""Local Aggregator: groups with co-located rows are aggregated in place, without a shuffle.

Problem: the rows of each key were written to one place already, and the engine moves all of them again to group them.
Solution: before anything is read, the log has to prove that no key lies in two groups of files; one task then reads a
    group of files and aggregates it alone. The Bucket pattern writes rows so
    that this is true, with a constraint that keeps it true.
Consequences: no exchange, and no task waits for another; the largest group of files is the longest task. One key serves
    all readers, and another number of buckets means laying out all that is read together. Any aggregate is possible.
Choose instead: Distributed Aggregator, for other keys, and for rows that nobody laid out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, require_columns
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier, reserved
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.sql.sql_options import naming_options
from dedp_assets.patterns.delta import Layout, Table, groups_of, is_apart, require_together

__all__ = ["aggregate_locally", "judge_placement", "Layout"]

_GROUP = f"{RESERVED}group"


@typed
def aggregate_locally(
    table: Table,
    placed: Finding | None = None,
    *,
    keys: Sequence[str],
    measures: Mapping[str, str],
    layout: Layout | None = None,
    partitions: Sequence[Mapping[str, str | None]] = (),
    version: int | None = None,
) -> DataFrame:
    """Aggregate a table's rows by key within each group of files, without a shuffle; lazy.

    Args:
        table: the table.
        placed: what :func:`judge_placement` found of the same table, version, partitions and keys, where the log alone
            proves nothing.
        keys: columns that make a group: those that the table is partitioned or laid out by, and any others.
        measures: name -> SQL aggregate; any, as each group is seen whole.
        layout: how the table is laid out within its partitions.
        partitions: partitions to read, each may name some of the columns; all, if none is named.
        version: version to read, the newest if ``None``.

    Raises:
        ConfigError: if a key may lie in several groups of files, or a name is taken or not there.
        ContractError: if the table is laid out in another way than ``layout`` says.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> from dedp_assets.patterns.storage.bucket import lay_out
        >>> by_user = Layout(by=("user",), buckets=4)
        >>> columns = {"user": Column("STRING"), "page": Column("STRING"), **by_user.declared}
        >>> visits = table(TableSpec("visits", columns, partition_by=("bucket",), checks=by_user.checks))
        >>> landed = frame("user STRING, page STRING", ("Ada", "/b"), ("Bob", "/a"), ("Ada", "/a"))
        >>> _ = lay_out(landed, visits.target(run), layout=by_user)
        >>> pages = {"pages": "array_sort(collect_list(page))"}
        >>> rows(aggregate_locally(visits, keys=["user"], measures=pages, layout=by_user))
        [('Ada', ['/a', '/b']), ('Bob', ['/a'])]
    """
    if not measures:
        raise ConfigError("measures must name an aggregate, not none")
    state = table.ledger.state(version)
    groups = groups_of(state, partitions)
    _require_names(list(state.columns), keys, measures)
    if not (placed and placed.passed and placed.about == _of(table, state.version, keys, partitions)):
        require_together(table.name, state, groups, keys=keys, layout=layout)
    # A group of files in one task is one partition of Spark's, so that it finds all rows of a key together.
    parts = [table.read(dict(group), version=state.version).coalesce(1) for group in groups]
    parts = parts or [table.read(version=state.version).limit(0).coalesce(1)]
    require_columns(parts[0], keys, COMPARED)
    with naming_options(parts[0], "measure", measures):
        aggregates = [F.expr(sql).alias(name) for name, sql in measures.items()]
        found = [part.groupBy(*map(identifier, keys)).agg(*aggregates) for part in parts]
    # A union of parts that Spark knows to be one partition each would be one task (spark.sql.unionOutputPartitioning);
    # a coalesce to more than there are changes nothing but that it knows no longer.
    return reduce(DataFrame.unionAll, [each.coalesce(2) for each in found])


@typed
def judge_placement(
    table: Table,
    *,
    keys: Sequence[str],
    partitions: Sequence[Mapping[str, str | None]] = (),
    version: int | None = None,
) -> Finding:
    """Judge whether each key lies in a single group of files, by log bounds or a pass over the keys.

    Args:
        table: the table, whoever wrote it.
        keys: columns that make a group.
        partitions: partitions to look at; all, if none is named.
        version: version to look at, the newest if ``None``.

    Returns:
        ``no_key_lies_in_two_places``, with the number of keys that do and one of them as an example.

    Raises:
        ConfigError: for a column that is not there.
    """
    state = table.ledger.state(version)
    groups = groups_of(state, partitions)
    _require_names(list(state.columns), keys, {})
    about = _of(table, state.version, keys, partitions)
    name = "no_key_lies_in_two_places"
    if len(groups) < 2 or is_apart(state, groups, keys):
        return Finding(name, passed=True, figures={"keys apart": 0}, about=about)
    columns = [identifier(key) for key in keys]
    parts = [
        table.read(dict(group), version=state.version).select(*columns, F.lit(number).alias(_GROUP))
        for number, group in enumerate(groups)
    ]
    require_columns(parts[0], keys, COMPARED)
    bounds = [F.min(_GROUP).alias(f"{_GROUP}_first"), F.max(_GROUP).alias(f"{_GROUP}_last")]
    spread = reduce(DataFrame.unionAll, parts).groupBy(*columns).agg(*bounds).filter(f"{_GROUP}_first < {_GROUP}_last")
    example = F.struct(F.to_json(F.struct(*columns)).alias("key"), f"{_GROUP}_first", f"{_GROUP}_last")
    (seen,) = spread.agg(F.count("*"), F.min(example)).collect()
    note = ""
    if seen[0]:
        places = [", ".join(f"{c}={v}" for c, v in list(groups)[place]) for place in seen[1][1:]]
        note = f"{seen[1][0]} lies in {' and in '.join(places)}"
    return Finding(name, passed=not seen[0], figures={"keys apart": seen[0]}, note=note, about=about)


def _of(
    table: Table, version: int, keys: Sequence[str], partitions: Sequence[Mapping[str, str | None]]
) -> dict[str, object]:
    read = {"table": table.store.address, "version": version}
    return {**read, "keys": sorted(key.lower() for key in keys), "partitions": [dict(each) for each in partitions]}


def _require_names(columns: Sequence[str], keys: Sequence[str], measures: Mapping[str, str]) -> None:
    require_distinct("keys=", keys)
    there = {column.lower() for column in columns}
    names = [name.lower() for name in (*keys, *measures)]
    if not keys or not {key.lower() for key in keys} <= there:
        raise ConfigError(f"name columns of the table as keys, not {list(keys)}: it has {', '.join(columns)}")
    if "" in names or len({*names}) < len(names) or reserved(measures):
        raise ConfigError(f"give measures names of their own, not {list(measures)} beside the keys {list(keys)}")
