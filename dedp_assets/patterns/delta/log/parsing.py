"""Parsers of commits, in the Delta protocol's format of one JSON action per line."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.log.commit_info import EXPIRED, NOTHING, Commit, Glimpse, restored_version
from dedp_assets.patterns.delta.log.partition_values import JSON, Naming, Partition, named_all
from dedp_assets.patterns.delta.log.vectors import vector_file

__all__ = [
    "MAINTENANCE", "actions_of", "pairs_of", "parse_commit", "parse_glimpse", "take_changes", "transactions_in",
]  # fmt: skip


_NO_FILE = re.compile(rb'[{] *"(?:commitInfo|txn|protocol|metaData|domainMetadata)" *:.*[}]')


_ROWS = {"add", "remove"}


_FILES = _ROWS | {"cdc"}


MAINTENANCE = {
    "COMPUTE STATS", "EXPIRE PARTITIONS", "HOLD PARTITIONS", "KEEP VERSIONS", "MOVE PARTITIONS", "OPTIMIZE",
    "PURGE START", "PURGE END", "VACUUM START", "VACUUM END",
}  # fmt: skip
"""Operations that change no row, whatever their record says."""


_MAY_EXPIRE = f'\\"{EXPIRED}\\"'.encode()
"""Key of the note, within the text of a record that is a text of JSON."""


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _File(NamedTuple):
    """A data file of a commit; ``changed`` holds partition values if the commit changed rows."""

    kind: str
    path: str
    rows: int
    size: int
    changed: Partition | None
    vector: str


def _files(action: Mapping[str, Any]) -> Iterator[_File]:
    for kind, file in action.items():
        if kind in _FILES and file:
            rows = json.loads(file.get("stats") or "{}").get("numRecords", 0) if kind == "add" else 0
            changes = kind != "cdc" and file.get("dataChange", True)
            size = file.get("size") or 0
            yield _File(kind, file["path"], rows, size, _values(file) if changes else None, vector_file(file))


def take_changes(
    found: dict[Partition, int], version: int, raw: bytes, naming: Callable[[], Naming], *, expired: bool
) -> None:
    """Note the partitions whose rows a commit changed, parsing file actions only.

    Args:
        found: partition -> version of the last change.
        version: version of the commit.
        raw: the commit.
        naming: names and types of the partition columns.
        expired: whether a removal by age is a change; otherwise the partition is forgotten.
    """
    named = [line for line in _lines(raw) if not _NO_FILE.fullmatch(line)]
    changed = named_all({file.changed for action in _actions(named) for file in _files(action)}, naming)
    if not expired and _MAY_EXPIRE in raw and any(map(_expires, _infos(raw))):
        for key in changed:
            found.pop(key, None)
    else:
        found |= dict.fromkeys(changed, version)


def _infos(raw: bytes) -> list[Mapping[str, Any]]:
    return [action.get("commitInfo") or NOTHING for action in _actions(_lines(raw))]


def _expires(info: Mapping[str, Any]) -> bool:
    """Return whether the ``commitInfo`` is of a commit that removed partitions by age."""
    metadata = info.get("userMetadata") or ""
    record = CommitRecord.from_json(metadata) if f'"{EXPIRED}"' in metadata else None
    return record is not None and EXPIRED in record.notes


def transactions_in(raw: bytes) -> dict[str, int]:
    """Return the transaction ids and versions in the ``txn`` actions of a commit file."""
    named = [line for line in _lines(raw) if b'"txn"' in line]
    moved = [action["txn"] for action in _actions(named) if "txn" in action]
    return {txn["appId"]: txn["version"] for txn in moved}


def _values(file: Mapping[str, Any]) -> Partition:
    values = file.get("partitionValues")
    if not values:
        return ()
    return tuple(values.items()) if len(values) == 1 else tuple(sorted(values.items()))


def parse_glimpse(version: int, raw: bytes, naming: Callable[[], Naming], *, records: bool) -> Glimpse:
    """Parse the lines of a commit into a summary."""
    actions = [pair for action in _actions(_lines(raw)) for pair in action.items()]
    details: Mapping[str, Any] = next((of for kind, of in actions if kind == "commitInfo" and of), NOTHING)
    moved = {of["appId"]: of["version"] for kind, of in actions if kind == "txn"}
    files = [of for kind, of in actions if kind in _ROWS]
    changed = named_all({_values(of) for of in files if of["path"] and of.get("dataChange", True)}, naming)
    fields = _stated(details) if records else NOTHING
    if details.get("operation") == "RESTORE":
        restored = restored_version(details.get("operationParameters") or {})
        return Glimpse(version, changed, moved, restores=True, restored_to=restored, stated=fields)
    if _expires(details):
        return Glimpse(version, frozenset(), moved, stated=fields, expired=changed)
    return Glimpse(version, changed, moved, stated=fields)


def _stated(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the commit record of a write, by field; empty for a commit without a record."""
    metadata = (details.get("userMetadata") or "").strip()
    try:
        record, end = JSON.raw_decode(metadata)
    except ValueError:
        return {}
    ours = end == len(metadata) and isinstance(record, dict) and record.get("dedp") == 1
    return record if ours and details.get("operation") not in MAINTENANCE else {}


def _lines(raw: bytes) -> list[bytes]:
    if not raw or raw.isspace():
        raise ValueError("it is empty")
    return [line for line in raw.splitlines() if line]


def _actions(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Parse the lines of a commit in one JSON call.

    Logs may have thousands of short commits.
    """
    text = f"[{b','.join(lines).decode()}]"
    found: list[dict[str, Any]]
    found, end = JSON.raw_decode(text)  # loads() looks for white space at both ends, which takes a third of it
    if len(found) != len(lines) or end != len(text):
        raise ValueError("a line of it is no action")
    return found


def pairs_of(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    """List the actions of a commit by kind, for a reader that notices damage in file actions."""
    return [pair for action in _actions(_lines(raw)) for pair in action.items()]


def actions_of(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    """List the actions of a commit by kind, after a check of the file actions for damage."""
    actions = _actions(_lines(raw))
    deque((file for action in actions for file in _files(action)), maxlen=0)
    return [pair for action in actions for pair in action.items()]


def parse_commit(version: int, raw: bytes, naming: Callable[[], Naming]) -> Commit:
    """Parse the lines of a commit into a full :class:`Commit`."""
    info: dict[str, Any] = {}
    files: list[_File] = []
    transactions: dict[str, int] = {}
    for action in _actions(_lines(raw)):
        info = action.get("commitInfo") or info
        if txn := action.get("txn"):
            transactions[txn["appId"]] = txn["version"]
        files += _files(action)
    record = CommitRecord.from_json(info.get("userMetadata"))
    maintained = info.get("operation") in MAINTENANCE
    added = [file for file in files if file.kind == "add"]
    return Commit(
        version=version,
        timestamp=_EPOCH + timedelta(milliseconds=info.get("inCommitTimestamp") or info.get("timestamp") or 0),
        operation=info.get("operation", ""),
        record=None if maintained else record,
        maintenance=record if maintained else None,
        note="" if record else info.get("userMetadata") or "",
        transactions=transactions,
        changed=named_all({file.changed for file in files}, naming),
        files_added=tuple([file.path for file in added]),
        files_past=tuple([path for f in files if f.kind != "add" for path in (f.path, f.vector) if path]),
        rows_added=sum(file.rows for file in added),
        bytes_added=sum(file.size for file in added),
        metrics=info.get("operationMetrics") or {},
        parameters=info.get("operationParameters") or {},
    )
