"""The reconciler: repeated polls of the whole graph with cached state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from threading import Lock

import dagster as dg

from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.fan_in import RunStates, without_runs
from dedp_assets.graph.inputs.upstream_runs import run_states
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals, judged_by
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.reconciling import Outcome, Tried, Want, plan_requests
from dedp_assets.graph.reconcile.requests import in_flight, tried
from dedp_assets.graph.reconcile.slots import within_slots
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing

__all__ = ["NAME", "Reconciler", "judges_of", "states_of"]

NAME = "reconciler"
_MOST = 25


class Reconciler:
    """Polls of the whole graph, with cached state between polls.

    Attributes:
        tables: the declared tables of the graph.
        thorough: whether each look holds all deliveries that are loaded against what lies there, not some at a time.
        busy: table -> partition keys that runs in flight compute; ``None`` for those of the instance.
    """

    def __init__(self, tables: Sequence[LakeTable[...]], *, thorough: bool = False) -> None:
        self.tables, self.thorough = tables, thorough
        self.busy: Mapping[str, Collection[str]] | None = None
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
        versions = _code_versions(self.tables, repository)
        # Before the logs are read: what a run that has ended meanwhile wrote is seen there.
        busy = self.busy
        if busy is None:
            busy = in_flight(instance, repository, launched_by=name) if instance else {}
        states = states_of(self.tables, lake, instance, repository)
        with self._lock:
            place = (lake.root, landing.root)
            if place not in self._overviews:
                self._overviews[place] = Overview(self.tables)
            overview = self._overviews[place]
            wants = overview.poll(lake, landing, now, thorough=self.thorough, states=states, versions=versions)
            waits = overview.waits
        notes = _Notes({table.spec.name: table for table in self.tables}, versions, lake, overview.unreadable)

        def ended(requests: Mapping[str, str]) -> Mapping[str, Tried]:
            return tried(instance, requests) if instance else {}

        readable = list(notes.readable(wants))
        outcome = plan_requests(readable, busy=busy, refused=notes.refused, tried=ended, limit=limit, mine=mine)
        held = within_slots(outcome, self.tables, busy)
        waiting = [gap for table, of in waits.items() if notes.are_readable(table) for gap in of]
        return replace(held, gaps=(*held.gaps, *waiting)), overview


class _Notes:
    """Notes on refusals, and the codes of tables, of one reconciliation; each is read once.

    Args:
        declared: the tables by name.
        versions: code version of each table.
        lake: the tables as they are stored.
        errors: takes the tables that cannot be read.
    """

    def __init__(
        self,
        declared: Mapping[str, LakeTable[...]],
        versions: Mapping[str, str | None],
        lake: Lake,
        errors: TableErrors,
    ) -> None:
        self._declared, self._versions, self._errors = declared, versions, errors
        self._of = cache(lambda table: Refusals(lake.refused(table)).by_key())
        self._judges = cache(lambda table: judges_of(declared[table], lake))
        self._code = cache(self._code_of)

    def readable(self, wants: Iterable[Want]) -> Iterator[Want]:
        """Yield the partitions of tables that can be read, with the code that a request would have."""
        for want in wants:
            code = self._code(want.named or want.tables[0], want.tables)
            if code is not None and self._is_judged(want):
                yield replace(want, code=code)

    def are_readable(self, table: str) -> bool:
        """Return whether the notes on a table can be read; note the error otherwise."""
        return self._code(table, (table,)) is not None

    def refused(self, table: str, key: str, goal: str) -> Refusal | None:
        """Return the refusal of a partition that holds for the present code and the present judges."""
        note = self._of(table).get(key)
        if note and goal in note.goals and note.holds(self._versions.get(table), self._judges(table)):
            return note
        return None

    def _code_of(self, named: str, tables: tuple[str, ...]) -> str | None:
        """Return the code of tables, once the notes are read; ``None`` after an error."""
        with self._errors.at(named):
            for table in tables:
                self._of(table)
            return ", ".join(f"{self._versions[table]} {self._declared[table].declaration}" for table in tables)
        return None

    def _is_judged(self, want: Want) -> bool:
        """Return whether the judges of a partition's refusals can be read; ``True`` without a refusal."""
        noted = [table for table in want.tables if want.key in self._of(table)]
        if not noted:
            return True
        with self._errors.at(want.named or want.tables[0]):
            return bool([self._judges(table) for table in noted])
        return False


def states_of(
    tables: Sequence[LakeTable[...]],
    lake: Lake,
    instance: dg.DagsterInstance | None,
    repository: dg.RepositoryDefinition | None,
) -> RunStates:
    """Return the lookup of upstream runs, if a table waits for their end; read before the logs.

    Args:
        tables: the declared tables of the graph.
        lake: the tables.
        instance: where runs are recorded.
        repository: the code location that is deployed.
    """
    if instance is None or not any(table.reads.waits_for_runs for table in tables):
        return without_runs
    return run_states(instance, repository, lake.refused)


def judges_of(table: LakeTable[...], lake: Lake) -> str:
    """Return the digest of a table's present columns, gates and references, for refusals to hold against."""
    written, references = ([lake.ledger(spec.name) for spec in of] for of in (table.tables, table.reads.references))
    return judged_by(table.declaration, written, references)


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
