"""Manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from threading import Event

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Operation, Table, commit_actions, read_actions
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.delta.storage.store import delta_table
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.compactor import compact, vacuum
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.ingestion.readiness_marker import delivering
from dedp_assets.patterns.storage.manifest import ListedFiles, judge_manifest, overwrite_listed, write_manifest
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, field_of, read_back, write_protocol
from tests.object_faults import proxied
from tests.two_runs import two_runs

FIRST = pa.table({"id": [1, 2, 3], "day": ["mon", "tue", None]})
ODD = ["a b", "x=y/z", "50%", "[0]", "*?", "it's", "ü{}"]
READER = """
import sys, duckdb
from obstore.fsspec import FsspecStore
reader = duckdb.connect()
reader.register_filesystem(FsspecStore("s3"))
print(sorted(reader.sql(sys.argv[1]).fetchall(), key=str))
"""
LINES = ['{"id": 1}', '{"id": 2}']


def no_spark():
    raise AssertionError("Spark was started")


@pytest.fixture
def visits(tmp_path):
    """Three rows in a file for each day, and one day without a name; by delta-rs."""
    write_deltalake(str(tmp_path / "lake/visits"), FIRST, partition_by=["day"])
    return Table.at(tmp_path / "lake/visits", no_spark, name="visits")


def by_duckdb(listed):
    """The rows of listed files by DuckDB, which knows neither the log nor the library; columns in order."""
    with duckdb.connect() as reader:
        return in_order(reader.sql("SET TimeZone = 'UTC'") or reader.sql(listed.duckdb_query()).fetchall())


def by_delta(table):
    return in_order(tuple(row.values()) for row in DeltaTable(str(table.location)).to_pyarrow_table().to_pylist())


def in_order(rows):
    return sorted(map(tuple, rows), key=str)


def paths(listed):
    return {each.path for each in listed.files}


def live(table):
    """Paths of the live files on disk, by delta-rs."""
    return {Path(uri).relative_to(table.location).as_posix() for uri in DeltaTable(str(table.location)).file_uris()}


# --- what is listed ---------------------------------------------------------------------------------------------------


def test_a_manifest_lists_exactly_the_live_files_and_duckdb_reads_the_rows_of_delta(visits):
    """After appends, deletions and an overwrite: none removed, all partitions, as Delta's symlink manifest has it.

    The control, all files of the folder, has rows that are gone.
    """
    write_deltalake(str(visits.location), pa.table({"id": [4, 5], "day": ["mon", "wed"]}), mode="append")
    DeltaTable(str(visits.location)).delete("id = 2")
    write_deltalake(
        str(visits.location), pa.table({"id": [9], "day": ["wed"]}), mode="overwrite", predicate="day = 'wed'"
    )
    result = write_manifest(visits)
    assert (result.version, result.applied, result.changed) == (visits.ledger.version(), True, False)
    listed = ListedFiles.at(str(visits.location))
    assert (paths(listed), listed.version) == (live(visits), 3)
    assert by_duckdb(listed) == by_delta(visits) == in_order([(1, "mon"), (3, None), (4, "mon"), (9, "wed")])
    assert sum(each.rows for each in listed.files) == 4
    assert all((visits.location / each.path).stat().st_size == each.size_bytes for each in listed.files)
    DeltaTable(str(visits.location)).generate()
    symlinks = (visits.location / "_symlink_format_manifest").rglob("manifest")
    theirs = {line for file in symlinks for line in file.read_text().split()}
    assert {Path(each.removeprefix("file://")).name for each in theirs} == {Path(path).name for path in paths(listed)}
    with duckdb.connect() as reader:
        sql = f"SELECT count(*) FROM read_parquet('{visits.location}/**/*.parquet')"
        assert reader.sql(sql).fetchall() > [(4,)]
        hive = f"SELECT id, day FROM read_parquet({listed.addresses}, hive_partitioning = true)"
        assert in_order(reader.sql(hive).fetchall()) == by_delta(visits)


def test_types_and_odd_names_come_through(tmp_path):
    """Every type of a column that DuckDB has, nested ones too, a column that older files lack, odd partition values."""
    at = datetime(2026, 1, 5, 13, 30, tzinfo=timezone.utc)
    values = {
        "a b": pa.array([1, None], pa.int8()),
        "q\"'": pa.array(["x", "y"]),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        "local": pa.array([at.replace(tzinfo=None), None], pa.timestamp("us")),
        "on": pa.array([date(2026, 1, 5), None]),
        "raw": pa.array([b"\x00", None]),
        "ok": pa.array([True, None]),
        "share": pa.array([float("inf"), None]),
        "inner": pa.array([{"x": 1, "y": ["a"]}, None]),
        "many": pa.array([[1, 2], None]),
    }
    place = str(tmp_path / "odd")
    for key in ODD:
        named = {"key": pa.array([key, key]), "due": pa.array([at, None], pa.timestamp("us", "UTC"))}
        write_deltalake(place, pa.table({**values, **named}), partition_by=["key", "due"], mode="append")
    add = pa.table(
        {"key": ["late"], "due": pa.array([at], pa.timestamp("us", "UTC")), "new": pa.array([7], pa.int64())}
    )
    write_deltalake(place, add, mode="append", schema_mode="merge")
    table = Table.at(tmp_path / "odd", no_spark)
    write_manifest(table)
    listed = ListedFiles.at(table.location)
    assert {each.partition["key"] for each in listed.files} == {*ODD, "late"}
    assert by_duckdb(listed) == by_delta(table)
    listed.require_whole()


def test_partition_values_are_those_of_the_log_and_not_of_folders(visits):
    """A file that was given another partition value by metadata alone lies in a folder that lies."""
    state = visits.ledger.state()
    (add,) = [
        a["add"] for a in read_actions(visits.store, 0) if a.get("add", {}).get("partitionValues") == {"day": "mon"}
    ]
    moved = {**add, "partitionValues": {"day": "sun"}}
    gone = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1, "partitionValues": {"day": "mon"}}
    commit_actions(visits.store, state, [{"remove": gone}], record="moved", operation=Operation("WRITE"))
    commit_actions(visits.store, visits.ledger.state(), [{"add": moved}], record="moved", operation=Operation("WRITE"))
    write_manifest(visits)
    assert by_duckdb(ListedFiles.at(visits.location)) == in_order([(1, "sun"), (2, "tue"), (3, None)])


def test_a_table_without_rows_has_a_manifest_without_files(tmp_path):
    """Its query has the columns and no row."""
    write_protocol(
        tmp_path / "none",
        [
            field_of("id", "long"),
            field_of("m", {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}),
        ],
    )
    table = Table.at(tmp_path / "none", no_spark)
    assert write_manifest(table).figures == {"files": 0, "bytes": 0}
    with duckdb.connect() as reader:
        found = reader.sql(ListedFiles.at(table.location).duckdb_query())
        assert (found.columns, found.fetchall()) == (["id", "m"], [])


@settings(max_examples=30)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 5), st.sampled_from(["mon", "tue/1", None])),
            st.tuples(st.just("remove"), st.integers(0, 5), st.none()),
            st.tuples(st.just("write"), st.none(), st.none()),
        ),
        max_size=8,
    )
)
def test_the_newest_manifest_is_the_table_at_its_version(tmp_path_factory, steps):
    """Whatever was added and removed by whomever, against a plain dictionary; stale exactly after a commit."""
    folder = tmp_path_factory.mktemp("model")
    write_protocol(folder, [field_of("id", "long"), field_of("day", "string")], partition_by=["day"])
    table, model, written = Table.at(folder, no_spark), {}, None
    for what, number, day in [*steps, ("write", None, None)]:
        path = f"part-{number}.parquet"
        if what == "write":
            write_manifest(table)
            written = (table.ledger.version(), dict(model))
        elif what == "add" and path not in model:
            model[path] = (number, day)
            add = {
                "path": path,
                "partitionValues": {"day": day},
                "size": number,
                "modificationTime": 1,
                "dataChange": True,
            }
            commits.write(table.store, table.ledger.version() + 1, [{"add": add}])
        elif what == "remove" and path in model:
            del model[path]
            gone = {"path": path, "deletionTimestamp": 1, "dataChange": True}
            commits.write(table.store, table.ledger.version() + 1, [{"remove": gone}])
        if written:
            listed = ListedFiles.at(table.location)
            found = {each.path: (each.size_bytes, each.partition["day"]) for each in listed.files}
            assert (listed.version, found) == written
            assert judge_manifest(table).passed == (written[0] == table.ledger.version())


# --- staleness --------------------------------------------------------------------------------------------------------


def test_a_commit_without_a_manifest_is_reported_and_the_next_manifest_heals(visits):
    """Whoever commits: both versions are named, and readers have the rows of the former version until then."""
    missing = judge_manifest(visits)
    assert (missing.passed, missing.severity, missing.figures["manifest version"]) == (False, "warn", None)
    write_manifest(visits)
    assert judge_manifest(visits).passed
    before = by_duckdb(ListedFiles.at(visits.location))
    write_deltalake(str(visits.location), pa.table({"id": [4], "day": ["mon"]}), mode="append")
    stale = judge_manifest(visits)
    assert not stale.passed
    assert stale.figures == {"table version": 1, "manifest version": 0}
    assert "see version 0 of 1" in stale.note
    assert by_duckdb(ListedFiles.at(visits.location)) == before
    write_manifest(visits)
    assert judge_manifest(visits).passed
    assert by_duckdb(ListedFiles.at(visits.location)) == by_delta(visits)


@pytest.mark.both
@pytest.mark.spark
def test_a_run_writes_rows_and_manifest(spark, make_table):
    """A day is published, again with other rows, and again with the same; the manifest is of each version."""
    table = make_table(TableSpec("gold/views", {"id": Column("BIGINT"), "day": Column("DATE")}, partition_by=("day",)))
    for run, ids in (("1", [1, 2]), ("2", [2, 3]), ("2", [2, 3])):
        rows = spark.createDataFrame([(each, date(2026, 1, 5)) for each in ids], "id BIGINT, day DATE")
        into = table.target(a_run(run_id=run, inputs={"visits": run}), partition={"day": "2026-01-05"})
        overwrite_listed(rows, into)
        assert judge_manifest(table).passed
        listed = ListedFiles.at(table.location)
        assert [row[0] for row in by_duckdb(listed)] == ids == [row["id"] for row in read_back(table)]
        assert sorted(row["id"] for row in listed.rows(spark).collect()) == ids


def test_the_same_version_again_changes_nothing(visits):
    """No file of the manifest is written a second time."""
    write_manifest(visits)
    files = {path: path.stat().st_mtime_ns for path in (visits.location / "_manifest").iterdir()}
    assert not write_manifest(visits).applied
    assert {path: path.stat().st_mtime_ns for path in (visits.location / "_manifest").iterdir()} == files


def test_a_manifest_of_a_table_that_was_made_anew_is_stale(visits):
    """The version may be the same by chance; the table is another one."""
    write_manifest(visits)
    shutil.rmtree(visits.location / "_delta_log")
    write_deltalake(str(visits.location), pa.table({"id": [7], "day": ["sun"]}), partition_by=["day"], mode="overwrite")
    again = Table.at(visits.location, no_spark)
    assert again.ledger.version() == ListedFiles.at(again.location).version
    assert not judge_manifest(again).passed
    assert write_manifest(again).applied
    assert by_duckdb(ListedFiles.at(again.location)) == [(7, "sun")]


# --- publication ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["list", "pointer"])
def test_a_death_between_list_and_pointer_leaves_the_former_manifest(visits, monkeypatch, point):
    """Readers have the former list, whole; the run again writes the new one."""
    write_manifest(visits)
    before = by_duckdb(ListedFiles.at(visits.location))
    write_deltalake(str(visits.location), pa.table({"id": [4], "day": ["mon"]}), mode="append")
    puts = LocalStore.put

    def put(store, path, content):
        if path.endswith("newest.json") == (point == "pointer"):
            raise RuntimeError("killed")
        puts(store, path, content)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put", put)
        with pytest.raises(RuntimeError, match="killed"):
            write_manifest(visits)
    assert by_duckdb(ListedFiles.at(visits.location)) == before
    assert not judge_manifest(visits).passed
    write_manifest(visits)
    assert by_duckdb(ListedFiles.at(visits.location)) == by_delta(visits)


def test_readers_in_a_loop_never_see_half_a_manifest_and_never_go_back(visits):
    """Ten versions, two writers and a reader at once; few manifests are kept."""
    seen, done = [], Event()

    def publish():
        while not done.is_set():
            write_manifest(visits, kept=2)

    write_manifest(visits)
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(publish) for _ in range(2)]
        for number in range(1, 11):
            add = {"path": f"part-{number}.parquet", "partitionValues": {"day": "mon"}, "size": 1}
            add |= {"modificationTime": 1, "dataChange": True}
            commits.write(visits.store, number, [{"add": add}])
            for _ in range(10):
                listed = ListedFiles.at(visits.location)
                assert len(listed.files) == 3 + listed.version
                seen.append(listed.version)
        done.set()
        for each in writers:
            each.result()
    write_manifest(visits, kept=2)
    assert seen == sorted(seen)
    assert ListedFiles.at(visits.location).version == 10
    assert len(list((visits.location / "_manifest").iterdir())) <= 3


def test_vacuums_leave_manifests_and_few_are_kept(visits):
    """The library's, with no retention, and delta-rs' own; ten writes leave the last ones."""
    for number in range(6):
        write_deltalake(str(visits.location), pa.table({"id": [number], "day": ["mon"]}), mode="overwrite")
        write_manifest(visits, kept=3)
    names = sorted(path.name for path in (visits.location / "_manifest").iterdir())
    assert names == [*(f"{version:020d}.json" for version in (4, 5, 6)), "newest.json"]
    later = datetime(2100, 1, 1, tzinfo=timezone.utc)
    removed = vacuum(visits.target(a_run()), retention_hours=0, now=later, allow_unsafe=True).figures["files_removed"]
    DeltaTable(str(visits.location)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert removed > 0
    assert sorted(path.name for path in (visits.location / "_manifest").iterdir()) == names
    assert by_duckdb(ListedFiles.at(visits.location)) == by_delta(visits)


@pytest.mark.spark
def test_a_manifest_has_a_size_and_compaction_is_the_remedy(spark, tmp_path):
    """Too many files or bytes are refused with the pointer to compaction; readers keep the former list until then."""
    place = tmp_path / "small"
    write_deltalake(str(place), pa.table({"id": [0]}))
    table = Table.at(place, spark)
    write_manifest(table, most_files=2)
    for number in range(1, 4):
        write_deltalake(str(place), pa.table({"id": [number]}), mode="append")
    for options in ({"most_files": 2}, {"most_bytes": 500}):
        with pytest.raises(
            ContractError, match=r"has 4 in .* merge small files first \(ingestion\.compactor\.compact\)"
        ):
            write_manifest(table, **options)
    assert by_duckdb(ListedFiles.at(table.location)) == [(0,)]
    compact(table.target(a_run()), min_small_files=2)
    assert write_manifest(table, most_files=2).figures["files"] == 1
    assert by_duckdb(ListedFiles.at(table.location)) == [(0,), (1,), (2,), (3,)] == by_delta(table)


def test_checksums_are_of_the_bytes_and_each_file_is_read_once(visits, monkeypatch):
    """Of new files alone; a manifest without checksums keeps those that are known."""
    opened, opens = [], LocalStore.open
    monkeypatch.setattr(LocalStore, "open", lambda store, path: opened.append(path) or opens(store, path))
    write_manifest(visits, checksums=True)
    for each in ListedFiles.at(visits.location).files:
        assert each.sha256 == hashlib.sha256((visits.location / each.path).read_bytes()).hexdigest()
    assert sorted(opened) == sorted(live(visits))
    write_deltalake(str(visits.location), pa.table({"id": [4], "day": ["mon"]}), mode="append")
    write_manifest(visits)
    assert [each.sha256 == "" for each in ListedFiles.at(visits.location).files].count(True) == 1
    write_manifest(visits, checksums=True)
    assert all(each.sha256 for each in ListedFiles.at(visits.location).files)
    assert len(opened) == 4


# --- buckets ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(object_store, bucket_store, monkeypatch):
    """A proxy that sees every request."""
    with proxied(object_store, monkeypatch) as running:
        yield running


def test_readers_of_a_bucket_list_nothing(tmp_path, bucket_store, proxy):
    """Requests counted by a proxy: two gets for the manifest, none lists, nor does DuckDB; opening the log does."""
    write_deltalake(str(tmp_path / "visits"), FIRST, partition_by=["day"])
    for file in (path for path in (tmp_path / "visits").rglob("*") if path.is_file()):
        bucket_store.put(file.relative_to(tmp_path / "visits").as_posix(), file.read_bytes())
    table = Table.at(bucket_store, no_spark, name="visits")
    assert write_manifest(table).applied
    with proxy.counting() as looked:
        listed = ListedFiles.at(bucket_store.address)
    assert looked == {"get": 2}
    with proxy.counting() as read:
        found = in_a_process(listed.duckdb_query())
    assert found == str(in_order([(1, "mon"), (2, "tue"), (3, None)]))
    with proxy.counting() as verified:
        listed.require_whole()
    assert (read["list"], verified["list"]) == (0, 0)
    assert read["get"] >= 3
    with proxy.counting() as control:
        delta_table(bucket_store).file_uris()
    assert control["list"] > 0
    bucket_store.delete(listed.files[0].path)
    assert Path(listed.files[0].path).name in in_a_process(listed.duckdb_query())
    with pytest.raises(ContractError, match=r"\.parquet is missing; the manifest lists"):
        listed.require_whole()


def in_a_process(query):
    """Rows of a query, or the error, by DuckDB in a process of its own: a query holds the lock of Python's threads."""
    done = subprocess.run(
        [sys.executable, "-c", READER, query], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout.strip() or done.stderr


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_missing_or_changed_file_is_an_error_with_its_name(visits):
    """Never the rows of the other files alone."""
    write_manifest(visits)
    listed = ListedFiles.at(visits.location)
    gone, cut = (visits.location / each.path for each in listed.files[:2])
    gone.rename(gone.with_suffix(".away"))
    with pytest.raises(duckdb.IOException, match=gone.name):
        by_duckdb(listed)
    with pytest.raises(ContractError, match=f"{gone.name} is missing"):
        listed.rows(None)
    cut.write_bytes(cut.read_bytes()[:-1])
    with pytest.raises(ContractError, match=f"{gone.name} is missing, .*{cut.name} has [0-9]+ of [0-9]+ bytes"):
        listed.require_whole()


def refused(table, reason):
    with pytest.raises(ContractError, match=f"{reason}.*a manifest would lie, and none was written"):
        write_manifest(table)
    with pytest.raises(ContractError, match=f"{reason}.*none was written"):
        overwrite_listed(Split(None, {}), table.target(a_run()))  # no row is looked at
    assert not (table.location / "_manifest").exists()


def test_tables_whose_files_do_not_tell_the_rows_are_refused(visits, tmp_path):
    """Deletion vectors, columns under other names, files elsewhere: DuckDB would read other rows without an error."""
    vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    features = ["deletionVectors"]
    add = {"path": "a.parquet", "partitionValues": {}, "size": 9, "modificationTime": 1, "dataChange": True}
    plain = [field_of("id", "long")]
    write_protocol(
        tmp_path / "dv", plain, readers=features, writers=features, more=[{"add": {**add, "deletionVector": vector}}]
    )
    refused(Table.at(tmp_path / "dv", no_spark), "deletion vectors delete")
    write_protocol(tmp_path / "purged", plain, readers=features, writers=features, more=[{"add": add}])
    assert write_manifest(Table.at(tmp_path / "purged", no_spark)).applied

    def mapped(place, stored):
        inner = field_of("x", "long", **{"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": stored})
        struct = {"type": "struct", "fields": [inner]}
        outer = field_of("s", struct, **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "s"})
        settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
        write_protocol(tmp_path / place, [outer], configuration=settings, version=(2, 5))
        return Table.at(tmp_path / place, no_spark)

    refused(mapped("renamed", "col-1"), r"stores x under other names \(column mapping\)")
    assert write_manifest(mapped("same", "x")).applied
    elsewhere = {**add, "path": f"file://{tmp_path}/other/b.parquet", "partitionValues": {"day": "mon"}}
    commits.write(visits.store, 1, [{"add": elsewhere}])
    refused(visits, "files outside of its folder")


@pytest.mark.parametrize("option", ["most_files", "most_bytes", "kept"])
def test_bounds_below_one_are_refused(visits, option):
    """By the option's name, before anything is written."""
    with pytest.raises(ConfigError, match=f"{option} must be at least 1, not 0"):
        write_manifest(visits, **{option: 0})
    assert not (visits.location / "_manifest").exists()


def test_damaged_manifests_are_refused_and_written_again(visits):
    """A damaged pointer, a damaged list, a list that is gone, and lists of files that are not the table's."""
    write_manifest(visits)
    pointer, listed = (visits.location / "_manifest" / name for name in ("newest.json", f"{0:020d}.json"))
    whole = listed.read_text()
    for file, text in [
        (pointer, ""),
        (pointer, "[]"),
        (listed, whole[:50]),
        (listed, None),
        (listed, whole.replace('"files": {"', '"files": {"../')),
        (listed, whole.replace('"files": {"', '"files": {"/')),
        (listed, whole.replace('"size": ', '"size": -')),
    ]:
        file.unlink() if text is None else file.write_text(text)
        with pytest.raises(ContractError, match=r"damaged|not below its folder|no number of bytes"):
            ListedFiles.at(visits.location)
        assert not judge_manifest(visits).passed
        assert write_manifest(visits).applied
        assert by_duckdb(ListedFiles.at(visits.location)) == by_delta(visits)
    with pytest.raises(NotReady, match="has no manifest"):
        ListedFiles.at(str(visits.location.parent / "nothing"))


def test_a_type_that_duckdb_has_not_is_refused_by_its_column(tmp_path):
    """Files can be taken from the list all the same."""
    features = ["variantType"]
    write_protocol(tmp_path / "v", [field_of("about", "variant")], readers=features, writers=features)
    table = Table.at(tmp_path / "v", no_spark)
    write_manifest(table)
    with pytest.raises(ConfigError, match="about must be of a type that DuckDB has, not variant"):
        ListedFiles.at(table.location).duckdb_query()


# --- deliveries -------------------------------------------------------------------------------------------------------


@pytest.fixture
def delivery(tmp_path):
    """A folder with two files and a manifest in its marker."""
    with delivering(tmp_path / "landing/2026-01-05") as folder:
        for number, line in enumerate(LINES):
            (folder / f"part-{number}.jsonl").write_text(line + "\n")
    return folder


@pytest.mark.both
@pytest.mark.spark
def test_a_load_reads_what_its_manifest_lists_and_nothing_else(spark, delivery, make_table):
    """A file that is dropped before the load, one during it, and a repeated load: the same rows.

    The control, all files of the folder, has more.
    """
    table = make_table(TableSpec("bronze/users", {"id": Column("BIGINT")}))
    (delivery / "part-8.jsonl").write_text('{"id": 8}\n')
    for run in ("1", "2"):
        listed = ListedFiles.at(str(delivery))
        rows = listed.rows(spark, form="json", columns="id BIGINT")
        (delivery / f"part-9{run}.jsonl").write_text('{"id": 9}\n')
        load_full(rows, table.target(run))
        assert [row["id"] for row in read_back(table)] == [1, 2]
    assert spark.read.json(str(delivery)).count() == 5
    (delivery / "part-1.jsonl").write_text('{"id": 7777}\n')
    with pytest.raises(ContractError, match=r"part-1\.jsonl has 13 of 10 bytes"):
        ListedFiles.at(str(delivery)).rows(spark, form="json", columns="id BIGINT")


def test_deliveries_without_a_list_or_with_a_wrong_one_are_refused(delivery):
    """An empty marker lists nothing; names of other folders are not taken."""
    marker = delivery / "_SUCCESS"
    with pytest.raises(ConfigError, match="must be a table for a query, not a delivery"):
        ListedFiles.at(str(delivery)).duckdb_query()
    for text, error, reason in [
        ("", NotReady, "has no manifest"),
        ("{", ContractError, "begins like a manifest and is none"),
        (json.dumps({"files": {"../other/a.jsonl": 1}}), ContractError, "not below its folder"),
        (json.dumps({"files": {"a.jsonl": "10"}}), ContractError, "no number of bytes"),
    ]:
        marker.write_text(text)
        with pytest.raises(error, match=reason):
            ListedFiles.at(str(delivery))


@known_calls
def calls_that_work(known):
    return {"write_manifest": {"table": known.daily}, "judge_manifest": {"table": known.daily}}


@two_runs(under_one_lock=True)
def listed_at_once(world):
    columns = "id INT, day STRING"
    world.table("listed", columns, by=["day"])
    overwrite_partition(world.frame(columns, (1, "mon")), world.into("listed", "base", "mon"))
    yield lambda w: write_manifest(w["listed"])
    yield lambda w: overwrite_partition(w.frame(columns, (9, "mon")), w.into("listed", "2", "mon"))


@two_runs()
def overwritten_and_listed_at_once(world):
    columns = "id INT, day STRING"
    world.table("listed", columns, by=["day"])
    overwrite_listed(world.frame(columns, (1, "mon")), world.into("listed", "base", "mon"))
    yield lambda w: overwrite_listed(w.frame(columns, (2, "mon")), w.into("listed", "1", "mon"))
    yield lambda w: overwrite_listed(w.frame(columns, (3, "mon")), w.into("listed", "2", "mon"))
