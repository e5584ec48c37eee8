"""Bounded streaming queries over the rows available at the start, by micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.running.relaying import relayed
from dedp_assets.patterns.delta import Store

__all__ = ["Ran", "run_available", "error_texts"]

_REMEMBERED = 100
"""Micro-batches of which Spark keeps the progress, as it is configured by default."""
_STARTS = 3
"""Most starts of a query, the first among them."""
_NO_WORKER = "Python worker failed to connect back"
"""Error of a query whose Python process did not start within 10 s; Spark has no setting for the time."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Spark's row counts of a finished streaming query.

    Attributes:
        dropped_by_watermark: rows that stateful operators dropped because they lay below the stream's watermark; of an
            aggregation, what several late rows of a micro-batch add up to counts as one. ``None`` if there were more
            micro-batches than Spark remembers.
        state_rows: rows that stateful operators keep for what comes next; ``None`` if there was no micro-batch.
    """

    dropped_by_watermark: int | None
    state_rows: int | None


def run_available(stream: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Store) -> Ran:
    """Run a stream over the rows available now, with ``sink`` for each micro-batch, to the end.

    A query whose Python process did not start in time is started again, twice at most, and goes on from its checkpoint.

    Over Spark Connect the sink runs in a Python process beside the engine, which needs this package and the table's
    folder there.

    Args:
        stream: a streaming DataFrame.
        sink: gets the rows of each micro-batch and its number.
        checkpoint: where Spark keeps positions and state.

    Raises:
        PatternError: what ``sink`` raised.
    """
    writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint.address)
    progress: list[Mapping[str, Any]] = []
    for starts_left in reversed(range(_STARTS)):
        try:
            _run(writer.trigger(availableNow=True), progress)
            break
        except SPARK_ERRORS as error:
            texts = error_texts(error)
            if refusal := relayed(texts):
                raise refusal from error
            if not starts_left or _NO_WORKER not in texts:
                raise
    return _counted(progress)


def error_texts(error: BaseException) -> str:
    """Join the texts of an engine error and of all causes.

    The engine does not promise which of the texts has the reason.
    """
    cause = getattr(error, "_cause", None)
    return str(error) if cause is None else f"{error}\n{error_texts(cause)}"


def _run(writer: DataStreamWriter, progress: list[Mapping[str, Any]]) -> None:
    """Run one query to the end; add the progress of all micro-batches, also of a failed query."""
    query = writer.start()
    try:
        query.awaitTermination()
    finally:
        progress += query.recentProgress
        with suppress(*SPARK_ERRORS):
            query.stop()


def _counted(progress: Sequence[Mapping[str, Any]]) -> Ran:
    dropped = [operator["numRowsDroppedByWatermark"] for batch in progress for operator in batch["stateOperators"]]
    last = [operator["numRowsTotal"] for batch in progress[-1:] for operator in batch["stateOperators"]]
    return Ran(sum(dropped) if len(progress) < _REMEMBERED else None, sum(last) if progress else None)
