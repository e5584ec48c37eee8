"""Loads of the visits: which run and release made the rows of a date, and what users see of that."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.case_study.defs.platform.visits_context import HIDDEN, visits_context
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import schedules_of
from dedp_assets.graph.resources.lake import lake_of
from tests.case_study.assets.conftest import day, visits_of

pytestmark = pytest.mark.spark
TABLE = "platform/visits_context"


def tick(world, night):
    """What the daemon does at 02:30 of a day: tick the schedule, run what it asks for."""
    with dg.build_schedule_context(
        instance=world.platform.instance,
        scheduled_execution_time=datetime.fromisoformat(night).replace(hour=2, minute=30, tzinfo=timezone.utc),
        resources={"lake": lake_of(world.settings)},
        repository_def=world.platform.definitions.get_repository_def(),
    ) as context:
        (every_day,) = schedules_of(visits_context)
        requests = every_day.evaluate_tick(context).run_requests
    return [world.run("daily_visits_context", **request.tags).failure for request in requests or []]


def load(world, landed_on, *dates):
    """Load a landing day, and the dates of the visits that it brought."""
    runs = [world.compute("bronze/visits", landed_on), *(world.compute("silver/visits", date) for date in dates)]
    assert [run.failure for run in runs if run.failure] == []


def current(world):
    """Date -> context of its present rows; each date has one."""
    rows = [row for row in world.rows(TABLE) if row["is_current"]]
    assert max(Counter(row["event_date"] for row in rows).values()) == 1
    return {str(row["event_date"]): row for row in rows}


def test_each_visit_has_one_context_and_users_see_none(world, spark):
    """Two days, a night after each, and late visits that the first one follows; users see no column of a context."""
    world.land(day(0), visits_of(0))
    load(world, day(0), day(0))
    assert tick(world, day(1)) == [""]
    assert tick(world, day(1)) == []
    first = world.last("silver/visits", event_date=day(0))
    assert current(world)[day(0)]["run_id"] == first.record.run_id

    world.land(day(1), visits_of(1), late=visits_of(0, count=3, seed=9))
    load(world, day(1), day(0), day(1))
    assert [key for tables, key in world.react() if TABLE in tables] == [day(0)]
    assert tick(world, day(2)) == [""]
    found, second = current(world), world.last("silver/visits", event_date=day(0))
    attempts = [(row["loading_attempt"], row["run_id"]) for row in world.rows(TABLE, event_date=day(0))]
    assert sorted(attempts) == [(1, first.record.run_id), (2, second.record.run_id)]
    assert found[day(0)]["version"] == second.version
    assert {(row["loading_attempt"], row["code_version"]) for row in found.values()} == {(2, "2"), (1, "2")}
    assert found.keys() == {str(row["event_date"]) for row in world.rows("silver/visits")}

    spark.sql(world.materialization(TABLE, day(1))["view for users"])
    shown = spark.table("visits")
    assert shown.columns == [name for name in VISITS.columns if name not in HIDDEN]
    assert sorted(row.visit_id for row in shown.collect()) == world.ids("silver/visits")
    spark.catalog.dropTempView("visits")
