"""Advice on the layout of a table, from the log and from filters of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from dedp_assets.patterns.core.layout import MOST_SORTED
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.maintenance.file_order import depth

__all__ = ["FEW_FILES", "LayoutAdvice", "advise_layout"]

_SMALL = 8 * 1024 * 1024
_MANY = 300
"""Number of partitions above which a table is slow to write and to read."""
FEW_FILES = 8
"""Files up to which no order is worth a rewrite."""
_WORTH = 0.5
"""Share of the files that an order has to leave, at most, to be proposed."""


@dataclass(frozen=True, slots=True)
class LayoutAdvice:
    """A proposal to lay a table out in another way.

    Attributes:
        option: option of the declaration, such as ``sort_by``; or what helps instead.
        value: proposed value.
        read: the read that opens fewer files.
        reason: measured facts, and their source.
        how: what to do.
        now: data files that the read opens now.
        then: data files that the read would open, as estimated.
        size_bytes: size of the files that are opened now, in bytes, as estimated from the average.
    """

    option: str
    value: str
    read: str
    reason: str
    how: str
    now: int
    then: int
    size_bytes: int

    def __str__(self) -> str:
        size = f" of {quantity(self.size_bytes, 'bytes')}" if self.size_bytes else ""
        saves = f"{self.read} opens {quantity(self.now, 'files')}{size}, and about {self.then:,} then"
        return f"{self.option}: {self.value}\n  saves: {saves}\n  because: {self.reason}\n  how: {self.how}"


def advise_layout(ledger: Ledger, filters: Mapping[str, int]) -> list[LayoutAdvice]:
    """Propose layouts for a table by the statistics in the log, without a change or an opened file.

    Known are sizes, partitions and the ranges of files, and the filters that the caller names. Not known are queries of
    other tools, and how often one runs: a column counts by the number of queries that filter by it.

    Args:
        ledger: log of the table.
        filters: column -> number of queries that filter by it, e.g. by the column lineage of the tables downstream.

    Returns:
        The proposals, that with most files saved first.
    """
    state = ledger.state()
    found = [*_sizes(ledger.name, state), *_order(ledger.name, state, filters)]
    return sorted(found, key=lambda advice: advice.then - advice.now)


def _sizes(name: str, state: TableState) -> Iterator[LayoutAdvice]:
    parts = list(state.statistics().values())
    files, size = sum(part.files for part in parts), sum(part.bytes for part in parts)
    if len(parts) > _MANY and size / len(parts) < _SMALL:
        each = quantity(size // len(parts), "bytes")
        yield LayoutAdvice(
            option="partition_by",
            value="a coarser column, or buckets of the key",
            read="a read of all rows",
            reason=f"by the log, {len(parts):,} partitions have {each} each on average, and each costs a folder",
            how=f"state another partition_by, or buckets, in the declaration of {name}, then {_apply(name)}",
            now=files,
            then=max(1, ceil(size / _SMALL)),
            size_bytes=size,
        )
    merged = sum(max(1, ceil(part.bytes / _SMALL)) for part in parts)
    if files > 2 * merged and files > FEW_FILES:
        yield LayoutAdvice(
            option="compaction",
            value="merge small files",
            read="a read of all rows",
            reason=f"by the log, files have {quantity(size // files, 'bytes')} each on average",
            how=f"the compactor merges them (ingestion.compactor.compact): put {name} under maintenance",
            now=files,
            then=merged,
            size_bytes=size,
        )


def _apply(name: str) -> str:
    return f"`dedp layout {name} --apply`"


def _order(name: str, state: TableState, filters: Mapping[str, int]) -> Iterator[LayoutAdvice]:
    """Propose an order by the most filtered columns, if a filter opens many of the files."""
    files = list(state.files())
    known = {name: count for name, count in filters.items() if _is_bounded(files, name)}
    by = sorted(known, key=lambda name: (-known[name], name))[:MOST_SORTED]
    if len(files) <= FEW_FILES or not by:
        return
    now = {column: depth(files, column) for column in by}
    # Along a curve through k columns, each cuts a partition's files into the k-th root of their number.
    parts = Counter(key for _, key in state.keyed_files())
    then = sum(ceil(number ** ((len(by) - 1) / len(by))) for number in parts.values())
    worst = max(by, key=lambda column: now[column])
    if then <= now[worst] * _WORTH:
        opened = ceil(now[worst])
        asked = ", ".join(f"{column} (in {quantity(known[column], 'tables')})" for column in by)
        yield LayoutAdvice(
            option="sort_by",
            value=f"[{', '.join(by)}]",
            read=f"a filter by {worst}",
            reason=f"by the column lineage, queries filter by {asked}; by the ranges in the log, one value of "
            f"{worst} may lie in {opened:,} of {quantity(len(files), 'files')}",
            how=f"state sort_by in the layout of {name}, then {_apply(name)}",
            now=opened,
            then=then,
            size_bytes=sum(file["size_bytes"] for file in files) * opened // len(files),
        )


def _is_bounded(files: Sequence[Mapping[str, object]], column: str) -> bool:
    return any(file.get(f"min.{column}") is not None for file in files)
