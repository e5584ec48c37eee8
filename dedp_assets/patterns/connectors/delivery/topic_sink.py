"""A Kafka topic as a sink: records of a request arrive in order and without gaps.

An idempotent producer has up to five requests under way and keeps their order all the same: the broker refuses what is
out of sequence, and without gaps nothing follows a record that was given up. A record that a later run sends again is
in the topic twice, with the same ``id`` in its headers: whoever reads it deduplicates.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.delivery.sinks import Answer, Outgoing, contract_of, refusal
from dedp_assets.patterns.connectors.kafka.schema_registry import SchemaRegistry, framed, latest_schema, register_schema
from dedp_assets.patterns.connectors.web.parts import kafka_said, sentence
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.parsing.json_schemas import RecordSchema

if TYPE_CHECKING:
    import confluent_kafka
else:
    confluent_kafka = optional("confluent_kafka")

__all__ = ["TopicSink"]

_UNANSWERED = Answer("failed", reason="one before it was not taken")


@dataclass(slots=True)
class TopicSink:
    """A Kafka cluster with a topic for each destination; records of equal key share a partition.

    Attributes:
        client: settings of the client, ``bootstrap.servers`` among them.
        limit: the most records that one request may hold.
        give_up_seconds: how long a record is tried to be sent.
        schemas: registry in which each record names its schema, in a header of 5 bytes: the contract's, registered
            under ``<destination>-value``, or without a contract the newest of that subject. ``None`` sends records
            without a header.
        contracts: destination, or ``*`` for all others -> contract of its records: one that breaks it is refused and
            not sent.
    """

    client: Mapping[str, Any]
    limit: int = 500
    give_up_seconds: float = 10
    schemas: SchemaRegistry | None = None
    contracts: Mapping[str, RecordSchema] = field(default_factory=dict)
    _producer: confluent_kafka.Producer | None = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def name(self) -> str:
        """The brokers."""
        return f"Kafka at {self.client.get('bootstrap.servers', 'no bootstrap.servers')}"

    @property
    def partial(self) -> bool:
        """Constant ``False``: no record is accepted after a failed record of the same request."""
        return False

    def send(self, destination: str, records: Sequence[Outgoing]) -> Sequence[Answer]:
        """Send records and wait for the broker's acknowledgements; requests never overlap.

        Raises:
            NotReady: if the registry does not answer, or has no schema and there is no contract.
            ContractError: if the contract is not compatible with the schemas before it: nothing was sent.
        """
        answers, contract = [_UNANSWERED] * len(records), contract_of(self.contracts, destination)
        header = framed(_schema_id(self.schemas, destination, contract), b"") if self.schemas else b""
        with self._lock:
            # A producer that failed, or gave up a record, takes no more of it.
            producer, self._producer = self._producer or self._started(), None
            for place, record in enumerate(records):
                noted = partial(_record_answer, answers, place)
                untaken = refusal(record, contract) or self._enqueued(producer, destination, record, header, noted)
                if untaken:
                    answers[place] = untaken
                    break
            producer.flush()
            if not any(answer.outcome == "failed" for answer in answers):
                self._producer = producer
        gap = next((n for n, answer in enumerate(answers) if not answer.acknowledged), len(answers))
        # Sent again behind a record that is missing, none is before it for whoever keeps the last of each id.
        return [*answers[: gap + 1], *[_UNANSWERED] * (len(answers) - gap - 1)]

    def _enqueued(
        self,
        producer: confluent_kafka.Producer,
        topic: str,
        record: Outgoing,
        header: bytes,
        on_delivery: Callable[..., None],
    ) -> Answer | None:
        """Enqueue a record, waiting for room; return ``None``, or the answer for a rejected record."""
        headers: dict[str, str | bytes | None] = {"id": record.id}
        value = None if record.value is None else header + record.value.encode()
        deadline = time.monotonic() + self.give_up_seconds
        while True:
            try:
                producer.produce(topic, value, record.key, headers=headers, on_delivery=on_delivery)
            except BufferError as error:
                if time.monotonic() > deadline:
                    return Answer("failed", reason=str(error))
                producer.poll(0.1)
            except confluent_kafka.KafkaException as error:
                code, text = kafka_said(error)
                return Answer(
                    "refused" if code == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE else "failed", reason=text
                )
            else:
                return None

    def _started(self) -> confluent_kafka.Producer:
        in_order = {"enable.idempotence": True, "enable.gapless.guarantee": True, "partitioner": "murmur2_random"}
        patience = {"delivery.timeout.ms": round(self.give_up_seconds * 1000)}
        try:
            return confluent_kafka.Producer({**self.client, **in_order, **patience})
        except confluent_kafka.KafkaException as error:
            raise ConfigError(f"{self.name}: no client can be made of its settings ({kafka_said(error)[1]})") from None


def _schema_id(registry: SchemaRegistry, topic: str, contract: RecordSchema | None) -> int:
    """Return the id of the schema of a topic's records, after the contract's schema was registered."""
    subject = f"{topic}-value"
    if contract is None:
        return latest_schema(registry, subject).id
    return register_schema(registry, subject, json.dumps(contract.schema), dialect="JSON")


def _record_answer(
    answers: list[Answer], place: int, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message | None
) -> None:
    if error is not None:
        answers[place] = Answer("failed", reason=sentence(error.str()))
    else:
        answers[place] = Answer("accepted", f"{message.partition()}@{message.offset()}" if message else "")
