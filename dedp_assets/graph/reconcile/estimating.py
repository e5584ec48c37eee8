"""Estimates of planned runs: seconds by the tables' past commits, and files to read by the logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from statistics import median

from dedp_assets.graph.declare.runs import OnDelivery
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.outcomes.durations import durations_of
from dedp_assets.graph.reconcile.run_plans import PlannedRun
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.delta import FileStats, Ledger, Partition
from dedp_assets.patterns.observability._timing.percentiles import nearest_rank

__all__ = ["Estimate", "Estimates", "Spread"]

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

    def times(self, number: int) -> Spread:
        """Return the spread of so many runs one after the other, each as slow as the others."""
        return Spread(self.low * number, self.median * number, self.high * number, self.runs)

    def __add__(self, other: Spread) -> Spread:
        """Return the sum, figure by figure."""
        if not (self.runs and other.runs):
            return self if self.runs else other
        least = min(self.runs, other.runs)
        return Spread(self.low + other.low, self.median + other.median, self.high + other.high, least)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of one run, or of several.

    Attributes:
        seconds: time of the runs, one after the other.
        cpu_seconds: CPU of the executors, as of ``dedp cost``.
        reads: files, rows and bytes that are read at most; rows of files that nobody has read are not known.
        unknown: tables that no measured run has computed before.
    """

    seconds: Spread = field(default_factory=Spread)
    cpu_seconds: Spread = field(default_factory=Spread)
    reads: Cost = field(default_factory=Cost)
    unknown: frozenset[str] = frozenset()

    def __add__(self, other: Estimate) -> Estimate:
        """Return the sum."""
        return Estimate(
            self.seconds + other.seconds,
            self.cpu_seconds + other.cpu_seconds,
            self.reads + other.reads,
            self.unknown | other.unknown,
        )


class Estimates:
    """Estimates of planned runs; each log is read once.

    Args:
        runs: all runs of the plan.
        tables: the declared tables of the graph.
        lake: the tables.
        landing: what was delivered.
    """

    def __init__(
        self, runs: Sequence[PlannedRun], tables: Sequence[LakeTable[...]], lake: Lake, landing: Landing
    ) -> None:
        self._written = {place for run in runs for place in run.places}
        self._tables = {table.spec.name: table for table in tables}
        self._ledger: dict[str, Ledger] = {}
        self._lake, self._landing = lake, landing
        self._past = cache(self._measured)
        self._sizes = cache(self._by_partition)
        self._by_columns: dict[tuple[str, tuple[str, ...]], tuple[Mapping[Partition, FileStats], FileStats | None]] = {}

    def of(self, run: PlannedRun) -> Estimate:
        """Return the estimate of a run."""
        seconds, cpu = Spread(), Spread()
        unknown = set[str]()
        for table in run.tables:
            took, worked = self._past(table)
            seconds += took.times(len(run.keys))
            cpu += worked.times(len(run.keys))
            unknown |= set() if took.runs else {table}
        sizes = [size for name in run.tables for key in run.keys for size in self._read(self._tables[name], key)]
        return Estimate(seconds, cpu, _cost(sizes), frozenset(unknown))

    def _measured(self, name: str) -> tuple[Spread, Spread]:
        """Return the spreads of seconds and CPU seconds of a partition, by the newest commits of the table."""
        try:
            commits = [*islice(self._log(name).newest_first(), _NEWEST)][::-1]
        except PatternError:
            return Spread(), Spread()
        took = [seconds for _, seconds in durations_of(commits)]
        costs = [commit.record.cost for commit in commits if commit.record]
        worked = [cost.cpu_seconds for cost in costs if cost and cost.cpu_seconds is not None]
        return Spread.of(took) if took else Spread(), Spread.of(worked) if worked else Spread()

    def _read(self, table: LakeTable[...], key: str) -> Iterable[FileStats]:
        """Yield the sizes of the inputs of a run of a key."""
        for each in table.runs.of(OnDelivery):
            with suppress(PatternError, OSError):
                files = self._landing.delivery(each.dataset, key, ends=each.ends).files
                yield FileStats(len(files), 0, sum(file.size_bytes for file in files), exact=False)
        for spec, feed in table.reads.tables.items():
            for values in feed.reads(key):
                if (size := self._size(spec.name, tuple(sorted(values.items())))) is not None:
                    yield size
        for spec in table.reads.references:
            if (size := self._size(spec.name, ())) is not None:
                yield size

    def _size(self, name: str, values: Partition) -> FileStats | None:
        """Return the size of an upstream partition; the usual one of a partition that a run will write."""
        columns = tuple(column for column, _ in values)
        known = self._by_columns.get((name, columns))
        if known is None:
            found: dict[Partition, FileStats] = {}
            for partition, size in self._sizes(name).items():
                part = tuple(pair for pair in partition if pair[0] in columns)
                found[part] = _sum(found.get(part, FileStats()), size)
            known = self._by_columns[name, columns] = found, _usual([*found.values()])
        will_be = any((name, value) in self._written for _, value in values) if values else True
        return known[0].get(values, known[1] if will_be else None)

    def _by_partition(self, name: str) -> Mapping[Partition, FileStats]:
        try:
            ledger = self._log(name)
            stored = ledger.state().statistics() if ledger.exists() else {}
        except PatternError:
            return {}
        return stored

    def _log(self, name: str) -> Ledger:
        return self._ledger.setdefault(name, self._lake.ledger(name))


def _sum(one: FileStats, other: FileStats) -> FileStats:
    exact = one.exact and other.exact
    return FileStats(one.files + other.files, one.rows + other.rows, one.bytes + other.bytes, exact)


def _usual(sizes: Sequence[FileStats]) -> FileStats | None:
    """Return the median size; ``None`` without sizes."""
    if not sizes:
        return None
    files, rows, size = ([getattr(each, name) for each in sizes] for name in ("files", "rows", "bytes"))
    return FileStats(int(median(files)), int(median(rows)), int(median(size)), all(each.exact for each in sizes))


def _cost(sizes: Sequence[FileStats]) -> Cost:
    if not sizes:
        return Cost()
    rows = [each.rows for each in sizes if each.exact]
    files, size = sum(each.files for each in sizes), sum(each.bytes for each in sizes)
    return Cost(rows_read=sum(rows) if rows else None, files_read=files, bytes_read=size)
