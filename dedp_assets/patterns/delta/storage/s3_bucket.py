"""Requests to one bucket: obstore's calls, counted by kind, and errors of a file system.

This is the one place that sends them, and that counts them. What obstore sends again after a fault is counted once.

Endpoint, region and credentials are the environment's: obstore, deltalake and Spark's SDK read the same variables
(``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID``, ...), so no object of the library holds a secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPException
from itertools import islice
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.measuring.requests import RequestKind, count_request
from dedp_assets.patterns.delta.storage.s3_errors import as_file, object_named, refusal

__all__ = ["PAGE", "Bucket", "Seen", "require_client", "written_at"]

obstore = optional("obstore")
stores = optional("obstore.store")
failures = optional("obstore.exceptions")

PAGE = 1000
"""Most objects that one answer lists, and that one request removes."""

_RETRIES, _RETRY_SECONDS = 4, 60
_ANSWER_SECONDS = 30
_SIGNED_SECONDS = 1200
"""Validity of a signed address. S3 takes requests of clocks that are 15 minutes fast or slow, and a slow clock signs
addresses that have been valid for some time already."""
_NO_RANGE = "<Code>InvalidRange</Code>"
_KINDS: Mapping[str, RequestKind] = {"GET": "get", "DELETE": "delete"}
_NOT_FOUND, _CHANGED = 404, 412
_NO_TAG = '"00000000000000000000000000000000"'
"""An e-tag that no object has."""
_CONDITIONAL: set[str] = set()
"""Buckets whose server was seen to keep to conditions."""
_USERS: set[int] = set()
"""Ids of processes that sent a request to a bucket; a fork inherits the ids of the parent processes."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object and the age at the time of the server's answer.

    Attributes:
        content: of the object.
        tag: its e-tag.
        age_seconds: time since it was written, by the clock of the server, in whole seconds.
    """

    content: bytes
    tag: str
    age_seconds: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """The objects of a bucket, by their keys.

    What is missing raises ``FileNotFoundError``, a refused right ``PermissionError``, a condition that does not hold
    ``FileExistsError``, and an answer that did not come, or that blames the server, ``ConnectionError``.
    """

    name: str

    def read(self, key: str) -> tuple[bytes, str]:
        """Read an object whole; return content and e-tag."""
        with _sent(self.name, key, "get"):
            found = obstore.get(_client(self.name), key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def read_end(self, key: str, length: int) -> tuple[bytes, int]:
        """Read the last bytes of an object, at most ``length``; return content and the size of the object."""
        with _sent(self.name, key, "get"):
            try:
                found = obstore.get(_client(self.name), key, options={"range": {"suffix": length}})
                return bytes(found.bytes()), int(found.meta["size"])
            except failures.GenericError as error:
                if _NO_RANGE in str(error):  # an empty object has no last bytes
                    return b"", 0
                raise

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        with _sent(self.name, key, "get"):
            return bytes(obstore.get_range(_client(self.name), key, start=start, length=length))

    def head(self, key: str) -> Mapping[str, Any]:
        """Return size, time and e-tag of an object."""
        with _sent(self.name, key, "head"):
            found: Mapping[str, Any] = obstore.head(_client(self.name), key)
            return found

    def below(self, prefix: str, *, pages: int | None = None) -> Sequence[Mapping[str, Any]]:
        """List the objects in a folder and in subfolders, from all pages of the listing or the first pages."""
        with _sent(self.name, prefix, "list"):
            listed = obstore.list(_client(self.name), prefix or None, chunk_size=PAGE)
            found: list[Mapping[str, Any]] = [each for page in islice(listed, pages) for each in page]
        _count_pages(found)
        return found

    def first(self, prefix: str) -> Sequence[Mapping[str, Any]]:
        """List the first objects in a folder and in subfolders, by one request."""
        with _sent(self.name, prefix, "list"):
            return next(iter(obstore.list(_client(self.name), prefix)), ())

    def inside(self, prefix: str) -> tuple[Sequence[str], Sequence[Mapping[str, Any]]]:
        """List the subfolders and the objects in a folder."""
        with _sent(self.name, prefix, "list"):
            found = obstore.list_with_delimiter(_client(self.name), prefix or None)
        _count_pages([*found["common_prefixes"], *found["objects"]])
        return found["common_prefixes"], found["objects"]

    def put(self, key: str, content: bytes) -> None:
        """Write an object, replacing a former one."""
        with _sent(self.name, key, "put"):
            obstore.put(_client(self.name), key, content, use_multipart=False)

    def create(self, key: str, content: bytes) -> str:
        """Write a new object by one request, and return the e-tag.

        Raises:
            FileExistsError: if there is one; it stays as it is.
            ConnectionError: without an answer: the object may be there now.
        """
        return self._put_if(key, content, "create")

    def exchange(self, key: str, content: bytes, tag: str) -> str:
        """Write an object by one request if the e-tag is still ``tag``, and return the new e-tag.

        Raises:
            FileExistsError: if it has another e-tag, or is gone.
            ConnectionError: without an answer: the content may be there now.
        """
        return self._put_if(key, content, {"e_tag": tag})

    def _put_if(self, key: str, content: bytes, mode: str | Mapping[str, str]) -> str:
        with _sent(self.name, key, "put"):
            # Tried again below, it would be refused for its own success, and nobody could tell that from a lost race.
            put = obstore.put(_client(self.name, retries=0), key, content, mode=mode, use_multipart=False)
            return str(put["e_tag"])

    def delete(self, *keys: str) -> None:
        """Remove objects, if present, up to :data:`PAGE` by one request."""
        for first in range(0, len(keys), PAGE):
            with _sent(self.name, keys[first], "delete"):
                obstore.delete(_client(self.name), [*keys[first : first + PAGE]])

    def aged(self, key: str) -> Seen | None:
        """Read content, e-tag and age (by the server's clock) of an object, if present."""
        status, headers, content = self._answer("GET", key)
        if status == _NOT_FOUND:
            return None
        written, now = (headers.get(name) for name in ("Last-Modified", "Date"))
        if not written or not now:
            raise ConnectionError(f"{object_named(self.name, key)}: its server does not tell the time (no header Date)")
        age = parsedate_to_datetime(now) - parsedate_to_datetime(written)
        return Seen(content, headers.get("ETag", ""), age.total_seconds())

    def delete_if(self, key: str, tag: str) -> bool:
        """Remove an object if the e-tag is still ``tag``; return whether that was so."""
        status, _, _ = self._answer("DELETE", key, {"If-Match": tag})
        return status not in (_NOT_FOUND, _CHANGED)

    def require_conditions(self, key: str) -> None:
        """Refuse a server that ignores conditions of requests.

        Of two writers of a version, both would succeed there. Asked once of each bucket in a process, by requests that
        have to fail.

        Args:
            key: an object that is there, of whose content nothing is left if a condition is ignored.

        Raises:
            ConfigError: names the condition.
            ConnectionError: without an answer, which proves nothing.
        """
        if self.name in _CONDITIONAL:
            return
        broken = ""
        with suppress(FileExistsError):
            self.create(key, b"")
            broken = "PUT with If-None-Match"
        with suppress(FileExistsError):
            self.exchange(key, b"", _NO_TAG)
            broken = broken or "PUT with If-Match"
        if self.delete_if(key, _NO_TAG):
            broken = broken or "DELETE with If-Match"
        if broken:
            self.delete(key)
            raise ConfigError(
                f"s3://{self.name}: its server must refuse a {broken} whose condition does not hold, and carries it "
                "out: of two writers of a table one would overwrite the other. Name a server that keeps to conditions "
                "in AWS_ENDPOINT_URL"
            )
        _CONDITIONAL.add(self.name)

    def _answer(self, method: str, key: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any, bytes]:
        """Send a signed request that obstore has no call for; return status, headers and content.

        The text of an error never has the signed address, which whoever reads it could use.
        """
        with as_file(self.name, key):
            url = obstore.sign(_client(self.name), method, key, timedelta(seconds=_SIGNED_SECONDS))
        count_request(_KINDS[method])
        try:
            request = Request(url, method=method, headers=dict(headers or {}))  # noqa: S310 - the endpoint's
            with urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - as above
                return answer.status, answer.headers, answer.read()
        except HTTPError as error:
            if error.code in (_NOT_FOUND, _CHANGED):
                return error.code, error.headers, b""
            text, code = error.read().decode(errors="replace"), error.code
        except (OSError, HTTPException) as error:
            text, code = type(error).__name__, 0
        text = f"status code: {code}: {text}" if code else text
        raise refusal(self.name, key, text) from None


def require_client() -> None:
    """Refuse buckets without obstore.

    Raises:
        ConfigError: names the extra.
    """
    _ = stores.S3Store


def _client(bucket: str, *, retries: int = _RETRIES) -> Any:  # noqa: ANN401 - obstore may be missing
    """Return obstore's client of a bucket.

    Raises:
        ConfigError: in a fork of a process that used one: its threads are not in the fork, and a request would hang.
    """
    if _USERS and os.getpid() not in _USERS:
        raise ConfigError(
            f"s3://{bucket} cannot be used in a fork of a process that used a bucket: start the process anew (spawn)"
        )
    _USERS.add(os.getpid())
    return _opened(bucket, retries)


@lru_cache(maxsize=64)
def _opened(bucket: str, retries: int) -> Any:  # noqa: ANN401 - as above
    """Open a client by the environment, with connections to keep."""
    retrying = {"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
    # Options of its HTTP client would take the place of the environment's, AWS_ALLOW_HTTP among them.
    return stores.S3Store(bucket, retry_config=retrying)


@contextmanager
def _sent(bucket: str, key: str, kind: RequestKind) -> Iterator[None]:
    """Count a request, and raise the errors of obstore as errors of a file system."""
    count_request(kind)
    with as_file(bucket, key):
        yield


def _count_pages(listed: Sequence[object]) -> None:
    """Count the requests of a list after the first one."""
    if further := max(len(listed) - 1, 0) // PAGE:
        count_request("list", further)


def written_at(found: Mapping[str, Any]) -> int:
    """Return when an object was written, in ns since 1970.

    To the second: lists tell more of it than other answers do.
    """
    at: datetime = found["last_modified"]
    return int(at.timestamp()) * 1_000_000_000
