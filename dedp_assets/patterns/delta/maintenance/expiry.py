"""Expiry of partitions: rows older than a table declares leave by metadata, without a read."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from dedp_assets.patterns.core.records import Provenance, slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.types.partitions import text
from dedp_assets.patterns.delta.log.commit_info import EXPIRED
from dedp_assets.patterns.delta.log.holds import apart_from_held
from dedp_assets.patterns.delta.snapshots.definition import require_partition
from dedp_assets.patterns.delta.tables import Table

__all__ = ["expire_partitions"]


def expire_partitions(table: Table, run: Provenance, *, now: datetime) -> WriteResult | None:
    """Remove the partitions that are older than ``TableLayout.keep_days``, one commit for each.

    The age is that of the first partition column, a DATE or a TIMESTAMP; rows with NULL there stay, and so do
    partitions on a storage tier or on legal hold. Files stay until a vacuum, so that an earlier version can be read
    until then.

    Args:
        table: the table.
        run: who removes, and why.
        now: current time, with time zone.

    Returns:
        The last write, with the numbers of expired and of held partitions in ``figures``; ``None`` for a table that
        keeps all.
    """
    days = table.spec.layout.keep_days
    if not days:
        return None
    state = table.ledger.state()
    first = state.partition_columns[0]
    kind = state.kinds[first]
    oldest = now - timedelta(days=days)
    limit = text(oldest.date() if kind == "date" else oldest, kind)
    values = {key: dict(key)[first] for key in state.statistics()}
    old = sorted(key for key, value in values.items() if value is not None and value < str(limit))
    free, held = apart_from_held(table.ledger, old)
    reason = f"no partition is older than {days} days" if not old else held
    result = WriteResult(table.name, state.version, applied=False, changed=False, reason=reason)
    for key in free:
        named = require_partition(table.name, state, {c: v for c, v in key if v is not None})
        result = table.clear(partition=named, provenance=replace(run, notes={**run.notes, EXPIRED: days}))
    if free:
        reason = f"{len(free)} partitions older than {days} days removed, the last one {slice_name(dict(free[-1]))}"
        reason += f"; {held}" if held else ""
    figures = {"partitions_expired": len(free), "partitions_held": len(old) - len(free)}
    return replace(result, reason=reason, figures={**result.figures, **figures})
