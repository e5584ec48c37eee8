"""Cached state of a table's log between two polls, so that a poll reads new commits only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from urllib.parse import unquote

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.revisions import Revisions
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Cursors, Glimpse, Ledger, LogFold, Partition, Transactions
from dedp_assets.patterns.idempotency._executions import Execution, ExecutionLog

__all__ = ["LoadedDelivery", "News", "RolledBack", "TableWatch"]

_LONG_AGO = 0
"""The version of a change that the log no longer tells: whoever applied anything since has it."""


@dataclass(frozen=True, slots=True)
class News:
    """Changes found by a poll since the previous poll.

    Attributes:
        changed: upstream partitions that changed.
        keys: partition keys of the table that were written or rolled back.
        reset: whether what was known before no longer holds: another table lies there, or the log was cleaned up.
        since: the first day that the changes are about; empty for all days.
    """

    changed: Mapping[Partition, int] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()
    reset: bool = False
    since: str = ""

    def __bool__(self) -> bool:
        """Return whether the poll found a change."""
        return bool(self.changed or self.keys or self.reset)


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A restored partition key: version of the restore, and the changed table partitions."""

    version: int
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class LoadedDelivery:
    """The delivery that a partition was loaded from.

    Attributes:
        delivery: its identity.
        at: when the run that looked at it began (ISO 8601 in UTC).
        content: the digest of its bytes.
        code: version of the code that loaded it.
    """

    delivery: str
    at: str
    content: str = ""
    code: str = ""


@dataclass(slots=True)
class TableWatch:
    """Cached state of one table's log.

    Attributes:
        spec: the table.
        column: partition column that holds the partition keys; empty for a table without them.
        read: whether another table reads it, so that its changes count.
        loads: whether its commits name deliveries.
        revises: whether its commits state the first day that they are about.
        changed: partition -> version that changed it last.
        rolled_back: key -> the restore that took back what was applied to it; nobody has written it since.
        loaded: key -> the delivery it was loaded from.
        done: value of the first partition column -> version of the newest commit about it, with or without rows.
        revisions: the newest commit about each day, if ``revises``.
    """

    spec: TableSpec
    column: str
    read: bool = False
    loads: bool = False
    revises: bool = False
    changed: dict[Partition, int] = field(default_factory=dict)
    rolled_back: dict[str, RolledBack] = field(default_factory=dict)
    loaded: dict[str, LoadedDelivery] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    revisions: Revisions = field(default_factory=Revisions)
    _log: ExecutionLog = field(default_factory=ExecutionLog)
    _newest: dict[str, Execution] = field(default_factory=dict)
    _before: Cursors | None = field(default_factory=Transactions)
    _moved: dict[str, int] = field(default_factory=dict)
    _prefix: str = ""
    _fold: LogFold[Glimpse] = field(init=False)
    _changed: dict[Partition, int] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)
    _skipped: bool = False

    def __post_init__(self) -> None:
        self._prefix = f"{self.spec.name}/"
        self._fold = LogFold(self._commits, self._take, self._forget, self._begin)

    @classmethod
    def of(cls, spec: TableSpec, table: LakeTable[...] | None, *, read: bool, revises: bool = False) -> TableWatch:
        """Make the watch of a table, keyed by partition if the graph declares the table with partitions."""
        columns = [spec.executed_by] if spec.executed_by else [*spec.partition_by[:1], ""]
        keyed = table is not None and table.runs.partitions is not None
        return cls(spec, columns[0] if keyed else "", read, loads=bool(table and table.lands), revises=revises)

    @property
    def version(self) -> int:
        """The newest version that was read; -1 without a table."""
        return self._fold.version

    @property
    def identity(self) -> object:
        """Identity of the newest commit that was read; ``None`` without a table."""
        return self._fold.identity

    def poll(self, ledger: Ledger) -> News:
        """Read the commits since the last poll.

        Raises:
            ContractError: if the log is damaged; the next poll reads the log from its beginning.
        """
        self._changed, self._keys, self._skipped = {}, set(), False
        before = self.version
        reset = self._fold.poll(ledger)
        since = self.revisions.since(-1 if reset else before)
        return News(self._changed, frozenset(self._keys), reset or self._skipped, since=since)

    def _begin(self, ledger: Ledger) -> int:
        if self.read or self.loads or self.spec.executed_by:
            return -1
        # The table's transactions tell at once what was written before; both are found by one reading of the log.
        restored = ledger.first_restore()
        self._skipped, self._before, self._moved = True, ledger.transactions(), {}
        return restored - 1

    def _commits(self, ledger: Ledger, since: int) -> Iterator[Glimpse]:
        return ledger.glimpses(since=since, records=self.loads or self.revises or bool(self.spec.executed_by))

    def _take(self, glimpse: Glimpse) -> None:
        changed = dict.fromkeys(glimpse.changed, _LONG_AGO if glimpse.forgotten else glimpse.version)
        self._changed |= changed
        self.changed |= changed
        for partition in glimpse.expired:  # computed or not, nothing downstream is computed from it any more
            self.changed.pop(partition, None)
            self._skipped = True
        written = self._take_in(glimpse)
        self._moved |= glimpse.transactions
        if glimpse.forgotten:
            self._before = None
        self._note_done(glimpse, written)
        self._keys.update(written)
        if self.revises:
            self.revisions.take_in(glimpse)

    def applied(self, ledger: Ledger, keys: Iterable[str]) -> dict[str, int]:
        """Return the applied upstream version of each key, without rolled-back keys."""
        wanted = [key for key in keys if key not in self.rolled_back]
        if self.version < 0 or not wanted:
            return {}
        partitions = (owned_by(key, self.spec) for key in wanted)
        found = zip(wanted, self.reached(ledger, partitions), strict=True)
        return {key: version for key, version in found if version is not None}

    def reached(self, ledger: Ledger, partitions: Iterable[Mapping[str, str]]) -> Iterator[int | None]:
        """Yield the last applied upstream version of each partition.

        The table's cursors are read once, unless all commits were; later commits tell how they moved.
        """
        if self.version < 0:
            return repeat(None, len(list(partitions)))
        return self.cursors(ledger).reached_each(self.spec.name, partitions)

    def cursors(self, ledger: Ledger) -> Cursors:
        """Return the table's cursors at the last poll."""
        if self._before is None:
            self._before, self._moved = ledger.transactions(), {}
        return Transactions(self._moved, self._before)

    def _take_in(self, glimpse: Glimpse) -> Collection[str]:
        """Record a commit's effects on partition keys; return the written or rolled-back keys."""
        if self.spec.executed_by:
            return self._executed(glimpse)
        if glimpse.restores:
            changed = {key for partition in glimpse.changed if (key := self._key(partition)) is not None}
            for key in changed:
                taken = frozenset(each for each in glimpse.changed if self._key(each) == key)
                self.rolled_back[key] = RolledBack(glimpse.version, taken)
                self.loaded.pop(key, None)
            return changed
        written = [key for app_id in glimpse.transactions if (key := self._written(app_id)) is not None]
        for key in written if self.rolled_back else ():
            self.rolled_back.pop(key, None)
        if glimpse.stated and "delivery" in glimpse.stated.get("notes", ()):
            key = glimpse.stated["partition"].get(self.column, "") if self.column else ""
            content = "".join(map(str, glimpse.stated.get("inputs", {}).values()))
            stated = glimpse.stated
            delivery, code = str(stated["notes"]["delivery"]), stated.get("code_version", "")
            self.loaded[key] = LoadedDelivery(delivery, stated.get("at", ""), content, code)
            written.append(key)
        return written

    def _note_done(self, glimpse: Glimpse, written: Collection[str]) -> None:
        """Note the version of the newest commit about each partition."""
        column = next(iter(self.spec.partition_by), "")
        values = {*written, *(dict(partition).get(column) for partition in glimpse.changed)} if self.read else set()
        version = _LONG_AGO if glimpse.forgotten else glimpse.version
        self.done |= dict.fromkeys((value for value in values if value is not None), version)

    def _executed(self, glimpse: Glimpse) -> set[str]:
        """Record the executions whose newest run is missing in the rows; return the affected keys."""
        written = next((key for app_id in glimpse.transactions if (key := self._written(app_id)) is not None), None)
        before = self._log.now.last
        self._log.take_in(glimpse, written)
        now, known = self._log.now.last, dict(self.rolled_back)
        if written is not None and now is not None and not glimpse.restores:
            self._newest[written] = now
            self.rolled_back.pop(written, None)
        if glimpse.restores or (now is not before and now is not None and now.before is not before):
            standing = {each.key: each for each in self._log.now.standing}
            gone = {key for key, newest in self._newest.items() if not newest.is_like(standing.get(key))}
            nothing = RolledBack(glimpse.version, frozenset())
            self.rolled_back = {key: known.get(key, nothing) for key in gone | self._log.now.pending}
        return {*known, *self.rolled_back} | ({written} if written is not None else set())

    def _key(self, partition: Partition) -> str | None:
        return dict(partition).get(self.column) if self.column else ""

    def _written(self, app_id: str) -> str | None:
        """Return the partition key in the transaction id of a library write; ``None`` for any other id."""
        if not app_id.startswith(self._prefix):
            return None
        slice_, _, generation = app_id[len(self._prefix) :].partition("/")
        if not generation[:1].isdigit():  # a lease, the generation itself: no write
            return None
        if not self.column:
            return ""
        column, _, value = slice_.partition("=")
        if "%" in slice_:
            column, value = unquote(column), unquote(value)
        return value if column == self.column else None

    def _forget(self) -> None:
        self._log, self.revisions, self._before = ExecutionLog(), Revisions(), Transactions()
        for known in (self.changed, self.rolled_back, self.loaded, self.done, self._newest, self._moved):
            known.clear()
