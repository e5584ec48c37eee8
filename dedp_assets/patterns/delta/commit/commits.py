"""Commits that change no row: one file each, one JSON action per line, by the Delta protocol.

deltalake's ``create_write_transaction`` exchanges files, too. Entries are written here because they need what it does
not do (decision 42): the operation and its metrics in the table's history, paths as the log spells them, a ``.crc``
file beside the version, and files added again of which only the description changes. A version that exists already is
never written over.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.commit.checksums import EMPTY, following
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.storage.store import Store, delta_table, require

__all__ = [
    "PLAIN_PROTOCOL",
    "Operation",
    "commit_actions",
    "declaration",
    "in_commit_time",
    "info",
    "keep_readable",
    "now_ms",
    "read_actions",
    "with_properties",
    "write",
]

_LOG = "_delta_log"
_OF_A_VERSION = re.compile(r"(\d{20})\.(json|crc)")
_CHECKPOINT_INTERVAL = 10
PLAIN_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
"""What every reader and writer of Delta knows."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Delta's name, parameters and metrics of a commit's operation, for the table's history."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)


def commit_actions(
    store: Store,
    before: TableState | None,
    content: Iterable[Mapping[str, Any]] = (),
    *,
    record: CommitRecord | str,
    operation: Operation,
    transactions: Mapping[str, int] | None = None,
    appends: bool = False,
    described_again: Sequence[Mapping[str, Any]] = (),
) -> int:
    """Commit actions of the Delta protocol as the version after ``before``; return the new version.

    The one way into a table's log for code outside of this package.

    Args:
        store: the table's.
        before: the table as the caller saw it; ``None`` if there is none yet.
        content: the actions, in the protocol's words.
        record: the library's record, or a note; stored as the commit's user metadata.
        operation: what the table's history says of the commit.
        transactions: transaction id -> version to move it to.
        appends: whether nothing was read that another writer could have changed.
        described_again: actions that add files of ``before`` again, with another description, as for :func:`write`.

    Raises:
        Conflict: if another writer committed meanwhile.
        ConfigError: if the store cannot tell that somebody did.
    """
    commit_info = info(record, operation.name, before, operation.metrics, operation.parameters, appends=appends)
    commit_info["commitInfo"].update(in_commit_time(store, before))
    now = now_ms()
    moved = [
        {"txn": {"appId": app_id, "version": to, "lastUpdated": now}} for app_id, to in (transactions or {}).items()
    ]
    version = before.version + 1 if before else 0
    write(store, version, [commit_info, *moved, *content], described_again=described_again)
    if before:
        keep_readable(store, before)
    return version


def write(
    store: Store,
    version: int,
    content: Iterable[Mapping[str, Any]],
    *,
    described_again: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write one commit to the log in ``store`` atomically, with a version checksum where possible.

    Args:
        store: the table's.
        version: the version that the commit makes.
        content: its actions.
        described_again: further ones, which add files that the table has already: only what the log says of them
            changes, and a checksum counts them once.

    Raises:
        Conflict: if somebody else committed that version.
        ConfigError: if the store cannot tell that somebody did.
    """
    require(store, "put_if_absent")
    log, content = store.within(_LOG), list(content)
    try:
        _put_if_absent(log, f"{version:020d}.json", [*content, *described_again])
    except FileExistsError:
        raise Conflict(
            f"{store.name}: another writer changed the table first, version {version} is theirs: run it again"
        ) from None
    # The commit stands without its checksum, too.
    with suppress(OSError):
        before = _checksum(log, version - 1) if version else EMPTY
        if before is not None and (checksum := following(before, content)):
            _put_if_absent(log, f"{version:020d}.crc", [checksum])


def _put_if_absent(log: Store, name: str, lines: Iterable[Mapping[str, Any]]) -> None:
    # Characters as they are: not every reader of logs decodes an escaped pair of surrogates.
    log.put_if_absent(name, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())


def _checksum(log: Store, version: int) -> Mapping[str, Any] | None:
    """Read the checksum file of a version; ``None`` if missing or unreadable."""
    with suppress(OSError, ValueError):
        checksum = json.loads(log.read(f"{version:020d}.crc"))
        return checksum if isinstance(checksum, dict) else None
    return None


def read_actions(store: Store, version: int) -> Iterator[dict[str, Any]]:
    """Read the actions of a commit; empty if the version does not exist."""
    log, commit = store.within(_LOG), f"{version:020d}.json"
    # Bytes, because a line of text may end where the protocol knows no end.
    for line in log.read(commit).splitlines() if log.exists(commit) else ():
        yield json.loads(line)


def info(
    record: CommitRecord | str,
    operation: str,
    read: TableState | None,
    metrics: Mapping[str, int],
    parameters: Mapping[str, str] | None = None,
    *,
    appends: bool = False,
) -> dict[str, Any]:
    """Build the ``commitInfo`` action of a commit, with a record or a note as user metadata.

    Args:
        record: the library's record, or a note.
        operation: Delta's name of what was done.
        read: the table as the writer saw it; ``None`` if there was none.
        metrics: Delta's figures of the operation.
        parameters: Delta's parameters of the operation.
        appends: whether nothing was read that another writer could have changed.
    """
    return {
        "commitInfo": {
            "timestamp": now_ms(),
            "operation": operation,
            "operationParameters": dict(parameters or {}),
            **({"readVersion": read.version} if read else {}),
            "isolationLevel": "Serializable" if operation == "WRITE" else "SnapshotIsolation",
            "isBlindAppend": appends,
            "operationMetrics": {name: str(value) for name, value in metrics.items()},
            "userMetadata": record if isinstance(record, str) else record.to_json(),
        }
    }


def in_commit_time(store: Store, before: TableState | None) -> dict[str, int]:
    """Return the ``inCommitTimestamp`` of the next commit; empty for a table without the feature.

    The protocol wants each to be later than the one before, whatever the machine's clock says.
    """
    if before is None or before.properties.get("delta.enableInCommitTimestamps", "").lower() != "true":
        return {}
    infos = [action["commitInfo"] for action in read_actions(store, before.version) if action.get("commitInfo")]
    return {"inCommitTimestamp": max(now_ms(), *(int(each.get("inCommitTimestamp") or 0) + 1 for each in infos))}


def keep_readable(store: Store, before: TableState) -> None:
    """Write a checkpoint at the table's checkpoint interval, and remove expired log entries."""
    every = int(before.properties.get("delta.checkpointInterval") or _CHECKPOINT_INTERVAL)
    if (before.version + 1) % every:
        return
    # The commit stands whatever happens here; what was not done is done after the next interval.
    with suppress(DeltaError, OSError):
        table = delta_table(store, before.version + 1)
        table.create_checkpoint()
        if before.properties.get("delta.enableExpiredLogCleanup", "true").lower() == "true":
            table.cleanup_metadata()
            _remove_checksums_alone(store.within(_LOG))


def _remove_checksums_alone(log: Store) -> None:
    """Remove the checksum files older than the oldest commit, left by deltalake's log cleanup."""
    named = [(found[1], found[2], name) for name in log.list() if (found := _OF_A_VERSION.fullmatch(name))]
    oldest = min(version for version, kind, _ in named if kind == "json")
    for version, kind, name in named:
        if kind == "crc" and version < oldest:
            log.delete(name)


def declaration(
    schema: str,
    partition_by: Sequence[str],
    *,
    configuration: Mapping[str, str] | None = None,
    protocol: Mapping[str, Any] = PLAIN_PROTOCOL,
) -> Iterator[dict[str, Any]]:
    """Build the first actions of a table: protocol and metadata.

    Args:
        schema: Spark's JSON of the table's schema.
        partition_by: partition columns in order.
        configuration: table properties.
        protocol: what readers and writers have to know.
    """
    yield {"protocol": dict(protocol)}
    yield {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": list(partition_by),
            "configuration": dict(configuration or {}),
        }
    }


def with_properties(ledger: Ledger, state: TableState, properties: Mapping[str, str | None]) -> dict[str, Any]:
    """Build the metadata action of changed table properties; ``None`` removes a property."""
    metadata = ledger.actions("metaData", until=state.version)[-1]
    both = {**(metadata.get("configuration") or {}), **properties}
    return {"metaData": {**metadata, "configuration": {name: v for name, v in both.items() if v is not None}}}


def now_ms() -> int:
    """Return the machine's time in ms since 1970, for the timestamps of commits.

    A commit states when it was made, whatever time its caller takes for now.
    """
    return time.time_ns() // 1_000_000
