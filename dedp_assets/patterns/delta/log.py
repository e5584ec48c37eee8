"""The ledger: what a Delta table's log says, read in milliseconds and without a JVM.

Commits are read from ``_delta_log/*.json`` (one JSON action per line, as the Delta protocol defines); the state that
checkpoints carry (active files, transaction cursors, metadata) comes from ``deltalake``.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache, cached_property, lru_cache, partial
from itertools import count
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady
from dedp_assets.patterns.core.partitions import logged, text
from dedp_assets.patterns.core.records import CommitRecord, slice_name
from dedp_assets.patterns.delta.glancing import Glance, glance
from dedp_assets.patterns.delta.locations import Located, Location, store_at
from dedp_assets.patterns.delta.logfiles import log_faults
from dedp_assets.patterns.delta.store import delta_table

__all__ = [
    "CLOSED",
    "Commit",
    "Cursor",
    "Cursors",
    "FileStats",
    "Glimpse",
    "KeyedFile",
    "Ledger",
    "Partition",
    "RELABELLED",
    "TableState",
    "Transactions",
    "generation_id",
    "is_append",
    "transaction_id",
]

Partition = tuple[tuple[str, str | None], ...]
"""Partition values spelled as in the log, ordered by column name: ``(("day", None), ("landed_on", "2026-01-05"))``."""

Cursor = Literal["", "appends", "runs"]
"""Which of a partition's cursors: of writes at an upstream version, of appends, of writes without such a version."""

Naming = Mapping[str, tuple[str, str]]
"""Partition column as the files' log entries call it -> its name in the schema and its type."""

_JSON = json.JSONDecoder()
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOWHERE = frozenset[Partition]()
_Columns = tuple[tuple[str, tuple[str, str]], ...]
"""The items of a :data:`Naming`."""
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError)
"""Errors that reading a commit raises, if it is not as the protocol says."""

T = TypeVar("T")

CLOSED = "dedp.closed"
"""A writer feature that no engine has: by the Delta protocol, each of them reads such a table and refuses to write."""

KeyedFile = tuple[Mapping[str, Any], Partition]
"""An active file as :meth:`TableState.files` shows it, with its partition."""

_COMMIT_FILE = re.compile(r"\d{20}\.json")
_LITERAL = re.compile(r"[A-Za-z0-9_. -]+")  # what every writer of logs spells alike
_NO_FILE = re.compile(rb'[{] *"(?:commitInfo|txn|protocol|metaData|domainMetadata)" *:.*[}]')
_SOON = 100
"""Number of commits after a checkpoint up to which reading them here is as fast as by deltalake."""
_ROWS = {"add", "remove"}
_FILES = _ROWS | {"cdc"}
_MAINTENANCE = {"OPTIMIZE", "VACUUM END", "KEEP VERSIONS"}
RELABELLED = "relabelled"
"""Under this name a commit that only maintained files notes the partition values that it gave another name."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table's log.

    Attributes:
        changed: partitions whose rows this commit changed; compaction (``dataChange = false``) changes none.
        record: the record of a write, or ``None`` for a foreign commit and for one that only maintained the files.
        maintenance: the record of a compaction or a vacuum, which never answers for a partition.
        note: the commit's user metadata, if that is no commit record.
        transactions: transaction ids the commit moved, with their versions.
        files_added: data files the commit added.
        files_past: files that only the past needs from here on: data files it removed, and its change data.
        rows_added: rows in those files by their statistics, in rows.
        metrics: Delta's operation metrics, as written (strings).
        parameters: Delta's operation parameters, as written.
    """

    version: int
    timestamp: datetime
    operation: str
    record: CommitRecord | None
    changed: frozenset[Partition]
    note: str = ""
    transactions: Mapping[str, int] = field(default_factory=dict)
    files_added: tuple[str, ...] = ()
    files_past: tuple[str, ...] = ()
    maintenance: CommitRecord | None = None
    rows_added: int = 0
    metrics: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def changes(self, partition: Mapping[str, str | None]) -> bool:
        """Tell whether the commit changed rows of ``partition``."""
        return any(partition.items() <= dict(values).items() for values in self.changed)

    @property
    def relabels(self) -> bool:
        """Tell whether the commit made files of partitions those of others, which may stand for one without files."""
        return bool(self.maintenance and self.maintenance.notes.get(RELABELLED))

    def touches(self, partition: Mapping[str, str | None]) -> bool:
        """Tell whether the commit changed rows of ``partition``, was written for it, or took it back."""
        written = self.record is not None and (self.record.partition == partition or self.record.awaits(partition))
        return written or self.changes(partition) or self._restores(partition)

    def _restores(self, execution: Mapping[str, str | None]) -> bool:
        """Return whether this RESTORE may have undone a batch of a table that is keyed by batch."""
        return self.operation == "RESTORE" and any(execution.keys() - dict(values).keys() for values in self.changed)


class Glimpse(NamedTuple):
    """Summary of a commit: changed partitions, transaction ids, the version that it restores.

    Attributes:
        changed: partitions whose rows the commit changed.
        transactions: transaction ids that it moved.
        restores: whether it made an earlier version current again; whoever wrote it.
        restored_to: that version, if the commit names it.
        stated: what the record of a write states, by field, if it was asked for; empty without one.
        forgotten: whether the log does not tell what was before: ``changed`` are the partitions that had rows.
    """

    version: int
    changed: frozenset[Partition]
    transactions: tuple[str, ...] = ()
    restores: bool = False
    restored_to: int | None = None
    stated: Mapping[str, Any] = _NOTHING
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class FileStats:
    """The active files of one partition: how many, their rows and their bytes.

    ``exact`` says whether the log knows how many rows there are: a file may have no statistics, or deleted rows.
    """

    files: int = 0
    rows: int = 0
    bytes: int = 0
    exact: bool = True


class Cursors(ABC):
    """The transaction ids of a table, and what they say about its partitions."""

    @abstractmethod
    def transaction(self, app_id: str) -> int | None:
        """Look up the last version applied under ``app_id``, which survives the cleanup of the log."""

    def applied(self, table: str, partition: Mapping[str, str]) -> int | None:
        """Look up the upstream version that ``partition`` of ``table`` was last computed from: its cursor."""
        return max((v for v in self._versions_of(table, partition, "", "appends") if v is not None), default=None)

    def reached(self, table: str, partition: Mapping[str, str]) -> int | None:
        """Look up the upstream version that ``partition`` applied last, in the newest generation that wrote it.

        A restore begins a generation, and leaves what it does not roll back as an earlier one wrote it.
        """
        return next(self.reached_each(table, [partition]))

    def reached_each(self, table: str, partitions: Iterable[Mapping[str, str]]) -> Iterator[int | None]:
        """Find what :meth:`reached` finds, for one partition after the other."""
        newest, look_up = self.generation(table), self.transaction
        for partition in partitions:
            found, generation, written = None, newest, f"{table}/{slice_name(partition)}/"
            while found is None and generation >= 0:
                replaced = look_up(f"{written}{generation}")
                appended = look_up(f"{written}{generation}:appends")
                if replaced is None or appended is None:
                    found = appended if replaced is None else replaced
                else:
                    found = max(replaced, appended)
                generation -= 1
            yield found

    def written(self, table: str, partition: Mapping[str, str]) -> bool:
        """Tell whether the library wrote ``partition`` in this generation of ``table``, with or without a version."""
        return any(v is not None for v in self._versions_of(table, partition, "", "appends", "runs"))

    def _versions_of(self, table: str, partition: Mapping[str, str], *kinds: Cursor) -> Iterator[int | None]:
        generation = self.generation(table)
        return (self.transaction(transaction_id(table, partition, generation, kind)) for kind in kinds)

    def generation(self, table: str) -> int:
        """Count how often the table was restored."""
        return self.transaction(generation_id(table)) or 0


@dataclass(frozen=True)
class Transactions(Cursors):
    """The transaction cursors of a table without the rest of its state; ``by_id`` maps each id to its version."""

    by_id: Mapping[str, int] = field(default_factory=dict, repr=False)

    def transaction(self, app_id: str) -> int | None:
        """Look up the last version applied under ``app_id``."""
        return self.by_id.get(app_id)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a log says of a table beside its files: two actions as the protocol defines them, transactions by id."""

    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    transactions: Mapping[str, int]


@dataclass(frozen=True)
class TableState(Cursors):
    """The table at one version: schema, properties, active files, transaction cursors.

    Attributes:
        version: which.
        opened: reads the whole of it by deltalake, once somebody asks for more than ``declared`` holds.
        declared: what is known without that, if it is.
    """

    version: int
    opened: Callable[[], DeltaTable] = field(repr=False)
    declared: Declared | None = field(default=None, repr=False)

    @cached_property
    def snapshot(self) -> DeltaTable:
        """The table as deltalake reads it, with every active file."""
        return self.opened()

    @cached_property
    def protocol(self) -> Mapping[str, Any]:
        """The protocol versions and features of the table, as the log states them."""
        if self.declared:
            return self.declared.protocol
        stored = self.snapshot.protocol()
        features = {"readerFeatures": stored.reader_features, "writerFeatures": stored.writer_features}
        versions = {"minReaderVersion": stored.min_reader_version, "minWriterVersion": stored.min_writer_version}
        return {**versions, **{name: value for name, value in features.items() if value is not None}}

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """Table properties, constraints among them (``delta.constraints.<name>``)."""
        known = self.declared.metadata["configuration"] if self.declared else self.snapshot.metadata().configuration
        return {k: v for k, v in known.items() if v is not None}

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """Partition columns in order."""
        return tuple(
            self.declared.metadata["partitionColumns"] if self.declared else self.snapshot.metadata().partition_columns
        )

    @cached_property
    def columns(self) -> Mapping[str, Mapping[str, Any]]:
        """Column name -> its field of the table's schema (``type``, ``nullable``, ``metadata``)."""
        schema = self.declared.metadata["schemaString"] if self.declared else self.snapshot.schema().to_json()
        return {f["name"]: f for f in json.loads(schema)["fields"]}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """Partition column -> its type, in order."""
        return {c: str(self.columns[c]["type"]) for c in self.partition_columns}

    @property
    def mapped(self) -> bool:
        """Tell whether columns in the files go by other names than in the schema."""
        return self.properties.get("delta.columnMapping.mode", "none") != "none"

    @property
    def identities(self) -> Mapping[str, bool]:
        """IDENTITY column -> whether an INSERT may state its value."""
        told = {name: field.get("metadata", {}) for name, field in self.columns.items()}
        return {
            c: bool(m.get("delta.identity.allowExplicitInsert")) for c, m in told.items() if "delta.identity.start" in m
        }

    @cached_property
    def features(self) -> frozenset[str]:
        """Writer features the table names beyond the old protocol versions."""
        return frozenset(self.protocol.get("writerFeatures") or ())

    @property
    def closed(self) -> bool:
        """Tell whether nobody may write the table any more: a version, or the table that shows one of them."""
        return CLOSED in self.features

    def files(self) -> Sequence[Mapping[str, Any]]:
        """List the active files, each a mapping (``path``, ``size_bytes``, ``num_records``, ``partition.<column>``)."""
        return self._files

    def keyed_files(self) -> Sequence[KeyedFile]:
        """List the active files, each with its partition."""
        return self._keyed_files

    @cached_property
    def _files(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(pa.table(self.snapshot.get_add_actions(flatten=True)).to_pylist())

    @cached_property
    def _keyed_files(self) -> tuple[KeyedFile, ...]:
        kinds = sorted(self.kinds.items())
        return tuple((f, tuple((c, _spelled(f[f"partition.{c}"], kind)) for c, kind in kinds)) for f in self._files)

    def statistics(self) -> dict[Partition, FileStats]:
        """Sum up files, rows and bytes by partition, from the log's statistics."""
        totals: dict[Partition, FileStats] = {}
        for f, key in self.keyed_files():
            old, rows = totals.get(key, FileStats()), f.get("num_records")
            exact = old.exact and rows is not None and "deletionVectors" not in self.features
            totals[key] = FileStats(old.files + 1, old.rows + (rows or 0), old.bytes + f["size_bytes"], exact)
        return totals

    def spelled(self, partition: Mapping[str, object]) -> dict[str, Any]:
        """Spell a partition by the table's names and as the log does; other columns stay as given."""
        known = {c.lower(): c for c in self.kinds}
        named = {known.get(c.lower(), c): value for c, value in partition.items()}
        return {c: None if v is None else _spelled(v, self.kinds.get(c, "string")) for c, v in named.items()}

    def holds(self, partition: Mapping[str, str]) -> bool:
        """Tell whether any active file belongs to ``partition``, however it is spelled."""
        wanted = self.spelled(partition)
        return any(wanted.items() <= dict(key).items() for key in self.statistics())

    def transaction(self, app_id: str) -> int | None:
        """Look up the last version applied under ``app_id``, which survives the cleanup of the log."""
        if self.declared:
            return self.declared.transactions.get(app_id)
        return self.snapshot.transaction_version(app_id)


class Ledger(Located):
    """The log of a Delta table, read without Spark.

    Args:
        location: where the table lies.
        name: what messages call the table; the location's last part if empty.
    """

    def __init__(self, location: Location, *, name: str = "") -> None:
        self.store = store_at(location)
        self.name = name or self.store.name
        self._log = self.store.within("_delta_log")
        self._declared: tuple[int, Naming] | None = None
        self._opened: tuple[object, TableState] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the location without what was read of the log: the other process reads it there."""
        return {**vars(self), "_declared": None, "_opened": None}

    def exists(self) -> bool:
        """Tell whether there is a table."""
        return self._holds(0) or bool(self._versions())

    def version(self) -> int:
        """Look up the newest version.

        Raises:
            NotReady: if there is no table yet.
        """
        hint = self._last_checkpoint().get("version")
        if isinstance(hint, int) and self._holds(hint):
            return max(self._since(hint), default=hint)
        versions = self._versions()
        if not versions:
            raise NotReady(f"{self.name} does not exist yet: nothing was ever written to {self.store.address}")
        return versions[-1]

    def state(self, version: int | None = None) -> TableState:
        """Read the state of the table at ``version`` (the newest if ``None``); the same one is not read twice.

        The active files are read when somebody asks for them: an append does not, however many there are.

        Raises:
            ContractError: if the log is damaged; the text names the file and what repairs it.
            NotReady: if there is no such version, or no table.
        """
        pinned = self.version() if version is None else version
        commit, opened = self.identity(pinned), self._opened
        if commit is None and not 0 <= pinned <= self.version():
            # Asked for such a version, delta-rs looks for it without an end.
            raise NotReady(f"{self.name} has no version {pinned}: its newest is {self.version()}")
        if commit is not None and opened is not None and opened[0] == commit:
            return opened[1]
        declared = self._declared_at(pinned) if commit is not None else None
        state = TableState(pinned, partial(self._open, pinned, commit), declared)
        if declared is None:
            _ = state.snapshot
        self._opened = commit, state
        return state

    def _open(self, version: int, commit: object) -> DeltaTable:
        with self._readable():
            table = delta_table(self.store, version)
        if commit != (now := self.identity(version)) and None not in (commit, now):
            raise Conflict(f"{self.name} was removed and begun again while version {version} of it was read: run again")
        return table

    def commit(self, version: int) -> Commit:
        """Read one commit.

        Raises:
            NotReady: if the log no longer holds (or does not yet hold) that version.
            ContractError: if the log is damaged there.
        """
        return self._commit(version, self._raw(version), self._naming)

    def commits(self, *, since: int = -1) -> Iterator[Commit]:
        """Read the commits after version ``since``, oldest first, as far as the log still holds them."""
        naming = cache(self._naming)
        for version in self._since(since):
            yield self._commit(version, self._raw(version), naming)

    def glimpses(self, *, since: int = -1, records: bool = False) -> Iterator[Glimpse]:
        """Glance at the commits after version ``since``, oldest first, as far as the log still holds them.

        Args:
            since: version that is known.
            records: whether the records of writes are read, too, which costs a third more.
        """
        naming = cache(self._naming)
        columns = cache(lambda: tuple(naming().items()))
        for version, raw, follows in self._raws(since):
            if not follows:
                yield Glimpse(version, frozenset(self.state(version).statistics()), forgotten=True)
            try:
                seen = None if b"RESTORE" in raw else glance(raw)
                if seen is None:
                    glimpse = _glimpse(version, raw, naming, records=records)
                else:
                    glimpse = _glanced(version, seen, columns, records=records)
            except _DAMAGE as error:
                raise self._damaged(version, error) from error
            yield glimpse

    def first_restore(self) -> int:
        """Find the first version that may be a restore; the one after the newest version, if none is."""
        version = -1
        for version, raw, _ in self._raws(-1):
            if b"RESTORE" in raw:
                return version
            if not raw.endswith((b"}\n", b"}")):
                self._commit(version, raw, self._naming)  # says what is wrong with it
        return version + 1

    def _raws(self, since: int) -> Iterator[tuple[int, bytes, bool]]:
        """Read the commits after a version unparsed, each with whether it follows the one before."""
        version, before = since + 1, since
        if not self._holds(version):
            if self._holds(since):
                return
            version = min((v for v in self._versions() if v > since), default=version)
        follows = version == before + 1
        for each, raw in enumerate(self._log.read_on(f"{each:020d}.json" for each in count(version)), version):
            yield each, raw, follows
            follows = True

    def added(self, paths: AbstractSet[str], *, until: int) -> dict[str, Mapping[str, Any]]:
        """Find the entries that added files, in the log up to a version, as far as it still holds them."""
        found: dict[str, Mapping[str, Any]] = {}
        for version in self._back(until):
            if len(found) == len(paths):
                break
            for line in self._raw(version).splitlines():
                if b'"add"' in line and (add := json.loads(line).get("add")) and add["path"] in paths:
                    found.setdefault(add["path"], add)
        return found

    def history(self) -> Iterator[Commit]:
        """Read the commits from the newest back, as far as the log still holds them."""
        naming = cache(self._naming)
        for version in self._back():
            yield self._commit(version, self._raw(version), naming)

    def file_statistics(self, version: int) -> dict[str, str]:
        """Read the statistics of data files up to ``version`` as the log states them: path -> JSON.

        They come from the last checkpoint and the commits after it; of a version before it, from the commits alone.
        """
        stated = self._last_checkpoint()
        files = self._checkpoint_files(stated)
        first = int(stated["version"]) if files and int(stated["version"]) <= version else -1
        said = [pair for file in files if first >= 0 for pair in self._checkpointed(file, "add")]
        for each in range(first + 1, version + 1):
            if self._holds(each):
                said += self._read(each, partial(_said, self._raw(each)))
        return {action["path"]: action["stats"] for kind, action in said if kind == "add" and action.get("stats")}

    def moved(self, app_id: str) -> Iterator[Commit]:
        """Find the commits that moved the transaction ``app_id``, newest first, as far as the log still holds them."""
        naming = cache(self._naming)
        for version in self._back():
            raw = self._raw(version)
            if b'"txn"' in raw:
                commit = self._commit(version, raw, naming)
                if app_id in commit.transactions:
                    yield commit

    def latest(self, *partitions: Mapping[str, str | None], until: int | None = None) -> Commit | None:
        """Find the newest commit up to version ``until`` that changed one of ``partitions`` or was written for it.

        A foreign commit that changed rows counts: it has no record, so a gate that asks for one gets none.
        Returns ``None`` if the log holds no such commit.
        """
        return self._newest(partitions, until, Commit.touches)

    def changed(self, *partitions: Mapping[str, str | None], until: int | None = None) -> Commit | None:
        """Find the newest commit up to version ``until`` that changed rows of one of ``partitions``."""
        return self._newest(partitions, until, Commit.changes)

    def changes(self, *, since: int = -1) -> tuple[int, dict[Partition, int]]:
        """List the partitions whose rows changed after version ``since``, each with its newest changing version.

        Reads the commits after ``since`` only, so a caller that keeps the returned version pays for new commits and
        not for the length of the log. Where the log was cleaned up past ``since``, every partition that is active
        at the first readable version counts as changed then: unknown means changed. A log that ends before ``since``
        is the one of another table in the same folder: it is read from its beginning.

        Returns:
            The newest version looked at, and partition -> version.
        """
        since = self.resume(since)
        head, found = since, {}
        fresh = list(self._since(since))
        if fresh and fresh[0] > since + 1:
            gap = self.state(fresh[0])
            found = dict.fromkeys(gap.statistics(), fresh[0])
        naming = cache(self._naming)
        for version in fresh:
            for key in self._read(version, partial(_changed, self._raw(version), naming)):
                found[key] = version
            head = version
        return head, found

    def resume(self, since: int) -> int:
        """Return ``since``, or -1 if the log ends before it: the table was removed and begun again."""
        return since if since < 0 or self._holds(since) or any(v > since for v in self._versions()) else -1

    def transaction(self, app_id: str) -> int | None:
        """Look up the last version applied under ``app_id``; ``None`` if there is none."""
        return self.state().transaction(app_id) if self.exists() else None

    def transactions(self) -> Cursors:
        """Read the transaction cursors, where possible without the active files: a sensor asks at every tick.

        They come from one column of the last checkpoint and from the commits after it; from the whole state if the
        checkpoint cannot be read like that.
        """
        stated = self._last_checkpoint()
        files = self._checkpoint_files(stated)
        if not files and not self._holds(0):
            return self.state() if self.exists() else Transactions()
        by_id = {app_id: version for file in files for app_id, version in self._checkpointed_transactions(file)}
        naming = cache(self._naming)
        for version in self._since(int(stated["version"]) if files else -1):
            raw = self._raw(version)
            if b'"txn"' in raw:
                seen = glance(raw)
                by_id.update(seen.transactions() if seen else self._commit(version, raw, naming).transactions)
        return Transactions(by_id)

    def _declared_at(self, version: int) -> Declared | None:
        """Read what the table is at ``version`` from the last checkpoint, and from the commits after it.

        ``None`` where deltalake has to say: of a version before the checkpoint or long after it, of a table that asks
        more of readers than the first version of the protocol, where transactions expire, and of a damaged log.
        """
        stated = self._last_checkpoint()
        files = self._checkpoint_files(stated)
        first = int(stated["version"]) if files else -1
        later = range(first + 1, version + 1)
        if not first <= version <= first + _SOON or not all(map(self._holds, later)):
            return None
        try:
            said = [pair for file in files for pair in self._checkpointed(file, "protocol", "metaData", "txn")]
            said += [pair for each in later for pair in self._read(each, partial(_said, self._raw(each)))]
        except ContractError:
            return None
        last = dict(said)
        if not {"protocol", "metaData"} <= last.keys() or last["protocol"].get("minReaderVersion", 0) > 1:
            return None
        metadata = {**last["metaData"], "configuration": dict(last["metaData"].get("configuration") or ())}
        if "delta.setTransactionRetentionDuration" in metadata["configuration"]:
            return None
        moved = {action["appId"]: action["version"] for kind, action in said if kind == "txn"}
        protocol = {name: value for name, value in last["protocol"].items() if value is not None}
        return Declared(protocol, metadata, moved)

    def _checkpointed(self, file: str, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Read the actions of some kinds from a checkpoint, without its other columns."""
        with self._readable(), self._log.open(file) as opened:
            read = pq.ParquetFile(opened).read(columns=list(kinds), use_threads=False)
        for kind in kinds:
            yield from ((kind, action) for action in read[kind].combine_chunks().drop_null().to_pylist())

    def _checkpointed_transactions(self, file: str) -> Iterable[tuple[str, int]]:
        with self._readable(), self._log.open(file) as opened:
            read = pq.ParquetFile(opened).read(columns=["txn.appId", "txn.version"], use_threads=False)
        moved = read["txn"].combine_chunks().drop_null()
        return zip(moved.field("appId").to_pylist(), moved.field("version").to_pylist(), strict=True)

    def _naming(self) -> Naming:
        """Find how log entries name and type the partition columns, by the newest declaration of the table.

        Names of columns change in the schema and not in the files, so one answer holds for the whole log. It stands in
        the checkpoint or in a commit after it, and each commit is looked at once.
        """
        head = self.version()
        if self._declared is None or self._declared[0] > head:
            self._declared = self._checkpointed_naming(head)
        seen, naming = self._declared
        for version in self._since(seen):
            raw = self._raw(version)
            if b'"metaData"' in raw:
                naming = self._read(version, partial(_declared_in, raw, naming))
        self._declared = (head, naming)
        return naming

    def _checkpointed_naming(self, head: int) -> tuple[int, Naming]:
        """Read the last checkpoint's version and naming; without one, the log is read from its beginning."""
        stated = self._last_checkpoint()
        for file in self._checkpoint_files(stated):
            for _, meta in self._checkpointed(file, "metaData"):
                if meta.get("schemaString"):
                    return int(stated["version"]), _naming(meta["schemaString"], meta.get("partitionColumns") or [])
        if self._holds(0):
            return -1, {}
        state = self.state(head)
        return head, _naming(state.snapshot.schema().to_json(), state.partition_columns)

    def _newest(
        self,
        partitions: Sequence[Mapping[str, str | None]],
        until: int | None,
        matches: Callable[[Commit, Mapping[str, str | None]], bool],
    ) -> Commit | None:
        marks = [[v.encode() for v in partition.values() if v and _LITERAL.fullmatch(v)] for partition in partitions]
        naming = cache(self._naming)
        for version in self._back(until):
            raw = self._raw(version)
            # Most commits are about other partitions: the values' bytes tell before anything is parsed.
            if b"RESTORE" in raw or any(all(mark in raw for mark in values) for values in marks):
                commit = self._commit(version, raw, naming)
                if any(matches(commit, partition) for partition in partitions):
                    return commit
        return None

    def _raw(self, version: int) -> bytes:
        try:
            return self._log.read(f"{version:020d}.json")
        except FileNotFoundError:
            raise NotReady(f"{self.name} has no version {version} in its log") from None

    def _commit(self, version: int, raw: bytes, naming: Callable[[], Naming]) -> Commit:
        return self._read(version, lambda: _parse(version, raw, naming))

    def _read(self, version: int, parse: Callable[[], T]) -> T:
        try:
            return parse()
        except _DAMAGE as error:
            raise self._damaged(version, error) from error

    def _damaged(self, version: int, error: Exception) -> ContractError:
        file = f"{version:020d}.json"
        told = self._damage(file) or f"; put _delta_log/{file} back from a backup"
        return ContractError(f"{self.name}: version {version} of its log is damaged ({error}){told}")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Name the damaged file and what repairs it, where Delta or Parquet only say that something is wrong."""
        try:
            yield
        except (DeltaError, pa.ArrowException) as error:
            told = self._damage("") or f": {str(error).splitlines()[0]}"
            raise ContractError(f"{self.name}: its log cannot be read{told}") from error

    def _damage(self, file: str) -> str:
        """Describe what is wrong with the log's files (with the one of that name, if there is one), to be appended."""
        return "".join(f"; {fault}" for fault in log_faults(self.store) if fault.file.endswith(file))

    def _since(self, since: int) -> Iterator[int]:
        """List the versions after ``since``; the folder is listed only if the next one is no longer there."""
        version = since + 1
        if not self._holds(version) and not self._holds(since):
            yield from (v for v in self._versions() if v > since)
            return
        while self._holds(version):
            yield version
            version += 1

    def _back(self, until: int | None = None) -> Iterator[int]:
        """List the versions from the newest (up to ``until``) back to the oldest, without listing the folder."""
        version = self.version() if self.exists() else -1
        version = version if until is None else min(version, until)
        while version >= 0 and self._holds(version):
            yield version
            version -= 1

    def identity(self, version: int) -> object:
        """Tell the commit of a version from one of the same number in another log; ``None`` if it is not there."""
        try:
            return version, self._log.entry(f"{version:020d}.json").tag
        except OSError:
            return None

    def _holds(self, version: int) -> bool:
        return self._log.exists(f"{version:020d}.json")

    def _versions(self) -> list[int]:
        return [int(name[:20]) for name in self._log.list() if _COMMIT_FILE.fullmatch(name)]

    def _last_checkpoint(self) -> Mapping[str, Any]:
        """Read what ``_last_checkpoint`` states; empty if it is not there, or cannot be read."""
        try:
            stated = json.loads(self._log.read("_last_checkpoint"))
        except (OSError, ValueError):
            return {}
        return stated if isinstance(stated, dict) else {}

    def _checkpoint_files(self, stated: Mapping[str, Any]) -> list[str]:
        """List the Parquet files of the stated checkpoint that hold its transactions; empty if one is missing."""
        version, parts = stated.get("version"), stated.get("parts") or 1
        if not isinstance(version, int):
            return []
        named = (stated.get("v2Checkpoint") or {}).get("path") or f"{version:020d}.checkpoint.parquet"
        if parts == 1 and self._log.exists(named):
            return [named] if named.endswith(".parquet") else []
        found = [name for name in self._log.list() if name.startswith(f"{version:020d}.checkpoint")]
        found = [name for name in found if name.endswith(".parquet") and self._log.exists(name)]
        return found if len(found) == parts else []

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"


def generation_id(table: str) -> str:
    """Name the Delta transaction id under which a table counts its generations: one more at each restore."""
    return f"{table}/generation"


def transaction_id(table: str, partition: Mapping[str, str], generation: int, kind: Cursor = "") -> str:
    """Name the Delta transaction id of what is written to one partition: ``table/partition/generation``.

    Writes that replace rows at an upstream version, appends (``appends``), and writes that only count their runs
    (``runs``) have ids of their own, so no kind uses up a version that another kind needs.
    """
    return f"{table}/{slice_name(partition)}/{generation}{f':{kind}' if kind else ''}"


def is_append(commit: Commit) -> bool:
    """Tell whether a commit of the library added rows to what was there."""
    return any(app_id.endswith(":appends") for app_id in commit.transactions)


def _spelled(value: object, kind: str) -> str | None:
    try:
        return None if value == "" else text(value, kind)
    except ValueError:
        # A table that the library would not declare: its values still tell its partitions apart.
        return str(value)


def _named(values: Mapping[str, str | None], naming: Naming) -> Partition:
    """Read the partition values of a log entry, by the names and in the spelling that every entry shares.

    Spark leaves NULL out of what it took from the table's state, as a RESTORE does.
    """
    known = naming if naming.keys() == values.keys() else {**{c: (c, "string") for c in values}, **naming}
    if len(known) == 1:
        ((column, (name, kind)),) = known.items()
        return ((name, logged(values.get(column), kind)),)
    return tuple(sorted([(name, logged(values.get(column), kind)) for column, (name, kind) in known.items()]))


_naming_of = lru_cache(maxsize=64)(dict[str, tuple[str, str]])


@lru_cache(maxsize=1 << 16)
def partition_of(values: bytes, naming: _Columns) -> Partition:
    """Read partition values as they stand in the log; tables have the same days, and days have many commits."""
    return _named(_JSON.raw_decode(values.decode())[0], _naming_of(naming))


def _declared_in(raw: bytes, before: Naming) -> Naming:
    """Read what a commit declares of the partition columns; ``before``, if it declares nothing."""
    declared = [meta for line in raw.splitlines() if line and (meta := json.loads(line).get("metaData"))]
    return _naming(declared[-1]["schemaString"], declared[-1]["partitionColumns"]) if declared else before


def _naming(schema: str, partition_by: Sequence[str]) -> Naming:
    fields = {field["name"]: field for field in json.loads(schema)["fields"]}
    return {
        fields[c].get("metadata", {}).get("delta.columnMapping.physicalName", c): (c, str(fields[c]["type"]))
        for c in partition_by
    }


class _File(NamedTuple):
    """A data file that a commit names: ``changed`` are its partition values, if the commit changed rows by it."""

    kind: str
    path: str
    rows: int
    changed: Partition | None


def _files(action: Mapping[str, Any]) -> Iterator[_File]:
    for kind, file in action.items():
        if kind in _FILES and file:
            rows = json.loads(file.get("stats") or "{}").get("numRecords", 0) if kind == "add" else 0
            changes = kind != "cdc" and file.get("dataChange", True)
            yield _File(kind, file["path"], rows, _values(file) if changes else None)


def _changed(raw: bytes, naming: Callable[[], Naming]) -> frozenset[Partition]:
    """List the partitions whose rows a commit changed, without parsing what it says beside its files."""
    named = [line for line in _lines(raw) if not _NO_FILE.fullmatch(line)]
    files = [file for action in _actions(named) for file in _files(action)]
    return _named_all({file.changed for file in files}, naming)


def _values(file: Mapping[str, Any]) -> Partition:
    values = file.get("partitionValues")
    if not values:
        return ()
    return tuple(values.items()) if len(values) == 1 else tuple(sorted(values.items()))


def _glimpse(version: int, raw: bytes, naming: Callable[[], Naming], *, records: bool) -> Glimpse:
    said = [pair for action in _actions(_lines(raw)) for pair in action.items()]
    told: Mapping[str, Any] = next((of for kind, of in said if kind == "commitInfo" and of), _NOTHING)
    moved = tuple([of["appId"] for kind, of in said if kind == "txn"])
    files = [of for kind, of in said if kind in _ROWS]
    changed = _named_all({_values(of) for of in files if of["path"] and of.get("dataChange", True)}, naming)
    stated = _stated(told) if records else _NOTHING
    if told.get("operation") == "RESTORE":
        return Glimpse(version, changed, moved, restores=True, restored_to=_restored_to(told), stated=stated)
    return Glimpse(version, changed, moved, stated=stated)


def _glanced(version: int, seen: Glance, naming: Callable[[], _Columns], *, records: bool) -> Glimpse:
    info, before, _, values, after, _ = seen
    changed = _NOWHERE if values is None else frozenset((partition_of(values, naming()),))
    last = () if after is None else (after.decode(),)
    moved = last if before is None else (before.decode(), *last)
    if not records or info is None:
        return Glimpse(version, changed, moved)
    text = info.decode()
    action, end = _JSON.raw_decode(text)
    if text[end:].strip():
        raise ValueError("its first line is no action")
    return Glimpse(version, changed, moved, stated=_stated(action["commitInfo"]))


def _restored_to(told: Mapping[str, Any]) -> int | None:
    to = str((told.get("operationParameters") or {}).get("version"))
    return int(to) if to.isdigit() else None


def _stated(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read what the record of a write states, by field; empty for a commit without one."""
    metadata = (told.get("userMetadata") or "").strip()
    try:
        stated, end = _JSON.raw_decode(metadata)
    except ValueError:
        return {}
    ours = end == len(metadata) and isinstance(stated, dict) and stated.get("dedp") == 1
    return stated if ours and told.get("operation") not in _MAINTENANCE else {}


def _lines(raw: bytes) -> list[bytes]:
    if not raw or raw.isspace():
        raise ValueError("it is empty")
    return [line for line in raw.splitlines() if line]


def _actions(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Parse the lines of a commit, all at once: there are logs of thousands of short commits."""
    text = f"[{b','.join(lines).decode()}]"
    found: list[dict[str, Any]]
    found, end = _JSON.raw_decode(text)  # loads() looks for white space at both ends, which takes a third of it
    if len(found) != len(lines) or end != len(text):
        raise ValueError("a line of it is no action")
    return found


def _said(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    """List what a commit says, each action by its kind; its files are looked at, too, so that no damage is missed."""
    said = _actions(_lines(raw))
    deque((file for action in said for file in _files(action)), maxlen=0)
    return [pair for action in said for pair in action.items()]


def _named_all(changed: AbstractSet[Partition | None], naming: Callable[[], Naming]) -> frozenset[Partition]:
    known = naming() if changed - {None} else {}
    return frozenset([_named(dict(values), known) for values in changed if values is not None])


def _parse(version: int, raw: bytes, naming: Callable[[], Naming]) -> Commit:
    info: dict[str, Any] = {}
    files: list[_File] = []
    transactions: dict[str, int] = {}
    for action in _actions(_lines(raw)):
        info = action.get("commitInfo") or info
        if txn := action.get("txn"):
            transactions[txn["appId"]] = txn["version"]
        files += _files(action)
    record = CommitRecord.from_json(info.get("userMetadata"))
    maintained = info.get("operation") in _MAINTENANCE
    added = [file for file in files if file.kind == "add"]
    return Commit(
        version=version,
        timestamp=_EPOCH + timedelta(milliseconds=info.get("timestamp", 0)),
        operation=info.get("operation", ""),
        record=None if maintained else record,
        maintenance=record if maintained else None,
        note="" if record else info.get("userMetadata") or "",
        transactions=transactions,
        changed=_named_all({file.changed for file in files}, naming),
        files_added=tuple([file.path for file in added]),
        files_past=tuple([file.path for file in files if file.kind != "add"]),
        rows_added=sum(file.rows for file in added),
        metrics=info.get("operationMetrics") or {},
        parameters=info.get("operationParameters") or {},
    )
