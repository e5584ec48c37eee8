"""Kafka: what a topic holds, told without a JVM; and the broker of one node."""

from __future__ import annotations

import re
import socket
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from resources.engine import EngineError
from resources.kafka import Broker, Kafka, client
from resources.ports import free as free_port
from resources.ports import listens
from tests.faults.processes import living, wait_until


def produce(kafka, *values, partition=0):
    """Send records to one partition."""
    producer = Producer(client(kafka.bootstrap))
    for value in values:
        producer.produce(kafka.topic, value, partition=partition)
    assert producer.flush(30) == 0


def own_broker(settings, folder, **ports):
    """A broker for one test."""
    return Broker(settings, folder, **{"port": free_port(), "controller_port": free_port(), **ports})


def test_a_topic_tells_its_offsets_by_partition(kafka):
    """From the oldest record still held to the one after the newest."""
    kafka.create()
    assert (kafka.look().begin, kafka.look().end) == ({"0": 0, "1": 0}, {"0": 0, "1": 0})
    produce(kafka, "a", "b", "c")
    produce(kafka, "d", partition=1)
    admin = AdminClient(client(kafka.bootstrap))
    for future in admin.delete_records([TopicPartition(kafka.topic, 0, 2)]).values():
        future.result()
    assert (kafka.look().begin, kafka.look().end) == ({"0": 2, "1": 0}, {"0": 3, "1": 1})


def test_a_topic_that_was_made_anew_has_another_identity(kafka):
    """The same name is not the same topic; making it twice changes nothing."""
    kafka.create()
    first = kafka.look().id
    kafka.create()
    assert kafka.look().id == first
    admin = AdminClient(client(kafka.bootstrap))
    admin.delete_topics([kafka.topic])[kafka.topic].result()
    kafka.create()
    assert kafka.look().id != first


def test_records_of_an_open_transaction_are_not_there_yet(kafka):
    """What may still be taken back is beyond the end until it is committed."""
    kafka.create()
    producer = Producer({**client(kafka.bootstrap), "transactional.id": kafka.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(kafka.topic, "a", partition=0)
    producer.flush()
    assert kafka.look().end["0"] == 0
    producer.commit_transaction()
    assert wait_until(lambda: kafka.look().end["0"] == 2)


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
        kafka.look()


@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_named_with_the_setting_that_says_where_it_is():
    """Neither looking nor making a topic waits for ever."""
    kafka = Kafka(bootstrap=f"127.0.0.1:{free_port()}")
    for action in (kafka.look, kafka.create):
        with pytest.raises(NotReady, match=f"^Kafka at {kafka.bootstrap} does not answer .* DEDP_KAFKA$"):
            action()


def test_without_an_address_nobody_is_asked():
    """Files are the default, and the sentence says so."""
    with pytest.raises(ConfigError, match="DEDP_KAFKA=host:port, or land visits as files"):
        Kafka().look()


@pytest.mark.slow
def test_a_broker_starts_whatever_chance_makes_of_its_clusters_id(test_settings, tmp_path, monkeypatch):
    """Of 64 ids one would begin with a dash, and Kafka's tool would take that for an option."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xf8" + bytes(15)))
    made = Broker(test_settings, tmp_path, port=free_port(), controller_port=free_port())
    assert made.command()
    assert "cluster.id=" in (tmp_path / "data" / "meta.properties").read_text()


@pytest.mark.slow
def test_a_broker_ends_with_its_process_and_starts_again_with_what_it_kept(test_settings, tmp_path, capfd):
    """On the Java runtime of the wheel: in silence, in its own folder, on the loopback interface only."""
    made = own_broker(replace(test_settings, java="bundled"), tmp_path / "kafka")
    made.start()
    try:
        kafka = Kafka(bootstrap=made.address)
        kafka.create()
        produce(kafka, "a")
        before, process = kafka.look(), made.process.pid
        assert set(re.findall(r"//([^:]+):", (made.folder / "server.properties").read_text())) == {"127.0.0.1"}
        made.stop()
        assert (living({process}), listens(made.port)) == (set(), False)
        made.start()
        assert kafka.look() == before
        assert "-Xmx256m" in Path(f"/proc/{made.process.pid}/cmdline").read_text()
    finally:
        made.stop()
    assert {path.name for path in tmp_path.iterdir()} == {"kafka"}
    assert (made.folder / "output").read_text() == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_broker_that_cannot_start_says_why(test_settings, tmp_path):
    """A port that is taken ends in one error with the broker's own words, and in no process."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        made = own_broker(test_settings, tmp_path, controller_port=taken.getsockname()[1])
        with pytest.raises(EngineError, match=r"does not start:\n(.|\n)*Address already in use"):
            made.start()
        assert made.process is None
