"""Overview of all stale partitions of the graph with reasons, from the logs and the landing zone.

What is remembered between two looks only saves work: from nothing, a look finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType

from dedp_assets.graph.declare.runs import OnDelivery
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.fan_in import RunStates, without_runs
from dedp_assets.graph.reconcile.arrivals import Arrivals
from dedp_assets.graph.reconcile.backlogs import following
from dedp_assets.graph.reconcile.edges import Edge, Group, fed_by, groups_of
from dedp_assets.graph.reconcile.reconciling import Gap, Want
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.reconcile.watching import News, TableWatch
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing

__all__ = ["Overview"]


@dataclass(slots=True)
class Overview:
    """Stale and missing partitions of all tables, according to the logs.

    Attributes:
        tables: the declared tables of the graph.
        watches: table -> its log, as far as it was read.
        arrivals: the datasets of the landing zone that tables load.
        groups: tables that one run computes together, in the order of the graph.
        waits: table -> its partitions that wait for others, at the last look.
        unreadable: table -> why it could not be observed: its log, its deliveries, or a fault of its declaration.
        written: table -> keys of new commits that the landing zone has not been compared with.
    """

    tables: Sequence[LakeTable[...]]
    watches: dict[str, TableWatch] = field(default_factory=dict)
    arrivals: list[Arrivals] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    waits: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    unreadable: TableErrors = field(default_factory=TableErrors)
    written: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        declared = {spec: table for table in self.tables for spec in table.tables}
        following = [table for table in self.tables if table.runs.follows and table.reads.tables]
        loading = [table for table in self.tables if table.lands]
        read = {spec.name: spec for table in following for spec in table.reads.upstream}
        read |= {table.hands_over.name: table.hands_over for table in following if table.hands_over}
        revising = {spec.name for table in following for spec in table.reads.revised_by}
        written = [spec for table in following for spec in table.tables] + [table.spec for table in loading]
        # A reader may state a table of another declaration in part: what the table is, its own declaration says.
        for name, spec in {**read, **{spec.name: spec for spec in written}}.items():
            self.watches[name] = TableWatch.of(spec, declared.get(spec), read=name in read, revises=name in revising)
        for table in loading:
            starts = table.runs.of(OnDelivery)
            self.arrivals += [Arrivals(each.dataset, table.job.name, table, each.ends) for each in starts]
        self.groups += groups_of(following)

    def poll(
        self,
        lake: Lake,
        landing: Landing | None,
        now: datetime,
        *,
        thorough: bool = False,
        states: RunStates = without_runs,
        versions: Mapping[str, str | None] = MappingProxyType({}),
    ) -> list[Want]:
        """Read new commits and deliveries, and list the partitions to compute in the order of the graph.

        Args:
            lake: the tables.
            landing: what was delivered.
            now: current time, with time zone.
            thorough: whether all deliveries that are loaded are held against what lies there at once.
            states: the runs of upstream partitions, read before the logs.
            versions: table -> version of the deployed code, where that is another one than declared.
        """
        self.unreadable.clear()
        news = self._news(lake)
        wants: list[Want] = []
        landed = partial(self._landed, landing=landing, news=news, now=now, thorough=thorough)
        for each in self.arrivals:
            name = each.table.spec.name
            with self.unreadable.at(name):
                wants += landed(each, code=versions.get(name) or "")
        self.written.clear()
        fed = fed_by(self.watches, news)
        waits: dict[str, tuple[Gap, ...]] = {}
        for group in self.groups:
            readable = []
            for edge in group.edges:
                with self.unreadable.at(edge.name):
                    readable += [edge] * edge.poll(lake, self.watches, news, fed, now=now, states=states)
            wants += self._behind(group, readable, now)
            waits |= {edge.name: edge.waits for edge in readable if edge.waits}
        self.waits = waits
        return wants

    def follow(self, lake: Lake, now: datetime, *, states: RunStates = without_runs) -> None:
        """Read new commits and find the stale partitions without listing any.

        Args:
            lake: the tables.
            now: current time, with time zone.
            states: the runs of upstream partitions, read before the logs.
        """
        news = self._news(lake)
        fed = fed_by(self.watches, news)
        for edge in (edge for group in self.groups for edge in group.edges):
            with self.unreadable.at(edge.name):
                edge.poll(lake, self.watches, news, fed, now=now, states=states)

    def _news(self, lake: Lake) -> dict[str, News]:
        """Read the new commits of all tables."""
        found: dict[str, News] = {}
        for name, watch in self.watches.items():
            with self.unreadable.at(name):
                found[name] = watch.poll(lake.ledger(name))
                self.written.setdefault(name, set()).update(found[name].keys if watch.loads else ())
        return found

    def _behind(self, group: Group, edges: Sequence[Edge], now: datetime) -> list[Want]:
        """Return the stale partitions of a group; after an error, of each table alone."""
        try:
            return list(group.wants(edges, self.watches, now))
        except Exception:
            found: list[Want] = []
            for edge in edges:
                with self.unreadable.at(edge.name):
                    found += group.wants([edge], self.watches, now)
            return found

    def _landed(
        self,
        arrivals: Arrivals,
        *,
        landing: Landing | None,
        news: Mapping[str, News],
        now: datetime,
        thorough: bool,
        code: str,
    ) -> Iterator[Want]:
        name = arrivals.table.spec.name
        if landing is None or name not in news:
            return
        watch = self.watches[name]
        keys = self.written.get(name, set())
        plan = arrivals.poll(landing, watch, keys, now, thorough=thorough, code_version=code)
        job = arrivals.table.job
        for key in plan.partitions:
            state = "behind" if key in watch.loaded else "missing"
            outdated = key in arrivals.outdated
            why = "was loaded by another declaration" if outdated else "is complete and not loaded as it is now"
            yield Want(
                (name,),
                key,
                str(plan.cursor[key]),
                state,
                f"{landing.folder(arrivals.dataset, key)} {why}",
                "declaration" if outdated else plan.causes[key],
                job=arrivals.job,
                computes={name: tuple(dict.fromkeys([name, *job.computes]))},
                named=name,
                restored=watch.rolled_back[key].version if key in watch.rolled_back else None,
                priority=arrivals.table.priority,
                following=following(arrivals.table.runs, key),
            )
        for key, reason in plan.held.items():
            state = "unusable" if key in arrivals.unusable else "waiting"
            yield Want((name,), key, "", state, f"{landing.folder(arrivals.dataset, key)}: {reason}")

    def versions(self) -> dict[str, int]:
        """Return the last read version of each upstream table."""
        return {name: watch.version for name, watch in self.watches.items() if watch.read and watch.version >= 0}
