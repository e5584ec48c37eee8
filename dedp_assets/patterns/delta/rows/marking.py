"""Marking: rows that a change takes out of active files by deletion vectors; other rows stay in place.

A change of few rows of large files writes these rows and a bitmap, where copy-on-write writes every row of the files
again. Readers pay: they read the bitmap, and counts of NULL and bounds are no longer exact. Compaction writes marked
files again without the deleted rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyroaring import BitMap64

from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.rows import evaluated_once
from dedp_assets.patterns.delta.commit.file_exchange import StoredFile
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.log.vectors import deleted_positions, write_vectors
from dedp_assets.patterns.delta.rows.base_snapshot import stored_file
from dedp_assets.patterns.delta.rows.row_change import Rewrite
from dedp_assets.patterns.delta.rows.touched_files import files_at
from dedp_assets.patterns.delta.snapshots.places import FILE, PLACES, ROW, plain_uri
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["TakenOut", "taken_out"]


@dataclass(frozen=True, slots=True)
class TakenOut:
    """Rows that a change takes out of active files.

    Attributes:
        files: the files.
        positions: path of a file -> the positions of the rows, counted from 0.
    """

    files: tuple[KeyedFile, ...] = ()
    positions: Mapping[str, BitMap64] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(map(len, self.positions.values()))

    def marked(self, ledger: Ledger, state: TableState, stage: Store) -> list[StoredFile]:
        """Write the deletion vectors into a stage, and return the files that keep a row, with their vectors.

        Args:
            ledger: the table's.
            state: the table as the rows were read.
            stage: the store of the stage.
        """
        store = ledger.store
        known = ledger.added_files(state.version) if self.files else {}
        deleted, held = dict[str, BitMap64](), dict[str, int]()
        for file, _ in self.files:
            path, vector = file["path"], file.get("deletionVector")
            before = deleted_positions(store, vector) if vector else BitMap64()
            deleted[path] = before | self.positions[path]
            rows = file.get("num_records")
            held[path] = _footer_rows(store, path) if rows is None else rows + len(before)
        kept = [(file, key) for file, key in self.files if len(deleted[file["path"]]) < held[file["path"]]]
        vectors = write_vectors(stage, {file["path"]: deleted[file["path"]] for file, _ in kept})
        return [
            _with_vector(file, key, known.get(file["path"], {}), vectors[file["path"]], held[file["path"]])
            for file, key in kept
        ]


@contextmanager
def taken_out(store: Store, plan: Rewrite) -> Iterator[tuple[Rewrite, TakenOut]]:
    """Evaluate the changed rows of a plan once, and find the rows to take out of active files.

    A plan without places is given back as planned.

    Args:
        store: the table's.
        plan: the changed rows, with places.

    Returns:
        The plan with the changed rows alone, and the rows to take out, for the time of a block.
    """
    if not plan.placed:
        yield plan, TakenOut()
        return
    with evaluated_once(plan.rows.filter(f"{OUTCOME} <> 'kept'")) as changed:
        places = changed.filter(f"{FILE} IS NOT NULL").select(*PLACES).toArrow()
        by_file = places.group_by(FILE).aggregate([(ROW, "list")]).to_pylist()
        rows = {plain_uri(each[FILE]): each[f"{ROW}_list"] for each in by_file}
        files = files_at(store, plan.removed, [each[FILE] for each in by_file])
        uris = {file["path"]: plain_uri(store.uri_of(unquote(file["path"]))) for file, _ in files}
        taken = TakenOut(tuple(files), {path: BitMap64(rows[uri]) for path, uri in uris.items()})
        yield replace(plan, removed=taken.files, rows=changed.drop(*PLACES)), taken


def _with_vector(
    file: Mapping[str, Any],
    key: Partition,
    action: Mapping[str, Any],
    vector: Mapping[str, Any],
    held: int,
) -> StoredFile:
    """Describe a file with another deletion vector: bounds are not tight, rows are all of the file's."""
    stored = stored_file(file, key, action)
    stats = {**json.loads(stored.stats), "numRecords": held, "tightBounds": False}
    return replace(stored, stats=json.dumps(stats), further={**stored.further, "deletionVector": vector})


def _footer_rows(store: Store, path: str) -> int:
    with store.open(unquote(path)) as opened:
        return int(pq.ParquetFile(opened).metadata.num_rows)
