"""A topic's copy: the same records in the same partitions and order, each once, whatever happens to a run."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from dedp_assets.graph.systems.kafka import Kafka, client
from dedp_assets.patterns.connectors.kafka import mirroring
from dedp_assets.patterns.connectors.kafka.mirroring import Place, copy_topic
from dedp_assets.patterns.connectors.kafka.topics import Topic
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady
from tests.helpers import OF_PRODUCERS

PARTITIONS = 3


@pytest.fixture
def topics(broker):
    """Two topics of three partitions each, as the resource sees them: ``topics()`` looks again."""
    names = [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("events", "events-replicated")]
    wanted = [NewTopic(name, PARTITIONS, config=OF_PRODUCERS) for name in names]
    admin = AdminClient(client(broker.address))
    for made in admin.create_topics(wanted).values():
        made.result()

    def look():
        found = [Kafka(bootstrap=broker.address, topic=name).describe() for name in names]
        return [Place(topic, client(broker.address)) for topic in found]

    return look


def send(place, *numbers, **settings):
    """Records with keys, repeated header names, headers without a value, tombstones and any bytes, by partition."""
    producer = Producer({**place.client, **settings})
    if settings:
        producer.init_transactions()
        producer.begin_transaction()
    for number in numbers:
        headers = [("trace", str(number).encode()), ("trace", b"again"), ("none", None), ("any", b"\xff\x00")]
        producer.produce(
            place.topic.name,
            value=None if number % 7 == 3 else b"\xfe" + str(number).encode(),
            key=None if number % 5 == 4 else f"k{number % 4}".encode(),
            headers=headers[: number % 5],
            partition=number % PARTITIONS,
            timestamp=1_700_000_000_000 + number,
        )
    if settings:
        producer.commit_transaction()
    producer.flush()


def held(place):
    """Everything a topic holds, by partition in the order of offsets, through a client of its own."""
    reader = {"group.id": uuid.uuid4().hex, "enable.partition.eof": True, "isolation.level": "read_committed"}
    # A broker that is busy may say for a moment that it has no such offset.
    consumer = Consumer({**place.client, **reader, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(place.topic.name, p, 0) for p in range(PARTITIONS)])
    found, ended = {p: [] for p in range(PARTITIONS)}, set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(10)
        assert message is not None, "the broker does not answer"
        if message.error():
            ended.add(message.partition())
        else:
            content = (message.key(), message.value(), message.headers(), message.timestamp()[1])
            found[message.partition()].append(content)
    consumer.close()
    return found


def test_records_keep_key_value_headers_time_partition_and_order(topics):
    """In every partition the copy holds what the source holds, in the order of its offsets; a rerun copies nothing."""
    send(topics()[0], *range(100))
    source, target = topics()
    copied = copy_topic(source, target, at_once=7)
    assert copied == {"0": 34, "1": 33, "2": 33}
    expected = held(source)
    assert sum(map(len, expected.values())) == 100
    assert held(target) == expected
    assert copy_topic(*topics()) == {"0": 0, "1": 0, "2": 0}
    send(source, 100, 101)
    assert sum(copy_topic(*topics()).values()) == 2
    assert held(target) == held(source)


def test_transactions_of_the_source_leave_no_trace(topics):
    """Their ends take offsets that hold no record, even a partition's last one; what was not committed stays away."""
    name = uuid.uuid4().hex
    send(topics()[0], *range(6), **{"transactional.id": name})
    open_one = Producer({**topics()[0].client, "transactional.id": f"{name}-open"})
    open_one.init_transactions()
    open_one.begin_transaction()
    open_one.produce(topics()[0].topic.name, b"never", partition=0)
    open_one.flush()
    open_one.abort_transaction()
    source, target = topics()
    assert copy_topic(source, target) == {"0": 2, "1": 2, "2": 2}
    assert held(target) == held(source)


@pytest.mark.parametrize("failure", [OSError("killed"), SystemExit("killed")], ids=repr)
def test_a_run_that_dies_is_gone_on_from(topics, monkeypatch, failure):
    """Readers see nothing of the transaction that it died in, and the next run leaves neither gap nor repeat."""
    send(topics()[0], *range(30))
    source, target = topics()
    written, real = [], mirroring.confluent_kafka.TopicPartition

    def die(topic, *place):
        # The position goes into a transaction after its records.
        if topic == target.topic.name and len(place) == 2:
            written.append(topic)
            if len(written) > PARTITIONS * 2:
                raise failure
        return real(topic, *place)

    with monkeypatch.context() as patched:
        patched.setattr(mirroring.confluent_kafka, "TopicPartition", die)
        with pytest.raises(type(failure), match="killed"):
            copy_topic(source, target, at_once=5)
    before, whole = held(target), held(source)
    assert 0 < sum(map(len, before.values())) < 30
    assert all(rows == whole[p][: len(rows)] for p, rows in before.items())
    copy_topic(*topics(), at_once=5)
    assert held(target) == whole


def test_the_run_that_starts_last_wins(topics, monkeypatch):
    """The other one is told to run again, and nothing of its open transaction is seen."""
    send(topics()[0], *range(20))
    source, target = topics()
    real, again = mirroring._write, []

    def overtaken(producer, place, batch, group):
        if not again:
            again.append(True)
            copy_topic(source, target)
        real(producer, place, batch, group)

    monkeypatch.setattr(mirroring, "_write", overtaken)
    with pytest.raises(Conflict, match="another run copies"):
        copy_topic(source, target)
    assert held(target) == held(source)


def test_a_gap_is_an_error_and_no_copy(topics):
    """Records that are gone before they were copied stop it; what is there stays."""
    send(topics()[0], *range(9))
    source, target = topics()
    copy_topic(source, target)
    lost = Place(replace(source.topic, begin={**source.topic.begin, "1": 5}, end={**source.topic.end, "1": 9}), {})
    with pytest.raises(ContractError, match="partitions 1: records were deleted before they were copied"):
        copy_topic(replace(lost, client=source.client), target)


def test_records_that_go_while_they_are_copied_are_no_silence(topics):
    """Deleted after the topic was looked at: the copy stops with an error, it does not go on behind the gap."""
    send(topics()[0], *range(30))
    source, target = topics()
    admin = AdminClient(source.client)
    for done in admin.delete_records([TopicPartition(source.topic.name, 0, 5)]).values():
        done.result(timeout=30)
    with pytest.raises(NotReady, match="cannot be copied"):
        copy_topic(source, target)
    assert held(target)[0] == []


@pytest.mark.parametrize("electing", [False, True])
def test_a_broker_that_is_busy_is_asked_again(topics, monkeypatch, electing):
    """It may say for a moment that it has not what it has: the copy asks again, and no record is left out or twice."""
    send(topics()[0], *range(30))
    source, target = topics()
    refused = []

    class Refusing(Consumer):
        def consume(self, count, timeout):
            found = super().consume(count, timeout)
            if not found or len(refused) == 2:
                return found
            refused.append(Refused(found[0].partition()))
            return [refused[-1], *(one for one in found if one.partition() != found[0].partition())]

    class Electing(AdminClient):
        def list_offsets(self, wanted, **settings):
            answers = super().list_offsets(wanted, **settings)
            return {place: _failed("OFFSET_NOT_AVAILABLE") for place in answers} if electing else answers

    monkeypatch.setattr(mirroring.confluent_kafka, "Consumer", Refusing)
    # Not in the client's own module, where the class finds itself by its name.
    monkeypatch.setattr(mirroring, "admin", SimpleNamespace(AdminClient=Electing, OffsetSpec=OffsetSpec))
    assert sum(copy_topic(source, target, at_once=5).values()) == 30
    assert len(refused) == 2
    assert held(target) == held(source)


def _failed(error):
    """Return an answer of brokers that is an error."""
    answer = Future()
    answer.set_exception(KafkaException(KafkaError(getattr(KafkaError, error))))
    return answer


class Refused:
    """What librdkafka hands over when a broker says that it has no such offset."""

    def __init__(self, partition):
        self.partition = lambda: partition

    def offset(self):
        return None

    def error(self):
        return KafkaError(KafkaError._AUTO_OFFSET_RESET, "offset not available")


def test_copies_that_can_never_work_are_refused():
    """Before anybody is asked."""
    one, two = (Topic("t", "x", {str(p): 0 for p in range(n)}, {str(p): 0 for p in range(n)}) for n in (1, 2))
    with pytest.raises(ConfigError, match="topic t has 2 partitions and t has 1"):
        copy_topic(Place(one, {}), Place(two, {}))
    for limit in ({"at_once": 0}, {"records_per_second": 0}):
        with pytest.raises(ConfigError, match="would never copy anything"):
            copy_topic(Place(one, {}), Place(one, {}), **limit)


def test_kafka_that_does_not_answer_is_not_ready(monkeypatch):
    """The run may be repeated once it is back."""
    monkeypatch.setattr(mirroring, "_ANSWER_SECONDS", 0.5)
    one = Place(Topic("t", "x", {"0": 0}, {"0": 1}), client("127.0.0.1:9"))
    with pytest.raises(NotReady, match="topic t cannot be copied to t now"):
        copy_topic(one, one)


def test_the_rate_is_kept(topics):
    """So many records a second and no more: half the rate takes longer by the time that the limit asks for."""
    send(topics()[0], *range(40))
    source, target = topics()
    clock = mirroring.time.monotonic
    began = clock()
    copy_topic(source, target, at_once=5, records_per_second=40)
    assert clock() - began >= 0.9
