"""Times of partitions with a deadline, from partition calendar, logs and run storage.

The calendar says which partitions are due, so that a partition without a run has a deadline, too. A log says when a
partition was first committed, which later runs for late data do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from dedp_assets.graph.catalogue.calendars import window_seconds
from dedp_assets.graph.inputs.upstream_runs import ENDED_BADLY, assets_of
from dedp_assets.graph.outcomes.run_tags import cause_of, keys_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity
from dedp_assets.patterns.observability.sla_misses_detector import Due, TimedRun

if TYPE_CHECKING:
    from dedp_assets.graph.declare.tables import LakeTable
    from dedp_assets.graph.inputs.feeds import Feed

__all__ = ["Timings", "recent_records", "records_of", "timed_runs"]

_MOST_RUNS = 2_000
_CLOSED_DAYS = 14
"""Most days by which weekends and holidays move a deadline that is looked for."""
_WINDOWS = 2
"""Number of windows by which a window that begins before a span may end within: February is shorter than January."""
_BACKFILL = "backfill"
_UNDER_WAY = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)


@dataclass(slots=True)
class Timings:
    """Times of one table's partitions that the present moment does not change, kept from round to round."""

    _facts: tuple[object, ...] = field(default=(), init=False)
    _known: dict[str, TimedRun] = field(default_factory=dict, init=False)

    def by(self, logs: Iterable[Activity], runs: Iterable[dg.RunRecord]) -> dict[str, TimedRun]:
        """Return the known times by key, to be added to; empty after a change of the logs or the runs."""
        facts = (*logs, *((each.dagster_run.run_id, each.update_timestamp) for each in runs))
        if facts != self._facts:
            self._facts, self._known = facts, {}
        return self._known


def recent_records(instance: dg.DagsterInstance, now: datetime, *, days: float) -> Sequence[dg.RunRecord]:
    """Read the newest runs of all tables that changed within some days, in one query of the run storage.

    Args:
        instance: where runs are recorded.
        now: current time, with time zone.
        days: number of days.
    """
    since = now.astimezone(timezone.utc) - timedelta(days=days)
    return instance.get_run_records(dg.RunsFilter(updated_after=since), limit=_MOST_RUNS)


def records_of(
    records: Iterable[dg.RunRecord], table: LakeTable[...], repository: dg.RepositoryDefinition | None
) -> list[dg.RunRecord]:
    """List the records of the runs that compute a table.

    Args:
        records: runs of any tables.
        table: the table.
        repository: the code location, which knows the tables of a job; without it, only runs with a selection count.
    """
    key = dg.AssetKey(table.spec.name.split("/"))
    return [each for each in records if key in assets_of(each.dagster_run, repository)]


def timed_runs(
    table: LakeTable[...],
    activity: Activity,
    upstream: Mapping[str, Activity],
    runs: Sequence[dg.RunRecord],
    now: datetime,
    *,
    due: Due,
    days: float,
    timings: Timings | None = None,
) -> list[TimedRun]:
    """Return the times of the partitions whose deadline lies within the last days or ahead, oldest first.

    What was due before the first commit of the table counts for nothing; of a table without any commit, the newest
    partition alone counts, and none as long as no upstream table exists: a new platform owes nothing.

    Args:
        table: the table.
        activity: what the table's log tells.
        upstream: table -> what the log of a table that feeds this one tells. A table that is not there cannot explain
            anything.
        runs: runs of the table, as :func:`records_of` returns them.
        now: current time, with time zone.
        due: the promise.
        days: number of days; the log has to go back as far.
        timings: of this table, kept by the caller between two calls, so that a call looks at open partitions only.

    Raises:
        ConfigError: if the table has no partitions by time.
    """
    partitions = table.runs.partitions
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        raise ConfigError(f"due must be the promise of a table with partitions by time, not of {table.spec.name}")
    if activity.version < 0 and upstream and all(each.version < 0 for each in upstream.values()):
        return []
    by_key: dict[str, list[dg.RunRecord]] = {}
    for record in runs:
        for key in keys_of(record.dagster_run.tags, partitions):
            by_key.setdefault(key, []).append(record)
    known = (timings or Timings()).by([activity, *upstream.values()], runs)
    expected = _expected(table, partitions, activity, now, due, days)
    found = []
    for key, end in expected:
        timed = known.get(key) or _timed(table, key, end, activity, upstream, by_key.get(key, []), now)
        if timed.ended_at is not None:
            known[key] = timed
        found.append(timed)
    return found


def _expected(
    table: LakeTable[...],
    partitions: dg.TimeWindowPartitionsDefinition,
    activity: Activity,
    now: datetime,
    due: Due,
    days: float,
) -> list[tuple[str, datetime]]:
    """List key and end of the partitions with a deadline that counts, oldest first."""
    earliest = now - timedelta(days=days)
    since = earliest - timedelta(days=due.days_after + _CLOSED_DAYS)
    found = [
        (key, end, deadline)
        for key, end, deadline in _promised(partitions, due, _day(since), _day(now))
        if end <= now and deadline >= earliest and table.runs.takes(key)
    ]
    first = _first_commit(activity)
    if first is None:
        newest = max((end for _, end, _ in found), default=None)
        return [(key, end) for key, end, deadline in found if deadline >= now or end == newest]
    return [(key, end) for key, end, deadline in found if deadline >= first]


@lru_cache(maxsize=1_000)
def _promised(
    partitions: dg.TimeWindowPartitionsDefinition, due: Due, first: date, last: date
) -> Sequence[tuple[str, datetime, datetime]]:
    """List key, end and deadline of the partitions that end on a day of a span, oldest first.

    Walking the calendar costs more than everything else in a round, and the answer stays the same all day.
    """
    start, until = (datetime.combine(each, time(), timezone.utc) for each in (first, last + timedelta(days=1)))
    start -= timedelta(seconds=_WINDOWS * window_seconds(partitions))
    keys = partitions.get_partition_keys_in_time_window(dg.TimeWindow(max(partitions.start, start), until))
    ends = [(key, partitions.time_window_for_partition_key(key).end) for key in keys]
    dated = [(key, end, due.deadline(end) or (None if due.at else end)) for key, end in ends]
    return [(key, end, deadline) for key, end, deadline in dated if deadline is not None]


def _day(moment: datetime) -> date:
    return moment.astimezone(timezone.utc).date()


def _first_commit(activity: Activity) -> datetime | None:
    """Return the time of the first retained commit; ``None`` without a commit."""
    partitions = (each.first_at for each in activity.partitions.values())
    return min((*filter(None, partitions), *(each.at for each in activity.arrivals)), default=None)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """The runs of a partition up to the first commit.

    Attributes:
        records: the runs, oldest first.
        committed_at: time of the first commit; ``None`` before.
    """

    records: Sequence[dg.RunRecord]
    committed_at: datetime | None

    @classmethod
    def of(cls, records: Iterable[dg.RunRecord], committed_at: datetime | None) -> _Attempts:
        """Leave out runs that began after the first commit: of late data, or of people."""
        ordered = sorted(records, key=lambda each: each.create_timestamp)
        if committed_at is not None:
            ordered = [each for each in ordered if (began := _start(each)) is not None and began <= committed_at]
        return cls(ordered, committed_at)

    @property
    def is_under_way(self) -> bool:
        return any(each.dagster_run.status in _UNDER_WAY for each in self.records)

    @property
    def ended_badly(self) -> list[datetime]:
        """Ends of the failed runs."""
        failed = (each for each in self.records if each.dagster_run.status in ENDED_BADLY)
        return [_moment(each.end_time) or each.update_timestamp for each in failed]

    @property
    def succeeded(self) -> list[datetime]:
        """Ends of the runs that succeeded, such as runs that had nothing to commit."""
        done = (each for each in self.records if each.dagster_run.status == dg.DagsterRunStatus.SUCCESS)
        return [_moment(each.end_time) or each.update_timestamp for each in done]

    @property
    def started(self) -> list[datetime]:
        return [began for each in self.records if (began := _start(each)) is not None]

    @property
    def are_backfills(self) -> bool:
        causes = [cause_of(each.dagster_run) for each in self.records]
        tagged = ["dagster/backfill" in each.dagster_run.tags for each in self.records]
        return bool(causes) and all(cause == _BACKFILL or tag for cause, tag in zip(causes, tagged, strict=True))


def _timed(
    table: LakeTable[...],
    key: str,
    end: datetime,
    activity: Activity,
    upstream: Mapping[str, Activity],
    records: Sequence[dg.RunRecord],
    now: datetime,
) -> TimedRun:
    """Return the times of one partition."""
    held = activity.partitions.get(key)
    attempts = _Attempts.of(records, held.first_at if held else None)
    ready_at, last_input = _inputs(table, key, upstream)
    outcome: Any = "not started"
    ended = None
    if held is not None:
        outcome, ended = "succeeded", held.first_at
    elif attempts.is_under_way:
        outcome = "running"
    elif attempts.succeeded:
        outcome, ended = "succeeded", max(attempts.succeeded)
    elif attempts.ended_badly:
        outcome, ended = "failed", max(attempts.ended_badly)
    is_backfill = attempts.are_backfills or (not records and _cause(activity, key) == _BACKFILL)
    started = _task_start(attempts, activity, ready_at, ended or now)
    return TimedRun(
        partition=key,
        ends_at=end,
        outcome=outcome,
        started_at=started,
        ended_at=ended,
        inputs_ready_at=ready_at,
        last_input=last_input,
        is_backfill=is_backfill,
    )


def _task_start(attempts: _Attempts, activity: Activity, ready_at: datetime | None, until: datetime) -> datetime | None:
    """Return the start of the work on the table by the first attempt.

    A run may compute upstream tables first, and several partitions one after the other: the work begins once the inputs
    are there, and the previous partition of the run is committed.
    """
    if not attempts.started:
        return None
    first = min(attempts.started)
    mine = {each.dagster_run.run_id for each in attempts.records}
    before = [each.at for each in activity.arrivals if each.run_id in mine and first <= each.at < until]
    later = [each for each in (ready_at, *before) if each is not None and first <= each <= until]
    return max([first, *later])


def _inputs(table: LakeTable[...], key: str, upstream: Mapping[str, Activity]) -> tuple[datetime | None, str]:
    """Return time and table of the upstream partition that was committed last.

    Returns:
        Time and table; no time and the table for a missing partition; nothing and an empty name without inputs.
    """
    ready: list[tuple[datetime, str]] = []
    for spec, feed in table.reads.tables.items():
        known = upstream.get(spec.name)
        keys = _keys(spec.partition_by, feed, key)
        if known is None or not keys:
            continue
        is_there, at = _ready(known, keys, needs_all=feed.fan_in is not None and not feed.fan_in.ended)
        if not is_there:
            return None, spec.name
        if at is not None:
            ready.append((at, spec.name))
    return max(ready, default=(None, ""))


def _keys(partition_by: Sequence[str], feed: Feed, key: str) -> list[str]:
    """List the upstream partition keys whose commits make the inputs of a key ready."""
    column = partition_by[0] if partition_by else ""
    values = [each.get(column) for each in feed.markers(key)] if feed.reads(key) else []
    return [each for each in values if each is not None]


def _ready(upstream: Activity, keys: Sequence[str], *, needs_all: bool) -> tuple[bool, datetime | None]:
    """Return whether upstream partitions are committed, and the last time of the first commits."""
    there = [upstream.partitions[each] for each in keys if each in upstream.partitions]
    is_there = bool(there) and (len(there) == len(keys) or not needs_all)
    return is_there, max((each.first_at for each in there if each.first_at is not None), default=None)


def _cause(activity: Activity, key: str) -> str:
    """Return the cause of the run that brought the first rows of a partition; empty for an unknown run."""
    return next((each.cause for each in activity.arrivals if each.partition == key), "")


def _start(record: dg.RunRecord) -> datetime | None:
    return _moment(record.start_time)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
