"""Cubes and ways of visits, from landing to gold: days, the weeks made of them, and what came late."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from itertools import product

import dagster as dg
import duckdb
import pytest

from dedp_assets.case_study.defs.gold.daily_page_views import DAILY_PAGE_VIEWS
from dedp_assets.case_study.defs.gold.pages_by_visit import PAGES_BY_VISIT
from dedp_assets.case_study.defs.gold.visits_cube import VISITS_CUBE, WEEKLY_CUBE, visits_cube
from dedp_assets.case_study.defs.platform import tiers
from dedp_assets.case_study.defs.platform.exports import EXPORTS, MILESTONE
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.case_study.defs.silver.visits_by_visitor import VISITS_BY_VISITOR, visits_by_visitor
from dedp_assets.graph.declare import schedules_of
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.delta import Table, milestones, store_at
from dedp_assets.patterns.storage.manifest import ListedFiles
from dedp_assets.patterns.storage.snapshot_export import verify_export
from tests.case_study.assets.conftest import MONDAY, day, visits_of
from tests.helpers import a_run, rows_at, within_one_day

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(55, "nights of two weeks, late visits, an export and a storage tier in one world"),
]
CUBE, WEEKLY, WAYS, LAID_OUT = (t.name for t in (VISITS_CUBE, WEEKLY_CUBE, PAGES_BY_VISIT, VISITS_BY_VISITOR))


def recount(lines):
    """What a person counts of landed visits: by device and site, by each of them, and of all."""
    groups = defaultdict(list)
    for visit in map(json.loads, lines):
        site = visit["referrer"].split("/")[2] if "referrer" in visit else "none"
        for over_device, over_site in product((0, 2), (0, 1)):
            group = (
                None if over_device else visit.get("device_type", "unknown"),
                None if over_site else site,
                over_device + over_site,
            )
            groups[group].append(visit)
    return {
        group: (
            len(held),
            sum(v["bytes"] for v in held),
            max(v["bytes"] for v in held),
            len({v["user_id"] for v in held}),
        )
        for group, held in groups.items()
    }


def cube(world, table, **values):
    rows = world.rows(table, **values)
    found = {
        (r["device"], r["site"], r["grouping_id"]): (r["visits"], r["bytes"], r["largest"], r["visitors"]) for r in rows
    }
    assert len(found) == len(rows)
    return found


def ways(lines):
    """Pages of each visitor, in order."""
    found = defaultdict(list)
    for visit in sorted(map(json.loads, lines), key=lambda visit: (visit["event_time"], visit["visit_id"])):
        found[visit["user_id"]].append(visit["page"])
    return dict(found)


def walked(world, number):
    rows = world.rows(WAYS, event_date=day(number))
    found = {row["user_id"]: row["pages"] for row in rows}
    assert len(found) == len(rows)
    return found


def night(world, number):
    """What the daemon does in the night that a day begins with, and what follows."""
    at = datetime.combine(MONDAY + timedelta(days=number), datetime.min.time(), timezone.utc) + timedelta(hours=2)
    for schedule, job in (
        (*schedules_of(visits_cube), "daily_cube"),
        (*schedules_of(visits_by_visitor), "daily_layout"),
    ):
        with dg.build_schedule_context(
            instance=world.platform.instance,
            scheduled_execution_time=at,
            resources={"lake": lake_of(world.settings)},
            repository_def=world.platform.definitions.get_repository_def(),
        ) as context:
            for request in schedule.evaluate_tick(context).run_requests or []:
                assert world.run(job, **request.tags).failure == ""
    return world.react()


def changed(world, table, partition):
    return world.ledger(table).changed(partition).version


def test_days_weeks_and_ways_follow_late_visits_and_nothing_else_changes(world):
    """Cubes equal a recount of what landed, an average of averages would not; late visits change their day and week."""
    first, second, next_week = visits_of(0, count=60), visits_of(1, count=35), visits_of(7, count=40)
    world.land(day(0), first)
    world.land(day(1), second)
    world.react()
    assert night(world, 2) == [(WEEKLY, day(0))]
    for number, lines in ((0, first), (1, second)):
        assert cube(world, CUBE, event_date=day(number)) == recount(lines)
        assert walked(world, number) == ways(lines)
    week = cube(world, WEEKLY, week=day(0))
    assert week == recount([*first, *second])
    (total, size, _, visitors) = week[None, None, 3]
    days = [cube(world, CUBE, event_date=day(number))[None, None, 3] for number in (0, 1)]
    assert size / total != sum(of_day[1] / of_day[0] for of_day in days) / 2
    assert visitors < sum(of_day[3] for of_day in days)
    assert all(world.checks(CUBE).values())
    assert listed_visits(world) == recounted([*first, *second])

    late_visits_change_their_day_and_week(world, first, second, next_week)


def listed_visits(world):
    """Visits and visitors of all weeks as DuckDB reads them by the manifest, which is of the newest version."""
    assert world.checks(WEEKLY)["the_manifest_is_of_the_newest_version"]
    listed = ListedFiles.at(world.address(WEEKLY))
    assert listed.version == world.ledger(WEEKLY).version()
    with duckdb.connect() as reader:
        sql = f"SELECT sum(visits), sum(len(visitor_ids)) FROM ({listed.duckdb_query()}) WHERE grouping_id = 3"
        return reader.sql(sql).fetchall()[0]


def recounted(lines):
    total, _, _, visitors = recount(lines)[None, None, 3]
    return total, visitors


def late_visits_change_their_day_and_week(world, first, second, next_week):
    """At once and no other day; the day that they came with is not over, and waits for its night."""
    before = [changed(world, table, {"event_date": day(1)}) for table in (CUBE, WAYS, LAID_OUT)]
    late = visits_of(0, count=5, seed=9)
    world.land(day(7), next_week, late=late)
    followed = [(tables, key) for tables, key in world.react() if CUBE in tables]
    assert followed == [(f"{WAYS}, {CUBE}, {LAID_OUT}", day(0)), (WEEKLY, day(0))]
    assert cube(world, CUBE, event_date=day(0)) == recount([*first, *late])
    assert cube(world, WEEKLY, week=day(0)) == recount([*first, *late, *second])
    assert walked(world, 0) == ways([*first, *late])
    assert listed_visits(world) == recounted([*first, *late, *second])
    assert night(world, 8) == [(WEEKLY, day(7))]
    assert cube(world, WEEKLY, week=day(7)) == recount(next_week)
    assert before == [changed(world, table, {"event_date": day(1)}) for table in (CUBE, WAYS, LAID_OUT)]
    assert night(world, 8) == []
    a_week_of_page_views_is_exported(world)
    an_old_day_is_read_on_its_tier(world)
    an_emptied_day_and_a_forced_run(world, [*first, *late])


def an_emptied_day_and_a_forced_run(world, lines):
    """A day that lost its visits has no row and fails nothing; who asks for a run anyway gets the same rows."""
    silver = Table(VISITS, world.address(VISITS.name), SparkEngine().session)
    run = a_run(VISITS.name, at=datetime(2100, 1, 1, tzinfo=timezone.utc))
    silver.clear(partition={"event_date": day(1)}, provenance=run)
    for table in (CUBE, LAID_OUT, WAYS):
        assert world.compute(table, day(1)).failure == ""
        assert world.rows(table, event_date=day(1)) == []
    assert world.compute(WEEKLY, day(0)).failure == ""
    assert world.compute(WAYS, day(0), **{FORCE: "true"}).failure == ""
    assert cube(world, WEEKLY, week=day(0)) == recount(lines)
    assert walked(world, 0) == ways(lines)


def an_old_day_is_read_on_its_tier(world):
    """Nobody asks for a run, checks stay green, and the week, computed again later, has its rows from there."""
    days = cube(world, CUBE, event_date=day(1))
    within_one_day(timedelta(minutes=2))
    age = (Clock().now().date() - MONDAY).days
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "FROM_DAYS", {"hot": 0, "cold": age, "archive": age + 1})
        assert world.run("move_to_tiers").failure == ""
    assert (cube(world, CUBE, event_date=day(0)), cube(world, CUBE, event_date=day(1))) == ({}, days)
    assert world.react() == []
    assert world.run("check_tables").failure == ""


def a_week_of_page_views_is_exported(world):
    """The rows of the version that was read, which a milestone keeps; the export's bytes are those of its checksums."""
    assert world.compute(EXPORTS.name, day(0)).failure == ""
    (row,) = world.rows(EXPORTS.name)
    views = world.ledger(DAILY_PAGE_VIEWS.name)
    assert (row["table"], row["week"].isoformat()) == (DAILY_PAGE_VIEWS.name, day(0))
    assert milestones(views) == {MILESTONE: row["version"]}
    assert verify_export(Table.at(row["place"], lambda: None)).passed
    rows = [
        sorted(map(str, rows_at(store, version)))
        for store, version in ((store_at(row["place"]), None), (views.store, row["version"]))
    ]
    assert rows[0] == rows[1] != []
    assert world.react() == []
