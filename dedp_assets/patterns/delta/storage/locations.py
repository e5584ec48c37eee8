"""Locations: the store of a path or a URI, the same for Python, Spark and deltalake.

Each of them reads a path in its own way: relative to its own working directory, as a pattern, as an address, with
characters decoded. A location that they would not all take for the same folder is refused.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.delta.storage.object_path import FilePath, ObjectPath
from dedp_assets.patterns.delta.storage.store import Store, require

if TYPE_CHECKING:
    from dedp_assets.patterns.delta.storage.s3_store import S3Store

__all__ = [
    "Located",
    "STAGE",
    "Location",
    "as_folder",
    "beside",
    "folder_at",
    "group_beside",
    "is_in_bucket",
    "literal_path",
    "partitions_beside",
    "path_at",
    "require_folder",
    "require_vacant",
    "store_at",
]

Location = str | os.PathLike[str] | Store
"""Where a table lies: a path, a ``file`` or ``s3`` URI, or a store that was opened already."""

STAGE = "staged-"
"""What begins the names of stages' folders."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_BUCKET = re.compile(r"s3a?:/", re.IGNORECASE)
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_READ_OTHERWISE = re.compile(r"[%*?\[\]{}\\`:\x00-\x1f\x7f]")
_PATTERN = re.compile(r"[\\{}\[\]*?]")
_OURS = ("_delta_log", STAGE, ".")


class Located:
    """An object whose files lie in a store."""

    __slots__ = ()
    store: Store

    @property
    def location(self) -> Path:
        """The folder as a path, for users; the library goes through the store.

        Raises:
            ConfigError: if it is no folder of this machine.
        """
        return Path(as_folder(self.store).root)


def store_at(location: Location) -> Store:
    """Open the store of a table by path or URI (``s3://bucket/prefix``, ``file:///path``).

    A link that is the folder itself stays one: a replica is exchanged by exchanging the link.

    Raises:
        ConfigError: if it is an address of something else than a folder of this machine or a prefix of a bucket, or has
            characters that one of the engines reads in another way.
    """
    if not isinstance(location, str | os.PathLike):
        return location
    text = os.fspath(location)
    if is_in_bucket(text):
        return _bucket_at(text)
    path = Path(_path_in(text)).absolute()
    folder = str(path)
    if not _READ_OTHERWISE.search(folder):
        # Plain calls, as in the store: a sensor opens hundreds of tables per tick.
        above = os.path.realpath(path.parent)
        folder = os.path.realpath(path) if ".." in path.parts else os.path.join(above, path.name)  # noqa: PTH118
    _require_plain(folder)
    if folder == os.path.dirname(folder):  # noqa: PTH120
        raise ConfigError(f"{text!r} is no folder of its own: name one for the table")
    return LocalStore(folder)


def _bucket_at(text: str) -> S3Store:
    """Open the store of an ``s3`` URI; obstore is imported by who names one."""
    from dedp_assets.patterns.delta.storage.s3_store import S3Store  # noqa: PLC0415

    parts = urlsplit(text)
    if not _BUCKET_NAME.fullmatch(parts.netloc) or parts.query or parts.fragment:
        raise ConfigError("an address in a bucket must be s3://bucket/prefix, without user, port, query and fragment")
    root = unquote(parts.path).strip("/")
    _require_plain(root)
    if not root:
        raise ConfigError(f"{text!r} is a whole bucket: name a prefix in it")
    if odd := {"", ".", ".."} & {*root.split("/")}:
        raise ConfigError(f"{text!r} must have a name between any two slashes, not {min(odd)!r}")
    return S3Store(parts.netloc, root)


def group_beside(table: Store) -> Store:
    """Return the store beside a table with the notes of the group that the table is the first of."""
    return table.above().within(f".{table.name}.group")


def partitions_beside(table: Store) -> Store:
    """Return the place beside a table whose lock a change of the partition columns holds."""
    return table.above().within(f".{table.name}.partitions")


def beside(address: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the addresses of folders and of single files that a table's writers need beside the table.

    Editions of a replica are left out: their names are made for each edition.

    Args:
        address: address of the table; nothing is opened there.
    """
    above, _, name = address.rpartition("/")
    group, locked = f".{name}.group", (name, f".{name}.group", f".{name}.partitions", f"{name}.editions")
    return (f"{above}/{group}",), (*(f"{above}/.{each}.lock" for each in locked), f"{above}/.{name}.replica.json")


def path_at(location: str) -> FilePath:
    """Return the path of plain files at a folder or a prefix of a bucket (``s3://bucket/prefix``).

    Raises:
        ConfigError: as :func:`store_at`, of a bucket.
    """
    return ObjectPath(_bucket_at(location)) if is_in_bucket(location) else Path(location)


def is_in_bucket(location: str) -> bool:
    """Return whether a location is an address in a bucket."""
    return _BUCKET.match(location) is not None


def _require_plain(folder: str) -> None:
    if odd := sorted(set(_READ_OTHERWISE.findall(folder))):
        raise ConfigError(
            f"{folder!r} has {' '.join(map(repr, odd))} in it, which engines read as something else: name "
            "another folder"
        )


def folder_at(path: str | os.PathLike[str] | LocalStore) -> LocalStore:
    """Open the store of a folder of plain files, under any name.

    Raises:
        ConfigError: for an address in a bucket.
    """
    if isinstance(path, LocalStore):
        return path
    if is_in_bucket(text := os.fspath(path)):
        raise ConfigError(f"{text!r} is in a bucket, and only a folder of this machine is taken: name one")
    return LocalStore(os.path.abspath(text))  # noqa: PTH100 - links stay


def _path_in(text: str) -> str:
    """Return the path of a ``file`` URI, or a plain path unchanged."""
    if not _ADDRESS.match(text):
        return text
    parts = urlsplit(text)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise ConfigError(
            f"{text} is an address of something else than a folder of this machine or a bucket, where tables lie: name "
            "a path, a file:///path or an s3://bucket/prefix"
        )
    return unquote(parts.path)


def literal_path(path: FilePath | str) -> str:
    """Escape brackets and stars in a path, which Spark's readers take for a glob pattern."""
    return _PATTERN.sub(r"\\\g<0>", str(path))


def require_vacant(table: str, store: Store) -> None:
    """Refuse to create a table at a location with a file or foreign files.

    Raises:
        ConfigError: if a file has its place, or files lie there that no table of the library left.
    """
    require_folder(table, store)
    found = store.list()
    strange = [name for name in found if not name.startswith(_OURS)]
    if strange and "_delta_log" not in found:
        raise ConfigError(
            f"{table}: {store.address} holds {strange[0]!r} and no Delta log: name an empty folder, and write what is "
            "there into the table from elsewhere"
        )


def require_folder(table: str, store: Store) -> None:
    """Refuse a file in the place of a table's folder.

    Raises:
        ConfigError: if there is one.
    """
    if store.exists(""):
        raise ConfigError(
            f"{table}: {store.address} is a file, and a table is a folder: name another location, or move the file "
            "away and put the folder back or compute the table anew"
        )


def is_link(store: Store) -> bool:
    """Return whether a location is a symbolic link, as the address of a replica is."""
    return isinstance(store, LocalStore) and store.above().shown(store.name) is not None


def as_folder(store: Store) -> LocalStore:
    """Return a store that can exchange folders.

    Raises:
        ConfigError: if it cannot.
    """
    require(store, "exchange")
    if not isinstance(store, LocalStore):
        raise ConfigError(f"{store.uri} is no folder of this machine: a copy is exchanged as a folder is")
    return store
