"""Groups of tables published together, by an intent file written before the publication.

``<number>.json`` says what shall be published to every table, ``<number>.done.json`` what came of it. The newest number
without an outcome is still to be done: whoever comes next does it. An outcome names the version of every table, and the
parts of the group that are still owed, because a table refused what the other ones took: readers take the versions of
the newest outcome that owes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady, PatternError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta.staging.staged_write import StagedWrite
from dedp_assets.patterns.delta.storage.coordination import table_lock
from dedp_assets.patterns.delta.storage.locations import group_beside
from dedp_assets.patterns.delta.storage.store import Store
from dedp_assets.patterns.delta.tables import Table

__all__ = ["TableGroup", "group_of", "publish_together", "versions_together"]

_INTENT, _OUTCOME = ".intent", ".outcome"
_REMEMBERED = 20

Note = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables that are published together, and by nobody else.

    Attributes:
        store: the folder of its files.
        publish: publishes what a note says to the table of a name; doing it twice changes nothing.
        versions: looks up the version of every table.
    """

    store: Store
    publish: Callable[[str, Note], None]
    versions: Callable[[], Mapping[str, int]]

    def publish_all(self, part: str, notes: Mapping[str, Note], *, is_new: Callable[[], bool]) -> bool:
        """Publish a part of the group to the tables in order, after finishing an interrupted part.

        Args:
            part: name of the part.
            notes: table -> what to publish to it.
            is_new: asked before anything is published; raises if that would be refused.

        Returns:
            Whether it was new.

        Raises:
            PatternError: if a table refuses; readers do not see what the others took until the part is published again.
        """
        with table_lock(self.store):
            self._go_on()
            if not is_new():
                return False
            number = max(self._numbers(_INTENT), default=-1) + 1
            self._write(number, _INTENT, {"part": part, "notes": notes})
            if (error := self._finish(number, part, notes)) is not None:
                raise error
            return True

    def go_on(self) -> None:
        """Finish a publication interrupted by a killed process."""
        if self._open() is not None:
            with table_lock(self.store):
                self._go_on()

    def visible(self) -> Mapping[str, int]:
        """Return the version of each table for readers, from the last complete publication.

        Raises:
            NotReady: if the group was never published whole.
        """
        for number in sorted(self._numbers(_OUTCOME), reverse=True):
            outcome = self._read(number, _OUTCOME)
            if not outcome["owed"]:
                versions: Mapping[str, int] = outcome["versions"]
                return versions
        raise NotReady(f"{self.store.name}: these tables were not published together yet")

    def _go_on(self) -> None:
        if (number := self._open()) is not None:
            intent = self._read(number, _INTENT)
            self._finish(number, intent["part"], intent["notes"])

    def _open(self) -> int | None:
        """Find the number of the intent that has no outcome yet."""
        return max(self._numbers(_INTENT) - self._numbers(_OUTCOME), default=None)

    def _finish(self, number: int, part: str, notes: Mapping[str, Note]) -> PatternError | None:
        refused, taken = None, False
        try:
            for table, note in notes.items():
                self.publish(table, note)
                taken = True
        except PatternError as error:
            refused = error
        last = max(self._numbers(_OUTCOME), default=None)
        before = {"owed": (), "versions": {}} if last is None else self._read(last, _OUTCOME)
        owed = {*before["owed"]}
        if refused is None:
            owed.discard(part)
        elif taken:
            owed.add(part)
        # A part may be of some tables of the group alone: the others stay as they were.
        versions = {**before["versions"], **self.versions()}
        self._write(number, _OUTCOME, {"versions": versions, "owed": sorted(owed)})
        if not owed:
            for old in self._numbers(_INTENT) - {*range(number - _REMEMBERED, number + 1)}:
                self.store.delete(_name(old, _INTENT))
                self.store.delete(_name(old, _OUTCOME))
        return refused

    def _numbers(self, kind: str) -> set[int]:
        return {int(name.removesuffix(kind)) for name in self.store.list() if name.endswith(kind)}

    def _read(self, number: int, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.store.read(_name(number, kind)))
        return found

    def _write(self, number: int, kind: str, content: Mapping[str, Any]) -> None:
        self.store.put_if_absent(_name(number, kind), json.dumps(content, default=str).encode())


def group_of(tables: Sequence[Table], results: dict[str, WriteResult]) -> TableGroup:
    """Return a group of tables, with files next to the first table and outcomes in ``results``."""
    if not tables:
        raise ConfigError("tables must hold a table of the group, not none")
    require_distinct("a group (name)", [table.name for table in tables])
    require_distinct("a group (location)", [table.store.address for table in tables])
    by_name = {table.name: table for table in tables}

    def publish(name: str, note: Mapping[str, Any]) -> None:
        if name not in by_name:
            raise ContractError(f"{name} was published with {', '.join(by_name)}, and is not among them any more")
        write = StagedWrite.of_note(by_name[name], note)
        if not write.is_applied() and not write.is_whole():
            raise ContractError(f"{name}: files of {write.stage.store.name} are gone: run it again")
        results[name] = write.publish()

    def versions() -> dict[str, int]:
        return {name: table.ledger.version() for name, table in by_name.items()}

    return TableGroup(group_beside(tables[0].store), publish, versions)


def publish_together(tables: Sequence[Table], staged: Iterable[StagedWrite]) -> WriteResult:
    """Publish staged writes of a group of tables, the first table last.

    If a table refuses a write, no table is written. Before anything is staged, an interrupted publication is finished.
    The tables are written by this function only.

    Args:
        tables: all tables of the group, always in the same order.
        staged: writes of one run to some of them, in that order, staged one after the other; the stages are discarded
            if one is refused.

    Returns:
        What became of the first write, and beside it of the others.

    Raises:
        AuditFailed: if a rule refuses rows of one of the tables; nothing is published.
        ConfigError: for tables that only Spark can publish to, or one that is named twice.
        Conflict: if a newer upstream version was applied, or somebody else wrote one of the tables.
    """
    results, ready = dict[str, WriteResult](), list[StagedWrite]()
    group = group_of(tables, results)
    group.go_on()

    def asked() -> bool:
        # Each of them, because one that is stale refuses them all.
        return False in [write.is_applied() for write in ready]

    try:
        for write in staged:
            ready.append(write)
        notes = {write.table.name: write.note() for write in reversed(ready)}
        asked()
    except PatternError:
        for write in ready:
            write.stage.discard()
        raise
    part = "; ".join(slice_name(write.record.partition) for write in ready)
    is_new = group.publish_all(part, notes, is_new=asked)
    found = [replace(results[w.table.name], findings=w.findings) if is_new else w.publish() for w in ready]
    return replace(found[0], beside=tuple(found[1:]))


def versions_together(tables: Sequence[Table]) -> Mapping[str, int]:
    """Return the version of each table for readers of the group.

    The versions are those of the last complete publication, or later ones that maintenance made of them: other files
    with the same rows, so that a vacuum leaves the group readable, or without partitions that expired.

    Raises:
        ConfigError: for a table that is not of the group, or named twice.
        NotReady: if the tables were not published together yet.
    """
    versions = group_of(tables, {}).visible()
    if strange := [table.name for table in tables if table.name not in versions]:
        raise ConfigError(
            f"{', '.join(strange)} is not of the group of {tables[0].name}: it holds {', '.join(versions)}"
        )
    return {**versions, **{table.name: _maintained(table, versions[table.name]) for table in tables}}


def _maintained(table: Table, version: int) -> int:
    """Return the newest version with the rows of ``version``, apart from partitions that expired since."""
    for commit in table.ledger.commits(since=version):
        if commit.changed and not commit.expires:
            break
        version = commit.version
    return version


def _name(number: int, kind: str) -> str:
    return f"{number:020d}{kind}"
