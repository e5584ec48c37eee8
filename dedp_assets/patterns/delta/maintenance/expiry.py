"""Expiry of partitions: rows past the retention of a table leave by metadata, without a read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.types.partitions import text
from dedp_assets.patterns.delta.commit import commits, file_exchange
from dedp_assets.patterns.delta.log.commit_info import EXPIRED
from dedp_assets.patterns.delta.log.holds import apart_from_held
from dedp_assets.patterns.delta.log.partition_values import Partition, partition_name
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import require_replaceable
from dedp_assets.patterns.delta.snapshots.reading import predicate
from dedp_assets.patterns.delta.storage.coordination import in_turn
from dedp_assets.patterns.delta.tables import Table

__all__ = ["expire_partitions", "older_partitions", "remove_expired"]


def expire_partitions(table: Table, run: Provenance, *, now: datetime) -> WriteResult | None:
    """Remove the partitions that are older than ``TableLayout.keep_days``, in one commit.

    The age is that of the first partition column, a DATE or a TIMESTAMP; rows with NULL there stay, and so do
    partitions on a storage tier or on legal hold. Files stay until a vacuum, so that an earlier version can be read
    until then.

    Args:
        table: the table.
        run: who removes, and why.
        now: current time, with time zone.

    Returns:
        The write, with the numbers of expired and of held partitions in ``figures``; ``None`` for a table that keeps
        all.
    """
    days = table.spec.layout.keep_days
    if not days:
        return None
    state = table.ledger.state()
    old = older_partitions(state, state.partition_columns[0], days=days, now=now)
    return remove_expired(table, old, run, rule=days)


def older_partitions(state: TableState, by: str, *, days: int, now: datetime) -> list[Partition]:
    """List the partitions older than a number of days, oldest first.

    Partitions on a storage tier are left out. A day goes once its last row is that old: with 30 days, the 31st day
    before today is the first one that goes.

    Args:
        state: the table.
        by: partition column of type DATE or TIMESTAMP that tells the age; NULL, and what is no date, has none.
        days: number of whole days that rows stay.
        now: current time, with time zone; days are those of UTC.
    """
    kind = state.kinds[by]
    oldest = now.astimezone(timezone.utc) - timedelta(days=days)
    limit = str(text(oldest.date() if kind == "date" else oldest, kind))
    found = {key: value for key in state.statistics() if (value := dict(key)[by]) is not None and value < limit}
    return sorted(found, key=lambda key: (found[key], str(key)))


def remove_expired(
    table: Table, expired: Collection[Partition], run: Provenance, *, rule: int | str, since: int | None = None
) -> WriteResult:
    """Remove partitions by age, in one commit that is no change for tables downstream.

    Partitions on legal hold stay, and so do all others than the named ones, those with NULL among them.

    Args:
        table: the table.
        expired: the partitions; one without rows is left out.
        run: who removes.
        rule: days, or a sentence part with the rule of a policy, such as "older than ..."; stands in the commit.
        since: version at which the partitions were chosen; ``None`` if a write since then is of no interest.

    Returns:
        The write, with the numbers of expired and held partitions in ``figures``, and the bytes without a vacuum.

    Raises:
        Conflict: if one of the partitions was written after ``since``; names it.
        ConfigError: for a table that only takes appends.
    """
    by_age = replace(run, notes={**run.notes, EXPIRED: rule})
    old = f"older than {rule} days" if isinstance(rule, int) else rule

    def write() -> WriteResult:
        state = table.ledger.state()
        _require_same(table, expired, since)
        there = state.statistics()
        present = [key for key in expired if key in there]
        free, held = apart_from_held(table.ledger, present)
        size = sum(there[key].bytes for key in free)
        figures = {"partitions_expired": len(free), "partitions_held": len(present) - len(free), "bytes_expired": size}
        if not free:
            reason = held or f"no partition is {old}"
            return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason, figures=figures)
        reason = f"{len(free)} partitions {old} removed, the last one {partition_name(free[-1])}"
        reason += f"; {held}" if held else ""
        version = _commit(table, state, free, by_age, reason)
        return WriteResult(table.name, version, applied=True, changed=True, reason=reason, figures=figures)

    # Delta's own statement waits for the table by itself.
    return in_turn(table.store, write) if file_exchange.serves(table.ledger.state()) else write()


def _require_same(table: Table, expired: Collection[Partition], since: int | None) -> None:
    for commit in table.ledger.commits(since=since) if since is not None else ():
        if met := {*expired} & ({*()} if commit.expires else commit.changed):
            raise Conflict(
                f"{table.name} {partition_name(min(met, key=str))} was written at version {commit.version}, "
                f"after the plan of version {since}: plan again"
            )


def _commit(table: Table, state: TableState, gone: Collection[Partition], run: Provenance, reason: str) -> int:
    if not file_exchange.serves(state):  # of whole partitions, Delta's own statement reads no row either
        where = " OR ".join(f"({predicate(dict(key), state)})" for key in gone)
        return table.delete(where, provenance=run).version
    require_replaceable(table.name, state)
    keys = {*gone}
    files = [(file, key) for file, key in state.keyed_files() if key in keys]
    metrics = {"numRemovedFiles": len(files), "numRemovedBytes": sum(file["size_bytes"] for file, _ in files)}
    return commits.commit_actions(
        table.store,
        state,
        file_exchange.file_actions([], files, data_change=True),
        record=CommitRecord.of(run, content=reason, figures={"partitions": [*map(partition_name, gone)], **metrics}),
        operation=commits.Operation("EXPIRE PARTITIONS", metrics=metrics),
    )
