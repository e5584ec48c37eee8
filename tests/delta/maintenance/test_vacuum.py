"""Vacuum: what may go, file by file, over a log written by hand; no Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import deltalake
import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.maintenance import vacuum
from dedp_assets.patterns.delta.maintenance.vacuum import remove_unneeded
from dedp_assets.patterns.delta.staging.stages import claim_of, new_stage
from tests.helpers import EVENTS, a_run, field_of, write_log, write_protocol

CUTOFF = datetime(2026, 1, 20, tzinfo=timezone.utc)
BEFORE, AFTER = CUTOFF - timedelta(hours=1), CUTOFF + timedelta(hours=1)
HOLD = """
import sys
from dedp_assets.patterns.delta import store_at
from dedp_assets.patterns.delta.staging.stages import new_stage
stage = new_stage(store_at(sys.argv[1]))
stage.location.mkdir()
(stage.location / "part-0.parquet").write_bytes(b"rows")
print(stage.store.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def table(tmp_path):
    """A table without files; whoever asks for Spark fails."""

    def no_session():
        raise AssertionError("Spark was asked for")

    made = Table(EVENTS, tmp_path / "events", no_session)
    write_log(made.location, {"id": "long", "event_date": "date"}, ["event_date"], [])
    return made


def place(table, path, at=BEFORE):
    """A file of four bytes, written at a time."""
    file = table.location / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"rows")
    os.utime(file, (at.timestamp(), at.timestamp()))
    return file


def commit(table, at, **files):
    """A commit at a time that has files of each kind: ``add``, ``remove``, ``cdc``."""
    actions = [{"commitInfo": {"timestamp": int(at.timestamp() * 1000), "operation": "WRITE"}}]
    for kind, paths in files.items():
        for path in paths:
            told = {"path": path, "partitionValues": {"event_date": "2026-01-05"}, "dataChange": True, "size": 4}
            actions.append({kind: {**told, "modificationTime": 0, "stats": json.dumps({"numRecords": 1})}})
    commits.write(table.store, table.ledger.version() + 1, actions)


def clean(table, cutoff=CUTOFF):
    return remove_unneeded(table, cutoff=cutoff, provenance=a_run())


def test_what_a_version_since_the_cutoff_needs_stays(table):
    """Current files, files removed since, and change data since stay; what was replaced before goes."""
    kept = [place(table, f"part-{n}.parquet") for n in (1, 2)] + [place(table, "_change_data/cdc-2.parquet")]
    gone = [place(table, "part-0.parquet"), place(table, "_change_data/cdc-1.parquet")]
    commit(table, BEFORE - timedelta(days=1), add=["part-0.parquet", "part-1.parquet"])
    commit(table, BEFORE, remove=["part-0.parquet"], cdc=["_change_data/cdc-1.parquet"])
    commit(table, AFTER, remove=["part-1.parquet"], add=["part-2.parquet"], cdc=["_change_data/cdc-2.parquet"])
    result = clean(table)
    assert [file.exists() for file in (*kept, *gone)] == [True, True, True, False, False]
    assert (result.figures["files_removed"], result.figures["bytes_removed"]) == (2, 8)
    assert result.reason == "2 files (8 bytes) that no version since 2026-01-20T00:00:00+00:00 needs were removed"


def test_a_version_that_was_current_at_the_cutoff_keeps_its_files(table):
    """A commit made exactly then replaced files that were needed until then."""
    file = place(table, "part-0.parquet")
    commit(table, BEFORE, add=["part-0.parquet"])
    commit(table, CUTOFF, remove=["part-0.parquet"])
    assert not clean(table).applied
    assert clean(table, CUTOFF + timedelta(milliseconds=1)).applied
    assert not file.exists()


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/00000000000000000009.checkpoint.parquet",
        "_sidecars/part-0.parquet",
        ".hidden/part-0.parquet",
        "README.md",
        "event_date=2026-01-05/_SUCCESS",
    ],
)
def test_what_is_no_data_file_is_left_alone(table, path):
    """The log, hidden folders and what somebody put there."""
    file = place(table, path)
    assert not clean(table).applied
    assert file.exists()


VECTOR = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
LONG_AGO = BEFORE - timedelta(days=1)


def data_file(at, place=""):
    """The description of a data file, with the deletion vector at a place, as actions of a time have it."""
    vector = {"storageType": "u", "pathOrInlineDv": place, "offset": 1, "sizeInBytes": 4, "cardinality": 1}
    told = {"path": "part-0.parquet", "partitionValues": {}, "dataChange": True, "size": 4, "modificationTime": 0}
    return {**told, "deletionTimestamp": int(at.timestamp() * 1000), **({"deletionVector": vector} if place else {})}


def replaced(table, at, removed, *added):
    """A commit at a time: data files removed and added."""
    info = {"commitInfo": {"timestamp": int(at.timestamp() * 1000)}}
    actions = [{"add": each} for each in added] + [{"remove": each} for each in removed]
    commits.write(table.store, table.ledger.version() + 1, [info, *actions])


@pytest.mark.parametrize("cleaned", [False, True], ids=["whole log", "log behind a checkpoint"])
@pytest.mark.parametrize("folder", ["", "ab"])
def test_a_vector_stays_as_long_as_a_version_since_the_cutoff_needs_it(tmp_path, folder, cleaned):
    """The one of an active file, and of a file that was active at the cutoff; others go, whoever wrote them."""
    write_protocol(tmp_path / "t", [field_of("id", "long")], readers=["deletionVectors"], writers=["deletionVectors"])
    table = Table(EVENTS, tmp_path / "t", lambda: pytest.fail("Spark was asked for"))
    place(table, "part-0.parquet", LONG_AGO)
    kept, gone = (
        place(table, f"{folder}/{name}".lstrip("/"), LONG_AGO) for name in (VECTOR, VECTOR.replace("61.bin", "60.bin"))
    )
    marked = data_file(BEFORE, f"{folder}^-aqEH.-t@S}}K{{vb[*k^")
    replaced(table, BEFORE, [], data_file(BEFORE))
    replaced(table, BEFORE, [data_file(BEFORE)], marked)
    if cleaned:
        deltalake.DeltaTable(table.store.address).create_checkpoint()
        for version in (0, 1):
            (table.location / f"_delta_log/{version:020d}.json").unlink()
    assert clean(table).figures["files_removed"] == 1
    assert (kept.exists(), gone.exists()) == (True, False)
    replaced(table, AFTER, [marked])
    clean(table)
    assert kept.exists()
    clean(table, AFTER + timedelta(hours=1))
    assert not kept.exists()


def test_a_file_that_was_written_since_the_cutoff_stays(table):
    """A writer that does not know our stages may commit it yet."""
    young, old = place(table, "event_date=2026-01-05/a.parquet", AFTER), place(table, "event_date=2026-01-05/b.parquet")
    assert clean(table).figures["files_removed"] == 1
    assert (young.exists(), old.exists()) == (True, False)


def test_checksums_and_empty_folders_go_with_their_files(table):
    """And stay with the ones that stay; files of escaped partition values are found under their names on disk."""
    commit(table, BEFORE, add=["event_date=a%2520b/part-1.parquet"])
    kept = [place(table, f"event_date=a%20b/{name}") for name in ("part-1.parquet", ".part-1.parquet.crc")]
    gone = [place(table, f"event_date=c/{name}") for name in ("part-2.parquet", ".part-2.parquet.crc")]
    assert (clean(table).figures["files_removed"], clean(table).applied) == (1, False)
    assert [file.exists() for file in (*kept, *gone, gone[0].parent)] == [True, True, False, False, False]


def test_everything_a_given_up_stage_left_goes(table):
    """Its log, its markers, half-written files and its claim; the part that was published stays."""
    commit(table, BEFORE, add=["staged-1/part-1.parquet"])
    kept = place(table, "staged-1/part-1.parquet")
    names = [
        "_SUCCESS",
        "_delta_log/00000000000000000000.json",
        "_temporary/0/part-2.parquet",
        "outcome=dead/a.parquet",
    ]
    gone = [place(table, f"{stage}/{name}") for stage in ("staged-1", "staged-2") for name in names]
    gone += [place(table, ".staged-2.claim")]
    clean(table)
    assert kept.exists()
    assert not [file for file in gone if file.exists()]
    assert {path.name for path in table.location.iterdir()} == {"_delta_log", "staged-1"}


def test_a_stage_is_safe_as_long_as_it_is_claimed(table):
    """However old its files are; a published or discarded stage gives its claim up."""
    stage = new_stage(table.store)
    file = place(table, f"{stage.store.name}/part-0.parquet")
    assert table.store.is_claimed(claim_of(stage.store.name))
    assert clean(table).figures == {"files_removed": 0, "bytes_removed": 0, "stages_in_use": 1}
    assert file.exists()
    stage.finish()
    assert not table.store.exists(claim_of(stage.store.name))
    place(table, f"{stage.store.name}/part-0.parquet")
    assert clean(table).figures["files_removed"] == 1
    other = new_stage(table.store)
    other.discard()
    assert [path.name for path in table.location.iterdir()] == ["_delta_log"]


@pytest.mark.slow
def test_the_stage_of_a_killed_process_is_nobodys(table):
    """As long as it lives its stage stays; the operating system gives the claim up for the dead."""
    command = [sys.executable, "-c", HOLD, str(table.location)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        stage = table.location / process.stdout.readline().decode().strip()
        far = datetime.fromtimestamp(stage.stat().st_mtime, timezone.utc) + timedelta(days=9)
        assert not clean(table, far).applied
        assert (stage / "part-0.parquet").exists()
        process.kill()
        process.wait()
        assert clean(table, far).figures["files_removed"] == 1
        assert not stage.exists()


def test_a_foreign_commit_in_the_middle_does_not_lose_the_note(table, monkeypatch):
    """Somebody commits without our lock while files are deleted: the vacuum is noted one version later."""
    place(table, "part-0.parquet")
    real, overtaken = commits.write, []

    def write(store, version, content):
        if not overtaken:
            overtaken.append(version)
            real(store, version, [{"commitInfo": {"timestamp": 1}}])
        real(store, version, content)

    monkeypatch.setattr(vacuum.commits, "write", write)
    result = clean(table)
    assert (result.version, table.ledger.commit(result.version).operation) == (overtaken[0] + 1, "VACUUM END")


def test_the_note_of_a_table_with_in_commit_timestamps_has_one(tmp_path):
    """Later than the commit before it, whatever this machine's clock says: Spark's Delta reads no log without."""
    ahead = int(datetime(2126, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)
    info = {"timestamp": 1, "operation": "CREATE TABLE"}
    for place, before, least in (("behind", 7, 8), ("ahead", ahead, ahead + 1)):
        made = Table(EVENTS, tmp_path / place, None)
        write_protocol(
            made.location,
            [field_of("id", "long")],
            writers=["inCommitTimestamp"],
            configuration={"delta.enableInCommitTimestamps": "true"},
            more=[{"commitInfo": {**info, "inCommitTimestamp": before}}],
        )
        old = made.location / "old.parquet"
        old.write_bytes(b"rows")
        os.utime(old, (1, 1))
        version = remove_unneeded(made, cutoff=datetime(2026, 1, 20, tzinfo=timezone.utc), provenance=a_run()).version
        (stated,) = [action["commitInfo"] for action in commits.read_actions(made.store, version)]
        assert (stated["operation"], old.exists()) == ("VACUUM END", False)
        assert stated["inCommitTimestamp"] == least if place == "ahead" else stated["inCommitTimestamp"] > least


def test_a_table_that_nobody_here_may_write_is_not_vacuumed(tmp_path):
    """A feature that is unknown may say which files are needed."""
    made = Table(EVENTS, tmp_path / "t", None)
    write_protocol(made.location, [field_of("id", "long")], writers=["invented"])
    old = made.location / "old.parquet"
    old.write_bytes(b"rows")
    os.utime(old, (1, 1))
    with pytest.raises(ConfigError, match="silver/events asks its writers to know invented"):
        remove_unneeded(made, cutoff=CUTOFF, provenance=a_run())
    assert old.exists()
