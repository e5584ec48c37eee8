"""What a store in a bucket keeps to beyond what every store does: lost answers, leases, errors without secrets."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow.fs import S3FileSystem

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment
from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.delta import Table, store_at, table_lock
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.storage.s3_store import S3Store
from tests.faults.clocks import clock_of
from tests.faults.processes import wait_until
from tests.object_faults import next_puts, proxied
from tests.object_store import forget_clients

COUNT = """
import os, pickle, signal, sys
store, turns, dies = pickle.loads(bytes.fromhex(sys.argv[1])), int(sys.argv[2]), sys.argv[3] == "dies"
for turn in range(turns):
    with store.lock(120):
        store.put("counter", str(int(store.read("counter")) + 1).encode())
        if dies and turn == turns - 1:
            os.kill(os.getpid(), signal.SIGKILL)
"""
SLEEP = """
import pickle, sys
store = pickle.loads(bytes.fromhex(sys.argv[1]))
try:
    with store.lock(10) as held:
        print("held", flush=True)
        sys.stdin.readline()
        try:
            held.confirm()
        except TimeoutError as lost:
            print(lost, flush=True)
except TimeoutError as lost:
    print("lost", flush=True)
"""


def started(script, store, *words, minutes=0):
    """A process that runs a script with a store, whose clock is so many minutes fast."""
    command = [sys.executable, "-c", script, pickle.dumps(store).hex(), *words]
    environment = child_environment(clock_of(minutes))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, cwd=CHECKOUT, env=environment, text=True, **pipes)


# --- answers that get lost --------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(object_store, bucket_store, monkeypatch):
    """A proxy that loses answers."""
    with proxied(object_store, monkeypatch) as running:
        yield running


@pytest.mark.parametrize("fate", ["cut", "503"])
def test_a_put_whose_answer_was_lost_has_won(bucket_store, proxy, fate):
    """It took effect, so the next attempt finds its own file; whoever comes later finds it, too."""
    proxy.fate = next_puts(fate)
    bucket_store.put_if_absent("a", b"mine")
    assert proxy.spoilt == {fate: 1}
    with pytest.raises(FileExistsError):
        bucket_store.put_if_absent("a", b"mine")
    assert bucket_store.read("a") == b"mine"


def test_a_put_that_lost_the_race_is_told_so_after_a_lost_answer(bucket_store, proxy):
    """The file that is there has another content, so it is somebody else's."""
    bucket_store.put("a", b"theirs")
    proxy.fate = next_puts("cut")
    with pytest.raises(FileExistsError):
        bucket_store.put_if_absent("a", b"mine")
    assert bucket_store.read("a") == b"theirs"


def test_a_commit_whose_answer_was_lost_is_in_the_log_once(bucket_store, proxy):
    """No conflict is reported to its writer."""
    from dedp_assets.patterns.delta.commit import commits

    proxy.fate = next_puts("cut")
    commits.write(bucket_store, 0, [{"commitInfo": {"operation": "WRITE"}}])
    with pytest.raises(Conflict):
        commits.write(bucket_store, 0, [{"commitInfo": {"operation": "OTHER"}}])
    assert [a["commitInfo"]["operation"] for a in commits.read_actions(bucket_store, 0)] == ["WRITE"]


def test_a_lock_outlives_lost_answers(bucket_store, proxy):
    """To its taking and to renewals; at the end its object is gone."""
    proxy.fate = next_puts("cut", "cut")
    name = f".{bucket_store.name}.lock"
    with bucket_store.lock(10) as held:
        first = bucket_store.above().entry(name).tag
        assert wait_until(lambda: bucket_store.above().entry(name).tag != first, seconds=30, every=0.05)
        held.confirm()
        assert proxy.spoilt == {"cut": 2}
    assert not bucket_store.above().exists(name)


def test_a_lock_is_given_up_after_the_answer_to_its_last_renewal_was_lost(bucket_store, proxy):
    """Its holder knows an e-tag that no longer fits, and finds its own content."""
    name = f".{bucket_store.name}.lock"
    with bucket_store.lock(10):
        first = bucket_store.above().entry(name).tag
        proxy.fate = next_puts("cut")
        assert wait_until(lambda: bucket_store.above().entry(name).tag != first, seconds=30, every=0.02)
    assert not bucket_store.above().exists(name)


@pytest.mark.parametrize("condition", [("PUT", "If-None-Match"), ("PUT", "If-Match"), ("DELETE", "If-Match")])
def test_a_server_that_ignores_conditions_is_refused_before_anything_is_written(bucket_store, proxy, condition):
    """Of two writers of a version both would succeed there. The lock's object is gone again."""
    proxy.ignores = {condition}
    with (
        pytest.raises(ConfigError, match=f"must refuse a {condition[0]} with {condition[1]} whose"),
        bucket_store.lock(1),
    ):
        pytest.fail("a lock that others would hold, too")
    assert not bucket_store.above().exists(f".{bucket_store.name}.lock")


def test_a_server_is_asked_once_whether_it_keeps_to_conditions(bucket_store, proxy):
    """By three requests, before the first lock of a process in the bucket."""
    with proxy.counting() as first, bucket_store.lock(1):
        pass
    with proxy.counting() as second, bucket_store.lock(1):
        pass
    assert (first.total(), second) == (5, {"put": 1, "delete": 1})


# --- leases -----------------------------------------------------------------------------------------------------------


FORK = """
import os, pickle, sys
store = pickle.loads(bytes.fromhex(sys.argv[1]))
store.put("a", b"rows")
if os.fork() == 0:
    try:
        store.read("a")
    except ValueError as refused:
        print(refused, flush=True)
    os._exit(0)
os.wait()
print(store.read("a").decode(), flush=True)
"""


@pytest.mark.slow
def test_a_fork_of_a_process_that_used_a_bucket_is_refused(bucket_store):
    """It would wait for ever for threads that were not forked along; the process itself goes on."""
    with started(FORK, bucket_store) as process:
        said, read = process.stdout.read().splitlines()
    assert "cannot be used in a fork of a process that used a bucket: start the process anew" in said
    assert (read, process.wait()) == ("rows", 0)


@pytest.mark.slow
def test_a_counter_under_the_lock_loses_no_step_of_any_process(bucket_store):
    """Four processes with clocks up to ten minutes apart, one of which is killed while it holds the lock."""
    bucket_store.put("counter", b"0")
    clocks = {-5: "", 0: "", 2: "", 5: "dies"}
    running = [started(COUNT, bucket_store, "4", how, minutes=minutes) for minutes, how in clocks.items()]
    ended = [process.wait(timeout=240) for process in running]
    for process in running:
        process.stdin.close()
        process.stdout.close()
    assert sorted(ended) == [-signal.SIGKILL, 0, 0, 0]
    assert bucket_store.read("counter") == b"16"


@pytest.mark.slow
def test_a_holder_that_slept_past_its_time_has_lost_the_lock_and_takes_nobody_elses_away(bucket_store):
    """Its next step under the lock is refused, and so is its release: the lock of the next holder stands."""
    with started(SLEEP, bucket_store) as sleeper:
        assert sleeper.stdout.readline() == "held\n"
        sleeper.send_signal(signal.SIGSTOP)
        with bucket_store.lock(60) as held:
            sleeper.send_signal(signal.SIGCONT)
            sleeper.stdin.write("\n")
            sleeper.stdin.flush()
            assert "is no longer this process's" in sleeper.stdout.readline()
            assert sleeper.stdout.readline() == "lost\n"
            held.confirm()
            with pytest.raises(TimeoutError), bucket_store.lock(0.2):
                pytest.fail("two holders at once")


def test_a_lock_of_another_store_object_is_waited_for(bucket_store):
    """As long as it is renewed, however long its holder takes; then it is free at once."""
    with pytest.raises(Conflict, match="is being written by another process"), bucket_store.lock(1):  # noqa: SIM117
        with table_lock(store_at(bucket_store.uri), timeout_seconds=0.2):
            pytest.fail("two holders at once")
    with table_lock(bucket_store, timeout_seconds=0.2):
        pass


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_a_lease_shorter_than_a_second_is_refused(seconds):
    """The store's clock could not tell."""
    with pytest.raises(ConfigError, match="lease_seconds must be at least 1, not"):
        S3Store("lake", "t", lease_seconds=seconds)


# --- files ------------------------------------------------------------------------------------------------------------


def test_marks_of_folders_are_neither_files_nor_names(object_store, bucket_store):
    """Hadoop leaves an empty object for a folder; a removed file leaves nothing behind that is listed."""
    key, secret = object_store.secrets
    system = S3FileSystem(
        access_key=key, secret_key=secret, endpoint_override=f"127.0.0.1:{object_store.port}", scheme="http",
        region="us-east-1",
    )  # fmt: skip
    for folder in ("", "/staged-1", "/a/b"):
        system.create_dir(f"{bucket_store.bucket}/{bucket_store.root}{folder}")
    bucket_store.put("a/empty", b"")
    assert [entry.path for entry in bucket_store.files()] == ["a/empty"]
    assert (bucket_store.list(), bucket_store.list("a"), bucket_store.list("staged-1")) == (["a"], ["empty"], [])
    assert not bucket_store.exists("staged-1")
    bucket_store.delete_folder("")
    assert (list(bucket_store.files()), bucket_store.list()) == ([], [])


def test_a_long_log_is_read_on_in_order_to_its_end(bucket_store):
    """More files than are asked for at once."""
    for number in range(70):
        bucket_store.put(f"{number:03d}", str(number).encode())
    found = [content for content, _ in bucket_store.read_on(f"{n:03d}" for n in range(1000))]
    assert found == [str(n).encode() for n in range(70)]


def test_a_file_elsewhere_in_the_bucket_is_named_from_the_bucket_on(bucket_store):
    """Or by its address; as the log of a clone names it."""
    bucket_store.above().within("visits").put("a", b"rows")
    elsewhere = f"{bucket_store.above().root}/visits/a"
    for path in (
        f"/{elsewhere}",
        f"s3a://{bucket_store.bucket}/{elsewhere}",
        f"s3://{bucket_store.bucket}/{elsewhere}",
    ):
        assert bucket_store.read(path) == b"rows"
        assert bucket_store.address_of(path) == f"s3a://{bucket_store.bucket}/{elsewhere}"
    assert bucket_store.address_of("../visits/a") == f"s3a://{bucket_store.bucket}/{elsewhere}"


@pytest.mark.slow
def test_a_table_is_opened_and_its_log_read_without_spark(bucket_store):
    """By the address that people write; states, commits and lost files need no session."""
    for number in range(3):
        write_deltalake(
            bucket_store.address, pa.table({"id": [number]}), mode="append", storage_options=dict(bucket_store.options)
        )
    address = f"s3://{bucket_store.bucket}/{bucket_store.root}"
    table = Table.at(address, lambda: pytest.fail("Spark was asked for"))
    assert (table.name, [*table.spec.columns]) == ("lake/events", ["id"])
    assert (table.ledger.version(), len(table.ledger.state().files())) == (2, 3)
    assert [commit.version for commit in Ledger(address).commits(since=0)] == [1, 2]


# --- addresses, errors, secrets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["s3://lake/silver/events", "s3a://lake/silver/events/", "S3://lake/silver/events"])
def test_an_address_in_a_bucket_is_one_location_in_any_spelling(address):
    """The one that Spark and deltalake take alike."""
    store = store_at(address)
    assert (store.address, store.uri, store.name) == (*["s3a://lake/silver/events"] * 2, "events")
    assert store_at(store.address) == store_at(store.uri) == store


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://lake", "is a whole bucket: name a prefix in it"),
        ("s3://lake/", "is a whole bucket: name a prefix in it"),
        ("s3:/lake/t", "must be s3://bucket/prefix"),
        ("s3://ada:s3cret-word@lake/t", "must be s3://bucket/prefix"),
        ("s3://lake:9000/t", "must be s3://bucket/prefix"),
        ("s3://lake/t?versionId=1", "must be s3://bucket/prefix"),
        ("s3://Lake/t", "must be s3://bucket/prefix"),
        ("s3://lake/a//t", "must have a name between any two slashes, not ''"),
        ("s3://lake/a/../t", "must have a name between any two slashes, not '..'"),
        ("s3://lake/a*", "which engines read as something else"),
        ("s3://lake/100%25", "which engines read as something else"),
        ("gs://lake/t", "name a path, a file:///path or an s3://bucket/prefix"),
    ],
)
def test_an_address_that_engines_would_read_in_another_way_is_refused(address, said):
    """In one sentence, and without what may be a secret in it."""
    with pytest.raises(ConfigError) as refused:
        store_at(address)
    assert said in str(refused.value)
    assert "s3cret-word" not in str(refused.value)


def test_a_folder_of_plain_files_is_not_looked_for_in_a_bucket():
    """What asks for one is refused by what the store cannot do."""
    with pytest.raises(ConfigError, match=r"s3a://lake/t cannot exchange a folder as a whole"):
        _ = Table.location.fget(Ledger("s3://lake/t"))


def test_neither_representation_nor_pickle_nor_options_have_a_secret(object_store, bucket_store):
    """Keys are the environment's, and a store in another process takes those of that process."""
    held = [
        repr(bucket_store),
        str(vars(bucket_store)),
        repr(pickle.dumps(bucket_store)),
        json.dumps(dict(bucket_store.options)),
    ]
    assert not [text for text in held for secret in object_store.secrets if secret in text]
    assert pickle.loads(pickle.dumps(bucket_store)) == bucket_store  # noqa: S301 - made here


@pytest.mark.parametrize("ask", ["read", "put", "list", "lock", "is_claimed"])
def test_a_refused_key_is_an_error_that_names_the_object_and_not_the_key(bucket_store, monkeypatch, ask):
    """One line says bucket, object and what to look at, and no cause behind it says more."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "an0ther-secret")
    forget_clients()
    calls = {
        "read": lambda: bucket_store.read("a"),
        "put": lambda: bucket_store.put("a", b"rows"),
        "list": bucket_store.list,
        "lock": lambda: bucket_store.lock(1).__enter__(),
        "is_claimed": lambda: bucket_store.is_claimed("a"),
    }
    with pytest.raises(OSError) as refused:  # noqa: PT011 - its text is looked at
        calls[ask]()
    text = str(refused.value)
    assert bucket_store.bucket in text
    assert bucket_store.name in text
    assert ("right" in text, "an0ther-secret" in text, "Signature=" in text, "\n" in text) == (
        True,
        False,
        False,
        False,
    )
    assert refused.value.__suppress_context__ or refused.value.__cause__.__suppress_context__


def test_a_server_that_does_not_answer_is_an_error_that_may_pass(bucket_store, monkeypatch):
    """It names the object and the endpoint's variable; a lock that cannot be taken for it is no fault of the call."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget_clients()
    for ask in (lambda: bucket_store.read("a"), lambda: bucket_store.is_claimed("a")):
        with pytest.raises(
            ConnectionError, match=r"lake/events/a was not served .*: look at the server, its bucket lake"
        ):
            ask()
    with pytest.raises(ConnectionError, match=r"AWS_ENDPOINT_URL"), table_lock(bucket_store, timeout_seconds=0.1):
        pytest.fail("it was taken")
