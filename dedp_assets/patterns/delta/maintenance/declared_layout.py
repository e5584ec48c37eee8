"""Declared layout of a table against the stored one: comparison, check and rewrite."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.layout import LAID_OUT, PARQUET, SORTED, written_by
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import Files, TableState
from dedp_assets.patterns.delta.maintenance.compaction import rewrite
from dedp_assets.patterns.delta.maintenance.file_order import FileOrder
from dedp_assets.patterns.delta.maintenance.repartitioning import other_buckets, repartition
from dedp_assets.patterns.delta.maintenance.statistics import describe_files
from dedp_assets.patterns.delta.snapshots.stored_spec import clustered_by
from dedp_assets.patterns.delta.storage.coordination import in_turn
from dedp_assets.patterns.delta.tables import Table

__all__ = ["LAYOUT_CHECK", "LayoutDifference", "apply_layout", "judge_layout", "layout_differences"]

LAYOUT_CHECK = "layout_is_as_declared"
_TARGET = 128 * 1024 * 1024
_STEP = 32 * _TARGET
"""Size of the files that are copied at once for another partitioning, in bytes."""


@dataclass(frozen=True, slots=True)
class LayoutDifference:
    """A part of a layout that is stored otherwise than declared.

    Attributes:
        part: option of the declaration, such as ``sort_by``.
        declared: its value in the declaration.
        stored: its value in the log.
    """

    part: str
    declared: str
    stored: str

    def __str__(self) -> str:
        return f"{self.part} is {self.stored}, declared is {self.declared}"


def layout_differences(table: Table) -> list[LayoutDifference]:
    """List the parts of a declared layout that are stored otherwise, by the log alone.

    What a declaration does not state is not compared, except for the partition columns.
    """
    state = table.ledger.state()
    return [each for each in _compared(table, state) if each.declared != each.stored]


def judge_layout(table: Table) -> Finding:
    """Judge by the log whether a table lies as declared; a warning names the command for a rewrite."""
    found = layout_differences(table)
    note = f"{'; '.join(map(str, found))}: `dedp layout {table.name} --apply` rewrites it" if found else ""
    figures = {each.part: f"{each.stored}, not {each.declared}" for each in found}
    return Finding(LAYOUT_CHECK, passed=not found, severity="warn", figures=figures, note=note)


def apply_layout(
    table: Table,
    run: Provenance,
    *,
    guard: Callable[[DataFrame], None] = lambda _: None,
    target_bytes: int = _TARGET,
) -> WriteResult:
    """Rewrite a stored table by the declared layout, in commits that change no row.

    A killed rewrite goes on. Partition columns and buckets change first, in one commit for readers; then the files of
    one partition after the other are written in order, with filters and pages; then statistics. Writers go on
    meanwhile, except for a change of partition columns, which a writer makes fail.

    Args:
        table: the table, with the declaration.
        run: who rewrites, and why.
        guard: refuses the rows before partition columns change.
        target_bytes: size of a file, in bytes.

    Returns:
        The last write, with files and bytes rewritten in ``figures``.

    Raises:
        ConfigError: for a table that is not there, or that only Spark writes.
        ContractError: if other rows came out than went in; nothing is exchanged.
        Conflict: if another writer changed the table meanwhile.
    """
    if not table.ledger.exists():
        raise ConfigError(f"{table.name} must be there before its layout changes: write it")
    before = layout_differences(table)
    if not before and not _out_of_layout(table, table.ledger.state()):
        version = table.ledger.version()
        return WriteResult(table.name, version, applied=False, changed=False, reason="it lies as declared")
    done = [repartition(table, run, guard=guard, step_bytes=_STEP)]
    table.ensure()
    _cluster(table)
    # What is no longer declared would be written into the new files.
    done.append(in_turn(table.store, lambda: _state_layout(table, run, {})))
    done += [*_rewritten(table, run, target_bytes), describe_files(table, {}, provenance=run)]
    done.append(in_turn(table.store, lambda: _state_layout(table, run, table.spec.layout.of_new_table)))
    left = layout_differences(table)
    files = sum(each.figures.get("rewritten", 0) for each in done)
    parts = ", ".join(each.part for each in before) or "order"
    reason = f"{parts} changed, in {sum(each.applied for each in done)} commits"
    reason += f"; left: {'; '.join(map(str, left))}" if left else ""
    figures = {"files_rewritten": files, "left": len(left)}
    return WriteResult(table.name, table.ledger.version(), applied=True, changed=False, reason=reason, figures=figures)


def _compared(table: Table, state: TableState) -> Iterator[LayoutDifference]:
    spec, layout = table.spec, table.spec.layout
    yield LayoutDifference("partition_by", _names(spec.partition_by), _names(state.partition_columns))
    if layout.buckets:
        others = other_buckets(spec, state)
        yield LayoutDifference("buckets", str(layout.buckets.buckets), ", ".join(others) or str(layout.buckets.buckets))
    if layout.cluster_by:
        stored = [".".join(path) for path in clustered_by(table.ledger, state)]
        yield LayoutDifference("cluster_by", _names(layout.cluster_by), _names(stored))
    if layout.sort_by:
        yield LayoutDifference("sort_by", _order_shown(layout.order), _order_shown(state.properties.get(SORTED, "")))
    declared = spec.table_properties()
    for name in sorted({*declared, *state.properties}):
        of_files = name.startswith(PARQUET) and layout.parquet_properties
        if of_files or (name.startswith("delta.dataSkipping") and layout.statistics):
            yield LayoutDifference(name, declared.get(name, "nothing"), state.properties.get(name, "nothing"))
    if made := written_by(layout.parquet_properties):
        there = state.properties.get(LAID_OUT) == made or not state.files()
        yield LayoutDifference("filters and pages", "in all files", "in all files" if there else "not in earlier files")


def _order_shown(stated: str) -> str:
    """Write an order in the form of the log for people."""
    if not stated:
        return "no order"
    order = json.loads(stated)
    return f"{', '.join(order['by'])} ({order['curve']})"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "nothing"


def _cluster(table: Table) -> None:
    """Give a table the declared clustering columns, which is a commit of metadata by Spark."""
    wanted, state = table.spec.layout.cluster_by, table.ledger.state()
    if wanted and [(column,) for column in wanted] != clustered_by(table.ledger, state):
        columns = ", ".join(map(identifier, wanted))
        table.define([f"ALTER TABLE delta.`{table.store.address}` CLUSTER BY ({columns})"])


def _rewritten(table: Table, run: Provenance, target_bytes: int) -> Iterator[WriteResult]:
    """Rewrite the partitions with a file out of layout, one commit for each."""
    state = table.ledger.state()
    order = _order(table, state)
    for key, files in _out_of_layout(table, state).items():
        now, sizes = table.ledger.state(), {"small_bytes": target_bytes, "target_bytes": target_bytes}
        done = rewrite(table, now, {key: files}, provenance=run, **sizes, order=order, as_they_are=True)
        yield replace(done, figures={"rewritten": len(files)})


def _order(table: Table, state: TableState) -> FileOrder | None:
    layout = table.spec.layout
    declared = FileOrder.of(table.name, state, layout.sort_by, layout.curve) if layout.sort_by else None
    return declared or FileOrder.stored(table.ledger, state)


def _out_of_layout(table: Table, state: TableState) -> Files:
    """List the files of partitions in which one lies in another order, or has other filters or pages."""
    made, order = written_by(table.spec.layout.parquet_properties), _order(table, state)
    if not made and order is None:
        return {}
    adds, by_key = table.ledger.added_files(state.version), dict[Partition, list[Mapping[str, Any]]]()
    for file, key in state.keyed_files():
        by_key.setdefault(key, []).append(file)
    is_other = {path: _lies_otherwise(add, order, made) for path, add in adds.items()}
    others = {key: files for key, files in by_key.items() if any(is_other.get(f["path"]) for f in files)}
    return dict(sorted(others.items(), key=str))


def _lies_otherwise(add: Mapping[str, Any], order: FileOrder | None, made: str) -> bool:
    tags = add.get("tags") or {}
    return (order is not None and not order.sort_of(add)) or (bool(made) and tags.get(LAID_OUT) != made)


def _state_layout(table: Table, run: Provenance, wanted: Mapping[str, str]) -> WriteResult:
    """State properties in the log that are true of all files, without filters that are no longer declared."""
    state, layout = table.ledger.state(), table.spec.layout
    declared = table.spec.table_properties()
    gone = [n for n in state.properties if n.startswith(PARQUET) and layout.parquet_properties and n not in declared]
    if not gone and all(state.properties.get(name) == value for name, value in wanted.items()):
        reason = "the log states the layout"
        return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason)
    action = commits.with_properties(table.ledger, state, wanted)
    for name in gone:
        action["metaData"]["configuration"].pop(name)
    record = CommitRecord.of(run, content=f"layout of version {state.version}")
    version = commits.commit_actions(
        table.store, state, [action], record=record, operation=commits.Operation("SET TBLPROPERTIES", metrics={})
    )
    reason = "the log states the layout now"
    return WriteResult(table.name, version, applied=True, changed=False, reason=reason)
