"""History of a table: sizes of partitions and last commits, read on from the last page."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from dedp_assets.laptop.status_page.model import CommitRow, Point, Spending
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta import Commit as Logged
from dedp_assets.patterns.delta import Ledger, LogFold

__all__ = ["History"]

_COMMITS = 100
_DAYS = 30


@dataclass(slots=True)
class History:
    """Content of a table's log up to a version.

    Attributes:
        column: column whose values are the partition keys, or name of the executions; empty for no partitions.
        executed: whether the keys are executions, which the files do not carry.
        rows: partition key -> rows of the active files; ``None`` if the log does not tell.
        written: partition key -> newest commit of the partition.
        commits: last commits with rows or a record, the oldest first.
        costs: UTC day -> number of commits and their cost.
    """

    column: str = ""
    executed: bool = False
    rows: dict[str, int | None] = field(default_factory=dict)
    written: dict[str, CommitRow] = field(default_factory=dict)
    commits: deque[CommitRow] = field(default_factory=lambda: deque(maxlen=_COMMITS))
    costs: dict[date, tuple[int, Cost]] = field(default_factory=dict)
    _by: str = ""
    _fold: LogFold[Logged] = field(init=False)

    def __post_init__(self) -> None:
        self._fold = LogFold(lambda ledger, since: ledger.commits(since=since), self._note, self._forget, self._begin)

    @property
    def version(self) -> int:
        """The newest version that was read; -1 before the first page."""
        return self._fold.version

    def read(self, ledger: Ledger) -> bool:
        """Read the new commits; return whether the table has a new version.

        Raises:
            ContractError: if the log is damaged.
            NotReady: if there is no table.
        """
        before, again = self.version, self._fold.poll(ledger)
        _ = ledger.version()  # raises where there is no table
        if not again and self.version == before:
            return False
        if self._by and not self.executed:
            self.rows = {}
            for partition, found in ledger.state(self.version).statistics().items():
                key = dict(partition).get(self._by) or ""
                earlier = self.rows.get(key, 0)
                self.rows[key] = earlier + found.rows if found.exact and earlier is not None else None
        return True

    def _begin(self, ledger: Ledger) -> int:
        self._by = self.column or next(iter(ledger.state().partition_columns), "")
        return -1

    def keys(self) -> list[str]:
        """List the keys of partitions that have rows or were written, sorted."""
        return sorted({*self.rows, *self.written} - {""})

    def rows_of(self, key: str) -> int | None:
        """Return the rows of a partition; ``None`` if unknown."""
        commit = self.written.get(key)
        if self.executed:
            return commit.rows if commit else None
        return self.rows.get(key, 0 if commit else None)

    def seconds(self) -> tuple[Point, ...]:
        """Return the seconds of the commits by day, the oldest first, without unmeasured days."""
        known = [(day, cost.seconds) for day, (_, cost) in sorted(self.costs.items()) if cost.seconds is not None]
        return tuple(Point(day.isoformat(), seconds) for day, seconds in known[-_DAYS:])

    def spending(self) -> tuple[Spending, ...]:
        """Return the cost by day, the newest first."""
        days: Sequence[tuple[date, tuple[int, Cost]]] = sorted(self.costs.items(), reverse=True)[:_DAYS]
        return tuple(Spending(day.isoformat(), n, cost.seconds, cost.bytes_written) for day, (n, cost) in days)

    def _forget(self) -> None:
        for each in (self.rows, self.written, self.commits, self.costs):
            each.clear()

    def _note(self, logged: Logged) -> None:
        record = logged.record
        spent = record or logged.maintenance
        if spent and spent.cost:
            number, before = self.costs.get(logged.timestamp.date(), (0, Cost()))
            self.costs[logged.timestamp.date()] = (number + 1, before + spent.cost)
        if record is None and not logged.changed:
            return
        key = str(record.partition.get(self._by) or "") if record else ""
        commit = _commit(logged, record, key)
        self.commits.append(commit)
        for each in {key} if record else {dict(values).get(self._by) or "" for values in logged.changed}:
            again = (record.cause,) if record and each in self.written and logged.changed else ()
            earlier = self.written[each].rebuilt if each in self.written else ()
            self.written[each] = replace(commit, rebuilt=(*earlier, *again))


def _commit(logged: Logged, record: CommitRecord | None, key: str) -> CommitRow:
    if record is None:
        return CommitRow(
            version=logged.version, at=logged.timestamp, operation=logged.operation, rows=logged.rows_added
        )
    counted = record.rows.get("represented", record.rows.get("written"))
    dead, twice = record.rows.get("dead", 0), record.rows.get("duplicates", 0)
    counts = {"read": record.rows.get("read", 0), "kept": counted or 0, "dead": dead, "duplicates": twice}
    return CommitRow(
        version=logged.version,
        at=logged.timestamp,
        partition=key,
        operation=logged.operation,
        verdict=record.verdict,
        cause=record.cause,
        run_id=record.run_id,
        rows=counted if record.counted else None,
        seconds=record.cost.seconds if record.cost else None,
        counts=counts if record.counted else {},
    )
