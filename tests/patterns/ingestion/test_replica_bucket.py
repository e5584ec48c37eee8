"""A replica in a bucket is the source's table at every moment, however its copy ends."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table
from dedp_assets.patterns.delta.storage.s3_store import S3Store
from dedp_assets.patterns.ingestion._replica_contents import table_contents, version_of
from dedp_assets.patterns.ingestion._replica_files import verify
from dedp_assets.patterns.ingestion.passthrough_replicator import replicate_table
from tests.helpers import a_run, rows_at

SPEC = TableSpec(
    "bronze/devices",
    {"id": Column("BIGINT", classification="public"), "day": Column("STRING", classification="public")},
)


@pytest.fixture
def sides(tmp_path, bucket_store):
    """A source of three versions in a folder, and the place of the replica in a bucket."""
    made = SimpleNamespace(folder=str(tmp_path / "devices"), target=bucket_store)
    made.source = Table(SPEC, made.folder, lambda: None)
    made.replica = Table(SPEC, bucket_store, lambda: None)
    for number in range(3):
        append(made, number)
    return made


def append(sides, *ids, mode="append"):
    """A commit at the source."""
    rows = pa.table({"id": list(ids), "day": [f"2026-01-0{1 + number % 5}" for number in ids]})
    write_deltalake(sides.folder, rows, mode=mode, partition_by=["day"])


def replicate(sides, **options):
    """A copy of the source's newest version, or of another."""
    return replicate_table(sides.source, sides.replica.target(a_run("staging/devices")), **options)


def ids(store, version=None):
    """The ids of a version."""
    return sorted(row["id"] for row in rows_at(store, version))


def test_a_replica_has_every_version_of_the_source(sides):
    """Rows, versions and bytes; and a second copy of the same source copies nothing."""
    copied = replicate(sides)
    assert (copied.version, copied.changed, copied.rows.written) == (2, True, 3)
    assert [ids(sides.target, version) for version in range(3)] == [[0], [0, 1], [0, 1, 2]]
    assert verify(table_contents(sides.source.ledger, 2), sides.target).passed
    again = replicate(sides)
    assert (again.version, again.changed) == (2, False)


def test_only_new_files_are_copied_and_removed_ones_go(sides):
    """What did not change is not put again; what the source cleaned up is gone with the next copy."""
    replicate(sides)
    append(sides, 7)
    copied = replicate(sides)
    assert (copied.figures["copied_files"], copied.figures["removed_files"]) == (2, 0)
    append(sides, 9, mode="overwrite")
    table = DeltaTable(sides.folder)
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    copied = replicate(sides)
    assert copied.figures["removed_files"] >= 4
    assert ids(sides.target) == ids(sides.source.store) == [9]
    assert verify(table_contents(sides.source.ledger, copied.version), sides.target).passed


def test_a_file_of_the_log_that_was_written_again_is_copied_again(sides):
    """Though it has as many bytes as before: what the last copy noted of it is another state."""
    path = f"_delta_log/{2:020d}.crc"
    for content in (b'{"n": 1}', b'{"n": 2}'):
        sides.source.store.put(path, content)
        copied = replicate(sides)
        assert sides.target.read(path) == content
    assert copied.figures["copied_files"] == 1
    assert verify(table_contents(sides.source.ledger, 2), sides.target).passed


def test_a_copy_that_ends_anywhere_leaves_a_version_of_the_source(sides, monkeypatch):
    """Killed before each put in turn: readers see no table yet or a whole version, and the next copy ends it."""
    put, seen, number = S3Store.put, [], 0

    def dying(store, path, content):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        put(store, path, content)

    monkeypatch.setattr(S3Store, "put", dying)
    while True:
        left = [number]
        try:
            replicate(sides)
        except KeyboardInterrupt:
            log = Ledger(sides.target)
            version = log.version() if log.exists() else None
            seen.append(version)
            assert version is None or ids(sides.target) == ids(sides.source.store, version)
            number = 1  # of what is missing, one file more with each copy
            continue
        break
    assert {None, 0, 1, 2} == {*seen}
    assert ids(sides.target) == [0, 1, 2]


def test_a_source_that_was_made_again_is_refused_and_the_replica_stays(sides):
    """Another history cannot follow the former one, and no reader may see a mix of both."""
    replicate(sides)
    Table(SPEC, sides.folder, lambda: None).store.delete_folder("")
    append(sides, 5)
    with pytest.raises(
        ConfigError, match=r"another history than bronze/devices .* remove what is there, and run it again"
    ):
        replicate(sides)
    assert ids(sides.target) == [0, 1, 2]


def test_a_stale_copy_is_refused(sides):
    """A run that pinned an older version than the replica shows copies nothing back."""
    replicate(sides)
    with pytest.raises(Conflict, match="shows version 2 of bronze/devices already"):
        replicate(sides, version=1)


def test_a_table_of_somebody_else_is_not_overwritten(sides):
    """A table with commits that the source never had is no replica."""
    other = pa.table({"id": [42], "day": ["2026-01-01"]})
    write_deltalake(sides.target.address, other, storage_options=dict(sides.target.options))
    with pytest.raises(ConfigError, match="another history"):
        replicate(sides)
    assert ids(sides.target) == [42]


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("_delta_log/00000000000000000007.json", 7),
        ("_delta_log/.00000000000000000007.json.crc", 7),
        ("_delta_log/00000000000000000007.crc", 7),
        ("_delta_log/00000000000000000010.checkpoint.parquet", 10),
        ("_delta_log/_last_checkpoint", None),
        ("_delta_log/_sidecars/a.parquet", None),
        ("day=2026-01-01/00000000000000000007.json", None),
    ],
)
def test_a_file_of_the_log_has_a_version(path, version):
    """By its name alone; sidecars belong to the data, which comes first."""
    assert version_of(path) == version
