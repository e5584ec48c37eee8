"""Order of partitions for the reconciler: changes for the next partition, and gaps before a partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, cast

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.feeds import Feed
from dedp_assets.graph.run.ordering import next_of
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.flow.single_runner import PartitionProgress, plan_in_order

__all__ = ["Handover"]


class _Watch(Protocol):
    def applied(self, ledger: Ledger, keys: Iterable[str]) -> dict[str, int]: ...


@dataclass(slots=True)
class Handover:
    """Partitions of a table in order, seen from the partition after each.

    Attributes:
        newest: key -> version of the newest change of what the previous partition left for it.
        held: key -> why it waits for a previous partition that nobody can compute yet.
    """

    newest: dict[str, int] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    _feed: Feed | None = None

    def feed(self, table: LakeTable[...]) -> Feed:
        """Return the feed from the table that hands over to the next partition."""
        if self._feed is None and table.hands_over is not None:
            # A rule of the declaration: partitions in order are partitions by time.
            partitions = cast("dg.TimeWindowPartitionsDefinition", table.runs.partitions)
            self._feed = next_of(table.hands_over, partitions)
        return cast("Feed", self._feed)

    def take_in(self, changed: Mapping[str, int]) -> set[str]:
        """Record changes of the rows handed over to each key; return the keys."""
        self.newest.update(changed)
        return {*changed}

    def version(self, key: str) -> int:
        """Return the version of the handed over rows that a run of ``key`` applies."""
        return self.newest.get(key, 0)

    def hold(
        self,
        table: LakeTable[...],
        known: Iterable[Collection[str]],
        lagging: Collection[str],
        watch: _Watch,
        ledger: Ledger,
    ) -> None:
        """Find the lagging partitions whose previous partition is neither committed nor going to be asked for.

        An upstream table has not dealt with it. Executions are left out: without rows, there is nothing to hand over.
        """
        self.held.clear()
        if not table.runs.in_order or table.spec.executed_by or not lagging:
            return
        partitions = cast("dg.TimeWindowPartitionsDefinition", table.runs.partitions)
        end = partitions.time_window_for_partition_key(max(lagging)).end
        keys = partitions.get_partition_keys(current_time=end)
        first = min(key for each in known for key in each)
        before = {key: previous for previous, key in pairwise(keys) if key in lagging and previous >= first}
        applied = watch.applied(ledger, set(before.values()))
        for key, previous in before.items():
            if previous not in applied and previous not in lagging:
                progress = {previous: PartitionProgress("missing"), key: PartitionProgress("waiting")}
                self.held[key] = plan_in_order(progress).held[key]

    def clear(self) -> None:
        """Forget everything."""
        self.newest.clear()
        self.held.clear()
