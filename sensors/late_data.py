"""Late data: changed partitions in an upstream table's log wake exactly what is computed from them, oldest first.

One sensor walks the edges that the tables declare (``reads``). Its cursor keeps, for each table, the upstream versions
looked at and the partitions still behind, so a tick pays for new commits only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

import dagster as dg

from dedp_assets.graph.batches import owned_by
from dedp_assets.graph.feeds import pin
from dedp_assets.graph.requests import decide, in_flight
from dedp_assets.graph.specs import asset_key
from dedp_assets.graph.tables import LakeTable
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.delta.log import Partition
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from resources.environments import settings
from resources.lake import Lake

__all__ = ["lagging", "late_data"]

_AT_ONCE = 25
_AFTER_ALL = "\uffff"
_NEVER = -1

_Changes = Callable[[str, int], tuple[int, Mapping[Partition, int]]]


def late_data(tables: Sequence[LakeTable[...]]) -> dg.SensorDefinition:
    """Make the sensor over every declared edge; tables that do not follow their upstream are left out.

    Args:
        tables: the declared tables of the graph.
    """
    following = [table for table in tables if table.follows and table.reads]
    groups = _groups(following)

    @dg.sensor(
        name="late_data",
        asset_selection=dg.AssetSelection.assets(*(asset_key(spec) for table in following for spec in table.tables)),
        minimum_interval_seconds=settings().tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Partitions of an upstream table that changed since they were applied: "
        + "; ".join(f"{', '.join(group.upstream)} to {', '.join(group.names)}" for group in groups),
        required_resource_keys={"lake", "clock"},
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor: dict[str, Any] = json.loads(context.cursor or "{}")
        lake, now = context.resources.lake, context.resources.clock.now()
        requests: list[dg.RunRequest] = []
        reasons: list[str] = []
        after: dict[str, Any] = {}
        # Several tables read the same one: its log is read once for all that know the same of it.
        changes = cache(lambda name, since: lake.ledger(name).changes(since=since))
        for group in groups:
            found = group.look(context, lake, now, cursor, changes)
            requests += found.requests
            reasons.append(found.reason)
            after |= found.cursor
        if requests:
            return dg.SensorResult(run_requests=requests, cursor=json.dumps(after))
        return dg.SensorResult(skip_reason="; ".join(reasons), cursor=json.dumps(after))

    return look


def lagging(tables: Sequence[LakeTable[...]], lake: Lake) -> list[tuple[str, str, list[str]]]:
    """List the tables that have not applied what changed upstream: table, its upstream tables, and the partition keys.

    Args:
        tables: the declared tables; those that follow nothing are left out.
        lake: where they are.
    """
    changes = cache(lambda name, since: lake.ledger(name).changes(since=since))
    following = (table for table in tables if table.reads and table.follows)
    written = (table for table in following if all(lake.ledger(spec.name).exists() for spec in table.reads))
    edges = [_Edges(table, lake, {}, changes) for table in written]
    return [(e.name, " and ".join(e.versions), sorted(e.lagging)) for e in edges if e.lagging]


@dataclass(frozen=True, slots=True)
class _Found:
    requests: Sequence[dg.RunRequest]
    reason: str
    cursor: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Group:
    """Tables with the same upstream tables and the same partitions: one run computes a partition of all of them.

    Attributes:
        upstream: names of the upstream tables.
        tables: the tables.
        chains: table -> every table that its run writes: its own, and those that follow it key by key.
    """

    upstream: tuple[str, ...]
    tables: tuple[LakeTable[...], ...]
    chains: Mapping[str, Sequence[str]]

    @property
    def names(self) -> list[str]:
        return [table.spec.name for table in self.tables]

    def look(
        self,
        context: dg.SensorEvaluationContext,
        lake: Lake,
        now: datetime,
        cursor: Mapping[str, Any],
        changes: _Changes,
    ) -> _Found:
        edges = [_Edges(table, lake, cursor.get(table.spec.name, {}), changes) for table in self.tables]
        behind: dict[str, int] = {}
        for edge in edges:
            for key, version in edge.behind.items():
                behind[key] = max(version, behind.get(key, -1))
        reached = {key: [e.applied.get(key, _NEVER) for e in edges if key in e.behind] for key in behind}
        oldest, current = self._bounds(now)
        plan = plan_late_partitions(
            behind,
            {key: min(versions) for key, versions in reached.items() if _NEVER not in versions},
            current=current,
            oldest=oldest,
            in_flight=in_flight(context.instance, context.repository_def, *self.names) if behind else (),
            limit=_AT_ONCE,
        )
        lagging = {key: [e.table.spec.name for e in edges if key in e.lagging] for key in plan.partitions}
        decision = decide(
            context.instance,
            plan,
            asset=self.names[0],
            behind=lagging,
            together=self.chains,
            repository=context.repository_def,
        )
        return _Found(decision.requests, self._reason(plan, decision.held, edges), {e.name: e.after() for e in edges})

    def _bounds(self, now: datetime) -> tuple[str, str]:
        """Give the oldest key that there is, and the first that there is not yet."""
        known = self.tables[0].partitions
        if not isinstance(known, dg.TimeWindowPartitionsDefinition):
            return "", _AFTER_ALL
        with dg.partition_loading_context(effective_dt=now):
            last = known.get_last_partition_key()
        end = known.time_window_for_partition_key(last).end if last else known.start
        return known.start.strftime(known.fmt), end.strftime(known.fmt)

    def _reason(self, plan: Plan, held: Mapping[str, str], edges: Sequence[_Edges]) -> str:
        seen = ", ".join(f"version {version} of {name}" for name, version in edges[0].versions.items())
        waiting = [f"{key}: {reason}" for key, reason in sorted(held.items())[:5]]
        return "; ".join([f"{plan.reason} up to {seen}", *waiting])


@dataclass(slots=True)
class _Edges:
    """What one table has to catch up with.

    Attributes:
        table: the table.
        lake: where it and its upstream tables are.
        known: what the cursor kept of it.
        changes: lists the changed partitions of an upstream table since a version.
        versions: upstream table -> version looked at.
        behind: partition key -> upstream version to reach: of the newest change of what its run reads.
        applied: partition key -> upstream version that it has applied, if any.
    """

    table: LakeTable[...]
    lake: Lake
    known: Mapping[str, Any]
    changes: _Changes
    versions: dict[str, int] = field(default_factory=dict)
    behind: dict[str, int] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.behind.update(self.known.get("behind", {}))
        for spec, feed in self.table.reads.items():
            since = self.known.get("versions", {}).get(spec.name, -1)
            self.versions[spec.name], changed = self.changes(spec.name, since)
            self._add(feed.feeds, changed)
        if self.behind:
            cursors = self.lake.ledger(self.name).transactions()
            found = {key: cursors.applied(self.name, owned_by(key, self.table.spec)) for key in self.behind}
            self.applied.update({key: version for key, version in found.items() if version is not None})

    @property
    def name(self) -> str:
        return self.table.spec.name

    @property
    def lagging(self) -> set[str]:
        """Keys that have not applied what they have to."""
        return {key for key, version in self.behind.items() if self.applied.get(key, -1) < version}

    def after(self) -> dict[str, Any]:
        """Say what the next tick has to know."""
        return {"versions": self.versions, "behind": {key: self.behind[key] for key in sorted(self.lagging)}}

    def _add(self, feeds: Any, changed: Mapping[Partition, int]) -> None:  # noqa: ANN401 - a feed's function
        touched: dict[str, int] = {}
        for partition, version in changed.items():
            for key in feeds(dict(partition)):
                touched[key] = max(version, touched.get(key, -1))
        if len(self.table.reads) > 1:
            # The run's sequence counts all its upstream tables, so that a change of any of them raises it.
            # A key that one of them knows nothing of yet waits for that one.
            sequences = {key: self._sequence(key) for key in touched}
            touched = {key: version for key, version in sequences.items() if version is not None}
        self.behind.update({key: max(version, self.behind.get(key, -1)) for key, version in touched.items()})

    def _sequence(self, key: str) -> int | None:
        try:
            return sum(pin(self.lake.table(spec), feed, key).changed for spec, feed in self.table.reads.items())
        except NotReady:
            return None


def _groups(tables: Sequence[LakeTable[...]]) -> list[_Group]:
    found: dict[tuple[Any, ...], list[LakeTable[...]]] = {}
    for table in tables:
        upstream = tuple(spec.name for spec in table.reads)
        found.setdefault((upstream, table.partitions), []).append(table)
    groups = [(upstream, tuple(group)) for (upstream, _), group in found.items()]
    return [_Group(upstream, group, {t.spec.name: _chain(t, tables) for t in group}) for upstream, group in groups]


def _chain(table: LakeTable[...], tables: Sequence[LakeTable[...]]) -> list[str]:
    """List what a table's run writes: its tables, and those that are computed from the same key of it alone.

    A late date reaches gold in the run that corrects silver, without another tick and another start.
    """
    after = [other for other in tables if list(other.reads) == [table.spec] and _keeps_keys(table, other)]
    return [*(spec.name for spec in table.tables), *(name for other in after for name in _chain(other, tables))]


def _keeps_keys(table: LakeTable[...], other: LakeTable[...]) -> bool:
    """Tell whether each partition of ``other`` is computed from the partition of ``table`` with the same key."""
    if table.partitions != other.partitions:
        return False
    feed, key = other.reads[table.spec], table.partitions.get_first_partition_key() if table.partitions else ""
    owned = owned_by(key or "", table.spec)
    return [dict(read) for read in feed.reads(key or "")] == [owned] and list(feed.feeds(owned)) == [key or ""]
