"""Landed files behind late records, by the commits of loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from dedp_assets.graph.declare.runs import OnDelivery
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import PARTITION, Landing
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.delta import Ledger

__all__ = ["LateFiles"]

_SHOWN = 3
_SOURCE = "source_file"
"""Column of landed rows with the name of the landing file."""


class LateFiles:
    """Landed files behind the newest changes of upstream tables, by the logs and the landing zone.

    Args:
        tables: the declared tables of the graph.
        lake: the tables.
        landing: what was delivered.
    """

    def __init__(self, tables: Sequence[LakeTable[...]], lake: Lake, landing: Landing) -> None:
        self._tables = {spec.name: table for table in tables for spec in table.tables}
        self._landing = landing
        self._ledger = cache(lake.ledger)

    def of_delivery(self, table: str, key: str, names: Sequence[str] = ()) -> list[str]:
        """List the files of a delivery: the named files, or else the late files, or else all.

        Args:
            table: a table that loads deliveries.
            key: its partition key.
            names: names of files, as far as known.
        """
        found: list[str] = []
        for each in self._tables[table].runs.of(OnDelivery):
            with suppress(PatternError, OSError):
                delivery = self._landing.delivery(each.dataset, key, ends=each.ends)
                named = [file for file in delivery.files if file.name in names]
                folder = each.dataset.replace(PARTITION, key) if PARTITION in each.dataset else f"{each.dataset}/{key}"
                shown = named or delivery.late or delivery.files
                found += [f"{folder.rstrip('/')}/{file.name}" for file in shown]
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return [*found[:_SHOWN], *more]

    def of_changes(self, table: str, key: str, changes: Mapping[str, int]) -> list[str]:
        """List the landing files that the logs name for versions of upstream tables.

        Args:
            table: the table that reads them.
            key: the partition that is computed from them.
            changes: upstream table -> version that changed what the partition is computed from.
        """
        files = [file for name, version in changes.items() for file in self._of_version(table, key, name, version)]
        return [*dict.fromkeys(files)]

    def _of_version(self, table: str, key: str, upstream: str, version: int) -> list[str]:
        """List the files behind one commit: of a loaded delivery, or of the run's inputs."""
        declared = self._tables.get(upstream)
        try:
            record = self._ledger(upstream).commit(version).record
        except PatternError:
            return []
        if declared is None or record is None:
            return []
        computed = next(iter(record.partition.values()), "")
        if declared.lands:
            return self.of_delivery(upstream, computed, self._named(table, key, upstream, version, record.partition))
        read = {name: each for name, each in record.inputs.items() if isinstance(each, int) and name in self._tables}
        return self.of_changes(upstream, computed, read)

    def _named(self, table: str, key: str, upstream: str, version: int, loaded: Mapping[str, str]) -> list[str]:
        """List the files that the rows of a partition name, by the statistics of the upstream table."""
        feeds = {spec.name: feed for spec, feed in self._tables[table].reads.tables.items()}
        ledger: Ledger = self._ledger(upstream)
        found = set[str]()
        with suppress(PatternError):
            wanted = [{**partition, **loaded} for partition in feeds[upstream].reads(key)] if upstream in feeds else []
            for file, partition in ledger.state(version).keyed_files() if wanted else ():
                if any(each.items() <= dict(partition).items() for each in wanted):
                    found |= {str(file.get(f"{end}.{_SOURCE}")) for end in ("min", "max")}
        return sorted(found)
