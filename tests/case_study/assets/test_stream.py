"""Visits by a topic through Dagster, from the generator to gold: each once, whatever happens to runs and topic."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from datetime import datetime, timedelta

import dagster as dg
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from dedp_assets.case_study.sources.visits import BROKEN, visits_of
from dedp_assets.case_study.sources.visits_topic import publish
from dedp_assets.graph.outcomes.run_tags import APPROVED_BECAUSE, APPROVED_BY, refusal
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.connectors.kafka.framed_values import UNREAD
from dedp_assets.patterns.connectors.kafka.schema_registry import framed, register_schema
from dedp_assets.patterns.delta import staged_writes
from dedp_assets.patterns.ingestion.readiness_marker import delivering
from tests.case_study.assets.conftest import SILVER_AND_GOLD, world_in
from tests.faults.test_kill import killed_at
from tests.helpers import within_one_day
from tests.registry import schemas_in_memory

pytestmark = pytest.mark.budget(120, "streams in processes of their own, one of which is killed")

APPROVED = {APPROVED_BY: "Ada", APPROVED_BECAUSE: "the producer sends them again"}


def today():
    """The day the broker writes on its records."""
    return Clock().now().date()


def visits(count, seed=1, ago=0):
    return visits_of(today() - timedelta(days=ago), count=count, seed=seed)


def ids(lines):
    return sorted(json.loads(line)["visit_id"] for line in lines)


def raw(world):
    """What bronze holds, each line with how often."""
    return Counter(row["raw"] for row in world.rows("bronze/visits"))


@contextmanager
def streaming_world(home, kafka):
    """A world whose visits come by a topic, all on one day."""
    within_one_day(timedelta(minutes=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEDP_KAFKA", kafka.bootstrap)
        patch.setenv("DEDP_KAFKA_TOPIC", kafka.topic)
        with world_in(home) as world:
            yield world


@pytest.fixture
def world(spark, tmp_path, kafka):
    """A world for one test, with a topic of its own."""
    with streaming_world(tmp_path, kafka) as made:
        yield made


def delete_before(kafka, offsets):
    """Let the broker forget what lies before some offsets."""
    places = [TopicPartition(kafka.topic, int(partition), offset) for partition, offset in offsets.items()]
    admin = AdminClient(client(kafka.bootstrap))
    for future in admin.delete_records(places).values():
        future.result()


@pytest.fixture
def registry(monkeypatch):
    """A registry with a schema of JSON, which the settings name."""
    with schemas_in_memory() as made:
        monkeypatch.setenv("DEDP_REGISTRY", made.url)
        yield register_schema(made, "visits-value", "{}", dialect="JSON")


def test_published_visits_reach_gold(world, kafka, registry):
    """Generator, topic, bronze, silver, gold: each visit once, malformed records as dead letters; then silence.

    Some records have the header of a schema registry, and one names a schema that nobody registered.
    """
    lines, late, unknown = visits(60), visits(45, ago=2), framed(99, b"{}")
    headed = [framed(registry, line.encode()) for line in lines[:20]]
    publish(kafka, [*headed, *lines[20:], *late, *BROKEN, unknown, None])
    day, before = today().isoformat(), (today() - timedelta(days=2)).isoformat()
    ran = world.react()
    assert ran[0] == ("stream_visits", "")
    assert sorted(ran[1:3]) == [(SILVER_AND_GOLD, before), (SILVER_AND_GOLD, day)]
    assert world.ids("silver/visits") == ids([*lines, *late])
    totals = {str(row["event_date"]): row["visits"] for row in world.rows("gold/daily_visitors")}
    assert totals == {day: 60, before: 45}
    dead = world.rows("silver/visits_dead_letter")
    assert sorted(row["raw"] for row in dead) == sorted([*BROKEN, unknown.decode()])
    assert {row["reason"] for row in dead if row["raw"] == unknown.decode()} == {UNREAD[1]}
    ids_of_schemas = Counter(row["schema_id"] for row in world.rows("bronze/visits"))
    assert ids_of_schemas == {registry: 20, 99: 1, None: 40 + 45 + len(BROKEN)}
    places = {(row["source_file"], row["line_number"]) for row in world.rows("bronze/visits")}
    held = kafka.describe()
    expected = {(f"{kafka.topic}-{p}", n) for p, end in held.end.items() for n in range(1, end + 1)}
    assert len(expected - places) == 1, "the tombstone"
    assert world.react() == []


def test_the_ledger_and_the_ui_say_what_was_read(world, kafka):
    """The commit carries offsets, accounting, watermark; the partition's materialization carries its rows."""
    publish(kafka, [*visits(20), None])
    assert world.run("stream_visits").failure == ""
    commit = world.ledger("bronze/visits").commit(1)
    held, record = kafka.describe(), commit.record
    assert (record.notes["topic"], record.notes["offsets"]) == (kafka.topic, held.end)
    assert (record.rows["read"], record.rows["written"], record.rows["filtered"]) == (21, 20, 1)
    assert (record.sequence, record.verdict) == (21, "passed")
    shown = world.materialization("bronze/visits", today().isoformat())
    assert (shown["dagster/partition_row_count"], shown["rows filtered"], shown["verdict"]) == (20, 1, "passed")
    publish(kafka, visits(5, seed=2))
    assert world.run("stream_visits").failure == ""
    assert world.materialization("bronze/visits", today().isoformat())["dagster/partition_row_count"] == 25
    noted = world.ledger("bronze/visits").commit(2).record.notes
    assert noted["watermark"] > (record.notes["watermark"] or "")
    inputs = {f"{kafka.topic}-{partition}" for partition in held.end}
    assert set(noted["inputs"]["newest"]) == set(noted["inputs"]["heard"]) == inputs
    seen = datetime.fromisoformat(max(filter(None, noted["inputs"]["newest"].values())))
    newest = max(datetime.fromisoformat(json.loads(line)["event_time"]) for line in visits(20))
    assert seen == newest.replace(microsecond=0)
    assert world.run("check_tables").failure == ""
    stalled = world.evaluation("bronze/visits", "no_input_is_stalled")
    assert stalled.passed
    assert f"{kafka.topic}-0 behind [s]" in stalled.metadata


def test_a_run_by_hand_with_nothing_new_makes_no_commit(world, kafka):
    """Rerunning the job from the UI changes nothing."""
    publish(kafka, visits(5))
    assert world.run("stream_visits").failure == ""
    before = world.versions()
    assert world.run("stream_visits").failure == ""
    assert world.versions() == before


def held_at(kafka):
    """Record -> where the broker holds it, as another reader of the topic sees it."""
    end, found = kafka.describe().end, {}
    consumer = Consumer({**client(kafka.bootstrap), "group.id": "places", "enable.auto.commit": False})
    consumer.assign([TopicPartition(kafka.topic, int(partition), 0) for partition in end])
    while len(found) < sum(end.values()):
        (message,) = consumer.consume(1)
        assert not message.error()
        found[message.value().decode()] = (f"{message.topic()}-{message.partition()}", message.offset() + 1)
    consumer.close()
    return found


@pytest.mark.promise("a-killed-stream-leaves-nothing")
def test_a_killed_stream_leaves_nothing_half_done(world, kafka):
    """Killed before its commit and then after it, with checkpoints that know no better: each record is there once.

    One that cannot be parsed is one dead letter, placed by the topic, partition and offset where the broker has it.
    """
    lines, store = [*visits(60), *BROKEN], world.ledger("bronze/visits").store
    publish(kafka, lines[:5])
    assert world.run("stream_visits").failure == ""
    publish(kafka, lines[5:])
    for killed, (point, seen) in enumerate((("before commit", lines[:5]), ("after commit", lines)), start=1):
        killed_at(world, point, "bronze/visits")
        checkpoints = [file.path.partition("/")[2] for file in store.files() if file.path.startswith("checkpoint-")]
        assert (checkpoints.count("offsets/0"), checkpoints.count("commits/0")) == (killed, 0)
        assert raw(world) == Counter(seen), point
    world.restart()
    assert world.run("stream_visits").failure == ""
    assert raw(world) == Counter(lines)
    world.react()
    places = held_at(kafka)
    letters = [(row["raw"], row["source_file"], row["line_number"]) for row in world.rows("silver/visits_dead_letter")]
    assert sorted(letters) == sorted((record, *places[record]) for record in BROKEN)
    assert world.react() == []


def test_deleted_records_are_an_error_until_a_person_gives_them_up(world, kafka):
    """Nothing is skipped in silence: topic, partition, offsets and remedy are named; approved, the rest is read."""
    first = visits(8)
    publish(kafka, first)
    assert world.run("stream_visits").failure == ""
    read = kafka.describe().end
    publish(kafka, visits(8, seed=2))
    delete_before(kafka, {p: at + 1 for p, at in read.items() if kafka.describe().end[p] > at})
    held = kafka.describe()
    gone = next(p for p, at in held.begin.items() if at > read[p])
    failure = world.run("stream_visits").failure
    lost = f"from offset {read[gone]} to {read[gone]} were deleted before they were read"
    assert f"topic {kafka.topic}, partition {gone}: the records {lost}" in failure
    assert (
        f"Keep records longer (retention.ms), and let a named person approve to go on at offset {read[gone] + 1}"
        in failure
    )
    (refused,) = world.platform.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
    assert refused.tags | refusal("bronze/visits", "", f"{kafka.topic}@0.8") == refused.tags
    assert raw(world) == Counter(first)
    assert world.run("stream_visits", **APPROVED).failure == ""
    left = sum(held.end.values()) - sum(max(at, held.begin[p]) for p, at in read.items())
    assert sum(raw(world).values()) == len(first) + left
    record = world.last("bronze/visits").record
    assert (record.approval["by"], lost in record.notes["given_up"]) == ("Ada", True)
    publish(kafka, visits(1, seed=3))
    assert world.run("stream_visits").failure == ""
    assert sum(raw(world).values()) == len(first) + left + 1


def test_everything_deleted_and_given_up_is_settled(world, kafka):
    """Also where nothing is left to read, the approval is recorded and the topic is not asked about again."""
    publish(kafka, visits(4))
    assert world.run("stream_visits").failure == ""
    publish(kafka, visits(4, seed=2))
    delete_before(kafka, kafka.describe().end)
    assert "were deleted before they were read" in world.run("stream_visits").failure
    assert world.run("stream_visits", **APPROVED).failure == ""
    assert sum(raw(world).values()) == 4
    assert world.run("stream_visits").failure == ""


def test_a_topic_made_anew_is_not_taken_for_the_old_one(world, kafka):
    """Its offsets begin again: reading on at the old ones would skip records, so that waits for a person."""
    old, new = visits(4), visits(9, seed=2)
    publish(kafka, old)
    assert world.run("stream_visits").failure == ""
    admin = AdminClient(client(kafka.bootstrap))
    admin.delete_topics([kafka.topic])[kafka.topic].result()
    publish(kafka, new)
    failure = world.run("stream_visits").failure
    assert f"topic {kafka.topic} was deleted and created again after it was read up to" in failure
    assert world.run("stream_visits", **APPROVED).failure == ""
    assert raw(world) == Counter([*old, *new])
    assert world.run("stream_visits").failure == ""


def test_a_day_that_came_by_the_topic_refuses_files(world, kafka):
    """Neither a delivery nor an empty one replaces what the topic brought; other days take files as ever."""
    lines = visits(6)
    publish(kafka, lines)
    assert world.run("stream_visits").failure == ""
    day, before = today().isoformat(), (today() - timedelta(days=1)).isoformat()
    sentence = (
        f"bronze/visits landed_on={day} holds rows that came by topic {kafka.topic}: nothing by files was published"
    )
    world.land(day, visits(2, seed=2))
    assert sentence in world.run("daily_visits", day).failure
    with delivering(world.landing / "visits" / day) as folder:
        for file in folder.glob("*.jsonl"):
            file.unlink()
    assert sentence in world.run("daily_visits", day).failure
    assert raw(world) == Counter(lines)
    world.land(before, visits(3, ago=1))
    assert world.run("daily_visits", before).failure == ""
    assert len(world.rows("bronze/visits", landed_on=before)) == 3


def test_a_day_that_came_by_files_refuses_the_topic_until_it_is_emptied(world, kafka):
    """The stream says which day is in the way; a delivery that declares the day empty hands it over."""
    day, landed, streamed = today().isoformat(), visits(6), visits(4, seed=2)
    world.land(day, landed)
    assert world.run("daily_visits", day).failure == ""
    publish(kafka, streamed)
    sentence = (
        f"bronze/visits landed_on={day} holds rows that came by files: nothing by topic {kafka.topic} was published"
    )
    assert sentence in world.run("stream_visits").failure
    assert raw(world) == Counter(landed)
    with delivering(world.landing / "visits" / day) as folder:
        for file in folder.glob("*.jsonl"):
            file.unlink()
    world.run("daily_visits", day)
    assert raw(world) == Counter()
    assert world.run("stream_visits").failure == ""
    assert raw(world) == Counter(streamed)


def test_another_stream_in_between_is_a_retry_and_not_a_second_copy(world, kafka, monkeypatch):
    """Two runs read the same records: the later one is refused at its commit, looks again, and goes on after them."""
    world.platform.instance.event_log_storage.set_concurrency_slots("bronze_visits", 2)
    first, second = visits(5), visits(5, seed=2)
    publish(kafka, first)
    stage_rows, others = staged_writes.stage_rows, []

    def staged_late(*rows, **options):
        staged = stage_rows(*rows, **options)
        if not others:
            others.append("begins")
            publish(kafka, second)
            others.append(world.run("stream_visits").failure)
        return staged

    monkeypatch.setattr(staged_writes, "stage_rows", staged_late)
    assert world.run("stream_visits").failure == ""
    assert others == ["begins", ""]
    assert raw(world) == Counter([*first, *second])


def test_without_kafka_the_job_says_so_in_one_sentence(spark, tmp_path):
    """Nothing is asked for a broker that nobody named."""
    with world_in(tmp_path) as world:
        failure = world.run("stream_visits").failure
        assert failure == "no Kafka is set: name a broker by DEDP_KAFKA=host:port, or land visits as files"
        assert dict(world.versions()) == {}
