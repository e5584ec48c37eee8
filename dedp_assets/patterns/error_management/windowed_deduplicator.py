"""Windowed Deduplicator: each key once within a stated window, always the same survivor.

Problem: producers deliver at least once, so the same event arrives twice.
Solution: in a batch, rank the rows of a key by a total order and keep the first; in a stream, remember the keys seen
    within a window of event time and forget them after.
Consequences: only repeats inside the window are found: a longer window costs memory, a shorter one misses repeats. The
    write has to be idempotent too, or a retry brings the duplicates back. Whether a table is unique over all windows
    is a question of its own (`judge_uniqueness`), at the cost of reading its keys.
Choose instead: Merger, if the key must be unique over the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import (
    COMPARED,
    INSTANT,
    REMEMBERED,
    fields_of,
    is_collated,
    require_columns,
    require_free,
    require_rows,
)
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Split
from dedp_assets.patterns.core.rows import row_hash
from dedp_assets.patterns.core.sessionizing import watermarked
from dedp_assets.patterns.core.types.meeting import equal

__all__ = ["deduplicate", "deduplicate_stream", "judge_uniqueness"]

_SEEN = f"{RESERVED}seen"


@typed
def deduplicate(
    rows: DataFrame | Split,
    earlier: DataFrame | None = None,
    *,
    keys: Sequence[str],
    order_by: Sequence[str],
    keep: Literal["first", "last"] = "first",
    null_keys: Literal["keep", "drop"] = "keep",
) -> Split:
    """Split rows into ``valid`` (one row of each key) and ``duplicate`` (repeats of a key); lazy.

    The window is the batch given, widened by ``earlier``. Ties in ``order_by`` are broken by the rows' content, so the
    survivor does not depend on the order of the input.

    Args:
        rows: the batch; of a split, its ``valid`` part is deduplicated and the other parts pass through.
        earlier: past rows with the same key columns, of the same types or such as hold their values; what is in them
            is a duplicate here (a look-back, at the cost of reading them).
        keys: columns that make a row unique; values are equal as Spark compares them.
        order_by: columns that decide which row of a key comes first, ascending, NULL before any value.
        keep: the row of a key that survives: its ``first``, or its ``last``, which folds a history of versions to the
            current state.
        null_keys: rows with a NULL in a key are never merged: ``keep`` keeps each of them, ``drop`` counts each of
            them as a duplicate.

    Raises:
        ConfigError: for columns that are not there, that cannot be compared (MAP, VARIANT), or that have a name of the
            library's own.
        SchemaMismatch: if the types of a key do not meet those of ``earlier`` without loss.

    Example:
        >>> visits = frame("id STRING, line INT, page STRING", ("a", 1, "/"), ("b", 2, "/"), ("a", 3, "/about"))
        >>> split = deduplicate(visits, keys=["id"], order_by=["line"])
        >>> rows(split["valid"]), rows(split["duplicate"])
        ([('a', 1, '/'), ('b', 2, '/')], [('a', 3, '/about')])
    """
    if not keys:
        raise ConfigError("keys must name a column, not none")
    require_distinct("keys=", keys)
    require_distinct("order_by=", order_by)
    require_rows("deduplicate (for a stream there is deduplicate_stream)", rows)
    split = _flagged(Split.of(rows))
    frame = split.rows
    require_columns(frame, [*keys, *order_by], COMPARED)
    if earlier is not None:
        require_columns(earlier, keys, COMPARED)
        frame = _marked(frame, earlier, keys)
    other = identifier(split.outcome)
    whole = " AND ".join(f"{identifier(key)} IS NOT NULL" for key in keys)
    ranked = f"{other} = 'valid' AND {whole}"
    place = f"row_number() OVER ({_ranking(split, frame, keys, order_by, keep, ranked)})"
    repeated = f"({ranked}) AND ({place} > 1{f' OR {_SEEN}' if earlier is not None else ''})"
    unknown = f"NOT ({whole})" if null_keys == "drop" else "false"
    outcome = f"CASE WHEN {other} = 'valid' AND ({repeated} OR {unknown}) THEN 'duplicate' ELSE {other} END"
    shown = [identifier(c) for c in split.rows.columns if c != OUTCOME]
    flagged = frame.selectExpr(*shown, f"{outcome} AS {OUTCOME}")
    return Split(flagged, {**split.parts, "duplicate": split.parts["valid"]}, identity=split.identity)


@typed
def judge_uniqueness(rows: DataFrame, *, keys: Sequence[str]) -> Finding:
    """Judge whether every key is unique over all rows, in one Spark job.

    A batch is deduplicated within its window; this says whether what a table holds over all windows is unique. Rows
    with a NULL in a key repeat nothing.

    Args:
        rows: what a table (or some partitions of it) holds.
        keys: columns that make a row unique.

    Returns:
        A finding with ``repeated_keys`` and ``surplus_rows``, which could go without losing a key, in ``figures``.

    Raises:
        ConfigError: as :func:`deduplicate`.

    Example:
        >>> judge_uniqueness(frame("id INT", (1,), (1,), (2,)), keys=["id"]).figures
        {'repeated_keys': 1, 'surplus_rows': 1}
    """
    if not keys:
        raise ConfigError("keys must name a column")
    require_distinct("keys=", keys)
    require_columns(require_free(rows), keys, COMPARED)
    found = f"{RESERVED}rows"
    known = rows.filter(" AND ".join(f"{identifier(key)} IS NOT NULL" for key in keys))
    repeated = known.groupBy(*map(identifier, keys)).agg(F.count("*").alias(found)).filter(f"{found} > 1")
    number, surplus = repeated.selectExpr("count(1)", f"coalesce(sum({found} - 1), 0)").collect()[0]
    return Finding(
        "every_key_is_unique",
        passed=not number,
        figures={"repeated_keys": number, "surplus_rows": surplus},
        note=f"{', '.join(keys)} repeat" if number else "",
    )


@typed
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
        ConfigError: if ``stream`` is not a stream, or a column cannot be used so.
    """
    require_distinct("keys=", keys)
    require_columns(stream, keys, REMEMBERED)
    if not stream.isStreaming:
        raise ConfigError("deduplicate_stream needs a streaming DataFrame; for a batch use deduplicate")
    require_columns(stream, [event_time], INSTANT)
    return watermarked(stream, event_time, window, option="window").dropDuplicatesWithinWatermark(list(keys))


def _marked(rows: DataFrame, earlier: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Mark the rows whose key occurs in ``earlier``."""
    theirs = [f"{_SEEN}_{number}" for number, _ in enumerate(keys)]
    seen = earlier.selectExpr(
        *[f"{identifier(key)} AS {name}" for key, name in zip(keys, theirs, strict=True)], f"true AS {_SEEN}"
    )
    same = [
        equal(one, other, (identifier(one.name), name), sides=("the rows", "the earlier ones"))
        for one, other, name in zip(fields_of(rows, keys), fields_of(earlier, keys), theirs, strict=True)
    ]
    return rows.join(seen.distinct(), F.expr(" AND ".join(same)), "left")


def _flagged(split: Split) -> Split:
    """Flag plain rows as valid; return a split unchanged."""
    if split.outcome:
        return split
    return replace(split, rows=require_free(split.rows).withColumn(OUTCOME, F.lit("valid")), outcome=OUTCOME)


def _ranking(
    split: Split, frame: DataFrame, keys: Sequence[str], order_by: Sequence[str], keep: str, ranked: str
) -> str:
    """Write the SQL window that ranks the rows of a key; unranked rows are spread over groups."""
    content = row_hash([f for f in split.rows.schema.fields if f.name != split.outcome])
    # A hash comes first: it sorts fast, and it keeps rows that take no part from all meeting in one task. Equal keys
    # have equal hashes, except those of a collation.
    hashed = ", ".join(identifier(f.name) for f in fields_of(frame, keys) if not is_collated(f.dataType)) or "NULL"
    spread = f"if({ranked}, xxhash64({hashed}), {content})"
    same_key = [f"if({ranked}, {identifier(key)}, NULL)" for key in keys]
    way = "ASC NULLS FIRST" if keep == "first" else "DESC NULLS LAST"
    order = [f"{identifier(column)} {way}" for column in order_by]
    # What identifies a row upstream is there twice as well, where a producer delivers again: only content ends a tie.
    return f"PARTITION BY {', '.join([spread, *same_key])} ORDER BY {', '.join([*order, content])}"
