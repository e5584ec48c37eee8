"""Durations of partition runs, by the commits of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from dedp_assets.patterns.delta import Commit

__all__ = ["durations_of"]


def durations_of(commits: Iterable[Commit]) -> Iterator[tuple[int, float]]:
    """Yield version and duration in seconds of each commit of a run with a known start.

    A duration is the time from the start of the run to the commit; in a run of several partitions, from the commit of
    the previous partition.

    Args:
        commits: commits in the order of the log.
    """
    ended: dict[str, datetime] = {}
    for commit in commits:
        if (record := commit.record) is not None and record.at:
            began = ended.get(record.run_id, datetime.fromisoformat(record.at))
            ended[record.run_id] = commit.timestamp
            yield commit.version, max(0.0, (commit.timestamp - began).total_seconds())
