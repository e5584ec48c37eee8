"""Kafka: what a topic holds, told without a JVM."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.systems import kafka as resource
from dedp_assets.graph.systems.kafka import Kafka, client, lacking
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.connectors.kafka.topics import Topic
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from tests.faults.processes import wait_until


def produce(kafka, *values, partition=0):
    """Send records to one partition."""
    producer = Producer(client(kafka.bootstrap))
    for value in values:
        producer.produce(kafka.topic, value, partition=partition)
    assert producer.flush(30) == 0


def test_a_topic_tells_its_offsets_by_partition(kafka):
    """From the oldest record still held to the one after the newest."""
    kafka.create()
    assert (kafka.describe().begin, kafka.describe().end) == ({"0": 0, "1": 0}, {"0": 0, "1": 0})
    produce(kafka, "a", "b", "c")
    produce(kafka, "d", partition=1)
    admin = AdminClient(client(kafka.bootstrap))
    for future in admin.delete_records([TopicPartition(kafka.topic, 0, 2)]).values():
        future.result()
    assert (kafka.describe().begin, kafka.describe().end) == ({"0": 2, "1": 0}, {"0": 3, "1": 1})


def test_a_topic_that_was_made_anew_has_another_identity(kafka):
    """The same name is not the same topic; making it twice changes nothing."""
    kafka.create()
    first = kafka.describe().id
    kafka.create()
    assert kafka.describe().id == first
    admin = AdminClient(client(kafka.bootstrap))
    admin.delete_topics([kafka.topic])[kafka.topic].result()
    assert wait_until(lambda: kafka.topic not in admin.list_topics(timeout=10).topics)
    kafka.create()
    assert kafka.describe().id != first


def test_records_of_an_open_transaction_are_not_there_yet(kafka):
    """What may still be taken back is beyond the end until it is committed."""
    kafka.create()
    producer = Producer({**client(kafka.bootstrap), "transactional.id": kafka.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(kafka.topic, "a", partition=0)
    producer.flush()
    assert kafka.describe().end["0"] == 0
    producer.commit_transaction()
    assert wait_until(lambda: kafka.describe().end["0"] == 2)


def test_the_broker_says_when_a_record_arrived(kafka):
    """A producer's clock does not decide under which day a record is filed."""
    kafka.create()
    producer = Producer(client(kafka.bootstrap))
    producer.produce(kafka.topic, "a", partition=0, timestamp=1)
    producer.flush()
    consumer = Consumer({**client(kafka.bootstrap), "group.id": kafka.topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(kafka.topic, 0, 0)])
    kind, milliseconds = consumer.poll(30).timestamp()
    consumer.close()
    assert (kind, milliseconds > 1) == (2, True)


def test_a_topic_that_is_not_there_is_named(kafka):
    """One sentence says which topic of which broker."""
    with pytest.raises(NotReady, match=f"^Kafka at {kafka.bootstrap} has no topic {kafka.topic}: "):
        kafka.describe()
    kafka.create()
    misspelt = Kafka(bootstrap=kafka.bootstrap, topic=kafka.topic[:-1])
    with pytest.raises(NotReady, match=f"did you mean {kafka.topic}\\?; correct its name, or create it$"):
        misspelt.sample(1)


@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_named_with_the_setting_that_says_where_it_is():
    """Neither looking nor making a topic waits for ever."""
    kafka = Kafka(bootstrap=f"127.0.0.1:{free_port()}")
    for action in (kafka.describe, kafka.create):
        with pytest.raises(NotReady, match=f"^Kafka at {kafka.bootstrap} does not answer .* DEDP_KAFKA$"):
            action()


def _fails(monkeypatch, error, *, times):
    """Let a topic's offsets be answered with an error so many times, and then with an empty topic."""
    errors = iter([KafkaException(KafkaError(error))] * times)

    def held(_, topic):
        for found in errors:
            raise found
        return Topic(topic, "made", begin={}, end={})

    monkeypatch.setattr(resource, "_held", held)


@pytest.mark.parametrize(
    "error",
    ["LEADER_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"],
)
def test_an_election_of_leaders_is_waited_for(monkeypatch, error):
    """After a start of the brokers, or right after a topic was made, offsets are known a moment later."""
    _fails(monkeypatch, getattr(KafkaError, error), times=2)
    assert Kafka(bootstrap="127.0.0.1:1").describe().end == {}


@pytest.mark.parametrize("error", ["_TRANSPORT", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART"])
def test_an_error_that_waiting_does_not_mend_is_told_at_once(monkeypatch, error):
    """The first one, although the next answer would be good."""
    _fails(monkeypatch, getattr(KafkaError, error), times=1)
    with pytest.raises(NotReady, match=r"^Kafka at 127\.0\.0\.1:1 "):
        Kafka(bootstrap="127.0.0.1:1").describe()


def test_without_an_address_nobody_is_asked():
    """Files are the default, and the sentence says so."""
    with pytest.raises(ConfigError, match="DEDP_KAFKA=host:port, or land visits as files"):
        Kafka().describe()


def test_brokers_are_lacking_until_they_answer(kafka):
    """The sentence says what to start."""
    assert lacking(kafka.bootstrap) == ""
    assert lacking(f"127.0.0.1:{free_port()}").endswith("start it, or correct DEDP_KAFKA")


def test_records_from_before_a_time_are_counted(kafka):
    """Of all partitions, deleted ones left out; a younger record is none of them."""
    kafka.create()
    produce(kafka, "a", "b")
    produce(kafka, "c", partition=1)
    time.sleep(0.05)
    at = Clock().now()
    assert kafka.older(at) == 3
    time.sleep(0.05)
    produce(kafka, "d")
    assert kafka.older(at) == 3
    admin = AdminClient(client(kafka.bootstrap))
    for future in admin.delete_records([TopicPartition(kafka.topic, 0, 1)]).values():
        future.result()
    assert kafka.older(at) == 2
