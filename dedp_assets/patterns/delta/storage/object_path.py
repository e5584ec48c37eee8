"""Paths of objects: the methods of ``pathlib.Path`` that readers of files use, for a bucket."""

from __future__ import annotations

import io
import posixpath
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.storage.s3_store import S3Store
    from dedp_assets.patterns.delta.storage.store import Entry

__all__ = ["FilePath", "ObjectPath", "ObjectStat", "arrow_source", "by_first_name"]

_PIECE = 4 << 20
"""Bytes of one request to a larger object; smaller ones are read whole."""


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """Size, time, e-tag and mode of an object, by the names of ``os.stat_result``.

    The time is the server's, in whole seconds: an object that is written again within one differs by the e-tag alone.
    """

    st_size: int
    st_mtime_ns: int
    tag: str
    st_mode: int = stat.S_IFREG


@dataclass(frozen=True)
class ObjectPath:
    """The path of an object in a bucket, or of the objects below a prefix.

    It holds no secret and no connection: a task that gets one opens the object by its own process's environment.

    Attributes:
        store: store of the prefix that paths count from.
        path: path below the store; empty for the prefix.
        seen: metadata from the listing that found the object; without it, the server is asked.
    """

    store: S3Store
    path: str = ""
    seen: Entry | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the address that Spark reads."""
        return self.store.address_of(self.path)

    def __truediv__(self, name: str) -> FilePath:
        """Return a path below; an absolute one is a path of this machine, as behind any other path."""
        return Path(name) if name.startswith("/") else self.below(name)

    def below(self, name: str) -> ObjectPath:
        """Return the path of a relative name below, without dots."""
        path = posixpath.normpath(posixpath.join(self.path, name))
        return ObjectPath(self.store, "" if path == "." else path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path) or self.store.name

    @property
    def suffix(self) -> str:
        """The end of the name from the last dot on."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> ObjectPath:
        """The prefix above."""
        return ObjectPath(self.store, posixpath.dirname(self.path))

    @property
    def parents(self) -> tuple[ObjectPath, ...]:
        """The prefixes above, up to the store's."""
        above = PurePosixPath(self.path).parents
        return tuple(ObjectPath(self.store, "" if str(each) == "." else str(each)) for each in above)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names in the path."""
        return PurePosixPath(self.path).parts

    def resolve(self) -> ObjectPath:
        """Return the same path: no object leads to another one."""
        return self

    def fresh(self) -> ObjectPath:
        """Return the path with the object's present metadata, by one request.

        Raises:
            FileNotFoundError: if there is no object.
        """
        return ObjectPath(self.store, self.path, self.store.entry(self.path))

    def entry(self) -> Entry:
        """Return size, time and e-tag of the object, as listed or by a request.

        Raises:
            FileNotFoundError: if there is none.
        """
        return self.seen or self.store.entry(self.path)

    def stat(self) -> ObjectStat:
        """Return size, time, e-tag and mode of the object, as :meth:`entry` does."""
        found = self.entry()
        # Lists and heads of one server may differ in the quotes around it.
        return ObjectStat(found.size_bytes, found.modified_ns, str(found.tag).strip('"'))

    def is_file(self) -> bool:
        """Return whether the object exists; an empty one in a listing may be Hadoop's mark of a folder."""
        return bool(self.seen and self.seen.size_bytes) or self.store.exists(self.path)

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:  # noqa: ARG002 - as of any path
        """Open the object for reading: a small one by one request, another one in pieces of 4 MiB."""
        if self.seen and self.seen.size_bytes <= _PIECE:
            return io.BytesIO(self.store.read(self.path))
        return io.BufferedReader(self.store.open(self.path), _PIECE)

    def files(self, *, deep: bool = True) -> list[ObjectPath]:
        """List the objects below the prefix, by one request for each 1,000.

        One without bytes may be Hadoop's mark of a folder (:meth:`is_file`).
        """
        return [ObjectPath(self.store, each.path, each) for each in self.store.listed(self.path, deep=deep)]

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """List the objects below whose names fit a pattern with as many parts, such as ``*/*.csv``."""
        for file in self.files():
            found = PurePosixPath(posixpath.relpath(file.path, self.path or "."))
            if len(found.parts) == len(PurePosixPath(pattern).parts) and found.match(pattern):
                yield file


FilePath = Path | ObjectPath
"""A file or folder of this machine, or an object or prefix of a bucket."""


def by_first_name(folder: ObjectPath, files: Iterable[ObjectPath]) -> dict[str, list[ObjectPath]]:
    """Group objects by the first name below a prefix."""
    found, cut = dict[str, list[ObjectPath]](), len(f"{folder.path}/") if folder.path else 0
    for file in files:
        found.setdefault(file.path[cut:].partition("/")[0], []).append(file)
    return found


def arrow_source(file: FilePath) -> Any:  # noqa: ANN401 - pyarrow is not typed
    """Return a file in a form that pyarrow's readers take."""
    return file if isinstance(file, Path) else file.open()
