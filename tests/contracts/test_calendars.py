"""Calendars: every detector takes a partition for the time that the definition of the partitions says.

A week, a month, a day of another zone, a day that begins at six: whatever Dagster can define is judged once it is over
by its own calendar, or refused when the module is loaded.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.catalogue.calendars import calendar_of
from dedp_assets.graph.declare import About, Baseline, Due, Expects, LakeTable, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.observe.deadlines import timed_runs
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, DataArrival, PartitionSize
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.observability.flow_interruption_detector import detect_interruption
from dedp_assets.patterns.observability.freshness_check import check_freshness
from dedp_assets.patterns.observability.skew_detector import detect_partition_skew, detect_skew
from dedp_assets.patterns.observability.sla_misses_detector import detect_sla_misses

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Auckland"]
HOUR = timedelta(hours=1)
STRICT = Baseline(tolerance=0.001)


@st.composite
def definitions(draw: st.DrawFn) -> dg.TimeWindowPartitionsDefinition:
    """Partitions by hours, days, weeks, months and quarters, of any zone and with any offset."""
    zone, hour = draw(st.sampled_from(ZONES)), draw(st.integers(0, 23))
    stated = {"timezone": zone, "end_offset": draw(st.integers(0, 1))}
    kind = draw(st.sampled_from(["hours", "days", "weeks", "months", "months by name", "quarters"]))
    if kind == "hours":
        return dg.HourlyPartitionsDefinition("2026-01-01-00", fmt="%Y-%m-%d-%H", **stated)
    if kind == "days":
        return dg.DailyPartitionsDefinition("2025-12-01", hour_offset=hour, **stated)
    if kind == "weeks":
        return dg.WeeklyPartitionsDefinition("2025-10-06", day_offset=draw(st.integers(0, 6)), **stated)
    if kind == "months":
        return dg.MonthlyPartitionsDefinition("2025-02-01", day_offset=draw(st.integers(1, 28)), **stated)
    cron, fmt, start = (
        ("0 0 1 */3 *", "%Y-%m-%d", "2024-01-01") if kind == "quarters" else ("0 0 1 * *", "%Y-%m", "2025-03")
    )
    return dg.TimeWindowPartitionsDefinition(start=start, fmt=fmt, cron_schedule=cron, **stated)


MOMENTS = st.datetimes(datetime(2026, 1, 25), datetime(2026, 12, 20), timezones=st.just(timezone.utc))  # noqa: DTZ001


def windows_until(partitions, now, count=9):
    """Key and window of the newest partitions that have begun, oldest first."""
    begin = now - timedelta(days=2 if isinstance(partitions, dg.HourlyPartitionsDefinition) else 30)
    while True:
        keys = partitions.get_partition_keys_in_time_window(dg.TimeWindow(max(partitions.start, begin), now))
        if len(keys) > count or begin < partitions.start:
            return [(key, partitions.time_window_for_partition_key(key)) for key in keys[-count:]]
        begin -= timedelta(days=60)


def filled(windows, now, rows=1000, last=None):
    """Activity of partitions of equal size; the newest one that is over may have another, and the open one has few."""
    over = [key for key, window in windows if window.end <= now]
    sizes = {
        key: PartitionSize(rows=10 if window.end > now else rows, size=10 if window.end > now else rows, files=1)
        for key, window in windows
    }
    if last is not None:
        sizes[over[-1]] = PartitionSize(rows=last, size=last, files=1)
    return over, sizes


@given(definitions(), MOMENTS)
def test_a_volume_is_judged_once_the_partition_is_over(partitions, now):
    """By its own calendar: what is half there is no trouble, and half of the usual rows is one all the time after."""
    windows, calendar = windows_until(partitions, now), calendar_of(partitions)
    over, sizes = filled(windows, now)
    (found,) = detect_skew(Activity(table="a/b", partitions=sizes, calendar=calendar), now).measurements
    assert (found.verdict, found.partition) == ("ok", over[-1])
    _, halved = filled(windows, now, last=400)
    activity = Activity(table="a/b", partitions=halved, calendar=calendar)
    assert detect_skew(activity, now).verdict == "fail"
    assert detect_partition_skew(Activity(table="a/b", partitions=sizes, calendar=calendar), now).verdict == "ok"


@given(definitions(), MOMENTS)
def test_a_long_day_may_have_more_rows(partitions, now):
    """An hour more where clocks are put back, and three days more than in February, at the same rate."""
    over = [(key, window) for key, window in windows_until(partitions, now, count=30) if window.end <= now]
    calendar = calendar_of(partitions)
    rows = {key: int(calendar(key).seconds / 36) for key, _ in over}
    sizes = {key: PartitionSize(rows=each, size=each, files=1) for key, each in rows.items()}
    found = detect_skew(Activity(table="a/b", partitions=sizes, calendar=calendar), now, baseline=STRICT)
    assert found.verdict == ("ok" if len(over) > 1 else "unknown")


@given(definitions(), MOMENTS, st.integers(0, 40))
def test_a_partition_ages_from_its_end(partitions, now, missing):
    """Neither from the end of a UTC day, nor while it lasts; none of the past lies in the future."""
    windows, calendar = windows_until(partitions, now), calendar_of(partitions)
    kept = windows[: max(len(windows) - missing, 1)]
    sizes = {key: PartitionSize(rows=1, size=1, files=1) for key, _ in kept}
    limits = {"warn_minutes": 1.0, "fail_minutes": 1e9, "by": "partition"}
    found = check_freshness(Activity(table="a/b", version=1, partitions=sizes, calendar=calendar), now, **limits)
    age, ahead = found.measurements
    assert age.value == max((now - kept[-1][1].end).total_seconds(), 0)
    assert ahead.value == 0


@given(definitions(), MOMENTS)
def test_an_arrival_of_a_newer_partition_shows_that_the_flow_is_alive(partitions, now):
    """And one of an older partition is a backfill."""
    windows, calendar = windows_until(partitions, now), calendar_of(partitions)
    arrivals = [
        DataArrival(version=number, at=now - (len(windows) - number) * HOUR, rows=1, partition=key)
        for number, (key, _) in enumerate(windows)
    ]
    backfill = DataArrival(version=99, at=now, rows=1, partition=windows[0][0])
    for more, hours in ((), 1), ([backfill], 1 if len(windows) > 1 else 0):
        activity = Activity(table="a/b", arrivals=(*arrivals, *more), calendar=calendar)
        gap = detect_interruption(activity, now, max_gap_seconds=1e6, head_only=True).measurements[0]
        assert gap.value == hours * 3600


def declared(partitions: dg.PartitionsDefinition, expects: Expects) -> LakeTable[...]:
    """A table by some partitions that nobody computes."""

    def build(step: Step, into: Target) -> WriteResult:
        raise AssertionError("nobody computes it")

    columns = {"id": Column("BIGINT"), "day": Column("STRING")}
    upstream, spec = (TableSpec(name, columns, partition_by=("day",), comment="x") for name in ("bronze/a", "silver/a"))
    return lake_table(
        spec,
        reads=Reads({upstream: same("day")}),
        runs=Runs(partitions),
        about=About("team:x", expects=expects),
        patterns=[Table.overwrite],
        code_version="1",
    )(build)


@given(definitions(), MOMENTS)
def test_a_partition_is_due_after_its_end(partitions, now):
    """At the first such time after; it is late from then on, and never before."""
    due = Due("06:40", zone="Europe/Berlin")
    table, windows = declared(partitions, Expects(due=due)), windows_until(partitions, now, count=200)
    over = [(key, window) for key, window in windows if window.end <= now]
    sizes = {key: PartitionSize(rows=1, size=1, files=1, first_at=window.end) for key, window in over[:-1]}
    activity = Activity(table="silver/a", version=1, partitions=sizes, calendar=calendar_of(partitions))
    timed = timed_runs(table, activity, {}, [], now, due=due, days=3)
    found = detect_sla_misses(timed, now, due=due, table="silver/a", recent_hours=1)
    missing, deadline = over[-1][0], due.deadline(over[-1][1].end)
    is_late = bool(sizes) and deadline <= now <= deadline + timedelta(days=3)
    assert {each.partition for each in found.troubles} == ({missing} if is_late else set())


@pytest.mark.parametrize(
    ("partitions", "expects", "sentence"),
    [
        (
            dg.MonthlyPartitionsDefinition("01-2026", fmt="%m-%Y"),
            Expects(),
            "keys that sort in time, such as 2026-01-31",
        ),
        (dg.DailyPartitionsDefinition("05.01.2026", fmt="%d.%m.%Y"), Expects(), "keys that sort in time"),
        (
            dg.WeeklyPartitionsDefinition("2026-01-05"),
            Expects(volume=Baseline(season="weekday")),
            "expects.volume.season must be none for partitions longer than a day, not weekday",
        ),
        (
            dg.MonthlyPartitionsDefinition("2026-01-01"),
            Expects(volume=Baseline(season="hour")),
            "expects.volume.season must be none for partitions longer than a day, not hour",
        ),
        (
            dg.StaticPartitionsDefinition(["2026-01-05", "x"]),
            Expects(volume=Baseline()),
            "must come with partitions of",
        ),
        (dg.StaticPartitionsDefinition(["a"]), Expects(due=Due("06:00")), "must come with partitions of days"),
    ],
)
def test_what_no_calendar_says_is_refused_when_the_module_is_loaded(partitions, expects, sentence):
    """By the option, with what it must be."""
    with pytest.raises(ConfigError, match=sentence):
        declared(partitions, expects)


@pytest.mark.parametrize("partitions", [None, dg.DailyPartitionsDefinition("2026-01-05", timezone="Asia/Tokyo")])
def test_an_hour_of_a_local_day_is_of_that_day(partitions):
    """A key is a UTC day where nothing else is declared."""
    span = calendar_of(partitions)("2026-03-10")
    assert span.begin == datetime(
        2026, 3, 10 if partitions is None else 9, 0 if partitions is None else 15, tzinfo=timezone.utc
    )
    assert (span.seconds, span.weekday, span.hour) == (86_400, 1, 0)


def test_a_key_between_two_windows_names_no_time():
    """Such as a Wednesday among weeks that begin on Mondays, or what is no key at all."""
    weeks = dg.WeeklyPartitionsDefinition("2026-01-05", day_offset=1)
    calendar = calendar_of(weeks)
    assert calendar("2026-01-12").seconds == 7 * 86_400
    assert [calendar(key) for key in ("2026-01-14", "DE", "", "9999-12-31", "2026-02-30")] == [None] * 5
    assert calendar_of(dg.StaticPartitionsDefinition(["2026-01-05"]))("2026-01-05") is None
