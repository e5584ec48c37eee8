"""A compacted Kafka topic with the newest state of each person, from which persons can be erased.

A tombstone (a key without a value) lets the brokers drop the records of that key, but only those in closed segments: a
quiet topic keeps its last records for ever. A heartbeat is a record that closes the segment before it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dedp_assets.patterns.connectors.delivery.sinks import Outgoing, in_requests
from dedp_assets.patterns.connectors.delivery.topic_sink import TopicSink
from dedp_assets.patterns.connectors.web.parts import kafka_said
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import admin
else:
    confluent_kafka, admin = optional("confluent_kafka"), optional("confluent_kafka.admin")

__all__ = ["HEARTBEAT", "CompactedTopic"]

HEARTBEAT = "dedp heartbeat"
"""Key of the tombstones that close a segment; a reader deletes an unknown key, which changes nothing."""
_DAY_MS = 86_400_000
_LONGEST_DAYS = 7
_ANSWER_SECONDS, _PAUSE_SECONDS = 10.0, 0.5


@dataclass(frozen=True, slots=True)
class CompactedTopic:
    """A topic whose records have persons' ids as keys.

    Attributes:
        sink: the cluster, and what sends the other records of the topic: equal keys have to be in one partition.
        topic: its name.
        wait_seconds: how long a purge waits for the brokers to clean.
    """

    sink: TopicSink
    topic: str
    wait_seconds: float = 60

    @property
    def name(self) -> str:
        """The topic."""
        return f"topic {self.topic}"

    def erase(self, ids: Collection[str]) -> None:
        """Send a tombstone for each id; one for an unknown key changes nothing.

        Raises:
            ConfigError: for a topic that is not compacted, or only some day.
            NotReady: if the brokers do not answer, or take a tombstone not.
        """
        self._require_compacted()
        gone = [Outgoing(f"gone {number}", each, None) for number, each in enumerate(ids)]
        for request in in_requests(gone, self.sink.limit):
            if left := [answer.reason for answer in self.sink.send(self.topic, request) if not answer.acknowledged]:
                raise NotReady(f"{self.name} took {len(left)} tombstones not ({left[0]}): repeat the request")

    def purge(self, ids: Collection[str]) -> None:
        """Close segments, and wait until the brokers have removed the records of the ids.

        The brokers remove the file of a cleaned segment ``file.delete.delay.ms`` later. A record behind a tombstone is
        a new registration, and stays.

        Raises:
            NotReady: if the brokers have not cleaned yet, or do not answer.
        """
        keys, deadline = {each.encode() for each in ids}, time.monotonic() + self.wait_seconds
        while self._holds(keys):
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name} holds records of erased persons still: repeat the request later")
            self._beat()
            time.sleep(_PAUSE_SECONDS)

    def _require_compacted(self) -> None:
        asked = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, self.topic)
        asking = admin.AdminClient(dict(self.sink.client))  # lives until the answer is there
        try:
            found = asking.describe_configs([asked])[asked].result(_ANSWER_SECONDS)
        except confluent_kafka.KafkaException as error:
            raise NotReady(f"{self.name} does not tell its settings ({kafka_said(error)[1]})") from None
        if "compact" not in found["cleanup.policy"].value.split(","):
            raise ConfigError(f"{self.name} must have cleanup.policy=compact, not {found['cleanup.policy'].value}")
        for setting in ("max.compaction.lag.ms", "segment.ms"):
            if int(found[setting].value) > _LONGEST_DAYS * _DAY_MS:
                raise ConfigError(
                    f"{setting} of {self.name} must be at most {_LONGEST_DAYS} days, or nothing is erased"
                )

    def _holds(self, keys: Collection[bytes]) -> bool:
        """Return whether a record with a value stands before a tombstone of the same key."""
        asking = {"group.id": "dedp erasure", "enable.auto.commit": False, "enable.partition.eof": True}
        with closing(confluent_kafka.Consumer({**self.sink.client, **asking})) as consumer:
            unread, valued = {*self._partitions()}, set[bytes | None]()
            begin = confluent_kafka.OFFSET_BEGINNING
            consumer.assign([confluent_kafka.TopicPartition(self.topic, p, begin) for p in unread])
            while unread:
                if (message := consumer.poll(_ANSWER_SECONDS)) is None:
                    raise NotReady(f"{self.name} stopped answering: repeat the request")
                if error := message.error():
                    if error.code() != confluent_kafka.KafkaError._PARTITION_EOF:
                        raise NotReady(f"{self.name} cannot be read ({error.str()}): repeat the request")
                    unread.discard(message.partition())
                elif (key := message.key()) in keys and message.value() is not None:
                    valued.add(key)
                elif key in valued:
                    return True
        return False

    def _partitions(self) -> Mapping[int, object]:
        try:
            known = admin.AdminClient(dict(self.sink.client)).list_topics(self.topic, timeout=_ANSWER_SECONDS)
        except confluent_kafka.KafkaException as error:
            raise NotReady(f"{self.name} does not tell its partitions ({kafka_said(error)[1]})") from None
        partitions: Mapping[int, object] = known.topics[self.topic].partitions
        return partitions

    def _beat(self) -> None:
        producer = confluent_kafka.Producer(dict(self.sink.client))
        for partition in self._partitions():
            producer.produce(self.topic, None, HEARTBEAT, partition=partition)
        if producer.flush(_ANSWER_SECONDS):
            raise NotReady(f"{self.name} takes no heartbeat: repeat the request")
