"""Reports of another code location, from hours that this one produces: by markers, and by a trigger."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from dedp_assets.case_study.defs.platform import report_triggers
from dedp_assets.case_study.reporting.definitions import defs
from dedp_assets.laptop.orchestration.instance import Platform
from tests.case_study.assets.conftest import World, day, visits_of, world_in
from tests.helpers import a_record, write_log
from tests.webserver import webserver

pytestmark = [pytest.mark.spark, pytest.mark.budget(90, "24 hours of a table and their triggers, in two locations")]

HOURS, TRIGGERS = "gold/page_views_by_hour", "platform/report_triggers"
BUSY, PEAK = "reporting/busy_pages", "reporting/peak_hours"
FORCE = {"dedp/force": "true"}
MORE = visits_of(0, count=80)
"""The day as it is delivered again, with more visits."""


def hour(number):
    return f"{day(0)}-{number:02}"


@pytest.fixture(scope="module")
def platforms(spark, tmp_path_factory):
    """Both locations over one home, and a webserver that knows the reports; the tests tell one story in order."""
    with world_in(tmp_path_factory.mktemp("reports")) as world:
        world.land(day(0), visits_of(0))
        for table in ("bronze/visits", "silver/visits"):
            assert not world.compute(table, day(0)).failure
        reports = World(Platform(world.settings))
        reports.platform.definitions = defs()
        module = "dedp_assets.case_study.reporting.definitions"
        served = webserver(world.platform.instance, module=module, location="reporting")
        with served as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEDP_WEB", url)
            yield SimpleNamespace(producer=world, consumer=reports)
        reports.platform.instance.dispose()


def hours(world, table, first, last, **tags):
    """Compute a range of hours in one run."""
    ends = {"dagster/asset_partition_range_start": hour(first), "dagster/asset_partition_range_end": hour(last)}
    return world.compute(table, **ends, **tags).failure


def queued(world):
    """The runs that triggers have started, oldest first."""
    runs = world.platform.instance.get_runs(dg.RunsFilter(job_name="report_peak_hours"))
    return [run.tags["dagster/partition"] for run in reversed(runs) if run.status == dg.DagsterRunStatus.QUEUED]


def views(lines):
    """Views by hour and page, by a model in plain Python."""
    visits = map(json.loads, lines)
    return Counter((visit["event_time"][:13].replace("T", "-"), visit["page"]) for visit in visits)


def test_23_hours_start_nothing(platforms):
    """No marker of the last hour: no run of the consumer, and no trigger of the producer."""
    assert hours(platforms.producer, HOURS, 0, 22) == ""
    assert hours(platforms.producer, TRIGGERS, 0, 22) == ""
    assert platforms.consumer.react() == []
    assert queued(platforms.producer) == []
    assert "1 of 24 hours have no marker: 23" in platforms.consumer.run("report_busy_pages", day(0)).failure


def test_the_24th_hour_starts_one_run_by_its_marker_and_one_by_the_trigger(platforms):
    """The run that a marker starts reads all hours; what the trigger starts waits in Dagster's queue."""
    ended = platforms.producer.run("hourly_page_views", hour(23))
    assert ended.failure == ""
    assert platforms.consumer.react() == [("report_busy_pages", day(0))]
    assert platforms.consumer.react() == []
    counted = Counter()
    for (_, page), number in views(visits_of(0)).items():
        counted[page] += number
    assert {row["page"]: row["views"] for row in platforms.consumer.rows(BUSY)} == counted
    assert queued(platforms.producer) == [day(0)]
    (row,) = [row for row in platforms.producer.rows(TRIGGERS) if row["run_id"]]
    assert (row["hour"], row["job"], str(row["day"])) == (hour(23), "report_peak_hours", day(0))
    assert not platforms.consumer.run("report_peak_hours", day(0)).failure
    by_hour = Counter()
    for (each, _), number in views(visits_of(0)).items():
        by_hour[each] += number
    (peak,) = platforms.consumer.rows(PEAK)
    assert peak["views"] == max(by_hour.values())
    assert by_hour[peak["hour"]] == peak["views"]


def test_a_job_that_was_started_again_starts_nothing_again(platforms):
    """Unchanged hours: neither a marker nor a trigger is new."""
    assert platforms.producer.run("hourly_page_views", hour(23)).failure == ""
    assert queued(platforms.producer) == [day(0)]
    assert platforms.consumer.react() == []


def hours_with_more():
    """The hours of which the second delivery says otherwise."""
    old, new = views(visits_of(0)), views(MORE)
    return sorted({each for each, page in old.keys() | new.keys() if old[each, page] != new[each, page]})


def test_a_backfill_of_an_hour_starts_its_day_again(platforms):
    """Once by the marker and once by the trigger; the hours beside it are as they were."""
    platforms.producer.land(day(0), MORE)
    for table in ("bronze/visits", "silver/visits"):
        assert not platforms.producer.compute(table, day(0)).failure
    before = {key: platforms.producer.last(HOURS, hour=key).version for key in map(hour, range(24))}
    changed, *_ = hours_with_more()
    assert platforms.producer.run("hourly_page_views", changed).failure == ""
    assert {key for key in before if platforms.producer.last(HOURS, hour=key).version != before[key]} == {changed}
    assert platforms.consumer.react() == [("report_busy_pages", day(0))]
    assert platforms.consumer.react() == []
    assert queued(platforms.producer) == [day(0)] * 2


def test_a_missing_target_fails_the_trigger_alone(platforms, monkeypatch):
    """The consumer renamed its job: the producer's rows are committed, and the error names what is missing."""
    monkeypatch.setattr(report_triggers, "JOB", "report_quiet_hours")
    _, changed, *_ = hours_with_more()
    version = platforms.producer.last(HOURS, hour=changed).version
    known = {run.run_id for run in platforms.producer.platform.instance.get_runs()}
    ended = platforms.producer.run("hourly_page_views", changed)
    said = "job must name a job of the code location reporting, not report_quiet_hours, which is missing there"
    assert said in ended.failure
    assert platforms.producer.last(HOURS, hour=changed).version > version
    instance = platforms.producer.platform.instance
    (run,) = [run for run in instance.get_runs() if run.run_id not in known]
    events = [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event]
    assert {e.step_key for e in events if e.is_step_success} == {"gold_page_views_by_hour"}
    assert {e.step_key for e in events if e.is_step_failure} == {"platform_report_triggers"}
    materialized = [e for e in events if e.event_type_value == "ASSET_MATERIALIZATION"]
    assert [e.asset_key.path for e in materialized] == [["gold", "page_views_by_hour"]]
    monkeypatch.undo()
    assert platforms.producer.run("hourly_page_views", changed).failure == ""
    assert queued(platforms.producer) == [day(0)] * 3


def without_files(place):
    """A log of the producer's 24 hours in which views became texts; of its rows no file is there."""
    written = [{"record": a_record(HOURS, {"hour": hour(n)}), "changed": [{"hour": hour(n)}]} for n in range(24)]
    write_log(place, {"hour": "string", "page": "string", "views": "string"}, ["hour"], written)


@pytest.mark.parametrize(
    ("instead", "found"),
    [(None, "a table at {place}, found none"), (without_files, "views BIGINT, found STRING")],
    ids=["the table moved", "another type"],
)
def test_a_broken_contract_is_refused_before_a_row_is_read(platforms, instead, found):
    """What was expected is the error, where a read could only fail at missing files; the report stays as it was."""
    place = Path(platforms.producer.settings.lake) / HOURS
    before = platforms.consumer.rows(BUSY)
    place.rename(moved := place.with_name("moved"))
    try:
        if instead:
            instead(place)
        said = platforms.consumer.run("report_busy_pages", day(0), **FORCE).failure
    finally:
        shutil.rmtree(place, ignore_errors=True)
        moved.rename(place)
    assert f"breaks the contract: expected {found.format(place=place)}" in said
    assert platforms.consumer.rows(BUSY) == before
