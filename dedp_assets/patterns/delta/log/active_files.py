"""Active files of a table by partition key: replayed from commits, or listed by a table state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from dedp_assets.patterns.delta.log.partition_values import spelled_value
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.vectors import FileIdentity

__all__ = ["ActiveFiles", "Total", "totals_of"]


@dataclass(slots=True)
class Total:
    """Active files of a partition, added up; ``unknown`` is the number of files without a row count."""

    files: int = 0
    size: int = 0
    rows: int = 0
    unknown: int = 0


@dataclass(slots=True)
class ActiveFiles:
    """The active files of a log that was read from version 0, and their totals.

    Attributes:
        totals: partition key -> total of the files.
    """

    totals: dict[str, Total] = field(default_factory=dict)
    _files: dict[FileIdentity, tuple[str, int | None, int]] = field(default_factory=dict)

    def add(self, identity: FileIdentity, key: str, rows: int | None, size: int) -> None:
        """Add a file to the partition ``key``; an active file may be added again, with another description."""
        self.drop(identity)
        self._files[identity] = key, rows, size
        self._count(key, rows, size, 1)

    def drop(self, identity: FileIdentity) -> None:
        """Remove a file, if the file is active."""
        if known := self._files.pop(identity, None):
            self._count(*known, -1)

    def _count(self, key: str, rows: int | None, size: int, sign: int) -> None:
        total = self.totals.setdefault(key, Total())
        total.files += sign
        total.size += sign * size
        total.rows += sign * (rows or 0)
        total.unknown += sign * (rows is None)
        if not total.files:
            del self.totals[key]


def totals_of(
    state: TableState, columns: Collection[str], key_of: Callable[[Mapping[str, str | None]], str]
) -> dict[str, Total]:
    """Add up the active files of a state by partition key.

    Args:
        state: the state of the table.
        columns: partition columns that make up a key; all of them if empty.
        key_of: makes the key of a partition.
    """
    files = pa.table(state.snapshot.get_add_actions(flatten=True))
    if "deletionVectors" in state.features:
        rows = pa.array([file.get("num_records") for file in state.files()], pa.int64())
        files = files.set_column(files.schema.get_field_index("num_records"), "num_records", rows)
    kinds = {name: kind for name, kind in state.kinds.items() if name in (columns or state.kinds)}
    measures = [("size_bytes", "count"), ("size_bytes", "sum"), ("num_records", "sum"), ("num_records", "count")]
    by = [f"partition.{name}" for name in kinds]
    found: dict[str, Total] = {}
    if not files.num_rows:
        return found
    for each in files.group_by(by, use_threads=False).aggregate(measures).to_pylist():
        key = key_of({name: spelled_value(each[f"partition.{name}"], kind) for name, kind in kinds.items()})
        total = found.setdefault(key, Total())
        total.files += each["size_bytes_count"]
        total.size += each["size_bytes_sum"]
        total.rows += each["num_records_sum"] or 0
        total.unknown += each["size_bytes_count"] - each["num_records_count"]
    return found
