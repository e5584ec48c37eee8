"""Partition mappings between tables: partitions that a run reads, and runs that a change requests.

Both directions stand in one :class:`Feed`, so that a run and the reconciler cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cache, cached_property

from pyspark.sql import DataFrame

from dedp_assets.graph.inputs.fan_in import FanIn, FanInAlert, RunStates, read_branches, without_runs
from dedp_assets.patterns.core.errors import ConfigError, NotReady, PatternError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.delta import (
    Bounds,
    FileStats,
    KeyedFile,
    Partition,
    Table,
    TableState,
    candidates,
    missing_files,
)
from dedp_assets.patterns.flow._branches import BranchState
from dedp_assets.patterns.flow.exclusive_choice import Router

__all__ = [
    "Feed", "Pinned", "Span", "Values", "aligned", "by_event", "day_to_hour", "day_to_week", "hour_to_day",
    "of_branch", "pin", "same", "unaligned", "whole",
]  # fmt: skip

_NO_TABLE = -1
Values = Mapping[str, str | None]
"""Partition column -> value in the spelling of the table's log; ``None`` for NULL."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The mapping between upstream partitions and the partition keys of a downstream table.

    Attributes:
        reads: partition key -> upstream partitions that its run reads; each may name some of the columns.
        feeds: upstream partition that changed -> partition keys that are computed from it.
        written: partition key -> upstream partition that a run of the upstream is about when it has dealt with the key,
            with or without rows; any of those read, if ``None``.
        spans: whether a key takes several upstream keys, so that some of the first key's may be no upstream partition.
        fan_in: what a key waits for among the upstream partitions; any of them, if ``None``.
    """

    reads: Callable[[str], Sequence[Values]]
    feeds: Callable[[Values], Iterable[str]]
    written: Callable[[str], Values] | None = None
    spans: bool = False
    fan_in: FanIn | None = None

    def markers(self, key: str) -> Sequence[Values]:
        """Return the upstream partitions whose commits show that the upstream has dealt with ``key``."""
        return (self.written(key),) if self.written else self.reads(key)

    def newest(self, changed: Mapping[Partition, int]) -> dict[str, int]:
        """Return, by downstream partition key, the newest version of the changed upstream partitions."""
        found: dict[str, int] = {}
        for partition, version in changed.items():
            for key in self.feeds(dict(partition)):
                found[key] = max(version, found.get(key, version))
        return found


@dataclass(frozen=True, slots=True)
class Span(Feed):
    """A mapping with several upstream partitions for each key, each named by one column.

    Attributes:
        fills: whether these are the days or hours in UTC that make up the time of the key, no more and no less.
    """

    spans: bool = True
    fills: bool = False


@dataclass(frozen=True)
class Pinned:
    """A snapshot read of an upstream table: the same rows despite concurrent writes.

    Its size is looked up once in a run.

    Attributes:
        table: the upstream table.
        partitions: partitions to read.
        version: version to read, the newest one when the run looked.
        changed: version that changed these partitions last; equal ones mean equal rows. Of a fan-in it is the newest
            commit about one of them, with or without rows.
        branches: upstream partition key -> its state, of a fan-in.
    """

    table: Table
    partitions: tuple[Values, ...]
    version: int
    changed: int
    branches: Mapping[str, BranchState] = field(default_factory=dict)

    def rows(self, *, broadcast_bytes: int | None = None) -> DataFrame:
        """Read the rows; lazy. No partition, as of a branch that was not chosen, has no rows.

        Args:
            broadcast_bytes: as of :meth:`dedp_assets.patterns.Table.read`.
        """
        if not self.partitions:
            columns = ", ".join(f"{identifier(name)} {each.type}" for name, each in self.table.spec.columns.items())
            return self.table.session.createDataFrame([], columns)
        return self.table.read(*self.partitions, version=self.version, broadcast_bytes=broadcast_bytes)

    def is_gone(self) -> bool:
        """Return whether files of the pinned rows were removed, and the table has a newer version."""
        if self.table.ledger.version() <= self.version:
            return False
        try:
            return bool(missing_files(self.table.store, self.table.ledger.state(self.version), self.partitions))
        except PatternError:  # the log of the version is gone, too
            return True

    def of(self, column: str, values: Iterable[str]) -> Pinned:
        """Narrow the pinned partitions to some values of a partition column."""
        wanted = set(values)
        return replace(self, partitions=tuple(each for each in self.partitions if each.get(column) in wanted))

    def changed_by(self, column: str) -> dict[str, int]:
        """Return the version of the last change of each pinned value of a column, without unwritten values."""
        found = {}
        for partition in self.partitions:
            commit = self.table.ledger.changed(partition, until=self.version)
            if commit is not None:
                found[str(partition[column])] = commit.version
        return found

    def rows_since(self, version: int) -> DataFrame:
        """Read all rows of the partitions that changed after ``version``; lazy."""
        _, changed = self.table.ledger.changes(since=version)
        return self.table.read(*map(dict, changed), version=self.version) if changed else self.rows().limit(0)

    def related(self, other: Table, column: str) -> DataFrame | None:
        """Read the partitions of another table that may share values of ``column`` with this snapshot; lazy.

        Args:
            other: a table that has the column, too.
            column: partition column of the upstream table. Its least and greatest value here are held against what
                the other table's log says of its files.

        Returns:
            The rows; ``None`` if no file can hold such a value.
        """
        if not other.ledger.exists():
            return None
        state, here = other.ledger.state(), self.table.ledger.state(self.version)
        mine = [file for partition in self.partitions for file, _ in _files_of(here, partition)]
        values = {file[f"partition.{column}"] for file in mine} - {None}
        near = candidates(state, {}, {column: Bounds(min(values), max(values))}) if values else []
        partitions = dict.fromkeys(key for _, key in near)
        return other.read(*map(dict, partitions), version=state.version) if near else None

    def values(self, column: str, *, since: str) -> list[str]:
        """List the values of a partition column with upstream rows, from the value ``since`` on."""
        held = self.table.ledger.state(self.version).statistics().items()
        found = {dict(values)[column] for values, stats in held if stats.rows}
        return sorted(value for value in found if value is not None and value >= since)

    def count(self) -> int:
        """Count the rows by the table's log, without a scan."""
        return sum(stats.rows for stats in self._statistics)

    def size(self) -> Cost:
        """Return files, rows and bytes of the partitions by the table's log: the most that a run reads."""
        mine = self._statistics
        return Cost(
            rows_read=self.count() if all(stats.exact for stats in mine) else None,
            files_read=sum(stats.files for stats in mine),
            bytes_read=sum(stats.bytes for stats in mine),
        )

    @cached_property
    def _statistics(self) -> list[FileStats]:
        if not self.partitions:  # of a branch that was not chosen, whose table need not be there
            return []
        held = self.table.ledger.state(self.version).statistics().items()
        return [stats for values, stats in held if any(p.items() <= dict(values).items() for p in self.partitions)]


@cache
def same(column: str) -> Feed:
    """Feed each partition by the upstream partition with the same value of ``column``."""
    return Feed(reads=lambda key: ({column: key},), feeds=lambda changed: _known(changed.get(column)))


def whole() -> Feed:
    """Feed a table without partitions by all upstream rows."""
    return Feed(reads=lambda _: ({},), feeds=lambda _: ("",))


@cache
def by_event(column: str, landed: str) -> Feed:
    """Feed each event partition by the events of all landings, and by undated records of one landing.

    Args:
        column: partition column of the upstream table with the day or hour of the event, NULL if that is unknown.
        landed: partition column of the upstream table with the day or hour of the landing.
    """
    return Feed(
        reads=lambda key: ({column: key}, {column: None, landed: key}),
        feeds=lambda changed: _known(changed[column] or changed[landed]),
        written=lambda key: {landed: key},
    )


@cache
def day_to_hour(column: str) -> Feed:
    """Feed each of 24 hours, keyed like ``2026-01-05-13``, by the day of the upstream table.

    Args:
        column: partition column of the upstream table that holds the day, a DATE.
    """
    return Feed(
        reads=lambda key: ({column: key[:10]},),
        feeds=lambda changed: (f"{day}-{hour:02d}" for day in _known(changed.get(column)) for hour in range(24)),
    )


@cache
def day_to_week(column: str) -> Span:
    """Feed a week, keyed by the date of the Monday, from seven days of the upstream table.

    Args:
        column: partition column of the upstream table that holds the day, a DATE.
    """

    def monday(day: str) -> str:
        return (date.fromisoformat(day) - timedelta(days=date.fromisoformat(day).weekday())).isoformat()

    def days(key: str) -> Sequence[Values]:
        return tuple({column: (date.fromisoformat(key) + timedelta(days=n)).isoformat()} for n in range(7))

    return Span(reads=days, feeds=lambda changed: map(monday, _known(changed.get(column))), fills=True)


@cache
def hour_to_day(column: str) -> Span:
    """Feed a day from 24 hours of the upstream table.

    Args:
        column: partition column of the upstream table that holds the hour, a STRING like ``2026-01-05-13``.
    """

    def hours(key: str) -> Sequence[Values]:
        return tuple({column: f"{key}-{hour:02d}"} for hour in range(24))

    return Span(reads=hours, feeds=lambda changed: (hour[:10] for hour in _known(changed.get(column))), fills=True)


def of_branch(column: str, router: Router, branch: str) -> Feed:
    """Feed a table after a choice from one branch: the partitions that the router sent to the branch.

    A partition waits for the branch that was chosen alone; of the other branches' tables, no rows are read.

    Args:
        column: partition column of the branch's table that holds the key.
        router: the rules of all branches.
        branch: the branch of the upstream table.
    """

    def own(key: str | None) -> tuple[str, ...]:
        return tuple(each for each in _known(key) if router.choose(each).branch == branch)

    return Feed(reads=lambda key: [{column: k} for k in own(key)], feeds=lambda changed: own(changed.get(column)))


@cache
def aligned(feed: Span) -> Feed:
    """Feed a key once all upstream partitions are committed, with or without rows (Aligned Fan-In).

    Args:
        feed: the upstream partitions of a key.
    """
    return replace(feed, fan_in=FanIn())


@cache
def unaligned(
    feed: Span, *, after_hours: float | None = None, if_none: Callable[[FanInAlert], None] | None = None
) -> Feed:
    """Feed a key once all upstream partitions have ended, in success or not (Unaligned Fan-In).

    An upstream partition has ended if it is committed, or its runs failed and nobody tries again. One with a run under
    way has not ended, even past the deadline.

    Args:
        feed: the upstream partitions of a key.
        after_hours: deadline, in hours after the beginning of the day that the key names, in UTC: from then on upstream
            partitions that nobody has started are not waited for. By default there is no deadline.
        if_none: error handler of a key for which no upstream partition is there: nothing is written. By default an
            alert is raised, and cleared by the first run that finds a branch.

    Raises:
        ConfigError: for a deadline below 0.
    """
    if after_hours is not None and after_hours < 0:
        raise ConfigError(f"after_hours must be 0 or more, not {after_hours}")
    return replace(feed, fan_in=FanIn(ended=True, after_hours=after_hours, if_none=if_none))


def pin(
    upstream: Table, feed: Feed, key: str, *, at: datetime | None = None, states: RunStates = without_runs
) -> Pinned:
    """Pin the snapshot of an upstream table for the run of a partition, from the log and without Spark.

    A partition that the upstream wrote without a row changed nothing and is there all the same.

    Args:
        upstream: the upstream table.
        feed: the mapping between its partitions and the key.
        key: the partition key.
        at: when the run started, for the deadline of a fan-in.
        states: the runs of upstream partitions, for a fan-in.

    Raises:
        NotReady: if the upstream has not dealt with the partition; of a fan-in, names the branches that it waits for.
        NoBranch: if no branch of a fan-in succeeded.
    """
    partitions = tuple(feed.reads(key))
    if not partitions:  # of another branch, whose table has to hold nothing of it, or need not be there
        return Pinned(upstream, (), 0, 0)
    if feed.fan_in is not None:
        version = upstream.ledger.version() if upstream.ledger.exists() else _NO_TABLE
        runs = states(upstream.name) if feed.fan_in.ended else {}
        branches = read_branches(upstream.ledger, partitions, until=version, states=runs)
        return Pinned(upstream, partitions, version, feed.fan_in.version(upstream.name, key, branches, at), branches)
    version = upstream.ledger.version()
    newest = upstream.ledger.changed(*partitions, until=version)
    newest = newest or upstream.ledger.latest(*feed.markers(key), until=version)
    if newest is None:
        raise NotReady(f"{upstream.name} holds nothing of {key or 'its rows'} yet: materialize that first")
    return Pinned(upstream, partitions, version, newest.version)


def _files_of(state: TableState, partition: Values) -> Iterable[KeyedFile]:
    return ((file, key) for file, key in state.keyed_files() if partition.items() <= dict(key).items())


def _known(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)
