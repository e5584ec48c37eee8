"""Exports: the files of one version, copied to another place as a closed table with checksums.

An export is a Delta table of one commit, which is put once every file is there: before it there is nothing to read, and
a run after a crash copies what is missing. The protocol of the commit closes the table to all writers. Nothing in it
says when or by whom it was made, so the same version exported again has the same bytes, log included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.moments import log_properties
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.vectors import vector_file
from dedp_assets.patterns.delta.snapshots.closing import protocol_of
from dedp_assets.patterns.delta.snapshots.reading import lies_outside, missing_files
from dedp_assets.patterns.delta.snapshots.tiers import FORMER, TIERED, tiered
from dedp_assets.patterns.delta.storage.store import Store, sha256_of

__all__ = ["Exported", "copy_checked", "damage_of", "export_version", "files_of", "require_apart"]

_SHA, _VECTOR_SHA = "dedp.sha256", "dedp.sha256.vector"
_KEPT: Sequence[str] = (
    *("path", "partitionValues", "size", "modificationTime"),
    *("stats", "deletionVector", "baseRowId", "defaultRowCommitVersion"),
)
"""Fields of add actions that an export keeps."""
_OF_THE_LOG = {"clustering", "domainMetadata"}
"""Features about actions that no export has."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An export.

    Attributes:
        store: its place.
        files: number of data files.
        size_bytes: their size, in bytes.
        rows: their rows, by the log's statistics.
        copied: number of files that this call copied.
        made: whether this call made it, and it was not there.
        sha256: SHA-256 of its commit, which has the SHA-256 of every file.
    """

    store: Store
    files: int
    size_bytes: int
    rows: int
    copied: int
    made: bool
    sha256: str


def export_version(
    ledger: Ledger, version: int, target: Store, *, partition: Mapping[str, str | None] | None = None, content: str = ""
) -> Exported:
    """Copy the files of a version, or of one partition at a version, to an empty place.

    An export is never overwritten.

    Args:
        ledger: the table's.
        version: the version.
        target: the place of the export.
        partition: the partition, in the log's spelling; the whole table if ``None``.
        content: what the export is told apart by instead of the version, where several versions have the same files.

    Raises:
        ConfigError: if the place is in a table or export, or has another one, or a vacuum removed files.
        ContractError: if a file changed while it was copied.
    """
    require_apart(ledger.store, target)
    state = ledger.state(version)
    named = [partition] if partition else []
    adds = sorted(_adds(ledger, state, partition or {}), key=lambda add: add["path"])
    of = {"table": ledger.name, "id": _table_id(state), "version": content or str(version)}
    of["partition"] = json.dumps(partition or {})
    if (found := _present(target, of)) is not None:
        # Files of a copy that another run was about to remove.
        lost = [
            (path, add["tags"][tag])
            for add in found
            if content
            for path, tag in paths_of(add)
            if not target.exists(path)
        ]
        copied = sum(copy_checked(ledger.store, target, path, sha)[1] for path, sha in lost)
        return _described(target, found, copied=copied, made=False)
    if away := [slice_name(part.partition) for part in tiered(state) if part.meets(partition or {})]:
        raise ConfigError(
            f"{ledger.name} cannot be exported at version {version}: {', '.join(away[:3])} of {len(away)} partitions "
            "lie on storage tiers. Bring them back first (cost.storage_tiering.bring_back)"
        )
    if gone := missing_files(ledger.store, state, named):
        raise ConfigError(
            f"{ledger.name} cannot be exported at version {version}: a vacuum removed {len(gone)} of its files. Take a "
            "newer version"
        )
    copied = 0
    for add in adds:
        add["tags"] = {}
        for path, tag in paths_of(add):
            add["tags"][tag], new = copy_checked(ledger.store, target, path)
            copied += new
    try:
        commits.write(target, 0, _content(ledger, state, of, adds))
    except Conflict:  # another run was faster, with the same files
        return _described(target, _present(target, of) or [], copied=copied, made=False)
    return _described(target, adds, copied=copied, made=True)


def require_apart(source: Store, target: Store) -> None:
    """Refuse a place in, around or at a table, or in an export.

    Raises:
        ConfigError: names both.
    """
    ours, theirs = f"{source.address}/", f"{target.address}/"
    if ours.startswith(theirs) or theirs.startswith(ours):
        raise ConfigError(f"an export must lie apart from its table {source.address}, not at {target.address}")
    above = target.above()
    while above.address != above.above().address and above.name:
        if above.exists(f"_delta_log/{0:020d}.json"):
            raise ConfigError(
                f"an export must lie in no table and in no other export, not at {target.address}: "
                f"{above.address} is one"
            )
        above = above.above()


def copy_checked(source: Store, target: Store, path: str, sha256: str = "") -> tuple[str, bool]:
    """Copy a file unless the target has the same bytes; return the SHA-256, and whether bytes were copied.

    Raises:
        ContractError: if the source has other bytes than ``sha256`` says, or another number of them after the copy.
    """
    with suppress(FileNotFoundError):
        if target.entry(path).size_bytes == source.entry(path).size_bytes:
            known = sha256 or sha256_of(source, path)
            if sha256_of(target, path) == known:
                return known, False
    content = source.read(path)
    found = hashlib.sha256(content).hexdigest()
    if sha256 and found != sha256:
        raise ContractError(f"{source.address}: {path} is damaged: its SHA-256 is {found}, not {sha256}")
    target.put(path, content)
    return found, True


def files_of(store: Store) -> list[dict[str, Any]]:
    """Return the add actions of an export, without the marks of exports, and the SHA-256 by path of each.

    Raises:
        ConfigError: if there is no export.
    """
    adds = [action["add"] for action in _actions(store) if "add" in action]
    if any(_SHA not in (add.get("tags") or {}) for add in adds) or not _is_export(store):
        raise ConfigError(f"{store.address} must be an export, not another table or folder")
    return adds


def damage_of(store: Store) -> dict[str, str]:
    """Return the damaged files of an export: path -> damage; every byte is read.

    Raises:
        ConfigError: if there is no export.
    """
    found = {}
    for add in files_of(store):
        for path, tag in paths_of(add):
            try:
                size, sha = store.entry(path).size_bytes, sha256_of(store, path)
            except FileNotFoundError:
                found[path] = "is missing"
                continue
            if path == unquote(add["path"]) and size != add["size"]:
                found[path] = f"has {size} of {add['size']} bytes"
            elif sha != add["tags"][tag]:
                found[path] = f"has other bytes: its SHA-256 is {sha}, not {add['tags'][tag]}"
    return found


def paths_of(add: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List the files of an add action, data and deletion vector, each with the tag of the SHA-256."""
    yield unquote(add["path"]), _SHA
    if vector := vector_file(add):
        yield vector, _VECTOR_SHA


def _adds(ledger: Ledger, state: TableState, partition: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
    """Make the add actions of an export, spelled alike from a commit and from a checkpoint."""
    known = ledger.added_files(state.version)
    for file, key in state.keyed_files():
        path = file["path"]
        if not partition.items() <= dict(key).items():
            continue
        if lies_outside(path):
            raise ConfigError(
                f"{ledger.name} has files outside of its folder ({path}), which no export has: copy its rows"
            )
        if path not in known and ("deletionVectors" in state.features or state.mapped):
            raise ConfigError(
                f"{ledger.name} can no longer be exported at version {state.version}: its log was cleaned up"
            )
        add = known.get(path) or {
            "path": path,
            "size": file["size_bytes"],
            "modificationTime": file["modification_time"],
        }
        held = {name: add[name] for name in _KEPT if add.get(name) is not None}
        yield {**held, "partitionValues": dict(sorted((add.get("partitionValues") or dict(key)).items()))}


def _content(
    ledger: Ledger, state: TableState, of: Mapping[str, str], adds: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Make the actions of the commit, whose time is that of the newest file."""
    at = max((add["modificationTime"] for add in adds), default=0)
    info = {"timestamp": at, "inCommitTimestamp": at, "operation": "EXPORT", "operationParameters": dict(of)}
    yield {"commitInfo": info}
    protocol = protocol_of(state)
    yield {"protocol": {**protocol, "writerFeatures": sorted({*protocol["writerFeatures"]} - _OF_THE_LOG)}}
    metadata = ledger.actions("metaData", until=state.version)[-1]
    without = dict.fromkeys((*log_properties(state, kept=False), TIERED, FORMER))
    configuration = {**(metadata.get("configuration") or {}), **without}
    kept = {name: value for name, value in sorted(configuration.items()) if value is not None}
    stated = {name: value for name, value in metadata.items() if value is not None}
    yield {"metaData": {**dict(sorted(stated.items())), "configuration": kept}}
    for add in adds:
        yield {"add": {**dict(sorted(add.items())), "dataChange": True}}


def _present(target: Store, of: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """Return the add actions of the export at a place; ``None`` for a place without one.

    Raises:
        ConfigError: if another table or export is there.
    """
    if not target.exists(f"_delta_log/{0:020d}.json"):
        return None
    if not _is_export(target, of):
        raise ConfigError(
            f"{target.address} must be free for the export of version {of['version']} of {of['table']}, and another "
            "table or export is there, which is never overwritten: name another place"
        )
    return [action["add"] for action in _actions(target) if "add" in action]


def _is_export(store: Store, of: Mapping[str, str] | None = None) -> bool:
    infos = [action["commitInfo"] for action in _actions(store) if "commitInfo" in action]
    made = [info for info in infos if info.get("operation") == "EXPORT"]
    return any(of is None or info.get("operationParameters") == dict(of) for info in made)


def _actions(store: Store) -> list[dict[str, Any]]:
    try:
        return [*commits.read_actions(store, 0)]
    except ValueError as error:
        raise ContractError(f"{store.address}: the log of the export is damaged ({error}): export it again") from error


def _described(target: Store, adds: list[dict[str, Any]], *, copied: int, made: bool) -> Exported:
    return Exported(
        store=target,
        files=len(adds),
        size_bytes=sum(add["size"] for add in adds),
        rows=sum(json.loads(add.get("stats") or "{}").get("numRecords", 0) for add in adds),
        copied=copied,
        made=made,
        sha256=sha256_of(target, f"_delta_log/{0:020d}.json"),
    )


def _table_id(state: TableState) -> str:
    return str(state.snapshot.metadata().id)
