"""Compactor: small files are rewritten as few large files, without effect on rows, readers or writers.

Problem: frequent small writes leave so many small files that listing and opening them costs more than reading them.
Solution: rewrite the small files of the partitions where it pays, in one commit that changes no row; later remove the
    files that no version within the retention needs.
Consequences: everything small is read and written once more, and both copies take space until the vacuum. What the
    vacuum removed can no longer be read at its old version, nor restored: choose the retention with care.
Choose instead: Data Overwrite, where each run can write its partition whole, in few files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Plan, WriteResult
from dedp_assets.patterns.delta import Files, Ledger, TableState, Target, partition_name, require_partition
from dedp_assets.patterns.delta.maintenance import files_to_purge, remove_unneeded, rewrite, safe_hours, small_files

__all__ = ["compact", "plan_compaction", "vacuum"]

_EARLIEST = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MIB = 1024 * 1024
_SMALL, _TARGET, _MANY, _DELETED = 128 * _MIB, 512 * _MIB, 10, 0.05


@typed
def compact(
    into: Target,
    *,
    small_bytes: int = _SMALL,
    target_bytes: int = _TARGET,
    min_small_files: int = _MANY,
    min_average_bytes: int = 0,
    max_deleted_share: float = _DELETED,
) -> WriteResult:
    """Compact the small files of eligible partitions, in one commit that changes no row.

    Files in which deletion vectors delete many rows are written again, too, without these rows.

    Appends, overwrites, merges and deletes go on meanwhile. A partition whose files one of them replaced stays as that
    writer left it; the result names it and the next run finds it. Streams, change feeds and late-data detection see no
    change. If nothing is worth it, nothing is committed and Spark is not started.

    Args:
        into: target of the write; with a partition, only files there are merged.
        small_bytes: files below this size are merged, in bytes.
        target_bytes: size that merged files grow up to, in bytes.
        min_small_files: fewest small files that make a partition worth it.
        min_average_bytes: a partition is worth it, too, if its files are smaller on average, in bytes; 0 for never.
        max_deleted_share: files with a greater share of deleted rows (0 to 1) are purged; 0 purges every file with a
            deletion vector, as readers of plain files need, 1 none.

    Returns:
        Files and bytes of the whole table before and after, in ``figures``.

    Raises:
        ConfigError: for sizes or partitions that can never work.
        ContractError: if a file cannot be read, or holds other rows than the log says; nothing is exchanged.
        Conflict: if other writers hold the table for too long.

    Example:
        >>> visits = table("visits", "id INT", (1,), (2,))
        >>> frame("id INT", (3,)).write.format("delta").mode("append").save(str(visits.location))
        >>> compact(visits.target(run), min_small_files=2).reason
        '3 files became 1, in 1 partitions'
        >>> rows(visits)
        [(1,), (2,), (3,)]
    """
    into = into.by("ingestion.compactor", "partition")
    table, state = into.table, into.table.ledger.state()
    require_partition(table.name, state, into.partition)
    sizes = _Sizes(small_bytes, target_bytes, min_small_files, min_average_bytes, max_deleted_share)
    small, deleted = small_files(state, small_bytes), files_to_purge(state, max_deleted_share)
    plan = _plan(state, small, into.partition, sizes)
    chosen = {
        key: [*files, *(file for file in deleted.get(key, ()) if file not in files)]
        for key, files in small.items()
        if partition_name(key) in plan.causes
    }
    if not chosen:
        reason = f"nothing to compact: {plan.reason}"
        return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason)
    return rewrite(table, state, chosen, provenance=into.run, small_bytes=small_bytes, target_bytes=target_bytes)


@typed
def plan_compaction(
    ledger: Ledger,
    partition: Mapping[str, str] | None = None,
    *,
    small_bytes: int = _SMALL,
    target_bytes: int = _TARGET,
    min_small_files: int = _MANY,
    min_average_bytes: int = 0,
    max_deleted_share: float = _DELETED,
) -> Plan:
    """Choose the partitions worth compacting, from the log's statistics and without Spark.

    Args:
        ledger: the table's ledger.
        partition: look only there; everywhere if ``None``.
        small_bytes: files below this size are small, in bytes.
        target_bytes: size that merged files grow up to, in bytes.
        min_small_files: fewest small files that make a partition worth it.
        min_average_bytes: a partition is worth it, too, if its files are smaller on average, in bytes; 0 for never.
        max_deleted_share: files with a greater share of deleted rows (0 to 1) are purged.

    Returns:
        A plan whose ``causes`` count the small files and state the average size of a partition's files.
    """
    state = ledger.state()
    sizes = _Sizes(small_bytes, target_bytes, min_small_files, min_average_bytes, max_deleted_share)
    return _plan(state, small_files(state, small_bytes), partition or {}, sizes)


@typed
def vacuum(into: Target, *, retention_hours: float, now: datetime, allow_unsafe: bool = False) -> WriteResult:
    """Remove the files that no version within the retention needs.

    Guaranteed, whatever ``now`` says: the newest version, every version that was current ``retention_hours`` before
    ``now`` or later, its change feed, and every write of the library that is still running keep their files. Nothing
    that was written after that time is removed, so a foreign writer is safe if it commits within the retention.
    Reading or restoring an older version then raises ConfigError, unless its rows are the current ones still.

    Args:
        into: target of the write.
        retention_hours: how long what was replaced stays readable, in hours.
        now: the current time, with time zone; the times in the log and of the files are compared with it.
        allow_unsafe: accept a retention below what the table declares (``delta.deletedFileRetentionDuration``, a week
            if nothing): readers of older versions and foreign writers then lose files under their hands.

    Returns:
        How many files and bytes went, in ``figures``.

    Raises:
        ConfigError: for a retention below the safe one.
        Conflict: if other writers hold the table for too long.
    """
    into = into.by("ingestion.compactor")
    table, safe = into.table, safe_hours(into.table.ledger.state())
    if retention_hours < 0 or (retention_hours < safe and not allow_unsafe):
        raise ConfigError(
            f"{table.name}: a retention of {retention_hours:g} h is below the {safe:g} h that are safe: readers and "
            "foreign writers may still need what it removes. Keep files for longer, or pass allow_unsafe"
        )
    # Longer than there are logs means the same as from the beginning, and has a date.
    cutoff = now - timedelta(hours=min(retention_hours, (now - _EARLIEST) / timedelta(hours=1)))
    return remove_unneeded(table, cutoff=cutoff, provenance=into.run)


@dataclass(frozen=True, slots=True)
class _Sizes:
    small_bytes: int
    target_bytes: int
    min_small_files: int
    min_average_bytes: int
    max_deleted_share: float

    def __post_init__(self) -> None:
        if not 0 < self.small_bytes <= self.target_bytes or self.min_small_files < 2:
            raise ConfigError(
                f"small_bytes={self.small_bytes} must lie between 1 and target_bytes={self.target_bytes}, and "
                f"min_small_files={self.min_small_files} be at least 2"
            )
        if not 0 <= self.min_average_bytes <= self.small_bytes:
            raise ConfigError(
                f"min_average_bytes={self.min_average_bytes} must lie between 0 and small_bytes={self.small_bytes}: "
                "larger files are not merged"
            )
        if not 0 <= self.max_deleted_share <= 1:
            raise ConfigError(f"max_deleted_share must be between 0 and 1, not {self.max_deleted_share}")


def _plan(state: TableState, small: Files, only: Mapping[str, str], sizes: _Sizes) -> Plan:
    if state.closed:
        return Plan((), "its files belong to a version, which is written once")
    causes, held, wanted = {}, {}, state.spelled(only)
    deleted = files_to_purge(state, sizes.max_deleted_share)
    for key, stats in sorted(state.statistics().items(), key=lambda item: partition_name(item[0])):
        if not wanted.items() <= dict(key).items():
            continue
        name, found, average = partition_name(key), small[key], stats.bytes // stats.files
        merged = -(-sum(file["size_bytes"] for file in found) // sizes.target_bytes)
        shown = f"{len(found)} of {stats.files} files are small"
        if purged := len(deleted.get(key, ())):
            causes[name] = f"deletion vectors delete rows of {purged} of {stats.files} files; {shown}"
        elif len(found) < sizes.min_small_files and average >= sizes.min_average_bytes:
            held[name] = f"{shown}: fewer than {sizes.min_small_files}, {average} bytes on average"
        elif merged >= len(found):
            held[name] = f"its {len(found)} small files would still be {merged}"
        else:
            causes[name] = f"{shown}, {average} bytes on average"
    many = f"{sizes.min_small_files} or more files below {sizes.small_bytes} bytes"
    small_average = f", or files below {sizes.min_average_bytes} bytes on average" if sizes.min_average_bytes else ""
    reason = f"{len(causes)} partitions have {many}" if causes else f"no partition has {many} to merge"
    reason += small_average
    reason += (
        f", or more than {sizes.max_deleted_share:.0%} deleted rows" if "deletionVectors" in state.features else ""
    )
    return Plan(tuple(causes), reason, causes=causes, held=held)
