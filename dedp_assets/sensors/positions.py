"""Positions of consumers outside of the lake, sampled for the detector of lag."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dedp_assets.patterns.observability._lag_of_topics import sample_stream
from dedp_assets.patterns.observability.lag_detector import LagSample

__all__ = ["topic_positions"]


def topic_positions(table: str, resources: Any, now: datetime) -> Sequence[LagSample]:  # noqa: ANN401 - Dagster's
    """Sample how far a table that a topic is appended to is behind the topic; nothing without a broker.

    Args:
        table: name of the table.
        resources: resources of a sensor, with ``kafka`` and ``lake``.
        now: current time, with time zone.

    Raises:
        NotReady: if the broker does not answer.
    """
    kafka, ledger = resources.kafka, resources.lake.ledger(table)
    return sample_stream(ledger, kafka.describe, seen_at=now) if kafka.bootstrap else ()
