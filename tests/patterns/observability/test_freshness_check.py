"""Freshness Check."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, DataArrival, PartitionSize
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.delta import ActivityLog, Ledger
from dedp_assets.patterns.observability.freshness_check import check_freshness
from tests.logs import LogOverTime

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
NAME = "silver/orders"
HALF = {"warn_minutes": 30, "fail_minutes": 60}


def after(minutes):
    return NOON + timedelta(minutes=minutes)


def event(minutes, **more):
    newest = None if minutes is None else after(minutes)
    return DataArrival(**{"version": 1, "at": NOON, "rows": 5, "newest_event": newest, **more})


def orders(*arrivals, partitions=("2026-01-05",), rows=5):
    sizes = {key: PartitionSize(rows=rows, size=100, files=1) for key in partitions}
    return Activity(table=NAME, version=1, arrivals=arrivals, partitions=sizes)


def judge(activity, now, **options):
    age, future = check_freshness(activity, now, **{**HALF, **options}).measurements
    assert (age.metric, age.unit, age.table, age.at) == ("age", "s", NAME, now)
    assert future.metric.startswith("future_")
    return age


@pytest.mark.parametrize(
    ("minutes", "verdict"), [(29, "ok"), (30, "ok"), (31, "warn"), (60, "warn"), (61, "fail"), (10**4, "fail")]
)
@pytest.mark.parametrize("by", ["event", "arrival", "partition"])
def test_the_age_has_three_levels(minutes, verdict, by):
    """29 and 30 minutes are fresh, 31 minutes are not; the same for an event, an arrival and a partition's end."""
    activity = orders(event(0), partitions=("2026-01-05-11",))
    age = judge(activity, after(minutes), by=by)
    assert (age.verdict, age.value, age.since) == (verdict, minutes * 60, NOON)
    assert (age.target, age.at_most, bool(age.reason)) == (1800, 3600, verdict != "ok")


@pytest.mark.parametrize("by", ["event", "arrival", "partition"])
@pytest.mark.parametrize(
    ("activity", "reason"),
    [
        (Activity(table=NAME), "does not exist"),
        (Activity(table=NAME, version=0), "has no rows"),
        (orders(event(0), partitions=()), "has no rows"),
        (orders(event(0), rows=0), "has no rows"),
    ],
)
def test_a_table_without_rows_fails(activity, reason, by):
    """Never written, or emptied a moment ago: there is nothing that could be fresh."""
    age = judge(activity, NOON, by=by)
    assert (age.verdict, age.value, age.reason) == ("fail", None, f"{NAME} {reason}")


def test_an_event_in_the_future_hides_no_staleness_and_is_a_finding():
    """One row of next year does not make the table fresh for a year; a clock may be a little ahead."""
    activity = orders(event(-90), event(365 * 24 * 60))
    age, future = check_freshness(activity, NOON, **HALF).measurements
    assert (age.verdict, age.value) == ("fail", 5400)
    assert (future.metric, future.verdict, future.value) == ("future_events", "warn", 1)
    assert judge(orders(event(1)), NOON).value == 0
    only = judge(orders(event(365 * 24 * 60)), NOON)
    assert (only.verdict, only.reason) == ("unknown", f"{NAME}: its log does not tell the newest event")


def test_a_commit_and_a_partition_of_the_future_hide_no_staleness_either():
    """Each a finding of what has the age."""
    skewed = orders(event(0, at=after(-90)), event(0, at=after(600)))
    age, future = check_freshness(skewed, NOON, **HALF, by="arrival").measurements
    assert (age.verdict, future.metric, future.verdict) == ("fail", "future_commits", "warn")
    odd = orders(event(0), partitions=("2026-01-03", "2026-02-01"))
    age, future = check_freshness(odd, NOON, **HALF, by="partition").measurements
    assert (age.value, future.metric, future.verdict) == (36 * 3600, "future_partitions", "warn")
    assert future.reason == f"{NAME}: partitions that begin in the future: 1, such as 2026-02-01"


def test_a_run_without_rows_and_a_backfill_move_nothing(tmp_path):
    """A dead source reads as stale, though its runs succeed; a rerun of a partition changes no age."""
    log, reader = LogOverTime(tmp_path / "orders", NAME), ActivityLog(event_time="happened_at")
    log.create(after(-600))
    log.write(after(-100), "2026-01-05", 9, newest=after(-101))
    ledger = Ledger(log.location, name=NAME)
    first = [judge(reader.poll(ledger), NOON, by=by) for by in ("event", "arrival")]
    assert [each.value for each in first] == [101 * 60, 6000]
    log.empty(after(-2))
    log.write(after(-1), "2026-01-05", 0, append=True)
    log.optimize(after(-1))
    assert [judge(reader.poll(ledger), NOON, by=by) for by in ("event", "arrival")] == first
    log.write(after(-1), "2025-12-01", 50, newest=after(-60 * 24 * 35))
    log.write(after(-1), "2026-01-05", 9, newest=after(-101))
    assert judge(reader.poll(ledger), NOON) == first[0]


def test_a_missing_day_fails_once_the_next_one_was_expected():
    """Yesterday's partition is due by six: before, its absence is none; the reason names it, and a backfill ends it."""
    by_six = {"warn_minutes": 24 * 60, "fail_minutes": 30 * 60, "by": "partition"}
    held = orders(event(0), partitions=("2026-01-02", "2026-01-03"))
    assert judge(held, datetime(2026, 1, 4, 12, tzinfo=timezone.utc), **by_six).verdict == "ok"
    assert judge(held, datetime(2026, 1, 5, 6, tzinfo=timezone.utc), **by_six).verdict == "warn"
    late = judge(held, datetime(2026, 1, 5, 6, 1, tzinfo=timezone.utc), **by_six)
    assert late.verdict == "fail"
    assert "of 2026-01-04 00:00:00 UTC, and no partition with rows begins then" in late.reason
    held = orders(event(0), partitions=("2026-01-02", "2026-01-03", "2026-01-04"))
    assert judge(held, datetime(2026, 1, 5, 6, 1, tzinfo=timezone.utc), **by_six).verdict == "ok"


@pytest.mark.parametrize(
    ("key", "hours", "end"),
    [
        ("2026-01-04", 0, datetime(2026, 1, 5, tzinfo=timezone.utc)),
        ("2026-01-05-10", 0, after(-60)),
        ("2026-01-05T10:00:00.000000Z", 0, after(-60)),
        ("2026-01-05", 0, NOON),  # lasts
        ("2025-12-29", 168, datetime(2026, 1, 5, tzinfo=timezone.utc)),
        ("2026-02-30", 0, None),
        ("north", 0, None),
        ("", 0, None),
    ],
)
def test_a_partition_ends_with_its_day_or_hour_or_as_long_as_it_is_said_to_be(key, hours, end):
    """A partition that lasts has the age 0, and a key that is no time has none."""
    age = judge(orders(event(0), partitions=(key,)), NOON, by="partition", partition_hours=hours)
    assert (age.since, age.verdict == "unknown") == (end, end is None)


def test_files_without_statistics_leave_the_age_unknown():
    """It is neither fresh nor stale; the arrival still has an age."""
    activity = orders(event(None))
    assert judge(activity, after(500)).verdict == "unknown"
    assert judge(activity, after(500), by="arrival").verdict == "fail"
    assert judge(orders(event(None), rows=None), NOON, by="arrival").verdict == "ok"


def test_rows_do_not_age_in_quiet_hours():
    """From Friday evening to Monday morning, and over a holiday."""
    weekend = QuietHours(zone="UTC", weekdays=("saturday", "sunday"))
    holiday = QuietHours(zone="UTC", dates=(date(2026, 1, 12),))
    friday = datetime(2026, 1, 9, 23, 45, tzinfo=timezone.utc)
    tuesday = datetime(2026, 1, 13, 0, 15, tzinfo=timezone.utc)
    activity = orders(event(0, newest_event=friday))
    assert judge(activity, tuesday, quiet=[weekend, holiday]).value == 1800
    assert judge(activity, tuesday, quiet=[weekend]).verdict == "fail"


@given(st.lists(st.integers(-200, 200), max_size=8), st.integers(1, 100), st.integers(0, 100))
def test_the_age_is_that_of_the_newest_event_that_is_not_in_the_future(minutes, warn, more):
    """Whatever the order of the arrivals, and whatever the future holds."""
    activity = orders(*map(event, minutes))
    options = {"warn_minutes": warn, "fail_minutes": warn + more, "tolerance_seconds": 0}
    age, future = check_freshness(activity, NOON, **options).measurements
    past = [-each for each in minutes if each <= 0]
    assert age.value == (min(past) * 60 if past else None)
    levels = {"ok": warn, "warn": warn + more}
    wanted = next((level for level, most in levels.items() if past and min(past) <= most), "fail")
    assert age.verdict == (wanted if past else "unknown")
    assert future.value == len(minutes) - len(past)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warn_minutes": 0}, "warn_minutes must be above 0 and at most fail_minutes=60, not 0"),
        ({"warn_minutes": 61}, "warn_minutes must be above 0 and at most fail_minutes=60, not 61"),
        ({"by": "rows"}, "by must be event, partition or arrival, not 'rows'"),
        ({"partition_hours": -1}, "partition_hours must be from 0 to 8784, a year, not -1"),
        ({"tolerance_seconds": -1}, "tolerance_seconds must be from 0 to 86400"),
    ],
)
def test_options_that_can_never_work_are_refused(options, message):
    """By their names."""
    with pytest.raises(ConfigError, match=message):
        check_freshness(orders(event(0)), NOON, **{**HALF, **options})
