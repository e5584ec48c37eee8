"""Lag of a Kafka topic's readers, by the brokers and the committed positions, without a JVM.

The positions that were committed are read first, and the ends of the partitions after them: the other way round, a
commit in between would be ahead of the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.kafka.topics import Topic, position
from dedp_assets.patterns.connectors.web.parts import calling, kafka_said
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.observability._lags.lag_samples import LagSample

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import admin
else:
    confluent_kafka, admin = optional("confluent_kafka"), optional("confluent_kafka.admin")

__all__ = ["sample_group", "sample_stream"]

_ANSWER_SECONDS = 10


def sample_stream(
    table: Ledger, describe: Callable[[], Topic], *, seen_at: datetime, consumer: str = ""
) -> list[LagSample]:
    """Sample the partitions of a topic, of which a table's own log keeps the offsets.

    Args:
        table: log of the table that the topic is appended to.
        describe: asks the brokers for the topic as it is now.
        seen_at: current time.
        consumer: who reads; the table by default.

    Raises:
        ContractError: if the log no longer tells how far the topic was read.
        NotReady: if the brokers do not answer.
    """
    known = position(table, describe())
    has_read = known.sequence > 0 or known.generation > 0
    topic = describe()
    return [
        LagSample(
            consumer=consumer or table.name,
            producer=topic.name,
            partition=partition,
            seen_at=seen_at,
            produced=end,
            consumed=known.offsets.get(partition) if has_read else None,
            begin=topic.begin[partition],
            identity=topic.id,
            read_identity=known.topic_id if has_read else "",
            from_begin=True,
        )
        for partition, end in topic.end.items()
    ]


def sample_group(
    client: Mapping[str, Any], describe: Callable[[], Topic], *, group: str, seen_at: datetime
) -> list[LagSample]:
    """Sample the partitions of a topic that a consumer group reads.

    Args:
        client: configuration of a Kafka client.
        describe: asks the brokers for the topic as it is now.
        group: name of the group.
        seen_at: current time.

    Returns:
        A sample for each partition of the topic; without ``consumed`` where the group has committed nothing.

    Raises:
        NotReady: if the brokers do not answer.
    """
    committed = _committed(client, group)
    topic = describe()
    return [
        LagSample(
            consumer=group,
            producer=topic.name,
            partition=partition,
            seen_at=seen_at,
            produced=end,
            consumed=committed.get((topic.name, partition)),
            begin=topic.begin[partition],
            identity=topic.id,
        )
        for partition, end in topic.end.items()
    ]


def _committed(client: Mapping[str, Any], group: str) -> dict[tuple[str, str], int]:
    """Return the committed offsets of a group: topic and partition -> next offset to read."""
    asked = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
    brokers = client.get("bootstrap.servers")
    try:
        with calling(f"Kafka at {brokers}, asked for the group {group},", known=confluent_kafka.KafkaException):
            asking = admin.AdminClient(dict(client))  # without a name it would be gone before the answer comes
            found = asking.list_consumer_group_offsets(asked, request_timeout=_ANSWER_SECONDS)
            places = found[group].result(2 * _ANSWER_SECONDS).topic_partitions
    except confluent_kafka.KafkaException as error:
        raise NotReady(f"Kafka at {brokers} does not say what {group} committed ({kafka_said(error)[1]})") from None
    return {(each.topic, str(each.partition)): each.offset for each in places if each.offset >= 0 and not each.error}
