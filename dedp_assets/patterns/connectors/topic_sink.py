"""A Kafka topic as a sink: records of a request are in it in their order, or none that follows a missing one.

An idempotent producer has up to five requests under way and keeps their order all the same: the broker refuses what is
out of sequence, and without gaps nothing follows a record that was given up. A record that a later run sends again is
in the topic twice, with the same ``id`` in its headers: whoever reads it deduplicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from dedp_assets.patterns.connectors.sinks import Answer, Outgoing

__all__ = ["TopicSink"]

_UNANSWERED = Answer("failed", reason="one before it was not taken")


@dataclass(slots=True)
class TopicSink:
    """A Kafka cluster; a destination is a topic, and records of one key are in one partition.

    Attributes:
        client: settings of the client, ``bootstrap.servers`` among them.
        limit: the most records that one request may hold.
        give_up_seconds: how long a record is tried to be sent.
    """

    client: Mapping[str, Any]
    limit: int = 500
    give_up_seconds: float = 10
    _producer: Producer | None = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def name(self) -> str:
        """The brokers."""
        return f"Kafka at {self.client['bootstrap.servers']}"

    @property
    def partial(self) -> bool:
        """Nothing of a request is taken behind a record that is not."""
        return False

    def send(self, destination: str, records: Sequence[Outgoing]) -> Sequence[Answer]:
        """Send records and wait until the broker has them; one request is under way at a time."""
        answers = [_UNANSWERED] * len(records)
        with self._lock:
            producer = self._producer or self._started()
            for place, record in enumerate(records):
                try:
                    told = partial(_tell, answers, place)
                    headers: dict[str, str | bytes | None] = {"id": record.id}
                    producer.produce(destination, record.value, record.key, headers=headers, on_delivery=told)
                except KafkaException as error:
                    answers[place] = Answer("refused", reason=error.args[0].str())
                    break
            producer.flush()
            # A producer that gave up a record takes no more of it.
            lost = any(answer.outcome == "failed" for answer in answers)
            self._producer = None if lost else producer
        return answers

    def _started(self) -> Producer:
        in_order = {"enable.idempotence": True, "enable.gapless.guarantee": True, "partitioner": "murmur2_random"}
        patience = {"delivery.timeout.ms": round(self.give_up_seconds * 1000)}
        return Producer({**self.client, **in_order, **patience})


def _tell(answers: list[Answer], place: int, error: KafkaError | None, message: Message) -> None:
    if error is not None:
        answers[place] = Answer("failed", reason=error.str())
    else:
        answers[place] = Answer("accepted", f"{message.partition()}@{message.offset()}")
