"""Visits of staging by week: new days are added, a changed one has its week loaded again, an old month is frozen."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from dedp_assets.case_study.defs.staging.visits_by_week import VISITS_BY_WEEK
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.idempotency.fast_metadata_cleaner import freeze_units
from tests.case_study.assets.conftest import MONDAY, day, visits_of
from tests.helpers import a_run

pytestmark = pytest.mark.spark
WEEKLY, DAILY = VISITS_BY_WEEK.name, "staging/visits"
WEEK = day(0)


def days_of(world):
    return Counter((row["week"], str(row["event_date"])) for row in world.rows(WEEKLY))


def pushed(world):
    return Counter((WEEK, str(row["event_date"])) for row in world.rows(DAILY))


def push(world, *numbers):
    """Push days to staging; returns what follows by itself."""
    for number in numbers:
        assert world.compute(DAILY, day(number)).failure == ""
    return world.react()


def test_a_week_follows_its_days_and_a_frozen_one_no_more(world):
    """The edges ask for the Monday of what was pushed; rerun and forced run change no row; a frozen day is refused."""
    world.land(day(0), visits_of(0))
    world.land(day(1), visits_of(1))
    world.react()
    assert push(world, 0) == [(WEEKLY, WEEK)]
    assert push(world, 1) == [(WEEKLY, WEEK)]
    appended = world.last(WEEKLY, week=WEEK)
    assert appended.files_past == ()
    assert days_of(world) == pushed(world)
    world.land(day(2), visits_of(2), late=visits_of(0, count=3, seed=9))
    world.react()
    assert push(world, 0, 2) == [(WEEKLY, WEEK)]
    emptied = world.last(WEEKLY, week=WEEK)
    said = world.materialization(WEEKLY, WEEK)["outcome"]
    assert said == f"unit {WEEK} emptied and loaded with 3 days: 123 rows published"
    assert set(emptied.files_past) > set(appended.files_added)
    assert list(emptied.record.notes["days"]) == [day(0), day(1), day(2)]
    assert days_of(world) == pushed(world)
    assert sum(days_of(world).values()) == 3 * 40 + 3
    assert world.react() == []
    for tags in ({}, {FORCE: "true"}):
        assert world.compute(WEEKLY, WEEK, **tags).failure == ""
        assert days_of(world) == pushed(world)
    assert world.checks(WEEKLY)["units_leave_room"]
    a_frozen_week_is_refused(world)


def test_a_day_is_no_week(world):
    """Who asks for a Tuesday is told what weeks are called by."""
    with pytest.raises(ValueError, match="they are weeks by their first day, from 2025-12-01 to "):
        world.platform.require_partition(WEEKLY, day(1))


def a_frozen_week_is_refused(world):
    before = world.ids(WEEKLY)
    table = Table(VISITS_BY_WEEK, world.address(WEEKLY), lambda: None)
    freeze_units(table.target(a_run()), before=MONDAY + timedelta(days=60))
    assert world.ids(WEEKLY) == before
    assert world.react() == []
    assert "is frozen into 2026-01-05..2026-02-01" in world.compute(WEEKLY, WEEK, **{FORCE: "true"}).failure
    assert world.ids(WEEKLY) == before
    assert world.run("check_tables").failure == ""
    assert world.run("freeze_weeks").failure == ""
