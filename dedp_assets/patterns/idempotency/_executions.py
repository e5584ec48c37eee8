"""Executions: the ordered runs in a table's rows, each based on the rows of the run before.

The commits say so themselves: the commit of an execution names the version whose rows it changed, the execution before
it, and those that it took back and that have to follow. Whatever a restore makes current again is followed, too. So
there is no second table of states that could disagree with the table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field

from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta import Glimpse, Ledger

__all__ = ["EXECUTION", "Execution", "ExecutionLog", "ExecutionStart", "Executions", "executions_of"]

EXECUTION = "execution"
"""Note of a commit record that says what the execution changed and what has to follow."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution in a table's rows.

    Attributes:
        key: which; executions are in the order of their keys.
        version: version of the table that it made.
        base: version whose rows it changed.
        after: key of the execution before it; empty for the first one.
        applied: upstream version that it applied, if it named one.
        before: the execution whose rows it changed, as far as the log tells.
    """

    key: str
    version: int
    base: int
    after: str = ""
    applied: int | None = None
    before: Execution | None = field(default=None, repr=False, compare=False)

    def is_like(self, other: Execution | None) -> bool:
        """Return whether another execution has the same rows of the same upstream version."""
        if other is None or self.key != other.key:
            return False
        return self.version == other.version or (self.applied is not None and self.applied == other.applied)


@dataclass(frozen=True, slots=True)
class ExecutionStart:
    """Start of an execution: base version, execution before, executions to run again.

    Attributes:
        base: version whose rows it changes; ``None`` for the newest one.
        after: key of the execution before it.
        pending: executions that have to follow it, because their rows are taken back.
    """

    base: int | None
    after: str
    pending: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Executions:
    """The executions of a table at one version.

    Attributes:
        last: the last one that the rows contain.
        pending: keys of those that were taken back and have not followed yet.
        unclear: whether nobody can tell which the rows contain.
    """

    last: Execution | None = None
    pending: frozenset[str] = frozenset()
    unclear: bool = False

    @property
    def standing(self) -> tuple[Execution, ...]:
        """Batches applied in the newest snapshot, in order of execution."""
        found, each = [], self.last
        while each is not None:
            found.append(each)
            each = each.before
        return tuple(reversed(found))

    def find(self, key: str) -> Execution | None:
        """Find the execution of a key that the rows contain."""
        return next((each for each in self.standing if each.key == key), None)

    def start(self, table: str, key: str, due: Collection[str]) -> ExecutionStart:
        """Return the start of the execution ``key``: the newest rows, or the rows before a later execution.

        Args:
            table: the table's name.
            key: the execution.
            due: executions that have to be in the rows before; later ones do not count.

        Raises:
            ContractError: if the log no longer tells what the rows were before it.
            NotReady: if an execution before it is not in the rows.
        """
        if self.unclear:
            raise ContractError(
                f"{table} was restored to a time, and nobody can tell which executions its rows contain: restore it to "
                "a version"
            )
        standing = self.standing
        first = standing[0] if standing else None
        if first and key <= first.after:
            raise ContractError(
                f"{table}: the log no longer tells what the rows were before {key}, nothing was changed. The earliest "
                f"execution that can be run again is {first.key}"
            )
        present = {each.key for each in standing}
        forgotten = first.after if first else ""
        lacks = {k for k in {*due, *self.pending} - present if forgotten < k < key}
        if missing := min(lacks, default=""):
            raise NotReady(f"{table}: {key} comes after {missing}, which has to be run before")
        later = [each for each in standing if each.key >= key]
        pending = tuple(sorted((self.pending | {each.key for each in later}) - {key}))
        if later:
            return ExecutionStart(later[0].base, later[0].after, pending)
        return ExecutionStart(None, self.last.key if self.last else "", pending)


@dataclass(slots=True)
class ExecutionLog:
    """Executions of a table at each version, from the commits read so far.

    Attributes:
        versions: the versions that changed them.
        states: the executions at these versions.
    """

    versions: list[int] = field(default_factory=list)
    states: list[Executions] = field(default_factory=list)

    @property
    def now(self) -> Executions:
        """The executions at the newest version."""
        return self.states[-1] if self.states else Executions()

    def at(self, version: int) -> Executions:
        """Return the executions at a version."""
        found = bisect_right(self.versions, version)
        return self.states[found - 1] if found else Executions()

    def take_in(self, glimpse: Glimpse, key: str | None = None) -> None:
        """Add a commit to the log of executions; ``key`` is the execution of a record without a name."""
        before, note = self.now, glimpse.stated.get("notes", {}).get(EXECUTION)
        if glimpse.restores:
            back = self.at(-1 if glimpse.restored_to is None else glimpse.restored_to)
            kept = {each.key for each in back.standing}
            taken = {each.key for each in before.standing} | before.pending | back.pending
            unclear = glimpse.restored_to is None or back.unclear
            self._add(glimpse.version, Executions(back.last, frozenset(taken - kept), unclear))
        elif note:
            fields = (note["key"], glimpse.version, note["base"], note["after"], glimpse.stated["sequence"])
            made = Execution(*fields, before=self.at(note["base"]).last)
            self._add(glimpse.version, Executions(made, frozenset(note["pending"])))
        elif key is not None:
            made = Execution(key, glimpse.version, glimpse.version - 1, before=before.last)
            self._add(glimpse.version, Executions(made))

    def _add(self, version: int, state: Executions) -> None:
        self.versions.append(version)
        self.states.append(state)


def executions_of(ledger: Ledger, *, until: int) -> ExecutionLog:
    """Read the executions of a table from the log, up to a version."""
    found = ExecutionLog()
    for glimpse in ledger.glimpses(records=True):
        if glimpse.version > until:
            break
        found.take_in(glimpse)
    return found
