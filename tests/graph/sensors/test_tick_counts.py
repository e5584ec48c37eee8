"""What a tick of the reconciler costs, in work that can be counted: it follows from what changed, not from the history.

Each count is a ceiling: it may fall and never rise. Where a change makes one fall, lower it here.
"""

from __future__ import annotations

from datetime import date, datetime, timezone

import dagster as dg
import pytest

from benchmarks.zone import Zone
from dedp_assets.case_study import defs
from dedp_assets.graph.declare import declared
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.sensors.reconciler import reconcilers
from dedp_assets.laptop.orchestration.instance import Platform
from tests.counting import OF_LOGS, counted

LAST, NOW = date(2028, 12, 31), datetime(2029, 1, 1, 12, tzinfo=timezone.utc)
TABLES = ("bronze/visits", "silver/visits", "gold/daily_page_views", "gold/daily_visitors")
LOGS = len([*TABLES, "silver/visits_dead_letter"])
SIZES = (10, 1_000)
FIRST = "the first tick"
CHECKED_AT_ONCE = 100
"""Deliveries that one look holds against what was loaded, once an hour."""


def most(*counts):
    return dict(zip(OF_LOGS, counts, strict=True))


MOST = {
    ("deliveries", FIRST): most(17, 4, 0, 51, 0, 2, 6, 2),
    ("reconciler", FIRST): most(0, 0, 0, 20, 0, 1, 3, 0),
    ("deliveries", "nothing new"): most(0, 0, 0, 20, 0, 1, 1, 0),
    ("reconciler", "nothing new"): most(0, 0, 0, 20, 0, 1, 1, 0),
    ("deliveries", "a file"): most(0, 0, 0, 20, 0, 3, 2, 0),
    ("reconciler", "a file"): most(0, 0, 0, 20, 0, 3, 2, 0),
    ("deliveries", "a commit"): most(2, 0, 0, 25, 0, 4, 2, 0),
    ("reconciler", "a commit"): most(0, 0, 0, 20, 0, 4, 2, 0),
}


class Ticks:
    """The two sensors over a zone, and the counts of their ticks."""

    def __init__(self, zone):
        self.zone, self.platform = zone, Platform(settings())
        tables = [table for table in declared(defs) if table.spec.name in TABLES]
        jobs = [self.platform.definitions.resolve_job_def("daily_visits")]
        self.sensors, self.counts = reconcilers(tables, jobs), {}

    def tick(self, situation=""):
        """Tick both sensors, the one that asks for deliveries first; count if the ticks have a name."""
        for sensor in self.sensors:
            engine = SparkEngine()
            resources = {
                "lake": Lake(root=str(self.zone.lake), engine=engine),
                "landing": Landing(root=str(self.zone.landing)),
                "clock": Clock(fixed=NOW.isoformat()),
            }
            repository = self.platform.definitions.get_repository_def()
            instance = self.platform.instance
            with (
                dg.build_sensor_context(instance, resources=resources, repository_def=repository) as context,
                counted() as found,
            ):
                sensor.evaluate_tick(context)
            if situation:
                self.counts[sensor.name, situation] = found


def counts_over(home, days):
    """The counts of each situation over a history of so many days."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEDP_HOME", str(home))
        patch.setenv("DAGSTER_HOME", str(home / "dagster"))
        # By Dagster's own clock, no partition of the zone is there yet.
        patch.setattr("dagster._time._mockable_get_current_datetime", lambda: NOW)
        patch.setattr("dagster._time._mockable_get_current_timestamp", NOW.timestamp)
        zone = Zone(home / "zone", settings().landing, days, last=LAST)
        zone.checkpoint("silver/visits")
        zone.dead_letters(10)
        ticks = Ticks(zone)
        ticks.tick(FIRST)
        for _ in range(days // CHECKED_AT_ONCE):
            ticks.tick()
        ticks.tick("nothing new")
        zone.late_file(zone.days[-3], 1)
        ticks.tick("a file")
        zone.late_visit(zone.days[-3])
        ticks.tick("a commit")
        ticks.platform.instance.dispose()
    # What a first tick has to read: each commit once, and some of the deliveries that are held against what was loaded.
    ticks.counts["deliveries", FIRST]["log files"] -= LOGS * days
    for sensor, before in (("deliveries", 0), ("reconciler", CHECKED_AT_ONCE)):
        ticks.counts[sensor, FIRST]["listings"] -= min(CHECKED_AT_ONCE, max(0, days - before))
    return ticks.counts


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Number of days -> the counts; of a first tick, without the commits that it has to read and the deliveries."""
    return {days: counts_over(tmp_path_factory.mktemp(f"days-{days}"), days) for days in SIZES}


@pytest.mark.parametrize("tick", MOST)
def test_a_tick_does_no_more_work_than_it_did(found, tick):
    """Files of logs, listings, looks, statements of the run history."""
    counts = found[SIZES[0]][tick]
    assert {name: max(count, MOST[tick][name]) for name, count in counts.items()} == MOST[tick]


@pytest.mark.parametrize("tick", MOST)
def test_a_tick_costs_what_changed(found, tick):
    """A history of a hundred times the partitions costs the same work."""
    short, long = (found[days][tick] for days in SIZES)
    assert short == long
