"""Loads of a table: the commits that changed a partition's rows, with the current rows' loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dedp_assets.patterns.delta import Commit, Ledger

__all__ = ["LOAD", "Load", "loads_of"]

LOAD = (
    "loading_attempt INT, version BIGINT, run_id STRING, code_version STRING, pattern STRING, cause STRING, "
    "loading_time TIMESTAMP, is_current BOOLEAN"
)
"""Columns of the rows that loads are as a table."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load of a partition, with the fields of :data:`LOAD`; run fields of foreign writers are empty."""

    loading_attempt: int
    version: int
    run_id: str | None
    code_version: str | None
    pattern: str | None
    cause: str | None
    loading_time: datetime
    is_current: bool

    @property
    def row(self) -> tuple[int | str | datetime | bool | None, ...]:
        """The values of the columns of :data:`LOAD`."""
        by = (self.run_id, self.code_version, self.pattern, self.cause)
        return (self.loading_attempt, self.version, *by, self.loading_time, self.is_current)


def loads_of(ledger: Ledger, partition: Mapping[str, str], *, until: int | None = None) -> list[Load]:
    """List the loads of a partition, oldest first, as far back as the log reaches.

    The load whose rows are there is the last one, or else the last one before the version that was restored.
    """
    found: list[Commit] = []
    current, reach = -1, until
    wanted = ledger.state().spelled(partition) if ledger.exists() else partition
    for commit in ledger.newest_first():
        if (until is not None and commit.version > until) or not commit.changes(wanted):
            continue
        counts = reach is None or commit.version <= reach
        if commit.operation == "RESTORE" and commit.parameters.get("version") is not None:
            reach = int(commit.parameters["version"]) if counts else reach
            continue
        found.append(commit)
        current = commit.version if counts and current < 0 else current
    return [_load(number, commit, current) for number, commit in enumerate(reversed(found), start=1)]


def _load(number: int, commit: Commit, current: int) -> Load:
    is_current, record = commit.version == current, commit.record
    if record is None:
        return Load(number, commit.version, None, None, None, None, commit.timestamp, is_current)
    at = datetime.fromisoformat(record.at) if record.at else commit.timestamp
    by = (record.run_id, record.code_version, record.pattern, record.cause)
    return Load(number, commit.version, *by, at, is_current)
