"""Passthrough Replicator: another environment gets the same bytes, names, times and versions.

Problem: a dataset cannot be built again elsewhere, because its source answers differently at each call.
Solution: copy what was built, uninterpreted: a table with its log up to a pinned version, a folder with its layout, a
    topic with keys, headers and order (`copy_topic`). A copy is verified beside the replica that readers use, then
    swapped in by one rename, or in a bucket put version by version. The source is asked once (`keep_answer`).
Consequences: the replica follows deletions, too, and is read-only: what others write to it is gone with the next copy.
    The owner of the data pushes it: who runs this reads the source and writes the target, never the other way round.
Choose instead: Transformation Replicator, if anything in it may not leave its environment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from dedp_assets.patterns.core.errors import SchemaMismatch
from dedp_assets.patterns.core.leaving import is_export, require_may_leave
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import LocalStore, Table, Target, folder_at
from dedp_assets.patterns.ingestion._replica_bucket import copy_to_bucket
from dedp_assets.patterns.ingestion._replica_contents import folder_contents, readable, table_contents
from dedp_assets.patterns.ingestion._replica_files import CopyRate, copy_replica

__all__ = ["replicate_table", "replicate_files", "declare_replica"]

_PATTERN = "ingestion.passthrough_replicator"


@demanding(replaces="table")
@typed
def replicate_table(
    source: Table,
    into: Target,
    *,
    version: int | None = None,
    may_hold_personal: bool = False,
    bytes_per_second: float | None = None,
    files_at_once: int = 1,
) -> WriteResult:
    """Copy a pinned version of ``source`` to a replica: log, history and files, without Spark.

    Commits that come meanwhile are left for the next copy. An unchanged source copies nothing, a changed one only its
    new files.

    Args:
        source: the table to replicate.
        into: target of the write: the replica; readers see the former version of it or the new one.
        version: version to replicate; the newest one now, if ``None``.
        may_hold_personal: whether the target's environment may hold personal data.
        bytes_per_second: most bytes to copy per second, to spare both environments.
        files_at_once: most files to copy at the same time.

    Raises:
        ConfigError: if the source declares personal columns that the target may not hold or may not be read by who runs
            this, or the target is no replica.
        SchemaMismatch: if any version has columns nobody declared, which may be personal.
        AuditFailed: if the copy is not what was read; the former replica stays.
        Conflict: if the replica shows a newer version already, or files were cleaned up meanwhile: run it again.

    Example:
        >>> devices = table("bronze/devices", "id INT, name STRING", (1, "phone"), (2, "tablet"))
        >>> replica = table(declare_replica(devices.spec, name="staging/devices"))
        >>> _ = replicate_table(devices, replica.target(run))
        >>> rows(replica)
        [(1, 'phone'), (2, 'tablet')]
    """
    into = into.by(_PATTERN)
    _require_allowed(source.spec, into.name, may_hold_personal=may_hold_personal)
    with readable(source.name, source.store):
        pinned = source.ledger.version() if version is None else version
    contents = table_contents(source.ledger, pinned)
    if not may_hold_personal:
        _require_declared(source.spec, contents.columns)
    store, limit = into.table.store, CopyRate(bytes_per_second, files_at_once)
    if isinstance(store, LocalStore):
        return copy_replica(contents, store, name=into.name, provenance=into.run, limit=limit)
    return copy_to_bucket(contents, store, name=into.name, provenance=into.run, limit=limit)


@typed
def replicate_files(
    source: Path,
    target: Path,
    run: Provenance,
    *,
    declared: TableSpec,
    name: str,
    may_hold_personal: bool = False,
    bytes_per_second: float | None = None,
    files_at_once: int = 1,
) -> WriteResult:
    """Mirror the folder ``source`` in ``target``: same names, layout, times and bytes.

    Args:
        source: folder of files; nothing in it is interpreted.
        target: the replica's folder.
        run: who replicates, and why.
        declared: what the files hold, by name and columns.
        name: what the replica is called.
        may_hold_personal: whether the target's environment may hold personal data.
        bytes_per_second: most bytes to copy per second.
        files_at_once: most files to copy at the same time.

    Raises:
        NotReady: if the source holds no file; an empty source is usually a broken one.
        ConfigError: as :func:`replicate_table`, and for a folder with links in it.
        Conflict: if the folder changed while it was copied: run it again.
    """
    _require_allowed(declared, name, may_hold_personal=may_hold_personal)
    contents = folder_contents(folder_at(source), name=declared.name)
    return copy_replica(
        contents,
        folder_at(target),
        name=name,
        provenance=run.by(_PATTERN),
        limit=CopyRate(bytes_per_second, files_at_once),
    )


@typed
def declare_replica(source: TableSpec, *, name: str, may_hold_personal: bool = False) -> TableSpec:
    """Return a replica's declaration; refuse a replica with personal data where not allowed.

    Args:
        source: what the source declares.
        name: ``layer/dataset`` of the replica.
        may_hold_personal: whether the replica's environment may hold personal data.

    Raises:
        ConfigError: if the source declares personal columns and the replica may not hold them, or a column has no
            class.
    """
    _require_allowed(source, name, may_hold_personal=may_hold_personal)
    return replace(source, name=name)


def _require_allowed(source: TableSpec, target: str, *, may_hold_personal: bool) -> None:
    require_may_leave(
        source.name,
        source.columns,
        "export" if is_export(target) else "replica",
        to=target,
        may_hold_personal=may_hold_personal,
        instead="use transformation_replicator, which leaves them out",
    )


def _require_declared(source: TableSpec, stored: Collection[str]) -> None:
    if unknown := sorted(set(stored) - set(source.columns)):
        raise SchemaMismatch(
            f"{source.name} has, or once had, columns {unknown} that its declaration does not know, so nobody has said "
            "whether they are personal: declare them, or use transformation_replicator"
        )
