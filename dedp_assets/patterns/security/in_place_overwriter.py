"""In-Place Overwriter: rows of persons removed from a table or a folder, down to the last byte.

Problem: personal values repeat in every row of an inherited dataset, and persons ask to be forgotten. Formats without
    a DELETE lose a row only with the file, and a table keeps deleted rows in older files and in its log.
Solution: a batch of requests is one rewrite. A table loses the rows, then its past; files are filtered beside the
    folder, which is exchanged as a whole.
Consequences: reads every key, writes whole files again, and nobody can take it back: a share of the rows that a batch
    may match is the guard. Time travel ends at the purge. Copies elsewhere need the requests, too.
Choose instead: Vertical Partitioner for a new design, so that a person is one row; Encryptor with a key for each.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.encoding.formats import Csv, JsonLines, Parquet
from dedp_assets.patterns.connectors.landing.editions import next_content
from dedp_assets.patterns.core.columns import COMPARED, require_columns
from dedp_assets.patterns.core.errors import ConfigError, Conflict, NotReady
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, RowCounts, WriteResult
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import Delete, Merge, Table, Target, folder_at
from dedp_assets.patterns.delta.maintenance import PURGED, purge_history, require_purgeable, safe_hours
from dedp_assets.patterns.security._removal_files import filter_folder, search_folder
from dedp_assets.patterns.security._removal_requests import Removal, Removals

__all__ = ["remove_rows", "purge_removed", "overwrite_files", "Removal"]

_NOTE = "removal"
_DEADLINE_DAYS = 30
_AGAIN = Backoff(attempts=5)
"""Attempts against others who write to the folder."""


@demanding(replaces="table")
@typed
def remove_rows(
    requests: Sequence[Removal],
    into: Target,
    *,
    key: str,
    now: datetime,
    most: float = 0.05,
    retention_hours: float | None = None,
    allow_unsafe: bool = False,
    deadline_days: int = _DEADLINE_DAYS,
) -> WriteResult:
    """Delete the rows of a batch of persons from a table in one commit, and purge a safe time later.

    Ids are in a frame that the table is joined with, and so in no predicate and no commit. Files without a row of the
    persons stay as they are, and so do rows without a key.

    Args:
        requests: the batch.
        into: target of the write, of the whole table.
        key: column with the id of the person.
        now: current time, with time zone.
        most: greatest share of the rows that a request, or the batch, may match, from 0 to 1.
        retention_hours: hours from the deletion to the purge, for readers of older versions; 0 purges at once. The
            table's (``delta.deletedFileRetentionDuration``, a week if nothing) if ``None``.
        allow_unsafe: accept a retention below the table's.
        deadline_days: days from the receipt of a request to the purge that the law allows.

    Returns:
        The commit, or the purge. In ``figures`` the status of each request by name (``requests``), ``rows_removed``,
        ``purge_due`` and ``deadline``; a finding compares the two.

    Raises:
        ConfigError: for a blank id, a key that is no column, a retention below the safe one, or a milestone.
        ContractError: if the batch matches too many rows, or a legal hold forbids the purge; nothing is removed.
        Conflict: if other writers change the same rows and do not yield.

    Example:
        >>> visits = table("visits", "user STRING, page STRING", ("ada", "/a"), ("bob", "/b"), ("", "/c"))
        >>> result = remove_rows(
        ...     [Removal(request="R-1", id="ada"), Removal(request="R-2", id="eve")],
        ...     visits.target(run),
        ...     key="user",
        ...     now=datetime.fromisoformat("2026-01-05T10:00Z"),
        ...     most=0.5,
        ...     retention_hours=0,
        ...     allow_unsafe=True,
        ... )
        >>> result.figures["requests"]
        {'R-1': 'removed 1 rows', 'R-2': 'nothing found'}
        >>> rows(visits)
        [('', '/c'), ('bob', '/b')]
    """
    batch, into = Removals(requests, most), into.by("security.in_place_overwriter")
    table = into.table
    hours = _retention(table, retention_hours, allow_unsafe=allow_unsafe)
    require_purgeable(table)
    found, rows = _counted(table, batch, key)
    allowed = batch.allowed(found, rows, table.name)
    due, deadline = now + timedelta(hours=hours), _deadline(requests, now, deadline_days)
    times = {"executed_at": now.isoformat(), "purge_due": due.isoformat(), "deadline": deadline.isoformat()}
    result = _deleted(into, key, allowed, {**times, "requests": len(requests)})
    figures = {
        **result.figures,
        **times,
        "requests": batch.statuses(found, allowed, rows),
        "rows_removed": int(result.figures.get("deleted", 0)),
    }
    removed, meant = figures["rows_removed"], sum(found[each] for each in allowed)
    note = "" if removed == meant else "other writers changed rows of the persons meanwhile: run the batch again"
    counts = {"counted": meant, "removed": removed}
    as_counted = Finding("as_many_rows_as_counted", passed=not note, severity="warn", figures=counts, note=note)
    in_time = Finding("purge_is_within_the_deadline", passed=due <= deadline, severity="warn", figures=times)
    result = replace(result, figures=figures, findings=(*result.findings, as_counted, in_time))
    if hours or _pending(table) is None:
        return result
    purged = purge_history(table, provenance=_plain_run(into, {}), now=now)
    return replace(
        result,
        version=purged.version,
        applied=result.applied or purged.applied,
        reason=f"{result.reason}; {purged.reason}",
        figures={**figures, **purged.figures},
    )


@demanding(replaces="table")
@typed
def purge_removed(into: Target, *, now: datetime) -> WriteResult:
    """Purge a table whose removed rows have been kept for the retention; see :func:`remove_rows`.

    Args:
        into: target of the write, of the whole table.
        now: current time, with time zone.

    Returns:
        The purge; nothing is purged without a removal since the last purge.

    Raises:
        NotReady: before the purge is due.
        ConfigError: if a milestone keeps a version.
        ContractError: if a legal hold stands.
        Conflict: if other writers hold the table for too long.
    """
    into = into.by("security.in_place_overwriter")
    table = into.table
    times = _pending(table)
    if times is None:
        reason = "nothing to purge: no rows were removed since the last purge"
        return WriteResult(table.name, table.ledger.version(), applied=False, changed=False, reason=reason)
    if now < datetime.fromisoformat(times["purge_due"]):
        raise NotReady(f"{table.name}: the purge of the removed rows is due at {times['purge_due']}")
    purged = purge_history(table, provenance=_plain_run(into, {}), now=now)
    late = now > datetime.fromisoformat(times["deadline"])
    in_time = Finding("purge_is_within_the_deadline", passed=not late, severity="warn", figures=dict(times))
    return replace(purged, figures={**purged.figures, **times}, findings=(in_time,))


def _pending(table: Table) -> Mapping[str, Any] | None:
    """Return the times of the last removal; ``None`` without a removal since the last purge."""
    last = table.ledger.last(lambda c: c.operation == PURGED or (c.record and _NOTE in c.record.notes))
    return last.record.notes[_NOTE] if last and last.record else None


def _retention(table: Table, hours: float | None, *, allow_unsafe: bool) -> float:
    safe = safe_hours(table.ledger.state())
    if hours is not None and (hours < 0 or (hours < safe and not allow_unsafe)):
        raise ConfigError(
            f"{table.name}: retention_hours must be at least the {safe:g} h that are safe, not {hours:g}: readers of "
            "older versions lose files under their hands. Keep files for longer, or pass allow_unsafe"
        )
    return safe if hours is None else hours


def _deadline(requests: Sequence[Removal], now: datetime, days: int) -> datetime:
    return min([each.received for each in requests if each.received], default=now) + timedelta(days=days)


def _counted(table: Table, batch: Removals, key: str) -> tuple[dict[str, int], int]:
    """Count the rows of each id, and all rows, in one job that reads the key alone."""
    held = table.read()
    require_columns(held, [key], COMPARED)
    named = F.col(identifier(key)).cast("string")
    ids = table.session.createDataFrame([(each,) for each in sorted(batch.ids)], "id STRING")
    rows = held.select(named.alias("held")).join(F.broadcast(ids), F.col("held") == F.col("id"), "left")
    counts = {row["id"]: row["n"] for row in rows.groupBy("id").agg(F.count("*").alias("n")).collect()}
    return {name: count for name, count in counts.items() if name is not None}, sum(counts.values())


def _plain_run(into: Target, note: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the run without inputs: rows that came late are removed by the same batch, run again."""
    notes = {**into.run.notes, **({_NOTE: dict(note)} if note else {})}
    return replace(into.run, inputs={}, sequence=None, notes=notes)


def _deleted(into: Target, key: str, ids: frozenset[str], note: Mapping[str, Any]) -> WriteResult:
    table = into.table
    if not ids:
        reason = "nothing to remove: no row has the id of a request"
        return WriteResult(table.name, table.ledger.version(), applied=False, changed=False, reason=reason)
    kind = table.read().select(F.col(identifier(key))).schema[0].dataType
    # The commit states a digest of the source, which would give a lone id away without something to hide it.
    salt = secrets.token_hex(16)
    named = table.session.createDataFrame([(each, salt) for each in sorted(ids)], "id STRING, salt STRING")
    source = named.select(F.col("id").cast(kind).alias(key), "salt")
    return table.merge(source, Merge([key], [Delete()]), provenance=_plain_run(into, note))


@typed
def overwrite_files(
    requests: Sequence[Removal],
    folder: str | os.PathLike[str],
    *,
    key: str,
    form: JsonLines | Csv | Parquet = JsonLines(),  # noqa: B008 - frozen
    most: float = 0.05,
) -> WriteResult:
    """Remove the records of a batch of persons from the files of a folder, which is exchanged as a whole.

    Files without a record of the persons are shared with the new content, and of the others every other record keeps
    its bytes and place. A run that dies before the exchange leaves the folder as it was; one that dies within is
    completed by the next call.

    Args:
        requests: the batch.
        folder: path of the folder, on this machine.
        key: field, column or ``field.of.a.field`` with the id of the person; ``column_<n>`` of CSV without a header.
        form: format of the files.
        most: greatest share of the records that a request, or the batch, may match, from 0 to 1.

    Returns:
        In ``figures`` the status of each request by name (``requests``), and numbers of files and records. Records that
        could not be read (``records_unread``) and files whose name hides them (``files_hidden``) are not searched.

    Raises:
        ConfigError: for a blank id, a folder that is none, or a bucket, which cannot exchange folders.
        ContractError: if the batch matches too many records, or a file cannot be read as the format.
        Conflict: if files came or changed meanwhile, or another process keeps the folder.
    """
    batch, target = Removals(requests, most), folder_at(folder)

    for last in _AGAIN.tries():
        try:
            with next_content(target) as made:
                seen = search_folder(target, batch.ids, key, form)
                allowed = batch.allowed(seen.found, seen.records, target.name)
                files, removed = filter_folder(target, made.files, seen, allowed) if allowed else (0, 0)
                made.ready = files > 0
            break
        except Conflict:
            if last:
                raise
    reason = f"{removed} of {seen.records} records removed, {files} of {len(seen.files)} files written again"
    figures = {
        "requests": batch.statuses(seen.found, allowed, seen.records),
        "records_removed": removed,
        "files": len(seen.files),
        "files_rewritten": files,
        "files_hidden": seen.hidden,
        "records_unread": seen.unread,
    }
    counts = RowCounts(read=seen.records, written=seen.records - removed, filtered=removed)
    done = bool(files)
    return WriteResult(target.name, 0, applied=done, changed=done, reason=reason, rows=counts, figures=figures)
