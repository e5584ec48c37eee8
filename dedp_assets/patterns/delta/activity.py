"""Activity of a table, read from the log without a JVM: arrivals of rows and sizes of partitions.

A poll reads the commits since the poll before. Of a log that begins with version 0, the active files follow from the
commits; of a log that was cleaned up, deltalake lists them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, DataArrival, PartitionSize
from dedp_assets.patterns.core.measuring.partition_times import Calendar, utc_span
from dedp_assets.patterns.core.parsing.field_census import CENSUS
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.core.types.partitions import NO_VALUE
from dedp_assets.patterns.delta.log.active_files import ActiveFiles, Total, totals_of
from dedp_assets.patterns.delta.log.brought_rows import (
    NO_EVENT,
    brought_rows,
    event_instant,
    newest_event,
    spelled_event,
    time_of,
)
from dedp_assets.patterns.delta.log.commit_info import RawCommit
from dedp_assets.patterns.delta.log.fold import LogFold
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.parsing import pairs_of
from dedp_assets.patterns.delta.log.partition_values import Naming, named_all
from dedp_assets.patterns.delta.log.vectors import FileIdentity, file_identity

__all__ = ["ActivityLog"]

_PHYSICAL = "delta.columnMapping.physicalName"


class _AddedFile(NamedTuple):
    """A data file in an add action.

    Attributes:
        identity: path, and deletion vector: one path may be removed and added again with another vector.
        key: key of the partition.
        rows: rows by the statistics, without deleted rows; ``None`` if unknown.
        newest: greatest event time in the spelling that sorts, ``NO_EVENT``, or ``None`` if unknown.
        changes: whether the commit changed rows by it.
    """

    identity: FileIdentity
    key: str
    rows: int | None
    size: int
    newest: str | None
    changes: bool


class _Touch(NamedTuple):
    """Times of the first and the last commit about a partition, and the verdict of the last one."""

    first_at: datetime
    last_at: datetime
    verdict: str


@dataclass(slots=True)
class ActivityLog:
    """Activity of one table, kept between polls so that a poll reads new commits only.

    Attributes:
        event_time: column with the time of an event (``TableSpec.event_time``); empty if the table declares none.
        keyed_by: partition columns whose values make up a partition key, such as the first one, which holds the keys of
            the graph; all of them if empty. The key of one column is its value, of several ``day=2026-01-05/hour=13``.
        calendar: times of the partition keys; by default, keys name days or hours in UTC.
    """

    event_time: str = ""
    keyed_by: Sequence[str] = ()
    calendar: Calendar = utc_span
    _fold: LogFold[RawCommit] = field(init=False)
    _activity: Activity | None = field(default=None, init=False)
    _whole: bool = field(default=True, init=False)
    _naming: Naming = field(default_factory=dict, init=False)
    _event: tuple[str, str] = field(default=("", ""), init=False)
    _keys: dict[Any, str] = field(default_factory=dict, init=False)
    _arrivals: list[DataArrival] = field(default_factory=list, init=False)
    _touched: dict[str, _Touch] = field(default_factory=dict, init=False)
    _fields: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False)
    _files: ActiveFiles = field(default_factory=ActiveFiles, init=False)
    _sizes: dict[str, PartitionSize] = field(default_factory=dict, init=False)
    _stale: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._fold = LogFold(Ledger.raw_commits, self._take_in, self._forget, self._begin)

    def poll(self, ledger: Ledger) -> Activity:
        """Read the commits since the last poll, and return the activity up to the newest version.

        An unchanged table costs a look at the log. A log that another one replaced, or that was cleaned up past what
        was read, is read from its beginning.

        Args:
            ledger: the log of the table, of the same table each time.

        Raises:
            ConfigError: if ``keyed_by`` names a column that the table is not partitioned by.
            ContractError: if the log is damaged; the next poll reads it from its beginning.
        """
        before = self._fold.version
        again = self._fold.poll(ledger)
        if self._activity is None or self._fold.version != before:
            try:
                if again or before < 0:
                    self._require_all(ledger)
                self._activity = self._read(ledger)
            except Exception:
                self._fold.begin_again()
                raise
        return self._activity

    def _begin(self, ledger: Ledger) -> int:
        """Take the declaration from the table's state if version 0 is gone."""
        self._whole = ledger.identity(0) is not None
        if not self._whole:
            state = ledger.state()
            self._declare(state.columns, state.partition_columns)
        return -1

    def _require_all(self, ledger: Ledger) -> None:
        """Refuse a log with a missing commit."""
        last = self._fold.version
        if last >= 0 and ledger.version() > last and ledger.identity(last + 1) is None:
            _ = ledger.state().snapshot

    def _declare(self, columns: Mapping[str, Mapping[str, Any]], partition_by: Sequence[str]) -> None:
        """Note how the columns are called in the log."""
        names = {name: each.get("metadata", {}).get(_PHYSICAL, name) for name, each in columns.items()}
        self._naming = {names[name]: (name, str(columns[name]["type"])) for name in partition_by}
        self._keys.clear()
        wanted = next((name for name in columns if name.lower() == self.event_time.lower()), None)
        self._event = (names[wanted], str(columns[wanted]["type"])) if wanted else ("", "")

    def _take_in(self, commit: RawCommit) -> None:
        """Read a commit: brought rows, added files and removed files."""
        actions = pairs_of(commit.raw)
        info: Mapping[str, Any] = next((of for kind, of in actions if kind == "commitInfo" and of), {})
        for kind, of in actions:
            if kind == "metaData":
                columns = {each["name"]: each for each in json.loads(of["schemaString"])["fields"]}
                self._declare(columns, of.get("partitionColumns") or [])
        removed = [of for kind, of in actions if kind == "remove" and of]
        added = [self._file(of) for kind, of in actions if kind == "add" and of]
        at = time_of(info, [of for kind, of in actions if kind in ("add", "remove") and of])
        record = CommitRecord.from_json(info.get("userMetadata"))
        changed = {self._key_of(of) for of in removed if of.get("dataChange", True)}
        changed |= {file.key for file in added if file.changes}
        self._touch(changed, record, at)
        self._arrive(commit.version, at, info, record, [file for file in added if file.changes], rewrites=bool(removed))
        if self._whole:
            self._replay(removed, added)

    def _file(self, add: Mapping[str, Any]) -> _AddedFile:
        stats = json.loads(add.get("stats") or "{}")
        rows, vector = stats.get("numRecords"), add.get("deletionVector") or {}
        rows = None if rows is None else rows - vector.get("cardinality", 0)
        newest = self._newest(add, stats)
        return _AddedFile(
            file_identity(add), self._key_of(add), rows, add.get("size") or 0, newest, add.get("dataChange", True)
        )

    def _newest(self, add: Mapping[str, Any], stats: Mapping[str, Any]) -> str | None:
        """Return the greatest event time of a file, by the partition or the statistics."""
        column, kind = self._event
        if not column:
            return NO_EVENT
        if column in self._naming:
            value = (add.get("partitionValues") or {}).get(column)
            return spelled_event(value, kind) if value else NO_EVENT
        return newest_event(stats, column, kind)

    def _arrive(
        self,
        version: int,
        at: datetime,
        info: Mapping[str, Any],
        record: CommitRecord | None,
        added: Sequence[_AddedFile],
        *,
        rewrites: bool,
    ) -> None:
        """Note an arrival, if the commit brought rows."""
        rows = brought_rows(info, record, [file.rows for file in added], rewrites=rewrites)
        if rows <= 0:
            return
        owned = self._key(record.partition) if record else ""
        keys = {file.key for file in added}
        newest = [file.newest for file in added]
        known = max(each for each in newest if each is not None) if None not in newest else None
        arrival = DataArrival(
            version=version,
            at=at,
            rows=rows,
            partition=owned or (keys.pop() if len(keys) == 1 else ""),
            newest_event=event_instant(known) if known else None,
            run_id=record.run_id if record else "",
            cause=record.cause if record else "",
            seconds=record.cost.seconds if record and record.cost else None,
            restores=info.get("operation") == "RESTORE",
        )
        self._arrivals.append(arrival)

    def _touch(self, changed: set[str], record: CommitRecord | None, at: datetime) -> None:
        """Note the time of a commit about partitions."""
        if record and record.partition and changed <= {key := self._key(record.partition)}:
            changed = {key}
        verdict = record.verdict if record else ""
        if record and (census := record.figures.get(CENSUS)):
            self._fields.pop(owned := self._key(record.partition), None)
            self._fields[owned] = census
        for key in changed:
            known = self._touched.get(key)
            self._touched[key] = _Touch(known.first_at if known else at, at, verdict)
        self._stale |= changed

    def _replay(self, removed: Sequence[Mapping[str, Any]], added: Sequence[_AddedFile]) -> None:
        """Apply a commit to the active files."""
        for remove in removed:
            self._files.drop(file_identity(remove))
        for file in added:
            self._files.add(file.identity, file.key, file.rows, file.size)
        self._stale |= {self._key_of(of) for of in removed} | {file.key for file in added}

    def _read(self, ledger: Ledger) -> Activity:
        """Return the activity up to the newest version."""
        version = self._fold.version
        if version < 0:
            return Activity(table=ledger.name, calendar=self.calendar)
        columns = [name for name, _ in self._naming.values()]
        if unknown := [name for name in self.keyed_by if name not in columns]:
            raise ConfigError(f"keyed_by must be partition columns of {columns}, not {', '.join(unknown)}")
        totals = self._files.totals
        if not self._whole:
            totals = totals_of(ledger.state(version), self.keyed_by, self._key)
            self._stale = {*self._sizes, *totals}
        for key in self._stale:
            self._sizes.pop(key, None)
            if total := totals.get(key):
                self._sizes[key] = _size_of(total, self._touched.get(key))
        self._stale.clear()
        return Activity(
            table=ledger.name,
            version=version,
            arrivals=tuple(self._arrivals),
            partitions={key: self._sizes[key] for key in sorted(self._sizes)},
            fields=dict(self._fields),
            calendar=self.calendar,
        )

    def _key_of(self, file: Mapping[str, Any]) -> str:
        """Return the key of a file's partition."""
        values = tuple(sorted((file.get("partitionValues") or {}).items()))
        key = self._keys.get(values)
        if key is None:
            (partition,) = named_all({values}, lambda: self._naming)
            key = self._keys[values] = self._key(dict(partition))
        return key

    def _key(self, partition: Mapping[str, str | None]) -> str:
        kept = {name: partition[name] for name in self.keyed_by if name in partition} or dict(partition)
        if len(kept) == 1:
            (value,) = kept.values()
            return NO_VALUE if value is None else value
        return slice_name(kept) if kept else ""

    def _forget(self) -> None:
        self._activity = None
        self._naming, self._event, self._files = {}, ("", ""), ActiveFiles()
        self._arrivals.clear()
        for known in (self._keys, self._touched, self._fields, self._sizes, self._stale):
            known.clear()


def _size_of(total: Total, touch: _Touch | None) -> PartitionSize:
    return PartitionSize(
        rows=None if total.unknown else total.rows,
        size=total.size,
        files=total.files,
        first_at=touch.first_at if touch else None,
        last_at=touch.last_at if touch else None,
        verdict=touch.verdict if touch else "",
    )
