"""Noncurrent versions of the objects in a bucket, by botocore: obstore has no request for versions.

Endpoint, region and credentials are the environment's, by the names that obstore reads. Requests are counted, and
errors are those of a file system, as for :class:`~dedp_assets.patterns.delta.storage.s3_bucket.Bucket`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.measuring.requests import count_request
from dedp_assets.patterns.core.running.permissions import require_allowed
from dedp_assets.patterns.delta.storage.locations import path_at
from dedp_assets.patterns.delta.storage.object_path import ObjectPath
from dedp_assets.patterns.delta.storage.s3_errors import object_named, refusal

__all__ = ["NoncurrentVersion", "NoncurrentVersions"]

_REGION = {"region": ("region", ["AWS_REGION", "AWS_DEFAULT_REGION"], "us-east-1", None)}
"""Variables of the region; botocore by itself reads the second one alone."""
_ATTEMPTS, _CONNECT_SECONDS, _ANSWER_SECONDS = 5, 10, 60
_NOT_FOUND, _NOT_IMPLEMENTED = 404, 501
_GONE = ("NoSuchKey", "NoSuchVersion")


@dataclass(frozen=True, slots=True)
class NoncurrentVersion:
    """A version that was replaced, or that lies behind a delete marker.

    Attributes:
        path: path of the object, below the prefix.
        version_id: id of the version.
        size_bytes: size of the version.
    """

    path: str
    version_id: str
    size_bytes: int


@dataclass(frozen=True)
class NoncurrentVersions:
    """Noncurrent versions of the objects below a prefix of a bucket.

    A bucket without versioning has no noncurrent version.

    Attributes:
        bucket: its name.
        root: the prefix, without slashes around.
    """

    bucket: str
    root: str

    @classmethod
    def at(cls, location: str) -> NoncurrentVersions:
        """Open the versions below an address in a bucket (``s3://bucket/prefix``).

        Raises:
            ConfigError: for another location.
        """
        path = path_at(location)
        if not isinstance(path, ObjectPath):
            raise ConfigError(f"a place with versions of objects must be s3://bucket/prefix, not {location}")
        return cls(path.store.bucket, path.store.root)

    def pages(self) -> Iterator[Sequence[NoncurrentVersion]]:
        """Yield the versions of a page of the listing at a time, up to 1,000, by one request.

        A server without the request keeps no versions.

        Raises:
            PermissionError: without the right to list versions.
            ConnectionError: without an answer.
        """
        prefix = f"{self.root}/"
        listing = self._client.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=prefix)
        count_request("list")
        try:
            with _as_file(self.bucket, prefix):
                for page in listing:
                    yield [
                        NoncurrentVersion(each["Key"].removeprefix(prefix), each["VersionId"], each["Size"])
                        for each in page.get("Versions", ())
                        if not each["IsLatest"]
                    ]
                    if page.get("IsTruncated"):
                        count_request("list")
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise

    def read(self, version: NoncurrentVersion) -> bytes:
        """Read a version whole.

        Raises:
            FileNotFoundError: if it is gone.
            PermissionError: without the right to read versions.
            ConnectionError: without an answer.
        """
        count_request("get")
        with _as_file(self.bucket, key := self._key(version)):
            found = self._client.get_object(Bucket=self.bucket, Key=key, VersionId=version.version_id)
            return bytes(found["Body"].read())

    def remove(self, versions: Sequence[NoncurrentVersion]) -> Mapping[NoncurrentVersion, str]:
        """Remove up to 1,000 versions for good, by one request.

        Returns:
            The versions that stay, with the server's reason, such as ``AccessDenied`` under an object lock.

        Raises:
            PermissionError: without the right to remove any of them.
            ConnectionError: without an answer.
        """
        known = {(self._key(each), each.version_id): each for each in versions}
        for key, _ in known:
            require_allowed("delete", object_named(self.bucket, key))
        named = [{"Key": key, "VersionId": version_id} for key, version_id in known]
        count_request("delete")
        with _as_file(self.bucket, self.root):
            answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": named, "Quiet": True})
        refused = [each for each in answer.get("Errors", ()) if each["Code"] not in _GONE]
        return {known[each["Key"], each["VersionId"]]: each["Code"] for each in refused}

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 - botocore may be missing
        config = optional("botocore.config").Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            s3={"addressing_style": "path"},  # as obstore's
            request_checksum_calculation="when_required",  # servers that are not Amazon's may refuse others
            response_checksum_validation="when_required",
        )
        return optional("botocore.session").Session(_REGION).create_client("s3", config=config)

    def _key(self, version: NoncurrentVersion) -> str:
        return f"{self.root}/{version.path}"


@contextmanager
def _as_file(bucket: str, key: str) -> Iterator[None]:
    """Raise the errors of botocore as errors of a file system, without the request in the cause."""
    failures = optional("botocore.exceptions")
    try:
        yield
    except failures.ClientError as error:
        status, code = error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    except failures.BotoCoreError as error:
        status, code = 0, type(error).__name__
    else:
        return
    if status == _NOT_FOUND:
        raise FileNotFoundError(errno.ENOENT, "there is no such version", object_named(bucket, key)) from None
    if status == _NOT_IMPLEMENTED:
        raise OSError(errno.ENOSYS, "the server has no such request", object_named(bucket, key)) from None
    raise refusal(bucket, key, f"status code: {status}: <Code>{code}</Code>") from None
