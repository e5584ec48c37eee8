"""Transaction ids of a table, and the cursors of its partitions that they hold."""

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
    """The transaction ids of a table, and what they say about its partitions."""

    @abstractmethod
    def transaction(self, app_id: str) -> int | None:
        """Look up the last version applied under ``app_id``, which survives the cleanup of the log."""

    def applied(self, table: str, partition: Mapping[str, str]) -> int | None:
        """Look up the upstream version that ``partition`` of ``table`` was last computed from: its cursor."""
        return max((v for v in self._versions_of(table, partition, "", "appends") if v is not None), default=None)

    def reached(self, table: str, partition: Mapping[str, str]) -> int | None:
        """Look up the upstream version that ``partition`` applied last, in the newest generation that wrote it.

        A restore begins a generation, and leaves what it does not roll back as an earlier one wrote it.
        """
        return next(self.reached_each(table, [partition]))

    def reached_each(self, table: str, partitions: Iterable[Mapping[str, str]]) -> Iterator[int | None]:
        """Find what :meth:`reached` finds, for one partition after the other."""
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
        """Tell whether the library wrote ``partition`` in this generation of ``table``, with or without a version."""
        return any(v is not None for v in self._versions_of(table, partition, "", "appends", "runs"))

    def _versions_of(self, table: str, partition: Mapping[str, str], *kinds: Cursor) -> Iterator[int | None]:
        generation = self.generation(table)
        return (self.transaction(transaction_id(table, partition, generation, kind)) for kind in kinds)

    def generation(self, table: str) -> int:
        """Count how often the table was restored."""
        return self.transaction(generation_id(table)) or 0


@dataclass(frozen=True)
class Transactions(Cursors):
    """The transaction cursors of a table without the rest of its state; ``by_id`` maps each id to its version."""

    by_id: Mapping[str, int] = field(default_factory=dict, repr=False)

    def transaction(self, app_id: str) -> int | None:
        """Look up the last version applied under ``app_id``."""
        return self.by_id.get(app_id)


def generation_id(table: str) -> str:
    """Name the Delta transaction id under which a table counts its generations: one more at each restore."""
    return f"{table}/generation"


def transaction_id(table: str, partition: Mapping[str, str], generation: int, kind: Cursor = "") -> str:
    """Name the Delta transaction id of what is written to one partition: ``table/partition/generation``.

    Writes that replace rows at an upstream version, appends (``appends``), and writes that only count their runs
    (``runs``) have ids of their own, so no kind uses up a version that another kind needs.
    """
    return f"{table}/{slice_name(partition)}/{generation}{f':{kind}' if kind else ''}"
