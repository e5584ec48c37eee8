"""Simulated commits: the log of a table after further commits that nobody has written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.log_files import LogFiles
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.log.table_states import TableStates
from dedp_assets.patterns.delta.storage.locations import Location
from dedp_assets.patterns.delta.storage.store import Entry, Store

__all__ = ["SimulatedLedger"]

_SCHEMA = json.dumps({"type": "struct", "fields": []})
_CREATED: Sequence[Mapping[str, Any]] = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "simulated", "schemaString": _SCHEMA, "partitionColumns": [], "configuration": {}}},
]
"""Actions of the commit that creates a table, with an empty schema."""


class SimulatedLedger(Ledger):
    """Ledger of a table with simulated commits after the newest one, which are kept in memory only.

    Every reader of the log reads them like the others. The state of the table stays the stored one.

    Args:
        location: where the table lies.
        name: what messages call the table; the location's last part if empty.
    """

    def __init__(self, location: Location, *, name: str = "") -> None:
        super().__init__(location, name=name)
        self.files: _SimulatedFiles = _SimulatedFiles(location, name=name)
        self.states = TableStates(self.files)
        self._head: int | None = None
        self._stored = -1
        """Newest version that is stored, once a commit is simulated."""
        self._columns: Mapping[str, str] = {}
        """Logical name of a partition column -> physical name in the log, for columns with two names."""

    def simulate(
        self,
        changed: Iterable[Partition],
        cursors: Mapping[str, int],
        record: CommitRecord | None = None,
    ) -> int:
        """Add a commit after the newest version; return the version of the commit.

        Args:
            changed: partitions whose rows the commit changes.
            cursors: transaction id -> version that the commit applies.
            record: the record of the commit, if a reader of the log asks for one.
        """
        version = self._end()
        info = {"operation": "WRITE", **({"userMetadata": record.to_json()} if record else {})}
        actions: list[dict[str, Any]] = [{"commitInfo": info}]
        for number, partition in enumerate(changed):
            values = {self._columns.get(name, name): value for name, value in partition}
            path = f"simulated-{version + 1}-{number}.parquet"
            actions.append({"add": {"path": path, "partitionValues": values, "size": 0, "dataChange": True}})
        actions += [{"txn": {"appId": app_id, "version": applied}} for app_id, applied in cursors.items()]
        return self._append(version, actions)

    def state(self, version: int | None = None) -> TableState:
        """Return the state at ``version`` or the newest stored version; of a new table, at creation."""
        if self._head is None:
            return super().state(version)
        stored = max(self._stored, 0)
        return super().state(stored if version is None else min(version, stored))

    def _end(self) -> int:
        """Return the newest version; of a missing table, the version of a simulated creation."""
        if self._head is not None:
            return self._head
        if not self.exists():
            return self._append(-1, _CREATED)
        self._columns = {name: column for column, (name, _) in self.states.naming().items()}
        self._stored = self.version()
        return self._stored

    def _append(self, version: int, actions: Sequence[Mapping[str, Any]]) -> int:
        self._head = version + 1
        self.files.simulated.commits[f"{self._head:020d}.json"] = "\n".join(map(json.dumps, actions)).encode()
        return self._head


class _SimulatedFiles(LogFiles):
    """The files of a log and of simulated commits."""

    def __init__(self, location: Location, *, name: str = "") -> None:
        super().__init__(location, name=name)
        self.simulated = _SimulatedFolder(self._folder)
        self._folder = cast("Store", self.simulated)


class _SimulatedFolder:
    """The folder of a log with further commits by name, for the reading methods of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the store
        return getattr(self._store, name)

    def exists(self, path: str) -> bool:
        """Return whether a file exists."""
        return path in self.commits or self._store.exists(path)

    def list(self, folder: str = "") -> Sequence[str]:
        """List the names of files in a folder."""
        return sorted([*self._store.list(folder), *self.commits])

    def entry(self, path: str) -> Entry:
        """Return size, times and tag of a file."""
        found = self.commits.get(path)
        return self._store.entry(path) if found is None else Entry(path, len(found), 0, 0, ("simulated", path))

    def read(self, path: str) -> bytes:
        """Read a file whole."""
        found = self.commits.get(path)
        return self._store.read(path) if found is None else found

    def read_on(self, paths: Iterable[str]) -> Iterator[tuple[bytes, object]]:
        """Read files whole, with their tags, in order, up to the first missing file."""
        names = iter(paths)
        name = next(names, "")

        def stored() -> Iterator[str]:
            nonlocal name
            while name and name not in self.commits:
                yield name
                name = next(names, "")

        if name not in self.commits:
            yield from self._store.read_on(stored())
        while name in self.commits:
            yield self.commits[name], ("simulated", name)
            name = next(names, "")
