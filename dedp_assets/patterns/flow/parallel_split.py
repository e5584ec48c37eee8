"""Parallel Split: two sinks take the same rows from one read of the source.

Problem: during a migration a legacy and a new system need the same result, and a job that writes both formats reads and
    computes its source twice; between the two writes it may die, and a file sink has no transactions.
Solution: the rows are staged once, audited, and both sinks are fed by the stage. Each sink knows the batch it holds, so
    a rerun leaves it unchanged and completes the other one. One that fails neither stops nor undoes the other.
Consequences: the stage is on disk instead of in an executor's memory: it survives the loss of executors, needs no
    release and serves Spark Connect alike. Until the rerun the sinks differ. Rows that an audit refuses reach neither.
Choose instead: Transactional Writer, if both are Delta tables; two tables with runs of their own, if one is slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.delivery.csv_folder import Batch, PartitionSink
from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.comparison import compared_by_key
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Split, WriteResult
from dedp_assets.patterns.delta import (
    Commit,
    StagedWrite,
    Target,
    already_applied,
    lost_files,
    require_partition,
)

__all__ = ["write_parallel", "compare_by_key"]


@typed
def write_parallel(
    rows: DataFrame | Split, into: Target, sink: PartitionSink, *, allow_empty: bool = False
) -> WriteResult:
    """Replace a partition of a table and of a further sink by the same rows, which are computed once.

    The sink is written first and the table committed last. A batch is known by the run's inputs, upstream version and
    code version; of a run without inputs and upstream version, by the run.

    Args:
        rows: everything the partition shall hold; of a split, its ``valid`` part.
        into: target that names the partition; audits judge the rows before either sink takes them.
        sink: the further sink.
        allow_empty: whether no rows may replace a partition, with a warning.

    Returns:
        The result of the table, with ``sink written`` (0 or 1) as a figure.

    Raises:
        AuditFailed: if an audit refuses the rows, or there are none; neither sink takes them.
        ConfigError: if no partition is named, or the sink cannot hold a column.
        Conflict: if a sink holds a newer upstream version, or another writer does not yield.
        PatternError: that of the sink that failed, after the other one was written.

    Example:
        >>> from dataclasses import replace
        >>> from dedp_assets.patterns.connectors.delivery.csv_folder import CsvFolder
        >>> views = table("views", "page STRING, day STRING", partition_by=["day"])
        >>> monday = views.target(replace(run, sequence=1), partition={"day": "mon"})
        >>> folder = CsvFolder(f"{views.store.address}_csv")
        >>> write_parallel(frame("page STRING, day STRING", ("/a", "mon")), monday, folder).rows.written
        1
        >>> len(folder.files(monday.partition))
        1
        >>> rows(views)
        [('/a', 'mon')]
    """
    into = into.by("flow.parallel_split", "partition", "audits", "rows_read")
    if not into.partition:
        raise ConfigError(f"partition must name what {into.name} and {sink.name} replace, not nothing")
    owned = require_partition(into.name, into.table.ensure(), into.partition)
    batch, done = Batch.of(into.run), _applied(into, owned)
    if done is None:
        staged = _staged(rows, into.with_audits(not_empty(allow_empty=allow_empty)))
        copied, publish = staged.stage.read(), staged.publish
    else:  # the source is not read again for the sink that lacks the batch
        copied, publish = into.table.read(owned, version=done.version), partial(_unchanged, into.name, done)
    failed, written = None, False
    try:
        written = sink.replace(copied, owned, batch, force=into.run.replay)
    except Exception as error:  # whatever it is, the table takes its rows all the same
        failed = error
    try:
        result = publish()
    except Exception as error:
        raise error from failed
    if failed is not None:
        raise failed
    return replace(result, figures={**result.figures, "sink written": int(written)})


@typed
def compare_by_key(
    legacy: DataFrame,
    new: DataFrame,
    *,
    keys: Sequence[str],
    columns: Sequence[str] = (),
    tolerance: float = 0.0,
    samples: int = 5,
    name: str = "legacy_and_new_agree",
) -> Finding:
    """Compare the results of two jobs by key, column by column.

    NULL equals NULL, of keys and of values. A key that comes twice on a side is counted and not compared.

    Args:
        legacy: rows of the legacy job.
        new: rows of the new job.
        keys: columns that identify a row on both sides.
        columns: columns to compare; all others than the keys, if empty, and a column of one side alone is a difference.
        tolerance: greatest difference of two FLOAT or DOUBLE values that counts as none.
        samples: greatest number of differing keys to show, smallest keys first.
        name: name of the finding.

    Returns:
        A finding that warns: rows of each side, keys that one side lacks, repeated keys, differing values by column,
        and samples with both values.

    Raises:
        ConfigError: for a column that is not there or cannot be compared, or is of two types that are no numbers.
    """
    if tolerance < 0 or samples < 0:
        raise ConfigError(f"tolerance and samples must be 0 or more, not {tolerance} and {samples}")
    return compared_by_key(legacy, new, keys=keys, columns=columns, tolerance=tolerance, samples=samples, name=name)


def _staged(rows: DataFrame | Split, into: Target) -> StagedWrite:
    """Stage rows that neither an audit nor a newer upstream version refuses."""
    staged = into.stage(rows)
    try:
        staged.is_applied()
    except PatternError:  # the further sink may not know that they are stale
        staged.stage.discard()
        raise
    return staged


def _applied(into: Target, owned: Mapping[str, str]) -> Commit | None:
    """Find the commit of the batch in the table.

    Returns:
        The commit; ``None`` for a batch that the table does not hold, or holds without some of its files.
    """
    table, run = into.table, into.run
    last = None if run.replay else table.ledger.latest(owned)
    record = last.record if last else None
    if record is None or record.partition != owned or not (run.inputs or run.sequence is not None):
        return None
    same = (record.inputs, record.code_version) == (run.inputs, run.code_version)
    newest = same and run.sequence in (None, record.sequence)
    return last if newest and not lost_files(table.store, table.ledger.state(), owned) else None


def _unchanged(name: str, done: Commit) -> WriteResult:
    """Return the result of a table that holds the batch already."""
    assert done.record is not None  # noqa: S101 - `_applied` found it by its record
    return already_applied(name, done.record, done)
