"""Durations of partition runs by the commits of a table, and their spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from statistics import median

from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.measuring.quantities import duration
from dedp_assets.patterns.delta import Commit, Ledger
from dedp_assets.patterns.observability._timing.percentiles import nearest_rank

__all__ = ["Spread", "durations_of", "usual_of"]

_NEWEST = 30
"""Commits of a table that are measured: the newest, as hardware, code and volumes change."""
_LOW, _HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of past runs: the median between the 10th and the 90th percentile.

    Attributes:
        low: 10th percentile.
        median: the median.
        high: 90th percentile.
        runs: number of commits that were measured, the least of a sum.
    """

    low: float = 0
    median: float = 0
    high: float = 0
    runs: int = 0

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one value."""
        return cls(nearest_rank(values, _LOW), median(values), nearest_rank(values, _HIGH), len(values))

    @property
    def text(self) -> str:
        """The figure in words, such as ``2 s (1 s to 4 s)``; empty without a measured commit."""
        return f"{duration(self.median)} ({duration(self.low)} to {duration(self.high)})" if self.runs else ""

    def times(self, number: int) -> Spread:
        """Return the spread of so many runs one after the other, each as slow as the others."""
        return Spread(self.low * number, self.median * number, self.high * number, self.runs)

    def __add__(self, other: Spread) -> Spread:
        """Return the sum, figure by figure."""
        if not (self.runs and other.runs):
            return self if self.runs else other
        least = min(self.runs, other.runs)
        return Spread(self.low + other.low, self.median + other.median, self.high + other.high, least)


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


def usual_of(ledger: Ledger) -> tuple[Spread, Spread]:
    """Return the spreads of seconds and CPU seconds of a partition, by the newest commits of a table.

    Without a measured commit, and of a log that cannot be read, a spread is empty.
    """
    try:
        commits = [*islice(ledger.newest_first(), _NEWEST)][::-1]
    except (PatternError, OSError):
        return Spread(), Spread()
    took = [seconds for _, seconds in durations_of(commits)]
    costs = [commit.record.cost for commit in commits if commit.record]
    worked = [cost.cpu_seconds for cost in costs if cost and cost.cpu_seconds is not None]
    return Spread.of(took) if took else Spread(), Spread.of(worked) if worked else Spread()
