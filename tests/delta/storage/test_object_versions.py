"""Noncurrent versions of objects: listed, read and removed in a bucket of a real server."""

from __future__ import annotations

import uuid

import pytest
from botocore.stub import Stubber

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.requests import counting_requests
from dedp_assets.patterns.delta import NoncurrentVersion, NoncurrentVersions
from tests.delta.storage.versioned import Owner
from tests.object_faults import proxied

pytestmark = pytest.mark.slow


@pytest.fixture
def prefix(object_store, monkeypatch):
    """A prefix of this test's own, in whichever bucket."""
    with object_store.named(monkeypatch):
        yield f"{uuid.uuid4().hex[:8]}/lake"


@pytest.fixture
def owner(prefix):
    """The owner of a bucket with versioning."""
    return Owner.of("versioned")


@pytest.fixture
def versions(owner, prefix):
    """The noncurrent versions below the prefix, as the library sees them."""
    return NoncurrentVersions.at(f"s3://{owner.bucket}/{prefix}")


def listed(versions):
    return [each for page in versions.pages() for each in page]


def test_replaced_versions_and_those_behind_delete_markers_are_listed(owner, versions, prefix):
    """Present ones are not, nor those of a folder whose name begins alike; any name is told as it is."""
    for name in ("a/replaced", "a/b=ä %+#?.txt"):
        for number in range(3):
            owner.put(f"{prefix}/{name}", b"%d" % number)
    owner.put(f"{prefix}/deleted", b"gone")
    owner.delete(f"{prefix}/deleted")
    owner.put(f"{prefix}/present", b"here")
    owner.put(f"{prefix}2/other", b"1")
    owner.delete(f"{prefix}2/other")
    found = {(each.path, versions.read(each), each.size_bytes) for each in listed(versions)}
    assert found == {
        *((name, b"%d" % number, 1) for name in ("a/replaced", "a/b=ä %+#?.txt") for number in range(2)),
        ("deleted", b"gone", 4),
    }


def test_a_server_without_the_request_keeps_no_versions(versions):
    """As the servers do that answer 501."""
    with Stubber(versions._client) as server:
        server.add_client_error("list_object_versions", "NotImplemented", http_status_code=501)
        assert listed(versions) == []
        server.assert_no_pending_responses()


def test_a_removed_version_is_gone_and_brings_nothing_back(owner, versions, prefix):
    """The object behind a delete marker stays deleted, and the present one is as it was; again is no error."""
    for name in ("replaced", "deleted"):
        for number in range(3):
            owner.put(f"{prefix}/{name}", b"%d" % number)
    owner.delete(f"{prefix}/deleted")
    chosen = [each for each in listed(versions) if versions.read(each) != b"1"]
    assert versions.remove(chosen) == {}
    assert versions.remove(chosen) == {}
    left = {(each.key.rpartition("/")[2], content) for each, content in owner.kept(prefix).items()}
    assert left == {("replaced", b"1"), ("replaced", b"2"), ("deleted", b"1")}
    assert owner.marked(prefix) == {f"{prefix}/deleted"}
    with pytest.raises(FileNotFoundError):
        versions.read(chosen[0])


def test_more_versions_than_a_page_has_are_listed_while_they_are_removed(owner, versions, prefix):
    """A page and its removal are a request each."""
    for number in range(550):
        for _ in range(2):
            owner.put(f"{prefix}/{number:03d}", b"x")
        owner.delete(f"{prefix}/{number:03d}")
    with counting_requests() as counted:
        pages = [page for page in versions.pages() if not versions.remove(page)]
    assert sum(map(len, pages)) == 1100
    assert max(map(len, pages)) <= 1000
    assert counted.sent["delete"] == len(pages)
    assert counted.sent["list"] >= len(pages)
    assert owner.kept(prefix) == {}


def test_a_bucket_that_keeps_no_versions_has_none(object_store, prefix):
    """One that no longer keeps any has those from before."""
    plain = NoncurrentVersions.at(f"s3://{object_store.bucket}/{prefix}")
    owner = Owner.of("suspended")
    for number in range(2):
        owner.put(f"{prefix}/a", b"%d" % number)
        owner.client.put_object(Bucket=object_store.bucket, Key=f"{prefix}/a", Body=b"%d" % number)
    owner.version("Suspended")
    owner.put(f"{prefix}/a", b"2")
    owner.put(f"{prefix}/a", b"3")
    assert listed(plain) == []
    kept = NoncurrentVersions.at(f"s3://{owner.bucket}/{prefix}")
    assert sorted(kept.read(each) for each in listed(kept)) == [b"0", b"1"]


def test_a_locked_version_stays_and_others_go(prefix):
    """The server says why."""
    owner = Owner.of("locked", lock=True)
    ids = [owner.put(f"{prefix}/a", b"%d" % number) for number in range(3)]
    owner.hold(f"{prefix}/a", ids[0], "ON")
    versions = NoncurrentVersions.at(f"s3://{owner.bucket}/{prefix}")
    found = listed(versions)
    left = versions.remove(found)
    assert {each.version_id for each in left} == {ids[0]}
    assert {*left.values()} == {"AccessDenied"}
    assert sorted(owner.kept(prefix).values()) == [b"0", b"2"]
    owner.hold(f"{prefix}/a", ids[0], "OFF")
    assert versions.remove(found) == {}
    assert [*owner.kept(prefix).values()] == [b"2"]


def test_a_refused_key_is_an_error_that_names_the_object_and_not_the_key(owner, prefix, monkeypatch):
    """Of each request."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "an0ther-secret")
    versions, one = NoncurrentVersions.at(f"s3://{owner.bucket}/{prefix}"), NoncurrentVersion("a", "1", 1)
    for ask in (lambda: listed(versions), lambda: versions.read(one), lambda: versions.remove([one])):
        with pytest.raises(PermissionError) as refused:
            ask()
        text = str(refused.value)
        assert f"s3://{owner.bucket}/{prefix}" in text
        assert "their right to the bucket versioned" in text
        assert "an0ther-secret" not in text
        assert refused.value.__suppress_context__


def test_a_fault_that_stays_is_an_error_that_says_what_to_look_at(object_store, owner, prefix, monkeypatch):
    """One that passes is not seen."""
    owner.put(f"{prefix}/a", b"0")
    owner.put(f"{prefix}/a", b"1")
    with proxied(object_store, monkeypatch) as proxy:
        versions, fates = NoncurrentVersions.at(f"s3://{owner.bucket}/{prefix}"), ["busy", "cut"]
        proxy.fate = lambda *_: fates.pop() if fates else ""
        assert [versions.read(each) for each in listed(versions)] == [b"0"]
        assert fates == []
        proxy.fate = lambda *_: "busy"
        with pytest.raises(ConnectionError, match=r"was not served .*: look at the server, its bucket versioned"):
            listed(versions)


def test_a_folder_has_no_versions(tmp_path):
    """Nor has a bucket as a whole a place of its own."""
    with pytest.raises(ConfigError, match="must be s3://bucket/prefix, not"):
        NoncurrentVersions.at(str(tmp_path))
    with pytest.raises(ConfigError, match="is a whole bucket"):
        NoncurrentVersions.at("s3://lake")
