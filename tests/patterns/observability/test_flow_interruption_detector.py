"""Flow Interruption Detector."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, DataArrival
from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.delta import ActivityLog, Ledger
from dedp_assets.patterns.observability.flow_interruption_detector import (
    EndOffset,
    detect_interruption,
    detect_silent_partitions,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW
from tests.logs import LogOverTime

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)  # a Monday
NAME = "silver/visits"
FIVE = {"max_gap_seconds": 300}
MINUTELY = {"every_seconds": 60}


def after(minutes=0, seconds=0):
    return NOON + timedelta(minutes=minutes, seconds=seconds)


def active(*arrivals):
    """Arrivals of a row each at minutes after noon, or as they are given."""
    made = [a if isinstance(a, DataArrival) else arrival(a) for a in arrivals]
    return Activity(table=NAME, version=len(made), arrivals=tuple(made))


def arrival(minutes, **more):
    return DataArrival(**{"version": 1, "at": after(minutes), "rows": 1, **more})


def judge(activity, now, **options):
    gap, commits, events = detect_interruption(activity, now, **options).measurements
    assert (gap.metric, gap.unit, gap.table, gap.at) == ("gap", "s", NAME, now)
    assert (commits.metric, events.metric) == ("future_commits", "future_events")
    return gap


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(0, "ok"), (60, "ok"), (119, "ok"), (120, "fail"), (121, "fail"), (600, "fail")]
)
def test_a_continuous_delivery_fails_after_one_empty_unit(seconds, verdict):
    """The producer runs and commits nothing more; the present minute is never judged, though it is empty, too."""
    assert judge(active(0), after(seconds=seconds), **MINUTELY).verdict == verdict


def test_units_begin_at_multiples_of_their_length():
    """A row in the last second of a minute leaves the next minute to be judged."""
    activity = active(arrival(0, at=after(0, 59)))
    assert judge(activity, after(1, 59), **MINUTELY).verdict == "ok"
    assert judge(activity, after(2), **MINUTELY).verdict == "fail"


@pytest.mark.parametrize(("minutes", "seconds", "verdict"), [(4, 59, "ok"), (5, 0, "ok"), (5, 1, "fail")])
def test_an_irregular_delivery_fails_beyond_the_gap(minutes, seconds, verdict):
    """4:59 does not alert, 5:01 does; the measurement says since when, how long and how long is allowed."""
    gap = judge(active(-30, 0), after(minutes, seconds), **FIVE)
    assert (gap.verdict, gap.value, gap.at_most, gap.since) == (verdict, minutes * 60 + seconds, 300, NOON)
    assert gap.reason == ("" if verdict == "ok" else f"{NAME}: no row for 5.02 min, since 2026-01-05 12:00:00 UTC")


@pytest.mark.parametrize("options", [FIVE, MINUTELY])
def test_the_flow_is_well_again_once_rows_come(options):
    """One trouble from its beginning to its end, with the same start."""
    for minute in (6, 7, 30):
        gap = judge(active(0), after(minute), **options)
        assert (gap.verdict, gap.since) == ("fail", NOON)
    assert judge(active(0, 31), after(31, 10), **options).verdict == "ok"


def test_commits_without_rows_and_maintenance_do_not_reset_the_gap(tmp_path):
    """Of one fault, every layer: changed properties, OPTIMIZE, VACUUM, a delete, an empty append; a crash adds nothing.

    The newest commit, the newest file and the table's time of change are all of a minute ago.
    """
    log, reader = LogOverTime(tmp_path / "visits", NAME), ActivityLog()
    log.create(after(-60))
    for minute in (-2, -1, 0):
        log.write(after(minute), "2026-01-05", 10, append=True)
    log.write(after(-1), "2026-01-04", 10)
    ledger = Ledger(log.location, name=NAME)
    assert judge(reader.poll(ledger), after(1), **FIVE).verdict == "ok"
    log.alter(after(6), **{"delta.appendOnly": "false"})
    log.optimize(after(7))
    log.vacuum(after(7))
    log.delete(after(8), "2026-01-04")
    log.empty(after(8))
    log.write(after(9), "2026-01-05", 0, append=True)
    orphan = log.location / "2026-01-05" / "part-of-a-crash.parquet"  # written, and never committed
    orphan.parent.mkdir()
    orphan.write_bytes(b"x")
    gap = judge(reader.poll(ledger), after(10), **FIVE)
    assert (gap.verdict, gap.value, gap.since) == ("fail", 600, NOON)
    log.write(after(10), "2026-01-05", 1, append=True)
    assert judge(reader.poll(ledger), after(10), **FIVE).verdict == "ok"


def test_an_arrival_without_rows_and_a_restore_are_no_rows():
    """Rows count, not commits; a restore makes old rows current again, and no producer sent them."""
    activity = active(0, arrival(9, rows=0), arrival(9, restores=True, rows=100))
    assert judge(activity, after(10), **FIVE).value == 600
    assert judge(active(arrival(9, restores=True)), after(10), **FIVE).verdict == "unknown"


NIGHT = QuietHours(zone="Europe/Berlin", start="22:00", end="06:00")
WEEKEND = QuietHours(zone="Europe/Berlin", weekdays=("saturday", "sunday"))
HOLIDAY = QuietHours(zone="Europe/Berlin", dates=(date(2026, 1, 6),))


def at(day, hour, minute=0):
    """A time in Berlin in January."""
    return datetime(2026, 1, day, hour - 1, minute, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("last", "now", "verdict"),
    [
        (at(5, 21, 58), at(6, 6, 3), "ok"),  # two minutes before the night and three after it
        (at(5, 21, 58), at(6, 6, 4), "fail"),
        (at(5, 21, 50), at(5, 23, 0), "fail"),  # was interrupted before the night
        (at(9, 21, 59), at(12, 6, 3), "ok"),  # over a weekend
        (at(9, 21, 59), at(12, 6, 5), "fail"),
    ],
)
def test_quiet_hours_do_not_count_towards_a_gap(last, now, verdict):
    """Nor do weekends; what was interrupted before them still is."""
    assert judge(active(arrival(0, at=last)), now, **FIVE, quiet=[NIGHT, WEEKEND]).verdict == verdict


def test_a_holiday_and_a_continuous_delivery_with_quiet_hours():
    """Hours that are quiet in whole do not count; of an hour that is quiet in part, the rest does."""
    hourly = {"every_seconds": 3600, "quiet": [NIGHT, HOLIDAY]}
    last = active(arrival(0, at=at(5, 21, 30)))
    for now, verdict in [(at(7, 6, 59), "ok"), (at(7, 7), "fail"), (at(6, 12), "ok")]:
        assert judge(last, now, **hourly).verdict == verdict
    half = QuietHours(zone="Europe/Berlin", start="12:30", end="14:00")
    last = active(arrival(0, at=at(5, 11, 30)))
    for now, verdict in [(at(5, 13), "ok"), (at(5, 14, 59), "ok"), (at(5, 15), "fail")]:
        assert judge(last, now, every_seconds=3600, quiet=[half]).verdict == verdict


def test_units_longer_than_every_active_time_are_judged_all_the_same():
    """A unit of a day is never without a night: two empty days are a day without rows."""
    daily = {"every_seconds": 24 * 3600, "quiet": [NIGHT]}
    last = active(arrival(0, at=at(5, 12)))
    assert judge(last, at(7, 12), **daily).verdict == "ok"
    assert judge(last, at(8, 12), **daily).verdict == "fail"


def test_a_commit_time_in_the_future_masks_nothing_and_is_a_finding():
    """Up to the tolerance it is of the present; the finding names the commit, and ends when its time has come."""
    skewed = active(0, arrival(600, version=9))
    gap, commits, events = detect_interruption(skewed, after(6), **FIVE).measurements
    assert (gap.verdict, gap.value) == ("fail", 360)
    assert (commits.verdict, commits.value, commits.at_most) == ("warn", 1, 0)
    assert commits.reason == (
        f"{NAME}: commits with a time in the future: 1, such as version 9 with 2026-01-05 22:00:00 UTC. A writer's "
        "clock is wrong, and these times do not count"
    )
    assert events.verdict == "ok"
    gap, commits, _ = detect_interruption(active(0, arrival(7)), after(6), **FIVE).measurements
    assert (gap.value, commits.verdict) == (0, "ok")
    assert detect_interruption(skewed, after(600), **FIVE).verdict == "ok"


@pytest.mark.parametrize("head_only", [False, True])
def test_an_event_in_the_future_masks_nothing_and_is_a_finding(head_only):
    """The greatest event time is of next year, and rows have stopped all the same."""
    far = after(365 * 24 * 60)
    activity = active(arrival(-1, newest_event=after(-1)), arrival(0, newest_event=far))
    gap, _, events = detect_interruption(activity, after(6), **FIVE, head_only=head_only).measurements
    assert (gap.verdict, gap.since) == ("fail", after(-1) if head_only else NOON)
    assert (events.verdict, events.value, events.since) == ("warn", 1, NOON)
    assert "2027-01-05 12:00:00 UTC" in events.reason
    again = active(*activity.arrivals, arrival(5, newest_event=after(5)))
    assert judge(again, after(6), **FIVE, head_only=head_only).verdict == "ok"


def test_a_backfill_is_a_sign_of_life_and_none_of_the_head():
    """Which of the two counts is an option; by the newest event, or without one by the partition."""
    backfill = arrival(9, newest_event=after(-60 * 24))
    for early in (arrival(0, newest_event=after(0)), arrival(0, newest_event=after(-3))):
        assert judge(active(early, backfill), after(10), **FIVE).verdict == "ok"
        assert judge(active(early, backfill), after(10), **FIVE, head_only=True).since == NOON
    days = [arrival(0, partition="2026-01-05"), arrival(9, partition="2026-01-02")]
    assert judge(active(*days), after(10), **FIVE).verdict == "ok"
    assert judge(active(*days), after(10), **FIVE, head_only=True).verdict == "fail"
    same = arrival(9, partition="2026-01-05")
    assert judge(active(days[0], same), after(10), **FIVE, head_only=True).verdict == "ok"


def test_events_of_the_present_may_be_a_little_out_of_order_at_the_head():
    """By as much as a gap: two producers take turns, and one that is behind is no backfill."""
    turns = [arrival(n, newest_event=after(n - n % 2 * 4)) for n in range(10)]
    assert judge(active(*turns), after(9), **FIVE, head_only=True).since == after(9)


def test_a_table_into_which_nothing_ever_came_is_unknown_until_rows_are_late():
    """On its first run nobody can tell; from a stated time on, the gap begins then."""
    nothing, never = Activity(table=NAME), Activity(table=NAME, version=3)
    gap = judge(nothing, after(60), **FIVE)
    assert (gap.verdict, gap.value, gap.since) == ("unknown", None, None)
    assert gap.reason == f"{NAME} does not exist, and expected_since does not say when rows are late"
    for activity in (nothing, never):
        for minute, verdict in [(-10, "unknown"), (5, "unknown"), (6, "fail")]:
            assert judge(activity, after(minute), **FIVE, expected_since=NOON).verdict == verdict
    late = judge(never, after(6), **FIVE, expected_since=NOON)
    reason = f"{NAME} has no commit with rows in its log, and rows are expected since 2026-01-05 12:00:00 UTC"
    assert (late.reason, late.value) == (reason, 360)
    for seconds, verdict in [(59, "unknown"), (60, "fail")]:
        assert judge(never, after(0, seconds), **MINUTELY, expected_since=NOON).verdict == verdict


def test_rows_that_are_expected_later_are_not_late_now():
    """Old rows are of a trial; the gap begins when the delivery does."""
    for minute, verdict in [(50, "ok"), (64, "ok"), (66, "fail")]:
        assert judge(active(0), after(minute), **FIVE, expected_since=after(60)).verdict == verdict


@given(st.lists(st.integers(0, 100), max_size=8), st.integers(0, 100), st.integers(1, 20))
def test_a_flow_is_interrupted_exactly_if_no_row_came_within_the_gap(minutes, now, gap):
    """Whatever came before, in any order, and whatever came without rows."""
    activity = active(*[arrival(n) for n in minutes], *[arrival(n, rows=0) for n in range(now)])
    verdict = judge(activity, after(now), max_gap_seconds=gap * 60, tolerance_seconds=0).verdict
    past = [n for n in minutes if n <= now]
    wanted = "unknown" if not past else "ok" if any(n >= now - gap for n in past) else "fail"
    assert verdict == wanted


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(0, 90), st.integers(1, 20))
def test_a_continuous_flow_is_interrupted_exactly_if_a_whole_unit_passed_without_rows(minutes, more, unit):
    """Units of any length; the one of the last row and the present one are never empty."""
    now = max(minutes) + more
    verdict = judge(active(*minutes), after(now), every_seconds=unit * 60).verdict
    since_1970 = int(NOON.timestamp()) // 60
    last, present = (since_1970 + max(minutes)) // unit, (since_1970 + now) // unit
    assert verdict == ("fail" if present - last >= 2 else "ok")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "every_seconds or max_gap_seconds must be 1 second or more, and the other one 0, not 0 and 0"),
        ({"every_seconds": 60, "max_gap_seconds": 60}, "and the other one 0, not 60 and 60"),
        ({"every_seconds": 0.5}, "must be 1 second or more, and the other one 0, not 0.5 and 0"),
        ({"max_gap_seconds": -5}, "must be 1 second or more, and the other one 0, not 0 and -5"),
        ({**FIVE, "tolerance_seconds": -1}, "tolerance_seconds must be from 0 to 86400, a day, not -1"),
        ({**FIVE, "tolerance_seconds": 10**6}, "tolerance_seconds must be from 0 to 86400"),
        ({**FIVE, "expected_since": datetime(2026, 1, 5)}, "expected_since must be a datetime with a time zone"),  # noqa: DTZ001
        ({**FIVE, "quiet": ["night"]}, "quiet must be a list of which each is a QuietHours"),
    ],
)
def test_options_that_can_never_work_are_refused(options, message):
    """By their names."""
    with pytest.raises(ConfigError, match=message):
        detect_interruption(active(0), NOON, **options)


def offsets(*looks, every=1):
    """Looks at partitions, a minute apart: offsets by partition; ``None`` for a partition that was not seen."""
    return [
        EndOffset(partition=str(number), offset=offset, seen_at=after(minute * every))
        for minute, look in enumerate(looks)
        for number, offset in enumerate(look)
        if offset is not None
    ]


def silent(ends, now, **options):
    """Verdict of the topic, of its partitions, and of restarts."""
    found = detect_silent_partitions(ends, now, topic="visits", **{**FIVE, **options}).measurements
    topic, *partitions, restarted = found
    assert (topic.partition, restarted.metric, {each.metric for each in found[:-1]}) == ("", "restarted", {"gap"})
    return topic.verdict, [each.verdict for each in partitions], restarted.verdict


@pytest.mark.parametrize(("minutes", "verdict"), [(5, "ok"), (6, "warn")])
def test_a_partition_that_stands_while_others_move_is_silent(minutes, verdict):
    """Beyond the gap and not before; the topic as a whole is alive."""
    looks = [(n, 100, 7 * n) for n in range(minutes + 1)]
    assert silent(offsets(*looks), after(minutes)) == ("ok", ["ok", verdict, "ok"], "ok")
    back = [*looks, (minutes + 1, 101, 99)]
    assert silent(offsets(*back), after(minutes + 1)) == ("ok", ["ok", "ok", "ok"], "ok")


def test_a_topic_in_which_no_partition_moves_is_interrupted_and_its_partitions_tell_nothing():
    """One alarm, and not one for each partition; quiet hours do not count."""
    looks = [(3, 5), (4, 6), *[(4, 6)] * 7]
    assert silent(offsets(*looks), after(8)) == ("fail", ["unknown", "unknown"], "ok")
    quiet = QuietHours(zone="UTC", start="12:02", end="18:00")
    assert silent(offsets(*looks), after(8), quiet=[quiet]) == ("ok", ["ok", "ok"], "ok")


def test_a_topic_that_was_made_again_is_restarted_and_its_gaps_begin_there():
    """No silence, though the end offsets are lower than before; and silence again after a while."""
    looks = [(90, 80), (95, 85), (0, 0), (2, 0)]
    assert silent(offsets(*looks), after(3)) == ("ok", ["ok", "ok"], "warn")
    restarted = detect_silent_partitions(offsets(*looks), after(3), topic="visits", **FIVE).measurements[-1]
    assert (restarted.value, restarted.since) == (2, after(2))
    assert restarted.reason == "visits was made again: the end offset fell in 2 of 2 partitions"
    later = [*looks, *[(n, 0) for n in range(3, 9)]]
    assert silent(offsets(*later), after(9)) == ("ok", ["ok", "warn"], "warn")


def test_time_in_which_nobody_looked_is_no_silence():
    """The detector was restarted, or its store was out of reach; with one look nobody can tell, either."""
    looks = [(1, 1), (2, 2), (3, 3)]
    assert silent(offsets(*looks), after(60)) == ("unknown", ["unknown", "unknown"], "ok")
    assert silent(offsets((1, 1)), NOON) == ("unknown", ["unknown", "unknown"], "ok")
    assert silent([], NOON) == ("unknown", [], "ok")
    gone = [(1, 1), (2, 2), *[(n, None) for n in range(3, 10)]]
    assert silent(offsets(*gone), after(8)) == ("ok", ["ok", "unknown"], "ok")


def test_looks_of_the_future_do_not_count_and_partitions_come_by_number():
    """In whatever order the looks are given."""
    ends = [*reversed(offsets((1,) * 11, (2,) * 11, (9,) * 11))]
    found = detect_silent_partitions(ends, after(1), topic="visits", **FIVE).measurements
    assert [each.partition for each in found] == ["", *map(str, range(11)), ""]
    assert {each.since for each in found[:-1]} == {after(1)}
    with pytest.raises(ConfigError, match="max_gap_seconds must be 1 second or more, not 0"):
        detect_silent_partitions(ends, NOON, topic="visits", max_gap_seconds=0)


def test_measurements_are_plain_values():
    """They are stored and shown as JSON."""
    figures = detect_interruption(active(0), after(6), **FIVE).finding("rows_keep_coming").figures
    assert json.loads(json.dumps(figures)) == {"gap": 360, "future_commits": 0, "future_events": 0}


@known_calls
def calls_that_work(known):
    return {
        "detect_silent_partitions": {
            "progress": [EndOffset(partition="0", offset=1, seen_at=NOW)],
            "now": NOW,
            "topic": "visits",
            "max_gap_seconds": 300.0,
            "quiet": [QuietHours(zone="UTC", start="22:00", end="06:00")],
        }
    }
