"""Phases of a change of a table, stored in a property of the table.

A change may take weeks: phase by phase, each of them a commit. The commit that enters a phase may change the metadata,
and is refused if somebody wrote after the version that a gate looked at. So a phase is there once its gate has passed,
whoever dies in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.delta.commit.commits import Operation, commit_actions
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.storage.coordination import in_turn
from dedp_assets.patterns.delta.tables import Table

__all__ = ["PhaseState", "enter_phase"]

Metadata = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PhaseState:
    """The phase that a table has reached.

    Attributes:
        phase: the last phase that was entered.
        at: phase -> when it was entered, ISO 8601 in UTC.
        deadline: end of the grace period, ISO 8601; empty until it begins.
        moves: what is done, as plain values.
        run_id: the run that entered the phase.
    """

    phase: str
    at: Mapping[str, str]
    deadline: str
    moves: Mapping[str, Any]
    run_id: str = ""

    @classmethod
    def after(
        cls,
        known: PhaseState | None,
        phase: str,
        now: datetime,
        *,
        moves: Mapping[str, Any],
        run_id: str,
        grace_days: float | None = None,
    ) -> PhaseState:
        """Return the state of a table that enters a phase; with ``grace_days``, the grace period begins."""
        moment = now.astimezone(timezone.utc)
        at = {**(known.at if known else {}), phase: moment.isoformat()}
        deadline = known.deadline if known else ""
        if grace_days is not None:
            deadline = (moment + timedelta(days=grace_days)).isoformat()
        return cls(phase, at, deadline, moves, run_id)

    def days_over(self, now: datetime) -> float:
        """Return the days since the deadline; below 0 before and without a deadline."""
        return (now - datetime.fromisoformat(self.deadline)) / timedelta(days=1) if self.deadline else -1.0


def enter_phase(
    table: Table,
    key: str,
    entered: Callable[[TableState], PhaseState | None],
    *,
    note: str,
    since: int | None,
    operation: str = "SET TBLPROPERTIES",
    change: Callable[[Metadata, TableState], Metadata] | None = None,
) -> int:
    """Commit a phase: state and changed metadata at once; return the new version.

    Args:
        table: the table.
        key: property that holds the state, as JSON.
        entered: the state to store; ``None`` if the table reached the phase before.
        note: the commit's user metadata.
        since: version that the table must still have, because a gate looked at it; any if ``None``.
        operation: Delta's name of the operation.
        change: what else changes in the metadata.

    Raises:
        Conflict: if somebody committed after ``since``, or other writers do not yield.
    """

    def write() -> int | None:
        state = table.ledger.state()
        if since is not None and state.version != since:
            return None
        made = entered(state)
        if made is None:
            return state.version
        metadata = dict(table.ledger.actions("metaData", until=state.version)[-1])
        metadata = change(metadata, state) if change else metadata
        known = {key: json.dumps(asdict(made), sort_keys=True)}
        action = {**metadata, "configuration": {**(metadata.get("configuration") or {}), **known}}
        return commit_actions(table.store, state, [{"metaData": action}], record=note, operation=Operation(operation))

    version = in_turn(table.store, write)
    if version is None:
        raise Conflict(f"{table.name} was written after its rows were compared at version {since}: run it again")
    return version
