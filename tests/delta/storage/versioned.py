"""Buckets with versioning, as their owner sees them: by a client of its own, which the library has no part in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import botocore.session
from botocore.config import Config

__all__ = ["Owner", "Version"]


@dataclass(frozen=True)
class Version:
    """A version that a bucket keeps: key, id, and whether the object has it now."""

    key: str
    version_id: str
    is_latest: bool


@dataclass(frozen=True)
class Owner:
    """The owner of a bucket."""

    client: Any
    bucket: str

    @classmethod
    def of(cls, bucket: str, *, lock: bool = False) -> Owner:
        """Make a bucket with versioning, unless it is there, on the server that the environment names."""
        config = Config(s3={"addressing_style": "path"})
        client = botocore.session.Session().create_client("s3", region_name="us-east-1", config=config)
        made = {each["Name"] for each in client.list_buckets()["Buckets"]}
        if bucket not in made:
            client.create_bucket(Bucket=bucket, **({"ObjectLockEnabledForBucket": True} if lock else {}))
        owner = cls(client, bucket)
        owner.version("Enabled")
        return owner

    def version(self, status: str) -> None:
        """Let the bucket keep versions (``Enabled``), or no more (``Suspended``)."""
        self.client.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": status})

    def put(self, key: str, content: bytes) -> str:
        """Write an object; return the id of the version."""
        return str(self.client.put_object(Bucket=self.bucket, Key=key, Body=content).get("VersionId", ""))

    def delete(self, key: str) -> None:
        """Put a delete marker before an object."""
        self.client.delete_object(Bucket=self.bucket, Key=key)

    def hold(self, key: str, version_id: str, status: str) -> None:
        """Lock a version (``ON``), or let it free (``OFF``)."""
        which = {"Bucket": self.bucket, "Key": key, "VersionId": version_id}
        self.client.put_object_legal_hold(**which, LegalHold={"Status": status})

    def kept(self, prefix: str) -> Mapping[Version, bytes]:
        """All versions below a prefix, with their contents."""
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=prefix)
        found = [each for page in pages for each in page.get("Versions", ())]
        return {
            Version(each["Key"], each["VersionId"], each["IsLatest"]): self.client.get_object(
                Bucket=self.bucket, Key=each["Key"], VersionId=each["VersionId"]
            )["Body"].read()
            for each in found
        }

    def marked(self, prefix: str) -> set[str]:
        """The keys behind a delete marker."""
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=prefix)
        return {each["Key"] for page in pages for each in page.get("DeleteMarkers", ()) if each["IsLatest"]}
