"""Incremental reader of a log: state that is kept up to date with the commits of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.partition_values import Naming

__all__ = ["LogFold"]


class _Entry(Protocol):
    @property
    def version(self) -> int: ...


E = TypeVar("E", bound=_Entry)


def _from_the_beginning(_: Ledger) -> int:
    return -1


@dataclass(slots=True)
class LogFold(Generic[E]):
    """Position of a reader in a table's log; each poll hands new commits to the reader.

    The reader begins again where another table lies in the folder than before, and after an error: a commit that was
    taken in by half is forgotten with all others.

    Attributes:
        read: returns the commits of a log after a version, oldest first, such as ``Ledger.commits``.
        take: takes a commit into the reader's state; a commit that it cannot read is a damaged one.
        forget: empties the reader's state.
        begin: returns the version after which a log is read for the first time, and may note what was before.
        version: the newest version that was read; -1 before the first commit.
        identity: identity of that version's commit; ``None`` before the first commit.
        naming: names and types of the log's partition columns, so that the next poll reads new commits only.
    """

    read: Callable[[Ledger, int], Iterable[E]]
    take: Callable[[E], object]
    forget: Callable[[], object]
    begin: Callable[[Ledger], int] = _from_the_beginning
    version: int = field(default=-1, init=False)
    identity: object = field(default=None, init=False)
    naming: tuple[int, Naming] | None = field(default=None, init=False)

    def poll(self, ledger: Ledger) -> bool:
        """Take in the commits since the last poll; return whether the reader began again.

        Raises:
            ContractError: if the log is damaged; the next poll begins again.
        """
        again = self.version >= 0 and ledger.identity(self.version) != self.identity
        if again:
            self.begin_again()
        if self.version < 0 and not ledger.exists():
            return again
        before = self.version
        try:
            with ledger.reading_on(self.version, self.naming):
                self._take_in(ledger)
        except Exception:
            self.begin_again()
            raise
        if self.version != before:
            self.identity, self.naming = ledger.files.read_identity(self.version), ledger.states.declared
        return again

    def _take_in(self, ledger: Ledger) -> None:
        if self.version < 0:
            self.version = self.begin(ledger)
        for entry in self.read(ledger, self.version):
            ledger.files.read(entry.version, partial(self.take, entry))
            self.version = entry.version

    def begin_again(self) -> None:
        """Forget the log, so that the next poll reads all commits."""
        self.version, self.identity, self.naming = -1, None, None
        self.forget()
