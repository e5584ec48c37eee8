"""Commits that change no row, written as the Delta protocol defines them: one file, one JSON action per line.

deltalake and Spark write only the commits of their own operations, and to exchange files that were rewritten elsewhere
is none of them. Callers hold the table's lock; a version that exists already is never written over.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.log import TableState
from dedp_assets.patterns.core.records import CommitRecord

__all__ = ["actions", "info", "now_ms", "write"]


def write(location: Path, version: int, content: Iterable[Mapping[str, Any]]) -> None:
    """One commit of the log in ``location``, all of it or nothing.

    Raises:
        Conflict: if somebody else committed that version.
    """
    log = location / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    draft = log / f".{uuid.uuid4().hex}.tmp"
    draft.write_text("".join(json.dumps(action) + "\n" for action in content))
    try:
        (log / f"{version:020d}.json").hardlink_to(draft)
    except FileExistsError:
        raise Conflict(f"{location.name}: another writer committed version {version} first, run it again") from None
    finally:
        draft.unlink()


def actions(location: Path, version: int) -> Iterator[dict[str, Any]]:
    """The actions of a commit; none if there is no such version."""
    commit = location / "_delta_log" / f"{version:020d}.json"
    for line in commit.read_text().splitlines() if commit.exists() else ():
        yield json.loads(line)


def info(record: CommitRecord, operation: str, read: TableState, metrics: Mapping[str, int]) -> dict[str, Any]:
    """The action that says what a maintenance commit did, with our record."""
    return {
        "commitInfo": {
            "timestamp": now_ms(),
            "operation": operation,
            "operationParameters": {},
            "readVersion": read.version,
            "isolationLevel": "SnapshotIsolation",
            "isBlindAppend": False,
            "operationMetrics": {name: str(value) for name, value in metrics.items()},
            "userMetadata": record.to_json(),
        }
    }


def now_ms() -> int:
    """The time a commit states is when it was made, whatever a caller takes for now."""
    return time.time_ns() // 1_000_000
