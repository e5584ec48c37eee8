"""Change of partition columns: a copy in steps, then one commit that exchanges all files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import rows_digest
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.commit import commits, file_exchange
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import require_replaceable
from dedp_assets.patterns.delta.snapshots.tiers import require_in_place
from dedp_assets.patterns.delta.storage.coordination import table_lock, turn
from dedp_assets.patterns.delta.storage.locations import STAGE, partitions_beside
from dedp_assets.patterns.delta.tables import Table

__all__ = ["other_buckets", "repartition"]

_SOON = 1
"""Seconds that a run waits for another one, which may take hours."""


def repartition(table: Table, run: Provenance, *, guard: Callable[[DataFrame], None], step_bytes: int) -> WriteResult:
    """Rewrite a stored table with the declared partition columns.

    Args:
        table: the table, with the new declaration.
        run: who rewrites, and why.
        guard: refuses the rows, before anything is written.
        step_bytes: size of the files of one step, in bytes.

    Raises:
        ConfigError: for a table that is not there, or only Spark writes.
        ContractError: if the copy has other rows.
        Conflict: if another writer changed the table meanwhile, or another run rewrites it.
    """
    # Of two runs, both would fill the same copy, and the second remove what the first has published.
    with table_lock(partitions_beside(table.store), timeout_seconds=_SOON):
        return _repartition(table, run, guard, step_bytes)


def _repartition(table: Table, run: Provenance, guard: Callable[[DataFrame], None], step_bytes: int) -> WriteResult:
    if not table.ledger.exists():
        raise ConfigError(f"{table.name} must be there before its partition columns change: write it")
    base = table.ledger.state()
    if base.partition_columns == table.spec.partition_by and not other_buckets(table.spec, base):
        reason = f"partitioned by {_names(base.partition_columns)} already: nothing to do"
        return WriteResult(table.name, base.version, applied=False, changed=False, reason=reason)
    if base.closed or base.mapped or not file_exchange.serves(base):
        raise ConfigError(f"{table.name} has features that only Spark writes: its partition columns cannot change")
    require_replaceable(table.name, base)
    require_in_place(table.name, base, {})
    stored = Table(_as_stored(table.spec, base), table.store, lambda: table.session)
    base = stored.ensure()
    copy = _copy_of(table, base)
    rows = _without_bucket(table.spec, stored.read(version=base.version))
    guard(rows)
    _fill(copy, stored, base, run, step_bytes)
    _require_same(stored, copy, rows)
    with turn(table.store):
        return _exchange(table, base, copy, run)


def other_buckets(spec: TableSpec, state: TableState) -> list[str]:
    """List the numbers of buckets, other than the declared one, that a stored table holds."""
    buckets = spec.layout.buckets
    if not buckets or buckets.column not in state.partition_columns:
        return []
    held = {str(dict(key)[buckets.column]).rpartition(" ")[2] for key in state.statistics()}
    return sorted(held - {str(buckets.buckets)})


def _as_stored(spec: TableSpec, base: TableState) -> TableSpec:
    """Return the declaration with the stored partition columns, and with a bucket only if one is stored."""
    buckets, columns, checks = spec.layout.buckets, dict(spec.columns), dict(spec.checks)
    if buckets and buckets.column not in base.columns:
        columns.pop(buckets.column)
        for name in buckets.checks:
            checks.pop(name)
    layout = replace(spec.layout, buckets=None)
    return replace(spec, columns=columns, checks=checks, partition_by=base.partition_columns, layout=layout)


def _without_bucket(spec: TableSpec, rows: DataFrame) -> DataFrame:
    """Drop the bucket, which depends on the number of buckets."""
    return rows.drop(spec.layout.buckets.column) if spec.layout.buckets else rows


def _copy_of(table: Table, base: TableState) -> Table:
    """Open the copy of a state: a stage of a name that a later attempt finds again."""
    buckets = [str(table.spec.layout.buckets)] if table.spec.layout.buckets else []
    content = "\n".join([*sorted(map("".join, base.file_identities())), *table.spec.partition_by, *buckets])
    folder = f"{STAGE}{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    # Rows of a key come in several steps, which are no appends of anybody else's.
    spec = replace(table.spec, name=f"{table.name}/{folder}", key=(), executed_by="", one_channel_per="")
    return Table(spec, table.store.within(folder), lambda: table.session)


def _fill(copy: Table, stored: Table, base: TableState, run: Provenance, step_bytes: int) -> None:
    """Copy the rows in steps, each an append under the number of the step, from the first missing step."""
    done = copy.ledger.state().applied(copy.name, {}) or 0 if copy.ledger.exists() else 0
    by = [F.col(identifier(column)) for column in copy.spec.partition_by]
    copy.ensure()
    for number, partitions in enumerate(_steps(base, step_bytes), 1):
        if number <= done:
            continue
        rows = _without_bucket(copy.spec, stored.read(*partitions, version=base.version))
        # Of declared buckets, the write puts the rows of each together.
        together = rows.hint("rebalance", *by) if by and not copy.spec.layout.buckets else rows
        step = Provenance(asset=copy.name, run_id=run.run_id, sequence=number, inputs={"step": number}, at=run.at)
        copy.append(together, provenance=step.by(run.pattern))


def _steps(base: TableState, step_bytes: int) -> Iterator[list[Mapping[str, str | None]]]:
    """Divide the partitions into steps of about that size; a table without partitions is one step."""
    sizes = {key: stats.bytes for key, stats in sorted(base.statistics().items(), key=str)}
    if not base.partition_columns:
        yield from [[]] if sizes else []
        return
    step, size = list[Mapping[str, str | None]](), 0
    for key, more in sizes.items():
        if step and size + more > step_bytes:
            yield step
            step, size = [], 0
        step, size = [*step, dict(key)], size + more
    if step:
        yield step


def _require_same(stored: Table, copy: Table, rows: DataFrame) -> None:
    """Remove and refuse a copy with other rows, by number and by an order-free digest."""
    if rows_digest(rows) != rows_digest(_without_bucket(copy.spec, copy.read())):
        copy.store.delete_folder("")
        raise ContractError(
            f"{stored.name}: the copy has other rows than the table, nothing was exchanged: run it again"
        )


def _exchange(table: Table, base: TableState, copy: Table, run: Provenance) -> WriteResult:
    """Commit the files and the partition columns of the copy in place of the table's."""
    now, new = table.ledger.state(), copy.ledger.state()
    if now.file_identities() != base.file_identities():
        copy.store.delete_folder("")
        raise Conflict(f"{table.name} was changed while its rows were copied: run it again when nobody writes it")
    metadata, adds = _described(copy, new)
    removed = now.keyed_files()
    before, after = sum(file["size_bytes"] for file, _ in removed), sum(add.size for add in adds)
    figures = {"files_before": len(removed), "files_after": len(adds), "bytes_before": before, "bytes_after": after}
    metrics = {"numRemovedFiles": len(removed), "numRemovedBytes": before}
    metrics |= {"numAddedFiles": len(adds), "numAddedBytes": after}
    properties = {**now.properties, **metadata["configuration"]}
    file_exchange.require_staged(table.store, adds)
    version = commits.commit_actions(
        table.store,
        now,
        [
            {"metaData": {**metadata, "id": now.snapshot.metadata().id, "configuration": properties}},
            *file_exchange.file_actions(adds, removed, data_change=False),
        ],
        record=CommitRecord.of(run, content=f"partitions of version {now.version}", figures=figures),
        operation=commits.Operation("OPTIMIZE", metrics=metrics),
    )
    copy.store.delete_folder("_delta_log")
    reason = f"partitioned by {_names(table.spec.partition_by)} instead of {_names(now.partition_columns)}"
    return WriteResult(table.name, version, applied=True, changed=False, reason=reason, figures=figures)


def _described(copy: Table, state: TableState) -> tuple[Mapping[str, Any], list[AddAction]]:
    """Read the metadata of the copy, and the files to add to the table."""
    written = [action for number in range(state.version + 1) for action in commits.read_actions(copy.store, number)]
    active = {file["path"] for file in state.files()}
    adds = [action["add"] for action in written if "add" in action and action["add"]["path"] in active]
    return [action["metaData"] for action in written if "metaData" in action][-1], [
        AddAction(
            f"{copy.store.name}/{add['path']}",
            add["size"],
            add["partitionValues"],
            add["modificationTime"],
            False,  # noqa: FBT003
            add["stats"],
        )
        for add in adds
    ]


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "nothing"
