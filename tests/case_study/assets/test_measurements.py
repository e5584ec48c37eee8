"""Measurements by day, from the journal to the table."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.case_study.defs.platform.measurements import OBJECTIVES, REPORTS, measurements
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import schedules_of
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.patterns.core.measuring.measurements import Measurement
from tests.case_study.assets.conftest import MONDAY, day
from tests.case_study.assets.test_keyed_and_served import resources
from tests.logs import LogOverTime

pytestmark = pytest.mark.spark

TABLE = "platform/measurements"
DUE, _ = OBJECTIVES


def at(number, hour=12):
    return datetime.combine(MONDAY, datetime.min.time(), timezone.utc) + timedelta(days=number, hours=hour)


def delivered(number, hour, verdict="ok"):
    """The pipeline's time of a day, measured when the day was delivered."""
    moment, key = at(number + 1, hour), day(number)
    return Measurement(
        metric=DUE.metric, table=DUE.table, at=moment, verdict=verdict, partition=key, value=3600.0 * hour, unit="s",
        at_most=DUE.target, reason="" if verdict == "ok" else "late",
    )  # fmt: skip


def by_metric(world, number):
    """Metric -> row of a day's measurements."""
    rows = world.rows(TABLE, day=day(number))
    found = {row["metric"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def asked(world, number):
    """The days that the schedule asks for after midnight."""
    with dg.build_schedule_context(
        instance=world.platform.instance,
        scheduled_execution_time=at(number, 0) + timedelta(minutes=10),
        resources=resources(world),
        repository_def=world.platform.definitions.get_repository_def(),
    ) as context:
        (every_day,) = schedules_of(measurements)
        return [request.partition_key for request in every_day.evaluate_tick(context).run_requests or []]


@pytest.fixture
def journal(world):
    """A journal of two delivered days, one of them late, and of visits whose newest are of the first day."""
    made = Journal(folder=str(world.settings.home / "measurements"))
    made.append([delivered(0, 6), delivered(1, 9, "fail"), delivered(3, 7)])
    log = LogOverTime(Path(world.address(VISITS.name)), VISITS.name, column="event_date")
    log.create(at(0))
    log.write(at(1, 6), day(0), 40, newest=at(0, 23))
    log.write(at(4, 6), day(3), 40, newest=at(3, 23))
    for file in (log.location / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace("happened_at", VISITS.event_time))
    return made


def test_a_day_of_the_journal_becomes_rows_with_all_facts(world, journal):
    """A rerun writes nothing, and a day whose journal has grown since is replaced."""
    assert world.compute(TABLE, day(2)).failure == ""
    found = by_metric(world, 2)
    row = found[DUE.metric]
    assert (row["measured_at"], row["dataset"], row["partition_key"]) == (at(2, 9), DUE.table, day(1))
    assert (row["value"], row["unit"], row["at_most"], row["at_least"]) == (32_400, "s", DUE.target, None)
    assert (row["verdict"], row["reason"], row["explained_by"]) == ("fail", "late", None)
    version = world.ledger(TABLE).version()
    assert world.compute(TABLE, day(2)).failure == ""
    assert world.ledger(TABLE).version() == version
    journal.append([Measurement(metric="gap", table="kafka/visits", at=at(2, 20), verdict="ok", value=3, unit="s")])
    assert world.compute(TABLE, day(2)).failure == ""
    assert {*by_metric(world, 2)} == {*found, "gap"}


def test_service_levels_freshness_and_lineage_are_those_at_the_end_of_the_day(world, journal):
    """What came later counts for nothing, whenever the run comes; figures are plotted, and checks warn or pass."""
    assert journal.of_day(MONDAY + timedelta(days=4))
    assert world.compute(TABLE, day(2)).failure == ""
    found = by_metric(world, 2)
    assert found["visitors_due_good_share"]["value"] == 0.5
    assert (found["visitors_due_figure"]["value"], found["visitors_due_figure"]["verdict"]) == (32_400, "warn")
    assert (found["age"]["verdict"], found["age"]["value"]) == ("warn", 49 * 3600)
    assert found["lineage_completeness"]["verdict"] == "ok"
    told = world.materialization(TABLE, day(2))
    assert (told["measurements"], told["troubles"], told["share of known lineage"]) == (1, 1, 1.0)
    checks = world.checks(TABLE)
    assert [checks[name] for name in REPORTS] == [False, False, True]


def test_a_day_without_measurements_has_no_row_and_is_asked_for_once(world):
    """The check warns, and the schedule goes on with the days that the table lacks."""
    assert asked(world, 7)[-1] == day(6)
    assert world.compute(TABLE, day(6)).failure == ""
    assert world.rows(TABLE) == []
    empty = world.evaluation(TABLE, "input_is_not_empty")
    assert (empty.passed, empty.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert day(6) not in asked(world, 7)
    assert asked(world, 8)[-2:] == [day(6), day(7)]
