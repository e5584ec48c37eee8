"""A compacted topic with the newest state of each person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from dedp_assets.graph.systems.kafka import client
from dedp_assets.patterns.connectors.delivery.compacted_topic import HEARTBEAT, CompactedTopic
from dedp_assets.patterns.connectors.delivery.sinks import Outgoing
from dedp_assets.patterns.connectors.delivery.topic_sink import TopicSink
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from tests.canaries import Search, people, texts_in
from tests.faults.processes import wait_until

pytestmark = pytest.mark.slow

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
    "max.compaction.lag.ms": "2000",
    "file.delete.delay.ms": "100",
}
CANARY = people(1)[0]


@pytest.fixture(scope="module")
def cleaning(broker):
    """The test process's broker, which looks for what to clean twice a second."""
    admin, every = AdminClient(client(broker.address)), ConfigResource(ConfigResource.Type.BROKER, "1")
    entry = ConfigEntry("log.cleaner.backoff.ms", "500", incremental_operation=AlterConfigOpType.SET)
    every.add_incremental_config(entry)
    admin.incremental_alter_configs([every])[every].result(30)
    return broker


def topic_of(kafka, **settings):
    admin = AdminClient(client(kafka.bootstrap))
    admin.create_topics([NewTopic(kafka.topic, 2, config=COMPACTED | settings)])[kafka.topic].result(30)
    assert wait_until(lambda: kafka.describe().end == {"0": 0, "1": 0}, seconds=30)
    return CompactedTopic(TopicSink(client(kafka.bootstrap)), kafka.topic)


def state_of(kafka):
    """Key -> newest value, by another reader, without keys that are gone."""
    end, found = kafka.describe().end, {}
    for partition, last in end.items():
        consumer = Consumer({**client(kafka.bootstrap), "group.id": "state", "enable.auto.commit": False})
        consumer.assign([TopicPartition(kafka.topic, int(partition), 0)])
        at = 0
        while at < last and (message := consumer.poll(10)) is not None:
            found[message.key().decode()] = message.value()
            at = message.offset() + 1
        consumer.close()
    return {key: value.decode() for key, value in found.items() if value is not None}


def send(topic, *records):
    answers = topic.sink.send(topic.topic, [Outgoing(str(n), key, value) for n, (key, value) in enumerate(records)])
    assert {answer.outcome for answer in answers} == {"accepted"}


def test_the_bytes_of_a_person_are_gone_from_the_log_folder(cleaning, kafka):
    """Acceptance 7: of a quiet topic, too; an unknown key changes nothing, and a later record is a new registration."""
    topic, search = topic_of(kafka), Search([CANARY])
    ada, bob = json.dumps({"mail": CANARY.value.decode()}), json.dumps({"mail": "bob@example.org"})

    def found():
        folders = Path(cleaning.folder, "data").glob(f"{kafka.topic}-*")
        return [place for folder in folders for place, text in texts_in(folder) if search.found(text)]

    send(topic, ("ada", ada), ("bob", bob), ("ada", ada))
    assert found()
    topic.erase(["ada", "nobody"])
    assert state_of(kafka) == {"bob": bob}
    topic.purge(["ada", "nobody"])
    assert wait_until(lambda: not found(), seconds=60)
    assert state_of(kafka) == {"bob": bob}
    send(topic, ("ada", "{}"))
    topic.purge(["ada", HEARTBEAT])
    assert state_of(kafka) == {"bob": bob, "ada": "{}"}


def test_a_topic_that_keeps_records_is_refused(broker, kafka):
    """One without compaction, or which compacts some day only: before a tombstone is sent."""
    topic = topic_of(kafka, **{"cleanup.policy": "delete"})
    with pytest.raises(ConfigError, match=r"must have cleanup\.policy=compact, not delete"):
        topic.erase(["ada"])
    admin, name = AdminClient(client(kafka.bootstrap)), ConfigResource(ConfigResource.Type.TOPIC, kafka.topic)
    for setting, value in (("cleanup.policy", "compact"), ("max.compaction.lag.ms", str(2**62))):
        name.add_incremental_config(ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([name])[name].result(30)
    with pytest.raises(ConfigError, match=r"max\.compaction\.lag\.ms of topic .* must be at most 7 days"):
        topic.erase(["ada"])
    assert kafka.describe().end == {"0": 0, "1": 0}


def test_a_purge_that_brokers_have_no_time_for_is_not_done(broker, kafka):
    """The request is repeated later."""
    topic = topic_of(kafka, **{"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "600000"})
    send(topic, ("ada", "{}"))
    topic.erase(["ada"])
    impatient = CompactedTopic(topic.sink, topic.topic, wait_seconds=0)
    with pytest.raises(NotReady, match="holds records of erased persons still"):
        impatient.purge(["ada"])
