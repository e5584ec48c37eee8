"""Relabelling: new partition values for existing files, in one metadata-only commit.

A file's partition values stand in the log and not in the file. The commit adds each file again, under its path and with
another value; by the Delta protocol the newer entry of a path is the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import (
    RELABELLED,
    Operation,
    Table,
    TableState,
    commit_actions,
    in_turn,
    require_replaceable,
    serves,
)

__all__ = ["relabel"]


def relabel(
    table: Table, column: str, names: Callable[[TableState], Mapping[str, str]], *, provenance: Provenance
) -> WriteResult:
    """Give partitions new values of ``column`` in one metadata-only commit; other columns stay as stored.

    Args:
        table: the table, partitioned by ``column`` alone.
        column: its partition column, a STRING.
        names: the table as it is -> present value -> the value in its place.
        provenance: who relabels, and why.

    Raises:
        ConfigError: for a table whose log only Spark writes, or that only takes appends.
        Conflict: if other writers do not yield.
    """
    return in_turn(table.store, lambda: _relabel(table, column, names, provenance))


def _relabel(
    table: Table, column: str, names: Callable[[TableState], Mapping[str, str]], provenance: Provenance
) -> WriteResult:
    state = table.ledger.state()
    moved = {value: new for value, new in names(state).items() if value != new}
    if not moved:
        return WriteResult(table.name, state.version, applied=False, changed=False, reason="nothing to relabel")
    return _commit(table, state, column, moved, provenance)


def _commit(
    table: Table, state: TableState, column: str, moved: Mapping[str, str], provenance: Provenance
) -> WriteResult:
    if not serves(state):
        raise ConfigError(f"{table.name} has features that only Spark writes: its partitions cannot be relabelled")
    require_replaceable(table.name, state)
    files = [(file, dict(key)[column] or "") for file, key in state.keyed_files()]
    chosen = [(file, moved[value]) for file, value in files if value in moved]
    statistics = table.ledger.file_statistics(state.version)
    entries = [
        {
            "add": {
                "path": file["path"],
                "partitionValues": {column: new},
                "size": file["size_bytes"],
                **({"deletionVector": file["deletionVector"]} if "deletionVector" in file else {}),
                "modificationTime": file["modification_time"],
                "dataChange": False,
                **({"stats": stats} if (stats := statistics.get(file["path"])) else {}),
            }
        }
        for file, new in chosen
    ]
    before = {value for _, value in files}
    figures = {"files": len(chosen), "partitions_before": len(before)}
    figures["partitions_after"] = len({moved.get(value, value) for value in before})
    record = CommitRecord.of(provenance, content=f"relabelling of version {state.version}", figures=figures)
    record = replace(record, notes={**record.notes, RELABELLED: dict(moved)})
    metrics = {"numRemovedFiles": 0, "numRemovedBytes": 0, "numAddedFiles": 0, "numAddedBytes": 0}
    version = commit_actions(
        table.store,
        state,
        record=record,
        operation=Operation("OPTIMIZE", metrics=metrics),
        described_again=entries,
    )
    reason = f"{figures['partitions_before']} partitions became {figures['partitions_after']}, {len(chosen)} files"
    return WriteResult(table.name, version, applied=True, changed=False, reason=reason, figures=figures)
