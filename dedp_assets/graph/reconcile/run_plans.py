"""Plans of runs: runs that would come, held partitions and current partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dedp_assets.graph.reconcile.reconciling import Gap, Want

__all__ = ["PlannedRun", "RunPlan"]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run of the plan.

    Attributes:
        number: place in the plan, from 1.
        wave: number of the wave, from 1: the runs of a wave are asked for together, and start in this order.
        tables: every table that the run computes, in order.
        wants: the partitions that it computes, in order.
        follows: numbers of the earlier runs that it comes after.
        under_way: whether the run has been started already.
        asked: whether the reconciler asks for it; otherwise a person has to.
        changes: key -> upstream table -> stored version whose change makes the key stale.
    """

    number: int
    wave: int
    tables: tuple[str, ...]
    wants: tuple[Want, ...]
    follows: tuple[int, ...] = ()
    under_way: bool = False
    asked: bool = True
    changes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition keys, in order."""
        return tuple(want.key for want in self.wants)

    @property
    def places(self) -> set[tuple[str, str]]:
        """Table and key of everything that the run computes."""
        return {(table, key) for table in self.tables for key in self.keys}


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Runs that would come, held partitions and current partitions.

    Attributes:
        runs: the runs, wave by wave.
        held: partitions that are not current and that no run will compute, each with the reason.
        current: table -> partition keys that are current, and stay so.
        opened: tables of which a run may change more partitions than anybody knows before, so that more may follow.
        unreadable: table -> why nobody can tell.
        strange: files and folders of the landing zone that are in no partition, and why.
    """

    runs: tuple[PlannedRun, ...]
    held: tuple[Gap, ...] = ()
    current: Mapping[str, frozenset[str]] = field(default_factory=dict)
    opened: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    strange: Mapping[str, str] = field(default_factory=dict)

    @property
    def stuck(self) -> tuple[Gap, ...]:
        """The held partitions that need somebody: refused, given up, unreadable, or later in order."""
        return tuple(gap for gap in self.held if gap.given_up or gap.state != "waiting")

    def about(self, wanted: Callable[[str, str], bool]) -> RunPlan:
        """Return the part of the plan about some partitions, with earlier runs and runs that follow.

        Args:
            wanted: whether a table and a key are among these partitions.
        """
        mine = {run.number for run in self.runs if any(wanted(*place) for place in run.places)}
        before, after = {*mine}, {*mine}
        for run in reversed(self.runs):
            if run.number in before:
                before.update(run.follows)
        for run in self.runs:
            if after & {*run.follows}:
                after.add(run.number)
        current = {name: frozenset(key for key in keys if wanted(name, key)) for name, keys in self.current.items()}
        return replace(
            self,
            runs=tuple(run for run in self.runs if run.number in before | after),
            held=tuple(gap for gap in self.held if wanted(gap.table, gap.key)),
            current={name: keys for name, keys in current.items() if keys},
        )
