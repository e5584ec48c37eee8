"""Instants: one moment in every time zone, or refused."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.types.instants import collected, instant, micros, timestamp

NOON = datetime(2026, 1, 5, 12, 0, 0, 1, tzinfo=timezone.utc)


@pytest.fixture
def new_york(monkeypatch):
    """The process is in New York."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_moment_is_the_same_in_every_time_zone():
    """Microseconds are exact, for the first and the last moment as well."""
    assert micros(NOON) == micros(NOON.astimezone(timezone(timedelta(hours=5)))) == 1767614400000001
    first, last = (moment.replace(tzinfo=timezone.utc) for moment in (datetime.min, datetime.max))  # noqa: DTZ901
    assert timestamp(first) == "timestamp_micros(-62135596800000000L)"
    assert timestamp(last) == "timestamp_micros(253402300799999999L)"
    assert timestamp(None) == "CAST(NULL AS TIMESTAMP)"


@pytest.mark.parametrize("wrong", [datetime(2026, 1, 5), date(2026, 1, 5), "2026-01-05T00:00:00Z", 0, None])  # noqa: DTZ001
def test_what_is_no_instant_is_refused_by_its_name(wrong):
    """A time without a zone, a day, a text, a number, nothing."""
    with pytest.raises(ConfigError, match="until must be a datetime with a time zone, not"):
        instant(wrong, "until")
    assert instant(NOON, "until") is NOON


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize("hour", range(24))
def test_what_spark_hands_over_is_the_instant_that_it_read(hour):
    """Of a day that has 01:30 twice, each of them: Python's zone of the process tells them apart by the fold."""
    instant_ = datetime(2026, 11, 1, hour, 30, tzinfo=timezone.utc)
    assert collected(datetime.fromtimestamp(instant_.timestamp())) == instant_  # noqa: DTZ006 - as Spark does
