"""Silent hours: a window of local time, over midnight and over changes of clocks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from dedp_assets.graph.mail.silence import SilentHours
from dedp_assets.patterns.core.measuring.calendars import QuietHours

BERLIN = ZoneInfo("Europe/Berlin")


def hours(start, end, zone="Europe/Berlin"):
    return QuietHours(zone=zone, start=start, end=end)


NIGHT = SilentHours(hours("22:00", "07:00"))


def local(day, hour, minute=0, *, month=1):
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("at", "until"),
    [
        (local(20, 21, 59), None),
        (local(20, 22), local(21, 7)),
        (local(21, 3), local(21, 7)),
        (local(21, 6, 59), local(21, 7)),
        (local(21, 7), None),
        (local(21, 12), None),
    ],
)
def test_a_window_over_midnight_holds_until_its_end(at, until):
    """By local time, whatever zone the instant is written in; the end itself passes."""
    assert NIGHT.until(at, "warning") == until
    assert NIGHT.until(at.astimezone(timezone.utc), "info") == until


def test_a_window_within_a_day():
    """Neither the evening nor the morning is silent."""
    lunch = SilentHours(hours("12:00", "13:00", "UTC"))
    held = [h for h in range(24) if lunch.until(datetime(2026, 1, 20, h, 30, tzinfo=timezone.utc), "info")]
    assert held == [12]


def test_what_passes_is_never_held():
    """By severity; nothing but the named ones waits."""
    assert NIGHT.until(local(21, 3), "critical") is None
    everything = SilentHours(hours("22:00", "07:00"), holds=("critical",))
    assert everything.until(local(21, 3), "critical") == local(21, 7)
    assert everything.until(local(21, 3), "warning") is None


@pytest.mark.parametrize(("day", "month", "hours"), [(28, 3, 8), (24, 10, 10), (20, 1, 9)])
def test_a_night_with_a_change_of_clocks_is_as_long_as_it_is(day, month, hours):
    """From ten to seven by the wall: eight, ten or nine hours."""
    start = datetime(2026, month, day, 22, tzinfo=BERLIN).astimezone(timezone.utc)
    assert NIGHT.until(start, "info") - start == timedelta(hours=hours)


@pytest.mark.parametrize("window", [NIGHT, SilentHours(hours("01:00", "02:30"))])
@pytest.mark.parametrize(("day", "month"), [(28, 3), (24, 10)])
def test_the_end_of_a_window_is_the_first_moment_that_is_not_silent(window, day, month):
    """Minute by minute over a change of clocks, also where the end is a time that does not exist or exists twice."""
    moments = [datetime(2026, month, day, 20, tzinfo=timezone.utc) + timedelta(minutes=n) for n in range(12 * 60)]
    ends = [window.until(at, "info") for at in moments]
    assert any(ends)
    for number, (at, end) in enumerate(zip(moments, ends, strict=True)):
        if end:
            rest = [ends[n] for n in range(number, len(moments)) if moments[n] < end]
            assert at < end
            assert set(rest) == {end}
            assert window.until(end, "info") is None
