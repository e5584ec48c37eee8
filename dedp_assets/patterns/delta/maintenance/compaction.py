"""Compaction: files rewritten as other files with the same rows, without blocking writers.

Small files are merged by Spark's OPTIMIZE in a stage: a private Delta table inside the table's folder whose log names
just the files to rewrite. Files of a table with an order are read and staged in that order instead. Then, under the
table's lock, one metadata-only commit (``OPTIMIZE``, ``dataChange = false``) exchanges the files. Where another writer
took one of them away meanwhile, that partition stays as its writer left it. A crash leaves nothing but a stage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from deltalake.transaction import AddAction

from dedp_assets.patterns.core.errors import Conflict, ContractError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.measuring.requests import with_requests_counted
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta.commit import commits, file_exchange, spark_writer
from dedp_assets.patterns.delta.commit.sessions import private
from dedp_assets.patterns.delta.log.partition_values import Partition, partition_name
from dedp_assets.patterns.delta.log.table_state import Files, TableState
from dedp_assets.patterns.delta.log.vectors import file_identity
from dedp_assets.patterns.delta.maintenance.file_order import SORTED, FileOrder
from dedp_assets.patterns.delta.maintenance.rewritten_files import (
    Rewritten,
    described_file,
    discard_stages,
    each_file,
    merged_files,
    staged_files,
)
from dedp_assets.patterns.delta.snapshots.lost_files import FilesGone, require_files
from dedp_assets.patterns.delta.snapshots.reading import lies_outside, predicate
from dedp_assets.patterns.delta.staging.stages import read_cost
from dedp_assets.patterns.delta.storage.coordination import AGAIN, table_lock, turn
from dedp_assets.patterns.delta.tables import Table

__all__ = ["can_exchange", "files_to_purge", "rewrite", "small_files"]

_MOVED = ("numRemovedFiles", "numRemovedBytes", "numAddedFiles", "numAddedBytes")


def small_files(state: TableState, below_bytes: int) -> dict[Partition, list[Mapping[str, Any]]]:
    """List the files smaller than ``below_bytes``, for every partition."""
    found: dict[Partition, list[Mapping[str, Any]]] = {}
    for file, key in state.keyed_files():
        found.setdefault(key, []).extend([file] if file["size_bytes"] < below_bytes else [])
    return found


def files_to_purge(state: TableState, share: float) -> dict[Partition, list[Mapping[str, Any]]]:
    """List the files with a greater share of deleted rows than ``share`` (0 to 1), by partition."""
    found: dict[Partition, list[Mapping[str, Any]]] = {}
    for file, key in state.keyed_files():
        deleted, rows = file.get("deletionVector", {}).get("cardinality", 0), file.get("num_records") or 0
        if deleted > share * (deleted + rows):
            found.setdefault(key, []).append(file)
    return found


@with_requests_counted
def rewrite(
    table: Table,
    state: TableState,
    files: Files,
    *,
    provenance: Provenance,
    small_bytes: int,
    target_bytes: int,
    order: FileOrder | None = None,
    as_they_are: bool = False,
) -> WriteResult:
    """Rewrite ``files`` of ``state`` into files of ``target_bytes``, in one commit that changes no row.

    Rows that deletion vectors delete are not written again. Tables that only Spark can commit to (column mapping, row
    tracking, clones) are optimised in place, and their writers wait as long as that takes.

    Args:
        table: the table.
        state: the table as the files were chosen.
        files: what to rewrite, by partition.
        provenance: who rewrites, and why.
        small_bytes: files below this size are merged, in bytes.
        target_bytes: size that files grow up to, in bytes.
        order: order of the rows, which the table states from this commit on; by default the one that it states.
        as_they_are: whether large files are written again, too, in no order unless there is one.

    Raises:
        ContractError: if files cannot be read, or other rows came out than went in; nothing is committed.
        Conflict: if other writers do not yield, or somebody removed what was staged.
    """
    settings = {
        "spark.databricks.delta.optimize.minFileSize": str(small_bytes),
        "spark.databricks.delta.optimize.maxFileSize": str(target_bytes),
        # Spark's default, INT96, has no statistics.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    record = CommitRecord.of(provenance, content=f"compaction of version {state.version}")
    if not can_exchange(state, files):
        return _optimise_in_place(table, files, record, settings)
    kept, meter, rewritten = order or FileOrder.stored(table.ledger, state), Meter(), list[Rewritten]()
    # The stage of a merge has a log of its own, which cannot name the table's vectors.
    as_they_are = as_they_are or any("deletionVector" in file for _, file in each_file(files))
    try:
        with meter.jobs(table.session):
            if kept or as_they_are:
                for part in staged_files(table, state, files, kept, target_bytes):
                    rewritten.append(part)  # those before a failure are discarded
            else:
                rewritten = merged_files(table, state, files, settings)
    except Exception as error:
        discard_stages(rewritten)
        if not isinstance(error, SPARK_ERRORS):
            raise
        what = "files cannot be sorted" if kept else "small files cannot be merged"
        raise ContractError(f"{table.name}: its {what}, nothing was exchanged. {error}") from error
    return _exchange(table, record, rewritten, meter, order)


def can_exchange(state: TableState, files: Files) -> bool:
    """Return whether a metadata-only commit can exchange the files, or only Spark's writer can."""
    return file_exchange.serves(state) and not any(lies_outside(file["path"]) for _, file in each_file(files))


def _exchange(
    table: Table, record: CommitRecord, rewritten: Sequence[Rewritten], meter: Meter, order: FileOrder | None
) -> WriteResult:
    """Commit rewritten files in place of old files, except in partitions changed by another writer."""
    with meter.waiting(turn(table.store)):
        for last in meter.trying(AGAIN.tries()):
            now = table.ledger.state()
            active = now.file_identities() if file_exchange.serves(now) else frozenset()
            kept = [part for part in rewritten if active.issuperset(map(file_identity, part.old))]
            gave_way = sorted(partition_name(part.key) for part in rewritten if part not in kept)
            if not kept:
                discard_stages(rewritten)
                return _unchanged(table.name, now, gave_way)
            moved, actions = _exchanged(kept)
            figures = {**_sizes(now, moved), "partitions": len(kept), "gave_way": len(gave_way)}
            record = replace(record, figures=figures, notes={**record.notes, "gave_way": gave_way})
            try:
                require_files(table.store, [(unquote(a["path"]), a["size"]) for p in kept for a in p.new])
                spent = record.costing(meter.cost() + _files_cost(kept))
                info = commits.info(spent, "OPTIMIZE", now, moved, order.parameters if order else None)
                commits.write(table.store, now.version + 1, [info, *_stating(table, now, order), *actions])
                break
            except Conflict as error:
                if last or isinstance(error, FilesGone):
                    discard_stages(rewritten)
                    raise
        _finish(rewritten, kept)
    return _compacted(table.name, now.version + 1, figures, gave_way)


def _stating(table: Table, state: TableState, order: FileOrder | None) -> list[dict[str, Any]]:
    """Return the metadata action that states a new order; empty for the stored order."""
    if order is None or order.liquid or state.properties.get(SORTED) == order.stated:
        return []
    return [commits.with_properties(table.ledger, state, {SORTED: order.stated})]


def _finish(rewritten: Sequence[Rewritten], kept: Sequence[Rewritten]) -> None:
    for name, stage in {part.stage.store.name: part.stage for part in rewritten}.items():
        adds = [_staged(add) for part in kept if part.stage.store.name == name for add in part.new]
        if adds:
            replace(stage, adds=tuple(adds)).finish()
        else:
            stage.discard()


def _files_cost(kept: Sequence[Rewritten]) -> Cost:
    """Return the cost of files read and written."""
    old, new = [file for part in kept for file in part.old], [add for part in kept for add in part.new]
    return read_cost(old) + Cost(
        rows_written=sum(json.loads(add["stats"])["numRecords"] for add in new),
        files_written=len(new),
        bytes_written=sum(add["size"] for add in new),
    )


def _optimise_in_place(table: Table, files: Files, record: CommitRecord, settings: Mapping[str, str]) -> WriteResult:
    noted = {**settings, "spark.databricks.delta.commitInfo.userMetadata": record.to_json()}
    with table_lock(table.store):
        before = table.ledger.state()
        chosen = [predicate(dict(key), before) for key in files if key]
        where = f" WHERE {' OR '.join(f'({part})' for part in chosen)}" if chosen else ""
        try:
            with private(table.session, noted) as own:
                own.sql(f"OPTIMIZE delta.`{table.store.address}`{where}").collect()
        except SPARK_ERRORS as error:
            if not spark_writer.is_conflict(error):
                raise
            return _unchanged(table.name, before, sorted(map(partition_name, files)))
        ours = [commit for commit in table.ledger.commits(since=before.version) if commit.maintenance == record]
    if not ours:
        return _unchanged(table.name, before, [])
    figures = {**_sizes(before, ours[-1].metrics), "partitions": len(files), "gave_way": 0}
    return _compacted(table.name, ours[-1].version, figures, [])


def _sizes(before: TableState, moved: Mapping[str, object]) -> dict[str, int]:
    """Count the files and bytes of the whole table, before and after the commit."""
    now = before.statistics().values()
    files, size = sum(part.files for part in now), sum(part.bytes for part in now)
    delta = {name: int(str(moved[name])) for name in _MOVED}
    return {
        "files_before": files,
        "files_after": files - delta["numRemovedFiles"] + delta["numAddedFiles"],
        "bytes_before": size,
        "bytes_after": size - delta["numRemovedBytes"] + delta["numAddedBytes"],
    }


def _compacted(table: str, version: int, figures: Mapping[str, int], gave_way: Sequence[str]) -> WriteResult:
    reason = f"{figures['files_before']} files became {figures['files_after']}, in {figures['partitions']} partitions"
    if gave_way:
        reason += f"; gave way to other writers in {', '.join(gave_way)}"
    return WriteResult(table, version, applied=True, changed=False, reason=reason, figures=figures)


def _unchanged(table: str, state: TableState, gave_way: Sequence[str]) -> WriteResult:
    reason = "nothing to compact: no files would merge"
    if gave_way:
        reason = f"gave way to other writers in {', '.join(gave_way)}"
    figures = {**_sizes(state, dict.fromkeys(_MOVED, 0)), "partitions": 0, "gave_way": len(gave_way)}
    return WriteResult(table, state.version, applied=False, changed=False, reason=reason, figures=figures)


def _exchanged(kept: Sequence[Rewritten]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Return the metrics of an exchange, and the remove and add actions."""
    old = [(part.key, file) for part in kept for file in part.old]
    new = [add for part in kept for add in part.new]
    removed, added = sum(file["size_bytes"] for _, file in old), sum(add["size"] for add in new)
    moved = dict(zip(_MOVED, (len(old), removed, len(new), added), strict=True))
    gone = {"deletionTimestamp": commits.now_ms(), "extendedFileMetadata": True}
    return moved, [*({"remove": {**described_file(f, key), **gone}} for key, f in old), *({"add": add} for add in new)]


def _staged(add: Mapping[str, Any]) -> AddAction:
    return AddAction(add["path"], add["size"], add["partitionValues"], add["modificationTime"], False, "")  # noqa: FBT003
