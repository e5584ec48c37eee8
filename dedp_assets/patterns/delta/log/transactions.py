"""Transaction ids of a table: the cursors of partitions, and the generation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dedp_assets.patterns.core.records import slice_name

__all__ = ["Cursor", "Cursors", "Transactions", "generation_id", "transaction_id"]

Cursor = Literal["", "appends", "runs"]
"""Which of a partition's cursors: of writes at an upstream version, of appends, of writes without such a version."""


class Cursors(ABC):
    """Transaction ids of a table, read as cursors of partitions."""

    @abstractmethod
    def transaction(self, app_id: str) -> int | None:
        """Return the last version applied under the transaction id ``app_id``; survives log cleanup."""

    def applied(self, table: str, partition: Mapping[str, str]) -> int | None:
        """Return the upstream version that ``partition`` of ``table`` was last computed from."""
        return max((v for v in self._versions_of(table, partition, "", "appends") if v is not None), default=None)

    def reached(self, table: str, partition: Mapping[str, str]) -> int | None:
        """Return the last upstream version applied to ``partition``, in the newest generation with a write.

        A restore begins a generation, and leaves what it does not roll back as an earlier one wrote it.
        """
        return next(self.reached_each(table, [partition]))

    def reached_each(self, table: str, partitions: Iterable[Mapping[str, str]]) -> Iterator[int | None]:
        """Yield the last applied upstream version, as :meth:`reached`, of each partition."""
        newest, look_up = self.generation(table), self.transaction
        for partition in partitions:
            found, generation, written = None, newest, f"{table}/{slice_name(partition)}/"
            while found is None and generation >= 0:
                replaced = look_up(f"{written}{generation}")
                appended = look_up(f"{written}{generation}:appends")
                if replaced is None or appended is None:
                    found = appended if replaced is None else replaced
                else:
                    found = max(replaced, appended)
                generation -= 1
            yield found

    def written(self, table: str, partition: Mapping[str, str]) -> bool:
        """Return whether the library wrote ``partition`` in this generation, with or without a version."""
        return any(v is not None for v in self._versions_of(table, partition, "", "appends", "runs"))

    def _versions_of(self, table: str, partition: Mapping[str, str], *kinds: Cursor) -> Iterator[int | None]:
        generation = self.generation(table)
        return (self.transaction(transaction_id(table, partition, generation, kind)) for kind in kinds)

    def generation(self, table: str) -> int:
        """Count how often the table was restored."""
        return self.transaction(generation_id(table)) or 0


@dataclass(frozen=True)
class Transactions(Cursors):
    """Transaction cursors of a table without the remaining state.

    Attributes:
        by_id: transaction id -> version.
        before: cursors of an earlier version, for other ids.
    """

    by_id: Mapping[str, int] = field(default_factory=dict, repr=False)
    before: Cursors | None = field(default=None, repr=False)

    def transaction(self, app_id: str) -> int | None:
        """Return the last version applied under the transaction id ``app_id``."""
        found = self.by_id.get(app_id)
        return self.before.transaction(app_id) if found is None and self.before else found


def generation_id(table: str) -> str:
    """Name the Delta transaction id that counts a table's generations, raised at each restore."""
    return f"{table}/generation"


def transaction_id(table: str, partition: Mapping[str, str], generation: int, kind: Cursor = "") -> str:
    """Name the Delta transaction id of a partition's writes: ``table/partition/generation``.

    Writes that replace rows at an upstream version, appends (``appends``), and writes that only count their runs
    (``runs``) have ids of their own, so no kind uses up a version that another kind needs.
    """
    return f"{table}/{slice_name(partition)}/{generation}{f':{kind}' if kind else ''}"
