"""Mirroring of a Kafka topic: same keys, headers and times, same partitions and order.

How far the copy got is committed on the target's side in one transaction with the records: whatever happens to a run,
the next one goes on where readers see the copy end, and no record is there twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from dedp_assets.patterns.connectors.kafka.topics import Topic
from dedp_assets.patterns.connectors.web.parts import kafka_said
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.running.backoff import Backoff

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import admin
else:
    confluent_kafka, admin = optional("confluent_kafka"), optional("confluent_kafka.admin")

__all__ = ["Place", "copy_topic"]

_ANSWER_SECONDS = 10
_COORDINATED = Backoff(attempts=6, first_seconds=0.2)
"""Attempts while a group has no coordinator yet, as at the first group of a broker."""


@dataclass(frozen=True, slots=True)
class Place:
    """A topic, and the client configuration for access.

    Attributes:
        topic: the topic.
        client: configuration of a Kafka client (``bootstrap.servers``, credentials) that may read it, or write it.
    """

    topic: Topic
    client: Mapping[str, Any] = field(repr=False)


def copy_topic(
    source: Place, target: Place, *, at_once: int = 1_000, records_per_second: float | None = None
) -> Mapping[str, int]:
    """Append the records of ``source`` missing in ``target``; return record counts by partition.

    Offsets may differ, order and content do not. The run that starts last wins: one that still copies is stopped.

    Args:
        source: what to copy; only committed records of it.
        target: the copy, which nobody else writes to, with as many partitions.
        at_once: most records in one transaction, which readers see together.
        records_per_second: most records to copy per second; as many as possible if ``None``.

    Raises:
        ConfigError: if the partitions differ, or a limit allows nothing.
        ContractError: if the source lost records that were not copied.
        Conflict: if another run took over.
        NotReady: if Kafka stops answering.
    """
    if at_once < 1 or (records_per_second is not None and records_per_second <= 0):
        raise ConfigError(f"at_once={at_once} and records_per_second={records_per_second} would never copy anything")
    if source.topic.end.keys() != target.topic.end.keys():
        raise ConfigError(
            f"topic {target.topic.name} has {len(target.topic.end)} partitions and {source.topic.name} has "
            f"{len(source.topic.end)}: a copy keeps the partition of each record, so make it with as many"
        )
    group = f"copy of {source.topic.name} {source.topic.id} in {target.topic.name}"
    reading = {**source.client, "group.id": group, "enable.auto.commit": False, "enable.partition.eof": True}
    # Where the broker has not what is asked for, a consumer would go on at the end and leave out what lies between.
    reading |= {"isolation.level": "read_committed", "auto.offset.reset": "error"}
    writing = {**target.client, "transactional.id": group}
    with _translated(source, target), closing(confluent_kafka.Consumer(reading)) as consumer:
        producer = confluent_kafka.Producer(writing)
        # Fences every former run, so that only this run commits from here on.
        producer.init_transactions(_ANSWER_SECONDS)
        begin = _position(target, group, source.topic)
        consumer.assign([confluent_kafka.TopicPartition(source.topic.name, int(p), at) for p, at in begin.items()])
        copied = dict.fromkeys(source.topic.end, 0)
        since = time.monotonic()
        for batch in _batches(consumer, source, begin, at_once):
            _write(producer, target, batch, group)
            for message in batch.records:
                copied[str(message.partition())] += 1
            if records_per_second is not None:
                time.sleep(max(0.0, sum(copied.values()) / records_per_second - (time.monotonic() - since)))
        return copied


@dataclass(frozen=True, slots=True)
class _Batch:
    records: list[confluent_kafka.Message]
    position: Mapping[str, int]


def _position(target: Place, group: str, source: Topic) -> dict[str, int]:
    """Return the source offsets where the copy ends; the oldest offsets before the first copy."""
    asking = {**target.client, "group.id": group, "enable.auto.commit": False}
    with closing(confluent_kafka.Consumer(asking)) as consumer:
        places = [confluent_kafka.TopicPartition(target.topic.name, int(p)) for p in source.end]
        found = _committed(consumer, places)
    # An offset that is none and an error look alike: taken for a copy that never began, it would begin anew.
    if failed := [place.error for place in found if place.error]:
        raise confluent_kafka.KafkaException(failed[0])
    known = {str(place.partition): place.offset for place in found}
    if known.keys() != source.end.keys() or not all(
        _is_offset(at) or at == confluent_kafka.OFFSET_INVALID for at in known.values()
    ):
        raise NotReady(f"the brokers say of topic {target.topic.name} that its copy ends at {known}: run this again")
    begin = {
        p: oldest if known[p] == confluent_kafka.OFFSET_INVALID else known[p] for p, oldest in source.begin.items()
    }
    if lost := [p for p, at in begin.items() if not source.begin[p] <= at <= source.end[p]]:
        raise ContractError(
            f"topic {source.name}, partitions {', '.join(lost)}: records were deleted before they were copied to "
            f"{target.topic.name}, which would hide the gap: make a copy of its own from what is left"
        )
    return begin


def _batches(
    consumer: confluent_kafka.Consumer, source: Place, begin: Mapping[str, int], at_once: int
) -> Iterator[_Batch]:
    """Read records from ``begin`` to the topic's end, in order within each partition."""
    topic = source.topic
    position, deadline = dict(begin), time.monotonic() + _ANSWER_SECONDS
    while any(position[p] < end for p, end in topic.end.items()):
        before, kept = dict(position), []
        for message in consumer.consume(at_once, timeout=0.2):
            if error := message.error():
                _bear(consumer, source, position, message, error)
                continue
            partition, offset = _following(topic, position, message)
            position[partition] = min(offset + 1, topic.end[partition])
            kept += [message] if offset < topic.end[partition] else []
        if position != before:
            deadline = time.monotonic() + _ANSWER_SECONDS
            yield _Batch(kept, dict(position))
        elif time.monotonic() > deadline:
            raise NotReady(f"Kafka stopped answering while topic {topic.name} was copied: run this again")


def _is_offset(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value >= 0


def _following(topic: Topic, position: Mapping[str, int], message: confluent_kafka.Message) -> tuple[str, int]:
    """Return partition and offset of a record; refuse a repeated, foreign or out-of-order record."""
    partition, offset = str(message.partition()), message.offset()
    known = message.topic() == topic.name and partition in position
    if not known or not _is_offset(offset) or offset < position[partition]:
        place = f"topic {message.topic()}, partition {partition}, offset {offset}"
        raise NotReady(f"the brokers send {place}, which does not follow what was read of {topic.name}: run this again")
    return partition, offset


def _bear(
    consumer: confluent_kafka.Consumer,
    source: Place,
    position: dict[str, int],
    message: confluent_kafka.Message,
    error: confluent_kafka.KafkaError,
) -> None:
    """Handle a consumer error: pass a partition's end, seek again for a busy broker, raise the rest."""
    topic, partition = source.topic, str(message.partition())
    if partition not in position:
        # Of the client as a whole, such as a coordinator that is not there yet: what lasts ends the copy as silence.
        if error.fatal():
            raise confluent_kafka.KafkaException(error)
        return
    if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
        # Behind the last record there may be offsets without a record: the ends of transactions. A broker that has just
        # become a leader may know of an earlier end: it is waited for, or what lies behind would be left out.
        if (message.offset() or 0) >= topic.end[partition]:
            position[partition] = topic.end[partition]
        return
    # A broker that is busy may say for a moment that it has not what it has: it is asked again.
    if error.code() != confluent_kafka.KafkaError._AUTO_OFFSET_RESET or _is_gone(
        source, partition, position[partition]
    ):
        raise confluent_kafka.KafkaException(error)
    consumer.seek(confluent_kafka.TopicPartition(topic.name, int(partition), position[partition]))


def _is_gone(source: Place, partition: str, offset: int) -> bool:
    """Return whether an offset is outside the broker's range; ``False`` for an unknown range."""
    client, place = (
        admin.AdminClient(dict(source.client)),
        confluent_kafka.TopicPartition(source.topic.name, int(partition)),
    )
    held = []
    for bound in (admin.OffsetSpec.earliest(), admin.OffsetSpec.latest()):
        asked = client.list_offsets(
            {place: bound},
            isolation_level=confluent_kafka.IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        try:
            held.append(asked[place].result(_ANSWER_SECONDS).offset)
        except (confluent_kafka.KafkaException, LookupError, AttributeError, FutureTimeout):
            return False
    if not all(map(_is_offset, held)):
        return False
    return not held[0] <= offset <= held[1]


def _write(producer: confluent_kafka.Producer, target: Place, batch: _Batch, group: str) -> None:
    """Write records and the source offsets reached, in one transaction."""
    producer.begin_transaction()
    try:
        for message in batch.records:
            _produce(producer, target.topic.name, message)
        places = [confluent_kafka.TopicPartition(target.topic.name, int(p), at) for p, at in batch.position.items()]
        with closing(confluent_kafka.Consumer({**target.client, "group.id": group})) as member:
            producer.send_offsets_to_transaction(places, member.consumer_group_metadata(), _ANSWER_SECONDS)
        producer.commit_transaction(_ANSWER_SECONDS)
    except confluent_kafka.KafkaException as error:
        if kafka_said(error)[0] not in _fenced():
            producer.abort_transaction(_ANSWER_SECONDS)
        raise


def _produce(producer: confluent_kafka.Producer, topic: str, message: confluent_kafka.Message) -> None:
    """Enqueue a record at the producer; wait for room in a full queue."""
    kind, moment = message.timestamp()
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            producer.produce(
                topic,
                value=message.value(),
                key=message.key(),
                partition=int(message.partition() or 0),
                headers=message.headers(),
                timestamp=moment if kind else 0,
            )
        except BufferError:
            if time.monotonic() > deadline:
                raise NotReady(f"Kafka stopped taking records of topic {topic}: run this again") from None
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


@contextmanager
def _translated(source: Place, target: Place) -> Iterator[None]:
    """Raise errors of Kafka as errors of the library."""
    try:
        yield
    except confluent_kafka.KafkaException as error:
        code, text = kafka_said(error)
        if code in _fenced():
            raise Conflict(
                f"another run copies {source.topic.name} to {target.topic.name} now: run it again"
            ) from error
        raise NotReady(
            f"topic {source.topic.name} cannot be copied to {target.topic.name} now ({text}): run it again"
        ) from error


def _committed(
    consumer: confluent_kafka.Consumer, places: list[confluent_kafka.TopicPartition]
) -> list[confluent_kafka.TopicPartition]:
    """Return the committed offsets of a group, whose coordinator may be starting."""
    error = confluent_kafka.KafkaError
    starting = (error.NOT_COORDINATOR, error.COORDINATOR_NOT_AVAILABLE, error.COORDINATOR_LOAD_IN_PROGRESS)
    attempts = _COORDINATED.tries()
    while True:
        last = next(attempts)
        try:
            return consumer.committed(places, _ANSWER_SECONDS)
        except confluent_kafka.KafkaException as failed:
            if last or kafka_said(failed)[0] not in starting:
                raise


def _fenced() -> tuple[int, ...]:
    """Return the codes of the errors after which another run has taken over."""
    error = confluent_kafka.KafkaError
    return (error._FENCED, error.INVALID_PRODUCER_EPOCH, error.PRODUCER_FENCED)
