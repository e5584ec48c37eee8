"""Stores: every operation on the files of a table, wherever they lie.

A store stands for one location, and names what lies below it by paths with ``/``. The methods of :class:`Store` are all
that the library does to a table's files; Spark and deltalake get the address (deltalake by :func:`delta_table` only)
and do theirs. :class:`LocalStore` keeps files in a folder. What a store cannot do is said by ``can`` and refused before
anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from deltalake import DeltaTable

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Ability", "Claim", "Entry", "Store", "Tree", "delta_table", "require"]

Ability = Literal["lock", "put_if_absent", "exchange"]
"""What not every store can do: ``exchange`` a whole folder for another, sharing files between the two."""

_SAID: dict[Ability, str] = {
    "lock": "lock a table",
    "put_if_absent": "create a file only if it is not there",
    "exchange": "exchange a folder as a whole",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a file without reading it.

    Attributes:
        path: below the store's location.
        size_bytes: its size.
        modified_ns: when it was last written, in ns since 1970.
        changed_ns: when anything about it last changed, in ns since 1970: moves even if somebody sets ``modified_ns``
            back.
        tag: differs from that of any other file that has had the same path.
    """

    path: str
    size_bytes: int
    modified_ns: int
    changed_ns: int
    tag: object


class Claim(Protocol):
    """A locked file that says that somebody is at work; it is free again when its holder forgets it or dies."""

    def release(self) -> None:
        """Give the claim up; the file stays."""


class Store(Protocol):
    """The files below one location.

    A path names a file below the location; an absolute path names one elsewhere in the same store, as the log of a
    clone does. Folders are there as long as files are in them: nobody has to make one, and an empty one means nothing.
    What is not there raises ``FileNotFoundError`` when it is read; what may not be read raises ``PermissionError``.
    """

    @property
    def uri(self) -> str:
        """The location with its scheme, escaped as an address."""

    @property
    def address(self) -> str:
        """The location as Spark and deltalake take it."""

    @property
    def options(self) -> Mapping[str, str]:
        """The settings that deltalake needs beside the address: where the service is, who asks."""

    @property
    def name(self) -> str:
        """The last part of the location."""

    @property
    def account(self) -> str:
        """The name of the account that reads and writes here, for messages."""

    @property
    def can(self) -> frozenset[Ability]:
        """The abilities of the store beyond reading and writing files."""

    def address_of(self, path: str) -> str:
        """Return the address of a file as Spark and deltalake take it."""

    def uri_of(self, path: str) -> str:
        """Return the URI of a file, escaped: the one that Spark names the rows of the file by, as far as it decodes."""

    def within(self, folder: str) -> Store:
        """Return the store of a folder below."""

    def above(self) -> Store:
        """Return the store of the folder that this location lies in."""

    def exists(self, path: str) -> bool:
        """Tell whether there is a file; a folder is none."""

    def list(self, folder: str = "") -> Sequence[str]:
        """List the names of files and folders right in a folder, sorted by code points; none if it is not there.

        A file that was put before the call is listed.
        """

    def files(self, folder: str = "", *, deep: bool = True) -> Sequence[Entry]:
        """List the files in a folder (and, if ``deep``, below it), sorted by path; none if it is not there."""

    def entry(self, path: str) -> Entry:
        """Look up what is known of a file."""

    def read(self, path: str) -> bytes:
        """Read a file whole."""

    def read_on(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Read files whole, one after the other, up to the first one that is not there."""

    def open(self, path: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        """Open a file as pyarrow's ``NativeFile``, to be read in parts."""

    def put(self, path: str, content: bytes) -> None:
        """Write a file, replacing the one that is there.

        Readers see the former content or the new one, whole. A crash may leave a draft, whose name begins with a dot.
        """

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Write a file unless it is there: of several writers at once exactly one succeeds.

        Readers see nothing or the whole content. A crash may leave a draft, whose name begins with a dot.

        Raises:
            FileExistsError: if the file is there; it stays as it is.
        """

    def delete(self, path: str, *, tidy: bool = False) -> None:
        """Remove a file, if it is there; with ``tidy`` also the folders above it that hold nothing any more."""

    def delete_folder(self, folder: str) -> None:
        """Remove everything below a folder, in no order; what cannot be removed stays, as after a crash."""

    def lock(self, timeout_seconds: float) -> AbstractContextManager[None]:
        """Hold the one writer's lock of this location, against all processes and threads, until it is left.

        It lies beside the location, is no part of it, and is free once its holder is dead, however it died.

        Raises:
            TimeoutError: if somebody else keeps it for longer.
            OSError: if nobody may write there.
        """

    def claim(self, path: str) -> Claim:
        """Claim a path until the claim is released or forgotten, or this process dies, however it dies.

        Raises:
            TimeoutError: if somebody claims it already.
        """

    def is_claimed(self, path: str) -> bool:
        """Tell whether a living process claims a path; looking neither takes nor makes a claim."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything in a folder: files, folders that hold nothing, and what is neither (links, pipes), by path."""

    files: Sequence[Entry]
    empty: frozenset[str]
    others: Sequence[str]


def require(store: Store, *needed: Ability) -> None:
    """Refuse what the store cannot do.

    Raises:
        ConfigError: names the location, and what it cannot do.
    """
    if lacking := [_SAID[ability] for ability in needed if ability not in store.can]:
        raise ConfigError(f"{store.uri} cannot {' and cannot '.join(lacking)}: nothing was written, name another place")


def delta_table(store: Store, version: int | None = None) -> DeltaTable:
    """Open the table at a store's location, at a version (the newest if ``None``), for a reader without Spark."""
    return DeltaTable(store.address, version=version, storage_options=dict(store.options) or None)
