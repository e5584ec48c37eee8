"""Changes of a base table since a version, by the log and without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dedp_assets.patterns.delta.log.commit_info import Commit
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState

__all__ = ["BaseChanges", "behind", "last_refresh"]


@dataclass(frozen=True, slots=True)
class BaseChanges:
    """Partitions of a base table to compute again.

    Attributes:
        parts: values of the partition columns, in the spelling of the log; ``None`` for all there are.
        figures: partitions, files and bytes of the base, in all and to be read.
    """

    parts: list[Mapping[str, str]] | None
    figures: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def since(cls, ledger: Ledger, state: TableState, by: Mapping[str, str], version: int | None) -> BaseChanges:
        """Find the partitions that changed after a version, up to the one of ``state``.

        Args:
            ledger: the base's log.
            state: the base at the version to read.
            by: the partition columns that tell partitions apart.
            version: version that is known; ``None`` for none.
        """
        parts = None if version is None else _changed(ledger, state.version, list(by), version)
        found = state.statistics()
        read = [s for key, s in found.items() if parts is None or any(p.items() <= dict(key).items() for p in parts)]
        figures = {
            "partitions": len(found),
            "partitions read": len(read),
            "files": sum(each.files for each in found.values()),
            "files read": sum(each.files for each in read),
            "base bytes": sum(each.bytes for each in found.values()),
            "bytes read": sum(each.bytes for each in read),
        }
        return cls(parts, figures)


def last_refresh(ledger: Ledger, note: str) -> tuple[Commit | None, bool]:
    """Find the newest commit with a note, and whether later commits changed rows."""
    last = ledger.last(lambda commit: commit.record and note in commit.record.notes)
    return last, last is not None and any(commit.changed for commit in ledger.commits(since=last.version))


def behind(ledger: Ledger, version: int) -> tuple[int, datetime | None]:
    """Count the versions with changed rows after a version, and return the time of the first one."""
    times = [commit.timestamp for commit in ledger.commits(since=version) if commit.changed and not commit.expires]
    return len(times), times[0] if times else None


def _changed(ledger: Ledger, until: int, by: list[str], version: int) -> list[Mapping[str, str]] | None:
    """List the changed partitions; ``None`` for an incomplete log or a NULL partition value."""
    if ledger.files.tells_from() > version + 1:
        return None
    found = set[tuple[str | None, ...]]()
    for commit in ledger.commits(since=version):
        if commit.version > until:
            break
        if commit.relabels:
            return None
        found |= {tuple(dict(key)[column] for column in by) for key in commit.changed if not commit.expires}
    whole = sorted(tuple(value for value in key if value is not None) for key in found)
    is_whole = all(len(key) == len(by) for key in whole)
    return [dict(zip(by, key, strict=True)) for key in whole] if is_whole else None
