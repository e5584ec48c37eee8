"""Changes of stored rows: the request, the plan, and the files and rows to rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.rows.base_snapshot import BaseSnapshot, FindBase, newest_snapshot

__all__ = ["Rewrite", "RowChange", "RowChangeRequest"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files that a change replaces, and the replacement rows.

    Attributes:
        removed: the files whose rows are written anew; they leave the table.
        rows: the rows of them, and every row that is new, with its outcome: inserted, updated, deleted, kept (as it
            was) or unused (a row of the source that changes nothing).
        others: the rest of their rows, kept without a look at them; ``None`` if ``rows`` are all.
        in_one_task: whether all rows are few enough to become one file.
        placed: whether rows that were there before say their place, so that deletion vectors can take them out:
            then ``removed`` are the files of these rows, and kept rows stay where they are.
    """

    removed: Sequence[KeyedFile]
    rows: DataFrame
    others: DataFrame | None = None
    in_one_task: bool = False
    placed: bool = False


class RowChange(Protocol):
    """A change of rows that are in the table."""

    @property
    def operation(self) -> str:
        """Delta's name of the operation in the log."""

    @property
    def content(self) -> str:
        """A text that identifies the change."""

    @property
    def source(self) -> int | None:
        """The number of source rows; ``None`` for a change without a source."""

    def candidates(self, state: TableState) -> list[KeyedFile]:
        """List the files that may hold rows to change."""

    def plan(self, state: TableState, files: Sequence[KeyedFile], *, placed: bool) -> AbstractContextManager[Rewrite]:
        """Plan the rewrite of ``files`` for the time of a block; may start a job to find touched files.

        ``placed`` asks for rows with places, for a change by deletion vectors.
        """


@dataclass(frozen=True, slots=True)
class RowChangeRequest:
    """Request for a change of a table: partition or execution, provenance, audits.

    Attributes:
        owned: partition values that every row lies in, before and after.
        provenance: who, from what, and why.
        audits: rules over the rows that are inserted or updated.
        execution: the execution that it is, of those that all change the whole table.
        find_base: finds the snapshot whose rows are changed.
        since: version of the table that the change was computed from, if it was.
        meter: what the change has cost so far.
        erasures: state of the suppression list by which rows were left out; ``None`` for a change that brings no row.
    """

    owned: Mapping[str, str]
    provenance: Provenance
    audits: Sequence[Audit] = ()
    execution: Mapping[str, str] = field(default_factory=dict)
    find_base: FindBase = newest_snapshot
    since: int | None = None
    meter: Meter = field(default_factory=Meter)
    erasures: str | None = None

    @property
    def about(self) -> Mapping[str, str]:
        """The execution or, without an execution, the owned partition, for the commit record."""
        return self.execution or self.owned

    def record(self, content: str) -> CommitRecord:
        """Build the commit record, with the fields known before the write."""
        return CommitRecord.of(self.provenance, content=content, owned=self.about)

    def base(self, table: TableHandle, content: str) -> BaseSnapshot:
        """Find the base snapshot of the change."""
        return self.find_base(table, self.record(content))
