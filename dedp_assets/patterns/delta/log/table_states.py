"""States of a table by version, from the last checkpoint and the later commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from deltalake import DeltaTable

from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady
from dedp_assets.patterns.delta.log.commit_info import Commit
from dedp_assets.patterns.delta.log.log_files import LogFiles
from dedp_assets.patterns.delta.log.parsing import actions_of, parse_commit, transactions_in
from dedp_assets.patterns.delta.log.partition_values import Naming, declared_in, naming_of_schema
from dedp_assets.patterns.delta.log.protocol import CATALOG, unreadable
from dedp_assets.patterns.delta.log.table_state import TableMetadata, TableState
from dedp_assets.patterns.delta.log.transactions import Cursors, Transactions
from dedp_assets.patterns.delta.storage.store import delta_table

__all__ = ["TableStates"]


_SOON = 100
"""Number of commits after a checkpoint up to which reading them here is as fast as by deltalake."""


class TableStates:
    """The states of a table by version, and the table's transaction cursors.

    Args:
        files: the files of the table's log.
    """

    def __init__(self, files: LogFiles) -> None:
        self.files = files
        self.declared: tuple[int, Naming] | None = None
        """The newest version that the naming of partition columns was read from, and the naming."""
        self._restarts = 0
        self._opened: tuple[object, TableState] | None = None
        self._read: tuple[int, object, Sequence[tuple[str, Mapping[str, Any]]]] = (-1, None, ())

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the location without cached log content; the other process reads the log again."""
        return TableStates(self.files).__dict__

    def state(self, version: int | None = None) -> TableState:
        """Return the table state at ``version`` (the newest if ``None``); the last state read is cached.

        The active files are read when somebody asks for them: an append does not, however many there are.

        Raises:
            ContractError: if the log is damaged; the text names the file and what repairs it.
            NotReady: if there is no such version, or no table.
        """
        pinned, commit = self.files.newest() if version is None else (version, self.files.identity(version))
        opened = self._opened
        if commit is None and not 0 <= pinned <= self.files.version():
            # Asked for such a version, delta-rs looks for it without an end.
            raise NotReady(f"{self.files.name} has no version {pinned}: its newest is {self.files.version()}")
        if commit is not None and opened is not None and opened[0] == commit:
            return opened[1]
        declared = self._declared_at(pinned) if commit is not None else None
        added = partial(self.actions, "add", until=pinned)
        state = TableState(pinned, partial(self._open, pinned, commit), declared, added)
        if declared is None:
            _ = state.snapshot
        self._opened = commit, state
        return state

    def _open(self, version: int, commit: object) -> DeltaTable:
        try:
            with self.files.readable():
                table = delta_table(self.files.store, version)
        except ContractError as error:
            if version < (first := min(self.files.versions(), default=0)):
                raise ContractError(
                    f"{self.files.name} can no longer be read at version {version}: its log was cleaned up and begins "
                    f"at version {first}"
                ) from error
            stated = self.actions("protocol", until=version)
            if stated and (asked := unreadable(stated[-1])):
                raise ContractError(f"{self.files.name} {_refused(asked)}") from error
            raise
        if commit != (now := self.files.identity(version)) and None not in (commit, now):
            raise Conflict(
                f"{self.files.name} was removed and begun again while version {version} of it was read: run again"
            )
        return table

    def actions(self, kind: str, *, until: int | None = None) -> list[Mapping[str, Any]]:
        """List the actions of a kind in the last checkpoint and all later commits, oldest first.

        Args:
            kind: the protocol's name of the actions, e.g. ``domainMetadata``.
            until: last version to look at; the newest if ``None``.
        """
        stated = self.files.last_checkpoint()
        files = [] if until is not None and stated.get("version", 0) > until else self.files.checkpoint_files(stated)
        found: list[Mapping[str, Any]] = [action for file in files for _, action in self.files.checkpointed(file, kind)]
        for version, raw, _ in self.files.raws(int(stated["version"]) if files else -1):
            if kind.encode() in raw and (until is None or version <= until):
                found += [action for each, action in self.files.read(version, partial(actions_of, raw)) if each == kind]
        return found

    def transaction(self, app_id: str) -> int | None:
        """Return the last version applied under the transaction id ``app_id``; ``None`` if unknown."""
        return self.state().transaction(app_id) if self.files.exists() else None

    def transactions(self) -> Cursors:
        """Read the transaction cursors, where possible without the active files.

        A sensor asks at every tick.

        They come from one column of the last checkpoint and from the commits after it; from the whole state if the
        checkpoint cannot be read like that.
        """
        checkpoint = self.files.last_checkpoint()
        files = self.files.checkpoint_files(checkpoint)
        if not files and not self.files.holds(0):
            return self.state() if self.files.exists() else Transactions()
        by_id = {app_id: version for file in files for app_id, version in self.files.checkpointed_transactions(file)}
        for version, raw, _ in self.files.raws(int(checkpoint["version"]) if files else -1):
            if b'"txn"' in raw:
                by_id.update(self.files.read(version, partial(transactions_in, raw)))
        return Transactions(by_id)

    def _declared_at(self, version: int) -> TableMetadata | None:
        """Read the table's declaration at ``version`` from the last checkpoint and later commits.

        ``None`` where deltalake has to say: of a version before the checkpoint or long after it, of a table that asks
        more of readers than the first version of the protocol, where transactions expire, and of a damaged log.
        """
        try:
            first, actions = self._declared_before(version)
            later = range(first + 1, version + 1)
            if not first <= version <= first + _SOON or not all(map(self.files.holds, later)):
                return None
            actions += [
                pair for each in later for pair in self.files.read(each, partial(actions_of, self.files.raw(each)))
            ]
        except ContractError:
            return None
        last = dict(actions)
        if not {"protocol", "metaData"} <= last.keys() or last["protocol"].get("minReaderVersion", 0) > 1:
            return None
        metadata = {**last["metaData"], "configuration": dict(last["metaData"].get("configuration") or ())}
        if "delta.setTransactionRetentionDuration" in metadata["configuration"]:
            return None
        moved = {action["appId"]: action["version"] for kind, action in actions if kind == "txn"}
        moves = [("txn", {"appId": app_id, "version": reached}) for app_id, reached in moved.items()]
        kept = [(kind, last[kind]) for kind in ("protocol", "metaData")]
        self._read = (version, self.files.identity(version), [*kept, *moves])
        protocol = {name: value for name, value in last["protocol"].items() if value is not None}
        return TableMetadata(protocol, metadata, moved)

    def _declared_before(self, version: int) -> tuple[int, list[tuple[str, Mapping[str, Any]]]]:
        """Return an earlier version, and the table's declaration at the earlier version.

        The last state that was read, or the last checkpoint.
        """
        read, tag, actions = self._read
        if read <= version and tag is not None and self.files.identity(read) == tag:
            return read, [*actions]
        checkpoint = self.files.last_checkpoint()
        files = self.files.checkpoint_files(checkpoint)
        stated: list[tuple[str, Mapping[str, Any]]] = []
        for file in files:
            stated += self.files.checkpointed(file, "protocol", "metaData", "txn")
        return int(checkpoint["version"]) if files else -1, stated

    def naming(self) -> Naming:
        """Return names and types of partition columns in log entries, by the newest metadata action.

        Names of columns change in the schema and not in the files, so one answer holds for the whole log. It stands in
        the checkpoint or in a commit after it, and each commit is looked at once.
        """
        head = self.files.version()
        if self.declared is None or self.declared[0] > head or self._restarts != self.files.restarts:
            self.declared, self._restarts = self._checkpointed_naming(head), self.files.restarts
        for version, raw in self.files.look_ahead(self.declared[0]) if self.declared[0] < head else ():
            self._read_naming(version, raw)
        return self.declared[1]

    def naming_on(self) -> Callable[[], Naming]:
        """Return a lookup of the naming for a reader of commits: the newest one, looked for once.

        After a version that is known to be unchanged, the naming is known from there on.
        """
        newest = cache(self.naming)

        def naming() -> Naming:
            reached, unchanged = self.declared, self.files.unchanged
            return newest() if reached is None or unchanged is None or reached[0] < unchanged else reached[1]

        return naming

    def read_naming(self, version: int, raw: bytes) -> None:
        """Update the naming from the next commit of the log, read by the caller."""
        if self.declared is not None and self.declared[0] == version - 1:
            self._read_naming(version, raw)

    def _read_naming(self, version: int, raw: bytes) -> None:
        naming = self.declared[1] if self.declared else {}
        if b'"metaData"' in raw:
            naming = self.files.read(version, partial(declared_in, raw, naming))
        self.declared = version, naming

    def _checkpointed_naming(self, head: int) -> tuple[int, Naming]:
        """Return a version to read the log from, and the partition naming at that version."""
        checkpoint = self.files.last_checkpoint()
        for file in self.files.checkpoint_files(checkpoint):
            for _, meta in self.files.checkpointed(file, "metaData"):
                if meta.get("schemaString"):
                    return int(checkpoint["version"]), naming_of_schema(
                        meta["schemaString"], meta.get("partitionColumns") or []
                    )
        if self.files.holds(0):
            return -1, {}
        state = self.state(head)
        return head, naming_of_schema(state.snapshot.schema().to_json(), state.partition_columns)

    def commit(self, version: int, raw: bytes, naming: Callable[[], Naming]) -> Commit:
        """Parse the bytes of a commit."""
        return self.files.read(version, lambda: parse_commit(version, raw, naming))


def _refused(asked: Sequence[str]) -> str:
    """Write the refusal of a table with reader features that the library does not know."""
    if CATALOG & {*asked}:
        return (
            f"is managed by a catalog ({', '.join(asked)}), which alone knows its newest version: the folder cannot be "
            "read. Have the catalog drop that feature, or copy the rows into a table of your own"
        )
    return (
        f"asks its readers to know {', '.join(asked)}, which the library does not: nothing of it was read. Drop the "
        "feature where the table is written, or copy the rows into a table without it"
    )
