"""Folders of Parquet or CSV files that become tables: files, rows, batches.

A file of the folder is taken into the table once: the commit that has its rows names it. So whatever wrote a file, and
whoever died afterwards, the next look finds the file that the table lacks.
"""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from dedp_assets.patterns.connectors.delivery.csv_folder import DIALECT, Batch
from dedp_assets.patterns.core.errors import Conflict, ContractError, SchemaMismatch
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.types.partitions import NO_VALUE
from dedp_assets.patterns.delta import Ledger, Store, Table, Target, store_at
from dedp_assets.patterns.storage._listed_rows import frame_of

__all__ = ["Folder", "Form", "checksum_of", "take", "taken_files"]

Form = Literal["parquet", "csv"]
_TAKEN = "taken_files"
_BATCHES, _STAGE = "_batches", "_staged-"
_HEADER_BYTES = 1 << 20
_READ = {name: value for name, value in DIALECT.items() if name != "emptyValue"}
# Nothing is NULL and `""` an empty text only if no text stands for NULL.
_READ |= {"nullValue": "\x00", "header": "true", "enforceSchema": "false", "multiLine": "true", "mode": "FAILFAST"}


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of data files; names that begin with ``_`` or ``.`` are no data.

    Attributes:
        store: where it lies.
        form: format of the files.
    """

    store: Store
    form: Form

    @classmethod
    def at(cls, moves: Mapping[str, Any]) -> Folder:
        """Open the folder of stored moves."""
        return cls(store_at(moves["folder"]), moves["form"])

    @staticmethod
    def is_own(name: str) -> bool:
        """Return whether a name in the folder belongs to a list of batches or a stage."""
        return name == _BATCHES or name.startswith(_STAGE)

    def files(self) -> Mapping[str, int]:
        """List the data files: path -> size in bytes."""
        hidden = ("_", ".")
        return {
            entry.path: entry.size_bytes
            for entry in self.store.files()
            if not any(part.startswith(hidden) for part in entry.path.split("/"))
        }

    def rows(self, table: Table, paths: Mapping[str, int]) -> DataFrame:
        """Read files with the columns of a table, partition values by the names of folders; lazy.

        Raises:
            SchemaMismatch: for a file with columns that the table lacks.
            ContractError: for a file that lies in other folders than the partition columns.
        """
        state = table.ledger.state()
        schema = StructType.fromJson({"type": "struct", "fields": [dict(each) for each in state.columns.values()]})
        groups: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
        for path in paths:
            values = self._values(table.name, path, state.partition_columns)
            self._require_columns(table.name, path, [name for name in schema.names if name not in values])
            groups.setdefault(tuple(values.items()), []).append(self.store.address_of(path))
        listed = [(dict(values), addresses) for values, addresses in groups.items()]
        return frame_of(table.session, schema, listed, self.form, _READ if self.form == "csv" else {})

    def add(self, rows: DataFrame, run: Provenance, partition_by: tuple[str, ...]) -> bool:
        """Put the files of a batch, or complete a batch that a run left unfinished.

        The list of the files decides: it is put once, after all of them were staged, and nobody else's counts.

        Returns:
            Whether this call wrote the rows.
        """
        batch = Batch.of(run).id
        decision, wrote = f"{_BATCHES}/{batch}.json", False
        if not self.store.exists(decision):
            listed = self._staged(rows, batch, partition_by)
            try:
                self.store.put_if_absent(decision, json.dumps(listed).encode())
                wrote = True
            except FileExistsError:
                self.store.delete_folder(listed["stage"])
        stated = json.loads(self.store.read(decision))
        stage = self.store.within(stated["stage"])
        for target, source in stated["files"].items():
            if not self.store.exists(target):
                # Whoever completed the batch meanwhile removed the stage: then the file is there.
                with suppress(FileNotFoundError):
                    self.store.put(target, stage.read(source))
        if missing := [target for target in stated["files"] if not self.store.exists(target)]:
            raise ContractError(f"{self.store.address}: {missing[0]} of batch {batch} is lost, and so is its stage")
        self.store.delete_folder(stated["stage"])
        return wrote

    def _staged(self, rows: DataFrame, batch: str, partition_by: tuple[str, ...]) -> dict[str, Any]:
        stage = f"{_STAGE}{uuid.uuid4().hex}"
        written = rows.write.format(self.form).mode("overwrite").partitionBy(*partition_by)
        if self.form == "csv":
            written = written.options(**DIALECT, header="true")
        written.save(self.store.address_of(stage))
        found = [file.path for file in self.store.within(stage).files() if file.path.endswith(f".{self.form}")]
        folders = {path: path.rpartition("/")[0] for path in found}
        names = {
            path: f"{folders[path]}{'/' if folders[path] else ''}batch-{batch}-{number}.{self.form}"
            for number, path in enumerate(sorted(found))
        }
        return {"stage": stage, "files": {name: path for path, name in names.items()}}

    def _values(self, table: str, path: str, partition_by: tuple[str, ...]) -> Mapping[str, str | None]:
        pairs = [part.partition("=") for part in path.split("/")[:-1]]
        values = {name: None if value == NO_VALUE else unquote(value) for name, sign, value in pairs if sign}
        if [name for name, _, _ in pairs] != list(partition_by):
            raise ContractError(
                f"{self.store.address}: {path} must lie in folders of {', '.join(partition_by) or 'no columns'}, in "
                f"this order, as {table} is partitioned"
            )
        return values

    def _require_columns(self, table: str, path: str, known: Sequence[str]) -> None:
        """Refuse a Parquet file with further columns, and a CSV file with another header."""
        with self.store.open(path) as opened:
            if self.form == "parquet":
                names = pq.ParquetFile(opened).schema_arrow.names
                unknown = [name for name in names if name not in known]
            else:
                begin = opened.read(_HEADER_BYTES).decode(errors="replace").removeprefix("\ufeff").splitlines()
                names = next(csv.reader(begin[:1]), [])
                unknown = names if names != [*known] else []
        if unknown:
            raise SchemaMismatch(
                f"{self.store.address}: {path} must have the columns of {table}, {', '.join(known)}, not "
                f"{', '.join(unknown)}"
            )


def checksum_of(path: str) -> str:
    """Return the path of the checksum that Spark may have put beside a file of a local folder."""
    folder, sign, name = path.rpartition("/")
    return f"{folder}{sign}.{name}.crc"


def taken_files(ledger: Ledger) -> Mapping[str, int]:
    """List the files that a table has taken: path -> size in bytes."""
    found: dict[str, int] = {}
    for commit in ledger.newest_first(past_restores=True) if ledger.exists() else ():
        found |= commit.record.notes.get(_TAKEN, {}) if commit.record else {}
    return found


def take(into: Target, folder: Folder) -> list[WriteResult]:
    """Append the rows of the files that the table has not taken, in one commit.

    Without such files, nothing is committed.

    Raises:
        ContractError: if a file changed after the table took it.
        Conflict: if other writers do not yield.
    """
    table = into.table
    for last in (False, False, False, True):
        state, known, found = table.ensure(), taken_files(table.ledger), folder.files()
        if changed := [path for path, size in found.items() if known.get(path, size) != size]:
            raise ContractError(f"{folder.store.address}: {changed[0]} changed after {table.name} took it: begin anew")
        new = {path: size for path, size in found.items() if path not in known}
        if not new:
            return []
        # The files tell what was taken before, and no number of a run.
        noted = replace(into, run=replace(into.run, sequence=None)).noting({_TAKEN: new})
        staged = noted.stage(folder.rows(table, new), append=True)
        try:
            return [staged.publish(since=state.version, held={})]
        except Conflict:
            if last:
                raise
    raise AssertionError("unreachable")
