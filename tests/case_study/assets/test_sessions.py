"""Sessions over midnight, from landing on."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.case_study.defs.gold.sessions import sessions
from dedp_assets.graph.declare import schedules_of
from tests.case_study.assets.conftest import day, visits_of
from tests.case_study.assets.test_keyed_and_served import resources

pytestmark = pytest.mark.spark

PENDING, SESSIONS = "silver/sessions_pending", "gold/sessions"
GAP = timedelta(minutes=30)


def visit(user, number, at, name):
    line = {"visit_id": name, "event_time": f"{day(number)}T{at}Z", "user_id": user, "page": f"/{name}", "status": 200}
    return json.dumps(line)


def night(world, at):
    """Tick the schedule after midnight and run what it asks for; the range and what failed."""
    with dg.build_schedule_context(
        instance=world.platform.instance,
        scheduled_execution_time=datetime.fromisoformat(at).replace(hour=3, tzinfo=timezone.utc),
        resources=resources(world),
        repository_def=world.platform.definitions.get_repository_def(),
    ) as context:
        (every_day,) = schedules_of(sessions)
        requests = every_day.evaluate_tick(context).run_requests or []
    if not requests:
        return None
    (request,) = requests
    failure = world.run("compute_sessions", **request.tags).failure
    ends = [request.tags[f"dagster/asset_partition_range_{end}"] for end in ("start", "end")]
    return (*ends, failure)


def model(world, last):
    """Sessions of the whole history that no visit after day ``last`` can belong to: user, first, last, pages."""
    end = datetime.fromisoformat(day(last + 1)).replace(tzinfo=timezone.utc)
    found = []
    for visit in sorted(world.rows("silver/visits"), key=lambda v: (v["user_id"], v["event_time"], v["visit_id"])):
        same = found and found[-1][0] == visit["user_id"] and visit["event_time"] - found[-1][2] <= GAP
        user, first, _, pages = found.pop() if same else (visit["user_id"], visit["event_time"], None, [])
        found.append((user, first, visit["event_time"], [*pages, visit["page"]]))
    return sorted(session for session in found if session[2] + GAP < end)


def held(world):
    rows = world.rows(SESSIONS)
    assert len({row["session_id"] for row in rows}) == len(rows)
    assert all(row["visits"] == len(row["pages"]) for row in rows)
    return sorted((row["user_id"], row["started_at"], row["ended_at"], row["pages"]) for row in rows)


@pytest.mark.promise("sessions-over-midnight-are-those")
def test_sessions_over_midnight_are_those_of_the_whole_history(world):
    """By night, a pause of exactly the gap included; late visits go on as far as they change what a day leaves open.

    The days after that keep their version. A day that somebody asks for again, or out of turn, changes nothing.
    """
    midnight = [visit("Ada", 0, "23:50:00", "a1"), visit("Bob", 0, "23:45:00", "b1"), visit("Cid", 0, "23:45:00", "c1")]
    world.land(day(0), [*visits_of(0), *midnight])
    after = [visit("Ada", 1, "00:10:00", "a2"), visit("Bob", 1, "00:15:00", "b2"), visit("Cid", 1, "00:15:01", "c2")]
    world.land(day(1), [*visits_of(1), *after])
    world.land(day(2), visits_of(2))
    world.react()
    for number in (2, 1):  # a parallel backfill begins with them as well: they are refused, and leave nothing
        assert f"{day(number)} comes after {day(0)}, which has not run" in world.compute(SESSIONS, day(number)).failure
    assert SESSIONS not in world.versions()
    assert night(world, day(3)) == (day(0), day(2), "")
    assert held(world) == model(world, 2)
    pages = {row["user_id"]: row["pages"] for row in world.rows(SESSIONS) if row["user_id"] in ("Ada", "Bob")}
    assert pages == {"Ada": ["/a1", "/a2"], "Bob": ["/b1", "/b2"]}
    assert night(world, day(3)) is None
    world.land(day(3), visits_of(3), late=[visit("Ada", 0, "23:55:00", "a0"), visit("Dan", 0, "09:55:00", "d1")])
    world.react()
    before = [world.last(SESSIONS, event_date=day(number)).version for number in range(3)]
    assert night(world, day(4)) == (day(0), day(3), "")
    assert held(world) == model(world, 3)
    after = [world.last(SESSIONS, event_date=day(number)).version for number in range(3)]
    assert [number for number in range(3) if after[number] != before[number]] == [0, 1]
    assert world.compute(PENDING, day(1), **{"dedp/force": "true"}).failure == ""
    assert night(world, day(4)) is None
    assert held(world) == model(world, 3)


def test_a_day_that_is_not_there_yet_holds_back_the_next_and_an_empty_one_does_not(world):
    """The second day was not delivered: the third waits for it, and says so; then only a late visit comes with it."""
    world.land(day(0), [*visits_of(0), visit("Ada", 0, "23:50:00", "a1")])
    world.land(day(2), visits_of(2))
    world.react()
    first, last, failure = night(world, day(3))
    assert (first, last) == (day(0), day(2))
    assert f"comes after {day(1)}, which has not run" in failure
    assert held(world) == model(world, 0)
    world.land(day(1), [], late=[visit("Ada", 0, "23:55:00", "a2")])
    refused = [ended for ended in world.platform.react() if ended.failure]
    assert [(ended.job, ended.partition) for ended in refused] == [("daily_visits", day(1))]
    assert "dedp approve gold/daily_page_views" in refused[0].failure  # gold wants a person's word for an empty day
    assert night(world, day(3)) == (day(0), day(2), "")
    assert held(world) == model(world, 2)
    assert world.checks(SESSIONS)["constraints_hold"]
