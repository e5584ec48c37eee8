"""Checkpointer: after a failure a stream resumes from a checkpoint, each record committed once.

Problem: a stream has no partitions that could be run again. One that fails without saved progress and state begins at
    its first record, or leaves out what came meanwhile.
Solution: Spark's checkpoint keeps positions and state, and each micro-batch is one commit that names query, number and
    offsets. What was committed and not confirmed is not appended again. A checkpoint that does not go on where the
    table stands (lost, damaged, of another query, ahead, behind) is refused.
Consequences: position and rows are one commit, so neither comes first: records are neither doubled nor left out. Every
    micro-batch writes a commit and the state. A checkpoint needs durable storage outside of the table, and a query of
    its own; a backfill takes a table and a checkpoint of its own.
Choose instead: positions in the table's log alone, if the query keeps no state (``connectors.topics``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.kafka.streaming import run_available
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, RowCounts, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.running.disks import writing_to
from dedp_assets.patterns.delta import Ledger, Store, Table, Target, store_at
from dedp_assets.patterns.error_management import _checkpoints as checkpoints

__all__ = ["append_checkpointed", "judge_checkpoint", "checkpoint_rows", "Kept"]

_MEND = "Put back the right one, or restart from the first record"


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows read from checkpoint files, without the lineage before.

    Attributes:
        rows: the rows as the files have them.
        reused: whether the files were there already.
    """

    rows: DataFrame = field(repr=False)
    reused: bool


@demanding(replaces="table")
@typed
def append_checkpointed(
    stream: DataFrame,
    into: Target,
    *,
    checkpoint: str,
    keys: Sequence[str] = (),
    restart: bool = False,
) -> WriteResult:
    """Append a stream's available rows to a table exactly once, then stop.

    Without ``keys`` the table must have no other writer that appends.

    By ``keys`` it goes into a table that others write, too.

    Args:
        stream: a streaming DataFrame with the table's columns, stateful or not.
        into: target of the write; inputs and sequence of its run are filled in for each micro-batch, its audits judge
            each micro-batch.
        checkpoint: the query's own folder, outside of the table, for positions and state.
        keys: columns that make a row unique, never NULL: one whose key is in the table already is left out.
        restart: begin at the first record, with a new checkpoint, and empty the table first unless there are ``keys``.

    Returns:
        What all micro-batches wrote; ``figures`` names the last one (``batch``), up to where it read (``offsets``), how
        many rows the query dropped below its own watermark (``dropped_by_watermark``) and how many it keeps
        (``state_rows``), as Spark counts them.

    Raises:
        ConfigError: for a batch, or a checkpoint within the table.
        ContractError: if the checkpoint does not go on where the table stands, or a row has no key.
        PatternError: what refused a micro-batch; the ones before it are in the table.

    Example:
        >>> numbers, target = table("numbers", "value BIGINT", (1,), (2,)), table("appended", "value BIGINT")
        >>> folder = f"{target.location.parent}/checkpoint"
        >>> append_checkpointed(numbers.stream(), target.target(run), checkpoint=folder).figures["batch"]
        0
        >>> rows(target)
        [(1,), (2,)]
    """
    into = into.by("error_management.checkpointer", "audits")
    table, run = into.table, into.run
    store = _own_store(table, checkpoint)
    if not getattr(stream, "isStreaming", False):
        raise ConfigError("append_checkpointed needs a streaming DataFrame; a batch is appended by Table.append")
    table.ensure()
    if restart:
        store.delete_folder("")
        checkpoints.begin_anew(table, stream.schema, run, keys)
    if (finding := judge_checkpoint(table.ledger, checkpoint=checkpoint)).refuses:
        raise ContractError(f"{table.name}: {finding.note}. {_MEND}")
    before, applied = table.ledger.version(), checkpoints.last_applied(table.ledger)
    base = checkpoints.appended(table.ledger) - applied.number - 1
    sink = checkpoints.MicroBatchWriter(
        table.spec, table.store, store, applied.number, base, run, into.audits, tuple(keys)
    )
    try:
        ran = run_available(stream, sink, store)
    except SPARK_ERRORS as error:
        if checkpoints.STATE.search(str(error)):
            raise ContractError(
                f"{table.name}: the state in checkpoint {checkpoint} cannot be read. {_MEND}"
            ) from error
        raise
    written = _summed(table, before, checkpoints.last_applied(table.ledger), run.run_id)
    counted = {"dropped_by_watermark": ran.dropped_by_watermark, "state_rows": ran.state_rows}
    return replace(written, figures={**written.figures, **counted})


@typed
def judge_checkpoint(ledger: Ledger, *, checkpoint: str) -> Finding:
    """Judge whether a query's checkpoint agrees with the table's log, without Spark.

    Args:
        ledger: the table's.
        checkpoint: the query's folder.
    """
    applied = checkpoints.last_applied(ledger)
    note = checkpoints.contradiction(applied, store_at(checkpoint))
    return Finding(
        "checkpoint_goes_on_where_the_table_stands",
        passed=not note,
        figures={"batch": applied.number},
        note=f"checkpoint {checkpoint} {note}" if note else "",
    )


@typed
def checkpoint_rows(rows: DataFrame, *, checkpoint: str, identity: str) -> Kept:
    """Write computed rows to files, or reuse existing files, and return the rows read from the files.

    Retries and later steps begin at the files: one Spark job for new files, none for existing files.

    Files that are missing or cut short are computed anew.

    Args:
        rows: the result of a long computation.
        checkpoint: folder for it.
        identity: names what the rows are computed from, and by which code: other rows have another one.

    Raises:
        ContractError: if the files there are of other rows.

    Example:
        >>> import tempfile
        >>> place = tempfile.mkdtemp()
        >>> costly = frame("id INT", (1,), (2,))
        >>> first = checkpoint_rows(costly, checkpoint=place, identity="visits@7, code 1")
        >>> again = checkpoint_rows(costly, checkpoint=place, identity="visits@7, code 1")
        >>> first.reused, again.reused, rows(again.rows)
        (False, True, [(1,), (2,)])
    """
    store = store_at(checkpoint).within(f"rows-{hashlib.sha256(identity.encode()).hexdigest()[:16]}")
    expected = {"identity": identity, "schema": rows.schema.json()}
    found = json.loads(store.read("kept.json")) if store.exists("kept.json") else {}
    if found and {name: found.get(name) for name in expected} != expected:
        raise ContractError(
            f"{store.address} holds the rows of {found.get('identity')}, which are others: name what tells these apart"
        )
    reused = bool(found) and found["files"] == _sizes(store)
    if not reused:
        store.delete_folder("")
        with writing_to(store.address):
            rows.write.parquet(f"{store.address}/data")
        store.put("kept.json", json.dumps({**expected, "files": _sizes(store)}).encode())
    return Kept(rows.sparkSession.read.schema(rows.schema).parquet(f"{store.address}/data"), reused)


def _own_store(table: Table, checkpoint: str) -> Store:
    store = store_at(checkpoint)
    if store.address.startswith(f"{table.store.address}/") or store.address == table.store.address:
        raise ConfigError(
            f"checkpoint {checkpoint} lies in {table.name}, whose vacuum would remove it: name another folder"
        )
    return store


def _summed(table: Table, before: int, last: checkpoints.Applied, run_id: str) -> WriteResult:
    """Sum the results of the run's micro-batches."""
    commits = [c for c in table.ledger.commits(since=before) if c.record and c.record.run_id == run_id]
    counts = [c.record.rows for c in commits if c.record]
    return WriteResult(
        table=table.name,
        version=commits[-1].version if commits else before,
        applied=bool(commits),
        changed=any(c.changed for c in commits),
        reason=f"{len(commits)} micro-batches appended" if commits else "the stream holds nothing new",
        rows=RowCounts(**{name: sum(each.get(name, 0) for each in counts) for name in ("read", "written")}),
        figures={"batch": last.number, "offsets": "; ".join(last.offsets)},
    )


def _sizes(store: Store) -> dict[str, int]:
    """List the files of kept rows with sizes in bytes."""
    return {entry.path: entry.size_bytes for entry in store.files("data") if entry.path.endswith(".parquet")}
