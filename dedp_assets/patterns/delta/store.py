"""Stores: what is done to the files of a table, in one place, whatever they are stored in.

A store stands for one location, and names what lies below it by paths with ``/``. The methods of :class:`Store` are all
that the library does to a table's files; Spark and deltalake get the address (deltalake by :func:`delta_table` only)
and do theirs. :class:`LocalStore` keeps files in a folder. What a store cannot do is said by ``can`` and refused before
anything is written.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol
from urllib.parse import quote

import pyarrow as pa
from deltalake import DeltaTable
from filelock import FileLock, Timeout

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Ability", "Claim", "Entry", "LocalStore", "Store", "Tree", "as_folder", "delta_table", "require"]

Ability = Literal["lock", "put_if_absent", "exchange"]
"""What not every store can do: ``exchange`` a whole folder for another, sharing files between the two."""

_SAID: dict[Ability, str] = {
    "lock": "lock a table",
    "put_if_absent": "create a file only if it is not there",
    "exchange": "exchange a folder as a whole",
}


_COMMIT_BYTES, _MORE_BYTES = 1 << 14, 1 << 20
"""Bytes of the first read of a file, which is all of most commits, and of each further read."""
_LONGEST_NAME_BYTES = 255


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


@dataclass(frozen=True)
class LocalStore:
    """A store that is a folder of this machine's file systems.

    A file is put as a draft beside it, which is linked or renamed to its name: both are atomic. Locks and claims are
    file locks: the operating system releases them when the process dies.

    Attributes:
        root: the folder's absolute path.
        can: what the file system can do; all of it, where it is a local one.
    """

    root: str
    can: frozenset[Ability] = field(default=frozenset({"lock", "put_if_absent", "exchange"}), repr=False)

    def __post_init__(self) -> None:
        if long := [name for name in self.root.split("/") if len(os.fsencode(name)) > _LONGEST_NAME_BYTES]:
            raise ConfigError(f"a folder's name must have at most {_LONGEST_NAME_BYTES} bytes, not be {long[0]!r}")

    # Plain calls instead of Path in what a sensor does thousands of times per tick.

    @cached_property
    def uri(self) -> str:
        """The folder as a ``file`` URI."""
        return self.uri_of("")

    @property
    def address(self) -> str:
        """The folder's path."""
        return self.root

    @property
    def options(self) -> Mapping[str, str]:
        """Nothing: a folder is found by its path."""
        return {}

    @property
    def name(self) -> str:
        """The folder's name."""
        return os.path.basename(self.root)

    @property
    def account(self) -> str:
        """The number of the user that this process belongs to."""
        return f"user {os.geteuid()}"

    def address_of(self, path: str) -> str:
        """Return the path of a file, without dots; links are left alone."""
        return os.path.abspath(self._at(path))

    def uri_of(self, path: str) -> str:
        """Return the ``file`` URI of a file."""
        return f"file://{quote(os.fsencode(self.address_of(path)))}"

    def within(self, folder: str) -> LocalStore:
        """Return the store of a folder below."""
        return replace(self, root=self._at(folder))

    def above(self) -> LocalStore:
        """Return the store of the folder that this one lies in."""
        return replace(self, root=os.path.dirname(self.root))

    def exists(self, path: str) -> bool:
        """Tell whether there is a file."""
        return os.path.isfile(self._at(path))

    def list(self, folder: str = "") -> Sequence[str]:
        """List the names of files and folders right in a folder."""
        try:
            return sorted(os.listdir(self._at(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def files(self, folder: str = "", *, deep: bool = True) -> Sequence[Entry]:
        """List the files in a folder, links to files among them."""
        found = [found for found in self._scan(folder, deep=deep) if isinstance(found, Entry)]
        return sorted(found, key=lambda entry: entry.path)

    def entry(self, path: str) -> Entry:
        """Look up what is known of a file."""
        found = os.stat(self._at(path))
        if stat.S_ISDIR(found.st_mode):
            raise FileNotFoundError(f"{self._at(path)} is a folder and no file")
        return _entry(path, found)

    def read(self, path: str) -> bytes:
        """Read a file whole."""
        return _content(os.open(self._at(path), os.O_RDONLY))  # a third quicker than open()

    def read_on(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Read files whole, one after the other."""
        # By their names in the open folder, and without a look at their sizes: a first look reads 50,000 of them.
        with suppress(FileNotFoundError):
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
            try:
                for path in paths:
                    yield _content(os.open(path, os.O_RDONLY, dir_fd=folder))
            finally:
                os.close(folder)

    def open(self, path: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        """Open a file as pyarrow's ``NativeFile``."""
        return pa.OSFile(self._at(path), "rb")

    def put(self, path: str, content: bytes) -> None:
        """Write a file, replacing the one that is there."""
        with self._draft(path, content) as draft:
            os.replace(draft, self._at(path))

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Write a file unless it is there."""
        with self._draft(path, content) as draft:
            os.link(draft, self._at(path))

    def delete(self, path: str, *, tidy: bool = False) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(self._at(path))
        folder = os.path.dirname(path)
        with suppress(OSError):
            while tidy and folder:
                os.rmdir(self._at(folder))
                folder = os.path.dirname(folder)

    def delete_folder(self, folder: str) -> None:
        """Remove everything below a folder, and the folder."""
        shutil.rmtree(self._at(folder), ignore_errors=True)

    @contextmanager
    def lock(self, timeout_seconds: float) -> Iterator[None]:
        """Hold the one writer's lock: of the file ``.<name>.lock`` beside the folder."""
        path = f"{os.path.dirname(self.root)}/.{self.name}.lock"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with FileLock(path, timeout=timeout_seconds):
            yield

    def claim(self, path: str) -> Claim:
        """Claim a path: lock the file of that name."""
        os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
        held = FileLock(self._at(path), thread_local=False)
        held.acquire(timeout=0)
        return held

    def is_claimed(self, path: str) -> bool:
        """Tell whether a living process claims a path."""
        if not self.exists(path):
            return False
        try:
            with FileLock(self._at(path), timeout=0):
                return False
        except Timeout:
            return True

    # --- what only file systems can do: links, times and modes, empty folders -----------------------------------------

    def resolved(self) -> LocalStore:
        """Return the store of the folder that a link at this location leads to."""
        return replace(self, root=os.path.realpath(self.root))

    def overlaps(self, other: LocalStore) -> bool:
        """Tell whether one of two folders lies in the other, or is it."""
        place, there = Path(self.above().resolved().root) / self.name, Path(other.root)
        return there in (place.resolve(), place, *place.parents) or place in there.parents

    def tree(self) -> Tree:
        """List everything in the folder; a folder that cannot be listed raises an error, as it is no empty one."""
        found = list(self._scan("", deep=True, links=False))
        others = [path for path in found if isinstance(path, str)]
        empty = frozenset(path.rstrip("/") for path in others if path.endswith("/"))
        return Tree([e for e in found if isinstance(e, Entry)], empty, [p for p in others if not p.endswith("/")])

    def make_folder(self, folder: str) -> None:
        """Make a folder that may stay empty."""
        os.makedirs(self._at(folder), exist_ok=True)

    def create(self, path: str) -> BinaryIO:
        """Open a new file to write to; readers see it grow."""
        os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
        return open(self._at(path), "xb")

    def copy_times(self, path: str, source: LocalStore) -> None:
        """Give a file the times and the mode that the file of the same path has in ``source``."""
        shutil.copystat(Path(source._at(path)), Path(self._at(path)))

    def share(self, path: str, source: LocalStore) -> None:
        """Hold the file of the same path in ``source``, without a copy of its bytes."""
        os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
        os.link(source._at(path), self._at(path))

    def shown(self, name: str) -> str | None:
        """Look up which folder the link ``name`` shows; ``None`` if it is no link."""
        return os.readlink(self._at(name)) if os.path.islink(self._at(name)) else None

    def show(self, name: str, folder: str) -> None:
        """Make the link ``name`` show ``folder``: readers see all of the former folder or all of this one.

        A crash may leave a draft of the link beside ``folder``.
        """
        draft = self._at(f"{os.path.dirname(folder)}/.{uuid.uuid4().hex}.tmp")
        os.symlink(folder, draft)
        os.replace(draft, self._at(name))

    def _at(self, path: str) -> str:
        if not path:
            return self.root
        return path if path.startswith("/") else f"{self.root}/{path}"

    @contextmanager
    def _draft(self, path: str, content: bytes) -> Iterator[str]:
        folder = os.path.dirname(self._at(path))
        os.makedirs(folder, exist_ok=True)
        draft = f"{folder}/.{uuid.uuid4().hex}.tmp"
        try:
            with open(draft, "xb") as file:
                file.write(content)
            yield draft
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)

    def _scan(self, folder: str, *, deep: bool, links: bool = True) -> Iterator[Entry | str]:
        """List files as entries, everything else by path; that of an empty folder ends with a slash."""
        try:
            with os.scandir(self._at(folder)) as found:
                inside = list(found)
        except (FileNotFoundError, NotADirectoryError):
            return
        if not inside and folder:
            yield f"{folder}/"
        for each in inside:
            path = f"{folder}/{each.name}" if folder else each.name
            if each.is_dir(follow_symlinks=False):
                yield from self._scan(path, deep=True, links=links) if deep else ()
            elif each.is_file(follow_symlinks=links):
                # A file that goes meanwhile is none.
                with suppress(FileNotFoundError):
                    yield _entry(path, each.stat())
            else:
                yield path


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


def as_folder(store: Store) -> LocalStore:
    """Return a store that can exchange folders.

    Raises:
        ConfigError: if it cannot.
    """
    require(store, "exchange")
    if not isinstance(store, LocalStore):
        raise ConfigError(f"{store.uri} is no folder of this machine: a copy is exchanged as a folder is")
    return store


def _content(file: int) -> bytes:
    """Read an opened file to its end, and close it."""
    try:
        content = os.read(file, _COMMIT_BYTES)
        if more := os.read(file, _COMMIT_BYTES):
            parts = [content, more]
            while more := os.read(file, _MORE_BYTES):
                parts.append(more)
            content = b"".join(parts)
    finally:
        os.close(file)
    return content


def _entry(path: str, found: os.stat_result) -> Entry:
    tag = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
    return Entry(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, tag)
