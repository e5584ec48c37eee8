"""Events of the seeded generators, published to a Kafka topic instead of landing in files."""

from __future__ import annotations

import json
from collections.abc import Iterable

from confluent_kafka import KafkaError, Message, Producer

from dedp_assets.graph.systems.kafka import Kafka, client
from dedp_assets.patterns.core.errors import NotReady

__all__ = ["publish"]

_AT_ONCE = 10_000
_GIVE_UP_MS = 30_000


def publish(kafka: Kafka, lines: Iterable[str | bytes | None], *, key: str = "user_id") -> int:
    """Publish lines to the topic, created if missing, and wait for all acknowledgements.

    Each arrives once, whatever the producer has to repeat, and those of one key arrive in order.

    Args:
        kafka: the topic.
        lines: the values: events as JSON; anything else, bytes that are no text and tombstones (``None``) among them,
            goes without a key.
        key: field of an event that is its key: by default the user of a visit.

    Returns:
        How many records were published.

    Raises:
        NotReady: if the broker does not take them all.

    Example:
        >>> publish(kafka, [*visits_of(today, count=100), *BROKEN])  # doctest: +SKIP
        104
    """
    kafka.create()
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error.str())

    settings = {"enable.idempotence": True, "partitioner": "murmur2_random", "delivery.timeout.ms": _GIVE_UP_MS}
    producer, count = Producer({**client(kafka.bootstrap), **settings}), 0
    for count, line in enumerate(lines, start=1):
        producer.produce(kafka.topic, line, _field(line, key), on_delivery=delivered)
        if count % _AT_ONCE == 0:
            producer.flush()
    producer.flush()
    if refused:
        raise NotReady(
            f"Kafka at {kafka.bootstrap} took {count - len(refused)} of {count} records for topic {kafka.topic} "
            f"({refused[0]}): publish the others again"
        )
    return count


def _field(line: str | bytes | None, name: str) -> str | None:
    try:
        event = json.loads(line or "")
    except ValueError:
        return None
    return event.get(name) if isinstance(event, dict) else None
