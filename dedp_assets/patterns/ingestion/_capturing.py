"""Capture of a source's change log into a history table, each change appended exactly once.

The history's commit holds the position up to which the log was read as its transaction id, and the slot is moved only
behind a commit. So the slot is never ahead of the history; where it is, changes are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.postgres import RESNAPSHOT, Described, PostgresTable, SlotState
from dedp_assets.patterns.connectors.postgres.definitions import Definition
from dedp_assets.patterns.connectors.postgres.pgoutput import Transaction, position_text
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.ingestion import _history

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = optional("psycopg")

__all__ = ["Capture"]

_IDLE_BYTES = 16 << 20
"""How much log of other tables passes before a commit without rows moves the history's position, in bytes."""


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture run that reads the changes of ``source`` into ``history``.

    Attributes:
        source: the table and its slot.
        history: a table of :data:`~dedp_assets.patterns.ingestion._history.CHANGES`.
        keys: the source's primary key.
        provenance: who captures, and why.
    """

    source: PostgresTable
    history: Table
    keys: tuple[str, ...]
    provenance: Provenance

    def begin(self, *, replace_slot: bool) -> WriteResult:
        """Append a snapshot and keep the replication slot of the snapshot.

        Args:
            replace_slot: replace a slot that is there already.

        Raises:
            ContractError: if there is one that may be somebody else's.
        """
        with postgres.connected(self.source) as connection:
            if not replace_slot and postgres.slot_state(connection, self.source):
                raise ContractError(
                    f"{self.source.name}: there is a slot {self.source.slot}, but {self.history.name} holds no "
                    f"snapshot that belongs to it: choose another slot if it is somebody else's, otherwise {RESNAPSHOT}"
                )
        with postgres.snapshot(self.source, keys=self.keys) as taken:
            rows = _history.frame(self.history.session, _history.of_snapshot(taken, self.keys))
            staged = self.history.stage(
                rows, provenance=self._step(taken.position, _history.noting_snapshot(taken)), append=True
            )
            taken.keep()
            return staged.publish()

    def resume(self, connection: psycopg.Connection[Any]) -> tuple[SlotState, Definition]:
        """Check the slot and advance the confirmed position to the end of the history.

        Returns:
            The slot, and the definition of the table.

        Raises:
            ContractError: if changes may be missing between the two.
        """
        source = self.source
        # In this order another capture cannot make a slot, once looked at, seem ahead of the history.
        before, written = postgres.slot_state(connection, source), _history.cursor(self.history) or 0
        slot = postgres.slot_state(connection, source)
        if before is None or slot is None or slot.status == "lost":
            fault = f"the slot {source.slot} is lost, and with it the changes after {position_text(written)}"
        elif before.confirmed > written:
            fault = f"somebody moved the slot {source.slot} on, from {position_text(written)} to {before.at}"
        elif slot.newest < written:
            fault = f"the log ends before {position_text(written)}, which was captured: the database is another one"
        else:
            now = postgres.describe(connection, source, keys=self.keys)
            if not (fault := _broken(_history.noted(self.history), now, after=written)):
                postgres.advance(connection, source, written)
                return slot, now.definition
        raise ContractError(f"{source.name}: {fault}; {RESNAPSHOT}")

    def follow(
        self, connection: psycopg.Connection[Any], now: Definition, *, until: int, max_messages: int
    ) -> Iterator[WriteResult]:
        """Append the log up to the position ``until``, a commit for every ``max_messages``.

        Args:
            connection: a connection to the source.
            now: the table's definition; every commit says in which columns it is another one than before.
            until: position behind which nothing is read.
            max_messages: most messages of a commit.
        """
        begin, note = _history.cursor(self.history) or 0, _history.noted(self.history)
        position, differing = begin, note["changed"]
        while batch := postgres.peek(connection, self.source, until=until, limit=max_messages, oid=note["oid"]):
            note = _history.noting_definition(_history.noting(note, batch), now, after=begin)
            differing = note["changed"]
            yield self._append(batch, self._step(batch[-1].ends_at, note), after=position)
            position = batch[-1].ends_at
            postgres.advance(connection, self.source, position)
        note = _history.noting_definition(note, now, after=begin)
        if until - position > _IDLE_BYTES or (note["changed"] != differing and until > position):
            yield self.history.mark(provenance=self._step(until, note))
            postgres.advance(connection, self.source, until)

    def _append(self, batch: Sequence[Transaction], step: Provenance, *, after: int) -> WriteResult:
        rows = list(_history.of_transactions(batch, self.keys))
        if not rows:
            return self.history.mark(provenance=step)
        oldest = min(transaction.committed_at for transaction in batch if transaction.changes)
        step = replace(step, notes={**step.notes, _history.OLDEST: oldest.isoformat()})
        staged = self.history.stage(_history.frame(self.history.session, rows), provenance=step, append=True)
        result = staged.publish(after=after)
        waited = self.history.ledger.commit(result.version).timestamp - oldest
        return replace(result, figures={**result.figures, "latency_seconds": max(waited.total_seconds(), 0.0)})

    def _step(self, position: int, note: Mapping[str, Any]) -> Provenance:
        notes = {**self.provenance.notes, "source": note}
        inputs = {self.source.name: position_text(position)}
        return replace(self.provenance, sequence=position, inputs=inputs, notes=notes)


def _broken(note: Mapping[str, Any], now: Described, *, after: int) -> str:
    """Return the reason why rows may have changed unlogged since position ``after``; empty for no reason."""
    if now.oid != note.get("oid"):
        return "the table was dropped and made anew"
    then = Definition.of(note["defined"]) if "defined" in note else now.definition
    parts = ", ".join(then.broken(now.definition))
    since = position_text(after)
    return f"{parts} changed after {since}, and rows may have changed without a word in the log" if parts else ""
