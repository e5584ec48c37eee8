"""Skew Detector."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, PartitionSize
from dedp_assets.patterns.core.measuring.usual import Baseline
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.observability.skew_detector import detect_partition_skew, detect_skew, require_usual_volume
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW

FIRST = date(2026, 1, 5)
GB = 10**9


def day(number):
    return (FIRST + timedelta(days=number)).isoformat()


def after(number, hours=1.0):
    """Time after the end of a day."""
    begin = datetime.combine(FIRST + timedelta(days=number + 1), datetime.min.time(), timezone.utc)
    return begin + timedelta(hours=hours)


def of(*rows, approved=()):
    """Activity with a partition for each day that has rows; ``None`` for a day without a partition."""
    sizes = {
        day(n): PartitionSize(rows=each, size=9 * each, files=1, verdict="approved" if n in approved else "passed")
        for n, each in enumerate(rows)
        if each is not None
    }
    return Activity(table="silver/visits", version=len(rows), partitions=sizes)


def judged(activity, now, **options):
    (found,) = detect_skew(activity, now, **options).measurements
    return found


def newest(*rows, **options):
    return judged(of(*rows), after(len(rows) - 1), **options)


@pytest.mark.parametrize(("rows", "verdict"), [(500, "ok"), (490, "fail"), (1500, "ok"), (1510, "fail"), (1000, "ok")])
def test_only_volumes_outside_of_half_more_or_less_alert(rows, verdict):
    """Of 1,000: 490 and 1,510 rows alert, 500 and 1,500 do not; in bytes the same."""
    found = newest(1000, rows)
    assert (found.verdict, found.value, found.target, found.limit) == (
        verdict, rows, 1000, "at least 500 rows, at most 1,500 rows",
    )  # fmt: skip
    assert bool(found.reason) == (verdict == "fail")
    weighed = newest(1000, rows, measure="bytes")
    assert (weighed.metric, weighed.value, weighed.verdict) == ("partition_bytes", 9 * rows, verdict)


def test_an_alert_names_partition_rows_usual_and_limits():
    """In one sentence."""
    found = newest(1000, 490)
    assert found.reason == "2026-01-06 has 490 rows, usual are 1,000: outside of 500 to 1,500"
    assert (found.metric, found.partition, found.table) == ("partition_rows", "2026-01-06", "silver/visits")


def test_the_load_is_stopped_before_any_write():
    """By the error that keeps rows from being published; at the limit it goes on."""
    ask = {"partition": day(1), "now": after(1)}
    with pytest.raises(
        AuditFailed, match=r"silver/visits 2026-01-06: nothing was written. volume_is_usual: 2026-01-06 "
    ):
        require_usual_volume(of(1000), volume=490, **ask)
    with pytest.raises(AuditFailed, match="has 1,510 rows, usual are 1,000") as refused:
        require_usual_volume(of(1000), volume=1510, **ask)
    assert refused.value.findings[0].figures == {"volume": 1510, "usual": 1000}
    assert all(require_usual_volume(of(1000), volume=rows, **ask).passed for rows in (500, 1500))


def test_a_load_without_history_goes_on_and_says_so():
    """The first day has nothing to be compared with; of an excluded day any volume passes."""
    first = require_usual_volume(of(), after(0), partition=day(0), volume=7)
    assert (first.passed, first.note) == (True, "2026-01-05 has 7 rows: too little history: 0 of 1 earlier values")
    holiday = Baseline(excluded=[day(1)])
    free = require_usual_volume(of(1000), after(1), partition=day(1), volume=7, baseline=holiday)
    assert (free.passed, free.note) == (True, "2026-01-06 is excluded from judgement")


def test_a_named_person_lets_a_load_through():
    """The finding says who, for the commit."""
    decided = Approval(by="Ada", because="outage of the source")
    found = require_usual_volume(of(1000), after(1), partition=day(1), volume=100, approval=decided)
    assert (found.approved_by, found.severity, found.refuses) == ("Ada", "warn", False)


@pytest.mark.parametrize("refused", [[], [day(1)]])
def test_a_failed_day_does_not_become_the_baseline(refused):
    """Day 1 has 1,000 rows, day 2 fails with 100, day 3 passes with 1,000: its baseline is day 1."""
    found = newest(1000, 100, 1000, baseline=Baseline(excluded=refused))
    assert newest(1000, 100).verdict == "fail"
    assert (found.verdict, found.target) == ("ok", 1000)
    assert require_usual_volume(of(1000, 100), after(2), partition=day(2), volume=1000).passed


@pytest.mark.parametrize(("counts", "usual"), [(False, 1000), (True, 550)])
def test_a_day_accepted_by_a_person_is_baseline_by_choice(counts, usual):
    """An option says whether; a day that no audit failed always is."""
    activity = of(1000, 100, 1000, approved=[1])
    assert judged(activity, after(2), approved_is_usual=counts).target == usual


def test_a_planned_spike_does_not_alert_and_the_same_spike_on_an_ordinary_day_does():
    """Three times the rows on Black Friday; a Black Friday with usual rows alerts, and no later day because of it."""
    week = [1000] * 6
    planned = Baseline(planned={day(6): 3})
    assert newest(*week, 3000).verdict == "fail"
    assert newest(*week, 3000, baseline=planned).verdict == "ok"
    missed = newest(*week, 1000, baseline=planned)
    assert missed.verdict == "fail"
    assert missed.reason.endswith("outside of 1,500 to 4,500 (planned: 3 times the usual value)")
    assert newest(*week, 3000, 1000, baseline=planned).verdict == "ok"
    assert newest(*week, 3000, 3000, baseline=planned).verdict == "fail"


def test_a_weekday_is_held_against_the_same_weekday():
    """A quiet Sunday is none, and the same rows on a Monday are; a declared holiday is not judged."""
    week = [1000, 1010, 990, 1005, 995, 500, 400]
    season = Baseline(season="weekday")
    assert newest(*week * 8, baseline=season).verdict == "ok"
    monday = newest(*week * 8, 400, baseline=season)
    assert (monday.verdict, "usual on this weekday are 1,000" in monday.reason) == ("fail", True)
    holiday = newest(*week * 8, 400, baseline=replace(season, excluded=[day(56)]))
    assert (holiday.verdict, holiday.reason) == ("unknown", "2026-03-02 is excluded from judgement")


def test_no_rows_at_all_alert():
    """As an empty partition, and as a partition without any file where it was asked for."""
    assert newest(1000, 0).verdict == "fail"
    missing = judged(of(1000), after(1), key=day(1))
    assert (missing.verdict, missing.value) == ("fail", 0)


def test_rows_after_usually_none_are_not_judged():
    """A usual volume of zero does not divide."""
    found = newest(0, 0, 1000)
    assert (found.verdict, found.reason) == (
        "unknown", "2026-01-07 has 1,000 rows: the usual value is 0, of which no share is a limit",
    )  # fmt: skip
    assert newest(0, 0, 0).verdict == "ok"


@pytest.mark.parametrize(
    ("activity", "options", "why"),
    [
        (of(), {}, "no partition is complete"),
        (of(7), {}, "too little history: 0 of 1 earlier values"),
        (of(7, 7), {"baseline": Baseline(minimum_history=2)}, "too little history: 1 of 2"),
        (of(7, 7), {"key": day(2)}, "2026-01-07 is not complete"),
        (Activity(table="t", partitions={"FR": PartitionSize(rows=1, size=1, files=1)}), {}, "must name a time"),
        (of(7, 7), {"key": "FR"}, "names no time"),
        (replace(of(), partitions={day(0): PartitionSize(rows=None, size=1, files=1)}), {}, "without statistics"),
    ],
)
def test_what_cannot_be_judged_is_unknown_and_says_why(activity, options, why):
    """Neither an alert nor an all-clear."""
    found = judged(activity, after(1), **options)
    assert found.verdict == "unknown"
    assert why in found.reason


def test_the_day_that_is_still_being_written_is_not_judged():
    """Its few rows are no alert, and no baseline; for late deliveries a day takes longer."""
    now = after(2, hours=12)
    assert judged(of(1000, 1000, 1000, 20), now).partition == day(2)
    assert judged(of(1000, 1000, 1000, 20), now, complete_after_seconds=48 * 3600).partition == day(1)


def test_a_rerun_of_a_partition_is_not_its_own_baseline():
    """Whether it has its old rows yet, or its new ones."""
    for rows in (1000, 100):
        assert require_usual_volume(of(1000, 1000, rows), after(2), partition=day(2), volume=1000).passed
        with pytest.raises(AuditFailed):
            require_usual_volume(of(1000, 1000, rows), after(2), partition=day(2), volume=100)


def test_a_backfilled_partition_is_held_against_its_neighbours_in_time():
    """And not against the newest, which have grown since; without earlier ones, against those right after it."""
    rows = [100] * 10 + [110] * 10 + [1000] * 10
    old = judged(of(*rows), after(29), key=day(12))
    assert (old.verdict, old.target) == ("ok", 100)
    first = judged(of(100, *rows), after(30), key=day(0))
    assert (first.verdict, first.target) == ("ok", 100)
    assert judged(of(1000, *rows), after(30), key=day(0)).verdict == "fail"


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30), st.data())
def test_later_partitions_change_no_verdict_with_enough_earlier_ones(rows, data):
    """Judged on its day or in a backfill, a partition has the same baseline."""
    number = data.draw(st.integers(0, len(rows) - 1))
    rule = Baseline(last=1)
    then = judged(of(*rows[: number + 1]), after(number), baseline=rule)
    again = judged(of(*rows), after(len(rows)), key=day(number), baseline=rule)
    assert number == 0 or (again.verdict, again.target) == (then.verdict, then.target)


def sized(**sizes):
    return Activity(
        table="silver/users",
        partitions={
            key: PartitionSize(rows=size, size=size, files=1, first_at=after(0)) for key, size in sorted(sizes.items())
        },
    )


def uneven(activity, now=None, **options):
    (found,) = detect_partition_skew(activity, now or after(9), **options).measurements
    return found


def test_partitions_of_very_different_size_alert_and_balanced_ones_do_not():
    """1 GB and 100 MB vary by 0.82 of their mean; the message names the largest and its ratio to the median."""
    found = uneven(sized(a=GB, b=GB // 10, c=GB // 10))
    assert found.verdict == "fail"
    assert found.reason.startswith("partition a has 1 GB, 10.0 times the median: sizes vary by 1.06")
    pair = uneven(sized(a=GB, b=GB // 10))
    assert (pair.verdict, round(pair.value, 2), pair.at_most) == ("fail", 0.82, 0.5)
    balanced = uneven(sized(a=GB, b=GB, c=GB - 10**7))
    assert (balanced.verdict, balanced.reason) == ("ok", "")


def test_one_hot_partition_of_24_is_found():
    """Ten times the others' size: 1.31 of the mean."""
    found = uneven(sized(**{f"bucket{n}": 10 * GB if n == 3 else GB for n in range(24)}))
    assert (found.verdict, round(found.value, 2)) == ("fail", 1.31)
    assert "bucket3" in found.reason


@pytest.mark.parametrize("sizes", [{}, {"a": GB}, {"a": 0, "b": 0}])
def test_fewer_than_two_partitions_with_something_in_them_are_not_judged(sizes):
    """There is nothing to compare, and nothing to divide by."""
    found = uneven(sized(**sizes))
    assert (found.verdict, found.value, "nothing to compare" in found.reason) == ("unknown", None, True)


def test_a_partition_that_is_still_being_written_makes_no_skew():
    """A day that is not over by its key, another partition by its first commit."""
    assert uneven(of(1000, 1000, 1000, 1), now=after(2, hours=3)).verdict == "ok"
    assert uneven(of(1000, 1000, 1000, 1), now=after(3)).verdict == "fail"
    new = {**sized(a=GB, b=GB).partitions, "c": PartitionSize(rows=1, size=1, files=1, first_at=after(8, hours=2))}
    assert uneven(Activity(table="t", partitions=new)).verdict == "ok"
    assert uneven(Activity(table="t", partitions=new), complete_after_seconds=3600).verdict == "fail"


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=20), st.integers(2, 1000))
def test_skew_does_not_depend_on_the_unit_nor_on_the_order(sizes, factor):
    """The ratio is of sizes alone."""
    one = uneven(sized(**{f"p{n:02}": size for n, size in enumerate(sizes)}))
    other = uneven(sized(**{f"p{n:02}": factor * size for n, size in enumerate(reversed(sizes))}))
    assert other.value == pytest.approx(one.value)


def test_options_that_can_never_work_are_refused():
    """By name."""
    with pytest.raises(ConfigError, match="complete_after_seconds must be above 0, not 0"):
        detect_skew(of(), after(0), complete_after_seconds=0)
    with pytest.raises(ConfigError, match="max_variation must be 0 or more, not -1"):
        detect_partition_skew(of(), after(0), max_variation=-1)
    with pytest.raises(ConfigError, match="volume must be 0 or more, not -1"):
        require_usual_volume(of(), after(0), partition=day(0), volume=-1)


@known_calls
def calls_that_work(known):
    sizes = {f"2026-01-0{n}": PartitionSize(rows=n, size=n, files=1, first_at=NOW) for n in (3, 4)}
    seen = {"activity": Activity(table="silver/daily", partitions=sizes), "now": NOW}
    return {
        "detect_partition_skew": {**seen, "max_variation": 0.5},
        "require_usual_volume": {**seen, "partition": "2026-01-05", "volume": 4.0, "baseline": Baseline()},
    }
