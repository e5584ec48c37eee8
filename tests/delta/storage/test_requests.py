"""Requests to a bucket: what looks and writes cost, by our own count and by what a proxy sees of everybody."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.core.measuring.requests import count_request, counting_requests, with_requests_counted
from dedp_assets.patterns.delta import Ledger, LogFold, LostFileWatch
from dedp_assets.patterns.delta.commit.parquet_statistics import file_statistics
from tests.faults.processes import wait_until
from tests.logs import LogOverTime, upload
from tests.object_faults import proxied

pytestmark = pytest.mark.slow

AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
SIZES = [5, 500]


@pytest.fixture
def proxy(object_store, bucket_store, monkeypatch):
    """A proxy that sees every request."""
    with proxied(object_store, monkeypatch) as running:
        yield running


@pytest.fixture
def log(tmp_path, bucket_store):
    """``log(500)``: the log of a table with so many partitions, which lies in the bucket."""

    def made(partitions):
        written = LogOverTime(tmp_path / "visits", "silver/visits")
        written.create(AT)
        for number in range(partitions):
            written.write(AT, f"{AT + timedelta(days=number):%Y-%m-%d}", 1)
        upload(written, bucket_store)
        return written

    return made


@pytest.fixture
def seen(proxy):
    """``seen(look)``: the requests of a look by kind, which our count and the proxy's agree on."""

    def look_at(look):
        with proxy.counting() as theirs, counting_requests() as ours:
            look()
        assert ours.sent == theirs
        return theirs

    return look_at


# --- looks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", SIZES)
def test_a_look_at_a_log_costs_two_requests_and_one_for_each_new_commit(bucket_store, log, seen, partitions):
    """However many partitions and commits there are; another object of the log is never looked at again."""
    changed, written = [], log(partitions)
    fold = LogFold(lambda ledger, since: ledger.glimpses(since=since), lambda each: changed.append(each.version), list)
    fold.poll(Ledger(bucket_store))
    assert seen(lambda: fold.poll(Ledger(bucket_store))) == {"head": 1, "get": 1}
    newest = written.write(AT, "2026-01-05", 3)
    upload(written, bucket_store, since=newest)
    assert seen(lambda: fold.poll(Ledger(bucket_store))) == {"head": 1, "get": 2}
    assert seen(lambda: fold.poll(Ledger(bucket_store))) == {"head": 1, "get": 1}
    assert changed == [*range(newest + 1)]


def test_a_look_finds_another_table_at_the_place_of_the_one_before(bucket_store, log, seen):
    """Though it asks for nothing but the newest commit, and the next one."""
    found = []
    fold = LogFold(lambda ledger, since: ledger.glimpses(since=since), lambda each: found.append(each.version), list)
    log(3)
    fold.poll(Ledger(bucket_store))
    bucket_store.put(f"_delta_log/{3:020d}.json", b'{"commitInfo":{"operation":"OTHER"}}')
    assert fold.poll(Ledger(bucket_store))
    assert found == [*range(4), *range(4)]


def test_a_look_for_a_table_that_nobody_computed_costs_two_requests(bucket_store, seen):
    """One of them lists the empty place."""
    fold = LogFold(lambda ledger, since: ledger.glimpses(since=since), list, list)
    assert seen(lambda: fold.poll(Ledger(bucket_store))) == {"head": 1, "list": 1}


@pytest.mark.parametrize("partitions", SIZES)
def test_the_newest_version_of_a_table_that_is_known_costs_three_requests(bucket_store, log, seen, partitions):
    """The commit that is known, the next one, and the one after it, without which there is no gap."""
    log(partitions)
    ledger = Ledger(bucket_store)
    assert ledger.version() == partitions
    assert seen(ledger.version) == {"head": 3}


@pytest.mark.parametrize("partitions", SIZES)
def test_a_search_for_lost_files_lists_them(bucket_store, log, seen, partitions):
    """One object is asked for where there are few, and none in a loop over partitions."""
    written = log(partitions)
    files = [(path, add["size"]) for of in written.files.values() for path, add in of.items()]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda file: bucket_store.put(file[0], b"x" * file[1]), files))
    watch = LostFileWatch()
    assert watch.poll(Ledger(bucket_store)) == []  # deltalake reads the log here, and is not counted by us
    listed = {"head": 3 + partitions} if partitions == SIZES[0] else {"head": 3, "list": 2}
    assert seen(lambda: watch.poll(Ledger(bucket_store))) == listed
    bucket_store.delete(files[2][0])
    bucket_store.put(files[4][0], b"x")
    assert {lost.path for lost in watch.poll(Ledger(bucket_store))} == {files[2][0], files[4][0]}


def test_a_footer_costs_one_request(bucket_store, seen):
    """The end of the file tells its size, and is kept; a small file is read whole by that."""
    content = BytesIO()
    pq.write_table(pa.table({"id": range(50_000), "text": [str(each) * 9 for each in range(50_000)]}), content)
    bucket_store.put("part.parquet", content.getvalue())

    def footer():
        with bucket_store.open("part.parquet") as file:
            assert file_statistics(file, ["id"])[0] == 50_000

    assert len(content.getvalue()) > 1 << 17
    assert seen(footer) == {"get": 1}
    for size in (0, 1, 1 << 16):
        bucket_store.put("small", b"x" * size)
        found = []
        assert seen(lambda: found.append(bucket_store.open("small").read())) == {"get": 1}  # noqa: B023 - called at once
        assert found == [b"x" * size]


# --- removals, locks --------------------------------------------------------------------------------------------------


def test_objects_are_removed_by_the_thousand(bucket_store, seen):
    """And listed by the thousand."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: bucket_store.put(f"{number:04d}", b"rows"), range(1001)))
    assert seen(bucket_store.files) == {"list": 2}
    assert seen(lambda: bucket_store.delete(*[f"{number:04d}" for number in range(1, 1001)])) == {"delete": 1}
    assert seen(lambda: bucket_store.delete_folder("")) == {"list": 1, "delete": 1}


def test_requests_of_a_lock_and_of_reading_threads_are_counted(bucket_store, seen):
    """Renewals in the background included, which are of whoever holds the lock."""
    for number in range(70):
        bucket_store.put(f"{number}", b"rows")
    with bucket_store.lock(10):
        pass  # before the first one, the server is asked whether it keeps to conditions

    def work():
        with bucket_store.lock(10):
            assert len(list(bucket_store.read_on(map(str, range(70))))) == 70
            name = f".{bucket_store.name}.lock"
            with counting_requests():
                first = bucket_store.above().entry(name).tag
                assert wait_until(lambda: bucket_store.above().entry(name).tag != first, seconds=30, every=0.2)

    found = seen(work)
    assert (found["get"], found["delete"], found["put"] > 1) == (70, 1, True)


# --- counts -----------------------------------------------------------------------------------------------------------


def test_works_of_one_process_have_counts_of_their_own():
    """At the same time in threads, and one within another, which the outer one includes."""

    def work(number):
        with counting_requests() as counted:
            for _ in range(number):
                count_request("get")
            with counting_requests() as within:
                count_request("head", number)
        return counted.sent, within.sent

    with counting_requests() as outside, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(1, 20)))
    assert found == [(Counter(get=number, head=number), Counter(head=number)) for number in range(1, 20)]
    assert outside.sent == Counter()
    count_request("put")
    assert (outside.sent, outside.cost) == (Counter(), Cost())


def test_the_cost_of_a_write_has_its_requests_and_that_of_a_folder_has_none():
    """By kind; what was not sent is absent, as in the records of tables in folders."""

    @with_requests_counted
    def write(**sent):
        meter = Meter()
        for kind, number in sent.items():
            count_request(kind, number)
        return meter.cost()

    cost = write(get=2, list=1)
    assert (cost.requests_get, cost.requests_list, cost.requests_put, cost.requests) == (2, 1, None, 3)
    assert (write().requests, [name for name in write().known if "requests" in name]) == (None, [])
    assert (cost + write(get=1)).requests == 4
