"""Bounded streaming queries: they append what there is now, micro-batch by micro-batch, and end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core import errors
from dedp_assets.patterns.core.errors import AuditFailed, ContractError, PatternError
from dedp_assets.patterns.delta.publishing import SPARK_ERRORS
from dedp_assets.patterns.delta.store import Store

__all__ = ["run_available", "told"]

_REMEMBERED = 100
"""Micro-batches of which Spark keeps the progress, as it is configured by default."""
_OURS = re.compile(r"core\.errors\.(\w+): (.+)")


def run_available(stream: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Store) -> int | None:
    """Hand what a stream holds now to ``sink``, micro-batch by micro-batch, and wait for the last one.

    Over Spark Connect the sink runs in a Python process beside the engine, which needs this package and the table's
    folder there.

    Args:
        stream: a streaming DataFrame.
        sink: gets the rows of each micro-batch and its number.
        checkpoint: where Spark keeps positions and state.

    Returns:
        The number of rows that stateful operators dropped because they lay below the stream's watermark; of an
        aggregation, what several late rows of a micro-batch add up to counts as one. ``None`` if there were more
        micro-batches than Spark remembers.

    Raises:
        PatternError: what ``sink`` raised.
    """
    writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint.address)
    try:
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            return _dropped(query.recentProgress)
        finally:
            with suppress(*SPARK_ERRORS):
                query.stop()
    except SPARK_ERRORS as error:
        if told := _relayed(error):
            raise told from error
        raise


def told(error: BaseException) -> str:
    """Join the texts of an error of the engine and of its causes: which of them has the reason, it does not promise."""
    cause = getattr(error, "_cause", None)
    return str(error) if cause is None else f"{error}\n{told(cause)}"


def _dropped(progress: Sequence[Mapping[str, Any]]) -> int | None:
    operators = [operator for batch in progress for operator in batch["stateOperators"]]
    return sum(each["numRowsDroppedByWatermark"] for each in operators) if len(progress) < _REMEMBERED else None


def _relayed(error: BaseException) -> PatternError | None:
    """Read the library's error out of the text of the engine's, if a sink raised one."""
    if found := _OURS.search(told(error)):
        kind = getattr(errors, found[1], ContractError)
        return AuditFailed(found[2], findings=()) if kind is AuditFailed else kind(found[2])
    return None
