"""Which files belong to a table at a version, and to a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.delta import Ledger, folder_at
from dedp_assets.patterns.ingestion._replica_contents import folder_contents, table_contents

LOG = "_delta_log"


def put(location, *ids, day="2026-01-05", mode="append", **options):
    """A commit with one file."""
    rows = pa.table({"id": list(ids), "day": [day] * len(ids)})
    write_deltalake(str(location), rows, mode=mode, partition_by=["day"], **options)


def commit_name(version):
    return f"{LOG}/{version:020d}.json"


@pytest.fixture
def location(tmp_path):
    """A table with three commits; the last one replaced all rows."""
    folder = tmp_path / "devices"
    put(folder, 1, 2)
    put(folder, 3, day="2026-01-06")
    put(folder, 4, mode="overwrite")
    return folder


def test_a_version_consists_of_its_log_and_of_every_file_the_log_can_reach(location):
    """Files of earlier versions belong to it, or time travel would break; later commits and strays do not."""
    ledger = Ledger(location)
    older = {p for v in (0, 1) for p in DeltaTable(str(location), version=v).file_uris()}
    put(location, 5)
    (location / "staged-1").mkdir()
    (location / "staged-1" / "part-0.parquet").write_bytes(b"refused rows")
    (location / LOG / f".{3:020d}.json.1f.tmp").write_text("half a commit")
    (location / LOG / f"{2:020d}.json#1").write_text("half a commit")
    contents = table_contents(ledger, 2)
    newest = set(DeltaTable(str(location), version=2).file_uris())
    data = {os.path.relpath(p, location) for p in {*older, *newest}}
    assert set(contents.files) == {*data, *map(commit_name, range(3))}
    assert (contents.version, contents.rows, contents.columns) == (2, 1, {"id", "day"})


def test_checkpoints_belong_to_it_unless_they_are_later(location):
    """The pointer to the last checkpoint comes along only if the checkpoint does."""
    DeltaTable(str(location)).create_checkpoint()
    put(location, 5)
    hint, checkpoint = f"{LOG}/_last_checkpoint", f"{LOG}/{2:020d}.checkpoint.parquet"
    assert {hint, checkpoint} <= set(table_contents(Ledger(location), 3).files)
    DeltaTable(str(location)).create_checkpoint()
    pinned = set(table_contents(Ledger(location), 2).files)
    assert checkpoint in pinned
    assert hint not in pinned
    assert not [path for path in pinned if f"{3:020d}" in path]


def test_a_cleaned_log_starts_at_its_checkpoint(location):
    """Files of versions nobody can read any more are left, those of the first readable one are not."""
    unreachable = {os.path.relpath(p, location) for p in DeltaTable(str(location), version=1).file_uris()}
    DeltaTable(str(location)).create_checkpoint()
    for version in range(2):
        (location / commit_name(version)).unlink()
    put(location, 5)
    contents = table_contents(Ledger(location), 3)
    active = {os.path.relpath(p, location) for p in DeltaTable(str(location)).file_uris()}
    assert active <= set(contents.files)
    assert not unreachable & set(contents.files)


def test_vacuumed_files_are_missed_only_if_the_version_needs_them(location):
    """A former version that was cleaned up cannot be copied; the pinned one has to be whole."""
    first = DeltaTable(str(location), version=0).file_uris()[0]
    Path(first).unlink()
    assert os.path.relpath(first, location) not in table_contents(Ledger(location), 2).files
    Path(DeltaTable(str(location)).file_uris()[0]).unlink()
    with pytest.raises(ContractError, match="files of version 2 are missing"):
        table_contents(Ledger(location), 2)


def test_names_that_had_to_be_escaped_are_found(tmp_path):
    """The log escapes the names of folders whose names are escaped values."""
    put(tmp_path / "t", 1, day="a b%c/ü:=x")
    (path,) = [path for path in table_contents(Ledger(tmp_path / "t"), 0).files if path.endswith(".parquet")]
    assert (tmp_path / "t" / path).exists()


def test_checksum_files_beside_it_belong_to_it(location):
    """Spark refuses a file whose checksum file is another file's."""
    name = f".{0:020d}.json.crc"
    (location / LOG / name).write_bytes(b"crc")
    assert f"{LOG}/{name}" in table_contents(Ledger(location), 2).files


def test_every_column_there_ever_was_is_known(location):
    """A column that is gone from the schema is still in older versions."""
    put(location, 9, mode="overwrite", schema_mode="overwrite")
    rows = pa.table({"id": [1], "ip": ["10.0.0.1"], "day": ["2026-01-05"]})
    write_deltalake(str(location), rows, mode="overwrite", schema_mode="overwrite", partition_by=["day"])
    put(location, 9, mode="overwrite", schema_mode="overwrite")
    assert table_contents(Ledger(location), 5).columns == {"id", "day", "ip"}


@pytest.mark.parametrize("path", ["/production/devices/a.parquet", "file:/production/a.parquet", "../other/a.parquet"])
def test_a_table_that_lives_on_files_of_another_is_refused(location, path):
    """A clone's replica would read the original, from where it must not be read."""
    log = location / commit_name(1)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for action in lines:
        if "add" in action:
            action["add"]["path"] = path
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ConfigError, match="outside of its folder"):
        table_contents(Ledger(location), 2)


def test_a_version_that_is_not_there_yet_is_waited_for(location):
    """And a table that is not there yet, too."""
    with pytest.raises(NotReady, match="no version 3 yet, the newest is 2"):
        table_contents(Ledger(location), 3)
    with pytest.raises(NotReady, match="does not exist yet"):
        table_contents(Ledger(location / "nothing"), 0)


def test_a_folder_is_its_files_and_its_empty_folders(tmp_path):
    """Hidden files and markers as well."""
    for path in ("date=1/a.json", "date=1/.a.crc", "_SUCCESS"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "date=2" / "empty").mkdir(parents=True)
    contents = folder_contents(folder_at(tmp_path), name="landing/devices")
    assert set(contents.files) == {"date=1/a.json", "date=1/.a.crc", "_SUCCESS"}
    assert contents.folders == {"date=2/empty"}


def test_what_a_copy_could_not_hold_is_refused(tmp_path):
    """Links to files or folders, and pipes."""
    (tmp_path / "a.json").write_text("{}")
    for make in (lambda p: p.symlink_to("a.json"), lambda p: p.symlink_to("/etc"), os.mkfifo):
        strange = tmp_path / "strange"
        make(strange)
        with pytest.raises(ConfigError, match="strange"):
            folder_contents(folder_at(tmp_path), name="landing/devices")
        strange.unlink()


def test_an_unpinned_copy_of_a_table_is_refused(location):
    """A table has commits; a folder has not."""
    with pytest.raises(ConfigError, match="is a Delta table"):
        folder_contents(folder_at(location), name="bronze/devices")


@pytest.mark.parametrize("made", [True, False])
def test_an_empty_source_is_no_reason_to_empty_its_replica(tmp_path, made):
    """A disk that is not mounted looks just like that."""
    folder = tmp_path / "landing"
    if made:
        (folder / "date=1").mkdir(parents=True)
    with pytest.raises(NotReady, match="holds no file"):
        folder_contents(folder_at(folder), name="landing/devices")


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    """A partial listing would delete in the replica what is still there."""
    for path in ("open/a", "closed/b"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(path)
    real = os.scandir

    def scan(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.raises(ConfigError, match=r"landing/devices: .*closed may not be read by the user"):
        folder_contents(folder_at(tmp_path), name="landing/devices")
