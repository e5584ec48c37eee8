"""The reconciler: repeated polls of the whole graph with cached state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from threading import Lock

import dagster as dg

from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.reconciling import Outcome, Tried, Want, plan_requests
from dedp_assets.graph.reconcile.requests import in_flight, tried
from dedp_assets.graph.reconcile.slots import within_slots
from dedp_assets.graph.run.fan_in import without_runs
from dedp_assets.graph.run.refusals import Refusal, Refusals, judged_by
from dedp_assets.graph.run.upstream_runs import run_states
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.landing import Landing

__all__ = ["NAME", "Reconciler", "judges_of"]

NAME = "reconciler"
_MOST = 25


class Reconciler:
    """Polls of the whole graph, with cached state between polls.

    Attributes:
        tables: the declared tables of the graph.
        thorough: whether each look holds all deliveries that are loaded against what lies there, not some at a time.
    """

    def __init__(self, tables: Sequence[LakeTable[...]], *, thorough: bool = False) -> None:
        self.tables, self.thorough = tables, thorough
        self._overviews: dict[tuple[str, str], Overview] = {}
        self._lock = Lock()

    def reconcile(
        self,
        lake: Lake,
        landing: Landing,
        now: datetime,
        *,
        instance: dg.DagsterInstance | None = None,
        repository: dg.RepositoryDefinition | None = None,
        name: str = NAME,
        mine: Callable[[Want], bool] = lambda _: True,
        limit: int = _MOST,
    ) -> tuple[Outcome, Overview]:
        """Poll once and plan runs; return the outcome with the cached overview.

        Args:
            lake: the tables.
            landing: what was delivered.
            now: current time, with time zone.
            instance: where runs are recorded; without one, none is in flight and none has failed.
            repository: the code location that is deployed.
            name: the sensor that asks.
            mine: tells what it asks for; another one asks for the rest.
            limit: most runs to ask for.
        """
        declared = {table.spec.name: table for table in self.tables}
        versions = _code_versions(self.tables, repository)
        # Before the logs are read: what a run that has ended meanwhile wrote is seen there.
        busy = in_flight(instance, repository, launched_by=name) if instance else {}
        runs_count = instance is not None and any(table.reads.waits_for_runs for table in self.tables)
        states = run_states(instance, repository, lake.refused) if instance and runs_count else without_runs
        with self._lock:
            place = (lake.root, landing.root)
            if place not in self._overviews:
                self._overviews[place] = Overview(self.tables)
            overview = self._overviews[place]
            wants = overview.poll(lake, landing, now, thorough=self.thorough, states=states, versions=versions)
        notes = cache(lambda table: Refusals(lake.refused(table)).by_key())
        judges = cache(lambda table: judges_of(declared[table], lake))
        codes = cache(lambda table: f"{versions[table]} {declared[table].declaration}")
        readable: list[Want] = []
        for want in wants:
            with overview.unreadable.at(want.named or want.tables[0]):
                _ = [judges(table) for table in want.tables if want.key in notes(table)]
                readable.append(replace(want, code=", ".join(map(codes, want.tables))))

        def refused(table: str, key: str, goal: str) -> Refusal | None:
            note = notes(table).get(key)
            return note if note and goal in note.goals and note.holds(versions.get(table), judges(table)) else None

        def ended(requests: Mapping[str, str]) -> Mapping[str, Tried]:
            return tried(instance, requests) if instance else {}

        outcome = plan_requests(readable, busy=busy, refused=refused, tried=ended, limit=limit, mine=mine)
        return within_slots(outcome, self.tables, busy), overview


def judges_of(table: LakeTable[...], lake: Lake) -> str:
    """Return the digest of a table's present columns and gates; a refusal by others no longer holds."""
    return judged_by(table.declaration, [lake.ledger(spec.name) for spec in table.tables])


def _code_versions(
    tables: Sequence[LakeTable[...]], repository: dg.RepositoryDefinition | None
) -> dict[str, str | None]:
    """Return the code version of each table in the deployed code location."""
    declared: dict[str, str | None] = {table.spec.name: table.code_version for table in tables}
    if repository is None:
        return declared
    graph = repository.asset_graph
    deployed = [table for table in tables if graph.has(asset_key(table.spec))]
    return {**declared, **{table.spec.name: graph.get(asset_key(table.spec)).code_version for table in deployed}}
