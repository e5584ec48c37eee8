"""Folders of CSV files: a subfolder for each partition, replaced whole, with a marker of the batch.

Nothing but the marker protects such a folder: it has no transactions. So a partition is written beside the former one
and exchanged in one rename, marker included, and the marker tells a batch that came back from a new one, and an older
one from both. Readers see a former partition or the next one, never a mix.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from pyspark.sql import DataFrame

from dedp_assets.patterns.connectors.landing.deliveries import MARKER
from dedp_assets.patterns.connectors.landing.editions import current, next_edition, replacing
from dedp_assets.patterns.connectors.web.parts import calling
from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.records import Provenance, slice_name
from dedp_assets.patterns.core.running.disks import writing_to
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import LocalStore, Target, as_folder, store_at

__all__ = ["DIALECT", "FILE", "Batch", "CsvFolder", "PartitionSink"]

FILE = {
    "file": Column("STRING", "name of a file in the partition's folder", required=True, classification="public"),
    "size_bytes": Column("BIGINT", "its size", required=True, classification="public"),
}
"""The columns of a list of files, beside those that it is partitioned by."""

DIALECT = {
    "escape": '"',
    "emptyValue": '""',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
"""RFC 4180, with NULL as nothing, an empty text as ``""``, and every microsecond; the marker is written last by this
module."""
_ODD, _SHOWN, _LONGEST = re.compile(r"[^\w=.,+ -]"), 40, 150
_NO_TEXT = ("array", "binary", "interval", "map", "struct", "variant")


@dataclass(frozen=True, slots=True)
class Batch:
    """The identity of a write: a retry has the same one.

    Attributes:
        id: digest of what the rows were computed from.
        sequence: upstream version of the rows; ``None`` without one.
    """

    id: str
    sequence: int | None = None

    @classmethod
    def of(cls, run: Provenance) -> Batch:
        """Return the batch of a run, by code, inputs and upstream version, or by the run's id without these."""
        known = run.inputs or run.sequence is not None
        stated = [run.code_version, run.inputs, run.sequence] if known else [run.run_id]
        digest = hashlib.sha256(json.dumps(stated, sort_keys=True, default=str).encode()).hexdigest()
        return cls(digest[:16], run.sequence)


class PartitionSink(Protocol):
    """A place outside of the lake that holds partitions, each replaced whole."""

    @property
    def name(self) -> str:
        """Name of the sink in errors."""

    def replace(self, rows: DataFrame, partition: Mapping[str, str], batch: Batch, *, force: bool = False) -> bool:
        """Replace a partition, unless the partition holds the batch; ``False`` if nothing was written.

        Raises:
            Conflict: if the partition holds a newer upstream version.
        """


@dataclass(frozen=True)
class CsvFolder:
    """A folder of CSV files for systems that read no Delta.

    Attributes:
        root: path of the folder; ``<root>/<column>=<value>``, the column in lower case, holds a partition. A name that
            engines read otherwise is shortened, and ends with a digest.
        header: whether each file begins with the names of the columns.
        separator: one character between two values.
    """

    root: str
    header: bool = True
    separator: str = ","

    def __post_init__(self) -> None:
        require_types(self)
        if len(self.separator) != 1 or self.separator in '"\r\n':
            raise ConfigError(f"separator must be one character and no quote, not {self.separator!r}")
        _ = self._place

    @property
    def name(self) -> str:
        """The folder's path."""
        return self._place.address

    @cached_property
    def _place(self) -> LocalStore:
        return as_folder(store_at(self.root))

    def files(self, partition: Mapping[str, str]) -> Mapping[str, int]:
        """Return the size in bytes of each file of a partition by name, as stated by the marker."""
        found: Mapping[str, int] = self._marker(self._folder(partition)).get("files", {})
        return found

    def listed(self, into: Target) -> DataFrame:
        """Return a row for each file of a target's partition, with the columns of :data:`FILE`; lazy."""
        types = into.table.spec.columns
        owned = [f"CAST({quoted(v)} AS {types[name].type}) AS {identifier(name)}" for name, v in into.partition.items()]
        found = [*self.files(into.partition).items()]
        return into.table.session.createDataFrame(found, "file STRING, size_bytes BIGINT").selectExpr(*owned, "*")

    def holds(self, partition: Mapping[str, str], batch: Batch) -> bool:
        """Return whether a partition was written by a batch, completely."""
        folder, marker = self._folder(partition), self._marker(self._folder(partition))
        sizes = {entry.path: entry.size_bytes for entry in folder.files(deep=False)}
        whole = all(sizes.get(file) == size for file, size in marker.get("files", {}).items())
        return marker.get("batch") == batch.id and whole

    def replace(self, rows: DataFrame, partition: Mapping[str, str], batch: Batch, *, force: bool = False) -> bool:
        """Replace a partition by rows, in one rename.

        Args:
            rows: all rows of the partition.
            partition: partition column -> value.
            batch: identity of the write.
            force: whether to write again what the partition holds.

        Returns:
            ``False``, and nothing is done, if the partition holds the batch.

        Raises:
            ConfigError: for a column that no CSV text can hold.
            Conflict: if the partition holds a newer upstream version, or another writer does not yield.
            ContractError: if the engine cannot write the rows.
            NotReady: if the disk does not take them.
        """
        _require_texts(self.name, rows)
        folder = self._folder(partition)
        with calling(f"{self.name} {slice_name(partition)}"), replacing(folder):
            if not force and self.holds(partition, batch):
                return False
            _require_newest(self.name, partition, self._marker(folder), batch)
            with next_edition(folder) as edition:
                self._write(rows, edition.files, batch)
        return True

    def _write(self, rows: DataFrame, folder: LocalStore, batch: Batch) -> None:
        """Write files into an edition, and the marker last."""
        options = {**DIALECT, "header": str(self.header).lower(), "sep": self.separator}
        with writing_to(folder.address):
            rows.write.mode("append").options(**options).csv(folder.address)
        entries = folder.files(deep=False)
        for entry in entries:
            if entry.path.startswith("."):  # the engine's checksums, which no reader of plain files knows
                folder.delete(entry.path)
        files = {entry.path: entry.size_bytes for entry in entries if not entry.path.startswith(".")}
        marker = {"batch": batch.id, "sequence": batch.sequence, "files": files}
        folder.put(MARKER, json.dumps(marker).encode())

    def _folder(self, partition: Mapping[str, str]) -> LocalStore:
        named = slice_name({column.lower(): value for column, value in partition.items()})  # as Spark compares names
        return as_folder(store_at(f"{self._place.address}/{_folder_name(named)}"))

    def _marker(self, folder: LocalStore) -> dict[str, Any]:
        """Read the marker of a partition; empty before the first batch."""
        edition = current(folder)
        if edition is None or not edition.files.exists(MARKER):
            return {}
        found: dict[str, Any] = json.loads(edition.files.read(MARKER))
        return found


def _folder_name(part: str) -> str:
    """Return a folder's name for a partition: as written, or with a digest where engines misread the text."""
    plain = _ODD.sub("_", part)
    if plain == part and len(part.encode()) <= _LONGEST and part[0] not in "._":
        return part
    return f"{plain[:_SHOWN].lstrip('._')}-{hashlib.sha256(part.encode()).hexdigest()[:16]}"


def _require_texts(name: str, rows: DataFrame) -> None:
    for each in rows.schema.fields:
        if each.dataType.simpleString().startswith(_NO_TEXT):
            kind = each.dataType.simpleString().upper()
            raise ConfigError(f"{name}: {each.name} must be a number, a text, a time or a truth, not {kind}")


def _require_newest(name: str, partition: Mapping[str, str], marker: Mapping[str, Any], batch: Batch) -> None:
    held = marker.get("sequence")
    if held is not None and batch.sequence is not None and batch.sequence < held:
        raise Conflict(
            f"{name} {slice_name(partition)} holds upstream version {held}, this run read version {batch.sequence} and "
            "is stale: run it on a newer one"
        )
