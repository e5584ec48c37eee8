"""Domino of misses: the tables whose own trouble explains the troubles of tables downstream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement

__all__ = ["Troubles", "reached_from"]


def reached_from(edges: Mapping[str, Sequence[str]], start: str) -> list[str]:
    """List the tables that edges lead to from a table, nearest first, without the table itself."""
    found: dict[str, None] = {start: None}
    nearest = [start]
    while nearest:
        further = sorted({to for each in nearest for to in edges.get(each, ())} - found.keys())
        found.update(dict.fromkeys(further))
        nearest = further
    return [each for each in found if each != start]


@dataclass(frozen=True)
class Troubles:
    """The troubles of a round by table, and the lineage between the tables.

    Attributes:
        by_table: table -> its troubles.
        upstream: table -> tables that it reads.
    """

    by_table: Mapping[str, Sequence[Measurement]]
    upstream: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, measured: Measured, downstream: Mapping[str, Sequence[str]]) -> Troubles:
        """Collect the troubles, with the lineage turned around."""
        by_table: dict[str, list[Measurement]] = {}
        for each in measured.troubles:
            by_table.setdefault(each.table, []).append(each)
        upstream: dict[str, list[str]] = {}
        for table, readers in downstream.items():
            for reader in readers:
                upstream.setdefault(reader, []).append(table)
        return cls(by_table, upstream)

    def root_of(self, trouble: Measurement) -> str:
        """Return the table that explains a trouble in the end; empty for a trouble of the table's own."""
        root = self._root(trouble.explained_by) if trouble.explained_by else ""
        return "" if root == trouble.table else root

    def _root(self, table: str) -> str:
        """Follow the causes of a table up to a table with an unexplained trouble, or without a trouble."""
        seen: list[str] = []
        while table not in seen:
            seen.append(table)
            cause = self._cause(table)
            if not cause:
                return table
            table = cause
        # The causes go round in a circle: one table of it stands for all, the same wherever the way began.
        circle = [each for each in seen[seen.index(table) :] if each in self.by_table]
        return min(circle, key=lambda each: (min(map(_begun, self.by_table[each])), each))

    def _cause(self, table: str) -> str:
        """Return the next table towards the root; empty at the root."""
        found = self.by_table.get(table, ())
        if any(not each.explained_by for each in found):
            return ""
        if found:
            return min(found, key=_begun).explained_by
        return next((each for each in reached_from(self.upstream, table) if each in self.by_table), "")


def _begun(trouble: Measurement) -> tuple[datetime, str]:
    return (trouble.since or trouble.at, trouble.partition)
