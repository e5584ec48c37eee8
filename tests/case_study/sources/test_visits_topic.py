"""The visits generator as a producer: every record arrives once, under the key of its user."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from dedp_assets.case_study.sources import visits_topic
from dedp_assets.case_study.sources.visits import BROKEN, visits_of
from dedp_assets.case_study.sources.visits_topic import publish
from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.core.errors import NotReady

LINES = visits_of(date(2026, 1, 5), count=60)


def consumed(kafka):
    """Every record of the topic, by an independent consumer: key, value, partition, in the order of each partition."""
    topic = kafka.describe()
    consumer = Consumer({**client(kafka.bootstrap), "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic.name, int(partition), 0) for partition in topic.end])
    found = []
    while len(found) < sum(topic.end.values()):
        message = consumer.poll(30)
        assert message is not None
        found.append((message.key(), message.value(), message.partition()))
    consumer.close()
    return found


def test_every_line_arrives_once_under_its_user(kafka):
    """Values are the generator's bytes; a user's visits share a partition and keep their order."""
    assert publish(kafka, LINES) == 60
    found = consumed(kafka)
    assert sorted(value.decode() for _, value, _ in found) == sorted(LINES)
    sent, arrived, places = defaultdict(list), defaultdict(list), defaultdict(set)
    for line in LINES:
        sent[json.loads(line)["user_id"].encode()].append(line.encode())
    for key, value, partition in found:
        arrived[key].append(value)
        places[key].add(partition)
    assert arrived == sent
    assert all(len(partitions) == 1 for partitions in places.values())
    assert {partition for _, _, partition in found} == {0, 1}


def test_records_that_are_no_visits_are_published_all_the_same(kafka):
    """Malformed lines, bytes that are no text, an empty value and a tombstone arrive as they are."""
    odd = [*BROKEN, b"\xff\xfe", "[1]", "", None]
    assert publish(kafka, odd) == len(odd)
    found = consumed(kafka)
    expected = [value.encode() if isinstance(value, str) else value for value in odd]
    assert sorted((value for _, value, _ in found), key=repr) == sorted(expected, key=repr)
    users = {key for key, value, _ in found if value and b"user_id" in value}
    assert users == {b"u1"}
    assert {key for key, value, _ in found if not value or b"user_id" not in value} == {None}


def test_a_record_that_the_broker_refuses_is_an_error_that_counts_the_others(kafka, monkeypatch):
    """Nobody takes a part of the visits for all of them."""
    monkeypatch.setattr(visits_topic, "_AT_ONCE", 1)
    admin = AdminClient(client(kafka.bootstrap))
    small = NewTopic(kafka.topic, 1, config={"max.message.bytes": "1000"})
    admin.create_topics([small])[kafka.topic].result()
    with pytest.raises(NotReady, match=f"took 1 of 2 records for topic {kafka.topic} .*: publish the others again$"):
        publish(kafka, ["short", "long" * 1000])
