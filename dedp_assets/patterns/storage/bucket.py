"""Bucket: the hash of a key places rows in a fixed number of buckets.

Problem: a partition for each of a million users is a million folders, and without one a user's rows lie in every file.
Solution: ``hash(key) % buckets`` is a partition column, written as one file per bucket. A reader computes the bucket of
    a key and reads one of N; two tables with the same buckets are joined bucket by bucket, without a shuffle.
Consequences: key and number of buckets are for good, and another number is a rewrite of all rows. Too few buckets grow
    large, too many are small files; the Compactor merges what appends add to a bucket.
Choose instead: Horizontal Partitioner, for keys of some hundreds of values; Sorter, for filters on ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import reduce
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.columns import IDENTICAL, require_columns, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.core.types.partitions import equals, quoted, text
from dedp_assets.patterns.delta import Layout, Table, TableState, Target, groups_of, held_types, require_buckets

__all__ = ["lay_out", "read_keys", "join_buckets", "Bucketed", "Layout"]

Value = str | int | bool | date | datetime | None
"""A value of a key or of a partition column."""

_MOST_SIDES = 16
"""Joins of a union: beyond that, several buckets are read as one side, since each join costs some time to plan."""


@dataclass(frozen=True, slots=True)
class Bucketed:
    """A read of a table in buckets: columns, partitions, version.

    Attributes:
        table: the table.
        layout: its buckets.
        columns: columns to read besides those of the key; all, if none is named. The bucket is never among them.
        partitions: partitions to read, each may name some of the columns; all, if none is named.
        version: version to read, the newest if ``None``.

    Raises:
        ConfigError: for repeated columns.
    """

    table: Table
    layout: Layout
    columns: Sequence[str] = ()
    partitions: Sequence[Mapping[str, Value]] = ()
    version: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        require_distinct("columns=", self.columns)


@typed
def lay_out(
    rows: DataFrame,
    into: Target,
    *,
    layout: Layout | None = None,
    allow_empty: bool = False,
    append: bool = False,
    rewrite: bool = False,
) -> WriteResult:
    """Replace a table or a partition by rows in buckets, one file per bucket, in one commit; or append.

    Args:
        rows: everything that the partition shall hold, without the column of the bucket, or with an older one.
        into: target of the write: a table that declares the layout's column and constraint, and is partitioned by the
            column. A partition is of other columns; without one the whole table is replaced.
        layout: the buckets; by default those that the table declares (``TableLayout.buckets``).
        allow_empty: whether no rows may replace what is there, with a warning.
        append: whether the present rows stay; the run's sequence then tells a retry from new rows.
        rewrite: whether rows in another number of buckets are rewritten: readers see the old buckets or the new ones.

    Raises:
        AuditFailed: if an audit refuses the rows, or there are none.
        ConfigError: if the table does not declare the layout, or holds another number of buckets.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> by_user = Layout(by=("user",), buckets=4)
        >>> columns = {"user": Column("STRING"), "page": Column("STRING"), **by_user.declared}
        >>> visits = table(TableSpec("visits", columns, partition_by=("bucket",), checks=by_user.checks))
        >>> landed = frame("user STRING, page STRING", ("Ada", "/b"), ("Bob", "/a"))
        >>> lay_out(landed, visits.target(run), layout=by_user).reason
        '2 rows published'
        >>> read_keys(Bucketed(visits, by_user), keys=[{"user": "Ada"}]).collect()
        [Row(user='Ada', page='/b')]
        >>> rows(visits)
        [('Ada', '/b', '0 of 4'), ('Bob', '/a', '2 of 4')]
    """
    into = into.by("storage.bucket", "partition", "audits", "rows_read")
    layout = layout or into.table.spec.layout.buckets
    if layout is None:
        raise ConfigError(f"layout must be given for {into.name}, whose declaration states no buckets")
    require_columns(require_rows("lay_out", rows), layout.by, IDENTICAL)
    _require_declared(into, layout)
    _require_same_buckets(into, layout, append=append, rewrite=rewrite)
    # An INT has another hash than the BIGINT that is stored.
    held = as_held(rows, held_types(into.table.ensure()), into.name)
    placed = held.withColumn(layout.column, F.expr(layout.bucket))
    together = placed.repartition(layout.buckets, identifier(layout.column))
    return into.with_audits(not_empty(allow_empty=allow_empty)).stage(together, append=append).publish()


@typed
def read_keys(bucketed: Bucketed, *, keys: Sequence[Mapping[str, Value]]) -> DataFrame:
    """Read the rows with one of the keys, from the buckets of these keys alone; lazy.

    Args:
        bucketed: the table.
        keys: one mapping for each key, of the layout's columns to values; ``None`` finds the rows with NULL.

    Raises:
        ConfigError: for a key with other columns than the layout, or a value that is none of its column's type.
        ContractError: if the table is laid out in another way than the layout says.
    """
    side = _ProvenSide.of(bucketed)
    if not keys:
        raise ConfigError("keys must name at least one key, not none")
    by = {column.lower() for column in side.of_table.layout.by}
    kinds = side.kinds()
    for key in keys:
        if {column.lower() for column in key} != by or len(key) != len(by):
            raise ConfigError(f"keys must each have the columns {', '.join(side.of_table.layout.by)}, not {[*key]}")
    wanted = {side.of_table.layout.bucket_of(key, kinds) for key in keys}
    equal = [[_is(column, value, kinds[column.lower()]) for column, value in key.items()] for key in keys]
    return side.read(sorted(wanted)).filter(" OR ".join(f"({' AND '.join(each)})" for each in equal))


@typed
def join_buckets(
    left: Bucketed,
    right: Bucketed,
    *,
    how: Literal["inner", "left", "right", "full"] = "inner",
    shuffle: bool = False,
) -> DataFrame:
    """Join two tables with the same buckets on the key, bucket by bucket without a shuffle; lazy.

    Args:
        left: one table.
        right: another table, with the same key of the same types in as many buckets.
        how: the kind of join. NULL in a key meets nothing.
        shuffle: whether tables with other buckets, or a key of other types, are joined by a shuffle of both.

    Returns:
        The columns of the key, then those of both sides, without the buckets.

    Raises:
        ConfigError: for buckets or types that do not meet, and for a further column that both sides have.
        ContractError: if a table is laid out in another way than its layout says.
    """
    if [c.lower() for c in left.layout.by] != [c.lower() for c in right.layout.by]:
        raise ConfigError(f"{_placed(left)} and {_placed(right)} must be laid out by the same key to be joined by it")
    one, other = _ProvenSide.of(left), _ProvenSide.of(right)
    _refuse_same_columns(one, other)
    apart = _apart(one, other)
    if apart and not shuffle:
        raise ConfigError(
            f"{apart}: lay one of them out as the other (lay_out with rewrite), or pass shuffle=True to join them by a "
            "shuffle of both"
        )
    if apart:
        return one.read().join(other.read(), [*left.layout.by], how)
    # One task that holds all rows of a bucket satisfies any distribution, so that Spark exchanges nothing; a broadcast
    # would be an exchange as well.
    sides = [(one.read(some).coalesce(1), other.read(some).coalesce(1)) for some in _sides(one, other)]
    joined = [mine.join(theirs.hint("merge"), [*left.layout.by], how) for mine, theirs in sides]
    # A union of parts that Spark knows to be one partition each would be one task (spark.sql.unionOutputPartitioning).
    return reduce(DataFrame.unionAll, [each.coalesce(2) for each in joined])


@dataclass(frozen=True, slots=True)
class _ProvenSide:
    """A table in proven buckets, at a version."""

    of_table: Bucketed
    state: TableState
    buckets: frozenset[str]

    @classmethod
    def of(cls, bucketed: Bucketed) -> _ProvenSide:
        """Prove from the log that the rows of a table lie in the buckets of their keys."""
        table, layout = bucketed.table, bucketed.layout
        state = table.ledger.state(bucketed.version)
        known = {column.lower() for column in state.columns}
        if missing := [c for c in (*layout.by, *bucketed.columns) if c.lower() not in known]:
            raise ConfigError(f"{table.name} has no column {', '.join(missing)}; it has {', '.join(state.columns)}")
        if layout.column not in state.partition_columns:
            raise ConfigError(f"{table.name} must be partitioned by {layout.column}, not by {state.partition_columns}")
        partitions = [state.spelled(each) for each in bucketed.partitions]
        found = {dict(key)[layout.column] for key in groups_of(state, partitions)}
        require_buckets(table.name, state, found, layout)
        return cls(
            replace(bucketed, partitions=partitions, version=state.version), state, frozenset(filter(None, found))
        )

    def kinds(self) -> dict[str, str]:
        """Map each column, in lower case, to the type that the log stores."""
        return {column.lower(): str(field["type"]) for column, field in self.state.columns.items()}

    def shown(self) -> list[str]:
        """List the columns that are read, the key first."""
        layout = self.of_table.layout
        key = [column.lower() for column in layout.by]
        of_key = {column.lower(): column for column in self.state.columns if column.lower() in key}
        named = {column.lower() for column in self.of_table.columns or self.state.columns}
        others = [c for c in self.state.columns if c.lower() in named - {*key} and c != layout.column]
        return [*(of_key[column] for column in key), *others]

    def read(self, buckets: Iterable[str] = ()) -> DataFrame:
        """Read the rows of the named buckets, or of all buckets."""
        side, column = self.of_table, self.of_table.layout.column
        named = [{**part, column: bucket} for part in side.partitions or [{}] for bucket in buckets]
        rows = side.table.read(*(named or side.partitions), version=side.version)
        return rows.select(*map(identifier, self.shown()))


def _sides(one: _ProvenSide, other: _ProvenSide) -> list[list[str]]:
    """Divide the buckets of two tables into groups, each of which is one side of a join."""
    layout = one.of_table.layout
    found = sorted(one.buckets | other.buckets) or [f"0 of {layout.buckets}"]
    return [found[number::_MOST_SIDES] for number in range(min(_MOST_SIDES, len(found)))]


def _apart(one: _ProvenSide, other: _ProvenSide) -> str:
    """State why two tables cannot be joined bucket by bucket; empty for tables that fit."""
    left, right = one.of_table, other.of_table
    if left.layout.buckets != right.layout.buckets:
        return f"{_placed(left)} and {_placed(right)} must have as many buckets as each other"
    mine, theirs = one.kinds(), other.kinds()
    if differing := [c for c in left.layout.by if mine[c.lower()] != theirs[c.lower()]]:
        kinds = ", ".join(f"{c} is {mine[c.lower()]} and {theirs[c.lower()]}" for c in differing)
        return f"{left.table.name} and {right.table.name} hash equal keys differently, as {kinds}"
    return ""


def _placed(side: Bucketed) -> str:
    return f"{side.table.name} in {side.layout.buckets} buckets of {', '.join(side.layout.by)}"


def _refuse_same_columns(one: _ProvenSide, other: _ProvenSide) -> None:
    key = len(one.of_table.layout.by)
    mine = {column.lower() for column in one.shown()[key:]}
    if both := [column for column in other.shown()[key:] if column.lower() in mine]:
        raise ConfigError(
            f"{one.of_table.table.name} and {other.of_table.table.name} both have {', '.join(both)}: name the columns "
            "to read in Bucketed.columns"
        )


def _is(column: str, value: object, kind: str) -> str:
    """Write the SQL predicate of a value that :meth:`Layout.bucket_of` took."""
    if kind == "string" and isinstance(value, str):
        return f"{identifier(column)} <=> {quoted(value)}"
    return equals(column, text(value, kind), kind)


def _require_declared(into: Target, layout: Layout) -> None:
    spec = into.table.spec
    if layout.column not in spec.partition_by or not layout.checks.items() <= spec.checks.items():
        raise ConfigError(
            f"{into.name} does not declare its layout: partition it by {layout.column}, with Layout.declared among "
            "its columns and Layout.checks among its checks"
        )


def _require_same_buckets(into: Target, layout: Layout, *, append: bool, rewrite: bool) -> None:
    """Refuse rows in another number of buckets than the table has, except for a declared rewrite."""
    if append and rewrite:
        raise ConfigError("rewrite must be False for an append, which leaves the rows in other buckets as they are")
    if append and into.owned:
        raise ConfigError(f"{into.name}: the target of an append must have no partition, not {dict(into.owned)}")
    if append and into.run.sequence is None:
        raise ConfigError(f"an append to {into.name} needs a run with a sequence, or a retry adds its rows twice")
    if rewrite or not into.table.ledger.exists():
        return
    state = into.table.ledger.state()
    held = {dict(key).get(layout.column) or "" for key in state.statistics()}
    others = sorted({bucket.rpartition(" ")[2] for bucket in held} - {str(layout.buckets)})
    if others:
        raise ConfigError(
            f"{into.name} lies in {' and '.join(others)} buckets, not in {layout.buckets}: a change is a rewrite of "
            "its rows, lay_out(..., rewrite=True) of all that is read together"
        )
