"""The topic's sensor: offsets that bronze has not read start one run, and what was refused waits."""

from __future__ import annotations

import importlib

import dagster as dg
import pytest

from dedp_assets.case_study.defs.bronze import visits_stream
from dedp_assets.graph.declare import sensors_of
from dedp_assets.graph.outcomes.run_tags import CAUSE, refusal
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.patterns.connectors.kafka.topics import Topic
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.delta import transaction_id
from tests.helpers import a_record

(VISITS_STREAMED,) = sensors_of(visits_stream.append_visits)
APP_ID = transaction_id("bronze/visits", {}, 0)


@pytest.fixture
def topic(zone, monkeypatch):
    """``topic(5, 3)``: what the topic holds from now on."""

    def holds(*end, id="x"):  # noqa: A002
        begin = {str(partition): 0 for partition in range(len(end))}
        made = Topic("visits", id, begin, {str(partition): offset for partition, offset in enumerate(end)})
        monkeypatch.setattr(Kafka, "describe", lambda _: made)

    return holds


def read(*offsets, sequence):
    """The commit that bronze makes of what it read up to ``offsets``."""
    notes = {"topic": "visits", "topic_id": "x", "offsets": {str(p): offset for p, offset in enumerate(offsets)}}
    record = a_record("bronze/visits", {}, notes=notes, sequence=sequence)
    changed = [{"landed_on": "2026-01-05", "event_date": "2026-01-05"}]
    return {"changed": changed, "record": record, "txn": {APP_ID: sequence}}


def test_without_kafka_it_says_that_visits_come_by_files(zone):
    """A platform without a broker is a whole one."""
    assert "no Kafka is set" in zone.tick(VISITS_STREAMED).skip_message


def test_new_records_start_one_run(zone, topic):
    """However often it looks before the run has begun, the request is the same one."""
    topic(3, 2)
    (first,) = zone.tick(VISITS_STREAMED).run_requests
    topic(9, 9)
    (second,) = zone.tick(VISITS_STREAMED).run_requests
    assert (first.run_key, first.partition_key, first.tags[CAUSE]) == (second.run_key, None, "topic")


def test_what_was_read_starts_nothing_and_what_came_since_starts_the_next_run(zone, topic):
    """The offsets in bronze's log decide, whatever else was written there since."""
    topic(3, 2)
    (first,) = zone.tick(VISITS_STREAMED).run_requests
    zone.bronze(read(3, 2, sequence=5), {"record": a_record("bronze/visits", {"landed_on": "2026-01-05"})})
    assert "everything of topic visits was read" in zone.tick(VISITS_STREAMED).skip_message
    topic(3, 4)
    (second,) = zone.tick(VISITS_STREAMED).run_requests
    assert second.run_key != first.run_key


def test_a_topic_that_fell_behind_or_is_another_one_starts_the_run_that_says_so(zone, topic):
    """Trouble shows as a failed run with its reason, not as silence."""
    zone.bronze(read(3, 2, sequence=5))
    topic(1, 2)
    assert len(zone.tick(VISITS_STREAMED).run_requests) == 1
    topic(3, 2, id="y")
    assert len(zone.tick(VISITS_STREAMED).run_requests) == 1


def test_while_a_run_reads_no_other_is_asked_for(zone, topic):
    """It would find nothing, or wait for the same table."""
    topic(3, 2)
    job = zone.definitions.resolve_job_def("stream_visits")
    zone.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    assert zone.tick(VISITS_STREAMED).skip_message == "stream_visits is running"


def test_a_refused_position_waits_for_a_person(zone, topic):
    """New records behind the refused ones change nothing; once somebody read on, the sensor goes on too."""
    topic(3, 2)
    zone.ran(refusal("bronze/visits", "", "visits@0.0"), fails=True)
    topic(9, 9)
    assert "on purpose" in zone.tick(VISITS_STREAMED).skip_message
    zone.bronze(read(5, 5, sequence=10))
    assert len(zone.tick(VISITS_STREAMED).run_requests) == 1


def test_a_broker_that_does_not_answer_is_said_and_asked_again(zone, monkeypatch):
    """An outage starts no runs that must fail."""

    def look(_):
        raise NotReady("Kafka at x:1 does not answer")

    monkeypatch.setattr(Kafka, "describe", look)
    assert zone.tick(VISITS_STREAMED).skip_message == "Kafka at x:1 does not answer"


@pytest.mark.parametrize(("address", "status"), [("", "STOPPED"), ("x:1", "RUNNING")])
def test_it_looks_by_itself_only_where_a_kafka_is_set(monkeypatch, address, status):
    """A platform of files shows it switched off."""
    try:
        with monkeypatch.context() as patch:
            patch.setenv("DEDP_KAFKA", address)
            (sensor,) = sensors_of(importlib.reload(visits_stream).append_visits)
            assert sensor.default_status.name == status
    finally:
        importlib.reload(visits_stream)
