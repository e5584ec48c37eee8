"""Tables: the only writer of Delta.

An append or overwrite goes: **stage** (one Spark job writes Parquet inside the table's folder and observes every figure
on the way) -> **audit** the figures -> **publish** under the table's lock (one metadata-only transaction: old files of
the partition out, staged files in, transaction id and commit record with them). Readers see the old or the new
version, never unaudited rows; a crash leaves nothing but a folder.

Merge and delete go the same way: the files that hold the rows to change are rewritten beside the table, audited and
exchanged. Everything works the same in an embedded session and over Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding, Split, WriteResult
from dedp_assets.patterns.core.rows import RowsRead, Tally
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.row_changes import delete_rows, merge_rows, recompute_rows, restore_version
from dedp_assets.patterns.delta.snapshots.stored_spec import require_table, stored_spec, table_name
from dedp_assets.patterns.delta.snapshots.tiers import require_writable
from dedp_assets.patterns.delta.staged_writes import publish_nothing, stage_write
from dedp_assets.patterns.delta.staging.staged_write import StagedWrite
from dedp_assets.patterns.delta.storage.locations import Location

__all__ = ["Table", "Target", "same_run"]


class Table(TableHandle):
    """A Delta table: declaration, location, log, and all write operations.

    Args:
        spec: what the table declares about itself.
        location: where it lies.
        session: a Spark session, or a function that gives one once rows are touched; the ledger needs none.
    """

    stage = stage_write
    merge = merge_rows
    recompute = recompute_rows
    delete = delete_rows
    restore = restore_version

    @classmethod
    def at(cls, location: Location, session: SparkSession | Callable[[], SparkSession], *, name: str = "") -> Table:
        """Open an existing table with the declaration in the log, without altering the table.

        Args:
            location: where it lies.
            session: as for :class:`Table`.
            name: what messages and transaction ids call the table, as whoever else writes it calls it; by default the
                last two names of the location, which is ``layer/dataset``.

        Raises:
            ConfigError: if there is no table, or no declaration can state it.
            ContractError: if the table cannot be read.

        Example:
            >>> orders = table("silver/orders", "id INT, day STRING", (1, "mon"), partition_by=["day"])
            >>> again = Table.at(orders.location, spark)
            >>> again.name, again.spec.partition_by, rows(again)
            ('silver/orders', ('day',), [(1, 'mon')])
        """
        ledger = Ledger(location, name=name or table_name(location))
        require_table(ledger)
        return cls(stored_spec(ledger.name, ledger.state()), location, session)

    def overwrite(
        self,
        rows: DataFrame | Split,
        *,
        partition: Mapping[str, object] | None = None,
        provenance: Provenance,
        audits: Sequence[Audit] = (),
    ) -> WriteResult:
        """Replace all rows of a partition (of the table if none is named) by ``rows``."""
        return self.stage(rows, partition=partition, provenance=provenance, audits=audits).publish()

    def append(self, rows: DataFrame | Split, *, provenance: Provenance, audits: Sequence[Audit] = ()) -> WriteResult:
        """Add rows to the table.

        Raises:
            ConfigError: without ``provenance.sequence``: a retry could not be told from new rows.
        """
        if provenance.sequence is None:
            raise ConfigError(f"an append to {self.name} needs provenance.sequence, or a retry adds its rows twice")
        return self.stage(rows, provenance=provenance, audits=audits, append=True).publish()

    def clear(
        self, *, partition: Mapping[str, object], provenance: Provenance, since: int | None = None
    ) -> WriteResult:
        """Empty a partition without starting Spark; ``since`` as in :meth:`StagedWrite.publish`."""
        owned = require_writable(self.name, self.ensure(), partition)
        return publish_nothing(self, owned, provenance, since=since)

    def mark(self, *, provenance: Provenance) -> WriteResult:
        """Move the table's cursor to ``provenance.sequence`` without rows, for an empty upstream."""
        self.ensure()
        return publish_nothing(self, {}, provenance, append=True)

    @typed
    def target(
        self,
        run: Provenance | str,
        *,
        partition: Mapping[str, object] | None = None,
        audits: Sequence[Audit] = (),
        inputs: Mapping[str, Any] | None = None,
        sequence: int | None = None,
        rows_read: RowsRead = RowsRead(),  # noqa: B008 - frozen
    ) -> Target:
        """Make the target of a write to this table.

        Args:
            run: who writes, from which inputs, and why; of a text, the run's id.
            partition: partition column -> value, of the partition that the write owns; nothing for the whole table. For
                a table with executions (``TableSpec.executed_by``), its name -> the execution.
            audits: rules that the rows must pass before the commit.
            inputs: upstream name -> version or content identity that was read, where ``run`` is an id.
            sequence: upstream version that the write applies, where ``run`` is an id.
            rows_read: facts about the rows that the run read, for the row accounting.

        Raises:
            ConfigError: if ``run`` has inputs or a sequence of its own.

        Example:
            >>> orders = table("orders", "id INT, day STRING", partition_by=["day"])
            >>> into = orders.target("nightly-17", partition={"day": "mon"}, inputs={"orders.csv": "sha256:5feceb66"})
            >>> into.run.asset, into.run.run_id
            ('orders', 'nightly-17')
        """
        if isinstance(run, str):
            run = Provenance(asset=self.name, run_id=run, inputs=inputs or {}, sequence=sequence)
        elif inputs is not None or sequence is not None:
            raise ConfigError(f"{self.name}: inputs= and sequence= must be part of run, which is a Provenance here")
        return Target(self, run, dict(partition or {}), tuple(audits), rows_read)


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of a write: table, partition to replace, run, audits; made by ``Table.target``.

    Attributes:
        table: the table to write.
        run: who writes, from which inputs, and why; stored in the commit.
        partition: partition column -> value, of the partition that the write owns; empty for the whole table. For a
            table with executions (``TableSpec.executed_by``) it names the execution.
        audits: rules that the rows must pass before the commit; the table's constraints are checked in any case.
        rows_read: facts about the rows that the run read, for the row accounting.
    """

    table: Table
    run: Provenance
    partition: Mapping[str, Any] = field(default_factory=dict)
    audits: tuple[Audit, ...] = ()
    rows_read: RowsRead = RowsRead()  # noqa: RUF009 - frozen

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.table.name

    @property
    def execution(self) -> str:
        """Key of the write's execution; empty for a table without executions, or without a named key."""
        name = self.table.spec.executed_by
        return str(self.partition.get(name, "")) if name else ""

    @property
    def owned(self) -> Mapping[str, Any]:
        """The partition that the write owns, without the execution; empty for the whole table."""
        executed_by = self.table.spec.executed_by
        return {name: value for name, value in self.partition.items() if not executed_by or name != executed_by}

    def by(self, pattern: str, *takes: str) -> Target:
        """Return the target with the writing pattern's name, unless the run names a pattern.

        Args:
            pattern: ``chapter.module``.
            takes: parts of a target that the pattern uses, of ``partition``, ``execution``, ``audits``, ``rows_read``.

        Raises:
            ConfigError: for a target with another of these parts: the pattern would ignore it.
        """
        given_parts = {
            "partition": bool(self.owned),
            "execution": bool(self.execution),
            "audits": bool(self.audits),
            "rows_read": self.rows_read != RowsRead(),
        }
        if ignored := [name for name, given in given_parts.items() if given and name not in takes]:
            raise ConfigError(f"{self.name}: the target of {pattern} must have no {' and no '.join(ignored)}")
        return replace(self, run=self.run.by(pattern))

    def stage(
        self, rows: DataFrame | Split, *, keep: str = "valid", also: Sequence[str] = (), append: bool = False
    ) -> StagedWrite:
        """Stage and audit rows, without a commit; options and errors as in ``Table.stage``."""
        return self.table.stage(
            rows,
            partition=self.owned,
            provenance=self.run,
            audits=self.audits,
            rows_read=self.rows_read,
            keep=keep,
            also=also,
            append=append,
        )

    def with_audits(self, *audits: Audit) -> Target:
        """Return this target with further audits before the present audits, without duplicates."""
        return replace(self, audits=(*audits, *(audit for audit in self.audits if audit not in audits)))

    def noting(self, notes: Mapping[str, Any]) -> Target:
        """Return this target with further notes for the commit record."""
        return replace(self, run=replace(self.run, notes={**self.run.notes, **notes}))

    def reading(
        self,
        tally: Tally | None = None,
        *,
        figures: Mapping[str, Any] | None = None,
        represented: str = "",
        findings: Sequence[Finding] = (),
    ) -> Target:
        """Return this target with facts about the rows that the run read.

        Args:
            tally: counts rows where they are read (:func:`~dedp_assets.patterns.core.rows.tally`).
            figures: numbers known from elsewhere, by name, for audits to judge or to divide by (``read`` among them).
            represented: figure with the number of read rows that the written rows stand for (aggregates).
            findings: verdicts on the input, reached before anything was computed.
        """
        return replace(self, rows_read=RowsRead(tally, figures or {}, represented, tuple(findings)))


def same_run(into: Target, *others: Target) -> None:
    """Refuse targets of different runs: all writes of a pattern belong to a single run.

    Notes may differ: they belong to the commit of one table (:meth:`Target.noting`).

    Raises:
        ConfigError: names the two tables.
    """
    for other in others:
        if replace(other.run, notes=into.run.notes) != into.run:
            raise ConfigError(f"the targets {into.name} and {other.name} must be of one run, not of two")
