"""Lag of a PostgreSQL replication slot's reader, in bytes of the log."""

from __future__ import annotations

from datetime import datetime

from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.postgres import PostgresTable
from dedp_assets.patterns.connectors.web.parts import one_row
from dedp_assets.patterns.observability._lags.lag_samples import LagSample

__all__ = ["sample_slot"]


def sample_slot(source: PostgresTable, *, consumer: str, seen_at: datetime, idle_bytes: int = 32 << 20) -> LagSample:
    """Sample the bytes of the server's log that the reader of a slot has not confirmed.

    The log is looked at from outside: nothing is decoded, and the slot stays free for its reader.

    Args:
        source: the table and its slot.
        consumer: who reads.
        seen_at: current time.
        idle_bytes: log of other tables that may pass before the reader confirms it: up to it, the reader counts as
            caught up. A capture confirms it every 16 MiB.

    Returns:
        The sample, without ``consumed`` if there is no such slot. A slot that the server gave up has lost what it did
        not confirm.

    Raises:
        NotReady: if the server does not answer.
        PatternError: what else PostgreSQL refuses, with the remedy.
    """
    with postgres.connected(source) as connection:
        state = postgres.slot_state(connection, source)
        asked = "SELECT oid::bigint, (pg_current_wal_flush_lsn() - '0/0')::bigint FROM pg_database "
        found = connection.execute(asked + "WHERE datname = current_database()").fetchall()
    database, newest = one_row(found, (int, int), asked=f"{source.name}: its database")
    lost = state is not None and state.status == "lost"
    return LagSample(
        consumer=consumer,
        producer=source.name,
        seen_at=seen_at,
        produced=newest,
        consumed=state.confirmed if state else None,
        begin=newest if lost else 0,
        unit="bytes",
        identity=f"{database}/{source.slot}",
        idle=idle_bytes,
    )
