"""Names and columns that are known at a step of a chain, before a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from dedp_assets.components.chains.steps import INTO, ROWS
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["StepScope"]


@dataclass
class StepScope:
    """Names that a step may use, and known facts of the rows at the step.

    Attributes:
        table: the declared table.
        upstream: name of an upstream table -> its declaration.
        beside: further tables that are written, by name.
        named: name of an earlier result -> whether it is a split.
        columns: columns of the rows of the step before, where they are known.
        split: whether the step before returned a split.
        rows: whether there are rows of a step before, or of the only upstream table.
        tallied: whether a tally counts the rows read.
        writes_split: whether the last step writes a split, whose rows may have more columns than the table.
        unsure: whether a step before has a fault, so that a name may be its result.
    """

    table: TableSpec
    upstream: Mapping[str, TableSpec]
    beside: Mapping[str, TableSpec]
    named: dict[str, bool] = field(default_factory=dict)
    columns: Mapping[str, Any] | None = None
    split: bool = False
    rows: bool = False
    unsure: bool = False
    tallied: bool = False
    writes_split: bool = False

    @property
    def values(self) -> list[str]:
        """Names of values in SQL and Python."""
        owned = self.table.executed_by or next(iter(self.table.partition_by), "")
        return [*([ROWS] if self.rows else []), *self.upstream, *self.named, *([owned] if owned else [])]

    def columns_of(self, name: str) -> Mapping[str, Any] | None:
        """Return the columns of an upstream table by name.

        Returns:
            The columns; ``None`` for the name of an earlier result, whose columns only a run knows.
        """
        return self.upstream[name].columns if name in self.upstream else None

    def tables(self, takes: str) -> Mapping[str, Collection[str] | None]:
        """Return the names of rows in SQL, with columns or ``None``.

        Args:
            takes: name of what a step takes instead of the rows of the step before.
        """
        named = [*self.named, *self.upstream]
        rows = self.columns_of(takes) if takes else self.columns
        found = {ROWS: rows, **{name: self.columns_of(name) for name in named}}
        return dict.fromkeys(found) if self.unsure else found

    def is_split(self, name: str) -> bool:
        """Return whether a name, or the rows of the step before, are a split."""
        return self.named.get(name, False) if name else self.split

    def has(self, name: str) -> bool:
        """Return whether a name may be used."""
        return self.unsure or name in self.values

    @property
    def targets(self) -> list[str]:
        """Names of targets in Python."""
        return [INTO, *(name.rpartition("/")[2] for name in self.beside)]
