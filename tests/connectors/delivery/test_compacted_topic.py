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
from dedp_assets.patterns.connectors.postgres import ErasableTable, Incoming, exchange, receive, writing
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import SuppressionList, Table, store_at
from dedp_assets.patterns.security.vertical_partitioner import Removal, forget_persons
from tests.canaries import Search, people, texts_in
from tests.faults.processes import wait_until
from tests.helpers import NOW, a_run, read_back

pytestmark = [pytest.mark.slow, pytest.mark.budget(25, "a broker that cleans, a database and a table")]

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


def test_persons_are_forgotten_in_postgresql_and_a_topic_as_in_the_table(spark, cleaning, kafka, database, tmp_path):
    """Acceptance 7 of Vertical Partitioner: newest rows by key, from which one call erases, files included."""
    person = Column("STRING", required=True, classification="personal", subject="user")
    columns = {"id": person, "mail": Column("STRING", classification="personal"), "at": Column("INT")}
    table = Table(TableSpec("silver/users", columns, key=("id",)), tmp_path / "users", spark)
    rows = [("ada", CANARY.value.decode(), 1), ("bob", "bob@example.org", 2)]
    table.overwrite(spark.createDataFrame(rows, "id STRING, mail STRING, at INT"), provenance=a_run("silver/users"))
    topic = topic_of(kafka)
    send(topic, *[(user, mail) for user, mail, _ in rows])
    with database.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE users (id text PRIMARY KEY, mail text, at int)")
    texts = [(user, mail, str(at)) for user, mail, at in rows]
    with writing(database.connect) as connection:
        incoming = Incoming("public.users", ["id", "mail", "at"], ["id"], texts, newest=["at"])
        receive(connection, incoming, 0)
        exchange(connection, incoming, 0)
    listed = SuppressionList(store_at(tmp_path / "_suppressed"), MaskingKey("home", bytes(range(32))))
    copies = [ErasableTable("public.users", "id", ["mail"], database.connect), topic]
    asked = [Removal(request="T-1", id="ada", received=NOW), Removal(request="T-2", id="nobody")]
    forget_persons(asked, table.target(a_run("forget")), listed, copies)
    assert [row["id"] for row in read_back(table)] == ["bob"]
    assert state_of(kafka) == {"bob": "bob@example.org"}
    with database.connect() as connection:
        assert connection.execute("SELECT * FROM users").fetchall() == [("bob", "bob@example.org", 2)]
    assert {*listed.times("T-1")} == {"requested", "executed", "purged"}


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
