"""Edges of the graph: partitions of a table that have not applied the changes of upstream tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Any

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.fan_in import NoBranch, RunStates, branches_of, without_runs
from dedp_assets.graph.inputs.feeds import Feed
from dedp_assets.graph.inputs.staleness import FannedIn, needed_versions
from dedp_assets.graph.reconcile.backlogs import following
from dedp_assets.graph.reconcile.ordering import Handover
from dedp_assets.graph.reconcile.reconciling import Gap, Want
from dedp_assets.graph.reconcile.watching import News, TableWatch
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions

__all__ = ["Edge", "Fed", "Group", "fed_by", "groups_of"]

_AFTER_ALL = "\uffff"
_AHEAD = (
    "has applied version {version} of {read}, whose log does not go that far: it was removed and begun again. "
    "Remove this table, too, and it is computed anew"
)


Fed = Callable[[str, Feed, bool], Mapping[str, int]]
"""Upstream table, feed, and whether everything known counts or only the news -> key -> newest version that feeds it."""


@dataclass(slots=True)
class Edge:
    """A table, the table's upstream tables, and the partitions that are stale.

    Attributes:
        table: the table.
        newest: upstream table -> partition key -> version of the newest change of what its run reads.
        lagging: key -> upstream version that it has not applied.
        applied: key -> the version that it has applied, of those that lag.
        ahead: key -> the version that it has applied, where the upstream log has not come that far.
        unsure: keys that one of several upstream tables has not dealt with, or whose references are not there.
        waiting: key -> the branches of a fan-in that it waits for.
        handover: what the previous partition of each key left, of a table in order.
        whole: whether what is known is of all tables, so that their news is enough.
    """

    table: LakeTable[...]
    newest: dict[str, dict[str, int]] = field(default_factory=dict)
    lagging: dict[str, int] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    ahead: dict[str, int] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)
    whole: bool = False
    handover: Handover = field(default_factory=Handover)
    _waits: tuple[Gap, ...] | None = None

    @property
    def waits(self) -> tuple[Gap, ...]:
        """The partitions for which no run can be requested; years of days may wait, so the tuple is kept."""
        if self._waits is None:
            ahead = {key: _AHEAD.format(version=each, read=self.read) for key, each in self.ahead.items()}
            held = [*ahead.items(), *self.waiting.items()]
            self._waits = tuple(Gap(self.name, key, "waiting", reason) for key, reason in held)
        return self._waits

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.spec.name

    @property
    def read(self) -> str:
        """The names of the upstream tables and of references with revisions."""
        return " and ".join(spec.name for spec in (*self.table.reads.tables, *self.table.reads.revised_by))

    def poll(
        self,
        lake: Lake,
        watches: Mapping[str, TableWatch],
        news: Mapping[str, News],
        fed: Fed,
        *,
        now: datetime,
        states: RunStates = without_runs,
    ) -> bool:
        """Update the stale partitions from new commits; ``False`` if the log of a table cannot be read."""
        mine, upstream = [s.name for s in self.table.tables], [s.name for s in self.table.reads.tables]
        references, revising = (
            [s.name for s in of] for of in (self.table.reads.references, self.table.reads.revised_by)
        )
        readable, self.whole, whole = news.keys() >= {*mine, *upstream, *references}, False, self.whole
        if not readable:
            return False
        handed = self.table.hands_over
        reset = not whole or any(news[name].reset for name in (*mine, *upstream, *revising))
        if reset:
            self._forget()
        keys = self._take_in({spec.name: fed(spec.name, feed, reset) for spec, feed in self.table.reads.tables.items()})
        if handed is not None:
            passed_on = self.handover.take_in(fed(handed.name, self.handover.feed(self.table), reset))
            keys |= {key for key in passed_on if any(key in known for known in self.newest.values())}
        keys |= {key for name in mine for known in self.newest.values() for key in news[name].keys & known.keys()}
        for since in (news[name].since for name in revising if news[name].changed):
            keys |= {key for known in self.newest.values() for key in known if key >= since}
        if any(news[name] for name in (*upstream, *references)):
            keys |= self.unsure
        keys |= self._of_branches({n: watches[n].done if reset else news[n].keys for n in upstream}, states)
        self._judge(lake, watches, keys, self._fanned_in(lake, watches, now, states))
        self.handover.hold(self.table, self.newest.values(), self.lagging, watches[self.name], lake.ledger(self.name))
        self.whole = True  # after an error, everything is read again
        return True

    def restored(self, key: str, watches: Mapping[str, TableWatch]) -> int | None:
        """Return the version of the key's newest restore in the table's outputs; ``None`` without a restore."""
        found = [watches[spec.name].rolled_back.get(key) for spec in self.table.tables]
        return max((each.version for each in found if each is not None), default=None)

    def rolled_back(self, watches: Mapping[str, TableWatch]) -> dict[str, set[tuple[str, str]]]:
        """Return the keys computed from data that a restore took back: key -> upstream tables and keys."""
        found: dict[str, set[tuple[str, str]]] = {}
        for spec, feed in self.table.reads.tables.items():
            for taken, restore in watches[spec.name].rolled_back.items():
                for key in {key for partition in restore.partitions for key in feed.feeds(dict(partition))}:
                    found.setdefault(key, set()).add((spec.name, taken))
        return found

    def _take_in(self, fed: Mapping[str, Mapping[str, int]]) -> set[str]:
        touched: set[str] = set()
        for name, versions in fed.items():
            newest = self.newest.setdefault(name, {})
            later = versions if not newest else {k: v for k, v in versions.items() if v > newest.get(k, -2)}
            newest.update(later)
            touched |= versions.keys()
        return touched

    def _of_branches(self, written: Mapping[str, Iterable[str]], states: RunStates) -> set[str]:
        """Return the keys with a written or failed branch, and the keys that wait for runs to end."""
        keys = {*self.unsure} if self.table.reads.waits_for_runs else set[str]()
        for spec, feed in self.table.reads.tables.items():
            if feed.fan_in is not None:
                names = {*written[spec.name], *(states(spec.name) if feed.fan_in.ended else ())}
                keys |= {key for name in names for key in feed.feeds(owned_by(name, spec))}
        return keys

    def _fanned_in(self, lake: Lake, watches: Mapping[str, TableWatch], now: datetime, states: RunStates) -> FannedIn:
        """Return the lookup of the upstream version that a run of a fan-in applies."""
        ledgers = cache(lake.ledger)

        def version(spec: TableSpec, feed: Feed, key: str) -> int:
            self.waiting.pop(key, None)
            watch, ledger = watches[spec.name], ledgers(spec.name)
            runs = states(spec.name) if feed.fan_in and feed.fan_in.ended else {}
            branches = branches_of(feed.reads(key), watch.done, runs, partial(watch.reached, ledger))
            try:
                return feed.fan_in.version(spec.name, key, branches, now) if feed.fan_in else 0
            except NoBranch:
                return 0  # a run of it calls the error handler
            except NotReady as error:
                self.waiting[key] = str(error)
                self.lagging.pop(key, None)
                raise

        return version

    def _judge(self, lake: Lake, watches: Mapping[str, TableWatch], keys: set[str], fanned_in: FannedIn | None) -> None:
        if branch := self.table.runs.branch:
            keys = {key for key in keys if branch.takes(key)}
        if not keys:
            return
        self._waits = None
        taken = {key for spec in self.table.tables for key in watches[spec.name].rolled_back}
        applied = watches[self.name].applied(lake.ledger(self.name), keys)
        if self.table.runs.follows == "late":  # the first time, something else asks
            keys = keys & (applied.keys() | taken)
        ready = keys if all(watches[spec.name].version >= 0 for spec in self.table.reads.references) else set[str]()
        revisions = [watches[spec.name].revisions for spec in self.table.reads.revised_by]
        upstream = self.table.reads.tables
        needed = needed_versions(
            upstream, self.newest, ready, table_of=lake.table, revisions=revisions, fanned_in=fanned_in
        )
        needed = {key: version + self.handover.version(key) for key, version in needed.items()}
        self.unsure = (self.unsure - needed.keys()) | (keys - needed.keys())
        for known in (self.lagging, self.applied, self.ahead):
            for key in known.keys() & needed.keys():
                del known[key]
        read = (*self.table.reads.tables, *self.table.reads.revised_by)
        handed = self.table.hands_over
        # A branch that nothing was sent to has no table yet.
        head = sum(max(watches[spec.name].version, 0) for spec in (*read, *([handed] if handed else [])))
        for key in taken & applied.keys():
            del applied[key]
        self._compare(needed, applied, head)

    def _compare(self, needed: Mapping[str, int], applied: Mapping[str, int], head: int) -> None:
        """Note the keys behind the needed version, and keys ahead of the newest upstream version."""
        for key, version in needed.items():
            applied_version = applied.get(key)
            if applied_version is None:
                self.lagging[key] = version
            elif applied_version > head:
                self.ahead[key] = applied_version
            elif applied_version < version:
                self.lagging[key], self.applied[key] = version, applied_version

    def _forget(self) -> None:
        for known in (self.newest, self.lagging, self.applied, self.ahead, self.unsure, self.waiting):
            known.clear()
        self._waits = None
        self.handover.clear()


@dataclass(frozen=True, slots=True)
class Group:
    """Tables with the same upstream tables and partitions; one run computes a partition of every table.

    Attributes:
        edges: the tables.
        chains: table -> every table that its run writes: its own, and those that follow it key by key.
    """

    edges: tuple[Edge, ...]
    chains: Mapping[str, Sequence[str]]

    def wants(self, edges: Sequence[Edge], watches: Mapping[str, TableWatch], now: datetime) -> Iterator[Want]:
        """Yield the partitions that the tables have to compute."""
        late = [edge for edge in edges if edge.lagging]
        needs = self.edges[0].table.runs.needs
        if late and needs and (lacking := needs()):
            for edge in late:
                text = f"{len(edge.lagging)} partitions are not current: {lacking}"
                yield Want((edge.name,), "", "", "waiting", text)
        elif late:
            yield from self._behind(late, watches, now)

    def _behind(self, edges: Sequence[Edge], watches: Mapping[str, TableWatch], now: datetime) -> Iterator[Want]:
        behind: dict[str, int] = {}
        for edge in edges:
            for key, version in edge.lagging.items():
                behind[key] = max(version, behind.get(key, -1))
        lagging = {key: [edge for edge in edges if key in edge.lagging] for key in behind}
        written = [key for key, late in lagging.items() if all(key in edge.applied for edge in late)]
        applied = {key: min(edge.applied[key] for edge in lagging[key]) for key in written}
        oldest, current = self._bounds(now)
        plan = plan_late_partitions(behind, applied, current=current, oldest=oldest)
        after = self.edges[0].rolled_back(watches)
        first, read = self.edges[0], self.edges[0].read
        runs = first.table.runs
        want = partial(
            Want,
            computes=self.chains,
            named=first.name,
            in_order=runs.in_order,
            profile=runs.profile,
            priority=max(edge.table.priority for edge in self.edges),
        )
        for key in plan.partitions:
            tables = tuple(edge.name for edge in lagging[key])
            if why := first.handover.held.get(key, ""):
                yield want(tables, key, "", "waiting", why)
                continue
            taken = [v for edge in lagging[key] if (v := edge.restored(key, watches)) is not None]
            state = "missing" if key not in applied and not taken else "behind"
            why = f"restored at version {max(taken)}" if taken else f"{read} changed at version {behind[key]}"
            cause = "restore" if taken else plan.causes[key]
            yield want(
                tables,
                key,
                str(behind[key]),
                state,
                why,
                cause,
                restored=max(taken, default=None),
                after=frozenset(after.get(key, ())),
                following=following(runs, key),
            )
        for key, reason in plan.held.items():
            yield Want(tuple(edge.name for edge in lagging[key]), key, "", "waiting", reason)

    def _bounds(self, now: datetime) -> tuple[str, str]:
        """Return the oldest existing key, and the first key that does not exist yet."""
        known = self.edges[0].table.runs.partitions
        if not isinstance(known, dg.TimeWindowPartitionsDefinition):
            return "", _AFTER_ALL
        with dg.partition_loading_context(effective_dt=now):
            last = known.get_last_partition_key()
        end = known.time_window_for_partition_key(last).end if last else known.start
        return known.start.strftime(known.fmt), end.strftime(known.fmt)


def fed_by(watches: Mapping[str, TableWatch], news: Mapping[str, News]) -> Fed:
    """Return a cached lookup: change of an upstream table -> affected partition keys downstream."""

    @cache
    def fed(upstream: str, feed: Feed, reset: bool) -> Mapping[str, int]:  # noqa: FBT001 - by place, as it is cached
        return feed.newest((watches[upstream] if reset else news[upstream]).changed)

    return fed


def groups_of(tables: Sequence[LakeTable[...]]) -> list[Group]:
    """Group tables that one run computes together, upstream groups first."""
    found: dict[tuple[Any, ...], list[LakeTable[...]]] = {}  # with an order or slots of its own, a table is alone
    for table in sorted(tables, key=lambda each: _depth(each, tables)):
        upstream = tuple(spec.name for spec in table.reads.upstream)
        alone = (table.runs.in_order or table.runs.at_once is not None) and table
        profile = tuple(sorted(table.runs.profile.items()))
        found.setdefault((upstream, table.runs.partitions, table.runs.needs, profile, alone), []).append(table)
    return [Group(tuple(map(Edge, group)), {t.spec.name: _chain(t, tables) for t in group}) for group in found.values()]


def _depth(table: LakeTable[...], tables: Sequence[LakeTable[...]]) -> int:
    """Count the upstream levels of a table in the graph."""
    upstream = [other for other in tables if {*other.tables} & {*table.reads.upstream}]
    return 1 + max((_depth(other, tables) for other in upstream), default=0)


def _chain(table: LakeTable[...], tables: Sequence[LakeTable[...]]) -> list[str]:
    """List the tables of a table's run: the outputs, and downstream tables that read only the same key.

    A late date reaches gold in the run that corrects silver, without another tick and another start.
    """
    after = [other for other in tables if list(other.reads.tables) == [table.spec] and _keeps_keys(table, other)]
    return [*(spec.name for spec in table.tables), *(name for other in after for name in _chain(other, tables))]


def _keeps_keys(table: LakeTable[...], other: LakeTable[...]) -> bool:
    """Return whether each partition of ``other`` is computed from the same key of ``table``."""
    runs = other.runs
    own = runs.in_order or runs.at_once is not None or runs.branch is not None
    apart = own or runs.needs or other.reads.references or runs.follows == "late"
    if (table.runs.partitions, table.runs.profile) != (runs.partitions, runs.profile) or apart:
        return False
    feed, key = (
        other.reads.tables[table.spec],
        table.runs.partitions.get_first_partition_key() if table.runs.partitions else "",
    )
    owned = owned_by(key or "", table.spec)
    return [dict(read) for read in feed.reads(key or "")] == [owned] and list(feed.feeds(owned)) == [key or ""]
