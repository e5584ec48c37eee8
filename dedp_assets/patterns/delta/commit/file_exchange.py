"""Metadata-only commits: files removed and added, with transaction id and commit record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from deltalake.transaction import AddAction
from pyspark.sql import SparkSession

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.commit.commits import Operation, commit_actions, now_ms
from dedp_assets.patterns.delta.commit.idempotency import Decision
from dedp_assets.patterns.delta.commit.spark_writer import counted
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.transactions import generation_id
from dedp_assets.patterns.delta.snapshots.definition import require_replaceable
from dedp_assets.patterns.delta.snapshots.lost_files import require_files
from dedp_assets.patterns.delta.snapshots.reading import lies_outside
from dedp_assets.patterns.delta.snapshots.tiers import require_in_place
from dedp_assets.patterns.delta.storage.store import Store

__all__ = [
    "StoredFile",
    "add_action",
    "exchange_files",
    "file_actions",
    "only_spark_changes",
    "raise_generation",
    "require_staged",
    "serves",
    "shared_fields",
    "unserved",
]


_COMPUTED = re.compile(r"delta\.generationExpression|__CHAR_VARCHAR_TYPE_STRING\W+char\(")


_SERVED = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "clustering",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "variantType",
}


@dataclass
class StoredFile(AddAction):
    """A file of an earlier version or of the newest one, to be added again.

    Attributes:
        further: fields of the add action besides those of a staged file: deletion vector and tags.
    """

    further: Mapping[str, Any] = field(default_factory=dict)


def serves(state: TableState) -> bool:
    """Return whether the metadata-only transaction can serve the table; otherwise Spark's writer commits."""
    return not unserved(state)


def unserved(state: TableState) -> list[str]:
    """List the features of the table that only Spark's writer serves, by the protocol's names."""
    mapped = {"columnMapping"} if state.mapped else set()
    counted_here = {"identityColumns"} if state.identities else set()
    unknown = {"deletionVectors"} if state.marked is None else set()
    return sorted(mapped | counted_here | unknown | (state.features - _SERVED))


def only_spark_changes(state: TableState) -> str:
    """Name the table feature that reserves row changes for Delta's own statements; empty if none."""
    if not serves(state):
        return f"features that only Spark writes ({', '.join(unserved(state))})"
    if state.properties.get("delta.enableChangeDataFeed", "false").lower() == "true":
        return "a change feed"
    if _COMPUTED.search(json.dumps(list(state.columns.values()))):
        return "columns whose values Spark computes or pads"
    if any(lies_outside(file["path"]) for file in state.files()):
        return "files outside of its folder"
    return ""


def require_staged(store: Store, adds: Iterable[AddAction]) -> None:
    """Check existence and size of the files that a commit is about to add.

    The caller holds the table's lock.

    Raises:
        FilesGone: if one is not there, or is cut short.
    """
    require_files(store, [(unquote(add.path), add.size) for add in adds])


def exchange_files(
    store: Store,
    state: TableState,
    adds: Iterable[AddAction],
    gone: Iterable[tuple[Mapping[str, Any], Partition]],
    *,
    record: CommitRecord,
    decision: Decision,
    operation: Operation,
    data_change: bool = True,
) -> None:
    """Commit removed and added files with transaction id and record, as the version after ``state``.

    Args:
        store: the table's.
        state: the table as it was when the write was decided on.
        adds: files that become part of the table, with paths as the log writes them.
        gone: files of ``state`` that stop being part of it, as :meth:`TableState.keyed_files` gives them.
        record: goes into the commit as its user metadata.
        decision: transaction id and version.
        operation: what the table's history says of the commit.
        data_change: whether readers of changes have to look at what goes and what comes.

    Raises:
        Conflict: if another writer committed meanwhile, or files to add are gone (:class:`FilesGone`).
        ConfigError: if rows would be taken from a table that only takes appends.
    """
    adds, removed = list(adds), list(gone)
    require_staged(store, adds)
    if removed:
        require_replaceable(store.name, state)
    require_in_place(store.name, state, *(add.partition_values for add in adds))
    content = file_actions(adds, removed, data_change=data_change)
    commit_actions(
        store,
        state,
        content,
        record=record,
        operation=operation,
        transactions={decision.app_id: decision.sequence},
        appends=not removed,
    )


def file_actions(
    adds: Iterable[AddAction], gone: Iterable[tuple[Mapping[str, Any], Partition]], *, data_change: bool
) -> list[dict[str, Any]]:
    """Build the actions that remove and add files; arguments as for :func:`exchange_files`."""
    now, content = now_ms(), list[dict[str, Any]]()
    for file, key in gone:
        gone_since = {"deletionTimestamp": now, "extendedFileMetadata": True, "dataChange": data_change}
        content.append({"remove": {**shared_fields(file, key), **gone_since}})
    return [*content, *({"add": add_action(add, data_change=data_change)} for add in adds)]


def shared_fields(file: Mapping[str, Any], key: Partition) -> dict[str, Any]:
    """Return the fields of an active file that add and remove actions share."""
    found = {"path": file["path"], "partitionValues": dict(key), "size": file["size_bytes"]}
    return {**found, **({"deletionVector": file["deletionVector"]} if "deletionVector" in file else {})}


def add_action(add: AddAction, *, data_change: bool) -> dict[str, Any]:
    """Return the add action of a file in the log's words."""
    file = {"path": add.path, "partitionValues": dict(add.partition_values), "size": add.size}
    found = {**file, "modificationTime": add.modification_time, "dataChange": data_change, "stats": add.stats}
    return {**found, **add.further} if isinstance(add, StoredFile) else found


def raise_generation(ledger: Ledger, session: Callable[[], SparkSession] | None = None) -> None:
    """Start a new generation of transaction ids; upstream versions can be applied again."""
    app_id, state = generation_id(ledger.name), ledger.state()
    version = (state.transaction(app_id) or 0) + 1
    if session is None or serves(state):
        moved = {app_id: version}
        commit_actions(
            ledger.store, state, record="new generation", operation=Operation("WRITE"), transactions=moved, appends=True
        )
    else:
        nothing = session().read.format("delta").load(ledger.store.address).limit(0).drop(*counted(state))
        writer = nothing.write.format("delta").mode("append").option("userMetadata", "new generation")
        writer.option("txnAppId", app_id).option("txnVersion", version).save(ledger.store.address)
