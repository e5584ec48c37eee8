"""Exposure: the version shown by a table, switched in one commit that moves no row.

The log of the shown table names the files of one version. A switch is one commit of it: the files of the former version
out, those of the next one in, with that one's columns. Every engine reads the table as any other, and whoever opened it
before keeps what it opened. The log is the history of all switches: who, when, from, to and why.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import Finding, RowCounts, Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead
from dedp_assets.patterns.delta.commit import idempotency
from dedp_assets.patterns.delta.commit.commits import Operation, commit_actions, now_ms
from dedp_assets.patterns.delta.commit.file_exchange import shared_fields
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.transactions import Cursor, generation_id, transaction_id
from dedp_assets.patterns.delta.snapshots.closing import protocol_of
from dedp_assets.patterns.delta.snapshots.lost_files import lost_files
from dedp_assets.patterns.delta.storage.coordination import table_lock
from dedp_assets.patterns.delta.tables import Table
from dedp_assets.patterns.delta.versions.version_tables import (
    Content,
    close,
    content_of,
    folder_of,
    load_of,
    names,
    new_version,
    require_closable,
    version_of,
)

__all__ = ["Exposure", "expired", "expose", "exposures", "load"]

_KEPT = {"delta.deletedFileRetentionDuration": "interval 36500 days", "delta.enableExpiredLogCleanup": "false"}
"""Properties of the shown table: it is no vacuum's to remove former versions, and no clean-up's to forget them."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """One switch of a table to a version.

    Attributes:
        version: name of the version that it shows since then.
        instead_of: name of the one before; empty for the first.
        at: when the table was switched.
        number: version of the shown table's own log.
        record: who switched and why, and how the version's rows were made.
    """

    version: str
    instead_of: str
    at: datetime
    number: int
    record: CommitRecord


def exposures(target: Table) -> Iterator[Exposure]:
    """List the switches of a table, newest first."""
    for commit in target.ledger.newest_first():
        if commit.record and (shown := commit.record.notes.get("exposes")):
            former = commit.record.notes["instead_of"]
            yield Exposure(shown, former, commit.timestamp, commit.version, commit.record)


def expired(target: Table) -> set[str]:
    """List the versions that were removed."""
    records = (commit.maintenance for commit in target.ledger.newest_first())
    return {name for record in records if record for name in record.notes.get("expired", ())}


def load(
    rows: DataFrame | Split,
    target: Table,
    *,
    provenance: Provenance,
    audits: Sequence[Audit] = (),
    rows_read: RowsRead = RowsRead(),  # noqa: B008 - frozen
) -> WriteResult:
    """Write a version of ``target`` and show the version, unless an audit refuses the rows.

    What a killed run loaded and did not show is shown by its retry, which loads nothing.

    Raises:
        AuditFailed: if a rule refuses the rows; the table shows the former version.
        ConfigError: if the table holds rows of its own, or only Spark can write it as it is declared.
        Conflict: if a newer upstream version is shown already, so that this run's rows are stale.
    """
    name = _loaded(target, provenance)
    if not name:
        version = new_version(target, provenance)
        require_closable(version.name, version.ensure())
        version.stage(rows, provenance=provenance, audits=audits, rows_read=rows_read).publish()
        name = version.store.name
    return expose(target, name, provenance=provenance)


def expose(target: Table, name: str, *, provenance: Provenance, because: str = "") -> WriteResult:
    """Switch ``target`` to the version ``name``.

    Args:
        target: the table that readers know.
        name: a version that was loaded to the end.
        provenance: who switches.
        because: why a person chose the version; what it takes the place of may then be loaded again. Empty for the
            switch that belongs to a load, which never takes the place of a newer one.

    Raises:
        NotReady: if there is no such version, or it was not loaded to the end.
        ContractError: if files of it are lost.
        Conflict: if a newer upstream version is shown already.
    """
    with table_lock(target.store):
        version, content = _standing(target, name)
        state = target.ledger.state() if target.ledger.exists() else None
        former = next(exposures(target), None)
        if state and former and former.version == name:
            reason = f"shows {name} already, since version {former.number}: nothing to do"
            return _result(target, former.record, state.version, reason)
        record = _record(content.load, provenance, name, former, because)
        moved, changed = _transactions(target, state, record, because)
        actions = [
            *_declared(state, version.ledger.state(), content.metadata),
            *_removed(state, now_ms(), changed=changed),
            *(
                {"add": {**add, "path": f"{folder_of(target)}/{name}/{add['path']}", "dataChange": changed}}
                for add in content.files
            ),
        ]
        written = Operation("WRITE", {"mode": "Overwrite"}, _metrics(content))
        number = commit_actions(target.store, state, actions, record=record, operation=written, transactions=moved)
    instead = f" instead of {former.version}" if former else ""
    reason = f"{record.rows.get('written', 0)} rows shown as {name}{instead}"
    return replace(_result(target, record, number, reason), applied=True, changed=changed)


def _standing(target: Table, name: str) -> tuple[Table, Content]:
    """Open a completely loaded, unexpired version, and close the version to writers."""
    version = version_of(target, name)
    if name in expired(target):
        raise NotReady(f"{version.name} is expired: name a version that stands")
    content = content_of(version)
    close(version)
    return version, content


def _loaded(target: Table, provenance: Provenance) -> str:
    """Return the name of the version that the same write loaded before; empty if none."""
    if provenance.replay or not (provenance.inputs or provenance.sequence is not None):
        return ""
    shown, gone = {exposure.version for exposure in exposures(target)}, expired(target)
    for version in (version_of(target, name) for name in names(target) if name not in gone):
        made, name = load_of(version), version.store.name
        own = made and _is_same(made, provenance) and (name not in shown or made.run_id == provenance.run_id)
        if own and not lost_files(version.store, version.ledger.state()):
            return name
    return ""


def _is_same(made: CommitRecord, provenance: Provenance) -> bool:
    """Return whether a write was made by the same code from the same inputs."""
    ours = CommitRecord.of(provenance, content="")
    return (made.inputs, made.code_version, made.sequence) == (ours.inputs, ours.code_version, ours.sequence)


def _record(
    made: CommitRecord, provenance: Provenance, name: str, former: Exposure | None, because: str
) -> CommitRecord:
    """Build the commit record of a switch, from the record of the version's load."""
    ours = CommitRecord.of(provenance, content=made.fingerprint)
    why = {"because": because} if because else {}
    notes = {**made.notes, **why, "exposes": name, "instead_of": former.version if former else ""}
    return replace(made, run_id=ours.run_id, cause=ours.cause, at=ours.at, replay=ours.replay, notes=notes)


def _transactions(
    target: Table, state: TableState | None, record: CommitRecord, because: str
) -> tuple[dict[str, int], bool]:
    """Return the transaction ids to commit with a switch, and the switch's ``dataChange`` flag."""
    if state and not because:
        lost = bool(lost_files(target.store, state))
        decision = idempotency.decide(target.ledger, state, record, lost=lost)
        moved = {} if decision.applied else {decision.app_id: decision.sequence}
        return moved, not (decision.applied or decision.same_rows or decision.repair)
    generation = state.generation(target.name) + 1 if state else 0
    kind: Cursor = "runs" if record.sequence is None else ""
    moved = {transaction_id(target.name, {}, generation, kind): 1 if record.sequence is None else record.sequence}
    return {**moved, **({generation_id(target.name): generation} if generation else {})}, True


def _declared(
    shown: TableState | None, version: TableState, metadata: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """List the protocol and metadata actions of a switch, where the table differs from the version."""
    settings = {k: v for k, v in metadata["configuration"].items() if k != "delta.appendOnly"}
    configuration = {**settings, **_KEPT}
    protocol = protocol_of(version, *([shown] if shown else []))
    if shown is None or dict(shown.protocol) != protocol:
        yield {"protocol": protocol}
    same = shown and (shown.partition_columns, dict(shown.properties)) == (version.partition_columns, configuration)
    if shown is None or not same or list(shown.columns.items()) != list(version.columns.items()):
        own = shown.snapshot.metadata().id if shown else str(uuid.uuid4())
        yield {"metaData": {**metadata, "id": own, "configuration": configuration}}


def _removed(shown: TableState | None, now: int, *, changed: bool) -> Iterator[Mapping[str, Any]]:
    for file, key in shown.keyed_files() if shown else ():
        gone = {"deletionTimestamp": now, "extendedFileMetadata": True, "dataChange": changed}
        yield {"remove": {**shared_fields(file, key), **gone}}


def _metrics(content: Content) -> dict[str, int]:
    size = sum(file["size"] for file in content.files)
    rows = int(content.load.rows.get("written", 0))
    return {"numFiles": len(content.files), "numOutputRows": rows, "numOutputBytes": size}


def _result(target: Table, record: CommitRecord, version: int, reason: str) -> WriteResult:
    return WriteResult(
        table=target.name,
        version=version,
        applied=False,
        changed=False,
        reason=reason,
        rows=RowCounts(**record.rows),
        findings=tuple(Finding(**stored) for stored in record.findings),
        figures=record.figures,
    )
