"""Visits without visitors, beside one row for each visitor; and what goes by its age."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.case_study.defs.silver.visit_persons import VISIT_EVENTS, VISITORS
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns import join_persons
from dedp_assets.patterns.core.classes import shown
from tests.case_study.assets.conftest import MONDAY, day, visits_of

pytestmark = pytest.mark.spark

EVENTS, PERSONS = VISIT_EVENTS.name, VISITORS.name


def newest(lines):
    """Visitor -> time, visit, address and program of the newest visit."""
    found = {}
    for visit in map(json.loads, lines):
        place = (visit["event_time"], visit["visit_id"])
        if place > found.get(visit["user_id"], (("", ""),))[0]:
            found[visit["user_id"]] = (place, visit.get("ip"), visit.get("user_agent"))
    return {user: (place[1], *rest) for user, (place, *rest) in found.items()}


def visitors(world):
    """Visitor -> visit, address and program, as stored."""
    return {row["user_id"]: (row["last_visit"], row["ip"], row["user_agent"]) for row in world.rows(PERSONS)}


def test_visitors_are_apart_and_a_forgotten_one_is_not_made_again(world):
    """A row for each, as the newest of the days left it, in whatever order these are computed."""
    lines = [visits_of(number) for number in range(2)]
    for number, landed in enumerate(lines):
        world.land(day(number), landed)
    world.react()
    for number in (1, 0, 1):
        assert world.compute(EVENTS, day(number)).failure == ""
    assert visitors(world) == newest([*lines[0], *lines[1]])
    assert {
        name for name in VISIT_EVENTS.columns if shown(VISIT_EVENTS.columns[name].classification, "log") != "values"
    } == {"user_id"}
    assert world.ids(EVENTS) == world.ids("silver/visits")
    lake = lake_of(world.settings)
    gone = min(visitors(world))
    lake.suppression().add("T-1", {"user": [gone]}, at=Clock().now(), because="asked")
    lake.table(VISITORS).delete(f"user_id = '{gone}'", provenance=lake.table(VISITORS).target("erasure").run)
    assert world.compute(EVENTS, day(0), **{"dedp/force": "true"}).failure == ""
    assert visitors(world).keys() == newest([*lines[0], *lines[1]]).keys() - {gone}
    joined = join_persons(lake.table(VISIT_EVENTS), lake.table(VISITORS))
    assert joined.filter(f"user_id = '{gone}' AND ip IS NOT NULL").count() == 0


def test_what_is_past_its_retention_goes_by_a_plan(world, monkeypatch):
    """Two years after; not what a reader may compute again, and nothing downstream is computed again for it."""
    for number in range(2):
        world.land(day(number), visits_of(number, count=5))
    world.react()
    before = world.versions()
    first = datetime.combine(MONDAY, datetime.min.time(), timezone.utc)
    monkeypatch.setattr(Clock, "now", lambda _: first + timedelta(days=731))
    assert world.run("apply_retention").failure == ""
    assert {str(row["landed_on"]) for row in world.rows("bronze/visits")} == {day(1)}
    now = world.versions()
    assert {name for name in now if now[name] != before[name]} == {"bronze/visits"}
    assert [job for job, _ in world.react() if "visits" in job] == []
