"""Commits that made the rows of partitions: overwrites, later merges and appends, and restores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dedp_assets.graph.inputs.feeds import Values
from dedp_assets.patterns.delta import Commit, Ledger, is_append

__all__ = ["Makers", "makers_of", "partitions_within"]


@dataclass(frozen=True, slots=True)
class Makers:
    """The commits behind the rows of partitions at a version.

    Attributes:
        commits: commits that wrote, merged, appended or removed the rows, newest first.
        restores: RESTOREs by which these commits are in force again, newest first.
        ends: why older commits may be missing; empty if all are known.
    """

    commits: tuple[Commit, ...]
    restores: tuple[Commit, ...]
    ends: str = ""


def partitions_within(ledger: Ledger, named: Sequence[Values], *, version: int) -> tuple[Values, ...]:
    """Return the partitions with rows within named partitions; without rows, the named partitions.

    Of a version that is gone, as after a purge, these are the partitions that its commits changed.

    Args:
        ledger: log of the table.
        named: partitions, each by some of the partition columns.
        version: version of the table.
    """
    if version >= ledger.begins_at():
        keys = [*ledger.state(version).statistics()]
    else:
        keys = sorted({key for commit in ledger.newest_first(until=version) for key in commit.changed}, key=str)
    held = [dict(key) for key in keys]
    found = [key for key in held if any(each.items() <= key.items() for each in named)]
    return tuple(found or named)


def makers_of(ledger: Ledger, partitions: Sequence[Values], *, version: int) -> Makers:
    """Find the commits that made the rows of partitions, back to the overwrite of each partition.

    A commit that a RESTORE took back made no row.

    Args:
        ledger: log of the table.
        partitions: whole partitions, or the only one that is empty.
        version: version of the table.
    """
    commits, left = list[Commit](), [dict(each) for each in partitions]
    for commit in ledger.newest_first(until=version, past_restores=True):
        touched = [each for each in left if commit.touches(each)]
        if touched:
            commits.append(commit)
        if _replaces(commit):
            left = [each for each in left if each not in touched]
        if not left:
            break
    begins = ledger.files.tells_from()
    ends = (
        f"the log of {ledger.name} begins at version {begins}: earlier commits are not known" if left and begins else ""
    )
    return Makers(tuple(commits), _restores(ledger, commits, left, partitions, version), ends)


def _replaces(commit: Commit) -> bool:
    """Return whether a commit left no earlier row in the written partitions.

    A foreign overwrite with a predicate may have left some. A purged commit has a record and no parameters.
    """
    if commit.operation == "WRITE":
        mode = commit.parameters.get("mode", "Overwrite" if commit.record and not commit.parameters else "")
        return (
            mode == "Overwrite"
            and not is_append(commit)
            and bool(commit.record or not commit.parameters.get("predicate"))
        )
    return commit.expires or "AS SELECT" in commit.operation or "REPLACE TABLE" in commit.operation


def _restores(
    ledger: Ledger, commits: Sequence[Commit], left: Sequence[Values], partitions: Sequence[Values], version: int
) -> tuple[Commit, ...]:
    """Return the RESTOREs in force that changed the partitions since the oldest of their commits."""
    oldest = commits[-1].version if commits and not left else -1
    found, until = list[Commit](), version
    while commit := ledger.last(lambda each: each.restored_to is not None or each.version <= oldest, until=until):
        if commit.version <= oldest or commit.restored_to is None:
            break
        found.append(commit)
        until = commit.restored_to
    return tuple(each for each in found if any(map(each.touches, partitions)))
