"""Handle of a table: declaration, location, log, Spark session, and rows at a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.leaving import require_open_partitions
from dedp_assets.patterns.core.names import NAMED_ROWS
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.running.disks import writing_to
from dedp_assets.patterns.core.running.opening import note_opened
from dedp_assets.patterns.core.running.permissions import require_allowed
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.sql_options import reason_of
from dedp_assets.patterns.delta.commit import commits, spark_writer
from dedp_assets.patterns.delta.commit.creation import doubtful_checks, first_commit
from dedp_assets.patterns.delta.commit.file_exchange import serves
from dedp_assets.patterns.delta.commit.sessions import private, require_literals
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.moments import version_at
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import (
    alterations,
    creation,
    require_open,
    require_partition,
    require_usable,
)
from dedp_assets.patterns.delta.snapshots.lost_files import lost_files, lost_files_message
from dedp_assets.patterns.delta.snapshots.reading import bytes_of, missing_files, read_at
from dedp_assets.patterns.delta.snapshots.tiers import placed
from dedp_assets.patterns.delta.storage.coordination import require_lock, turn
from dedp_assets.patterns.delta.storage.locations import Located, Location, require_vacant
from dedp_assets.patterns.delta.storage.store import require
from dedp_assets.patterns.delta.suppression import SuppressionList, subjects_of

__all__ = ["ERASURES", "TableHandle"]

ERASURES = "erasures"
"""Note of a write: the state of the suppression list by which rows were left out."""


class TableHandle(Located):
    """Handle of a table: declaration, location, log, creation, and rows at a version.

    Args:
        spec: what the table declares about itself.
        location: where it lies.
        session: a Spark session, or a function that gives one once rows are touched; the ledger needs none.
    """

    def __init__(self, spec: TableSpec, location: Location, session: SparkSession | Callable[[], SparkSession]) -> None:
        self.spec = spec
        self.name = spec.name
        self.ledger = Ledger(location, name=spec.name)
        self.store = self.ledger.store
        self._session = session
        self.on_rows: Callable[[Callable[[], DataFrame]], None] | None = None
        """Callback with a function that returns the staged or merged rows; the callback starts no Spark job."""
        self.suppression: SuppressionList | None = None
        """Erased persons, whose rows are left out of every write."""
        self.named_in_plans = True
        """Whether rows that are read have the table's name in query plans, which costs an analysis."""

    @property
    def session(self) -> SparkSession:
        """The Spark session, started on access if need be.

        Raises:
            ConfigError: for one whose settings change what SQL texts say.
        """
        session = self._session() if callable(self._session) else self._session
        require_literals(session)
        return session

    def read(
        self,
        *partitions: Mapping[str, object],
        version: int | str | None = None,
        broadcast_bytes: int | None = None,
    ) -> DataFrame:
        """Read the rows at a pinned version (the newest if ``None``), of the named partitions if any; lazy.

        A text names the version by an instant or a milestone, as :func:`version_at` reads it.

        Up to 10,000 rows (and 1 MB of files) are one task: whoever calls a slow service for each repartitions them.
        In a query plan the rows have the table's name, behind :data:`NAMED_ROWS`: files have none.

        Args:
            partitions: partitions to read; all, if none is named.
            version: version to read, the newest if ``None``.
            broadcast_bytes: size of the files by the log, in bytes, up to which a join sends the rows to every executor
                and leaves the other side where it lies (the guide's broadcast join); above, a join sorts both sides by
                key. Spark chooses by an estimate of its own if ``None``.

        Raises:
            ConfigError: if a vacuum removed files of that version, and its rows are no longer the current ones; if rows
                of a named partition lie on a storage tier that is not read; or for ``broadcast_bytes`` below 0.
            ContractError: if files of the pinned version are lost that its rows are still current in.
        """
        if broadcast_bytes is not None and broadcast_bytes < 0:
            raise ConfigError(f"broadcast_bytes must be at least 0, not {broadcast_bytes}")
        require_allowed("read", self.store.address)
        version = version_at(self.ledger, version) if isinstance(version, str) else version
        state = self.ledger.state(version)
        named = [self._spelled(state, partition) for partition in partitions]
        if version is not None and (gone := missing_files(self.store, state, named)):
            state = self._same_rows(state, named, gone)
        note_opened(self.spec, self.store.uri, state.version, named)
        rows = read_at(self.session, self.store, state, named)
        elsewhere = placed(self.name, state, named)
        for part in elsewhere:
            rows = rows.unionByName(part.rows(self.session, self.name, state, named), allowMissingColumns=True)
        if broadcast_bytes is not None and not elsewhere:
            rows = rows.hint("broadcast" if bytes_of(state, named) <= broadcast_bytes else "merge")
        return rows.alias(f"{NAMED_ROWS}{self.name}") if self.named_in_plans else rows

    def stream(self, *, schema_log: str = "") -> DataFrame:
        """Stream the rows that commits add, from the present rows on; skip commits that replace rows.

        Args:
            schema_log: folder below the query's checkpoint where Delta keeps the columns that the stream has reached. A
                change of columns (added, renamed, dropped) then stops the query once, and the query goes on when it is
                started again. Without the folder a query that meets a dropped column is refused for good.
        """
        require_allowed("read", self.store.address)
        note_opened(self.spec, self.store.uri, None)
        # The stop is the warning that Delta means: whoever names the folder allows what follows.
        allowed = {"allowSourceColumnRename": "always", "allowSourceColumnDrop": "always"}
        tracked = {"schemaTrackingLocation": schema_log, **allowed} if schema_log else {}
        reader = self.session.readStream.format("delta").options(skipChangeCommits="true", **tracked)
        return reader.load(self.store.address)

    def shown(self, rows: DataFrame, *, whole: bool = True) -> DataFrame:
        """Pass rows with all columns of the table to :attr:`on_rows`, and return the rows."""
        if self.on_rows and whole:
            self.on_rows(lambda: rows)
        return rows

    def without_erased(self, source: DataFrame, *, deleting: bool = False) -> tuple[DataFrame, str | None]:
        """Leave out the rows of erased persons from the source of a merge; lazy.

        Args:
            source: rows with some of the table's columns.
            deleting: whether the merge only deletes; then all rows stay.

        Returns:
            The rows, and the state of the list before it was read: whoever is erased later is found by the publish,
            which compares the states. ``None`` for a merge that only deletes.
        """
        if deleting:
            return source, None
        state = self.erasures()
        return (self.suppression.left_out(source, self.spec) if self.suppression and state else source), state

    def noting_erasures(self, run: Provenance) -> Provenance:
        """Return the run with a note of the suppression list's state, if somebody is on the list."""
        state = self.erasures()
        return replace(run, notes={**run.notes, ERASURES: state}) if state else run

    def erasures(self) -> str:
        """Return the state of the suppression list; empty for a table without persons."""
        return self.suppression.state() if self.suppression and subjects_of(self.spec) else ""

    def _spelled(self, state: TableState, partition: Mapping[str, object]) -> dict[str, str | None]:
        """Spell a partition as the log does, NULL values included."""
        known = require_partition(self.name, state, {c: v for c, v in partition.items() if v is not None})
        missing = state.spelled({c: None for c, v in partition.items() if v is None})
        if foreign := [c for c in missing if c not in state.kinds]:
            raise ConfigError(f"{self.name} is partitioned by {list(state.partition_columns)}, not by {foreign}")
        return {**missing, **known}

    def _same_rows(
        self, state: TableState, partitions: Sequence[Mapping[str, str | None]], gone: Sequence[str]
    ) -> TableState:
        """Return the newest state if no rows changed since: compaction exchanges files and keeps the rows."""
        head, changed = self.ledger.changes(since=state.version, expired=True)
        for key in map(dict, changed):
            if any(all(key.get(c) == value for c, value in named.items()) for named in partitions or [{}]):
                raise self.vacuumed(state.version, gone)
        current = self.ledger.state(head)
        if lost := lost_files(self.store, current, *partitions):
            raise ContractError(f"{lost_files_message(self.name, lost)}: `dedp verify` names what repairs it")
        return current

    def vacuumed(self, version: int, gone: Sequence[str]) -> ConfigError:
        """Build the error of a version with files that a vacuum removed."""
        return ConfigError(
            f"{self.name} can no longer be read at version {version}: a vacuum removed {len(gone)} of its files. Take "
            "a newer version; what shall stay readable for longer needs a longer retention"
        )

    def ensure(self) -> TableState:
        """Create the table, or alter the table to the declaration, in separate commits.

        Nothing is committed if table and declaration agree.

        Raises:
            SchemaMismatch: if only a migration could make them agree.
            ConfigError: if no table can be made as declared, or where it is declared to lie, or the table is closed.
        """
        require(self.store, "put_if_absent")
        if self.ledger.exists():
            state = self.ledger.state()
            require_open(self.name, state)
            if not serves(state):
                require_lock(self.store)
            if not list(alterations(self.spec, self.store.address, state)):
                return state
        else:
            require_vacant(self.name, self.store)
        with turn(self.store):
            # Looked at again under the lock: another writer may have been here first.
            if not self.ledger.exists():
                self._create()
            state = self.ledger.state()
            if altered := list(alterations(self.spec, self.store.address, state)):
                require_usable(self.spec, self.session)
                self.define(altered)
                state = self.ledger.state()
            return state

    def _create(self) -> None:
        """Create the table by the first commit, without Spark where the result is certain to be the same."""
        require_open_partitions(self.spec.name, self.spec.columns, self.spec.partition_by)
        first = first_commit(self.spec)
        if first is None or doubtful_checks(self.spec):
            require_usable(self.spec, self.session)
        if first is None:
            self.define(creation(self.spec, self.store.address))
            return
        # Whoever knows no lock and was faster created it.
        with suppress(Conflict):
            commits.write(self.store, 0, first)

    def define(self, statements: Iterable[str]) -> None:
        """Run SQL statements that create or alter the table.

        Raises:
            ConfigError: if Spark refuses one; rows that break a new constraint are a ``ContractError``.
        """
        found = list(statements)
        if not found:
            return
        require_lock(self.store)
        try:
            with writing_to(self.store.address), private(self.session, {}) as own:
                for statement in found:
                    own.sql(statement)
        except PySparkException as error:
            if spark_writer.is_conflict(error):
                raise
            kind = ContractError if spark_writer.violation(error) else ConfigError
            raise kind(f"{self.name} cannot be made as it is declared: {reason_of(error)}") from error
