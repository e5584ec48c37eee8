"""Rounds of all detectors over the declared tables, from logs, run storage and samples of positions.

No engine is started and no row is read. What a round remembers of the logs only saves work: from nothing, it finds the
same. The samples of positions are not in any log, and belong into a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import dagster as dg

from dedp_assets.graph.catalogue.calendars import calendar_of
from dedp_assets.graph.declare.defaults import EARLIER, LATE_HOURS, STALLED_SECONDS
from dedp_assets.graph.declare.expects import Expects
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.observe.deadlines import Timings, timed_runs
from dedp_assets.graph.observe.lags import LagCache, lags
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.measuring.activity import Activity
from dedp_assets.patterns.core.measuring.measurements import Measured
from dedp_assets.patterns.core.measuring.partition_times import utc_span
from dedp_assets.patterns.core.measuring.usual import reach
from dedp_assets.patterns.core.parsing.field_census import FieldCensus
from dedp_assets.patterns.core.parsing.field_changes import measure_fields
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import ActivityLog
from dedp_assets.patterns.observability._lags.lag_samples import keep_samples
from dedp_assets.patterns.observability._timing.volumes import next_completion
from dedp_assets.patterns.observability.flow_interruption_detector import (
    EndOffset,
    detect_interruption,
    detect_silent_partitions,
)
from dedp_assets.patterns.observability.lag_detector import LagSample, detect_lag
from dedp_assets.patterns.observability.skew_detector import detect_partition_skew, detect_skew
from dedp_assets.patterns.observability.sla_misses_detector import detect_sla_misses

__all__ = ["RoundResult", "Rounds"]

_MINUTE = 60
_WINDOW_SECONDS = 6 * 3600
_REACH = 1.25
_DEADLINE_DAYS = 3
_END = datetime.max.replace(tzinfo=timezone.utc)
Runs = Callable[[LakeTable[...]], Sequence[dg.RunRecord]]
"""Function that returns the recent runs of a table."""


def without_runs(_: LakeTable[...]) -> Sequence[dg.RunRecord]:
    """Return no runs."""
    return ()


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The outcome of a round.

    Attributes:
        measured: the measurements of all detectors.
        unjudged: table -> why nothing can be said of it: a log that cannot be read, or a fault of a detector.
        activities: table -> what its log tells.
    """

    measured: Measured
    unjudged: Mapping[str, str]
    activities: Mapping[str, Activity]


@dataclass(frozen=True, slots=True)
class _Volumes:
    """The judgement of a table's volumes, which the present time alone does not change for a while.

    Attributes:
        activity: what the table's log told.
        since: when it was judged.
        until: when the next partition is complete; ``None`` if all are.
        measured: the measurements.
    """

    activity: Activity
    since: datetime
    until: datetime | None
    measured: Measured


@dataclass(slots=True)
class Rounds:
    """Repeated rounds of all detectors, with the logs read so far.

    Attributes:
        tables: the declared tables of the graph.
        samples: positions of producers and consumers over the last hours, to be kept over restarts.
    """

    tables: Sequence[LakeTable[...]]
    samples: list[LagSample] = field(default_factory=list)
    _logs: dict[str, ActivityLog] = field(default_factory=dict, init=False)
    _volumes: dict[str, _Volumes] = field(default_factory=dict, init=False)
    _timings: dict[str, Timings] = field(default_factory=dict, init=False)
    _lagging: LagCache | None = field(default=None, init=False)

    def judge(
        self, lake: Lake, now: datetime, *, runs: Runs = without_runs, samples: Sequence[LagSample] = ()
    ) -> RoundResult:
        """Read new commits, and judge every table by the expectations.

        Args:
            lake: the tables.
            now: current time, with time zone.
            runs: recent runs of a table, for deadlines.
            samples: positions of further producers and consumers, such as topics.
        """
        activities, unjudged = self._read(lake)
        measured, goes_on = Measured(), not lake.is_demo()
        for table in self._judgeable(unjudged):
            activity = activities[table.spec.name]
            with unjudged.at(table.spec.name):
                measured += self._of_volumes(table, activity, now)
                measured += _gaps(table, activity, now) if goes_on else Measured()
        measured += self._deadlines(activities, unjudged, runs, now) if goes_on else Measured()
        measured += self._lags(lake, unjudged, samples, now)
        return RoundResult(measured, unjudged, activities)

    def _read(self, lake: Lake) -> tuple[dict[str, Activity], TableErrors]:
        """Poll the log of each table that has expectations, or that feeds one with a deadline."""
        found, unjudged = dict[str, Activity](), TableErrors()
        calendars = {spec.name: calendar_of(table.runs.partitions) for table in self.tables for spec in table.tables}
        for spec in self._watched():
            calendar = calendars.get(spec.name, utc_span)
            log = self._logs.setdefault(spec.name, ActivityLog(spec.event_time, spec.partition_by[:1], calendar))
            with unjudged.at(spec.name):
                found[spec.name] = log.poll(lake.ledger(spec.name))
        return found, unjudged

    def _watched(self) -> list[TableSpec]:
        expecting = [table for table in self.tables if not table.about.expects.is_empty]
        feeding = [spec for table in expecting if table.about.expects.due for spec in table.reads.tables]
        return list(dict.fromkeys([*(table.spec for table in expecting), *feeding]))

    def _judgeable(self, unjudged: TableErrors) -> Iterator[LakeTable[...]]:
        for table in self.tables:
            if not table.about.expects.is_empty and table.spec.name not in unjudged:
                yield table

    def _of_volumes(self, table: LakeTable[...], activity: Activity, now: datetime) -> Measured:
        """Judge volumes, or take the last judgement of the same partitions."""
        known = self._volumes.get(table.spec.name)
        if known is None or known.activity is not activity or not known.since <= now < (known.until or _END):
            until = next_completion(activity, now)
            known = self._volumes[table.spec.name] = _Volumes(activity, now, until, _volumes(table, activity, now))
        return Measured(tuple(replace(each, at=now) for each in known.measured.measurements))

    def _deadlines(
        self, activities: Mapping[str, Activity], unjudged: TableErrors, runs: Runs, now: datetime
    ) -> Measured:
        found = Measured()
        for table in self._judgeable(unjudged):
            due, name = table.about.expects.due, table.spec.name
            if due is None:
                continue
            upstream = {spec.name: activities[spec.name] for spec in table.reads.tables if spec.name in activities}
            with unjudged.at(name):
                timed = timed_runs(
                    table,
                    activities[name],
                    upstream,
                    runs(table),
                    now,
                    due=due,
                    days=_DEADLINE_DAYS,
                    timings=self._timings.setdefault(name, Timings()),
                )
                found += detect_sla_misses(timed, now, due=due, table=name, recent_hours=LATE_HOURS)
        return found

    def _lags(self, lake: Lake, unjudged: TableErrors, samples: Sequence[LagSample], now: datetime) -> Measured:
        limiting = [table for table in self.tables if _limits_lag(table)]
        limited = {table.spec.name: table.about.expects for table in limiting if table.spec.name not in unjudged}
        new = list(samples)
        if limited:
            self._lagging = self._lagging or LagCache(Overview(limiting))
            new += [each for each in lags(limiting, lake, now, known=self._lagging) if each.consumer in limited]
        # Samples of a clock that was ahead would lie behind the present ones, and tell of positions that go back.
        known = [each for each in self.samples if each.seen_at <= now]
        # Who lags by as much as a limit allows is told by samples from before, the first of which leaves the window.
        longest = max((each.about.expects.lag_minutes or 0 for each in self.tables), default=0) * _MINUTE
        self.samples = keep_samples(known, new, window_seconds=_WINDOW_SECONDS + _REACH * longest)
        by_consumer: dict[str, list[LagSample]] = {}
        for each in self.samples:
            by_consumer.setdefault(each.consumer, []).append(each)
        found = Measured()
        stated = {table.spec.name: table.about.expects for table in self._judgeable(unjudged)}
        for name, of in by_consumer.items():
            expects = stated.get(name)
            seconds = expects.lag_minutes * _MINUTE if expects and expects.lag_minutes else None
            rows = expects.lag_rows if expects else None
            # A consumer may stand still for as long as its limit allows a row to wait.
            window = max(STALLED_SECONDS, seconds or 0)
            found += detect_lag(of, now, fail_above_rows=rows, fail_above_seconds=seconds, window_seconds=window)
            found += _silences(expects, of, now) if expects else Measured()
        return found


def _limits_lag(table: LakeTable[...]) -> bool:
    return bool(table.about.expects.lag_minutes or table.about.expects.lag_rows)


def _gaps(table: LakeTable[...], activity: Activity, now: datetime) -> Measured:
    """Judge the arrivals of a table."""
    expects = table.about.expects
    if not (expects.every_minutes or expects.gap_minutes):
        return Measured()
    return detect_interruption(
        activity,
        now,
        every_seconds=(expects.every_minutes or 0) * _MINUTE,
        max_gap_seconds=(expects.gap_minutes or 0) * _MINUTE,
        quiet=expects.quiet,
    )


def _silences(expects: Expects, samples: Sequence[LagSample], now: datetime) -> Measured:
    """Judge the partitions of the topics that a table reads, by samples of the table's positions."""
    if not expects.partition_gap_minutes:
        return Measured()
    ends: dict[str, list[EndOffset]] = {}
    for each in samples:
        if each.partition:
            end = EndOffset(partition=each.partition, offset=each.produced, seen_at=each.seen_at)
            ends.setdefault(each.producer, []).append(end)
    found = Measured()
    for topic, of in ends.items():
        gap = expects.partition_gap_minutes * _MINUTE
        silent = detect_silent_partitions(of, now, topic=topic, max_gap_seconds=gap, quiet=expects.quiet)
        # A topic without records may have nothing to tell, and the lag tells of a topic that was made again.
        found += Measured(tuple(each for each in silent.measurements if each.partition))
    return found


def _volumes(table: LakeTable[...], activity: Activity, now: datetime) -> Measured:
    """Judge the volumes of a table's partitions, and the fields of the records read for the newest."""
    expects, found = table.about.expects, Measured()
    if expects.volume is not None:
        found += detect_skew(activity, now, baseline=expects.volume)
    if expects.variation is not None:
        found += detect_partition_skew(activity, now, max_variation=expects.variation)
    return found + _fields(activity, now)


def _fields(activity: Activity, now: datetime) -> Measured:
    """Judge the fields of the newest counted partition by the partitions before."""
    newest = sorted(activity.fields, reverse=True)[: reach(EARLIER) + 1]
    if not newest:
        return Measured()
    census, *earlier = (FieldCensus.from_dict(activity.fields[key]) for key in newest)
    return measure_fields(activity.table, now, partition=newest[0], census=census, earlier=earlier)
