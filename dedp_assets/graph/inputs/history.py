"""Queries of the tables' modules over a table's log, each by one walk over the commits."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta import Commit, Ledger
from dedp_assets.patterns.error_management.late_data_detector import advance_watermark

__all__ = ["last_code", "last_note", "newest_batches", "row_changes", "watermark_of_landings"]


def last_code(ledger: Ledger, column: str) -> dict[str, str]:
    """Return the version of the code that each partition was loaded by last.

    Args:
        ledger: log of a table with a partition for each run.
        column: the first partition column.
    """
    found: dict[str, str] = {}
    for record in (commit.record for commit in ledger.newest_first()):
        if record and column in record.partition:
            found.setdefault(record.partition[column], record.code_version)
    return found


def last_note(ledger: Ledger, name: str, *, until: int) -> Any:  # noqa: ANN401 - a note is any JSON value
    """Return the newest note of a name in the commits up to a version; ``None`` if absent."""
    last = ledger.last(lambda commit: commit.record and name in commit.record.notes, until=until)
    return last.record.notes[name] if last and last.record else None


def row_changes(ledger: Ledger, *, since: int, until: int) -> list[Commit]:
    """List the commits after version ``since`` up to ``until`` that changed rows, apart from expiries."""
    changes = (commit for commit in ledger.commits(since=since) if commit.changed and not commit.expires)
    return [commit for commit in changes if commit.version <= until]


def newest_batches(ledger: Ledger) -> list[CommitRecord]:
    """List the records of the micro-batches that the newest run of a stream committed, in order."""
    batches: list[CommitRecord] = []
    for record in (commit.record for commit in ledger.newest_first()):
        if record and record.channel:
            if batches and record.run_id != batches[0].run_id:
                break
            batches.append(record)
    return batches[::-1]


def watermark_of_landings(ledger: Ledger, day: str, *, column: str, allowed_lateness_seconds: float) -> datetime | None:
    """Return the watermark before ``day`` landed, as advanced by the earlier landing days.

    A day that came by files counts as its last delivery left it, one that came by a topic with all that was read of it.
    What the day before knew of still earlier days stands in its commit, so the log is read no further back; days that
    landed or were loaded again since then count as well, so that an old day that is late never moves it back.

    Args:
        ledger: log of a table whose commits note ``watermark`` and have a figure ``newest``.
        day: landing day, as its partition is spelled.
        column: partition column of the landing day.
        allowed_lateness_seconds: distance between the newest event time and the watermark.
    """
    yesterday = (datetime.fromisoformat(day) - timedelta(days=1)).date().isoformat()
    seen: set[str] = set()
    reached: list[datetime | None] = []
    for commit in ledger.newest_first():
        landed = _landing_day(commit, column)
        if yesterday in seen and landed != yesterday:
            break
        if commit.record and "" < landed < day and (commit.record.channel or landed not in seen):
            seen.add(landed)
            reached.append(_watermark_after(commit.record, allowed_lateness_seconds))
    return max(filter(None, reached), default=None)


def _watermark_after(record: CommitRecord, allowed_lateness_seconds: float) -> datetime | None:
    """Return the watermark after a landing: the noted watermark, advanced by the newest landed event time."""
    noted, newest = record.notes.get("watermark"), record.figures.get("newest")
    times = {"newest": datetime.fromtimestamp(newest, timezone.utc) if newest else None}
    known = datetime.fromisoformat(noted) if noted else None
    return advance_watermark(known, times, allowed_lateness_seconds=allowed_lateness_seconds)


def _landing_day(commit: Commit, column: str) -> str:
    """Return the landing day of a commit: the owned day, or the newest day with appended rows."""
    if commit.record is None:
        return ""
    brought = [dict(partition).get(column) or "" for partition in commit.changed if commit.record.channel]
    return commit.record.partition.get(column) or max(brought, default="")
