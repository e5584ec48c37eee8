"""Phases of a schema migration, stored in the table: one commit of schema and state for each phase."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, get_args

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.delta import Operation, Table, TableState, commit_actions, in_turn
from dedp_assets.patterns.quality._compatibility.schema_changes import STATE, with_new, without_old
from dedp_assets.patterns.quality._migration.moves import Migration

__all__ = ["PHASES", "Phase", "Stored", "enter", "stored"]

Phase = Literal["declared", "added", "both", "switched", "removed"]
PHASES: tuple[Phase, ...] = get_args(Phase)
_OPERATIONS = {"added": "ADD COLUMNS", "removed": "DROP COLUMNS"}


@dataclass(frozen=True, slots=True)
class Stored:
    """The state of a migration in a table.

    Attributes:
        phase: the last phase that was entered.
        at: phase -> when it was entered, ISO 8601 in UTC.
        deadline: end of the grace period, ISO 8601; empty until both forms are complete.
        moves: the moves, as plain values.
        run_id: the run that entered the phase.
    """

    phase: Phase
    at: Mapping[str, str]
    deadline: str
    moves: Mapping[str, Any]
    run_id: str = ""

    @property
    def reached(self) -> int:
        """Place of the phase among the phases."""
        return PHASES.index(self.phase)

    def days_over(self, now: datetime) -> float:
        """Return the days since the deadline; below 0 before and without a deadline."""
        return (now - datetime.fromisoformat(self.deadline)) / timedelta(days=1) if self.deadline else -1.0


def stored(table: str, state: TableState, migration: Migration) -> Stored | None:
    """Read the state of a migration from the table.

    ``None`` before the declaration.

    Raises:
        ConfigError: if the table knows another migration by this name.
    """
    text = state.properties.get(f"{STATE}{migration.name}")
    if text is None:
        return None
    found = Stored(**json.loads(text))
    if found.moves != json.loads(json.dumps(migration.moves)):
        raise ConfigError(
            f"{table}: migration {migration.name} must have the moves that it was declared with, {found.moves}, not "
            f"{migration.moves}: give other moves another name"
        )
    return found


def enter(
    table: Table,
    migration: Migration,
    phase: Phase,
    now: datetime,
    *,
    run_id: str,
    since: int | None,
    rules: Collection[str] = (),
) -> int:
    """Commit a phase: schema, properties and state at once; return the new version.

    Args:
        table: the table.
        migration: the migration.
        phase: the phase to enter, the one after the stored one.
        now: the time of it.
        run_id: the run.
        since: version that the table must still have, because its rows were compared there; any if ``None``.
        rules: constraints that go with the old columns.

    Raises:
        Conflict: if somebody committed after ``since``, or other writers do not yield.
    """

    def write() -> int | None:
        state = table.ledger.state()
        if since is not None and state.version != since:
            return None
        known = stored(table.name, state, migration)
        if known and known.reached >= PHASES.index(phase):
            return state.version
        entered = _entered(known, migration, phase, now, run_id)
        action = _metadata(table, state, migration, entered, rules)
        operation = Operation(_OPERATIONS.get(phase, "SET TBLPROPERTIES"))
        note = f"migration {migration.name}: {phase}, by run {run_id}"
        return commit_actions(table.store, state, [{"metaData": action}], record=note, operation=operation)

    version = in_turn(table.store, write)
    if version is None:
        raise Conflict(f"{table.name} was written after its rows were compared at version {since}: run it again")
    return version


def _entered(known: Stored | None, migration: Migration, phase: Phase, now: datetime, run_id: str) -> Stored:
    moment = now.astimezone(timezone.utc)
    at = {**(known.at if known else {}), phase: moment.isoformat()}
    deadline = known.deadline if known else ""
    if phase == "both":
        deadline = (moment + timedelta(days=migration.grace_days)).isoformat()
    return Stored(phase, at, deadline, migration.moves, run_id)


def _metadata(
    table: Table, state: TableState, migration: Migration, entered: Stored, rules: Collection[str]
) -> dict[str, Any]:
    """Return the table's metadata with the columns and properties of the entered phase."""
    metadata = dict(table.ledger.actions("metaData", until=state.version)[-1])
    if entered.phase == "added":
        metadata = with_new(metadata, table.name, state, migration)
    if entered.phase == "removed":
        metadata = without_old(metadata, migration, rules)
    known = {f"{STATE}{migration.name}": json.dumps(asdict(entered), sort_keys=True)}
    return {**metadata, "configuration": {**(metadata.get("configuration") or {}), **known}}
