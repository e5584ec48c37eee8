"""Store of the objects below one prefix of a bucket, by the API of S3."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from typing import Any, TypeVar
from urllib.parse import quote

import pyarrow as pa

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.running.disks import writing_to
from dedp_assets.patterns.core.running.permissions import inheriting, require_allowed
from dedp_assets.patterns.delta.storage.leases import LeaseClaim, ObjectLease, is_leased
from dedp_assets.patterns.delta.storage.s3_bucket import PAGE, Bucket, require_client, written_at
from dedp_assets.patterns.delta.storage.s3_parts import RangedObject
from dedp_assets.patterns.delta.storage.store import Ability, Entry, Hold, WorkLock

__all__ = ["S3Store"]

T = TypeVar("T")
R = TypeVar("R")

_SCHEME = "s3a"
"""Scheme by which Spark knows S3A, and deltalake takes a bucket, too: one spelling for all."""
_ADDRESSES = ("s3a://", "s3://")
_AGAIN = Backoff(attempts=5, first_seconds=0.2, longest_seconds=5)
"""Retries of a conditional put without an answer from the server."""
_AHEAD = 32
"""Greatest number of files that are read at once."""
_HEADS_OF_A_LIST = 12
"""Number of requests for one object each that cost as much as one for a page of names."""
_SHORTEST_LEASE_SECONDS = 1


@dataclass(frozen=True)
class S3Store:
    """A store below a prefix of a bucket; endpoint and credentials are the environment's (``AWS_*``).

    A file is an object, and whole or absent by itself. A new one is put on the condition that none is there, which
    decides between writers. Locks and claims are leases: objects that their holder renews, and that end some time after
    the holder died. A file that is put again with the same bytes may have the same tag.

    Attributes:
        bucket: its name.
        root: the prefix without slashes around; empty for the bucket itself.
        lease_seconds: time after which the lock or claim of a dead process ends.
        can: what it can do; of folders nothing is exchanged as a whole.
    """

    bucket: str
    root: str = ""
    lease_seconds: float = 30.0
    can: frozenset[Ability] = field(default=frozenset({"lock", "put_if_absent"}), repr=False)

    def __post_init__(self) -> None:
        require_client()
        if self.lease_seconds < _SHORTEST_LEASE_SECONDS:
            raise ConfigError(
                f"lease_seconds must be at least {_SHORTEST_LEASE_SECONDS}, not {self.lease_seconds:g}: the store's "
                "clock tells whole seconds"
            )

    @property
    def uri(self) -> str:
        """The prefix as a URI."""
        return self.uri_of("")

    @property
    def address(self) -> str:
        """The prefix in the form that Spark and deltalake take."""
        return self.address_of("")

    @property
    def options(self) -> Mapping[str, str]:
        """The option for conditional commits; deltalake reads all others in the environment."""
        return {"aws_conditional_put": "etag"}

    @property
    def name(self) -> str:
        """The last part of the prefix; the bucket's name without a prefix."""
        return self.root.rpartition("/")[2] or self.bucket

    @property
    def account(self) -> str:
        """The owner of the access key in the environment."""
        return "owner of AWS_ACCESS_KEY_ID"

    def address_of(self, path: str) -> str:
        """Return the address of a file, without dots."""
        return f"{_SCHEME}://{self.bucket}/{self._key(path)}".rstrip("/")

    def uri_of(self, path: str) -> str:
        """Return the URI of a file."""
        return f"{_SCHEME}://{self.bucket}/{quote(self._key(path))}".rstrip("/")

    def within(self, folder: str) -> S3Store:
        """Return the store of a prefix below."""
        return replace(self, root=self._key(folder))

    def above(self) -> S3Store:
        """Return the store of the prefix above; of a bucket, the same."""
        return replace(self, root=self.root.rpartition("/")[0])

    def exists(self, path: str) -> bool:
        """Return whether the object exists.

        Never one in the place of the location: in a bucket it is in nobody's way.
        """
        try:
            return self._key(path) not in ("", self.root) and bool(self._objects.head(self._key(path)))
        except FileNotFoundError:
            return False

    def list(self, folder: str = "") -> Sequence[str]:
        """List the names of objects and prefixes in a prefix."""
        key = self._key(folder)
        folders, files = self._objects.inside(key)
        names = {folder.rpartition("/")[2] for folder in self._filled(folders)}
        return sorted(names | {file["path"].rpartition("/")[2] for file in files if file["path"] != key})

    def files(self, folder: str = "", *, deep: bool = True) -> Sequence[Entry]:
        """List the objects below a prefix."""
        return [entry for entry in self.listed(folder, deep=deep) if entry.size_bytes or self.exists(entry.path)]

    def listed(self, folder: str = "", *, deep: bool = True) -> Sequence[Entry]:
        """List the objects and the marks of folders below a prefix, by one request for each 1,000.

        Which of the objects without bytes are Hadoop's marks of folders, only a request for each can tell.
        """
        key = self._key(folder)
        found = self._objects.below(key) if deep else self._objects.inside(key)[1]
        files = [self._entry(file) for file in found if file["path"] != key]
        return sorted(files, key=lambda entry: entry.path)

    def has_files(self, folder: str) -> bool:
        """Return whether an object is below a prefix."""
        return self._holds(self._key(folder))

    def entry(self, path: str) -> Entry:
        """Return size, time and e-tag of an object."""
        return replace(self._entry(self._objects.head(self._key(path))), path=path)

    def read(self, path: str) -> bytes:
        """Read an object whole."""
        return self._objects.read(self._key(path))[0]

    def entries(self, paths: Collection[str]) -> Mapping[str, Entry]:
        """Return size, time and e-tag of objects by path.

        Many are found by listing the folder that holds them all, as long as that costs less than to ask for each.
        """
        keys = {self._key(path): path for path in paths}
        left, listed = {*keys}, list[Mapping[str, Any]]()
        inside = {key for key in left if key.startswith(f"{self.root}/")}
        if pages := len(inside) // _HEADS_OF_A_LIST:
            listed += self._objects.below(posixpath.commonpath(map(posixpath.dirname, inside)), pages=pages)
            whole = len(listed) < pages * PAGE
            left -= inside if whole else {each["path"] for each in listed}
        found = [each for each in (*listed, *self._at_once(self._head_if_there, left)) if each and each["path"] in keys]
        return {keys[each["path"]]: replace(self._entry(each), path=keys[each["path"]]) for each in found}

    def read_on(self, paths: Iterable[str]) -> Iterator[tuple[bytes, object]]:
        """Read objects whole, with e-tags, in order, up to the first missing object."""
        # One new commit costs two requests, and a long log is not read one by one.
        left, ahead = iter(paths), chain((1, 1), (min(1 << power, _AHEAD) for power in count(1)))
        with ThreadPoolExecutor(_AHEAD) as pool:  # it starts a thread for the first request that waits
            while chosen := list(islice(left, next(ahead))):
                for found in self._at_once(self._read_if_there, chosen, pool):
                    if found is None:
                        return
                    yield found

    def open(self, path: str) -> Any:  # noqa: ANN401 - pyarrow is not typed
        """Open an object as pyarrow's ``NativeFile``, of which each part is read by a request."""
        return pa.PythonFile(RangedObject(self._objects, self._key(path)), mode="r")

    def put(self, path: str, content: bytes) -> None:
        """Write an object, replacing a former one."""
        with writing_to(self.address_of(path)):
            self._objects.put(self._key(path), content)

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Write a new object; fail if the object exists.

        Without an answer it is tried again. If there is an object then, its content tells whether it is this one.
        """
        in_doubt = False
        with writing_to(self.address_of(path)):
            for last in _AGAIN.tries():
                try:
                    self._objects.create(self._key(path), content)
                except FileExistsError:
                    if not in_doubt or self.read(path) != content:
                        raise
                except ConnectionError:
                    if last:
                        raise
                    in_doubt = True
                    continue
                return

    def delete(self, *paths: str, tidy: bool = False) -> None:  # noqa: ARG002 - there are no folders to be left empty
        """Remove objects, if present; many by one request."""
        for path in paths:
            require_allowed("delete", self.address_of(path))
        with suppress(FileNotFoundError):
            self._objects.delete(*map(self._key, paths))

    def delete_folder(self, folder: str) -> None:
        """Remove everything below a prefix."""
        require_allowed("delete", self.address_of(folder))
        key = self._key(folder)
        if keys := [found["path"] for found in self._objects.below(key) if found["path"] != key]:
            with suppress(OSError):
                self._objects.delete(*keys)

    def lock(self, timeout_seconds: float) -> AbstractContextManager[Hold]:
        """Hold the writer's lock of the location: a lease on ``.<name>.lock`` next to the prefix."""
        return self._lease(self.above()._key(f".{self.name}.lock")).held(timeout_seconds)

    def claim(self, path: str) -> WorkLock:
        """Claim a path: take a lease on the object of that name."""
        lease = self._lease(self._key(path))
        lease.take(0)
        return LeaseClaim(lease)

    def is_claimed(self, path: str) -> bool:
        """Return whether a process has claimed a path, and renewed the claim in time."""
        return is_leased(self._objects, self._key(path), self.lease_seconds)

    @property
    def _objects(self) -> Bucket:
        return Bucket(self.bucket)

    def _lease(self, key: str) -> ObjectLease:
        require_allowed("write", place := f"{_SCHEME}://{self.bucket}/{key}")
        return ObjectLease(self._objects, key, self.lease_seconds, place)

    def _key(self, path: str) -> str:
        """Return the key of a path below, of one from the bucket on, or of an address in the bucket."""
        for scheme in _ADDRESSES:
            if path.startswith(f"{scheme}{self.bucket}/"):
                path = path.removeprefix(f"{scheme}{self.bucket}")
        whole = path if path.startswith("/") else f"/{self.root}/{path}"
        return posixpath.normpath(whole).lstrip("/")

    def _entry(self, found: Mapping[str, Any]) -> Entry:
        path = found["path"].removeprefix(f"{self.root}/") if self.root else found["path"]
        at = written_at(found)
        return Entry(path, found["size"], at, at, found["e_tag"])

    def _is_folder(self, found: Mapping[str, Any]) -> bool:
        """Return whether a listed object only marks a folder.

        Hadoop's marks end with a slash, which obstore leaves out.
        """
        if found["size"]:
            return False
        try:
            self._objects.head(found["path"])
        except FileNotFoundError:
            return True
        return False

    def _filled(self, folders: Sequence[str]) -> Iterator[str]:
        """List the folders with a file.

        Servers also list folders whose files were removed, and folders that Hadoop marked.
        """
        filled = self._at_once(self._holds, folders)
        yield from (each for each, is_filled in zip(folders, filled, strict=True) if is_filled)

    def _holds(self, folder: str) -> bool:
        return any(found["path"] != folder and not self._is_folder(found) for found in self._objects.first(folder))

    def _at_once(
        self, ask: Callable[[T], R], asked: Collection[T], pool: ThreadPoolExecutor | None = None
    ) -> Iterable[R]:
        """Return the answers to requests that are sent at the same time, in order."""
        if len(asked) <= 1:
            return list(map(ask, asked))
        with nullcontext(pool) if pool else ThreadPoolExecutor(min(_AHEAD, len(asked))) as threads:
            return list(threads.map(inheriting(ask), asked))

    def _head_if_there(self, key: str) -> Mapping[str, Any] | None:
        with suppress(FileNotFoundError):
            return self._objects.head(key)
        return None

    def _read_if_there(self, path: str) -> tuple[bytes, object] | None:
        with suppress(FileNotFoundError):
            return self._objects.read(self._key(path))
        return None
