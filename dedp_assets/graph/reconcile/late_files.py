"""Landed files behind late records, by the commits that loaded them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from dedp_assets.graph.declare.runs import OnDelivery
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import PARTITION, Landing
from dedp_assets.patterns.core.errors import PatternError

__all__ = ["LateFiles"]

_SHOWN = 3


class LateFiles:
    """Landed files behind the versions of tables, by the commit records and the landing zone.

    Args:
        tables: the declared tables of the graph.
        lake: the tables.
        landing: what was delivered.
    """

    def __init__(self, tables: Sequence[LakeTable[...]], lake: Lake, landing: Landing) -> None:
        self._tables = {spec.name: table for table in tables for spec in table.tables}
        self._lake, self._landing = lake, landing
        self.of_version = cache(self._of_version)

    def of_key(self, table: str, key: str) -> tuple[str, ...]:
        """Return the files of a delivery: those that came late, otherwise all of them.

        Args:
            table: a table that loads deliveries.
            key: its partition key.
        """
        found = []
        for each in self._tables[table].runs.of(OnDelivery):
            with suppress(PatternError, OSError):
                delivery = self._landing.delivery(each.dataset, key, ends=each.ends)
                folder = each.dataset.replace(PARTITION, key) if PARTITION in each.dataset else f"{each.dataset}/{key}"
                found += [f"{folder.rstrip('/')}/{file.name}" for file in delivery.late or delivery.files]
        return _shortened(found)

    def of_changes(self, changes: Mapping[str, int]) -> tuple[str, ...]:
        """Return the files behind the versions of upstream tables: table -> version."""
        return tuple(
            dict.fromkeys(file for name, version in changes.items() for file in self.of_version(name, version))
        )

    def _of_version(self, table: str, version: int) -> tuple[str, ...]:
        """Return the files behind one commit: of the delivery that it loaded, or of what its run read."""
        declared = self._tables.get(table)
        try:
            record = self._lake.ledger(table).commit(version).record
        except PatternError:
            return ()
        if declared is None or record is None:
            return ()
        if declared.lands:
            return self.of_key(table, next(iter(record.partition.values()), ""))
        read = {name: each for name, each in record.inputs.items() if isinstance(each, int) and name in self._tables}
        return self.of_changes(read)


def _shortened(files: Sequence[str]) -> tuple[str, ...]:
    more = [f"and {len(files) - _SHOWN} more"] if len(files) > _SHOWN else []
    return (*files[:_SHOWN], *more)
