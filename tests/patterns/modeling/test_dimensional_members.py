"""Dimensional Members."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.modeling.dimensional_members import DATES, add_members, list_dates
from dedp_assets.patterns.modeling.versioned_dimension import judge_versions
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.patterns.modeling.stars import VERSIONS, key_in_python, versions_of
from tests.renaming import STORED, any_names, at

pytestmark = pytest.mark.spark

CHANGES = {"ann": [(0, "basic"), (10, "premium")], "bob": [(5, "basic"), (15, None)]}
OF_USERS = {"key": "user_key", "natural": ["user"], "valid_from": "valid_from"}


def members(spark, changes, zone="UTC"):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        return add_members(spark.createDataFrame(versions_of(changes), VERSIONS), **OF_USERS).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_each_version_has_a_key_that_reruns_and_time_zones_do_not_change(spark):
    """Acceptance 1: the hash of length-prefixed natural key and instant, unique, as another language computes it."""
    found = members(spark, CHANGES)
    keys = {row["user_key"] for row in found}
    expected = {key_in_python(user, begin) for user, _, begin, *_ in versions_of(CHANGES)}
    assert keys == {*expected, "unknown"}
    assert len(found) == len(keys) == 5
    assert {row["user_key"] for row in members(spark, CHANGES, zone="Asia/Tokyo")} == keys
    alike = add_members(
        spark.createDataFrame([("1", "12"), ("11", "2")], "a STRING, b STRING"), key="k", natural=["a", "b"]
    )
    assert len({row["k"] for row in alike.collect()}) == 3


def test_a_late_change_that_splits_a_version_keeps_the_keys_of_both_starts(spark):
    """Acceptance 2: one key more, and none fewer."""
    before, after = members(spark, {"ann": [(0, "a")]}), members(spark, {"ann": [(0, "a"), (4, "b")]})
    assert {row["user_key"] for row in before} < {row["user_key"] for row in after}


def test_the_unknown_member_is_a_sound_version_that_meets_no_natural_key(spark):
    """Acceptance 3: its natural key is NULL, texts are as stated, and versions with it are judged sound."""
    rows = spark.createDataFrame(versions_of(CHANGES), VERSIONS)
    found = add_members(rows, **OF_USERS, unknown={"SEGMENT": "it's ${unknown}"})
    (unknown,) = found.filter("user_key = 'unknown'").collect()
    assert (unknown["user"], unknown["segment"]) == (None, "it's ${unknown}")
    assert (unknown["valid_to"], unknown["is_current"], unknown["is_deleted"]) == (None, True, False)
    assert found.filter("user_key = 'unknown' AND valid_from < '2026-01-01'").count() == 1
    assert judge_versions(found, keys=["user"]).passed
    assert found.columns == ["user_key", *rows.columns]


def dates_by_key(spark, first, last, **options):
    return {row["date_key"]: row for row in list_dates(spark, first=first, last=last, **options).collect()}


@settings(
    deadline=None, suppress_health_check=list(HealthCheck), max_examples=3, phases=(Phase.explicit, Phase.generate)
)
@given(st.dates(date(1990, 1, 1), date(2060, 1, 1)), st.integers(0, 800), st.integers(1, 12))
def test_the_calendar_is_that_of_plain_python(spark, first, days, month):
    """Acceptance 4: every day of the range once, with weeks, quarters and fiscal years as Python counts them."""
    last = first + timedelta(days=days)
    found = dates_by_key(spark, first, last, fiscal_month=month)
    assert len(found) == days + 2
    for n in range(days + 1):
        day = first + timedelta(days=n)
        row, iso = found[int(f"{day:%Y%m%d}")], day.isocalendar()
        passed = (day.month - month) % 12
        ends = day.year + (0 if month == 1 or day.month < month else 1)
        assert tuple(row) == (
            *(row["date_key"], day, day.year, (day.month + 2) // 3, day.month, f"{day:%B}", day.day),
            *(iso.weekday, f"{day:%A}", iso.year, iso.week, ends, passed // 3 + 1, iso.weekday > 5, None),
        )
    assert tuple(found[-1]) == (-1, *[None] * 14)


def test_weeks_at_the_turn_of_a_year_and_holidays_are_right(spark, make_table):
    """Acceptance 4: 2027-01-01 is in week 53 of 2026; a holiday has its name; the rows fit the declared table."""
    holidays = {"2026-12-25": "Christmas Day"}
    rows = list_dates(spark, first=date(2026, 12, 25), last=date(2027, 1, 4), holidays=holidays)
    table = make_table(TableSpec("gold/dim_date", dict(DATES), key=("date_key",)))
    table.overwrite(rows, provenance=a_run())
    found = {row["date_key"]: row for row in read_back(table)}
    assert [(row["iso_year"], row["iso_week"]) for row in (found[20270101], found[20270104])] == [(2026, 53), (2027, 1)]
    assert {key: row["holiday"] for key, row in found.items() if row["holiday"]} == {20261225: "Christmas Day"}
    assert [key for key, row in sorted(found.items()) if row["is_weekend"]] == [20261226, 20261227, 20270102, 20270103]


DAY = date(2026, 1, 5)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"last": date(2026, 1, 4)}, "last must be a day from 2026-01-05 on, within 100000 days, not 2026-01-04"),
        ({"last": date(2999, 1, 4)}, "within 100000 days"),
        ({"fiscal_month": 13}, "fiscal_month must be a month from 1 to 12, not 13"),
        ({"holidays": {"25.12.": "Christmas"}}, "holidays must name days as 2026-12-25, not '25.12.'"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused(spark, options, why):
    """A range that ends before it begins or never, a month that is none, a holiday that is no day."""
    with pytest.raises(ConfigError, match=why):
        list_dates(spark, **{"first": DAY, "last": DAY, **options})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"natural": []}, "natural must name"),
        ({"natural": ["user", "USER"]}, "natural= names user twice"),
        ({"natural": ["shop"]}, "no column shop"),
        ({"key": "segment"}, "have a column segment, which this step adds"),
        ({"unknown": {"is_current": "no"}}, "unknown must state texts of text columns, not of is_current"),
        ({"valid_from": "since"}, "no column since"),
    ],
)
def test_a_dimension_that_does_not_fit_is_refused(spark, options, why):
    """Before a job is started."""
    with pytest.raises(ConfigError, match=why):
        add_members(spark.createDataFrame(versions_of(CHANGES), VERSIONS), **{**OF_USERS, **options})


@any_names(STORED)
def dimension_members(n):
    users = n.frame("user STRING, name STRING, since TIMESTAMP", ("u", "U", at(1)), ("v", None, at(2)))
    options = {"natural": n.all("user"), "valid_from": n("since"), "unknown": {n("name"): "unknown"}}
    yield add_members(users, key=n.declared("key"), **options)


@known_calls
def calls_that_work(known):
    return {"list_dates": {"session": known.spark, "first": DAY, "last": DAY, "fiscal_month": 4, "holidays": {}}}
