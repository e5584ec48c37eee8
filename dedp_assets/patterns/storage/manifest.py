"""Manifest: readers take the data files of a version from one list, without listing folders.

Problem: to find a table's files, a reader lists folders or replays a log: many requests on an object store, and
    a reader without Delta takes removed and unpublished files for rows.
Solution: a run that writes also puts one file that lists exactly the live data files of the version, with size, rows,
    columns and partition values; a pointer names the newest. A load reads what its delivery lists, and nothing else.
Consequences: a commit without a new manifest makes the manifest stale: judge it. Files in the list go by a vacuum
    only. Where files alone do not tell the rows (deletion vectors, renamed columns), no manifest is made.
Choose instead: the Delta log, for readers that know it; Passthrough Replicator, if readers need files of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dedp_assets.patterns.connectors.landing.deliveries import MARKER, stated_sizes
from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Split, WriteResult
from dedp_assets.patterns.delta import Store, Table, TableState, Target, sha256_of, store_at, table_lock
from dedp_assets.patterns.storage._listed_rows import Group, duckdb_query, external, frame_of, require_told
from dedp_assets.patterns.storage._manifest_files import ListedFile, checked, newest, put, require_whole, to_json

__all__ = ["overwrite_listed", "write_manifest", "judge_manifest", "ListedFile", "ListedFiles"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """The content of a manifest: the files of one version of a table, or of a delivery.

    Attributes:
        store: the listed folder, or prefix of a bucket.
        files: the files, sorted by path.
        version: the table's version; ``None`` for a delivery.
        table_id: identity of the table in its log; empty for a delivery.
        schema: the table's columns as in its log; ``None`` for a delivery.
    """

    store: Store
    files: Sequence[ListedFile]
    version: int | None = None
    table_id: str = ""
    schema: Mapping[str, Any] | None = field(default=None, repr=False)

    @classmethod
    def at(cls, place: str | os.PathLike[str] | Store) -> ListedFiles:
        """Read the newest manifest of a table, or the manifest of a delivery; no folder is listed.

        Args:
            place: location of a table, or of a folder of a landing zone.

        Raises:
            ContractError: for a damaged manifest, or one that lists files of another place.
            NotReady: without a manifest.
        """
        store = store_at(place)
        if found := _newest(store):
            return found
        try:
            sizes, flaw = stated_sizes(store.read(MARKER))
        except FileNotFoundError:
            sizes, flaw = None, ""
        if flaw:
            raise ContractError(f"{store.address}: {flaw}")
        if sizes is None:
            raise NotReady(f"{store.address} has no manifest: write one, or deliver the files with one")
        return cls(store, checked(store, [ListedFile(name, sizes[name]) for name in sorted(sizes)]))

    @property
    def addresses(self) -> list[str]:
        """The addresses of the files for readers without Hadoop: paths, or ``s3://bucket/key``."""
        return [external(self.store.address_of(each.path)) for each in self.files]

    def require_whole(self) -> ListedFiles:
        """Return the list if all files exist with the stated sizes; no folder is listed.

        Raises:
            ContractError: names the first missing or changed files.
        """
        require_whole(self.store, self.files)
        return self

    def duckdb_query(self) -> str:
        """Write the SQL by which DuckDB reads the rows of a table's files.

        Raises:
            ConfigError: for the list of a delivery, or a type that DuckDB has not.
        """
        if self.schema is None:
            raise ConfigError(f"{self.store.address} must be a table for a query, not a delivery: use addresses")
        return duckdb_query(self.schema, self._groups())

    def rows(
        self, session: SparkSession, *, form: Literal["parquet", "json", "csv", "text"] = "parquet", columns: str = ""
    ) -> DataFrame:
        """Read exactly the listed files by Spark; lazy.

        Args:
            session: the Spark session.
            form: format of a delivery's files.
            columns: columns of a delivery with types, such as ``id INT, page STRING``; by default those in the files.

        Raises:
            ContractError: as of :meth:`require_whole`.
        """
        self.require_whole()
        schema: Any = StructType.fromJson(dict(self.schema)) if self.schema else None
        if columns:
            schema = StructType.fromDDL(columns)
        return frame_of(session, schema, self._groups(), form)

    def _groups(self) -> Sequence[Group]:
        found: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
        for each in self.files:
            found.setdefault(tuple(each.partition.items()), []).append(self.store.address_of(each.path))
        return [(dict(values), addresses) for values, addresses in found.items()]


@typed
def overwrite_listed(
    rows: DataFrame | Split,
    into: Target,
    *,
    allow_empty: bool = False,
    most_files: int = 10_000,
    most_bytes: int = 8 * _MIB,
    kept: int = 10,
    checksums: bool = False,
) -> WriteResult:
    """Replace a partition, or the table, and write the manifest of the version that this makes.

    A run that dies between commit and manifest leaves the former manifest; run again, it writes the manifest alone.

    Args:
        rows: everything that the partition or the table shall hold; of a split, its ``valid`` part.
        into: target of the write.
        allow_empty: whether no rows may replace what is there, with a warning.
        most_files: most files that a manifest may list.
        most_bytes: greatest size of a manifest, in bytes.
        kept: how many manifests are kept, with the newest.
        checksums: whether new files are read once for their SHA-256.

    Raises:
        AuditFailed: if an audit refuses the rows, or there are none.
        ConfigError: for bounds below 1.
        ContractError: for a table whose files do not tell the rows, before anything is written; or with too many files.

    Example:
        >>> visits = table("visits", "id INT, day STRING", (1, "mon"), (9, "tue"), partition_by=["day"])
        >>> monday = frame("id INT, day STRING", (2, "mon"), (3, "mon"))
        >>> overwrite_listed(monday, visits.target(run, partition={"day": "mon"})).reason
        '2 rows published'
        >>> listed = ListedFiles.at(visits.location)
        >>> listed.version, sum(file.rows for file in listed.files)
        (2, 3)
        >>> rows(visits)
        [(2, 'mon'), (3, 'mon'), (9, 'tue')]
    """
    into = into.by("storage.manifest", "partition", "audits", "rows_read")
    _require_bounds(most_files, most_bytes, kept)
    if into.table.ledger.exists():
        require_told(into.table, into.table.ledger.state())
    written = into.with_audits(not_empty(allow_empty=allow_empty)).stage(rows).publish()
    write_manifest(into.table, most_files=most_files, most_bytes=most_bytes, kept=kept, checksums=checksums)
    return written


@typed
def write_manifest(
    table: Table, *, most_files: int = 10_000, most_bytes: int = 8 * _MIB, kept: int = 10, checksums: bool = False
) -> WriteResult:
    """Write the manifest of a table's newest version, if missing.

    The list is put under the version's number, then the pointer is replaced, both while no other writer commits:
    readers have the former list or the new one, whole. The rows of the table do not change, and no version is made.

    Args:
        table: the table.
        most_files: most files that a manifest may list.
        most_bytes: greatest size of a manifest, in bytes.
        kept: how many manifests are kept, with the newest; older ones are removed.
        checksums: whether new files are read once for their SHA-256.

    Raises:
        ConfigError: for bounds below 1.
        ContractError: for a table whose files do not tell the rows, or with too many files.
        NotReady: if there is no table.
    """
    _require_bounds(most_files, most_bytes, kept)
    former = _former(table.store)
    known = {each.path: each.sha256 for each in former.files} if former else {}
    if checksums:  # before the turn of the table: files are large
        known |= {
            path: sha256_of(table.store, path)
            for path in map(_path, table.ledger.state().files())
            if not known.get(path)
        }
    with table_lock(table.store) as held:
        state, former = table.ledger.state(), _former(table.store)
        require_told(table, state)
        made = _listed(table, state, known, checksums=checksums)
        content = to_json(table.name, made.version, made.table_id, made.schema, made.files)
        if len(made.files) > most_files or len(content) > most_bytes:
            raise ContractError(
                f"{table.name}: a manifest may list {most_files} files in {most_bytes} bytes, and version "
                f"{state.version} has {len(made.files)} in {len(content)} bytes: merge small "
                "files first (ingestion.compactor.compact)"
            )
        figures = {"files": len(made.files), "bytes": sum(each.size_bytes for each in made.files)}
        if made == former:
            reason = f"version {state.version} is listed already"
            return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason, figures=figures)
        held.confirm()
        put(table.store, state.version, content, kept=kept)
    reason = f"version {state.version} is listed with {len(made.files)} files"
    return WriteResult(table.name, state.version, applied=True, changed=False, reason=reason, figures=figures)


@typed
def judge_manifest(table: Table) -> Finding:
    """Judge whether the newest manifest lists the table's newest version, from the log and without Spark.

    Returns:
        ``the_manifest_is_of_the_newest_version``, a warning with both versions.
    """
    state, listed = table.ledger.state(), _former(table.store)
    same_table = listed is not None and listed.table_id == state.table_id
    version = listed.version if listed and same_table else None
    passed, figures = version == state.version, {"table version": state.version, "manifest version": version}
    note = (
        f"readers of the manifest see version {version} of {state.version}"
        if same_table
        else "there is no manifest that can be read"
    )
    return Finding(
        "the_manifest_is_of_the_newest_version",
        passed=passed,
        severity="warn",
        figures=figures,
        note="" if passed else f"{table.name}: {note}: write_manifest makes one",
    )


def _require_bounds(most_files: int, most_bytes: int, kept: int) -> None:
    for name, bound in {"most_files": most_files, "most_bytes": most_bytes, "kept": kept}.items():
        if bound < 1:
            raise ConfigError(f"{name} must be at least 1, not {bound}")


def _listed(table: Table, state: TableState, known: Mapping[str, str], *, checksums: bool) -> ListedFiles:
    files = []
    for file, key in state.keyed_files():
        path = _path(file)
        digest = known.get(path) or (sha256_of(table.store, path) if checksums else "")
        files.append(ListedFile(path, file["size_bytes"], file.get("num_records"), dict(key), digest))
    schema = {"type": "struct", "fields": [*state.columns.values()]}
    return ListedFiles(table.store, sorted(files, key=lambda each: each.path), state.version, state.table_id, schema)


def _path(file: Mapping[str, Any]) -> str:
    return unquote(file["path"])


def _newest(store: Store) -> ListedFiles | None:
    found = newest(store)
    return ListedFiles(store, found.files, found.version, found.table_id, found.schema) if found else None


def _former(store: Store) -> ListedFiles | None:
    """Read the newest manifest; ``None`` also for a damaged one, which is written again."""
    try:
        return _newest(store)
    except ContractError:
        return None
