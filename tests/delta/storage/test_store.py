"""What every store keeps to, and what is refused where one cannot. The next store joins by one line in ``STORES``."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from threading import Barrier, Event
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.connectors.landing.editions import replacing
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import Table, as_folder, folder_at, store_at
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.maintenance.vacuum import remove_unneeded
from dedp_assets.patterns.delta.staging.stages import empty_stage, new_stage
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import claim_late_partitions
from tests.faults.processes import wait_until
from tests.helpers import EVENTS, a_run, rows_at, write_log

STORES = {
    "local": lambda request: LocalStore(str(request.getfixturevalue("tmp_path") / "lake" / "events")),
    "s3": lambda request: request.getfixturevalue("bucket_store"),
}
"""Name -> makes an empty store."""
SERVERS = {"s3"}
"""Stores that a server keeps, which is a process of its own."""

NOW = datetime(2026, 1, 20, tzinfo=timezone.utc)
HOLD = """
import pickle, sys
store = pickle.loads(bytes.fromhex(sys.argv[1]))
claim = store.claim(".stage.claim")
with store.lock(10):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] if name in SERVERS else []) for name in STORES])
def store(request):
    """An empty store of each kind."""
    return STORES[request.param](request)


@pytest.fixture
def holder(store):
    """Another process that holds the store's lock and a claim."""
    command = [sys.executable, "-c", HOLD, pickle.dumps(store).hex()]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"held"
        yield process
        process.kill()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"rows", os.urandom(1 << 20)], ids=["empty", "small", "large"])
@pytest.mark.parametrize("way", ["put", "put_if_absent"])
def test_what_was_put_is_read_back(store, way, content):
    """Whole and in parts, with its size, from this store and from another one of the same location."""
    getattr(store, way)("day=1/a", content)
    assert store.read("day=1/a") == store_at(store.uri).read("day=1/a") == content
    with store.open("day=1/a") as file:
        assert file.read(3) + file.read() == content
    assert (store.exists("day=1/a"), store.entry("day=1/a").size_bytes) == (True, len(content))


def test_a_put_replaces_and_tells_the_files_apart(store):
    """The new content shows, under another tag; the same bytes may have the same."""
    store.put("a", b"old")
    before = store.entry("a")
    assert store.entry("a") == before
    store.put("a", b"newer")
    assert store.entry("a").tag != before.tag
    assert (store.read("a"), store.entry("a").size_bytes, store.list()) == (b"newer", 5, ["a"])
    assert store.entry("a").modified_ns >= before.modified_ns


def test_a_file_that_is_there_stays(store):
    """The second writer is told so, and leaves nothing behind."""
    store.put_if_absent("_delta_log/0.json", b"first")
    with pytest.raises(FileExistsError):
        store.put_if_absent("_delta_log/0.json", b"second")
    assert (store.read("_delta_log/0.json"), store.list("_delta_log")) == (b"first", ["0.json"])


def test_of_writers_at_once_exactly_one_puts_a_file(store):
    """Each file has one winner, and its content is the winner's, whole."""
    # The test's server lets writers of one object wait for each other, a second at a time.
    writers, files = (16, 20) if isinstance(store, LocalStore) else (6, 5)
    at_once = Barrier(writers)

    def write(number):
        won = []
        for version in range(files):
            at_once.wait()
            try:
                store.put_if_absent(f"{version}", str(number).encode() * 1000)
                won.append(version)
            except FileExistsError:
                pass
        return won

    with ThreadPoolExecutor(writers) as pool:
        won = list(pool.map(write, range(writers)))
    assert sorted(version for each in won for version in each) == list(range(files))
    for number, versions in enumerate(won):
        assert {store.read(str(version)) for version in versions} <= {str(number).encode() * 1000}


def test_a_reader_of_a_file_that_is_replaced_sees_one_content_or_the_other(store):
    """Never a part of one, and never nothing."""
    contents = [letter * 100_000 for letter in (b"a", b"b")]
    store.put("a", contents[0])
    done, seen = Event(), set()

    def look():
        while not done.is_set():
            seen.add(store.read("a"))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for number in range(200):
            store.put("a", contents[number % 2])
        done.set()
        looking.result()
    assert seen <= set(contents)


@pytest.mark.parametrize("name", ["a b", "ü 😀", "a+b", "day=2026-01-05 %2F", ".hidden", "x" * 200])
def test_names_are_taken_as_they_are(store, name):
    """Nothing in them is decoded or taken for a pattern."""
    store.put(f"{name}/{name}", b"rows")
    assert (store.list(), store.list(name)) == ([name], [name])
    assert [entry.path for entry in store.files()] == [f"{name}/{name}"]
    assert store.read(f"{name}/{name}") == b"rows"


def test_what_is_not_there_is_said_to_be_missing(store):
    """By reading it; whoever lists or removes it finds nothing to do. A folder is no file."""
    store.put("folder/a", b"rows")
    for path in ("nothing", "nothing/at/all", "folder", "folder/b", "folder/a/b"):
        assert not store.exists(path)
    for path in ("nothing", "nothing/at/all", "folder/b", "folder"):
        with pytest.raises(FileNotFoundError):
            store.entry(path)
    for path in ("nothing", "nothing/at/all", "folder/b"):
        for look in (store.read, store.open):
            with pytest.raises(FileNotFoundError):
                look(path)
        store.delete(path)
        store.delete(path, tidy=True)
        store.delete_folder(path)
        assert (list(store.list(path)), list(store.files(path))) == ([], [])
    assert list(store.list("folder/a")) == list(store.files("folder/a")) == []
    assert store.read("folder/a") == b"rows"


def test_files_are_read_on_up_to_the_first_that_is_not_there(store):
    """Small and large, in the order that was asked for; of a folder that is not there, none."""
    large = os.urandom(1 << 20) * 2
    for path, content in {"a": b"rows", "day=1/b": large, "c": b"", "e": b"never"}.items():
        store.put(path, content)
    found = list(store.read_on(iter(["a", "day=1/b", "c", "d", "e"])))
    assert [content for content, _ in found] == [b"rows", large, b""]
    assert [tag for _, tag in found] == [store.entry(path).tag for path in ("a", "day=1/b", "c")]
    assert list(store.within("nothing").read_on(["a"])) == []


def test_lists_are_sorted_and_complete(store):
    """Names by code points, files by their path; folders only where names are asked for."""
    assert (list(store.list()), list(store.files())) == ([], [])
    paths = ["a-b", "a/b", "a/c/d", "a0", "B", "Z/a", "é"]
    for path in reversed(paths):
        store.put(path, path.encode())
    assert store.list() == ["B", "Z", "a", "a-b", "a0", "é"]
    assert store.list("a") == ["b", "c"]
    assert [entry.path for entry in store.files()] == ["B", "Z/a", "a-b", "a/b", "a/c/d", "a0", "é"]
    assert [entry.path for entry in store.files(deep=False)] == ["B", "a-b", "a0", "é"]
    assert [entry.path for entry in store.files("a")] == ["a/b", "a/c/d"]
    assert [entry.path for entry in store.files("a", deep=False)] == ["a/b"]
    assert [store.entry(entry.path) for entry in store.files()] == list(store.files())


def test_a_removed_file_takes_empty_folders_along_if_asked_to(store):
    """Those above it up to the location, unless something else is in them."""
    for path in ("a/b/c", "a/d", "e/f/g"):
        store.put(path, b"rows")
    store.delete("a/b/c", tidy=True)
    assert store.list("a") == ["d"]
    store.delete("e/f/g", tidy=True)
    assert store.list() == ["a"]
    store.delete("a/d", tidy=True)
    assert list(store.list()) == []
    store.put("a/d", b"again")
    assert store.read("a/d") == b"again"


def test_files_that_are_removed_together_are_gone_and_no_others(store):
    """Those that are not there are no hindrance, and nothing is asked of no files."""
    for path in ("a/b", "a/c", "d", "e"):
        store.put(path, b"rows")
    store.delete("a/b", "a/c", "nothing", "d", tidy=True)
    store.delete()
    assert (store.list(), [entry.path for entry in store.files()]) == (["e"], ["e"])


@pytest.mark.parametrize("number", [1, 3, 40])
def test_many_files_are_looked_at_together_as_each_is_alone(store, number):
    """By the paths that were asked for; what is missing, and a folder, is left out."""
    paths = [f"day={each % 3}/part {each}" for each in range(number)]
    for path in paths:
        store.put(path, path.encode())
    store.put("day=0/other", b"rows")
    found = store.entries([*paths, "nothing", "day=0", "day=0/part 0/below"])
    assert found == {path: store.entry(path) for path in paths}
    assert store.entries([]) == store.entries(["nothing"]) == {}


def test_files_elsewhere_are_looked_at_together_with_those_of_the_location(store):
    """As the log of a clone names both."""
    elsewhere = store.above().within("visits")
    elsewhere.put("a", b"rows")
    for number in range(20):
        store.put(f"{number}", b"rows")
    paths = [*map(str, range(20)), "../visits/a", "../visits/nothing"]
    found = store.entries(paths)
    assert (len(found), found["../visits/a"].size_bytes, [*found][-1]) == (21, 4, "../visits/a")


def test_a_folder_has_files_if_one_lies_anywhere_below(store):
    """Not for a file of that name, and no longer once the last one is gone."""
    store.put("a/b/c", b"rows")
    asked = ("a", "a/b", "", "a/b/c", "nothing", "nothing/at/all")
    assert [store.has_files(folder) for folder in asked] == [True, True, True, False, False, False]
    store.delete("a/b/c")
    assert not store.has_files("a")


def test_a_removed_folder_is_gone_and_can_be_written_again(store):
    """With everything below; its neighbour with a longer name stays."""
    for path in ("staged-1/_delta_log/0.json", "staged-1/a", "staged-10/a"):
        store.put(path, b"rows")
    store.delete_folder("staged-1")
    assert [entry.path for entry in store.files()] == ["staged-10/a"]
    store.within("staged-10").delete_folder("")
    assert list(store.list()) == []
    store.put_if_absent("staged-1/a", b"again")
    assert store.list() == ["staged-1"]


def test_a_store_within_another_names_the_same_files(store):
    """And back up; the location by its URI is the store itself."""
    stage = store.within("staged-1")
    stage.put("part/a", b"rows")
    assert store.read("staged-1/part/a") == stage.above().read("staged-1/part/a") == b"rows"
    assert (stage.name, stage.above().uri, stage.uri) == ("staged-1", store.uri, f"{store.uri}/staged-1")
    assert (store_at(stage.uri).uri, store_at(stage.uri).address) == (stage.uri, stage.address)
    assert store.address_of("staged-1/part/a") == stage.address_of("part/a") == f"{stage.address}/part/a"
    assert store.uri_of("staged-1/part/a") == stage.uri_of("part/a") == f"{stage.uri}/part/a"


@pytest.mark.parametrize("path", ["a b/part+1", "day=2026%2D01/c:1", "straße/ü.parquet"])
def test_the_uri_of_a_file_decodes_to_its_path(store, path):
    """Whatever characters it has, nothing of it means anything in the URI."""
    assert unquote(store.uri_of(path)) == f"{unquote(store.uri)}/{path}"
    assert not set(store.uri_of(path)) & set(" +ß")


def test_deltalake_opens_a_table_by_the_address_and_options_of_a_store(store):
    """At the newest version, or at one that is named."""
    for version in range(2):
        write_deltalake(
            store.address, pa.table({"id": [version]}), mode="overwrite", storage_options=dict(store.options) or None
        )
    assert (rows_at(store), rows_at(store, 0)) == ([{"id": 1}], [{"id": 0}])


def test_parquet_is_read_from_an_opened_file(store):
    """A footer alone, and columns."""
    written = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), written)
    store.put("part-0.parquet", written.getvalue().to_pybytes())
    with store.open("part-0.parquet") as file:
        assert pq.ParquetFile(file).metadata.num_rows == 2
    with store.open("part-0.parquet") as file:
        assert pq.ParquetFile(file).read(columns=["name"])["name"].to_pylist() == ["a", "b"]


# --- locks and claims -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_lock_and_a_claim_hold_between_processes_and_die_with_theirs(store, holder):
    """Nobody has to clean up after a killed process, and neighbours are free all the while."""
    with pytest.raises(TimeoutError), store.lock(0.2):
        pytest.fail("two holders at once")
    assert store.is_claimed(".stage.claim")
    with pytest.raises(TimeoutError):
        store.claim(".stage.claim")
    with store.above().within("visits").lock(0.2):
        assert holder.poll() is None
    holder.kill()
    holder.wait()
    with store.lock(10):
        assert wait_until(lambda: not store.is_claimed(".stage.claim"), seconds=10)


def test_a_lock_is_one_threads_and_leaves_nothing_in_the_location(store):
    """Also against another store of the same location; an error in the block releases it."""
    other = store_at(store.uri)

    def taken():
        try:
            with other.lock(0.1):
                return True
        except TimeoutError:
            return False

    def fail():
        with store.lock(1):
            seen.append((pool.submit(taken).result(), list(store.list())))
            raise ValueError("broken")

    seen = []
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="broken"):
            fail()
        assert seen == [(False, [])]
        assert pool.submit(taken).result()
    assert not store.exists("")
    assert store.name not in store.above().list()


def test_a_claim_lasts_until_it_is_released_or_forgotten(store):
    """In every thread; looking at a claim neither takes nor makes one."""
    path = "events/.stage.claim"
    assert not store.is_claimed(path)
    assert not store.exists(path)
    held = store.claim(path)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(store.is_claimed, path).result()
        pool.submit(held.release).result()
    assert not store.is_claimed(path)
    forgotten = store.claim(path)
    assert store.is_claimed(path)
    del forgotten
    gc.collect()
    assert not store.is_claimed(path)


# --- a folder of this machine -----------------------------------------------------------------------------------------


def test_a_file_that_is_put_again_with_the_same_bytes_is_another_file(tmp_path):
    """A table that was removed and made again begins with another file, whatever is in it."""
    store = LocalStore(str(tmp_path / "t"))
    store.put("a", b"old")
    before = store.entry("a")
    store.put("a", b"old")
    assert store.entry("a").tag != before.tag


@pytest.mark.slow
@pytest.mark.parametrize(("way", "call"), [("put", "replace"), ("put_if_absent", "link")])
def test_a_process_that_dies_while_it_puts_a_file_leaves_a_hidden_draft(tmp_path, way, call):
    """The former content shows, or nothing, and the next writer is not in the way of the draft."""
    script = f"import os, sys; from {LocalStore.__module__} import LocalStore; os.{call} = lambda *_: os._exit(9)"
    store, path = LocalStore(str(tmp_path / "t")), "a" if way == "put" else "b"
    store.put("a", b"old")
    command = [sys.executable, "-c", f"{script}; LocalStore(sys.argv[1]).{way}({path!r}, b'new')", store.root]
    assert subprocess.run(command, cwd=CHECKOUT, check=False).returncode == 9
    draft, *rest = store.list()
    assert (draft.startswith("."), draft.endswith(".tmp"), rest) == (True, True, ["a"])
    assert store.read("a") == b"old"
    getattr(store, way)(path, b"new")
    assert store.read(path) == b"new"


def test_a_put_that_fails_leaves_no_draft(tmp_path, monkeypatch):
    """A full disk, or a refused rename: the former content stays."""
    store = LocalStore(str(tmp_path / "t"))
    store.put("a", b"old")

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(os, "link", refuse)
    for put in (store.put, store.put_if_absent):
        with pytest.raises(OSError, match="disk full"):
            put("a", b"new")
    assert (store.list(), store.read("a")) == (["a"], b"old")


@pytest.mark.parametrize("way", ["put", "put_if_absent"])
def test_a_file_in_the_place_of_a_folder_is_told_from_a_file_that_exists(tmp_path, way):
    """Whoever tries one name after the other until a file is new would try for ever."""
    (tmp_path / "names").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="names"):
        getattr(LocalStore(str(tmp_path)), way)("names/1.json", b"{}")


def test_files_elsewhere_are_named_by_an_absolute_path(tmp_path):
    """As the log of a clone names them."""
    (tmp_path / "elsewhere").write_bytes(b"rows")
    store = LocalStore(str(tmp_path / "t"))
    store.put("a", b"rows")
    assert store.read(f"{tmp_path}/elsewhere") == store.read("../elsewhere") == b"rows"
    assert store.address_of("../elsewhere") == f"{tmp_path}/elsewhere"


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, name):
    """In bytes, and before anything is made."""
    with pytest.raises(ConfigError, match="a folder's name must have at most 255 bytes"):
        store_at(tmp_path / name / "t")
    with pytest.raises(ConfigError, match="a folder's name must have at most 255 bytes"):
        store_at(tmp_path).within(name)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_may_not_be_listed_is_no_empty_one(tmp_path, monkeypatch):
    """Whoever took it for one would remove what it holds from a copy."""
    store, real = LocalStore(str(tmp_path)), os.scandir
    store.put("open/a", b"rows")
    store.put("closed/b", b"rows")

    def scan(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
    for look in (store.files, store.tree):
        with pytest.raises(PermissionError, match="closed"):
            look()


# --- what a store cannot do -------------------------------------------------------------------------------------------


class Lacking(LocalStore):
    """A store that cannot do what it does not say."""

    def lock(self, timeout_seconds):
        """Fail if nobody asked whether there is a lock."""
        assert "lock" in self.can
        return super().lock(timeout_seconds)

    def claim(self, path):
        """Fail if nobody asked whether there is a lock."""
        assert "lock" in self.can
        return super().claim(path)

    def is_claimed(self, path):
        """Fail if nobody asked whether there is a lock."""
        assert "lock" in self.can
        return super().is_claimed(path)

    def put_if_absent(self, path, content):
        """Fail if nobody asked whether it is conditional."""
        assert "put_if_absent" in self.can
        super().put_if_absent(path, content)


WRITES = {
    "a table": lambda table: table.ensure(),
    "an emptied partition": lambda table: table.clear(
        partition={"event_date": "2026-01-05"}, provenance=a_run(sequence=1)
    ),
    "a cursor": lambda table: table.mark(provenance=a_run(sequence=1)),
    "a stage": lambda table: new_stage(table.store),
    "an empty stage": lambda table: empty_stage(table.store),
    "a lease": lambda table: claim_late_partitions(
        {}, table, current="2026-01-05", owner="a", now=NOW, lease_seconds=9
    ),
}
UNDER_A_LOCK = {
    "an earlier version": lambda table: table.restore(0, provenance=a_run()),
    "a vacuum": lambda table: remove_unneeded(table, cutoff=NOW, provenance=a_run()),
}


def a_table(folder, *, can):
    """A table with a stray file, in a store with these abilities; nobody may ask for Spark."""
    write_log(folder, {"id": "long", "event_date": "date"}, ["event_date"], [])
    (folder / "stray.parquet").write_bytes(b"rows")
    os.utime(folder / "stray.parquet", (0, 0))
    return Table(EVENTS, Lacking(str(folder), can=frozenset(can)), lambda: pytest.fail("Spark was asked for"))


@pytest.mark.promise("a-table-is-not-written")
@pytest.mark.parametrize(
    ("write", "can"),
    [
        *[(write, ["lock"]) for write in (WRITES | UNDER_A_LOCK).values()],
        *[(write, ["put_if_absent"]) for write in UNDER_A_LOCK.values()],
    ],
    ids=[*WRITES, *UNDER_A_LOCK, *(f"{name} without a lock" for name in UNDER_A_LOCK)],
)
def test_a_table_is_not_written_where_a_commit_could_be_written_over(tmp_path, write, can):
    """Refused in one sentence before anything is written, and still read."""
    table = a_table(tmp_path / "events", can=can)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=r"events cannot .*: nothing was written") as refused:
        write(table)
    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert table.ledger.version() == 0


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_table_is_written_without_a_lock_where_commits_are_put_if_absent(tmp_path, write):
    """Spark's own commits and removals of files ask for more; `Lacking` fails the test if a lock is taken."""
    store = Lacking(str(tmp_path / "events"), can=frozenset({"put_if_absent"}))
    table = Table(EVENTS, store, lambda: pytest.fail("Spark was asked for"))
    table.ensure()
    write(table)
    assert table.ledger.exists()


def test_a_commit_is_not_written_where_it_could_be_written_over(tmp_path):
    """Whoever holds some lock of their own is told, too."""
    store = Lacking(str(tmp_path / "t"), can=frozenset({"lock"}))
    with pytest.raises(ConfigError, match="cannot create a file only if it is not there"):
        commits.write(store, 0, [{"commitInfo": {}}])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["s3://lake/files", Path("s3://lake/files")], ids=["address", "path"])
def test_files_of_a_folder_alone_are_not_looked_for_in_a_bucket(address):
    """A replica, a publication and an edition exchange folders; nothing is written below the working directory."""
    with pytest.raises(ConfigError, match="is in a bucket, and only a folder of this machine is taken: name one"):
        folder_at(address)
    if isinstance(address, str):
        with pytest.raises(ConfigError, match="cannot exchange a folder as a whole: nothing was written, name another"):
            as_folder(store_at(address))


def test_a_folder_is_not_replaced_where_it_cannot_be_exchanged(tmp_path):
    """A copy that would show half done is not begun."""
    store = Lacking(str(tmp_path / "t"), can=frozenset({"lock", "put_if_absent"}))
    with pytest.raises(ConfigError, match="cannot exchange a folder as a whole"), replacing(store):
        pytest.fail("it was begun")
    assert list(tmp_path.iterdir()) == []
