"""State of a table at one version: schema, properties, active files, transaction cursors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from dedp_assets.patterns.delta.log.partition_values import Partition, spelled_value
from dedp_assets.patterns.delta.log.protocol import named_features
from dedp_assets.patterns.delta.log.transactions import Cursors
from dedp_assets.patterns.delta.log.vectors import FileIdentity, file_identity

__all__ = ["CLOSED", "FileStats", "Files", "KeyedFile", "TableState", "TableMetadata"]

CLOSED = "dedp.closed"
"""Name of a writer feature unknown to every engine: by the Delta protocol, engines read the table and write nothing."""

_VECTORS = "deletionVectors"
_EVERYWHERE: Mapping[str, str | None] = {}

KeyedFile = tuple[Mapping[str, Any], Partition]
"""An active file from :meth:`TableState.files`, and the file's partition."""

Files = Mapping[Partition, Sequence[Mapping[str, Any]]]
"""Active files by partition."""


@dataclass(frozen=True, slots=True)
class FileStats:
    """Active files of one partition: number, rows and bytes.

    ``exact`` says whether the log knows how many rows there are: a file may have no statistics, or deleted rows.
    """

    files: int = 0
    rows: int = 0
    bytes: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """Protocol, metadata and transaction ids of a table, as in the log."""

    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    transactions: Mapping[str, int]


@dataclass(frozen=True)
class TableState(Cursors):
    """The table at one version: schema, properties, active files, transaction cursors.

    Attributes:
        version: which.
        opened: reads the whole of it by deltalake, once somebody asks for more than ``declared`` holds.
        declared: what is known without that, if it is.
        added: reads the add actions of the log up to the version, for a table with deletion vectors.
    """

    version: int
    opened: Callable[[], DeltaTable] = field(repr=False)
    declared: TableMetadata | None = field(default=None, repr=False)
    added: Callable[[], Iterable[Mapping[str, Any]]] = field(default=tuple, repr=False)

    @cached_property
    def snapshot(self) -> DeltaTable:
        """The table as a deltalake ``DeltaTable``, with every active file."""
        return self.opened()

    @cached_property
    def table_id(self) -> str:
        """The table's id, which a table that is created again in the same folder has not."""
        return str(self.snapshot.metadata().id)

    @cached_property
    def protocol(self) -> Mapping[str, Any]:
        """The protocol versions and features of the table, from the log."""
        if self.declared:
            return self.declared.protocol
        stored = self.snapshot.protocol()
        features = {"readerFeatures": stored.reader_features, "writerFeatures": stored.writer_features}
        versions = {"minReaderVersion": stored.min_reader_version, "minWriterVersion": stored.min_writer_version}
        return {**versions, **{name: value for name, value in features.items() if value is not None}}

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """Table properties, including constraints (``delta.constraints.<name>``)."""
        known = self.declared.metadata["configuration"] if self.declared else self.snapshot.metadata().configuration
        return {k: v for k, v in known.items() if v is not None}

    @cached_property
    def description(self) -> str:
        """The table comment in the metadata; the empty text by default."""
        known = self.declared.metadata.get("description") if self.declared else self.snapshot.metadata().description
        return str(known or "")

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """Partition columns in order."""
        return tuple(
            self.declared.metadata["partitionColumns"] if self.declared else self.snapshot.metadata().partition_columns
        )

    @cached_property
    def columns(self) -> Mapping[str, Mapping[str, Any]]:
        """Column name -> field of the table's schema (``type``, ``nullable``, ``metadata``)."""
        schema = self.declared.metadata["schemaString"] if self.declared else self.snapshot.schema().to_json()
        return {f["name"]: f for f in json.loads(schema)["fields"]}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """Partition column -> data type, in order."""
        return {c: str(self.columns[c]["type"]) for c in self.partition_columns}

    @property
    def mapped(self) -> bool:
        """Return whether columns in the files go by other names than in the schema."""
        return self.properties.get("delta.columnMapping.mode", "none") != "none"

    @property
    def identities(self) -> Mapping[str, bool]:
        """IDENTITY column -> whether an INSERT may state a value."""
        metadata = {name: field.get("metadata", {}) for name, field in self.columns.items()}
        return {
            c: bool(m.get("delta.identity.allowExplicitInsert"))
            for c, m in metadata.items()
            if "delta.identity.start" in m
        }

    @cached_property
    def features(self) -> frozenset[str]:
        """Writer features the table names beyond the old protocol versions."""
        return named_features(self.protocol, "writer")

    @property
    def closed(self) -> bool:
        """Return whether the table is closed to all writers: a version, or a table that shows a version."""
        return CLOSED in self.features

    @property
    def marks_rows(self) -> bool:
        """Return whether changes mark rows by deletion vectors, instead of new copies of files."""
        asked = self.properties.get("delta.enableDeletionVectors", "false").lower() == "true"
        return asked and _VECTORS in self.features

    @cached_property
    def marked(self) -> Mapping[str, Mapping[str, Any]] | None:
        """Map paths with a deletion vector to the newest add action; ``None`` for an incomplete log.

        A log that was cleaned up behind a checkpoint in another format than Parquet does not tell.
        """
        if _VECTORS not in self.features:
            return {}
        newest = {action["path"]: action for action in self.added()}
        if not {*self.snapshot.get_add_actions()["path"].to_pylist()} <= newest.keys():
            return None
        return {path: action for path, action in newest.items() if action.get("deletionVector")}

    def files(self) -> Sequence[Mapping[str, Any]]:
        """List the active files, each as a mapping of path, size, row count and partition values.

        The keys are ``path``, ``size_bytes``, ``num_records`` (without rows that a deletion vector deletes) and
        ``partition.<column>``; ``deletionVector`` of a file that has one, whose counts of NULL are unknown.
        """
        return self._files

    def keyed_files(self) -> Sequence[KeyedFile]:
        """List the active files, each paired with the file's partition."""
        return self._keyed_files

    def file_identities(self, owned: Mapping[str, str | None] = _EVERYWHERE) -> frozenset[FileIdentity]:
        """Return path and deletion vector of each active file of a partition, or of all partitions."""
        return frozenset(file_identity(f) for f, key in self.keyed_files() if owned.items() <= dict(key).items())

    @cached_property
    def _files(self) -> tuple[Mapping[str, Any], ...]:
        found = pa.table(self.snapshot.get_add_actions(flatten=True)).to_pylist()
        if _VECTORS not in self.features:
            return tuple(found)
        return tuple(_without_deleted(file, self.marked) for file in found)

    @cached_property
    def _keyed_files(self) -> tuple[KeyedFile, ...]:
        kinds = sorted(self.kinds.items())
        return tuple(
            (f, tuple((c, spelled_value(f[f"partition.{c}"], kind)) for c, kind in kinds)) for f in self._files
        )

    def statistics(self) -> dict[Partition, FileStats]:
        """Sum up files, rows and bytes by partition, from the log's statistics."""
        totals: dict[Partition, FileStats] = {}
        for f, key in self.keyed_files():
            old, rows = totals.get(key, FileStats()), f.get("num_records")
            exact = old.exact and rows is not None
            totals[key] = FileStats(old.files + 1, old.rows + (rows or 0), old.bytes + f["size_bytes"], exact)
        return totals

    def null_counts(self, columns: Iterable[str]) -> dict[Partition, dict[str, int]]:
        """Sum up NULL values of columns by partition, from the log's statistics.

        A column is left out of a partition with a file that does not tell: personal and nested columns, deleted rows.
        """
        names, found = list(columns), dict[Partition, dict[str, int]]()
        for f, key in self.keyed_files():
            counts = {c: f.get(f"null_count.{c}") for c in names}
            known = found.get(key, dict.fromkeys(names, 0))
            found[key] = {c: known[c] + n for c, n in counts.items() if n is not None and c in known}
        return found

    def spelled(self, partition: Mapping[str, object]) -> dict[str, Any]:
        """Spell a partition by the table's names and as the log does; other columns stay as given."""
        known = {c.lower(): c for c in self.kinds}
        named = {known.get(c.lower(), c): value for c, value in partition.items()}
        return {c: None if v is None else spelled_value(v, self.kinds.get(c, "string")) for c, v in named.items()}

    def holds(self, partition: Mapping[str, str]) -> bool:
        """Return whether ``partition`` has an active file, in any spelling of the values."""
        wanted = self.spelled(partition)
        return any(wanted.items() <= dict(key).items() for key in self.statistics())

    def transaction(self, app_id: str) -> int | None:
        """Return the last version applied under the transaction id ``app_id``; survives log cleanup."""
        if self.declared:
            return self.declared.transactions.get(app_id)
        return self.snapshot.transaction_version(app_id)


def _without_deleted(file: Mapping[str, Any], marked: Mapping[str, Mapping[str, Any]] | None) -> Mapping[str, Any]:
    """Return a file of a table with deletion vectors, with the number of rows that are not deleted."""
    if marked is not None and file["path"] not in marked:
        return file
    kept = {name: value for name, value in file.items() if not name.startswith("null_count.")}
    if marked is None:
        return {**kept, "num_records": None}
    stated, rows = marked[file["path"]]["deletionVector"], file.get("num_records")
    # A checkpoint states every field of the descriptor, NULL included.
    vector = {name: value for name, value in stated.items() if value is not None}
    return {**kept, "num_records": None if rows is None else rows - vector["cardinality"], "deletionVector": vector}
