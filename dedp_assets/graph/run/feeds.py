"""Partition mappings between tables: partitions that a run reads, and runs that a change requests.

Both directions stand in one :class:`Feed`, so that a run and the reconciler cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.delta import Bounds, KeyedFile, Partition, Table, TableState, candidates
from dedp_assets.patterns.flow.exclusive_choice import Router

__all__ = ["Feed", "Pinned", "by_event", "day_to_week", "hour_to_day", "of_branch", "pin", "same", "whole"]

Values = Mapping[str, str | None]
"""Partition column -> value as the table's log spells it; ``None`` is NULL."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The mapping between upstream partitions and the partition keys of a downstream table.

    Attributes:
        reads: partition key -> upstream partitions that its run reads; each may name some of the columns.
        feeds: upstream partition that changed -> partition keys that are computed from it.
        written: partition key -> upstream partition that a run of the upstream is about when it has dealt with the key,
            with or without rows; any of those read, if ``None``.
        spans: whether a key takes several upstream keys, so that some of the first key's may be no upstream partition.
    """

    reads: Callable[[str], Sequence[Values]]
    feeds: Callable[[Values], Iterable[str]]
    written: Callable[[str], Values] | None = None
    spans: bool = False

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
class Pinned:
    """A snapshot read of an upstream table: the same rows despite concurrent writes.

    Attributes:
        table: the upstream table.
        partitions: partitions to read.
        version: version to read, the newest one when the run looked.
        changed: version that changed these partitions last; equal ones mean equal rows.
    """

    table: Table
    partitions: tuple[Values, ...]
    version: int
    changed: int

    def rows(self) -> DataFrame:
        """Read the rows; lazy. No partition, as of a branch that was not chosen, has no rows."""
        if not self.partitions:
            columns = ", ".join(f"{identifier(name)} {each.type}" for name, each in self.table.spec.columns.items())
            return self.table.session.createDataFrame([], columns)
        return self.table.read(*self.partitions, version=self.version)

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
        held = self.table.ledger.state(self.version).statistics().items()
        mine = [stats for values, stats in held if any(p.items() <= dict(values).items() for p in self.partitions)]
        return sum(stats.rows for stats in mine)


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
def day_to_week(column: str) -> Feed:
    """Feed a week, keyed by the date of the Monday, from seven days of the upstream table.

    Args:
        column: partition column of the upstream table that holds the day, a DATE.
    """

    def monday(day: str) -> str:
        return (date.fromisoformat(day) - timedelta(days=date.fromisoformat(day).weekday())).isoformat()

    def days(key: str) -> Sequence[Values]:
        return tuple({column: (date.fromisoformat(key) + timedelta(days=n)).isoformat()} for n in range(7))

    return Feed(reads=days, feeds=lambda changed: map(monday, _known(changed.get(column))), spans=True)


@cache
def hour_to_day(column: str) -> Feed:
    """Feed a day from 24 hours of the upstream table.

    Args:
        column: partition column of the upstream table that holds the hour, a STRING like ``2026-01-05-13``.
    """

    def hours(key: str) -> Sequence[Values]:
        return tuple({column: f"{key}-{hour:02d}"} for hour in range(24))

    return Feed(reads=hours, feeds=lambda changed: (hour[:10] for hour in _known(changed.get(column))), spans=True)


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


def pin(upstream: Table, feed: Feed, key: str) -> Pinned:
    """Pin the snapshot of an upstream table for the run of a partition, from the log and without Spark.

    A partition that the upstream wrote without a row changed nothing and is there all the same.

    Raises:
        NotReady: if the upstream has not dealt with the partition.
    """
    partitions = tuple(feed.reads(key))
    if not partitions:  # of another branch, whose table has to hold nothing of it, or need not be there
        return Pinned(upstream, (), 0, 0)
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
