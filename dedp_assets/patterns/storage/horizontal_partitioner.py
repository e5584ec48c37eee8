"""Horizontal Partitioner: rows lie in partitions by time, or by another key of few values.

Problem: a query for the last 4 days reads every file, and another file layout would spare it nearly all of them.
Solution: a partition column tells the day or hour of the event, or of the run, or a key of few values; its values are
    counted before a file is written. Rows of a partition above a limit wait in a queue table and are processed later.
Consequences: a late event lies in its old partition, and what is computed from that is stale. A key of many values is
    refused, as each costs a folder of small files. Another key is a rewrite of all rows, in one commit for readers.
Choose instead: Bucket, for keys of many values; Sorter, for filters within a partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.columns import fields_of, require_columns, require_free, require_rows
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import RowsRead, row_hash
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types.partitions import from_folder, literal, stored_type, text, to_folder
from dedp_assets.patterns.delta import Table, Target, partition_name, same_run
from dedp_assets.patterns.delta.maintenance import repartition, small_files

__all__ = ["partition_rows", "process_excess", "change_partitions", "EXCESS"]

EXCESS = {"excess": Column("BOOLEAN", "whether the row waited in the queue", required=True)}
"""Partition column that marks rows from the queue."""

_SMALL = 128 * 1024 * 1024
_SEVERAL = 300
_OVER = f"{RESERVED}over"
_MOST = 2**31 - 2
"""The most rows that Spark can be asked for."""
(_NAME,) = EXCESS
_UNITS = {"date": "CAST({} AS DATE)", "timestamp": "date_trunc('HOUR', {})"}
"""Type of a partition column -> SQL of the day or hour of a time, in UTC."""


@typed
def partition_rows(
    rows: DataFrame,
    into: Target,
    queue: Target | None = None,
    *,
    column: str = "",
    event_time: str = "",
    most_partitions: int = _SEVERAL,
    most_rows: int | None = None,
    allow_empty: bool = False,
) -> WriteResult:
    """Replace a table, or the partition of a run, by rows in partitions, after a count of the partitions.

    Args:
        rows: everything that the partition of the run shall hold, e.g. a landing.
        into: target of the write; with a partition such as ``landed_on``, the run replaces rows of this one alone.
        queue: target of the rows above ``most_rows``: the same partition of another table. The table has the
            partition column :data:`EXCESS` then, and the queue has not.
        column: partition column to add: the day of a time if it is declared DATE, the hour if TIMESTAMP. Empty if the
            rows have all partition columns.
        event_time: column with the time of an event, for partitions by event time; empty for the time of the run.
        most_partitions: partitions that one write may have, as a number; more are refused before anything is written.
        most_rows: rows that a partition may have, as a number of rows of this write; ``None`` for any.
        allow_empty: whether no rows may replace what is there, with a warning.

    Returns:
        With the number of ``partitions``, and ``small_files`` (below 128 MiB) by partition, in ``figures``.

    Raises:
        AuditFailed: if an audit refuses the rows, or there are none.
        ConfigError: if the table has no such partition column, or the targets do not fit.
        ContractError: for more partitions than may be, and without a queue for more rows in one of them.

    Example:
        >>> visits = table("visits", "id INT, at TIMESTAMP, day DATE", partition_by=["day"])
        >>> landed = frame("id INT, at STRING", (1, "2026-01-05 23:59:00"), (2, "2026-01-04 12:00:00"))
        >>> found = landed.selectExpr("id", "CAST(at AS TIMESTAMP) AS at")
        >>> written = partition_rows(found, visits.target(run), column="day", event_time="at")
        >>> written.figures["small_files"]
        {'day=2026-01-04': 1, 'day=2026-01-05': 1}
        >>> [(id, str(day)) for id, _, day in rows(visits)]
        [(1, '2026-01-05'), (2, '2026-01-04')]
    """
    into = into.by("storage.horizontal_partitioner", "partition", "audits", "rows_read")
    if not into.table.spec.partition_by or most_partitions < 1 or (most_rows is not None and most_rows < 1):
        raise ConfigError(f"{into.name} must have partition columns, and most_partitions and most_rows be at least 1")
    if queue:
        queue = queue.by("storage.horizontal_partitioner", "partition", "audits")
        _require_queue(into, queue, most_rows)
    placed = _in_time(require_rows("partition_rows", rows), into, column, event_time)
    owned = {name.lower() for name in (*into.owned, *([_NAME] if queue else []))}
    by = [name for name in into.table.spec.partition_by if name.lower() not in owned]
    if queue is None and _NAME in by and _NAME not in placed.columns:
        raise ConfigError(f"queue must be a target, not None: {into.name} is partitioned by {_NAME}, which rows lack")
    require_columns(placed, by)
    volumes = _volumes(placed, into.table, by, most_partitions) if by or most_rows is not None else {}
    skewed = {name: count for name, count in volumes.items() if most_rows is not None and count > most_rows}
    if queue and most_rows is not None:
        kept, more = _divided(placed, by, most_rows) if skewed else (placed, None)
        first = replace(into, partition={**into.partition, _NAME: False})
        # The rows of the table first: what is not yet in the queue is missing for a while, and never there twice.
        result = _written(kept.withColumn(_NAME, F.lit(False)), first, by, allow_empty=allow_empty)  # noqa: FBT003
        return replace(result, beside=(_queued(more, queue),))
    if skewed:
        shown = ", ".join(f"{name} has {count}" for name, count in [*skewed.items()][:3])
        raise ContractError(
            f"{into.name}: partitions may have {most_rows} rows, and {shown}; nothing was written. Give a queue, which "
            "takes the excess, or raise most_rows"
        )
    return _written(placed, into, by, allow_empty=allow_empty)


@typed
def process_excess(queue: Table, into: Target) -> WriteResult:
    """Replace the rows from the queue by the present rows of the queue: each row is in the table once.

    A run that is repeated, killed or overtaken replaces the same rows by the same rows. The queue keeps its rows: they
    are processed again whenever the partition is written again.

    Args:
        queue: the table with the excess.
        into: target of the write: the table and partition of :func:`partition_rows`.

    Raises:
        AuditFailed: if an audit refuses the rows.
        NotReady: if there is no queue yet.
    """
    into = into.by("storage.horizontal_partitioner", "partition", "audits")
    _require_excess(into)
    if not queue.ledger.exists():
        raise NotReady(f"{queue.name} is not there yet: nothing was ever too much for {into.name}")
    version = queue.ledger.version()
    run = replace(into.run, inputs={**into.run.inputs, queue.name: version})
    late = replace(into, run=run, partition={**into.partition, _NAME: True})
    rows = queue.read(into.owned, version=version).withColumn(_NAME, F.lit(True))  # noqa: FBT003
    return late.with_audits(not_empty(allow_empty=True)).stage(rows).publish()


@demanding(replaces="table")
@typed
def change_partitions(into: Target, *, most_partitions: int = _SEVERAL, step_bytes: int = 32 * _SMALL) -> WriteResult:
    """Give a stored table the declared partition columns, by a rewrite that shows in one commit.

    The rows are copied in steps beside the table, and held against the stored ones; then one commit exchanges files and
    partition columns. A killed rewrite goes on after its last step. Readers see the old partitions or the new ones, and
    no version has other rows.

    Args:
        into: target of the write: the table, declared with the new partition columns.
        most_partitions: partitions that the table may have afterwards, as a number.
        step_bytes: size of the files of one step, in bytes.

    Raises:
        ConfigError: for a table that only Spark writes, or is not there.
        ContractError: for more partitions than may be, or if the copy has other rows; nothing was exchanged.
        Conflict: if another writer changed the table meanwhile: run it again.
    """
    into = into.by("storage.horizontal_partitioner")
    if most_partitions < 1 or step_bytes < 1:
        raise ConfigError(f"most_partitions and step_bytes must be at least 1, not {most_partitions} and {step_bytes}")
    buckets = into.table.spec.layout.buckets
    by = [column for column in into.table.spec.partition_by if not buckets or column != buckets.column]

    def guard(rows: DataFrame) -> None:
        _volumes(rows, into.table, by, most_partitions)

    return repartition(into.table, into.run, guard=guard, step_bytes=step_bytes)


def _in_time(rows: DataFrame, into: Target, column: str, event_time: str) -> DataFrame:
    """Add the partition column of a time, if one is named."""
    if not column:
        if event_time:
            raise ConfigError("event_time must go with column, which names the partition column to add")
        return rows
    spec = into.table.spec
    kind = stored_type(spec.columns[column].type) if column in spec.partition_by else ""
    if kind not in _UNITS:
        raise ConfigError(
            f"column must be a DATE or TIMESTAMP that {into.name} is partitioned by, not {column}: the table is "
            f"partitioned by {', '.join(spec.partition_by) or 'nothing'}"
        )
    require_free(rows, column)
    if event_time:
        require_columns(rows, [event_time])
        if (of := fields_of(rows, [event_time])[0].dataType.simpleString()) not in ("date", "timestamp"):
            raise ConfigError(f"event_time must be a TIMESTAMP or DATE, not {event_time}, a {of.upper()}")
        return rows.withColumn(column, F.expr(_UNITS[kind].format(identifier(event_time))))
    if into.run.at is None:
        raise ConfigError("the run must have a time (at), or event_time name one, for a partition by time")
    return rows.withColumn(column, F.expr(_UNITS[kind].format(literal(text(into.run.at, "timestamp"), "timestamp"))))


def _volumes(rows: DataFrame, table: Table, by: Sequence[str], most: int) -> Mapping[str, int]:
    """Count the rows of each partition in one pass over the partition columns; refuse too many partitions."""
    kinds = [stored_type(table.spec.columns[column].type) for column in by]
    keys = [
        F.expr(to_folder(c, kind)).alias(f"{RESERVED}{n}") for n, (c, kind) in enumerate(zip(by, kinds, strict=True))
    ]
    found = rows.groupBy(*keys).agg(F.count("*")).limit(min(most, _MOST) + 1).collect()
    if len(found) > most:
        raise ContractError(
            f"{table.name}: the rows have more than {most} partitions by {', '.join(by)}, each of them small files; "
            "nothing was written: lay rows of a key with many values out in buckets (storage.bucket.lay_out), take a "
            "coarser key, or raise most_partitions"
        )
    named = [[from_folder(value, kind) for value, kind in zip(row, kinds, strict=False)] for row in found]
    return {slice_name(dict(zip(by, key, strict=True))): row[-1] for key, row in zip(named, found, strict=True)}


def _divided(rows: DataFrame, by: Sequence[str], most: int) -> tuple[DataFrame, DataFrame]:
    """Divide rows into the first rows of each partition, up to the limit, and the excess.

    In the order of a hash of their content, so that a rerun keeps the same rows.
    """
    ordered = Window.partitionBy(*map(identifier, by)).orderBy(F.expr(row_hash(fields_of(rows, rows.columns))))
    numbered = rows.withColumn(_OVER, F.row_number().over(ordered) > F.lit(most))
    return numbered.filter(f"NOT {_OVER}").drop(_OVER), numbered.filter(_OVER).drop(_OVER)


def _queued(rows: DataFrame | None, queue: Target) -> WriteResult:
    """Replace the waiting rows of a partition; without Spark, if no rows wait."""
    if rows is None:
        return queue.table.clear(partition=queue.owned, provenance=queue.run)
    return queue.with_audits(not_empty(allow_empty=True)).stage(rows).publish()


def _written(rows: DataFrame, into: Target, by: Sequence[str], *, allow_empty: bool) -> WriteResult:
    """Write rows, each partition in as few files as the size asks for, and count small files."""
    together = rows.hint("rebalance", *[F.col(identifier(column)) for column in by]) if by else rows
    result = into.with_audits(not_empty(allow_empty=allow_empty)).stage(together).publish()
    state = into.table.ledger.state()
    owned = {*state.spelled(into.owned).items()}
    small = {partition_name(key): len(f) for key, f in small_files(state, _SMALL).items() if owned <= {*key}}
    return replace(
        result, figures={**result.figures, "partitions": len(small), "small_files": dict(sorted(small.items()))}
    )


def _require_queue(into: Target, queue: Target, most_rows: int | None) -> None:
    same_run(into, queue)
    _require_excess(into)
    if most_rows is None or dict(queue.owned) != dict(into.owned):
        raise ConfigError(
            f"a queue must go with most_rows, and own the partition of the rows ({dict(into.owned)}), not "
            f"{dict(queue.owned)}"
        )
    if into.rows_read != RowsRead():
        raise ConfigError(f"{into.name}: the target must have no rows_read with a queue, which takes some of the rows")


def _require_excess(into: Target) -> None:
    spec = into.table.spec
    if _NAME not in spec.partition_by or stored_type(spec.columns[_NAME].type) != "boolean":
        raise ConfigError(f"{into.name} must be partitioned by {_NAME} (EXCESS), not only by {list(spec.partition_by)}")
    if not into.owned or _NAME in into.owned:
        raise ConfigError(f"{into.name}: the target must name a partition, e.g. of a landing, and not {_NAME}")
