"""A Kafka topic as a sink."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.connectors.delivery.sinks import Outgoing, send
from dedp_assets.patterns.connectors.delivery.topic_sink import TopicSink
from dedp_assets.patterns.core.running.backoff import Backoff

pytestmark = pytest.mark.slow

RECORDS = [Outgoing(str(n), f"page {n % 3}", json.dumps({"n": n})) for n in range(60)]


def held(kafka):
    """Each record of a topic: its partition, and its id, by another reader."""
    end, found = kafka.describe().end, []
    for partition, count in end.items():
        consumer = Consumer({**client(kafka.bootstrap), "group.id": "held", "enable.auto.commit": False})
        consumer.assign([TopicPartition(kafka.topic, int(partition), 0)])
        for message in consumer.consume(count):
            assert not message.error()
            found.append((partition, message.key().decode(), dict(message.headers())["id"].decode()))
        consumer.close()
    return found


def test_records_are_in_the_topic_in_order_and_say_who_they_are(kafka):
    """All of a key in one partition, ids in their headers; one sent again by a later run is there twice, by one id.

    A record that is too large is refused: nothing behind it of the same request is there.
    """
    kafka.create()
    sink = TopicSink(client(kafka.bootstrap), limit=20)
    for start in range(0, 60, 20):
        answers = sink.send(kafka.topic, RECORDS[start : start + 20])
        assert {answer.outcome for answer in answers} == {"accepted"}
    by_key = {}
    for partition, key, one in held(kafka):
        by_key.setdefault(key, []).append((partition, one))
    for n in range(3):
        assert [one for _, one in by_key[f"page {n}"]] == [str(m) for m in range(n, 60, 3)]
        assert len({partition for partition, _ in by_key[f"page {n}"]}) == 1
    large = Outgoing("large", "page 0", "x" * 2_000_000)
    answers, requests = send(
        sink,
        kafka.topic,
        [Outgoing("60", "page 0", "{}"), large, RECORDS[0]],
        backoff=Backoff(attempts=3, first_seconds=0),
    )
    assert ([answer.outcome for answer in answers], requests) == (["accepted", "refused", "failed"], 1)
    assert sink.send(kafka.topic, RECORDS[:1])[0].outcome == "accepted"
    assert [one for _, key, one in held(kafka) if key == "page 0"][-3:] == ["57", "60", "0"]


def test_brokers_that_do_not_answer_are_a_failed_attempt():
    """The outcome stays open, and the next attempt begins with a new producer."""
    sink = TopicSink(client("127.0.0.1:1"), give_up_seconds=0.3)
    answers, requests = send(sink, "alerts", RECORDS[:2], backoff=Backoff(attempts=2, first_seconds=0))
    assert ([answer.outcome for answer in answers], requests) == (["failed", "failed"], 2)
