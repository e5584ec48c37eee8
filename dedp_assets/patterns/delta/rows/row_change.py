"""Changes of stored rows: the request, the plan of a change, the files and rows that it rewrites."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.rows.grounds import Ground, ground_of

__all__ = ["ChangeRequest", "Rewrite", "RowChange"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The files that a change replaces, and the rows that take their place.

    Attributes:
        removed: the files whose rows are written anew; they leave the table.
        rows: the rows of them, and every row that is new, with its outcome: inserted, updated, deleted, kept (as it
            was) or unused (a row of the source that changes nothing).
        others: the rest of their rows, kept without a look at them; ``None`` if ``rows`` are all.
        in_one_task: whether all rows are few enough to become one file.
    """

    removed: Sequence[KeyedFile]
    rows: DataFrame
    others: DataFrame | None = None
    in_one_task: bool = False


class RowChange(Protocol):
    """A change of rows that are in the table."""

    @property
    def operation(self) -> str:
        """Delta's name of the operation, as the log states it."""

    @property
    def content(self) -> str:
        """A text that tells this change from others."""

    @property
    def source(self) -> int | None:
        """The number of rows that it brings, ``None`` if it brings no rows."""

    def candidates(self, state: TableState) -> list[KeyedFile]:
        """List the files that may hold rows to change."""

    def plan(self, state: TableState, files: Sequence[KeyedFile]) -> AbstractContextManager[Rewrite]:
        """Plan what to do with ``files``, while the block lasts; may start a job that looks for the touched ones."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A request to change a table: who asks, and under which rules.

    Attributes:
        owned: partition values that every row lies in, before and after.
        provenance: who, from what, and why.
        audits: rules over the rows that are inserted or updated.
        execution: the execution that it is, of those that all change the whole table.
        due: executions that have to be in the rows before it; ``None`` if their order is no matter.
        since: version of the table that the change was computed from, if it was.
    """

    owned: Mapping[str, str]
    provenance: Provenance
    audits: Sequence[Audit] = ()
    execution: Mapping[str, str] = field(default_factory=dict)
    due: Collection[str] | None = None
    since: int | None = None

    @property
    def about(self) -> Mapping[str, str]:
        """The partition or the execution that the commit is of."""
        return self.execution or self.owned

    def record(self, content: str) -> CommitRecord:
        """Make the record of the commit, as far as it is known before."""
        return CommitRecord.of(self.provenance, content=content, owned=self.about)

    def ground(self, table: TableHandle, content: str) -> Ground:
        """Find what the change is made on: the table as it is, or what it was before an execution."""
        return ground_of(table, self.record(content), self.due)
