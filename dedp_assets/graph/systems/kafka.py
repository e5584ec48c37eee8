"""Kafka: state of a topic, read without a JVM."""

import logging
import time
import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any

import dagster as dg
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from pydantic import Field

from dedp_assets.graph.resources.announced import announced
from dedp_assets.graph.resources.environments import Settings, settings
from dedp_assets.graph.systems.identities import KAFKA, as_platform
from dedp_assets.patterns.connectors.kafka.topics import Topic
from dedp_assets.patterns.connectors.web.parts import calling, kafka_said
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.sql.suggestions import suggestion

__all__ = ["FOLDER", "Kafka", "address", "client", "lacking", "older"]

FOLDER = "kafka"
"""Folder of the home in which the laptop's own broker keeps everything."""

_VARIABLE = "DEDP_KAFKA"
_ANSWER_SECONDS = 5
_TOPIC_EXISTS = "TOPIC_ALREADY_EXISTS"
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PART"
_ELECTING = (
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
)
"""Errors with which brokers answer a request for offsets while a leader of the partition is being elected."""

_QUIET = logging.getLogger("librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def client(bootstrap: str) -> dict[str, Any]:
    """Return the configuration of a client that reports faults as errors, without console output.

    A client of the laptop's own broker has a certificate with ``DEDP_SECURE=on``.
    """
    found = {"bootstrap.servers": bootstrap, "logger": _QUIET, "socket.connection.setup.timeout.ms": 5_000}
    if _asks_for_certificates(bootstrap):
        with as_platform(KAFKA) as proof:
            found |= proof.kafka()
    return found


def _asks_for_certificates(bootstrap: str) -> bool:
    chosen = settings()
    return chosen.secure == "on" and bootstrap == announced(chosen.home / FOLDER)


def address(settings: Settings) -> str:
    """Return ``host:port`` of the broker in ``DEDP_KAFKA``, otherwise of the laptop's own; may be empty."""
    return announced(settings.home / FOLDER) if settings.kafka is None else settings.kafka


def lacking(bootstrap: str) -> str:
    """Return the reason that the brokers cannot be used now; empty if usable."""
    try:
        AdminClient(client(bootstrap)).list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        return _silent(bootstrap, error)
    return ""


def older(topic: str, at: datetime) -> int:
    """Count the records of a topic of the platform's own broker from before a time; 0 without a broker.

    Raises:
        NotReady: as :meth:`Kafka.older`.
    """
    bootstrap = address(settings())
    return Kafka(bootstrap=bootstrap, topic=topic).older(at) if bootstrap else 0


class Kafka(dg.ConfigurableResource[Any]):
    """A topic on a Kafka cluster; without an address, no topic and no request."""

    bootstrap: str = Field(default="", description="host:port of a broker; empty: no Kafka.")
    topic: str = Field(default="visits", description="The topic of the visits.")
    variable: str = Field(default=_VARIABLE, description="The environment variable with the address.")

    def proof(self) -> dict[str, str]:
        """Return the options by which Spark proves who reads; empty for brokers that ask for no certificate."""
        if not _asks_for_certificates(self.bootstrap):
            return {}
        with as_platform(KAFKA) as proof:
            return proof.spark_kafka()

    def describe(self) -> Topic:
        """Read the topic's current state, with the offsets for a reader of committed records.

        Raises:
            ConfigError: without an address.
            NotReady: if the brokers do not answer, or there is no such topic.
        """
        if not self.bootstrap:
            sentence = f"no Kafka is set: name a broker by {self.variable}=host:port"
            raise ConfigError(sentence + (", or land visits as files" if self.variable == _VARIABLE else ""))
        return self._describe(AdminClient(client(self.bootstrap)), _ELECTING)

    def _describe(self, admin: AdminClient, passing: Collection[str]) -> Topic:
        """Read the topic's current state, with retries on transient errors."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                with calling(f"Kafka at {self.bootstrap}, asked for topic {self.topic},", known=KafkaException):
                    return _held(admin, self.topic)
            except KafkaException as error:
                if _name(error) not in passing or time.monotonic() > deadline:
                    raise NotReady(self._reason(error)) from None
                time.sleep(0.2)

    def sample(self, most: int) -> list[bytes]:
        """Read up to ``most`` of the oldest committed records, without tombstones.

        Raises:
            ConfigError: without an address.
            NotReady: if the brokers do not answer, or there is no such topic.
        """
        begin = self.describe().begin
        group = {"group.id": f"dedp-sample-{uuid.uuid4().hex}", "enable.auto.commit": False}
        reader = Consumer({**client(self.bootstrap), **group, "isolation.level": "read_committed"})
        try:
            reader.assign([TopicPartition(self.topic, int(partition), at) for partition, at in begin.items()])
            found = reader.consume(most, timeout=_ANSWER_SECONDS)
        except KafkaException as error:
            raise NotReady(self._reason(error)) from None
        finally:
            reader.close()
        return [value for each in found if not each.error() and (value := each.value()) is not None]

    def older(self, at: datetime) -> int:
        """Count the offsets of records that the brokers received before a time and still have.

        Raises:
            ConfigError: without an address.
            NotReady: if the brokers do not answer, or there is no such topic.
        """
        held = self.describe()
        admin, first = AdminClient(client(self.bootstrap)), OffsetSpec.for_timestamp(int(at.timestamp() * 1_000))
        try:
            since = _offsets(admin, self.topic, [*map(int, held.begin)], first)
        except KafkaException as error:
            raise NotReady(self._reason(error)) from None
        # No record is as young as that: the brokers state -1.
        return sum((since[each] if since[each] >= 0 else held.end[each]) - begin for each, begin in held.begin.items())

    def create(self, *, partitions: int = 2) -> None:
        """Create the topic, unless present, with timestamps set by the broker.

        Raises:
            NotReady: if the brokers do not answer.
        """
        wanted = NewTopic(self.topic, partitions, config={"message.timestamp.type": "LogAppendTime"})
        admin = AdminClient(client(self.bootstrap))
        try:
            admin.create_topics([wanted], request_timeout=_ANSWER_SECONDS)[self.topic].result()
        except KafkaException as error:
            if _name(error) != _TOPIC_EXISTS:
                raise NotReady(self._reason(error)) from None
        # The controller has made it; the broker that is asked next may hear of it a moment later.
        self._describe(admin, (*_ELECTING, _UNKNOWN_TOPIC))

    def _reason(self, error: KafkaException) -> str:
        if _name(error) == _UNKNOWN_TOPIC:
            known = _topics(self.bootstrap)
            hint = suggestion(self.topic, known) or f": there are {len(known) or 'no'} others"
            return f"Kafka at {self.bootstrap} has no topic {self.topic}{hint}; correct its name, or create it"
        return _silent(self.bootstrap, error, self.variable)


def _topics(bootstrap: str) -> list[str]:
    """List the topics of the brokers, without internal topics; empty without an answer."""
    try:
        found = AdminClient(client(bootstrap)).list_topics(timeout=1).topics
    except KafkaException:
        return []
    return sorted(name for name in found if not name.startswith("__"))


def _held(admin: AdminClient, topic: str) -> Topic:
    description = admin.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_SECONDS)[topic].result()
    if not (partitions := sorted(partition.id for partition in description.partitions)):
        raise NotReady(f"topic {topic}: the brokers name no partition of it: look at it again")
    oldest = _offsets(admin, topic, partitions, OffsetSpec.earliest())
    newest = _offsets(admin, topic, partitions, OffsetSpec.latest())
    return Topic(topic, str(description.topic_id), begin=oldest, end=newest)


def _offsets(admin: AdminClient, topic: str, partitions: list[int], which: OffsetSpec) -> dict[str, int]:
    wanted = {TopicPartition(topic, partition): which for partition in partitions}
    found = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER_SECONDS)
    offsets = {str(place.partition): answer.result().offset for place, answer in found.items()}
    # A partition that is left out would seem to be none, and one that was read would be read again later.
    if offsets.keys() != {*map(str, partitions)}:
        raise NotReady(f"topic {topic}: the brokers say offsets of {sorted(offsets)}, not of {partitions}: look again")
    return offsets


def _name(error: KafkaException) -> str:
    cause = error.args[0] if error.args else None
    return cause.name() if isinstance(cause, KafkaError) else ""


def _silent(bootstrap: str, error: KafkaException, variable: str = _VARIABLE) -> str:
    return f"Kafka at {bootstrap} does not answer ({kafka_said(error)[1]}): start it, or correct {variable}"
