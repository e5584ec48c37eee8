"""Sessions with stable ids, figures for the applications, and counts that are published together: from landing on."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.case_study.defs.gold.daily_sessions import daily_sessions
from dedp_assets.case_study.defs.gold.referring_sites import REFERRED_PAGES, REFERRING_SITES
from dedp_assets.graph.declare import schedules_of
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems import postgres
from dedp_assets.patterns.idempotency.transactional_writer import read_group
from tests.case_study.assets.conftest import day, visits_of

pytestmark = [pytest.mark.spark, pytest.mark.budget(60, "sessions, figures and a group of tables from landing on")]


def resources(world):
    return {"lake": lake_of(world.settings)}


def night(world, schedule, job, at):
    """What the daemon does in a night: tick the schedule, run what it asks for; the ranges of the runs."""
    with dg.build_schedule_context(
        instance=world.platform.instance,
        scheduled_execution_time=datetime.fromisoformat(at).replace(hour=3, tzinfo=timezone.utc),
        resources=resources(world),
        repository_def=world.platform.definitions.get_repository_def(),
    ) as context:
        requests = schedule.evaluate_tick(context).run_requests or []
    assert [world.run(job, **request.tags).failure for request in requests] == [""] * len(requests)
    first, last = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
    return [(request.tags[first], request.tags[last]) for request in requests]


def texts(rows):
    """Rows as sorted texts, times in UTC."""
    utc = [[v.astimezone(timezone.utc).isoformat() if isinstance(v, datetime) else str(v) for v in row] for row in rows]
    return sorted(utc)


def served(database, table):
    with database.connect() as connection:
        return texts(connection.execute(f"SELECT * FROM serving.{table}").fetchall())


def gold(world, table):
    return texts(row.values() for row in world.rows(table))


def visit(user, at, number):
    line = {"visit_id": f"v{number}", "event_time": f"{day(0)}T{at}Z", "user_id": user, "page": "/", "status": 200}
    return json.dumps(line)


def sessions_of(world):
    """(user, session) -> visits, of the users that this file names."""
    rows = world.rows("gold/daily_sessions", event_date=day(0))
    return {(r["user_id"], r["session_id"]): r["visits"] for r in rows if r["user_id"] in ("Ada", "Bob", "Cid")}


def is_served(world, database):
    """Whether the applications see gold, row by row."""
    pages = ("daily_page_views", "daily_visitors")
    return [served(database, name) for name in pages] == [gold(world, f"gold/{name}") for name in pages]


def reports(world):
    """Let the sensors do their work; the days that were served, with what failed."""
    return [(ended.partition, ended.failure) for ended in world.platform.react() if "serving" in ended.job]


def places(world):
    """When and where each line landed."""
    columns = ("raw", "landed_on", "source_file", "line_number")
    return sorted(str([row[c] for c in columns]) for row in world.rows("bronze/visits"))


def forced(world, table, *days):
    return [world.compute(table, each, **{"dedp/force": "true"}).failure for each in days] == [""] * len(days)


def test_late_visits_reach_sessions_under_their_ids(world):
    """A late visit of 09:55 makes no second session, and a visitor who comes late has one; ids made anew agree.

    What they are made of, when and where a visit landed, is written once: a backfill of bronze leaves it as it is.
    """
    mine = [visit("Ada", "10:00:00", 1), visit("Ada", "10:05:00", 2), visit("Ada", "15:00:00", 3)]
    world.land(day(0), [*visits_of(0), *mine, visit("Bob", "10:00:00", 4)])
    world.react()
    assert night(world, *schedules_of(daily_sessions), "compute_daily_sessions", day(1)) == [(day(0), day(0))]
    before = sessions_of(world)
    assert sorted((user, visits) for (user, _), visits in before.items()) == [("Ada", 1), ("Ada", 2), ("Bob", 1)]
    world.land(day(1), visits_of(1), late=[visit("Ada", "09:55:00", 5), visit("Cid", "09:55:00", 6)])
    world.react()
    assert night(world, *schedules_of(daily_sessions), "compute_daily_sessions", day(2)) == [(day(0), day(1))]
    after = sessions_of(world)
    assert {key: after[key] for key in before} == {key: n + (n == 2) for key, n in before.items()}
    assert [user for user, _ in after.keys() - before.keys()] == ["Cid"]
    landed = places(world)
    assert forced(world, "bronze/visits", day(0), day(1))
    assert forced(world, "gold/daily_sessions", day(0))
    assert (places(world), sessions_of(world)) == (landed, after)


def test_applications_see_gold_however_often_it_is_written(world, database, monkeypatch):
    """Late visits included, those that came while it was away as well; put back after somebody emptied a table."""
    for number in range(2):
        world.land(day(number), visits_of(number))
    assert reports(world) == []
    with monkeypatch.context() as served_by:
        served_by.setattr(postgres, "address", lambda _: database)
        assert reports(world) == [(day(0), ""), (day(1), "")]
        assert is_served(world, database)
        assert reports(world) == []
    world.land(day(2), visits_of(2), late=[visit("Ada", "09:55:00", 5)])
    assert reports(world) == []
    assert not is_served(world, database)
    assert world.run("check_tables").failure == ""
    away = world.evaluation("serving/daily_report", "every_partition_is_current")
    assert not away.passed
    assert away.description.startswith("waiting: 2 partitions are not current: the operational database is not running")
    monkeypatch.setattr(postgres, "address", lambda _: database)
    assert reports(world) == [(day(0), ""), (day(2), "")]
    assert is_served(world, database)
    receipts = {(str(row["event_date"]), row["served"]): row["rows"] for row in world.rows("serving/daily_report")}
    assert (receipts[day(0), "serving.daily_visitors"], len(receipts)) == (1, 6)
    with database.connect() as connection:
        connection.execute("DELETE FROM serving.daily_page_views")
    assert forced(world, "serving/daily_report", day(0), day(1), day(2))
    assert is_served(world, database)


def test_sites_and_pages_count_the_same_referrals(world):
    """Both tables of a day come from one publication, and agree for readers of the group after a late visit, too."""
    world.land(day(0), visits_of(0, count=80))
    world.react()
    assert world.compute("silver/referrals", day(0)).failure == ""
    world.react()

    def totals():
        lake = resources(world)["lake"]
        tables = [lake.table(spec) for spec in (REFERRING_SITES, REFERRED_PAGES)]
        return [sum(row["referrals"] for row in rows.collect()) for rows in read_group(tables).values()]

    assert totals() == [len(world.rows("silver/referrals"))] * 2
    world.land(day(1), visits_of(1), late=visits_of(0, count=40, seed=9))
    world.react()
    assert world.compute("silver/referrals", day(0)).failure == ""
    assert [key for job, key in world.react() if "gold/referring_sites" in job] == [day(0)]
    assert totals() == [len(world.rows("silver/referrals"))] * 2
    assert world.react() == []
