"""Target: the destination of a write, with everything that a run, and no pattern, decides about the write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding, Split
from dedp_assets.patterns.core.rows import RowsRead, Tally

if TYPE_CHECKING:  # a table makes its targets, so that it stands above them
    from pyspark.sql import DataFrame

    from dedp_assets.patterns.delta.tables import Table
    from dedp_assets.patterns.delta.writes import StagedWrite

__all__ = ["Target", "same_run"]


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a write: a table, the partition to replace, the run, its audits. ``Table.target`` makes one.

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
        """The key of the execution that the write is; empty for a table without executions, or if none is named."""
        name = self.table.spec.executed_by
        return str(self.partition.get(name, "")) if name else ""

    @property
    def owned(self) -> Mapping[str, Any]:
        """The partition that the write owns, without the execution; empty for the whole table."""
        executed_by = self.table.spec.executed_by
        return {name: value for name, value in self.partition.items() if not executed_by or name != executed_by}

    def by(self, pattern: str, *takes: str) -> Target:
        """Name the pattern that writes, unless the run names one already.

        Args:
            pattern: ``chapter.module``.
            takes: parts of a target that the pattern uses, of ``partition``, ``execution``, ``audits``, ``rows_read``.

        Raises:
            ConfigError: for a target with another of these parts: the pattern would ignore it.
        """
        has = {
            "partition": bool(self.owned),
            "execution": bool(self.execution),
            "audits": bool(self.audits),
            "rows_read": self.rows_read != RowsRead(),
        }
        if ignored := [name for name, given in has.items() if given and name not in takes]:
            raise ConfigError(f"{self.name}: the target of {pattern} must have no {' and no '.join(ignored)}")
        return replace(self, run=self.run.by(pattern))

    def stage(
        self, rows: DataFrame | Split, *, keep: str = "valid", also: Sequence[str] = (), append: bool = False
    ) -> StagedWrite:
        """Write rows beside the table and judge them, publishing nothing; options and errors as ``Table.stage``."""
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
        """Return this target with further audits, before the present ones; an equal one is not added twice."""
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
    """Refuse targets of different runs: what a pattern writes to several tables is one run's.

    Raises:
        ConfigError: names the two tables.
    """
    for other in others:
        if other.run != into.run:
            raise ConfigError(f"the targets {into.name} and {other.name} must be of one run, not of two")
