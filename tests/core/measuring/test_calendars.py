"""Quiet hours: time that does not count, over midnights, weekends, holidays and changes of clocks."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.calendars import QuietHours, active_seconds

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietHours(zone="Europe/Berlin", start="22:00", end="06:00")
WEEKEND = QuietHours(zone="Europe/Berlin", weekdays=("saturday", "sunday"))
HOUR = 3600


def local(day, hour=0, minute=0, *, month=1):
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("begin", "end", "quiet", "hours"),
    [
        (local(20, 12), local(20, 14), [], 2),
        (local(20, 20), local(21, 8), [NIGHT], 4),
        (local(20, 23), local(21, 5), [NIGHT], 0),
        (local(20, 5), local(20, 7), [NIGHT], 1),
        (local(20, 6), local(20, 22), [NIGHT], 16),
        (local(16, 12), local(19, 12), [WEEKEND], 24),
        (local(16, 12), local(19, 12), [WEEKEND, NIGHT], 16),
        (local(17, 12), local(18, 12), [WEEKEND], 0),
        (local(20, 14), local(20, 12), [NIGHT], 0),
    ],
)
def test_quiet_time_does_not_count(begin, end, quiet, hours):
    """Of windows that overlap, once; whatever zone the instants are written in."""
    assert active_seconds(begin, end, quiet) == hours * HOUR
    utc = begin.astimezone(timezone.utc), end.astimezone(timezone.utc)
    assert active_seconds(*utc, quiet) == hours * HOUR


def test_listed_days_are_quiet_as_a_whole_or_for_some_hours():
    """A holiday, and an afternoon off."""
    holiday = QuietHours(zone="UTC", dates=(date(2026, 1, 20),))
    afternoon = QuietHours(zone="UTC", dates=(date(2026, 1, 21),), start="12:00", end="18:00")
    days = [datetime(2026, 1, day, tzinfo=timezone.utc) for day in (20, 21, 22)]
    counted = [active_seconds(day, day + timedelta(days=1), [holiday, afternoon]) / HOUR for day in days]
    assert counted == [0, 18, 24]


def test_a_weekday_window_over_midnight_belongs_to_the_day_on_which_it_starts():
    """From Friday evening to Saturday morning, and no other night."""
    friday = QuietHours(zone="Europe/Berlin", weekdays=("friday",), start="22:00", end="06:00")
    assert active_seconds(local(16, 12), local(17, 12), [friday]) == 16 * HOUR
    assert active_seconds(local(17, 12), local(18, 12), [friday]) == 24 * HOUR


@pytest.mark.parametrize(("day", "month", "hours"), [(28, 3, 7), (24, 10, 9), (20, 1, 8)])
def test_a_night_with_a_change_of_clocks_is_as_long_as_it_is(day, month, hours):
    """From ten to six by the wall."""
    begin, end = local(day, 12, month=month), local(day + 1, 12, month=month)
    whole = (end.astimezone(timezone.utc) - begin.astimezone(timezone.utc)).total_seconds()
    assert whole - active_seconds(begin, end, [NIGHT]) == hours * HOUR


@pytest.mark.parametrize(
    ("start", "end", "day", "month", "minutes"),
    [
        ("02:00", "03:00", 29, 3, 0),  # the hour does not exist
        ("02:30", "04:00", 29, 3, 30),  # half past two is half past three
        ("01:00", "02:30", 29, 3, 90),
        ("02:00", "03:00", 25, 10, 120),  # the hour comes twice
        ("02:30", "03:00", 25, 10, 90),
        ("01:00", "02:30", 25, 10, 150),
    ],
)
def test_a_time_that_does_not_exist_or_comes_twice(start, end, day, month, minutes):
    """A skipped time is as much later; of two, the first one starts a window and the last one ends it."""
    quiet = QuietHours(zone="Europe/Berlin", start=start, end=end)
    lengths = [closes - opens for opens, closes in quiet.windows(local(day, month=month), local(day, 12, month=month))]
    assert lengths == ([timedelta(minutes=minutes)] if minutes else [])


INSTANTS = st.integers(0, 366 * 24 * 60).map(lambda n: datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=n))
TIMES = st.integers(0, 23).map(lambda hour: f"{hour:02d}:30")
WINDOWS = st.tuples(TIMES, TIMES).filter(lambda pair: pair[0] != pair[1])


@given(INSTANTS, WINDOWS)
def test_an_instant_whose_wall_clock_is_in_the_window_is_quiet(at, window):
    """On every day of a year, with both changes of clocks."""
    start, end = (time.fromisoformat(each) for each in window)
    wall = at.astimezone(BERLIN).time()
    inside = start <= wall < end if start < end else wall >= start or wall < end
    quiet = QuietHours(zone="Europe/Berlin", start=window[0], end=window[1])
    silent = active_seconds(at, at + timedelta(seconds=1), [quiet]) == 0
    # A window that starts at a time which the clock skips starts later.
    skipped = at.astimezone(BERLIN).date() == date(2026, 3, 29) and wall.hour == 3
    assert silent or not inside or skipped


@given(st.lists(INSTANTS, min_size=3, max_size=3), st.lists(WINDOWS, max_size=2))
def test_seconds_of_two_spans_add_up_to_those_of_both(instants, windows):
    """Wherever the cut is, in a window or outside."""
    begin, cut, end = sorted(instants)
    quiet = [QuietHours(zone="Europe/Berlin", start=start, end=end) for start, end in windows] + [WEEKEND]
    parts = active_seconds(begin, cut, quiet) + active_seconds(cut, end, quiet)
    assert parts == active_seconds(begin, end, quiet)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zone": "Mars/Base", "start": "1:00"}, "zone must be the name of a time zone, not 'Mars/Base'"),
        ({"zone": "../etc", "dates": (date(2026, 1, 1),)}, "zone must be the name of a time zone"),
        ({"zone": "UTC", "weekdays": ("Sunday",)}, "weekdays must be of monday, .*, not Sunday"),
        ({"zone": "UTC", "start": "22:00"}, "start and end must be two times of a day, not '22:00' and ''"),
        ({"zone": "UTC", "start": "22:00", "end": "22:00"}, "start and end must be two times of a day"),
        ({"zone": "UTC", "start": "night", "end": "06:00"}, "must be times of a day such as 22:00, not 'night'"),
        ({"zone": "UTC", "start": "22:00+01:00", "end": "06:00"}, "must be times of a day such as 22:00"),
        ({"zone": "UTC"}, "start and end must be given where no days are, not left out"),
        ({"zone": "UTC", "weekdays": "sunday"}, "QuietHours.weekdays must be a list of texts"),
        (
            {"zone": "UTC", "weekdays": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")},
            "weekdays must leave a day",
        ),
    ],
)
def test_what_makes_no_quiet_hours_is_refused(options, message):
    """Also what would leave no time at all: nothing would ever be noticed."""
    with pytest.raises(ConfigError, match=message):
        QuietHours(**options)
