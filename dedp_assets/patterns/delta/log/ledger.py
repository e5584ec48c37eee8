"""Ledger: a Delta table's transaction log, read in milliseconds and without a JVM.

Commits are read from ``_delta_log/*.json`` (one JSON action per line, as the Delta protocol defines); the state that
checkpoints carry (active files, transaction cursors, metadata) comes from ``deltalake``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from dedp_assets.patterns.delta.log.commit_info import Commit, Glimpse, RawCommit
from dedp_assets.patterns.delta.log.log_files import LogFiles
from dedp_assets.patterns.delta.log.parsing import actions_of, parse_glimpse, take_changes
from dedp_assets.patterns.delta.log.partition_values import Naming, Partition
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.table_states import TableStates
from dedp_assets.patterns.delta.log.transactions import Cursors
from dedp_assets.patterns.delta.log.vectors import vector_file
from dedp_assets.patterns.delta.storage.locations import Located, Location

__all__ = ["Ledger"]

_LITERAL = re.compile(r"[A-Za-z0-9_. -]+")  # what every writer of logs spells alike


class Ledger(Located):
    """The log of a Delta table, read without Spark.

    Args:
        location: where the table lies.
        name: what messages call the table; the location's last part if empty.
    """

    def __init__(self, location: Location, *, name: str = "") -> None:
        self.files = LogFiles(location, name=name)
        self.states = TableStates(self.files)
        self.store, self.name = self.files.store, self.files.name

    def exists(self) -> bool:
        """Return whether the table exists."""
        return self.files.exists()

    def version(self) -> int:
        """Return the newest version.

        Raises:
            NotReady: if there is no table yet.
        """
        return self.files.version()

    def identity(self, version: int) -> object:
        """Return the identity of a commit file: version and file tag; ``None`` if missing."""
        return self.files.identity(version)

    def resume(self, since: int) -> int:
        """Return ``since``, or -1 if the log ends before: the table was removed and created again."""
        return self.files.resume(since)

    @contextmanager
    def reading_on(self, version: int, naming: tuple[int, Naming] | None) -> Iterator[None]:
        """Open a block of reads after a version that the caller has verified; a negative version is none."""
        self.states.declared, self.files.unchanged = naming, version if version >= 0 else None
        try:
            with self.files.reading_once():
                yield
        finally:
            self.files.unchanged = None

    def state(self, version: int | None = None) -> TableState:
        """Return the table state at ``version`` (the newest if ``None``); the last state read is cached.

        The active files are read when somebody asks for them: an append does not, however many there are.

        Raises:
            ContractError: if the log is damaged; the text names the file and what repairs it.
            NotReady: if there is no such version, or no table.
        """
        return self.states.state(version)

    def actions(self, kind: str, *, until: int | None = None) -> list[Mapping[str, Any]]:
        """List the actions of a kind in the last checkpoint and all later commits, oldest first.

        Args:
            kind: the protocol's name of the actions, e.g. ``domainMetadata``.
            until: last version to look at; the newest if ``None``.
        """
        return self.states.actions(kind, until=until)

    def transaction(self, app_id: str) -> int | None:
        """Return the last version applied under the transaction id ``app_id``; ``None`` if unknown."""
        return self.states.transaction(app_id)

    def transactions(self) -> Cursors:
        """Read the transaction cursors, where possible without the active files.

        A sensor asks at every tick. From the last checkpoint and later commits, or else from the whole state.
        """
        return self.states.transactions()

    def commit(self, version: int) -> Commit:
        """Read one commit.

        Raises:
            NotReady: if the log no longer holds (or does not yet hold) that version.
            ContractError: if the log is damaged there.
        """
        return self.states.commit(version, self.files.raw(version), self.states.naming)

    def commits(self, *, since: int = -1) -> Iterator[Commit]:
        """Read the retained commits after version ``since``, oldest first."""
        naming = self.states.naming_on()
        for version, raw, _ in self.files.raws(since):
            self.states.read_naming(version, raw)
            yield self.states.commit(version, raw, naming)

    def glimpses(self, *, since: int = -1, records: bool = False) -> Iterator[Glimpse]:
        """Read summaries of the retained commits after version ``since``, oldest first.

        Args:
            since: version that is known.
            records: whether the records of writes are read, too, which costs a third more.
        """
        naming = self.states.naming_on()
        for version, raw, follows in self.files.raws(since):
            self.states.read_naming(version, raw)
            if not follows:
                yield Glimpse(version, frozenset(self._known_at(version)), forgotten=True)
            yield self.files.read(version, partial(parse_glimpse, version, raw, naming, records=records))

    def raw_commits(self, since: int = -1) -> Iterator[RawCommit]:
        """Read the bytes of the retained commits after version ``since``, oldest first."""
        return (RawCommit(version, raw) for version, raw, _ in self.files.raws(since))

    def first_restore(self) -> int:
        """Find the first version that may be a RESTORE; the newest version plus 1 if none."""
        version = -1
        for version, raw in self.files.look_ahead(-1):
            if b"RESTORE" in raw:
                return version
            if version == 0:
                self.states.declared = -1, {}
            self.states.read_naming(version, raw)
            if not raw.endswith((b"}\n", b"}")):
                self.states.commit(version, raw, self.states.naming)  # says what is wrong with it
        return version + 1

    def added(self, paths: AbstractSet[str], *, until: int) -> dict[str, Mapping[str, Any]]:
        """Find the add actions of ``paths`` in the retained log up to version ``until``."""
        found: dict[str, Mapping[str, Any]] = {}
        for version in self.files.back(until):
            if len(found) == len(paths):
                break
            for line in self.files.raw(version).splitlines():
                if b'"add"' in line and (add := json.loads(line).get("add")) and add["path"] in paths:
                    found.setdefault(add["path"], add)
        return found

    def newest_first(self, *, until: int | None = None, past_restores: bool = False) -> Iterator[Commit]:
        """Read the retained commits, newest first; none of a table that does not exist.

        Args:
            until: the newest version to read.
            past_restores: whether a RESTORE, and the commits that it took back, are passed over.
        """
        naming = cache(self.states.naming)
        reach = until
        for version in self.files.back(until):
            if past_restores and reach is not None and version > reach:
                continue
            commit = self.states.commit(version, self.files.raw(version), naming)
            if past_restores and commit.restored_to is not None:
                reach = commit.restored_to
                continue
            yield commit

    def begins_at(self) -> int:
        """Return the oldest readable version; 0 of a log never cleaned up, and without a table."""
        return min(self.files.versions(), default=0)

    def last(
        self, where: Callable[[Commit], object], *, until: int | None = None, past_restores: bool = False
    ) -> Commit | None:
        """Find the newest retained commit for which ``where`` returns something true.

        Args:
            where: asked with each commit, newest first.
            until: as of :meth:`newest_first`.
            past_restores: as of :meth:`newest_first`.
        """
        return next(filter(where, self.newest_first(until=until, past_restores=past_restores)), None)

    def added_files(self, version: int) -> dict[str, Mapping[str, Any]]:
        """Read the add actions of data files up to ``version``, as in the log: path -> the newest action.

        They come from the last checkpoint and the commits after it; of a version before it, from the commits alone.
        """
        checkpoint = self.files.last_checkpoint()
        files = self.files.checkpoint_files(checkpoint)
        first = int(checkpoint["version"]) if files and int(checkpoint["version"]) <= version else -1
        actions = [pair for file in files if first >= 0 for pair in self.files.checkpointed(file, "add")]
        for each in range(first + 1, version + 1):
            if self.files.holds(each):
                actions += self.files.read(each, partial(actions_of, self.files.raw(each)))
        return {action["path"]: action for kind, action in actions if kind == "add"}

    def file_statistics(self, version: int) -> dict[str, str]:
        """Read the statistics of data files up to ``version``, as in the log: path -> JSON."""
        return {path: add["stats"] for path, add in self.added_files(version).items() if add.get("stats")}

    def vector_files(self) -> set[str] | None:
        """List the files with deletion vectors of the active data files.

        ``None`` if the log does not tell, behind a checkpoint that is not of plain Parquet files.
        """
        if "deletionVectors" not in self.state().features:
            return set()
        checkpoint = self.files.last_checkpoint()
        files = self.files.checkpoint_files(checkpoint) if "v2Checkpoint" not in checkpoint else []
        if not files and not self.files.holds(0):
            return None
        added = [action for file in files for _, action in self.files.checkpointed(file, "add")]
        active = {action["path"]: vector_file(action) for action in added}
        for version in self.files.since(int(checkpoint["version"]) if files else -1):
            pairs = self.files.read(version, partial(actions_of, self.files.raw(version)))
            # A file gets another vector by a commit that removes and adds the file, in any order of lines.
            for action in (action for kind, action in pairs if kind == "remove"):
                active.pop(action["path"], None)
            active |= {action["path"]: vector_file(action) for kind, action in pairs if kind == "add"}
        return {*filter(None, active.values())}

    def moved(self, app_id: str) -> Iterator[Commit]:
        """Find the retained commits that moved the transaction id ``app_id``, newest first."""
        naming = cache(self.states.naming)
        for version in self.files.back():
            raw = self.files.raw(version)
            if b'"txn"' in raw:
                commit = self.states.commit(version, raw, naming)
                if app_id in commit.transactions:
                    yield commit

    def latest(self, *partitions: Mapping[str, str | None], until: int | None = None) -> Commit | None:
        """Find the newest commit up to ``until`` that changed, or was written for, one of ``partitions``.

        A foreign commit that changed rows counts: it has no record, so a gate that asks for one gets none.
        Returns ``None`` if the log holds no such commit.
        """
        return self._newest(partitions, until, Commit.touches)

    def changed(self, *partitions: Mapping[str, str | None], until: int | None = None) -> Commit | None:
        """Find the newest commit up to version ``until`` that changed rows of one of ``partitions``."""
        return self._newest(partitions, until, Commit.changes)

    def changes(self, *, since: int = -1, expired: bool = False) -> tuple[int, dict[Partition, int]]:
        """List the partitions changed after version ``since``, each with the version of the last change.

        Reads the commits after ``since`` only, so a caller that keeps the returned version pays for new commits and
        not for the length of the log. Where the log was cleaned up past ``since``, and no purge kept what it said, each
        partition active at the first known version counts as changed then: unknown means changed. A log that ends
        before ``since`` is of another table in the folder and read from its beginning. What went by age counts if
        ``expired``.

        Returns:
            The newest version looked at, and partition -> version.
        """
        since = self.resume(since)
        head, found = since, dict[Partition, int]()
        naming = cache(self.states.naming)
        for head, raw, follows in self.files.raws(since):
            if not follows:
                found = {key: last for key, last in self._known_at(head).items() if last > since}
            self.files.read(head, partial(take_changes, found, head, raw, naming, expired=expired))
        return head, found

    def _known_at(self, version: int) -> Mapping[Partition, int]:
        """Return the partitions with rows at the oldest known version, with the version of the last change."""
        past = self.files.past.history()
        return past.before if version == past.first else dict.fromkeys(self.state(version).statistics(), version)

    def _newest(
        self,
        partitions: Sequence[Mapping[str, str | None]],
        until: int | None,
        matches: Callable[[Commit, Mapping[str, str | None]], bool],
    ) -> Commit | None:
        marks = [[v.encode() for v in partition.values() if v and _LITERAL.fullmatch(v)] for partition in partitions]
        naming = cache(self.states.naming)
        for version in self.files.back(until):
            raw = self.files.raw(version)
            # Most commits are about other partitions: the values' bytes tell before anything is parsed.
            if b"RESTORE" in raw or any(all(mark in raw for mark in values) for values in marks):
                commit = self.states.commit(version, raw, naming)
                if any(matches(commit, partition) for partition in partitions):
                    return commit
        return None
