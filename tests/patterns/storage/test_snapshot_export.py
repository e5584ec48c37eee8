"""Snapshot Export."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from datetime import date, datetime, timezone

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, NotReady, PatternError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table, store_at
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.maintenance import damage_of, export_version
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.ingestion.compactor import vacuum
from dedp_assets.patterns.storage.snapshot_export import declare_exports, export_snapshot, verify_export
from dedp_assets.patterns.storage.time_travel import set_milestone
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, field_of, read_back, rows_at, write_protocol
from tests.two_runs import two_runs

LATER = datetime(2100, 1, 1, tzinfo=timezone.utc)
FIRST = pa.table({"id": [1, 2, 3], "a b": ["x", None, "z"], "day": ["mon", "50% of/it's", None]})


def no_spark():
    raise AssertionError("Spark was started")


@pytest.fixture
def prices(tmp_path):
    """Three partitions of odd names, then one more row and one less: versions 0, 1, 2; by delta-rs."""
    place = str(tmp_path / "lake/gold/prices")
    write_deltalake(place, FIRST, partition_by=["day"])
    write_deltalake(place, pa.table({"id": [4], "a b": ["w"], "day": ["mon"]}), mode="append")
    DeltaTable(place).delete("id = 2")
    return public(Table.at(place, no_spark))


def public(table):
    """The table with a class of each column, as an export asks for."""
    columns = {name: replace(column, classification="public") for name, column in table.spec.columns.items()}
    return Table(replace(table.spec, columns=columns), table.store, no_spark)


def exported(table, root, version):
    """Export a version without a catalogue, which needs Spark."""
    return export_version(table.ledger, version, store_at(root).within(f"{table.name}/v{version}"))


def bytes_of(folder):
    """Path -> SHA-256 of everything in a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def by_delta_rs(place):
    return sorted(DeltaTable(str(place)).to_pyarrow_table().to_pylist(), key=str)


# --- what is exported -------------------------------------------------------------------------------------------------


def test_an_export_has_the_files_of_its_version_and_their_checksums(prices, tmp_path):
    """Byte for byte, and none that is of another version; delta-rs reads the rows of then."""
    for version, count in ((0, 3), (1, 4), (2, 3)):
        made = exported(prices, tmp_path / "archive", version)
        place = tmp_path / "archive/gold/prices" / f"v{version}"
        assert (made.made, made.files, made.copied, made.store.address) == (True, count, count, str(place))
        files = {path: sha for path, sha in bytes_of(place).items() if path.endswith(".parquet")}
        source = DeltaTable(str(prices.location), version=version)
        assert files == {path: bytes_of(prices.location)[path] for path in files}
        assert len(files) == len(source.file_uris())
        assert by_delta_rs(place) == sorted(source.to_pyarrow_table().to_pylist(), key=str)
        log = [json.loads(line) for line in (place / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
        assert sorted(a["add"]["tags"]["dedp.sha256"] for a in log if "add" in a) == sorted(files.values())
        assert made.size_bytes == sum((place / path).stat().st_size for path in files)
        assert verify_export(Table.at(place, no_spark)).passed


def test_an_export_again_is_the_same_bytes(prices, tmp_path):
    """The log included: after further writes and a checkpoint, in another process' place, and in the same place."""
    exported(prices, tmp_path / "one", 1)
    before = bytes_of(tmp_path / "one")
    for number in range(3):
        write_deltalake(str(prices.location), pa.table({"id": [number], "a b": ["w"], "day": ["mon"]}), mode="append")
    DeltaTable(str(prices.location)).create_checkpoint()
    again = Table.at(prices.location, no_spark)
    exported(again, tmp_path / "two", 1)
    assert bytes_of(tmp_path / "two") == before
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "one").rglob("*")}
    same = exported(again, tmp_path / "one", 1)
    assert (same.made, same.copied) == (False, 0)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "one").rglob("*")} == times


def test_an_export_survives_the_vacuum_of_its_source(prices, tmp_path):
    """And its removal."""
    expected = read_back(prices, 0)
    place = exported(prices, tmp_path / "archive", 0).store.address
    vacuum(prices.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
    assert verify_export(Table.at(place, no_spark)).passed
    shutil.rmtree(prices.location)
    archived = Table.at(place, no_spark)
    assert read_back(archived) == expected
    assert verify_export(archived).figures == {"files": 3, "damaged files": 0}


def test_nobody_writes_an_export(prices, tmp_path):
    """Neither delta-rs nor the library."""
    place = exported(prices, tmp_path / "archive", 0).store.address
    before = bytes_of(tmp_path / "archive")
    with pytest.raises(DeltaError):
        write_deltalake(place, FIRST, mode="append")
    with pytest.raises(ConfigError, match="is closed"):
        Table.at(place, no_spark).clear(partition={"day": "mon"}, provenance=a_run())
    assert bytes_of(tmp_path / "archive") == before


def test_tables_with_vectors_and_other_names_of_columns_are_exported(tmp_path):
    """The vector's file with its own checksum; the protocol of the readers stays."""
    vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    add = {"path": "a.parquet", "partitionValues": {}, "size": 9, "modificationTime": 1, "dataChange": True}
    features, place = ["columnMapping", "deletionVectors"], tmp_path / "vectors"
    named = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    write_protocol(
        place,
        [field_of("id", "long", **named)],
        configuration=configuration,
        readers=features,
        writers=[*features, "domainMetadata"],
        more=[{"add": {**add, "deletionVector": vector}}],
    )
    (place / "a.parquet").write_bytes(b"123456789")
    file = f"deletion_vector_{'0' * 8}-0000-0000-0000-{'0' * 12}.bin"
    (place / file).write_bytes(b"\x01")
    made = exported(Table.at(place, no_spark), tmp_path / "archive", 0)
    assert made.copied == 2
    state = Ledger(made.store).state()
    assert state.closed
    assert state.protocol["readerFeatures"] == features
    assert state.properties == configuration
    assert damage_of(made.store) == {}
    made.store.put(file, b"\x02")
    assert list(damage_of(made.store)) == [file]


def test_an_empty_table_is_exported(tmp_path):
    """Columns without rows."""
    write_protocol(tmp_path / "none", [field_of("id", "long")])
    made = exported(Table.at(tmp_path / "none", no_spark), tmp_path / "archive", 0)
    assert (made.files, made.rows, by_delta_rs(made.store.address)) == (0, 0, [])
    assert verify_export(Table.at(made.store, no_spark)).passed


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damaged_and_missing_files_are_named(prices, tmp_path):
    """A flipped bit of the same length, a file cut short, a file that is gone; three by name, the rest by number."""
    place = tmp_path / "archive/gold/prices/v1"
    archived = Table.at(exported(prices, tmp_path / "archive", 1).store, no_spark)
    flipped, cut, gone, last = sorted(path for path in place.rglob("*.parquet"))
    content = bytearray(flipped.read_bytes())
    content[50] ^= 1
    flipped.write_bytes(content)
    cut.write_bytes(cut.read_bytes()[:-1])
    gone.unlink()
    finding = verify_export(archived)
    assert (finding.passed, finding.figures) == (False, {"files": 4, "damaged files": 3})
    assert damage_of(archived.store).keys() == {path.relative_to(place).as_posix() for path in (flipped, cut, gone)}
    for path, what in ((flipped, "has other bytes"), (cut, "bytes"), (gone, "is missing")):
        assert what in damage_of(archived.store)[path.relative_to(place).as_posix()]
        assert path.name in finding.note
    last.unlink()
    assert "and 1 more are wrong" in verify_export(archived).note
    with pytest.raises(ConfigError, match="must be an export, not another table or folder"):
        verify_export(prices)


# --- crashes ----------------------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(st.lists(st.integers(0, 4), max_size=4))
def test_an_export_that_died_at_any_put_is_no_table_and_is_resumed(tmp_path_factory, deaths):
    """Each run copies what is missing, and the last one makes the same bytes as one that never died."""
    root = tmp_path_factory.mktemp("deaths")
    write_deltalake(str(root / "prices"), FIRST, partition_by=["day"])
    table = Table.at(root / "prices", no_spark, name="prices")
    exported(table, root / "control", 0)
    puts, left, copied = LocalStore.put, [0], 0

    def dies(store, path, content):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("killed")
        puts(store, path, content)

    place = root / "archive/prices/v0"
    for death in deaths:
        left[0] = death
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalStore, "put", dies)
            if death + copied < 3:
                with pytest.raises(RuntimeError, match="killed"):
                    exported(table, root / "archive", 0)
                assert not DeltaTable.is_deltatable(str(place))
            else:
                exported(table, root / "archive", 0)
        copied = min(3, copied + death)
    last = exported(table, root / "archive", 0)
    assert last.copied == 3 - copied
    assert bytes_of(root / "archive") == bytes_of(root / "control")


def test_a_death_before_the_commit_leaves_no_table_and_half_a_file_is_copied_again(prices, tmp_path, monkeypatch):
    """The commit is the last put."""
    place = tmp_path / "archive/gold/prices/v0"
    with monkeypatch.context() as patch:
        patch.setattr(commits, "write", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            exported(prices, tmp_path / "archive", 0)
    assert not (place / "_delta_log").exists()
    spoilt = next(place.rglob("*.parquet"))
    spoilt.write_bytes(bytes(spoilt.stat().st_size))
    assert exported(prices, tmp_path / "archive", 0).copied == 1
    assert verify_export(Table.at(place, no_spark)).passed


# --- catalogue --------------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_an_export_is_noted_in_a_catalogue(spark, make_table, prices, tmp_path):
    """A row by version, with the checksum of the export's log; again the same row, by milestone another version."""
    catalogue = make_table(declare_exports(name="platform/exports"))
    root = str(tmp_path / "archive")
    first = export_snapshot(prices, catalogue.target(a_run(run_id="1")), to=root)
    assert first.reason == "version 2 of gold/prices is exported"
    assert first.figures["copied_files"] == 3
    again = export_snapshot(prices, catalogue.target(a_run(run_id="2")), to=root)
    assert (again.changed, again.reason) == (False, "version 2 of gold/prices was exported before")
    set_milestone(prices.target(a_run()), name="q1", at=0)
    export_snapshot(prices, catalogue.target(a_run(run_id="3")), to=root, version="q1")
    found = read_back(catalogue)
    assert [(row["table"], row["version"], row["files"], row["rows"]) for row in found] == [
        ("gold/prices", 0, 3, 3),
        ("gold/prices", 2, 3, 3),
    ]
    for row in found:
        archived = Table.at(row["place"], spark)
        log = (archived.location / "_delta_log" / f"{0:020d}.json").read_bytes()
        assert row["sha256"] == hashlib.sha256(log).hexdigest()
        expected = sorted(map(str, read_back(prices, row["version"])))
        assert sorted(str(each.asDict()) for each in archived.read().collect()) == expected


@pytest.mark.spark
def test_a_catalogue_has_a_row_for_each_week(spark, make_table, prices, tmp_path):
    """Of a version that was exported in the week before as well: there is one export, and two rows."""
    catalogue = make_table(declare_exports(name="platform/exports", by="week"))
    for week in ("2026-01-05", "2026-01-12"):
        into = catalogue.target(a_run(run_id=week), partition={"week": week})
        export_snapshot(prices, into, to=str(tmp_path / "archive"))
    assert [row["week"] for row in read_back(catalogue)] == [date(2026, 1, 5), date(2026, 1, 12)]
    assert len({row["place"] for row in read_back(catalogue)}) == 1


# --- buckets ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_export_goes_into_a_bucket_and_out_of_it(prices, bucket_store):
    """From a folder, and from a bucket to a bucket: the same bytes, damage named."""
    first = export_version(prices.ledger, 1, bucket_store.above().within("archive/prices/v1"))
    assert (first.files, first.made) == (4, True)
    assert damage_of(first.store) == {}
    assert sorted(rows_at(first.store), key=str) == sorted(rows_at(prices.store, 1), key=str)
    for file in (path for path in prices.location.rglob("*") if path.is_file()):
        bucket_store.put(file.relative_to(prices.location).as_posix(), file.read_bytes())
    second = export_version(Ledger(bucket_store, name=prices.name), 1, bucket_store.above().within("other/prices/v1"))
    contents = [{e.path: each.store.read(e.path) for e in each.store.files()} for each in (first, second)]
    assert contents[0] == contents[1]
    path = next(iter(sorted(e.path for e in second.store.files() if e.path.endswith(".parquet"))))
    second.store.delete(path)
    assert damage_of(second.store) == {path: "is missing"}
    with pytest.raises(ConfigError, match="an export must lie apart from its table"):
        export_version(Ledger(bucket_store), 1, bucket_store.within("exports"))
    with pytest.raises(ConfigError, match="must lie in no table and in no other export"):
        export_version(Ledger(bucket_store), 1, first.store.within("v2"))


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_places_that_cannot_be_are_refused(prices, tmp_path):
    """In the table, around it, in another table, in an export, over another export; nothing is written."""
    exported(prices, tmp_path / "archive", 0)
    write_deltalake(str(tmp_path / "lake/other"), FIRST)
    before = bytes_of(tmp_path)

    def refused(text, place, version=1):
        with pytest.raises(ConfigError, match=text):
            export_version(prices.ledger, version, store_at(place))
        assert bytes_of(tmp_path) == before

    apart = "an export must lie apart from its table .*/lake/gold/prices, not at"
    refused(apart, prices.location)
    refused(apart, prices.location / "exports")
    refused(apart, tmp_path / "lake")
    inside = "an export must lie in no table and in no other export, not at"
    refused(inside, tmp_path / "lake/other/exports/v1")
    refused(inside, tmp_path / "archive/gold/prices/v0/v1")
    taken = "must be free for the export of version 1 of gold/prices, and another table or export is there"
    refused(taken, tmp_path / "archive/gold/prices/v0")
    refused(taken, tmp_path / "lake/other")


@pytest.mark.spark
def test_exports_that_cannot_be_are_refused_before_anything_is_written(spark, make_table, prices, tmp_path):
    """No catalogue, no such version or milestone, files that a vacuum removed."""
    catalogue, root = make_table(declare_exports(name="platform/exports")), str(tmp_path / "archive")
    other = make_table(TableSpec("gold/other", {"id": Column("INT")}))
    with pytest.raises(ConfigError, match="gold/other must be a catalogue of exports"):
        export_snapshot(prices, other.target(a_run()), to=root)
    for classification, allowed, words in (
        (
            "personal",
            False,
            r"columns \['id'\] as personal, which an export may not hold: may_hold_personal must be True",
        ),
        ("", True, r"gold/prices: columns \['id'\] must have a class before they come to an export, not none"),
        ("secret", True, r"gold/prices: columns \['id'\] are secret and must not come to an export"),
    ):
        columns = {**prices.spec.columns, "id": Column("BIGINT", classification=classification)}
        source = Table(replace(prices.spec, columns=columns), prices.store, spark)
        with pytest.raises(ConfigError, match=words):
            export_snapshot(source, catalogue.target(a_run()), to=root, may_hold_personal=allowed)
    assert not (tmp_path / "archive").exists()
    with pytest.raises(NotReady, match="has no version 9"):
        export_snapshot(prices, catalogue.target(a_run()), to=root, version=9)
    with pytest.raises(NotReady, match="has no milestone q1"):
        export_snapshot(prices, catalogue.target(a_run()), to=root, version="q1")
    vacuum(prices.target(a_run()), retention_hours=0, now=LATER, allow_unsafe=True)
    with pytest.raises(ConfigError, match=r"cannot be exported at version 1: a vacuum removed 1 of its files"):
        export_snapshot(prices, catalogue.target(a_run()), to=root, version=1)
    for place in ("nope", f" {root}"):
        with pytest.raises(ConfigError, match="to must be an absolute path or a URI"):
            export_snapshot(prices, catalogue.target(a_run()), to=place)
    with pytest.raises(PatternError):
        export_snapshot(prices, catalogue.target(a_run()), to="https://example.org/archive")
    assert not (tmp_path / "archive").exists()
    assert not catalogue.ledger.exists()


@known_calls
def calls_that_work(known):
    made = export_version(known.daily.ledger, known.daily.ledger.version(), store_at(known.folder / "exported"))
    export = Table.at(made.store, known.spark, name="exported")
    return {"declare_exports": {"name": "platform/exports"}, "verify_export": {"export": export}}


@two_runs()
def exported_at_once(world):
    columns = "id INT, day STRING"
    classified = {name: Column(kind, classification="public") for name, kind in (("id", "INT"), ("day", "STRING"))}
    prices = world.table("prices", columns, more=classified)
    prices.append(world.frame(columns, (1, "mon")), provenance=world.run("base", sequence=1))
    world.specs["exports"] = declare_exports(name="exports")

    root = f"{world.root}-archive"  # of all worlds, whose rows then are the same

    def run(name, version):
        return lambda w: export_snapshot(w["prices"], w.into("exports", name), to=root, version=version)

    yield run("1", 0)
    yield run("2", 1)
