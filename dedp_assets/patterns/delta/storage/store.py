"""Stores: every operation on the files of a table, at any location.

A store stands for one location, and names what lies below it by paths with ``/``. The methods of :class:`Store` are all
that the library does to a table's files; Spark and deltalake get the address (deltalake by :func:`delta_table` only)
and do theirs. :class:`LocalStore` keeps files in a folder, :class:`S3Store` in a bucket. What a store cannot do is said
by ``can`` and refused before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from deltalake import DeltaTable

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Ability", "Entry", "Hold", "Store", "Tree", "Unending", "WorkLock", "delta_table", "require", "sha256_of"]

Ability = Literal["lock", "put_if_absent", "exchange"]
"""What not every store can do: ``exchange`` a whole folder for another, sharing files between the two."""

_CHUNK = 1 << 20
_DESCRIPTIONS: dict[Ability, str] = {
    "lock": "lock a table",
    "put_if_absent": "create a file only if it is not there",
    "exchange": "exchange a folder as a whole",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Metadata of a file: path, size, times, tag.

    Attributes:
        path: below the store's location.
        size_bytes: its size.
        modified_ns: when it was last written, in ns since 1970.
        changed_ns: when anything about it last changed, in ns since 1970: moves even if somebody sets ``modified_ns``
            back.
        tag: differs from that of a file with other content that has had the same path.
    """

    path: str
    size_bytes: int
    modified_ns: int
    changed_ns: int
    tag: object


class Hold(Protocol):
    """A held lock of a location's writers."""

    def confirm(self) -> None:
        """Check that the lock is still held, before an irreversible step such as the removal of a file.

        Raises:
            TimeoutError: if another process holds it, or may.
        """


class Unending:
    """A lock that lasts until the holder releases the lock or dies."""

    def confirm(self) -> None:
        """Return at once: the lock lasts as long as the holder lives."""


class WorkLock(Protocol):
    """A locked file that marks work in progress until the holder forgets the claim or dies."""

    def release(self) -> None:
        """Release the claim; the file may stay."""


class Store(Protocol):
    """The files below one location.

    A path names a file below the location; an absolute path names one elsewhere in the same store, as the log of a
    clone does. Folders are there as long as files are in them: nobody has to make one, and an empty one means nothing.
    What is not there raises ``FileNotFoundError`` when it is read; what may not be read raises ``PermissionError``.
    """

    @property
    def uri(self) -> str:
        """The location as an escaped URI."""

    @property
    def address(self) -> str:
        """The location in the form that Spark and deltalake take."""

    @property
    def options(self) -> Mapping[str, str]:
        """Storage options that deltalake needs besides the address, e.g. service and account."""

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
        """Return the address of a file in the form that Spark and deltalake take."""

    def uri_of(self, path: str) -> str:
        """Return the escaped URI of a file; equal, once decoded, to Spark's name of the file."""

    def within(self, folder: str) -> Store:
        """Return the store of a folder below."""

    def above(self) -> Store:
        """Return the store of the folder that this location lies in."""

    def exists(self, path: str) -> bool:
        """Return whether a file exists; false for a folder."""

    def list(self, folder: str = "") -> Sequence[str]:
        """List the names of files and folders in a folder, sorted by code points; empty if missing.

        A file that was put before the call is listed.
        """

    def files(self, folder: str = "", *, deep: bool = True) -> Sequence[Entry]:
        """List the files in a folder (and subfolders if ``deep``), sorted by path; empty if missing."""

    def has_files(self, folder: str) -> bool:
        """Return whether a folder or a subfolder has a file, by one look."""

    def entry(self, path: str) -> Entry:
        """Return size, times and tag of a file."""

    def read(self, path: str) -> bytes:
        """Read a file whole."""

    def entries(self, paths: Collection[str]) -> Mapping[str, Entry]:
        """Return size, times and tag of several files by path, without missing files; cheaper than one by one."""

    def read_on(self, paths: Iterable[str]) -> Iterator[tuple[bytes, object]]:
        """Read files whole, with the tags of :meth:`entry`, in order, up to the first missing file."""

    def open(self, path: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        """Open a file as pyarrow's ``NativeFile``, to be read in parts."""

    def put(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing file.

        Readers see the former content or the new one, whole. A crash may leave a draft, whose name begins with a dot.
        """

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Write a new file; of several concurrent writers exactly one succeeds.

        Readers see nothing or the whole content. A crash may leave a draft, whose name begins with a dot.

        Raises:
            FileExistsError: if the file is there; it stays as it is.
        """

    def delete(self, *paths: str, tidy: bool = False) -> None:
        """Remove files, if present; with ``tidy`` also parent folders left empty."""

    def delete_folder(self, folder: str) -> None:
        """Remove everything below a folder, in no order; entries that cannot be removed stay."""

    def lock(self, timeout_seconds: float) -> AbstractContextManager[Hold]:
        """Hold the location's writer lock against all processes and threads, until the block ends.

        It lies beside the location, is no part of it, and is free once its holder is dead, however it died, or some
        time after.

        Raises:
            TimeoutError: if somebody else keeps it for longer, or could take it over before the block ended.
            OSError: if nobody may write there.
        """

    def claim(self, path: str) -> WorkLock:
        """Claim a path until the claim is released or forgotten, or some time after this process died.

        Raises:
            TimeoutError: if somebody claims it already.
        """

    def is_claimed(self, path: str) -> bool:
        """Return whether a living process claims a path, without taking or making a claim.

        A claim in a bucket lasts some time longer than a process that was killed.
        """


@dataclass(frozen=True, slots=True)
class Tree:
    """Content of a folder by path: files, empty folders, and other entries (links, pipes)."""

    files: Sequence[Entry]
    empty: frozenset[str]
    others: Sequence[str]


def require(store: Store, *needed: Ability) -> None:
    """Refuse a store that lacks a needed ability.

    Raises:
        ConfigError: names the location, and what it cannot do.
    """
    if lacking := [_DESCRIPTIONS[ability] for ability in needed if ability not in store.can]:
        raise ConfigError(f"{store.uri} cannot {' and cannot '.join(lacking)}: nothing was written, name another place")


def delta_table(store: Store, version: int | None = None) -> DeltaTable:
    """Open the deltalake table at a store's location and version (the newest if ``None``)."""
    return DeltaTable(store.address, version=version, storage_options=dict(store.options) or None)


def sha256_of(store: Store, path: str) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    sha = hashlib.sha256()
    with store.open(path) as file:
        while chunk := file.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()
