"""Usual values: medians of earlier values, seasons, and how often they raise a false alarm."""

from __future__ import annotations

import math
import random
from datetime import date, timedelta
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.expected_values import expected
from dedp_assets.patterns.core.measuring.usual import Baseline, Expected

FIRST = date(2026, 1, 5)
WEEKDAY = Baseline(season="weekday", last=8)


def days(*values, first=FIRST):
    """Day -> value, from a Monday on."""
    return {(first + timedelta(days=n)).isoformat(): value for n, value in enumerate(values)}


def day(number):
    return (FIRST + timedelta(days=number)).isoformat()


VALUES = st.lists(st.integers(1, 10_000), max_size=20)
ANY = {"tolerance": 1.0, "tolerance_above": 10_000.0}
"""Tolerances that no value of these is outside of."""


@given(VALUES, st.integers(0, 20), st.integers(0, 10_000), st.integers(1, 9))
def test_the_value_under_test_and_later_ones_never_count(values, number, value, last):
    """Whatever they are; what counts is the median of the newest values before."""
    history, rule = days(*values), Baseline(last=last, **ANY)
    found = expected(history, day(number), baseline=rule)
    later = {key: 10**9 for key in history if key > day(number)}
    assert expected({**history, **later, day(number): value}, day(number), baseline=rule) == found
    before = [history[each] for each in sorted(history) if each < day(number)][-last:]
    assert (found.usual, found.history) == (median(before) if before else None, len(before))


@given(VALUES, st.sets(st.integers(0, 19)), st.integers(0, 20))
def test_excluded_and_planned_keys_do_not_train(values, left_out, number):
    """As if they had never been."""
    history, keys = days(*values), [day(each) for each in left_out]
    rest = {key: value for key, value in history.items() if key not in keys}
    without = expected(rest, day(number))
    assert expected(history, day(number), excluded=keys) == without
    assert expected(history, day(number), baseline=Baseline(excluded=keys)) == without
    others = {key: 2.0 for key in keys if key != day(number)}
    assert expected(history, day(number), excluded=keys, baseline=Baseline(planned=others)) == without


@given(st.integers(1, 10**6), st.integers(1, 100))
def test_a_value_exactly_at_the_limit_lies_inside(usual, percent):
    """And the next one outside; no rounding of floats moves a limit."""
    found = expected(days(100 * usual), day(1), baseline=Baseline(tolerance=percent / 100))
    below, above = usual * (100 - percent), usual * (100 + percent)
    assert [found.verdict(value) for value in (below, above, above + 1)] == ["ok", "ok", "fail"]
    assert found.verdict(below - 1) == "fail"


def test_above_may_have_another_tolerance_than_below():
    """Half to twice."""
    found = expected(days(10), day(1), baseline=Baseline(tolerance=0.5, tolerance_above=1))
    assert (found.low, found.high) == (5, 20)


@pytest.mark.parametrize(("values", "minimum"), [((), 1), ((5,), 2), ((5, math.nan, math.inf), 2)])
def test_too_little_history_is_an_answer_of_its_own(values, minimum):
    """Neither good nor bad; values that are not finite are no history."""
    found = expected(days(*values), day(9), baseline=Baseline(minimum_history=minimum))
    assert (found.too_little_history, found.usual, found.verdict(5)) == (True, None, "unknown")
    assert found.reason == f"too little history: {found.history} of {minimum} earlier values"


def test_a_usual_value_of_zero_does_not_divide():
    """Zero is as usual; of anything else nobody can say how much more it is."""
    found = expected(days(0, 0, 0), day(3))
    assert [found.verdict(value) for value in (0, 1, 10**6)] == ["ok", "unknown", "unknown"]
    assert found.reason == "the usual value is 0, of which no share is a limit"
    seasonal = expected(days(*[7, 7, 7, 7, 7, 7, 0] * 8), day(62), baseline=WEEKDAY)
    assert (seasonal.season, seasonal.verdict(0), seasonal.verdict(7)) == ("weekday", "ok", "unknown")


@pytest.mark.parametrize("values", [(1000, 100), (1000, 0), (1000, 9000), (1000, 1000, 100, 100)])
def test_an_unusual_day_is_not_the_measure_for_the_next(values):
    """The fatality loop: after a failed day, a normal one would fail, too."""
    found = expected(days(*values), day(len(values)))
    assert (found.usual, found.verdict(1000)) == (1000, "ok")
    accepted = expected(days(1000, 100), day(2), accepted=[day(1)])
    assert accepted.usual == 550


@pytest.mark.parametrize(("before", "alarms"), [(1, 2), (2, 3), (7, 8), (30, 8)])
def test_a_new_level_alarms_until_it_outnumbers_the_old_one_and_no_longer_than_eight_days(before, alarms):
    """Nobody has to reset anything, and a first day that was wrong does not stay the measure."""
    values = [1000] * before + [3000] * 20
    verdicts = [expected(days(*values[:n]), day(n)).verdict(3000) for n in range(before, len(values))]
    assert verdicts == ["fail"] * alarms + ["ok"] * (20 - alarms)


def test_the_first_rows_after_days_without_any_are_the_measure_for_later_ones():
    """A table that was empty at first."""
    assert expected(days(0, 0, 0, 1000), day(4)).usual == 1000


def test_a_partition_of_the_past_is_held_against_its_neighbours_in_time():
    """Those before it, and where these are too few, those right after it."""
    history = days(10, 10, None, *[50] * 30)
    del history[day(2)]
    assert expected(history, day(2), baseline=Baseline(last=2), neighbours=True).usual == 10
    assert expected(history, day(2), baseline=Baseline(last=5), neighbours=True).usual == 50
    assert expected(history, "2026-01-01", baseline=Baseline(last=2), neighbours=True).usual == 10
    assert expected(history, "2026-01-01").too_little_history


def test_a_season_begins_with_six_values_of_the_same_weekday():
    """Before, the newest values count whatever their weekday, with the book's tolerance; the reason says so."""
    week = [100] * 6 + [20]
    early = expected(days(*week * 5), day(41), baseline=WEEKDAY)
    assert (early.season, early.usual, early.verdict(20)) == ("none", 100, "fail")
    assert early.reason == "5 of 6 earlier values of the same weekday: no season yet"
    ready = expected(days(*week * 6), day(48), baseline=WEEKDAY)
    assert (ready.season, ready.usual, ready.history, ready.reason) == ("weekday", 20, 6, "")
    assert [ready.verdict(value) for value in (20, 100)] == ["ok", "fail"]


def test_an_excluded_holiday_does_not_count_for_its_weekday():
    """Six Mondays with one holiday are five."""
    history = days(*[100] * 42)
    assert expected(history, day(42), baseline=WEEKDAY).season == "weekday"
    assert expected(history, day(42), baseline=WEEKDAY, excluded=[day(7)]).season == "none"


def test_hours_are_held_against_the_same_hour_of_other_days():
    """And with a weekday, against the same hour of the same weekday."""
    hours = {
        f"{day(n)}-{hour:02d}": (500 if hour < 12 else 10) * (3 if n % 7 == 6 else 1)
        for n in range(56)
        for hour in range(24)
    }
    night = expected(hours, f"{day(56)}-23", baseline=Baseline(season="hour"))
    assert (night.season, night.usual) == ("hour", 10)
    sunday = expected(hours, f"{day(62)}-11", baseline=WEEKDAY)
    assert (sunday.season, sunday.usual) == ("weekday", 1500)


def test_a_planned_day_has_its_factor_of_the_usual_value():
    """Three times as many are expected then, and usual ones are too few."""
    rule = Baseline(planned={day(3): 3.0})
    spike = expected(days(100, 100, 100), day(3), baseline=rule)
    assert (spike.usual, spike.low, spike.high) == (300, 150, 450)
    assert expected(days(100, 100, 100, 300), day(4), baseline=rule).usual == 100
    assert Expected().times(3).usual is None


def rates(weeks, runs=1500):
    """Shares of alarms for a usual value, 30 % less and 30 % more, for a weekly pattern with 5 % noise."""
    chance, shape = random.Random(36), (1, 1.05, 1.1, 1, 0.9, 0.5, 0.4)  # noqa: S311 - seeded
    value = lambda n: round(10_000 * shape[n % 7] * (1 + chance.gauss(0, 0.05)))  # noqa: E731
    found = []
    for run in range(runs):
        number = 7 * weeks + run % 7
        around = expected(days(*map(value, range(number))), day(number), baseline=WEEKDAY)
        found.append([around.verdict(factor * value(number)) == "fail" for factor in (1, 0.7, 1.3)])
    return [sum(each) / runs for each in zip(*found, strict=True)]


def test_false_alarms_are_rare_and_a_loss_of_a_third_is_found():
    """Eight weeks: at most 1 % of usual days fail, at least 95 % of days with 30 % less; six weeks: at most 2 %."""
    false, less, more = rates(8)
    assert false <= 0.01
    assert less >= 0.95
    assert more >= 0.9
    assert rates(6)[0] <= 0.02


def test_a_constant_past_allows_some_change():
    """At least four times 1 % of the usual value."""
    found = expected(days(*[1000] * 56), day(56), baseline=WEEKDAY)
    assert [found.verdict(value) for value in (960, 1040, 959, 1041)] == ["ok", "ok", "fail", "fail"]


def test_outliers_of_the_past_hardly_move_the_limits():
    """One spike in eight weeks, as the mean and the standard deviation would not forgive."""
    chance = random.Random(1)  # noqa: S311 - seeded
    usual = [round(1000 * (1 + chance.gauss(0, 0.03))) for _ in range(56)]
    spiked = [*usual[:20], 100_000, *usual[21:]]
    one, other = (expected(days(*each), day(56), baseline=WEEKDAY) for each in (usual, spiked))
    assert other.high == pytest.approx(one.high, rel=0.05)
    assert other.verdict(700) == "fail"


def test_a_season_of_keys_without_time_is_refused():
    """Nothing tells the weekday of a country."""
    with pytest.raises(ConfigError, match="season must be none for keys that are neither days nor hours, such as 'FR'"):
        expected({"DE": 1}, "FR", baseline=WEEKDAY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last": 0}, "last must be above 0, not 0"),
        ({"minimum_history": 0}, "minimum_history must be above 0, not 0"),
        ({"tolerance": 0.0}, "tolerance must be above 0, not 0"),
        ({"tolerance": 50}, "tolerance must be a share of at most 1, not 50"),
        ({"tolerance_above": -1}, "tolerance_above must be above 0, not -1"),
        ({"limit": 0}, "limit must be above 0, not 0"),
        ({"last": 3, "minimum_history": 4}, "minimum_history must be at most last=3, not 4"),
        ({"last": 5, "season": "weekday"}, "last must be 6 or more with season=weekday, not 5"),
        ({"planned": {"2026-11-27": 0}}, "planned must be factors above 0, not 2026-11-27: 0"),
        ({"season": "month"}, "season must be none, weekday or hour, not 'month'"),
    ],
)
def test_a_rule_that_can_never_work_is_refused(options, message):
    """By the name of the option."""
    with pytest.raises(ConfigError, match=message):
        Baseline(**options)
