"""Windowed Deduplicator: each key once within a stated window, always the same survivor.

Problem: producers deliver at least once, so the same event arrives twice.
Solution: in a batch, rank the rows of a key by a total order and keep the first; in a stream, remember the keys seen
    within a window of event time and forget them after.
Consequences: only repeats inside the window are found: a longer window costs memory, a shorter one misses repeats. The
    write has to be idempotent too, or a retry brings the duplicates back.
Choose instead: Merger, if the key must be unique over the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import require_columns, require_rows, row_hash

__all__ = ["deduplicate", "deduplicate_stream"]

_PLACE = "place among its key"


def deduplicate(
    rows: DataFrame | Split,
    earlier: DataFrame | None = None,
    *,
    keys: Sequence[str],
    order_by: Sequence[str],
    null_keys: Literal["keep", "drop"] = "keep",
) -> Split:
    """Split rows into ``valid`` (the first row of each key) and ``duplicate``; lazy.

    The window is the batch given, widened by ``earlier``. Ties in ``order_by`` are broken by the rows' content, so the
    survivor does not depend on the order of the input.

    Args:
        rows: the batch; of a split, its ``valid`` part is deduplicated and the other parts pass through.
        earlier: past rows with the same key columns; what is in them is a duplicate here (a look-back, at the cost of
            reading them).
        keys: columns that make a row unique.
        order_by: columns that decide which row of a key comes first, ascending.
        null_keys: rows with a NULL in a key are never merged: ``keep`` keeps each of them, ``drop`` counts each of
            them as a duplicate.

    Raises:
        ConfigError: for columns that are not there, or a column named ``outcome``.

    Example:
        >>> deduplicate(visits, keys=["visit_id"], order_by=["landed_on", "line_number"])["valid"]  # doctest: +SKIP
    """
    if not keys or null_keys not in ("keep", "drop"):
        raise ConfigError(f"keys must name a column and null_keys be keep or drop, not {list(keys)} and {null_keys!r}")
    frame = require_rows("deduplicate (for a stream there is deduplicate_stream)", rows)
    require_columns(frame, [*keys, *order_by])
    if not isinstance(rows, Split) and "outcome" in rows.columns:
        raise ConfigError("a split keeps its verdict in a column named outcome: rename the one the rows have")
    if earlier is not None:
        seen = earlier.select(*keys).distinct().withColumn("seen before", F.lit(True))  # noqa: FBT003
        frame = frame.join(seen, list(keys), "left")
    whole = " AND ".join(f"`{key}` IS NOT NULL" for key in keys)
    valid = "outcome = 'valid'" if isinstance(rows, Split) else "true"
    ranked = f"{valid} AND {whole}"
    content = row_hash([c for c, kind in frame.dtypes if not kind.startswith("map")])
    # The hash comes first: it sorts fast, and it keeps rows that take no part from all meeting in one task.
    spread = F.expr(f"if({ranked}, {row_hash(keys)}, {content})")
    same_key = [F.expr(f"if({ranked}, `{key}`, NULL)") for key in keys]
    total = isinstance(rows, Split) and set(rows.identity) <= set(order_by) and bool(rows.identity)
    window = Window.partitionBy(spread, *same_key).orderBy(*order_by, *([] if total else [F.expr(content)]))
    repeated = f"({ranked}) AND (`{_PLACE}` > 1{' OR `seen before`' if earlier is not None else ''})"
    unknown = f"NOT ({whole})" if null_keys == "drop" else "false"
    other = "outcome" if isinstance(rows, Split) else "'valid'"
    outcome = f"CASE WHEN {valid} AND ({repeated} OR {unknown}) THEN 'duplicate' ELSE {other} END"
    flagged = frame.withColumn(_PLACE, F.row_number().over(window)).withColumn("outcome", F.expr(outcome))
    parts = rows.parts if isinstance(rows, Split) else {"valid": tuple(rows.columns)}
    identity = rows.identity if isinstance(rows, Split) else ()
    return Split(flagged, {**parts, "duplicate": parts["valid"]}, identity=identity)


def deduplicate_stream(stream: DataFrame, *, keys: Sequence[str], event_time: str, window: str) -> DataFrame:
    """Drop repeats of a key that arrive within ``window`` of event time of the first; lazy.

    A row older than the watermark (newest event time of *earlier* micro-batches minus ``window``) is dropped as late,
    repeat or not. A repeat later than ``window`` is taken as new once its key is forgotten, which happens when a
    micro-batch ends: within one large micro-batch, as after an outage, more repeats are found and less is late.

    Args:
        stream: a streaming DataFrame.
        keys: columns that make a row unique; event time need not be among them.
        event_time: TIMESTAMP column.
        window: how long keys are remembered, e.g. ``10 minutes``.

    Raises:
        ConfigError: if ``stream`` is not a stream.
    """
    require_columns(stream, [*keys, event_time])
    if not stream.isStreaming:
        raise ConfigError("deduplicate_stream needs a streaming DataFrame; for a batch use deduplicate")
    return stream.withWatermark(event_time, window).dropDuplicatesWithinWatermark(list(keys))
