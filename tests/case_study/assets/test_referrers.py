"""Websites that sent visitors: totals that are run in order, and the last visit, whatever the order."""

from __future__ import annotations

import json
from collections import Counter
from urllib.parse import urlsplit

import pytest
from deltalake import DeltaTable

from tests.case_study.assets.conftest import day, visits_of
from tests.case_study.assets.test_referrals import is_kept, look_back

pytestmark = pytest.mark.spark

TOTALS, LAST = "gold/referrer_totals", "gold/last_referrals"


def websites(*lines):
    """What a person would count: website -> visits and its last one."""
    found, last = Counter(), {}
    for visit in map(json.loads, filter(is_kept, lines)):
        website = urlsplit(visit["referrer"]).netloc
        found[website] += 1
        last[website] = max(last.get(website, ("",)), (visit["event_time"], visit["visit_id"]))
    return dict(found), {website: visit for website, (_, visit) in last.items()}


def held(world):
    totals = {row["website"]: row["visits"] for row in world.rows(TOTALS)}
    return totals, {row["website"]: row["visit_id"] for row in world.rows(LAST)}


def test_late_visits_of_a_day_leave_the_table_of_a_clean_rebuild(world):
    """A day that comes late takes the later days back, which follow by themselves, in order; nothing is counted twice.

    A day once more, forced or not, changes nothing; restored by somebody, the tables are caught up.
    """
    days = [visits_of(number) for number in range(3)]
    for number in range(3):
        world.land(day(number), days[number])
    world.react()
    assert look_back(world, day(1)) == [""]
    assert look_back(world, day(2)) == [""]
    world.react()
    assert held(world) == websites(*days[0], *days[1])
    late = visits_of(0, count=20, seed=9)
    world.land(day(3), visits_of(3), late=late)
    world.react()
    assert look_back(world, day(3)) == [""]
    asked = [(job, key) for job, key in world.react() if TOTALS in job]
    assert asked == [(TOTALS, day(0)), (TOTALS, day(1)), (TOTALS, day(2))]
    everything = websites(*days[0], *late, *days[1], *days[2])
    assert held(world) == everything
    versions = world.versions()
    for name in (TOTALS, LAST):
        assert world.compute(name, day(1)).failure == ""
        assert world.compute(name, day(0), **{"dedp/force": "true"}).failure == ""
    assert world.versions() == versions
    assert world.checks(TOTALS)["constraints_hold"]
    for name in (TOTALS, LAST):
        DeltaTable(world.address(name)).restore(2)
    assert {key for _, key in world.react()} >= {day(0), day(1), day(2)}
    assert held(world) == everything
    assert world.react() == []
