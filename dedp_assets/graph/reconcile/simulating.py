"""Simulation of runs: the commits that runs would make, for the reconciler to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import PrivateAttr

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.feeds import Feed
from dedp_assets.graph.inputs.revisions import TRUE_SINCE
from dedp_assets.graph.reconcile.edges import Edge
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.reconciling import Want
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Ledger, Partition, SimulatedLedger, Table, transaction_id
from dedp_assets.patterns.idempotency._executions import EXECUTION, ExecutionLog

__all__ = ["SimulatedLake", "Simulation"]

_NO_DAY = "9999-12-31"
"""First day of the rows of a reference that a simulated run changes: after every partition."""


class SimulatedLake(Lake):
    """The lake with simulated commits, which nobody else sees."""

    _ledgers: dict[str, SimulatedLedger] = PrivateAttr(default_factory=dict)

    @classmethod
    def over(cls, lake: Lake) -> SimulatedLake:
        """Return a simulated lake over the stored lake."""
        return cls(root=lake.root, lineage=lake.lineage, exports=lake.exports, engine=lake.engine)

    def simulated(self, name: str) -> SimulatedLedger:
        """Return the log of a table, to be simulated further."""
        if name not in self._ledgers:
            self._ledgers[name] = SimulatedLedger(self._uri_of(name), name=name)
        return self._ledgers[name]

    def ledger(self, name: str) -> Ledger:
        """Return the log of a table with the simulated commits."""
        return self.simulated(name)

    def table(self, spec: TableSpec) -> Table:
        """Open a table whose log has the simulated commits."""
        table = super().table(spec)
        table.ledger = self.simulated(spec.name)
        return table


@dataclass(slots=True)
class Simulation:
    """Writer of the commits that runs would make.

    Every run succeeds, and changes each partition that the run computes.

    Attributes:
        lake: takes the commits.
        overview: staleness of the tables, as far as the reconciler has polled.
        now: current time, with time zone.
        opened: tables of which a run may change more partitions than anybody knows before.
    """

    lake: SimulatedLake
    overview: Overview
    now: datetime
    opened: set[str] = field(default_factory=set)
    _edges: dict[str, Edge] = field(default_factory=dict)
    _tables: dict[str, LakeTable[...]] = field(default_factory=dict)
    _readers: dict[str, list[tuple[str, Feed]]] = field(default_factory=dict)
    _executions: dict[str, tuple[ExecutionLog, int]] = field(default_factory=dict)
    _held: dict[str, dict[str, set[Partition]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tables = {table.spec.name: table for table in self.overview.tables}
        self._edges = {edge.name: edge for group in self.overview.groups for edge in group.edges}
        for name, edge in self._edges.items():
            feeds = [(spec.name, feed) for spec, feed in edge.table.reads.tables.items()]
            if edge.table.hands_over is not None:
                feeds.append((edge.table.hands_over.name, edge.handover.feed(edge.table)))
            for upstream, feed in feeds:
                self._readers.setdefault(upstream, []).append((name, feed))

    def sort(self, names: Iterable[str]) -> list[str]:
        """Return tables that a run computes with upstream tables before downstream tables."""
        places = {name: place for place, name in enumerate(self._edges)}
        return sorted({name for name in names if name in self._tables}, key=lambda name: places.get(name, -1))

    def fed_by(self, name: str, keys: Iterable[str]) -> set[tuple[str, str]]:
        """Return the tables and keys downstream that a run of a table feeds.

        Args:
            name: the table.
            keys: partition keys of the run.
        """
        found = set[tuple[str, str]]()
        table = self._tables[name]
        for spec in table.tables:
            readers = self._readers.get(spec.name, ())
            changed = {p for key in keys for p in self._changed(spec, key, main=spec == table.spec)} if readers else ()
            for values in map(dict, changed):
                found |= {(reader, key) for reader, feed in readers for key in feed.feeds(values)}
        return found

    def changes(self, want: Want, stored: Mapping[str, int]) -> dict[str, int]:
        """Return the newest stored version of each upstream table that feeds a partition.

        Args:
            want: the partition.
            stored: table -> newest version that is stored.
        """
        edges = [self._edges[name] for name in want.tables if name in self._edges]
        found = {name: newest.get(want.key, -1) for edge in edges for name, newest in edge.newest.items()}
        return {name: version for name, version in found.items() if 0 <= version <= stored[name]}

    def write(self, name: str, wants: Sequence[Want], *, again: bool = False) -> None:
        """Simulate the commits of a run to a table and to the tables of the same step.

        A partition that is current is not computed again.

        Args:
            name: the table.
            wants: the partitions of the run.
            again: whether a person asks for partitions that are current.
        """
        table, edge = self._tables[name], self._edges.get(name)
        if table.lands:
            for want in wants:
                self._commit(table, {want.key: None}, {"delivery": want.goal})
            return
        stale = edge.lagging if edge else {}
        watch = self.overview.watches.get(name) if again else None
        current = watch.applied(self.lake.ledger(name), [want.key for want in wants]) if watch else {}
        applied = {**current, **{want.key: stale[want.key] for want in wants if want.key in stale}}
        if table.spec.executed_by:
            for key, version in applied.items():
                self._commit(table, {key: version}, self._execution(table, key))
        elif applied:
            self._commit(table, applied)

    def _commit(
        self,
        table: LakeTable[...],
        applied: Mapping[str, int | None],
        notes: Mapping[str, object] | None = None,
    ) -> None:
        """Commit partitions of a table: key -> upstream version that is applied, if any."""
        for spec in table.tables:
            ledger, watch = self.lake.simulated(spec.name), self.overview.watches.get(spec.name)
            if watch is None:
                continue
            generation = watch.cursors(ledger).generation(spec.name) if watch.version >= 0 else 0
            cursors = {}
            for key, version in applied.items():
                owned = owned_by(key, spec)
                app_id = transaction_id(spec.name, owned, generation, "runs" if version is None else "")
                cursors[app_id] = version or 0
            noted = {**(notes or {}), **({TRUE_SINCE: _NO_DAY} if watch.revises else {})}
            (key, version), *_ = applied.items()
            record = self._record(spec, key, version, noted) if noted else None
            changed = {p: key for key in applied for p in self._changed(spec, key, main=spec == table.spec)}
            ledger.simulate(changed, cursors, record)
            if watch.revises or (watch.read and len(spec.partition_by) > len(owned_by(key, spec)) and table.lands):
                self.opened.add(spec.name)

    def _record(self, spec: TableSpec, key: str, version: int | None, notes: Mapping[str, object]) -> CommitRecord:
        run = Provenance(asset=spec.name, run_id="", sequence=version, notes=notes, at=self.now, code_version="")
        return CommitRecord.of(run, content="", owned=owned_by(key, spec))

    def _changed(self, spec: TableSpec, key: str, *, main: bool) -> Iterator[Partition]:
        """Yield the partitions that a run of a key changes: all with rows of the key, or the key's own."""
        owned, watch = owned_by(key, spec), self.overview.watches[spec.name]
        if not watch.read:
            return
        if owned.keys() == {*spec.partition_by}:
            yield tuple(owned.items())
            return
        if not owned or not owned.keys() <= {*spec.partition_by}:
            yield from watch.changed or [()]
            return
        (column, _), *_ = owned.items()
        if spec.name not in self._held:
            held = self._held[spec.name] = {}
            for partition in watch.changed:
                held.setdefault(dict(partition)[column] or "", set()).add(partition)
        known = self._held[spec.name].get(key, set())
        kinds = {spec.columns[each].type for each in spec.partition_by}
        if main and not known and len(kinds) == 1:
            # What lands on a day happened on that day; what else it holds nobody knows before it is read.
            known = {tuple(sorted(dict.fromkeys(spec.partition_by, key).items()))}
        yield from known

    def _execution(self, table: LakeTable[...], key: str) -> Mapping[str, object]:
        """Return the notes of a simulated execution in order; of any other, a mark alone."""
        if not table.runs.in_order:
            return {"simulated": True}
        name = table.spec.name
        ledger = self.lake.simulated(name)
        log, version = self._executions.get(name, (ExecutionLog(), -1))
        for glimpse in ledger.glimpses(since=version, records=True) if ledger.exists() else ():
            log.take_in(glimpse)
            version = glimpse.version
        self._executions[name] = log, version
        start = log.now.start(name, key, ())
        base = max(version, 0) if start.base is None else start.base
        return {EXECUTION: {"key": key, "base": base, "after": start.after, "pending": list(start.pending)}}
