"""Rows that a commit brought, the time of the commit, and the newest event in the commit's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.core.types.partitions import text

__all__ = ["NO_EVENT", "brought_rows", "event_instant", "newest_event", "spelled_event", "time_of"]

NO_EVENT = ""
"""Newest event of a file in which no row has an event time; sorts before every time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# Metrics of operations by the names of Spark and of delta-rs.
_INSERTED = ("numTargetRowsInserted", "num_target_rows_inserted")
_UPDATED = ("numTargetRowsUpdated", "num_target_rows_updated")
_OUTPUT = ("numOutputRows", "num_added_rows")
_COPIED = ("numCopiedRows", "num_copied_rows")


def time_of(info: Mapping[str, Any], files: Sequence[Mapping[str, Any]]) -> datetime:
    """Return the time of a commit; for a commit without a stated time, the newest time of the files."""
    stated = info.get("inCommitTimestamp") or info.get("timestamp")
    if not stated:
        stated = max([each.get("modificationTime") or each.get("deletionTimestamp") or 0 for each in files], default=0)
    return _EPOCH + timedelta(milliseconds=stated)


def brought_rows(
    info: Mapping[str, Any], record: CommitRecord | None, rows: Sequence[int | None], *, rewrites: bool
) -> int:
    """Count the rows that a commit brought, without copied rows.

    An update that a MERGE takes from its source counts: a feed of changes is alive without a new key. UPDATE has no
    source, and DELETE brings nothing.

    Args:
        info: the commit's ``commitInfo``.
        record: the commit's record, if it is of the library.
        rows: rows of the added files; a file without statistics holds at least one.
        rewrites: whether the commit removed files, whose rows it may have copied.
    """
    if not rows:
        return 0
    operation, metrics = info.get("operation", ""), info.get("operationMetrics") or {}
    held = sum(1 if each is None else each for each in rows)
    if record is not None and record.counted:
        # Of a write that left unchanged partitions alone, fewer rows are in the files than were accounted for.
        written = record.rows.get("written", 0)
        return written if None in rows else min(written, held)
    if operation in ("DELETE", "UPDATE"):
        return 0
    if operation == "MERGE":
        inserted, updated = _metric(metrics, _INSERTED), _metric(metrics, _UPDATED)
        if inserted is None and updated is None:
            return 0 if rewrites else held
        return (inserted or 0) + (updated or 0)
    stated = _metric(metrics, _OUTPUT) if None in rows else None
    return (held if stated is None else stated) - (_metric(metrics, _COPIED) or 0)


def newest_event(stats: Mapping[str, Any], column: str, kind: str) -> str | None:
    """Return the greatest event time of a file by the statistics, spelled so that texts sort as times.

    Args:
        stats: the file's statistics.
        column: the column as the log calls it.
        kind: type of the column, as the log stores it.

    Returns:
        The time; :data:`NO_EVENT` for a file without an event; ``None`` if the statistics do not tell.
    """
    rows = stats.get("numRecords")
    found = (stats.get("maxValues") or {}).get(column)
    without = (stats.get("nullCount") or {}).get(column) if found is None else None
    if rows == 0 or (rows is not None and without == rows):
        return NO_EVENT
    return spelled_event(found, kind)


def _metric(metrics: Mapping[str, Any], names: Sequence[str]) -> int | None:
    found = next((metrics[name] for name in names if metrics.get(name) is not None), None)
    return None if found is None else int(found)


def spelled_event(value: object, kind: str) -> str | None:
    """Spell an event time so that texts sort as times; ``None`` for any other value."""
    try:
        return text(value, "date" if kind == "date" else "timestamp")
    except ValueError:
        return None


def event_instant(spelled: str) -> datetime:
    """Read an event time in UTC; a date is the first moment of the day."""
    return datetime.fromisoformat(spelled.removesuffix("Z")).replace(tzinfo=timezone.utc)
