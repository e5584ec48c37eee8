"""Positions of consumers outside of the lake, for the detectors of lag and of silent partitions."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.observability._lags.lag_of_slots import sample_slot
from dedp_assets.patterns.observability._lags.lag_of_topics import sample_stream
from dedp_assets.patterns.observability.lag_detector import LagSample

__all__ = ["Positions", "of_all", "slot_positions", "topic_positions"]

Positions = Callable[[Any, datetime], Sequence[LagSample]]
"""Function that samples positions by a sensor's resources and the current time."""


def of_all(*systems: Positions) -> Positions:
    """Return a function that samples several systems; a system that does not answer has no sample.

    Args:
        systems: functions that sample one system each.
    """

    def sample(resources: Any, now: datetime) -> Sequence[LagSample]:  # noqa: ANN401 - Dagster's
        found: list[LagSample] = []
        for system in systems:
            with suppress(PatternError):
                found += system(resources, now)
        return found

    return sample


def topic_positions(table: str, *, broker: str = "kafka") -> Positions:
    """Return a function that samples the lag of a table behind the topic appended to the table.

    Args:
        table: name of the table.
        broker: name of the Kafka resource; without a broker's address, nothing is sampled.
    """

    def sample(resources: Any, now: datetime) -> Sequence[LagSample]:  # noqa: ANN401 - Dagster's
        kafka = getattr(resources, broker)
        return sample_stream(resources.lake.ledger(table), kafka.describe, seen_at=now) if kafka.bootstrap else ()

    return sample


def slot_positions(table: str, *, source: str, slot: str, database: str = "operational") -> Positions:
    """Return a function that samples the bytes of a database's log that a table has not captured.

    Args:
        table: name of the table that the changes are captured in.
        source: captured table of the database, ``schema.table``.
        slot: replication slot of the captures.
        database: name of the database resource.
    """

    def sample(resources: Any, now: datetime) -> Sequence[LagSample]:  # noqa: ANN401 - Dagster's
        captured = getattr(resources, database).table(source, slot=slot)
        return (sample_slot(captured, consumer=table, seen_at=now),)

    return sample
