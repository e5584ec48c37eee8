"""The schedules' ticks: what they ask for, and what they wait for instead of failing."""

from datetime import datetime, timezone

import dagster as dg
import psycopg
import pytest

from dedp_assets.case_study.defs.bronze.legacy_visits import legacy_visits
from dedp_assets.case_study.defs.silver.ad_impressions import join_ads
from dedp_assets.graph.declare import schedules_of
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns.delta import transaction_id
from tests.helpers import a_record

(LEGACY_VISITS_EVERY_DAY,) = schedules_of(legacy_visits)
(ADS_JOINED_EVERY_FIVE_MINUTES,) = schedules_of(join_ads)
WEEK = [f"2026-01-{number}" for number in range(13, 20)]


@pytest.fixture
def tick(zone):
    """``tick()``: the schedule's tick in the night to 20 January 2026, with a database that is what it is."""

    def at_night():
        night = datetime(2026, 1, 20, 0, 30, tzinfo=timezone.utc)
        resources = zone.resources() | {"operational": OperationalDatabase()}
        with dg.build_schedule_context(
            instance=zone.instance,
            scheduled_execution_time=night,
            resources=resources,
            repository_def=zone.definitions.get_repository_def(),
        ) as context:
            return LEGACY_VISITS_EVERY_DAY.evaluate_tick(context)

    return at_night


@pytest.fixture
def answering(monkeypatch):
    """A database that answers."""

    class Connection:
        def close(self):
            """Nothing."""

    monkeypatch.setattr(OperationalDatabase, "connect", lambda _: Connection())


def loaded(day):
    partition = {"ingested_on": day}
    applied = {transaction_id("bronze/legacy_visits", partition, 0): 1}
    return {"record": a_record("bronze/legacy_visits", partition), "changed": [partition], "txn": applied}


def test_the_days_of_the_last_week_are_asked_for_once(zone, tick, answering, keys):
    """Those that nobody loaded, and once more the one before them, which may have gained rows."""
    assert keys(tick()) == WEEK
    zone.dated("bronze/legacy_visits", *map(loaded, WEEK[:5]), column="ingested_on")
    assert keys(tick()) == WEEK[4:]
    (first, *_) = tick().run_requests
    assert first.run_key == "bronze/legacy_visits:2026-01-17@2026-01-20"


def test_without_a_running_database_the_tick_says_how_to_start_it(tick):
    """No run is started that could only fail."""
    assert "is not running: start it with `make up`" in tick().skip_message


def test_a_database_that_does_not_answer_is_waited_for(tick, monkeypatch):
    """The tick does not fail, and shows nothing of the address that was refused."""

    def refuse(_):
        raise psycopg.OperationalError("connection to db.example failed for user:s3cret")

    monkeypatch.setattr(OperationalDatabase, "connect", refuse)
    said = tick().skip_message
    assert "does not answer" in said
    assert "s3cret" not in said


def ended(instance, tags, *, fails=False):
    """Record a finished run of the job that joins the topics."""

    @dg.op
    def join() -> None:
        if fails:
            raise dg.Failure("on purpose", allow_retries=False)

    @dg.job(name=join_ads.job.name, config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}})
    def some_job() -> None:
        join()

    some_job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)


def test_topics_are_joined_if_more_came_than_the_last_run_found(zone, tmp_path):
    """Nothing is asked for before both sides are there, nor after a run that succeeded; after one that failed it is."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:

        def tick():
            resources = {"lake": zone.resources()["lake"]}
            with dg.build_schedule_context(instance=instance, resources=resources) as context:
                return ADS_JOINED_EVERY_FIVE_MINUTES.evaluate_tick(context)

        landed = {"record": a_record("bronze/visits", {}), "changed": [{"landed_on": "2026-01-05", "event_date": None}]}
        zone.bronze(landed)
        assert tick().skip_message == "bronze/ads: nothing came by its topic yet"
        zone.dated("bronze/ads", {"record": a_record("bronze/ads", {}), "changed": [{"event_date": "2026-01-05"}]})
        (first,) = tick().run_requests
        ended(instance, first.tags, fails=True)
        assert tick().run_requests[0].tags == first.tags
        ended(instance, first.tags)
        assert tick().skip_message == "nothing came since bronze/visits@1 bronze/ads@1"
        zone.bronze(landed)
        assert len(tick().run_requests) == 1
