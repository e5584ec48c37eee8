"""Copies byte for byte: what arrives, what is left alone, and what becomes of a copy that fails."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.connectors.landing.editions import MANIFEST, current
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict
from dedp_assets.patterns.delta import Ledger, folder_at
from dedp_assets.patterns.ingestion import _replica_files as replicas
from dedp_assets.patterns.ingestion._replica_contents import folder_contents, table_contents
from dedp_assets.patterns.ingestion._replica_files import CopyRate, copy_replica, verify
from dedp_assets.patterns.ingestion._replica_manifest import manifest_of
from tests.helpers import a_run

NAME = "landing/devices"


@pytest.fixture
def source(tmp_path):
    """A folder with nested files, each with a time and a mode of its own."""
    folder = tmp_path / "landing" / "devices"
    for number, path in enumerate(["date=1/a.json", "date=1/b.json", "date=2/c.json", "_SUCCESS"]):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{path}\n" * 3)
        file.chmod(0o600 + number)
        os.utime(file, ns=(1_700_000_000_123_456_789 + number, 1_700_000_000_123_456_789 + number))
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def target(tmp_path):
    """Where the replica goes."""
    return tmp_path / "staging" / "devices"


@pytest.fixture
def table(tmp_path):
    """A table with two commits."""
    location = tmp_path / "bronze" / "devices"
    put(location, 1)
    put(location, 2)
    return location


def put(location, number, **options):
    write_deltalake(str(location), pa.table({"id": [number]}), **{"mode": "append", **options})


def copy(source, target, **options):
    run = a_run("staging/devices", run_id=options.pop("run_id", "run-1"))
    return copy_replica(
        folder_contents(folder_at(source), name=NAME),
        folder_at(target),
        name="staging/devices",
        provenance=run,
        **options,
    )


def copy_table(location, target, version=None):
    ledger = Ledger(location, name="bronze/devices")
    contents = table_contents(ledger, ledger.version() if version is None else version)
    return copy_replica(contents, folder_at(target), name="staging/devices", provenance=a_run("staging/devices"))


def seen(folder):
    """Every file: path -> bytes, modification time in ns, mode."""
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {path: (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_mode) for path, p in files.items()}


def inodes(folder):
    return {p.relative_to(folder).as_posix(): p.stat().st_ino for p in folder.rglob("*") if p.is_file()}


def test_names_layout_times_modes_and_bytes_arrive(source, target):
    """And the manifest says what was copied, by whom."""
    result = copy(source, target)
    assert seen(target) == seen(source)
    assert (target / "empty").is_dir()
    assert verify(folder_contents(folder_at(source), name=NAME), folder_at(target)).passed
    assert (result.applied, result.version, result.figures["copied_files"]) == (True, 0, 4)
    record = manifest_of(folder_at(target)).record
    assert (record.run_id, record.verdict, record.sequence) == ("run-1", "passed", 0)
    assert record.inputs == {NAME: record.fingerprint.split()[-1]}
    assert [f["name"] for f in record.findings] == ["copy_is_byte_for_byte"]


def test_an_unchanged_source_copies_nothing(source, target):
    """The replica stays as it is, down to the inode, and says whose copy it is."""
    first = copy(source, target)
    shown, before = current(folder_at(target)), inodes(target)
    again = copy(source, target, run_id="run-2")
    assert (again.applied, again.changed, again.figures) == (False, False, first.figures)
    assert again.reason == f"{NAME} did not change since run run-1 copied it: nothing to do"
    assert (current(folder_at(target)), inodes(target)) == (shown, before)


def test_only_what_changed_is_copied_and_deletions_follow(source, target):
    """New and changed files arrive, others are shared with the former edition, deleted ones go."""
    copy(source, target)
    before = inodes(target)
    (source / "date=1/a.json").write_text("changed")
    (source / "date=2/c.json").unlink()
    (source / "date=2").rmdir()
    (source / "date=3").mkdir()
    (source / "date=3/d.json").write_text("new")
    (source / "empty").rmdir()
    result = copy(source, target)
    assert seen(target) == seen(source)
    assert sorted(p.name for p in target.iterdir()) == ["_SUCCESS", "date=1", "date=3"]
    after = inodes(target)
    assert {path for path in after if after[path] == before.get(path)} == {"_SUCCESS", "date=1/b.json"}
    figures = {"copied_files": 2, "removed_files": 1, "files": 4}
    assert {name: result.figures[name] for name in figures} == figures
    assert (result.version, result.reason) == (1, "2 of 4 files copied, 1 removed")


def test_a_change_that_hides_behind_size_and_time_is_noticed(source, target):
    """Other bytes of the same length, and the modification time set back."""
    copy(source, target)
    file = source / "date=1/a.json"
    stat = file.stat()
    file.write_bytes(file.read_bytes()[::-1])
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert copy(source, target).figures["copied_files"] == 1
    assert seen(target) == seen(source)


def test_a_replica_somebody_wrote_to_is_made_whole(source, target):
    """A deleted, a changed and an added file: the next copy is the source again."""
    copy(source, target)
    for spoil in (
        (target / "_SUCCESS").unlink,
        lambda: (target / "date=1/a.json").write_text("mine"),
        lambda: (target / "date=1/mine.json").write_text("mine"),
        (target / "mine").mkdir,
        lambda: current(folder_at(target)).home.put(MANIFEST, b"{"),
        lambda: current(folder_at(target)).home.delete(MANIFEST),
    ):
        spoil()
        assert copy(source, target).applied
        assert seen(target) == seen(source)
        assert not (target / "mine").exists()
        assert not copy(source, target).applied


class Interposed:
    """Something happens when the copy comes to its second file."""

    def __init__(self, monkeypatch, action):
        real, met = shutil.copystat, []

        def copystat(source, destination):
            real(source, destination)
            met.append(source)
            if len(met) == 2:
                action(source, destination)

        monkeypatch.setattr(shutil, "copystat", copystat)


def fail(failure):
    def act(*_):
        raise failure

    return act


def test_a_copy_that_fails_leaves_the_former_replica(source, target, monkeypatch):
    """Nothing half shows or stays, and the next copy completes."""
    copy(source, target)
    before, beside = seen(target), sorted(target.parent.iterdir())
    for path in ("date=1/a.json", "date=1/b.json", "date=2/c.json"):
        (source / path).write_text("changed")
    for failure in (OSError("disk full"), SystemExit("stopped")):
        with monkeypatch.context() as patched:
            Interposed(patched, fail(failure))
            with pytest.raises(type(failure), match=str(failure)):
                copy(source, target)
        assert (seen(target), sorted(target.parent.iterdir())) == (before, beside)
    assert copy(source, target).figures["copied_files"] == 3
    assert seen(target) == seen(source)


KILLED = """
import sys
from dedp_assets.patterns.ingestion._replica_contents import folder_contents
from dedp_assets.patterns.delta import folder_at
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.ingestion._replica_files import CopyRate, copy_replica
contents = folder_contents(folder_at(sys.argv[1]), name="landing/devices")
run = Provenance(asset="staging/devices", run_id="killed")
print("copying", flush=True)
copy_replica(contents, folder_at(sys.argv[2]), name="staging/devices", provenance=run, limit=CopyRate(100_000))
"""


def test_a_copy_that_is_killed_leaves_the_former_replica(source, target):
    """A real process, killed while it copies: the former replica shows, the next copy completes and sweeps up."""
    copy(source, target)
    before = seen(target)
    (source / "big").write_bytes(os.urandom(4 << 20))
    command = [sys.executable, "-c", KILLED, str(source), str(target)]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"copying\n"
    while not list(target.parent.glob(".devices.edition-*/files/big")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert seen(target) == before
    assert len(list(target.parent.glob(".devices.edition-*"))) == 2
    assert copy(source, target).applied
    assert seen(target) == seen(source)
    assert len(list(target.parent.glob(".devices.edition-*/files/big"))) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda file, _: file.write_text("written while it was read"),
        lambda file, _: file.unlink(),
        lambda file, _: (file.parent / "new.json").write_text("came meanwhile"),
        lambda file, _: next(p for p in file.parents[1].rglob("*.json") if p != file).unlink(),
    ],
    ids=["changed", "removed", "added", "another one removed"],
)
def test_a_folder_that_changes_while_it_is_copied_is_no_source(source, target, monkeypatch, change):
    """The copy would be a state that never was: it is refused, and worth another attempt."""
    copy(source, target)
    before = seen(target)
    for path in ("date=1/a.json", "date=1/b.json"):
        (source / path).write_text("changed")
    with monkeypatch.context() as patched:
        Interposed(patched, change)
        with pytest.raises(Conflict, match="run it again") as noticed:
            copy(source, target)
    assert noticed.value.retryable
    assert seen(target) == before
    copy(source, target)
    assert seen(target) == seen(source)


def test_bytes_that_arrive_otherwise_are_never_swapped_in(source, target, monkeypatch):
    """A byte that flips on the way is found before anybody sees it."""
    copy(source, target)
    before = seen(target)
    for path in ("date=1/a.json", "date=1/b.json"):
        (source / path).write_text("changed")

    def flip(_, arrived):
        arrived.write_bytes(b"X" + arrived.read_bytes()[1:])

    Interposed(monkeypatch, flip)
    with pytest.raises(AuditFailed, match="is not what was read") as refused:
        copy(source, target)
    assert [(f.name, f.passed) for f in refused.value.findings] == [("copy_is_byte_for_byte", False)]
    assert seen(target) == before


def test_a_replica_belongs_to_one_source(source, target, tmp_path):
    """Another one, or the folder itself, is refused."""
    copy(source, target)
    other = folder_contents(folder_at(source), name="landing/visits")
    with pytest.raises(ConfigError, match="is a replica of landing/devices, not of landing/visits"):
        copy_replica(other, folder_at(target), name="staging/devices", provenance=a_run())
    for inside in (source, source / "date=1", source / "new" / "replica", source.parent):
        with pytest.raises(ConfigError, match="lie in one another"):
            copy(source, inside)
    with pytest.raises(ConfigError, match="holds data of its own"):
        copy(target, source)


def test_the_rate_is_kept(source, target, monkeypatch):
    """A copy waits until its bytes are due, and by default never."""
    now, waited = [0.0], []

    def sleep(seconds):
        waited.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(replicas, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    (source / "big").write_bytes(bytes(3 << 20))
    result = copy(source, target, limit=CopyRate(1000))
    assert sum(waited) == pytest.approx(result.figures["copied_bytes"] / 1000)
    assert len(waited) > len(seen(source))
    (source / "big").write_bytes(bytes(1 << 20))
    copy(source, target)
    assert sum(waited) == pytest.approx(result.figures["copied_bytes"] / 1000)
    with pytest.raises(ConfigError, match="bytes_per_second=0"):
        copy(source, target, limit=CopyRate(0))


def test_commits_that_come_while_a_table_is_copied_are_left_for_the_next_copy(table, target, monkeypatch):
    """The version is pinned, so a busy table can be copied."""
    Interposed(monkeypatch, lambda *_: put(table, 3))
    assert copy_table(table, target).version == 1
    assert DeltaTable(str(target)).version() == 1
    assert sorted(DeltaTable(str(target)).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    assert copy_table(table, target).figures["copied_files"] == 2
    assert sorted(DeltaTable(str(target)).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]


def test_files_that_are_cleaned_up_while_a_table_is_copied_are_noticed(table, target, monkeypatch):
    """A vacuum in mid-copy is a conflict, and the next attempt copies what is left."""
    put(table, 3, mode="overwrite")
    gone = DeltaTable(str(table), version=1).file_uris()

    def vacuum(*_):
        for path in gone:
            os.truncate(path, 0)

    with monkeypatch.context() as patched:
        Interposed(patched, vacuum)
        with pytest.raises(Conflict, match="run it again"):
            copy_table(table, target)
    assert not target.exists()


def test_a_stale_run_does_not_take_a_replica_back(table, target):
    """Unless the table was begun again, which its identity tells."""
    copy_table(table, target)
    with pytest.raises(Conflict, match="shows version 1 of bronze/devices already, this run read version 0"):
        copy_table(table, target, 0)
    assert DeltaTable(str(target)).version() == 1
    shutil.rmtree(table)
    put(table, 9)
    assert copy_table(table, target).version == 0
    assert DeltaTable(str(target)).to_pyarrow_table()["id"].to_pylist() == [9]


def test_a_log_that_does_not_give_the_version_is_never_swapped_in(table, target, monkeypatch):
    """The copied table is opened before anybody can see it."""
    real = table_contents

    def incomplete(ledger, version):
        found = real(ledger, version)
        newest = f"_delta_log/{version:020d}.json"
        return replicas.Contents(
            name=found.name,
            root=found.root,
            files={path: state for path, state in found.files.items() if path != newest},
            version=found.version,
        )

    monkeypatch.setattr(sys.modules[__name__], "table_contents", incomplete)
    with pytest.raises(AuditFailed, match="the copied log does not give version 1"):
        copy_table(table, target)
    assert not target.exists()


def test_the_check_of_a_copy_names_everything_that_differs(table, target):
    """A table without its log, a changed byte, another time, a file too many: none of it is a replica."""
    contents = table_contents(Ledger(table), 1)
    shutil.copytree(table, target)
    assert verify(contents, folder_at(target)).passed
    data = sorted(target.glob("*.parquet"))
    stat = data[0].stat()
    data[0].write_bytes(data[0].read_bytes()[::-1])
    os.utime(data[0], ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    assert data[0].name in verify(contents, folder_at(target)).note
    os.utime(data[1])
    assert verify(contents, folder_at(target)).figures == {"missing": 0, "unexpected": 0, "differing": 2}
    shutil.rmtree(target / "_delta_log")
    (target / "mine").write_text("mine")
    finding = verify(contents, folder_at(target))
    assert finding.refuses
    assert finding.figures == {"missing": 2, "unexpected": 1, "differing": 2}
    assert f"missing: _delta_log/{0:020d}.json" in finding.note
