"""Plan of runs: the runs that the reconciler would ask for, wave by wave.

The plan is a simulation. The reconciler plans runs as it does at each tick; the commits that these runs would make are
simulated, and it plans again, until it asks for nothing. So no second rule says what is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.fan_in import RunStates
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.reconciler import Reconciler, states_of
from dedp_assets.graph.reconcile.reconciling import Ask, Gap, Outcome, Want
from dedp_assets.graph.reconcile.requests import in_flight
from dedp_assets.graph.reconcile.run_plans import PlannedRun, RunPlan
from dedp_assets.graph.reconcile.simulating import SimulatedLake, Simulation
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing

__all__ = ["plan_runs"]

_MOST_WAVES = 1_000


def plan_runs(
    tables: Sequence[LakeTable[...]],
    lake: Lake,
    landing: Landing,
    now: datetime,
    *,
    instance: dg.DagsterInstance | None = None,
    repository: dg.RepositoryDefinition | None = None,
    again: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> RunPlan:
    """Plan the runs that the reconciler would ask for, if nothing else happened and every run succeeded.

    Nothing is written and nothing is started.

    Args:
        tables: the declared tables of the graph.
        lake: the tables.
        landing: what was delivered.
        now: current time, with time zone.
        instance: where runs are recorded; without one, none is in flight and none has failed.
        repository: the code location that is deployed.
        again: table and key -> why a person computes the partition again, though it is current.
    """
    planner = _Planner(tables, SimulatedLake.over(lake), landing, now, instance, repository)
    return planner.plan(again)


@dataclass(slots=True)
class _Planner:
    """Waves of runs, from one poll to the next."""

    tables: Sequence[LakeTable[...]]
    lake: SimulatedLake
    landing: Landing
    now: datetime
    instance: dg.DagsterInstance | None
    repository: dg.RepositoryDefinition | None
    reconciler: Reconciler = field(init=False)
    states: RunStates = field(init=False)
    runs: list[PlannedRun] = field(default_factory=list)
    requested: set[str] = field(default_factory=set)
    feeding: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    last_of: dict[str, int] = field(default_factory=dict)
    stored: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reconciler = Reconciler(self.tables, thorough=True)
        self.states = states_of(self.tables, self.lake, self.instance, self.repository)

    def plan(self, again: Mapping[tuple[str, str], str]) -> RunPlan:
        busy = in_flight(self.instance, self.repository) if self.instance else {}
        first, overview = self._poll(busy)
        self.reconciler.thorough = False  # all deliveries have been compared with the landing zone
        current, unreadable = _current(overview, self.lake), dict(overview.unreadable)
        strange = {name: why for each in overview.arrivals for name, why in each.strange.items()}
        self.stored = {name: watch.version for name, watch in overview.watches.items()}
        simulation = Simulation(self.lake, overview, self.now)
        outcome, further = first, [*self._under_way(busy), *_again(first, again)]
        for wave in range(1, _MOST_WAVES):
            asks = [*outcome.asks, *further]
            if not asks:
                break
            self._perform(simulation, wave, asks, busy if wave == 1 else {})
            outcome, further = self._poll({})[0], []
        stale = {(table, key) for run in self.runs for table, key in run.places}
        stale |= {(gap.table, gap.key) for gap in (*first.gaps, *outcome.gaps)}
        return RunPlan(
            tuple(self.runs),
            tuple(_held(first, outcome, overview)),
            {table: frozenset(key for key in keys if (table, key) not in stale) for table, keys in current.items()},
            tuple(sorted(simulation.opened)),
            unreadable,
            strange,
        )

    def _poll(self, busy: Mapping[str, Collection[str]]) -> tuple[Outcome, Overview]:
        self.reconciler.busy = busy
        return self.reconciler.reconcile(
            self.lake,
            self.landing,
            self.now,
            instance=self.instance,
            repository=self.repository,
            mine=lambda want: want.request not in self.requested,
            limit=sys.maxsize,
        )

    def _under_way(self, busy: Mapping[str, Collection[str]]) -> list[Ask]:
        """List the runs in flight that compute stale partitions, in the form of requests."""
        if not busy:
            return []
        found = []
        for ask in self._poll({})[0].asks:
            wants = [want for want in ask.wants if any(want.key in busy.get(table, ()) for table in ask.tables)]
            found += [replace(ask, want=wants[0], more=tuple(wants[1:]))] if wants else []
        return found

    def _perform(
        self, simulation: Simulation, wave: int, asks: Sequence[Ask], busy: Mapping[str, Collection[str]]
    ) -> None:
        """Simulate the runs of a wave one after the other: a later run reads an earlier run's commits.

        Runs that do not feed each other are simulated together, table by table, for the poll between two tables.
        """
        begun: list[PlannedRun] = []
        fed, later = set[tuple[str, str]](), set[tuple[str, str]]()
        for ask in asks:
            tables = tuple(simulation.sort(self._computed(ask)))
            places = {(table, want.key) for table in tables for want in ask.wants}
            keys = [want.key for want in ask.wants]
            feeds = set[tuple[str, str]]().union(*(simulation.fed_by(table, keys) for table in tables)) - places
            if places & fed or feeds & later:
                self._finish(simulation, begun)
                begun, fed, later = [], set(), set()
            run = PlannedRun(
                len(self.runs) + 1,
                wave,
                tables,
                ask.wants,
                self._follows(ask, places),
                under_way=any(key in busy.get(table, ()) for table, key in places),
                asked=bool(ask.run_key),
                changes={want.key: simulation.changes(want, self.stored) for want in ask.wants},
            )
            self.runs.append(run)
            begun.append(run)
            for place in feeds:
                self.feeding.setdefault(place, set()).add(run.number)
            fed |= feeds
            later |= places
            simulation.write(tables[0], run.wants, again=not run.asked)
        self._finish(simulation, begun)

    def _finish(self, simulation: Simulation, begun: Sequence[PlannedRun]) -> None:
        """Simulate the further tables of runs, of each run one after the other."""
        for place in range(1, 1 + max(len(run.tables) for run in begun)):
            simulation.overview.follow(self.lake, self.now, states=self.states)
            for run in begun:
                for table in run.tables[place : place + 1]:
                    simulation.write(table, run.wants)

    def _follows(self, ask: Ask, places: Collection[tuple[str, str]]) -> tuple[int, ...]:
        """Return the numbers of the runs that feed a run, and of the run before in order."""
        self.requested |= {want.request for want in ask.wants}
        found = set[int]().union(*(self.feeding.pop(place, ()) for place in places))
        if ask.want.in_order:
            found |= {self.last_of[ask.want.named]} if ask.want.named in self.last_of else set()
            self.last_of[ask.want.named] = len(self.runs) + 1
        return tuple(sorted(found))

    def _computed(self, ask: Ask) -> Sequence[str]:
        """Return the tables of a run: of a job, all that the job selects."""
        job, repository = ask.want.job, self.repository
        if not job or repository is None or not repository.has_job(job):
            return ask.tables
        selected = repository.get_job(job).asset_layer.selected_asset_keys
        return [*ask.tables, *("/".join(key.path) for key in selected)]


def _again(first: Outcome, again: Mapping[tuple[str, str], str]) -> Iterator[Ask]:
    """Yield the runs of a person, except for partitions that the reconciler asks for."""
    asked = {(table, want.key) for ask in first.asks for want in ask.wants for table in want.tables}
    for (table, key), why in again.items():
        if (table, key) not in asked:
            want = Want((table,), key, "", "current", why, "declaration", named=table)
            yield Ask(replace(want, goal=f"by {why}"), (table,), "")


def _current(overview: Overview, lake: Lake) -> dict[str, frozenset[str]]:
    """Return the current partition keys of each table that the reconciler asks for."""
    found = {}
    for edge in (edge for group in overview.groups for edge in group.edges):
        known = set[str]().union(*edge.newest.values())
        known -= {*edge.lagging, *edge.ahead, *edge.waiting, *edge.unsure}
        if edge.table.runs.follows == "late":  # the first time, something else asks
            known &= overview.watches[edge.name].applied(lake.ledger(edge.name), known).keys()
        found[edge.name] = frozenset(key for key in known if edge.table.runs.takes(key))
    loaded = {each.table.spec.name: overview.watches[each.table.spec.name].loaded for each in overview.arrivals}
    return found | {name: frozenset(keys) for name, keys in loaded.items()}


def _held(first: Outcome, last: Outcome, overview: Overview) -> Iterator[Gap]:
    """Yield the partitions that are not current after the last wave, with the first poll's reasons."""
    before = {(gap.table, gap.key): gap for gap in first.gaps}
    for gap in last.gaps:
        known = before.get((gap.table, gap.key), gap)
        yield known if known.state == gap.state else gap
    for edge in (edge for group in overview.groups for edge in group.edges):
        for key in sorted(edge.unsure - edge.waiting.keys()):
            yield Gap(edge.name, key, "waiting", f"not all of {edge.read} have dealt with it")
