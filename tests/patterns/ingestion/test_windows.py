"""Half-open windows: every value lies in exactly one of them, whatever its type and whoever's clock."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.ingestion._windows import cut, interval, within

UTC = timezone.utc
MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
HOUR, DAY = 3600, 86400
TICK = timedelta(microseconds=1)


def test_adjacent_windows_share_their_bound_and_nothing_else():
    """Each window ends where the next one starts; the last one is the one that is not over."""
    windows = cut(MIDNIGHT, length=HOUR, until=MIDNIGHT + timedelta(hours=2, minutes=59), key_format="%d %H")
    assert list(windows) == ["05 00", "05 01", "05 02"]
    bounds = list(windows.values())
    assert [start for start, _ in bounds[1:]] == [end for _, end in bounds[:-1]]
    assert bounds[-1] == (MIDNIGHT + timedelta(hours=2), MIDNIGHT + timedelta(hours=3))


@pytest.mark.parametrize(("late", "over"), [(-TICK, 0), (timedelta(), 1), (TICK, 1)])
def test_a_window_is_over_at_its_very_end(late, over):
    """Not a microsecond before."""
    windows = cut(MIDNIGHT, length=DAY, until=MIDNIGHT + timedelta(days=1) + late, key_format="%Y-%m-%d")
    assert len(windows) == over + 1


def test_windows_are_as_long_on_the_day_the_clocks_change():
    """A local start of day makes windows of 24 hours of real time, keyed in UTC."""
    origin = datetime(2026, 3, 28, tzinfo=ZoneInfo("Europe/Berlin"))
    windows = cut(origin, length=DAY, until=origin + timedelta(days=3), key_format="%Y-%m-%d")
    assert list(windows)[:2] == ["2026-03-27", "2026-03-28"]
    assert {end - start for start, end in windows.values()} == {timedelta(days=1)}


def test_an_interval_is_written_in_utc_to_the_microsecond():
    """The same window has one name, in whatever zone its bounds are given."""
    berlin = tuple(t.astimezone(ZoneInfo("Europe/Berlin")) for t in (MIDNIGHT, MIDNIGHT + TICK))
    assert interval(berlin) == "2026-01-05T00:00:00+00:00/2026-01-05T00:00:00.000001+00:00"
    assert interval((5, 10)) == "5/10"


def test_integers_have_windows_too():
    """A counter is cut by its own values."""
    assert cut(1, length=100, until=205, key_format="") == {"1": (1, 101), "101": (101, 201), "201": (201, 301)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 0}, "no windows of length 0"),
        ({"until": 7}, "no windows of length"),
        ({"origin": MIDNIGHT.replace(tzinfo=None)}, "has no time zone"),
        ({"length": HOUR}, "share keys of the format %Y-%m-%d"),
    ],
)
def test_windows_that_make_no_sense_are_refused(options, words):
    """Impossible lengths, mixed bounds, times nobody can place, and keys that several windows would share."""
    asked = {"origin": MIDNIGHT, "length": DAY, "until": MIDNIGHT + timedelta(days=2), "key_format": "%Y-%m-%d"}
    with pytest.raises(ConfigError, match=words):
        cut(**{**asked, **options})


@pytest.mark.both
@pytest.mark.parametrize("session_zone", ["UTC", "Asia/Kolkata"])
def test_bounds_are_exact_to_the_microsecond_in_every_session_zone(spark, session_zone):
    """An instant is inside by what it is, not by how a session shows it; a time without zone is one of UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    moments = "'2026-01-04 23:59:59.999999', '2026-01-05 00:00:00', '2026-01-05 00:59:59.999999', '2026-01-05 01:00:00'"
    try:
        spark.conf.set("spark.sql.session.timeZone", session_zone)
        rows = spark.sql(f"SELECT posexplode(array({moments})) AS (n, t)").selectExpr(
            "n", "CAST(concat(t, '+00:00') AS TIMESTAMP) AS at", "CAST(t AS TIMESTAMP_NTZ) AS wall"
        )
        window = (MIDNIGHT.astimezone(ZoneInfo("America/New_York")), MIDNIGHT + timedelta(hours=1))
        for column in ("at", "wall"):
            inside = rows.filter(within(rows, column, window))
            assert sorted(row["n"] for row in inside.select("n").collect()) == [1, 2], column
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    ("column", "window", "words"),
    [
        ("at", (MIDNIGHT, MIDNIGHT), "no value of at lies in"),
        ("at", (1, 2), "at is of type TIMESTAMP"),
        ("at", (MIDNIGHT, 2), "at is of type TIMESTAMP"),
        ("at", (MIDNIGHT.replace(tzinfo=None), MIDNIGHT), "has no time zone"),
        ("id", (MIDNIGHT, MIDNIGHT + TICK), "id is of type LONG"),
        ("text", (1, 2), "text is of type STRING"),
    ],
)
def test_bounds_have_to_fit_the_column(spark, column, window, words):
    """Comparing text with times, or a time without zone, would silently choose other rows."""
    rows = spark.sql("SELECT current_timestamp() AS at, 1L AS id, '1' AS text")
    with pytest.raises(ConfigError, match=words):
        within(rows, column, window)
