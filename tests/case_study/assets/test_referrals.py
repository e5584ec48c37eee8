"""Referrals, from landing to silver: what dropped the other visits, and what came late for them."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.case_study.defs.silver.referrals import CONDITIONS, referrals
from dedp_assets.graph.declare import schedules_of
from dedp_assets.graph.resources.lake import lake_of
from tests.case_study.assets.conftest import day, visits_of

pytestmark = pytest.mark.spark


def is_kept(line):
    """What a person would say of a landed visit."""
    visit = json.loads(line)
    return "referrer" in visit and "crawler" not in visit["user_agent"] and visit["status"] < 400


def kept(lines):
    return sorted(json.loads(line)["visit_id"] for line in lines if is_kept(line))


def look_back(world, night):
    """What the daemon does at 02:00 of a day: tick the schedule, run what it asks for."""
    with dg.build_schedule_context(
        instance=world.platform.instance,
        scheduled_execution_time=datetime.fromisoformat(night).replace(hour=2, tzinfo=timezone.utc),
        resources={"lake": lake_of(world.settings)},
        repository_def=world.platform.definitions.get_repository_def(),
    ) as context:
        (every_day,) = schedules_of(referrals)
        requests = every_day.evaluate_tick(context).run_requests
    return [world.run("daily_referrals", **request.tags).failure for request in requests or []]


def test_dropped_visits_are_told_by_condition_and_late_ones_are_brought_in(world):
    """Two days; then late visits for the first one, beside a day of crawlers, which is refused by the filter's name."""
    first, second = visits_of(0, count=80), visits_of(1)
    world.land(day(0), first)
    world.land(day(1), second)
    world.react()
    assert look_back(world, day(2)) == [""]
    assert look_back(world, day(2)) == []
    assert world.ids("silver/referrals") == kept([*first, *second])
    shown = world.materialization("silver/referrals", day(0))
    assert shown["rejected by visitor is no program"] == sum("crawler" in line for line in first)
    assert shown["rows read"] == shown["rows written"] + shown["rows filtered"] == len(first)
    assert shown["rows filtered"] == sum(shown[f"first rejected by {name.replace('_', ' ')}"] for name in CONDITIONS)

    crawlers = [line.replace("Mozilla/5.0", "crawler") for line in visits_of(2)]
    late = visits_of(0, count=20, seed=9)
    world.land(day(2), crawlers, late=late)
    world.react()
    before = world.last("silver/referrals", event_date=day(1)).version
    (failure,) = look_back(world, day(3))
    assert f"silver/referrals event_date={day(2)}" in failure
    assert "visitor_is_no_program_drops_as_usual" in failure
    assert "page_was_shown" not in failure
    failed = {name for name, passed in world.checks("silver/referrals").items() if not passed}
    assert failed == {"visitor_is_no_program_drops_as_usual", "input_is_not_empty"}
    assert world.ids("silver/referrals") == kept([*first, *late, *second])
    assert world.last("silver/referrals", event_date=day(1)).version == before
