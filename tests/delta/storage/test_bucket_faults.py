"""A bucket behind a network with faults: late answers, errors, and answers that are lost after the effect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.delta import Ledger, LogFold
from dedp_assets.patterns.delta.commit import commits
from tests.logs import LogOverTime, upload
from tests.object_faults import FATES, next_puts, proxied, seeded

pytestmark = pytest.mark.slow

AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
WRITERS, COMMITS = 4, 5


@pytest.fixture
def proxy(object_store, bucket_store, monkeypatch):
    """A proxy that spoils the answers that it is told to."""
    with proxied(object_store, monkeypatch) as running:
        yield running


def commit(store, version, name):
    commits.write(store, version, [{"commitInfo": {"operation": name}}])


def log_of(store, versions):
    return [next(iter(commits.read_actions(store, version)))["commitInfo"]["operation"] for version in versions]


@pytest.mark.parametrize("fate", FATES)
def test_a_commit_with_a_spoilt_answer_is_made_once(bucket_store, proxy, fate):
    """Its writer is told of a success, and of nothing else; a later writer of the version is told of a conflict."""
    proxy.fate = next_puts(fate)
    commit(bucket_store, 0, "ours")
    with pytest.raises(Conflict):
        commit(bucket_store, 0, "theirs")
    assert (proxy.spoilt, log_of(bucket_store, [0])) == ({fate: 1}, ["ours"])
    assert bucket_store.list("_delta_log") == [f"{0:020d}.json"]


@pytest.mark.parametrize("seed", [1, 2])
def test_of_four_writers_no_commit_is_lost_and_none_is_made_twice(bucket_store, proxy, seed):
    """Each goes on to the next version after a conflict; what it was told of a success stands, once."""
    proxy.fate = seeded(seed, share=0.1)

    def write(writer):
        version, made = 0, {}
        while len(made) < COMMITS:
            try:
                commit(bucket_store, version, f"{writer}/{len(made)}")
                made[version] = f"{writer}/{len(made)}"
            except Conflict:
                pass
            version += 1
        return made

    with ThreadPoolExecutor(WRITERS) as pool:
        told = {version: name for made in pool.map(write, range(WRITERS)) for version, name in made.items()}
    assert proxy.spoilt.total() > 0
    proxy.fate = next_puts()
    assert sorted(told) == list(range(WRITERS * COMMITS))
    assert log_of(bucket_store, sorted(told)) == [name for _, name in sorted(told.items())]
    assert bucket_store.list("_delta_log") == [f"{version:020d}.json" for version in sorted(told)]


def test_a_reader_takes_in_each_commit_once(bucket_store, proxy, tmp_path):
    """A fault is never taken for the end of the log, or for another table."""
    log = LogOverTime(tmp_path / "visits", "silver/visits")
    log.create(AT)
    found = []
    fold = LogFold(lambda ledger, since: ledger.glimpses(since=since), lambda each: found.append(each.version), list)
    for number in range(10):
        proxy.fate = next_puts()
        for _ in range(number):
            log.write(AT, "2026-01-05", 1)
        upload(log, bucket_store, since=max(log.version - number, 0))
        proxy.fate = seeded(number, share=0.1)
        assert not fold.poll(Ledger(bucket_store))
    assert (found, proxy.spoilt.total() > 0) == ([*range(log.version + 1)], True)


@pytest.mark.parametrize("fate", ["busy", "cut"])
@pytest.mark.parametrize("ask", ["read", "put_if_absent", "list", "delete", "poll"])
def test_a_fault_that_stays_is_an_error_that_says_what_to_look_at(object_store, bucket_store, proxy, fate, ask):
    """Bucket, object and the environment's variables, in one line and without a secret."""
    fold = LogFold(lambda ledger, since: ledger.glimpses(since=since), list, list)
    commit(bucket_store, 0, "ours")
    fold.poll(Ledger(bucket_store))
    proxy.fate = lambda *_: fate
    calls = {
        "read": lambda: bucket_store.read("a"),
        "put_if_absent": lambda: bucket_store.put_if_absent("a", b"rows"),
        "list": bucket_store.list,
        "delete": lambda: bucket_store.delete("a"),
        "poll": lambda: fold.poll(Ledger(bucket_store)),
    }
    with pytest.raises(ConnectionError) as failed:
        calls[ask]()
    text = str(failed.value)
    assert text.startswith(f"s3://{bucket_store.bucket}/{bucket_store.root}")
    assert f"look at the server, its bucket {bucket_store.bucket}, AWS_ENDPOINT_URL and AWS_ALLOW_HTTP" in text
    assert [secret for secret in (*object_store.secrets, "Signature", "\n") if secret in text] == []
    assert fold.version == 0
