"""PostgreSQL: the log of a table read by a replication slot, snapshots, and keyed writes.

This package is the face of its modules: chapters and resources import from here.
"""

from __future__ import annotations

from dedp_assets.patterns.connectors.postgres.erasing import ErasableTable
from dedp_assets.patterns.connectors.postgres.errors import (
    BEHIND_POLICY,
    RESNAPSHOT,
    is_behind_policy,
    naming_read_errors,
)
from dedp_assets.patterns.connectors.postgres.keyed_write import Changed, Incoming, exchange, receive, writing
from dedp_assets.patterns.connectors.postgres.sessions import READING, opened, schema_and_table, table_identifier
from dedp_assets.patterns.connectors.postgres.slots import (
    Described,
    PostgresTable,
    SlotState,
    advance,
    connected,
    describe,
    peek,
    slot_state,
)
from dedp_assets.patterns.connectors.postgres.snapshots import Snapshot, reading_at, snapshot

__all__ = [
    "BEHIND_POLICY",
    "READING",
    "RESNAPSHOT",
    "is_behind_policy",
    "naming_read_errors",
    "opened",
    "schema_and_table",
    "table_identifier",
    "Changed",
    "Described",
    "ErasableTable",
    "Incoming",
    "PostgresTable",
    "SlotState",
    "Snapshot",
    "advance",
    "connected",
    "describe",
    "exchange",
    "peek",
    "reading_at",
    "receive",
    "slot_state",
    "snapshot",
    "writing",
]
