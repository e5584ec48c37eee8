"""Store of the files in one folder of this machine."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa
from filelock import FileLock, Timeout

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.disks import writing_to
from dedp_assets.patterns.core.running.permissions import require_allowed
from dedp_assets.patterns.delta.storage.local_files import content_of, entry_of, scan, tag_of
from dedp_assets.patterns.delta.storage.store import Ability, Entry, Hold, Tree, Unending, WorkLock

__all__ = ["LocalStore"]

_LONGEST_NAME_BYTES = 255


@dataclass(frozen=True)
class LocalStore:
    """A store in a folder of this machine's file systems.

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
        """Empty: a path needs no storage options."""
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
        """Return the store of the parent folder."""
        return replace(self, root=os.path.dirname(self.root))

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        return os.path.isfile(self._at(path))

    def list(self, folder: str = "") -> Sequence[str]:
        """List the names of files and folders in a folder."""
        try:
            return sorted(os.listdir(self._at(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def files(self, folder: str = "", *, deep: bool = True) -> Sequence[Entry]:
        """List the files in a folder, including links to files."""
        found = [found for found in scan(self._at(folder), folder, deep=deep) if isinstance(found, Entry)]
        return sorted(found, key=lambda entry: entry.path)

    def has_files(self, folder: str) -> bool:
        """Return whether a folder or a subfolder has a file."""
        try:
            with os.scandir(self._at(folder)) as inside:
                return any(self.has_files(each.path) if each.is_dir() else each.is_file() for each in inside)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def entry(self, path: str) -> Entry:
        """Return size, times and tag of a file."""
        found = os.stat(self._at(path))
        if stat.S_ISDIR(found.st_mode):
            raise FileNotFoundError(f"{self._at(path)} is a folder and no file")
        return entry_of(path, found)

    def read(self, path: str) -> bytes:
        """Read a file whole."""
        return content_of(os.open(self._at(path), os.O_RDONLY))  # a third quicker than open()

    def entries(self, paths: Collection[str]) -> Mapping[str, Entry]:
        """Return size, times and tag of files by path, without the missing files."""
        found = {}
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError):
                found[path] = self.entry(path)
        return found

    def read_on(self, paths: Iterable[str]) -> Iterator[tuple[bytes, object]]:
        """Read files whole, with tags, in order, up to the first missing file."""
        # By their names in the open folder, and without a look at their sizes: a first look reads 50,000 of them.
        with suppress(FileNotFoundError):
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
            try:
                for path in paths:
                    file = os.open(path, os.O_RDONLY, dir_fd=folder)
                    tag = tag_of(os.fstat(file))
                    yield content_of(file), tag
            finally:
                os.close(folder)

    def open(self, path: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        """Open a file as pyarrow's ``NativeFile``."""
        return pa.OSFile(self._at(path), "rb")

    def put(self, path: str, content: bytes) -> None:
        """Write a file, replacing an existing file."""
        with writing_to(self._at(path)), self._draft(path, content) as draft:
            os.replace(draft, self._at(path))

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Write a new file; fail if the file exists."""
        with writing_to(self._at(path)), self._draft(path, content) as draft:
            os.link(draft, self._at(path))

    def delete(self, *paths: str, tidy: bool = False) -> None:
        """Remove files, if present."""
        for path in paths:
            require_allowed("delete", self._at(path))
            with suppress(FileNotFoundError):
                os.unlink(self._at(path))
            folder = os.path.dirname(path)
            with suppress(OSError):
                while tidy and folder:
                    os.rmdir(self._at(folder))
                    folder = os.path.dirname(folder)

    def delete_folder(self, folder: str) -> None:
        """Remove everything below a folder, and the folder."""
        require_allowed("delete", self._at(folder))
        shutil.rmtree(self._at(folder), ignore_errors=True)

    @contextmanager
    def lock(self, timeout_seconds: float) -> Iterator[Hold]:
        """Hold the writer's lock of the location: the file ``.<name>.lock`` next to the folder."""
        path = f"{os.path.dirname(self.root)}/.{self.name}.lock"
        require_allowed("write", path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with FileLock(path, timeout=timeout_seconds):
            yield Unending()

    def claim(self, path: str) -> WorkLock:
        """Claim a path: lock the file of that name."""
        held = FileLock(self._at(path), thread_local=False)
        with writing_to(self._at(path)):
            os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
            held.acquire(timeout=0)
        return held

    def is_claimed(self, path: str) -> bool:
        """Return whether a living process claims a path."""
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
        """Return whether two folders are the same, or are nested."""
        ours, theirs = Path(self.above().resolved().root) / self.name, Path(other.root)
        return theirs in (ours.resolve(), ours, *ours.parents) or ours in theirs.parents

    def tree(self) -> Tree:
        """List everything in the folder; raise an error if a folder cannot be listed."""
        found = list(scan(self.root, "", deep=True, links=False))
        others = [path for path in found if isinstance(path, str)]
        empty = frozenset(path.rstrip("/") for path in others if path.endswith("/"))
        return Tree([e for e in found if isinstance(e, Entry)], empty, [p for p in others if not p.endswith("/")])

    def make_folder(self, folder: str) -> None:
        """Make a folder that may stay empty."""
        with writing_to(self._at(folder)):
            os.makedirs(self._at(folder), exist_ok=True)

    def is_folder(self) -> bool:
        """Return whether the location is a folder."""
        return os.path.isdir(self.address)

    def move(self, path: str, into: LocalStore, new: str) -> None:
        """Move a file or a folder to another place on the same disk, in one step."""
        with writing_to(into._at(new)):
            os.makedirs(os.path.dirname(into._at(new)), exist_ok=True)
            os.replace(self._at(path), into._at(new))

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing; readers see partial content."""
        with writing_to(self._at(path)):
            os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
            return open(self._at(path), "xb")

    def copy_times(self, path: str, source: LocalStore) -> None:
        """Give a file the times and the mode that the file of the same path has in ``source``."""
        shutil.copystat(Path(source._at(path)), Path(self._at(path)))

    def share(self, path: str, source: LocalStore) -> None:
        """Hard-link the file of the same path in ``source``."""
        with writing_to(self._at(path)):
            os.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
            os.link(source._at(path), self._at(path))

    def shown(self, name: str) -> str | None:
        """Return the target of the link ``name``; ``None`` if ``name`` is no link."""
        return os.readlink(self._at(name)) if os.path.islink(self._at(name)) else None

    def show(self, name: str, folder: str) -> None:
        """Point the link ``name`` to ``folder`` atomically.

        A crash may leave a draft of the link beside ``folder``.
        """
        draft = self._at(f"{os.path.dirname(folder)}/.{uuid.uuid4().hex}.tmp")
        with writing_to(self._at(name)):
            os.symlink(folder, draft)
            os.replace(draft, self._at(name))

    def _at(self, path: str) -> str:
        if not path:
            return self.root
        return path if path.startswith("/") else f"{self.root}/{path}"

    @contextmanager
    def _draft(self, path: str, content: bytes) -> Iterator[str]:
        folder = os.path.dirname(self._at(path))
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError as error:  # a file in place of the folder, which is not the file that callers ask about
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the place of a folder", folder) from error
        draft = f"{folder}/.{uuid.uuid4().hex}.tmp"
        try:
            with open(draft, "xb") as file:
                file.write(content)
            yield draft
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
