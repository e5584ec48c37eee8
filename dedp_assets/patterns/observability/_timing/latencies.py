"""Latencies of micro-batches: from the start of the processing, and from the event, to the write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement, Verdict
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.observability._timing.percentiles import nearest_rank

__all__ = ["BatchTimes", "explained", "judge_seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """The times of a record, or of a micro-batch, on the way into a table.

    Attributes:
        event_at: when the event happened at the producer; of a micro-batch the time of one of its events, such as the
            newest. ``None`` if that is unknown.
        started_at: when its processing started.
        written_at: when it was written to the sink.

    Raises:
        ConfigError: for a write before the start of the processing.
    """

    event_at: datetime | None
    started_at: datetime
    written_at: datetime

    def __post_init__(self) -> None:
        require_types(self)
        if self.written_at < self.started_at:
            raise ConfigError(f"written_at must not lie before started_at, not {self.written_at}")

    @property
    def processing_seconds(self) -> float:
        """Time from the start of the processing to the write: the speed of the own code."""
        return (self.written_at - self.started_at).total_seconds()

    @property
    def event_seconds(self) -> float | None:
        """Time from the event to the write; 0 for an event of the future, whose producer's clock is wrong."""
        return None if self.event_at is None else max(0.0, (self.written_at - self.event_at).total_seconds())


def judge_seconds(
    kind: str, seconds: Sequence[float], now: datetime, table: str, *, limit: float, judged: str
) -> Measured:
    """Measure P95 and maximum of a latency, and judge one of the two.

    Args:
        kind: kind of the latency, the first word of the metrics.
        seconds: the latencies.
        now: current time.
        table: name of the table.
        limit: greatest latency.
        judged: figure that the limit is for, ``p95`` or ``max``.
    """
    found = []
    for name in ("p95", "max"):
        value = (nearest_rank(seconds, 0.95) if name == "p95" else max(seconds)) if seconds else None
        is_over = value is not None and name == judged and value > limit
        verdict: Verdict = "unknown" if value is None else "fail" if is_over else "ok"
        reasons = {"unknown": "no micro-batch was measured", "fail": f"{kind} latency of {len(seconds)} micro-batches"}
        found.append(
            Measurement(
                metric=f"{kind}_latency_{name}",
                table=table,
                at=now,
                verdict=verdict,
                value=value,
                unit="s",
                at_most=limit if name == judged else None,
                reason=reasons.get(verdict, ""),
            )
        )
    return Measured(tuple(found))


def explained(late: Measured, producer: str) -> Measured:
    """Return the measurements with the producer as the cause of each trouble."""
    note = f"the processing is in time: {producer} delivers late"
    return Measured(
        tuple(
            replace(each, explained_by=producer, reason=f"{each.reason}; {note}") if each.is_trouble else each
            for each in late.measurements
        )
    )
