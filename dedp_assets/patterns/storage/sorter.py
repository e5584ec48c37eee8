"""Sorter: rows lie in order of the columns that filters name, so that files are skipped.

Problem: rows lie as they came, so that every file of a partition may hold a wanted value, and all are read.
Solution: rewrite the files of a partition in order, by one column after the other or along a curve through up to four
    columns; the least and greatest values in the log then tell most files apart. The order stands in the table.
Consequences: what is appended later lies in no order until the next sort, which rewrites the partition. Lexicographic
    order serves filters on the first column only; a curve serves all of its columns about alike, each less well.
Choose instead: Compactor, if files are many and small and no column is filtered by; Bucket, for single keys and joins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Plan, WriteResult
from dedp_assets.patterns.delta import (
    Files,
    Ledger,
    TableState,
    Target,
    partition_name,
    require_partition,
)
from dedp_assets.patterns.delta.maintenance import Curve, FileOrder, can_exchange, depth, rewrite

__all__ = ["sort_files", "plan_sorting"]

_TARGET = 128 * 1024 * 1024
_SHARE = 0.1


@typed
def sort_files(
    into: Target,
    *,
    by: Sequence[str],
    curve: Curve = "hilbert",
    target_bytes: int = _TARGET,
    min_unsorted_share: float = _SHARE,
    rewrite_all: bool = False,
) -> WriteResult:
    """Rewrite the partitions that are out of order, in one commit that changes no row.

    Appends, overwrites, merges and deletes go on meanwhile, and what they bring stays. A partition whose files one of
    them replaced stays as that writer left it, and the next run finds it. Streams, change feeds and late-data detection
    see no change. If every partition is in order, nothing is committed and Spark is not started.

    Args:
        into: target of the write; with a partition, only files there are sorted.
        by: the columns that filters name, the most frequent one first.
        curve: ``lexicographic`` sorts by the columns one after the other; ``z-order`` and ``hilbert`` follow a curve
            through up to four columns, of which Hilbert's reads fewer files. Of one column, all are the same.
        target_bytes: size of a file, in bytes.
        min_unsorted_share: share of a partition's bytes, 0 to 1, in files out of order that makes it worth a rewrite.
        rewrite_all: whether every partition is rewritten, whatever its order. Another order than the table states asks
            for it, because what lies there is of no use to the new one.

    Returns:
        Files and bytes of the whole table before and after, and files and bytes rewritten, in ``figures``.

    Raises:
        ConfigError: for an order that cannot be, or is not the one that the table states, and for a table whose files
            only Spark exchanges.
        ContractError: if a file cannot be read, or holds other rows than the log says; nothing is exchanged.
        Conflict: if other writers hold the table for too long.

    Example:
        >>> visits = table("visits", "page STRING, visit INT", ("/b", 1))
        >>> late = frame("page STRING, visit INT", ("/a", 2), ("/c", 3))
        >>> late.coalesce(1).write.format("delta").mode("append").save(str(visits.location))
        >>> sort_files(visits.target(run), by=["page"]).reason
        '2 files became 1, in 1 partitions'
        >>> rows(visits)
        [('/a', 2), ('/b', 1), ('/c', 3)]
    """
    into = into.by("storage.sorter", "partition")
    table, state = into.table, into.table.ledger.state()
    require_partition(table.name, state, into.partition)
    wanted = _Wanted(target_bytes, min_unsorted_share, rewrite_all)
    if met := {name.lower() for name in by} & {name.lower() for name in table.spec.withheld("log")}:
        raise ConfigError(
            f"by must name columns with statistics in the log, not {sorted(met)}: their class keeps them out of it"
        )
    order = _order(table.ledger, state, by, curve, into.partition, wanted)
    plan = _plan(table.ledger, state, order, into.partition, wanted)
    files = {key: part for key, part in _partitions(state).items() if partition_name(key) in plan.causes}
    if not files:
        return WriteResult(table.name, state.version, applied=False, changed=False, reason=plan.reason)
    if not can_exchange(state, files):
        raise ConfigError(
            f"{table.name} must be a table whose files the library exchanges, not one of which only Spark does: sort "
            "it by OPTIMIZE with ZORDER BY, or write a copy"
        )
    before = FileOrder.stored(table.ledger, state)
    sizes = [file["size_bytes"] for part in files.values() for file in part]
    noted = into.noting(
        {
            "order": str(order),
            "order_before": str(before or "none"),
            "rewritten_files": len(sizes),
            "rewritten_bytes": sum(sizes),
        }
    )
    return rewrite(
        table, state, files, provenance=noted.run, small_bytes=target_bytes, target_bytes=target_bytes, order=order
    )


@typed
def plan_sorting(
    ledger: Ledger,
    partition: Mapping[str, str] | None = None,
    *,
    by: Sequence[str],
    curve: Curve = "hilbert",
    min_unsorted_share: float = _SHARE,
) -> Plan:
    """Choose the partitions out of order, from the log's statistics and without Spark.

    Args:
        ledger: the table's ledger.
        partition: look only there; everywhere if ``None``.
        by: sort columns, as of :func:`sort_files`.
        curve: order, as of :func:`sort_files`.
        min_unsorted_share: share of a partition's bytes, 0 to 1, in files out of order that makes it worth a rewrite.

    Returns:
        A plan whose ``causes`` state how many files are out of order, and in how many files a value may lie.

    Raises:
        ConfigError: as :func:`sort_files`.
    """
    state, wanted = ledger.state(), _Wanted(_TARGET, min_unsorted_share)
    order = _order(ledger, state, by, curve, partition or {}, wanted)
    return _plan(ledger, state, order, partition or {}, wanted)


@dataclass(frozen=True, slots=True)
class _Wanted:
    target_bytes: int
    min_unsorted_share: float
    rewrite_all: bool = False

    def __post_init__(self) -> None:
        if self.target_bytes < 1:
            raise ConfigError(f"target_bytes must be at least 1, not {self.target_bytes}")
        if not 0 <= self.min_unsorted_share <= 1:
            raise ConfigError(f"min_unsorted_share must lie between 0 and 1, not {self.min_unsorted_share}")


def _order(
    ledger: Ledger,
    state: TableState,
    by: Sequence[str],
    curve: Curve,
    partition: Mapping[str, object],
    wanted: _Wanted,
) -> FileOrder:
    """Make the order, and refuse one that differs from the stated one, unless everything is rewritten."""
    order, stored = FileOrder.of(ledger.name, state, by, curve), FileOrder.stored(ledger, state)
    if stored is None or (order.by, order.curve) == (stored.by, stored.curve):
        return stored or order
    if stored.liquid:
        raise ConfigError(
            f"{ledger.name} is clustered by {stored}: by and curve must be those, not {order}; ALTER TABLE ... CLUSTER "
            "BY changes the clustering"
        )
    if not wanted.rewrite_all or partition:
        sizes = [file["size_bytes"] for file in state.files()]
        raise ConfigError(
            f"{ledger.name} is sorted by {stored}: by and curve must be those, not {order}, or rewrite_all be True and "
            f"the target the whole table, which rewrites {len(sizes)} files ({sum(sizes)} bytes)"
        )
    return order


def _partitions(state: TableState) -> Files:
    found: dict[object, list[Mapping[str, object]]] = {}
    for file, key in state.keyed_files():
        found.setdefault(key, []).append(file)
    return found  # type: ignore[return-value]


def _plan(ledger: Ledger, state: TableState, order: FileOrder, only: Mapping[str, object], wanted: _Wanted) -> Plan:
    if state.closed:
        return Plan((), "its files belong to a version, which is written once")
    causes, held, spelled = {}, {}, state.spelled(only)
    adds = cache(lambda: ledger.added_files(state.version))
    for key, files in sorted(_partitions(state).items(), key=lambda item: partition_name(item[0])):
        if not spelled.items() <= dict(key).items():
            continue
        loose = order.unsorted(files, adds)
        share = sum(file["size_bytes"] for file in loose) / sum(file["size_bytes"] for file in files)
        met = ", ".join(f"{depth(files, column):.1f} by {column}" for column in order.by)
        shown = (
            f"{len(loose)} of {len(files)} files are out of order ({share:.0%} of the bytes); a value may lie in {met}"
        )
        if wanted.rewrite_all or (loose and share >= wanted.min_unsorted_share):
            causes[partition_name(key)] = shown
        elif loose:
            held[partition_name(key)] = f"{shown}: less than {wanted.min_unsorted_share:.0%}"
    many = f"{len(causes)} partitions are out of order by {order}"
    return Plan(tuple(causes), many if causes else f"every partition is in order by {order}", causes=causes, held=held)
