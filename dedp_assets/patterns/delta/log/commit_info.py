"""Records of a commit: in full (:class:`Commit`) and in brief (:class:`Glimpse`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.log.partition_values import Partition

__all__ = ["Commit", "EXPIRED", "Glimpse", "RELABELLED", "is_append", "NOTHING"]


NOTHING: Mapping[str, Any] = MappingProxyType({})


EXPIRED = "expired"
"""Note of a commit that removed partitions by age: the declared age in days, or the rule of a policy."""


RELABELLED = "relabelled"
"""Under this name a commit that only maintained files notes the partition values that it gave another name."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table's log.

    Attributes:
        changed: partitions whose rows this commit changed; compaction (``dataChange = false``) changes none.
        record: the record of a write, or ``None`` for a foreign commit and for one that only maintained the files.
        maintenance: the record of a compaction or a vacuum, which never answers for a partition.
        note: the commit's user metadata, if that is no commit record.
        transactions: transaction ids the commit moved, with their versions.
        files_added: data files the commit added.
        files_past: files that only the past needs from here on: data files it removed, with their deletion vectors, and
            its change data.
        rows_added: rows in those files by their statistics, in rows.
        bytes_added: size of those files, in bytes.
        metrics: Delta's operation metrics, as written (strings).
        parameters: Delta's operation parameters, as written.
    """

    version: int
    timestamp: datetime
    operation: str
    record: CommitRecord | None
    changed: frozenset[Partition]
    note: str = ""
    transactions: Mapping[str, int] = field(default_factory=dict)
    files_added: tuple[str, ...] = ()
    files_past: tuple[str, ...] = ()
    maintenance: CommitRecord | None = None
    rows_added: int = 0
    bytes_added: int = 0
    metrics: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def restored_to(self) -> int | None:
        """The version that a RESTORE made current again; ``None`` for any other commit."""
        return restored_version(self.parameters) if self.operation == "RESTORE" else None

    @property
    def expires(self) -> bool:
        """Return whether the commit removed partitions by age, which is no change for tables downstream."""
        record = self.record or self.maintenance
        return record is not None and EXPIRED in record.notes

    def changes(self, partition: Mapping[str, str | None]) -> bool:
        """Return whether the commit changed rows of ``partition``."""
        return any(partition.items() <= dict(values).items() for values in self.changed)

    @property
    def relabels(self) -> bool:
        """Return whether the commit gave files of some partitions the values of other partitions.

        A relabelled partition may stand for a partition without files.
        """
        return bool(self.maintenance and self.maintenance.notes.get(RELABELLED))

    def touches(self, partition: Mapping[str, str | None]) -> bool:
        """Return whether the commit changed, was written for, or took back ``partition``, or one within."""
        record = self.record
        written = record is not None and (partition.items() <= record.partition.items() or record.awaits(partition))
        return written or self.changes(partition) or self._restores(partition)

    def _restores(self, execution: Mapping[str, str | None]) -> bool:
        """Return whether this RESTORE may have undone a batch of a table that is keyed by batch."""
        return self.operation == "RESTORE" and any(execution.keys() - dict(values).keys() for values in self.changed)


class Glimpse(NamedTuple):
    """Summary of a commit: changed partitions, transaction ids, restored version.

    Attributes:
        changed: partitions whose rows the commit changed, without those in ``expired``.
        transactions: transaction ids that it moved, with their versions.
        restores: whether it made an earlier version current again; whoever wrote it.
        restored_to: that version, if the commit names it.
        stated: what the record of a write states, by field, if it was asked for; empty without one.
        forgotten: whether the log does not tell what was before: ``changed`` are the partitions that had rows.
        expired: partitions that the commit removed by age.
    """

    version: int
    changed: frozenset[Partition]
    transactions: Mapping[str, int] = NOTHING
    restores: bool = False
    restored_to: int | None = None
    stated: Mapping[str, Any] = NOTHING
    forgotten: bool = False
    expired: frozenset[Partition] = frozenset()


class RawCommit(NamedTuple):
    """Version and bytes of a commit."""

    version: int
    raw: bytes


def restored_version(parameters: Mapping[str, Any]) -> int | None:
    """Return the version that a RESTORE made current again, by the parameters of the operation."""
    to = str(parameters.get("version"))
    return int(to) if to.isdigit() else None


def is_append(commit: Commit) -> bool:
    """Return whether a library commit appended rows."""
    return any(app_id.endswith(":appends") for app_id in commit.transactions)
