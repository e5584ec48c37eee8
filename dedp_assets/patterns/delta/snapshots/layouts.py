"""Proof from the log that the rows of a key lie together in a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyspark.sql import functions as F

from dedp_assets.patterns.core.buckets import Layout
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.partitions import sql_type
from dedp_assets.patterns.core.types.sql_types import sql_of
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.snapshots.pruning import Bounds, is_ordered

__all__ = ["Layout", "groups_of", "in_buckets", "is_apart", "require_buckets", "require_together"]

_BUCKET = re.compile(r"(0|[1-9][0-9]*) of ([1-9][0-9]*)")


def in_buckets(spec: TableSpec, split: Split, keep: str, state: TableState) -> Split:
    """Add the declared bucket to rows without one, with the rows of a bucket together; lazy."""
    buckets = spec.layout.buckets
    if not buckets or buckets.column in split.parts[keep]:
        return split
    kinds = {column: sql_of(state.columns[column]["type"], sql_type) for column in buckets.by}
    rows = split.rows.withColumn(buckets.column, F.expr(buckets.bucket_as(kinds)))
    placed = rows.repartition(buckets.buckets, identifier(buckets.column))
    return replace(split, rows=placed).narrowed(keep, [*split.parts[keep], buckets.column])


def groups_of(state: TableState, partitions: Sequence[Mapping[str, str | None]]) -> dict[Partition, list[KeyedFile]]:
    """Group the files of the named partitions (all by default) by partition.

    A group is read by a single task.

    Raises:
        ConfigError: for a column that the table is not partitioned by.
    """
    if strange := {column for named in partitions for column in named} - {*state.partition_columns}:
        raise ConfigError(f"{', '.join(sorted(strange))}: it is partitioned by {', '.join(state.partition_columns)}")
    found: dict[Partition, list[KeyedFile]] = {}
    for file, key in state.keyed_files():
        if not partitions or any(named.items() <= dict(key).items() for named in partitions):
            found.setdefault(key, []).append((file, key))
    return dict(sorted(found.items(), key=lambda group: [(c, v or "") for c, v in group[0]]))


def require_together(
    name: str,
    state: TableState,
    groups: Mapping[Partition, Sequence[KeyedFile]],
    *,
    keys: Sequence[str],
    layout: Layout | None = None,
) -> None:
    """Refuse groups of files unless the log proves that each key lies in a single group.

    They are apart by a partition column that is a key itself, by the bucket of keys, or by the bounds of a key.

    Args:
        name: the table's.
        state: the table as it is read.
        groups: what is read.
        keys: grouping keys.
        layout: how the table is said to be laid out.

    Raises:
        ConfigError: if the table is laid out by other keys, or a key has a collation.
        ContractError: if rows lie there in another way than the layout says.
    """
    known = {key.lower() for key in keys}
    _require_plain(name, state, known)
    laid = layout is not None and {column.lower() for column in layout.by} <= known
    for column in state.partition_columns:
        values = {dict(group)[column] for group in groups}
        if layout and laid and column == layout.column:
            require_buckets(name, state, values, layout)
        elif column.lower() not in known and len(values) > 1 and not is_apart(state, groups, keys):
            raise ConfigError(
                f"{name} is not laid out by {', '.join(keys)}: rows of one key may lie in several values of {column}. "
                "Use distributed_aggregator.aggregate, lay the rows out by that key (lay_out), or find out whether "
                "they lie together by chance (judge_placement)"
            )


def _require_plain(name: str, state: TableState, keys: Collection[str]) -> None:
    collated = [
        column
        for column, field in state.columns.items()
        if column.lower() in keys and any("collation" in entry.lower() for entry in field["metadata"])
    ]
    if collated:
        raise ConfigError(
            f"{name}: different texts of {', '.join(collated)} are equal by its collation, and may lie anywhere: "
            "use distributed_aggregator.aggregate"
        )


def is_apart(state: TableState, groups: Mapping[Partition, Sequence[KeyedFile]], keys: Sequence[str]) -> bool:
    """Return whether a key's bounds in the log prove that no key is in two groups."""
    names = {column.lower(): column for column in state.columns}
    return any(_is_apart(state, groups, names[key.lower()]) for key in keys)


def _is_apart(state: TableState, groups: Mapping[Partition, Sequence[KeyedFile]], key: str) -> bool:
    if key in state.partition_columns or not is_ordered(state, key):
        return False
    found = [_bounds(files, key) for files in groups.values()]
    known = [bounds for bounds in found if bounds]
    ranges = sorted((bounds.low, bounds.high) for bounds in known if bounds.low is not None)
    apart = all(high < low for (_, high), (low, _) in pairwise(ranges))
    return apart and len(known) == len(found) and sum(bounds.nulls for bounds in known) < 2


def _bounds(files: Sequence[KeyedFile], key: str) -> Bounds | None:
    """Return the least and the greatest key of a group; ``None`` if the log lacks a bound."""
    nulls = [file.get(f"null_count.{key}") for file, _ in files]
    held = [file for (file, _), missing in zip(files, nulls, strict=True) if missing != file["num_records"]]
    known: list[tuple[Any, Any]] = [(file.get(f"min.{key}"), file.get(f"max.{key}")) for file in held]
    if None in nulls or any(bound is None for pair in known for bound in pair):
        return None
    low, high = min((low for low, _ in known), default=None), max((high for _, high in known), default=None)
    return Bounds(low, high, nulls=any(nulls))


def require_buckets(name: str, state: TableState, values: Collection[str | None], layout: Layout) -> None:
    """Refuse a table unless the log proves that each row lies in the bucket of the row's key.

    Args:
        name: the table's.
        state: the table as it is read.
        values: the buckets that are read.
        layout: how the table is said to be laid out.

    Raises:
        ConfigError: if a column of the key has a collation.
        ContractError: for buckets of another layout, or without the constraint that keeps rows in their buckets.
    """
    _require_plain(name, state, {column.lower() for column in layout.by})
    strange = sorted(str(v) for v in values if not (m := _BUCKET.fullmatch(v or "")) or int(m[2]) != layout.buckets)
    if strange:
        raise ContractError(
            f"{name} is laid out in other buckets than {layout.buckets}, e.g. {', '.join(strange[:3])}: a key may lie "
            "in two of them. Have it laid out anew (lay_out), all that is read at once"
        )
    rules = {value for key, value in state.properties.items() if key.startswith("delta.constraints.")}
    if not {*layout.checks.values()} <= rules:
        raise ContractError(
            f"{name} has no constraint that keeps each row in the bucket of its {', '.join(layout.by)}: declare "
            "Layout.checks, and lay its rows out anew (lay_out)"
        )
