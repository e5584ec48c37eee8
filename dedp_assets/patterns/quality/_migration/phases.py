"""Phases of a schema migration, stored in the table: one commit of schema and state for each phase."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import PhaseState, Table, TableState, enter_phase
from dedp_assets.patterns.quality._compatibility.schema_changes import STATE, with_new, without_old
from dedp_assets.patterns.quality._migration.moves import Migration

__all__ = ["PHASES", "Phase", "Stored", "enter", "stored"]

Phase = Literal["declared", "added", "both", "switched", "removed"]
PHASES: tuple[Phase, ...] = get_args(Phase)
_OPERATIONS = {"added": "ADD COLUMNS", "removed": "DROP COLUMNS"}


@dataclass(frozen=True, slots=True)
class Stored(PhaseState):
    """The state of a migration in a table; ``moves`` are the moves, and grace begins with ``both``."""

    phase: Phase

    @property
    def reached(self) -> int:
        """Place of the phase among the phases."""
        return PHASES.index(self.phase)


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

    def entered(state: TableState) -> PhaseState | None:
        known = stored(table.name, state, migration)
        if known and known.reached >= PHASES.index(phase):
            return None
        days = migration.grace_days if phase == "both" else None
        return PhaseState.after(known, phase, now, moves=migration.moves, run_id=run_id, grace_days=days)

    def change(metadata: dict[str, Any], state: TableState) -> dict[str, Any]:
        if phase == "added":
            return with_new(metadata, table.name, state, migration)
        return without_old(metadata, migration, rules) if phase == "removed" else metadata

    return enter_phase(
        table,
        f"{STATE}{migration.name}",
        entered,
        note=f"migration {migration.name}: {phase}, by run {run_id}",
        since=since,
        operation=_OPERATIONS.get(phase, "SET TBLPROPERTIES"),
        change=change,
    )
