"""Format Migration: a folder of files becomes a table while writers and readers go on.

Problem: a folder of Parquet or CSV files has no transactions, and neither its writers nor its readers can stop for the
    day on which its rows are copied.
Solution: the table takes each file once; from then on writers append to both, and what one side lacks the next run
    completes. Once both hold the same rows, readers go over by one name, and back; the files go after a grace period.
Consequences: rows are stored twice, and files are never changed meanwhile. A phase begins once the gate of the one
    before has passed, and stands in the table's log.
Choose instead: Horizontal Partitioner (`change_partitions`) or Sorter, if a table only needs another layout.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, NotReady
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.rows import rows_digest
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import PhaseState, Table, TableState, Target, enter_phase, store_at
from dedp_assets.patterns.storage._migrated_folder import Folder, Form, checksum_of, take, taken_files

__all__ = ["migrate_format", "append_both", "read_by_name"]

MigrationPhase = Literal["backfilled", "both", "verified", "switched", "removed"]
_PHASES: tuple[MigrationPhase, ...] = get_args(MigrationPhase)
_KEY = "dedp.format_migration"
_NAME = "storage.format_migration"


@demanding(replaces="table")
@typed
def migrate_format(
    into: Target,
    *,
    now: datetime,
    folder: str,
    to: MigrationPhase,
    form: Form = "parquet",
    grace_days: int = 30,
    back: bool = False,
) -> WriteResult:
    """Take the steps of a migration up to a phase.

    A phase that was reached before costs a look at the folder. Each phase is a commit of its own, and each call first
    takes the files that the table lacks.

    Args:
        into: target of the migration: a new table, with the columns of the files; its audits judge their rows.
        now: the time of the step, with time zone.
        folder: path or URI of the folder; ``column=value`` folders below it, if the table is partitioned.
        to: ``backfilled`` takes the files; ``both`` allows :func:`append_both`; ``verified`` compares the rows of both;
            ``switched`` lets :func:`read_by_name` read the table; ``removed`` compares again and removes the files.
        form: format of the files; CSV has a header and is quoted as in RFC 4180.
        grace_days: days between ``switched`` and ``removed``, for readers of the folder itself and for the way back.
        back: whether readers go back to the folder, from ``switched`` to ``verified``; no row is lost by it.

    Returns:
        The phase as reason; rows of both sides, and files taken and removed, in ``figures``.

    Raises:
        AuditFailed: if the sides hold other rows, or an audit refuses rows; readers stay where they are.
        ConfigError: for a table with rows of its own, or one that migrates from another folder.
        Conflict: if others write all the time.
        ContractError: for a file that changed after it was taken, or lies in the folder of other columns.
        NotReady: if the folder has no files yet, or the grace period is not over.

    Example:
        >>> from datetime import datetime, timezone
        >>> from tempfile import mkdtemp
        >>> old, now = mkdtemp(), datetime(2026, 1, 5, tzinfo=timezone.utc)
        >>> visits = table("visits", "id INT, page STRING")
        >>> frame("id INT, page STRING", (1, "/a"), (2, "/b")).write.mode("append").parquet(old)
        >>> migrate_format(visits.target(run), now=now, folder=old, to="switched").reason
        'switched since 2026-01-05T00:00:00+00:00: readers read the table'
        >>> rows(visits)
        [(1, '/a'), (2, '/b')]
    """
    if grace_days < 0:
        raise ConfigError(f"grace_days must be at least 0, not {grace_days}")
    if back and to != "verified":
        raise ConfigError(f"to must be verified for readers that go back, not {to}")
    steps = _FolderSteps(into.by(_NAME, "audits"), {"folder": store_at(folder).address, "form": form}, now, grace_days)
    steps.begin()
    if back:
        steps.go_back()
    for phase in _PHASES[: _PHASES.index(to) + 1]:
        steps.step(phase)
    return steps.result()


@demanding(replaces="table")
@typed
def append_both(rows: DataFrame, into: Target) -> WriteResult:
    """Append rows to the folder and to the table, each once, whoever dies in between.

    The rows are in the folder first, and then taken as any file there. The batch is the run's inputs and code, or its
    id without these: a batch that the folder holds is not written again, and completed where a run died.

    Args:
        rows: rows with the columns of the table.
        into: target of the write; its audits judge the rows on their way into the table.

    Raises:
        ConfigError: for a table that does not migrate, or whose migration is over.
        NotReady: before the phase ``both``.
    """
    into = into.by(_NAME, "audits")
    known = _require(into.table)
    if known.phase == "removed":
        raise ConfigError(f"{into.name} must be in migration for writes to both sides, not {known.phase}: append to it")
    if known.phase == "backfilled":
        raise NotReady(f"{into.name} is backfilled only: enter the phase both before writers append to both")
    folder = Folder.at(known.moves)
    folder.add(rows, into.run, into.table.ledger.state().partition_columns)
    if taken := take(into, folder):
        return taken[0]
    version = into.table.ledger.version()
    return WriteResult(into.name, version, applied=False, changed=False, reason="both sides hold the batch")


@typed
def read_by_name(table: Table) -> DataFrame:
    """Read a table in migration from the folder, or once readers are switched from the table; lazy.

    Raises:
        ConfigError: for a table that does not migrate.
    """
    known = _require(table)
    if known.phase in ("switched", "removed"):
        return table.read()
    folder = Folder.at(known.moves)
    return folder.rows(table, folder.files())


def _stored(state: TableState) -> PhaseState | None:
    text = state.properties.get(_KEY)
    return PhaseState(**json.loads(text)) if text else None


def _require(table: Table) -> PhaseState:
    if table.ledger.exists() and (known := _stored(table.ledger.state())):
        return known
    raise ConfigError(f"{table.name} must be a table in migration, not one without a phase: migrate_format begins it")


@dataclass(slots=True)
class _FolderSteps:
    """The steps of one call.

    Attributes:
        applied: whether a commit was made.
        changed: whether rows came into the table.
    """

    into: Target
    moves: Mapping[str, Any]
    now: datetime
    grace_days: int
    applied: bool = False
    changed: bool = False
    figures: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def folder(self) -> Folder:
        """The folder."""
        return Folder.at(self.moves)

    def known(self, state: TableState | None = None) -> PhaseState | None:
        """Return the stored phase of the table."""
        return _stored(state or self.into.table.ledger.state())

    def begin(self) -> None:
        """Refuse another table or folder, and take the files that the table lacks."""
        table = self.into.table
        state = table.ensure()
        known = self.known(state)
        if known and known.moves != self.moves:
            raise ConfigError(f"folder and form must be those of the migration, {known.moves}, not {self.moves}")
        if known is None and state.files() and not taken_files(table.ledger):
            raise ConfigError(f"{table.name} must be a new table, not one with rows of its own")
        if known is None and not self.folder.files():
            raise NotReady(f"{self.folder.store.address} has no files to migrate to {table.name}")
        if known is None or known.phase != "removed":
            before = len(taken_files(table.ledger))
            taken = take(self.into, self.folder)
            self.applied |= bool(taken)
            self.changed |= any(each.changed for each in taken)
            self.figures["files_taken"] = len(taken_files(table.ledger)) - before

    def go_back(self) -> None:
        """Let readers read the folder again."""
        known = self.known()
        if known is None or known.phase not in ("switched", "verified"):
            phase = known.phase if known else "not begun"
            raise ConfigError(f"{self.into.name} must be switched for readers to go back, not {phase}")
        if known.phase == "switched":
            self._enter("verified", since=None, back=True)

    def step(self, phase: MigrationPhase) -> None:
        """Pass the gate of a phase and enter the phase, unless the table has reached the phase."""
        known = self.known()
        if known is None or _PHASES.index(known.phase) < _PHASES.index(phase):
            if phase == "removed" and known and known.days_over(self.now) < 0:
                raise NotReady(f"{self.into.name}: the files were promised until {known.deadline}")
            for last in (False, False, True):
                since = self._compared() if phase in ("verified", "removed") else None
                try:
                    self._enter(phase, since=since)
                    break
                except Conflict:
                    if last:
                        raise
                    self.begin()
        if phase == "removed":
            self._remove()

    def result(self) -> WriteResult:
        """Return the phase after the steps."""
        state = self.into.table.ledger.state()
        known = self.known(state)
        assert known is not None  # noqa: S101 - backfilled is the first step of all
        side = "the table" if known.phase in ("switched", "removed") else "the folder"
        reason = f"{known.phase} since {known.at[known.phase]}: readers read {side}"
        judged, figures = tuple(self.findings), self.figures
        return WriteResult(
            self.into.name, state.version, self.applied, self.changed, reason, findings=judged, figures=figures
        )

    def _enter(self, phase: MigrationPhase, *, since: int | None, back: bool = False) -> None:
        def entered(state: TableState) -> PhaseState | None:
            known = self.known(state)
            reached = _PHASES.index(known.phase) if known else -1
            if not back and reached >= _PHASES.index(phase):
                return None
            days = self.grace_days if phase == "switched" else None
            run = self.into.run.run_id
            return PhaseState.after(known, phase, self.now, moves=self.moves, run_id=run, grace_days=days)

        note = f"format migration: {phase}, by run {self.into.run.run_id}"
        enter_phase(self.into.table, _KEY, entered, note=note, since=since)
        self.applied = True

    def _compared(self) -> int:
        """Compare the rows of both sides; return the version of the table.

        Raises:
            AuditFailed: if one side has rows that the other one lacks.
        """
        table = self.into.table
        version, files = table.ledger.version(), self.folder.files()
        known = taken_files(table.ledger)
        gone = sorted({*known} - {*files})
        here = {path: size for path, size in known.items() if path in files}
        old, new = rows_digest(self.folder.rows(table, here)), rows_digest(table.read(version=version))
        figures = {"rows_of_folder": old[0], "rows_of_table": new[0]}
        note = f"the folder has {old[0]} rows and the table {new[0]}" + (
            ", of other content" if old[0] == new[0] else ""
        )
        note += f"; {gone[0]} was removed from the folder" if gone else ""
        finding = Finding("both_sides_hold_the_same_rows", old == new, figures=figures, note="" if old == new else note)
        self.figures |= figures
        if not finding.passed:
            raise AuditFailed(f"{self.into.name}: {note}; readers stay where they are", findings=[finding])
        self.findings.append(finding)
        return version

    def _remove(self) -> None:
        """Remove the files that the table took, and the stages of writers."""
        store, known = self.folder.store, taken_files(self.into.table.ledger)
        here = self.folder.files()
        gone = [path for path in here if path in known]
        store.delete(*gone, *[checksum_of(path) for path in gone], tidy=True)
        for name in store.list():
            if Folder.is_own(name):
                store.delete_folder(name)
        self.figures |= {"files_removed": len(gone), "files_left": len(here) - len(gone)}
