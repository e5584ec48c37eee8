"""Changes by deletion vectors: the rows, what is written, who may interfere, and what becomes of the vectors' files."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Delete, Insert, Merge, Table, Update
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.fsck import verify_table
from dedp_assets.patterns.delta.maintenance import compaction
from dedp_assets.patterns.delta.rows import copy_on_write, marking
from dedp_assets.patterns.delta.snapshots.lost_files import lost_files
from dedp_assets.patterns.delta.versions import content_of
from dedp_assets.patterns.ingestion.compactor import compact, vacuum
from dedp_assets.patterns.storage.dataset_materializer import materialize
from dedp_assets.patterns.storage.manifest import ListedFiles, write_manifest
from dedp_assets.patterns.storage.time_travel import compare_versions, roll_back, set_milestone
from tests import shared_engine
from tests.helpers import a_run, active_files, rows_at

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(60, "generated changes by vectors and by copies, with other writers and killed processes"),
]

MARKED = {"delta.enableDeletionVectors": "true"}
USERS = TableSpec(
    "silver/users",
    {"id": Column("INT"), "city": Column("STRING"), "v": Column("INT"), "day": Column("STRING")},
    partition_by=("day",),
    properties={**MARKED, "delta.checkpointInterval": "3"},
)
UPSERT = Merge(["id"], [Delete(when="s.v < 0"), Update(), Insert(when="s.v >= 0")])
SCHEMA = "id INT, city STRING, v INT, day STRING"


@pytest.fixture
def users(make_table):
    """A table with deletion vectors, of one file with 100 rows on each of two days."""
    return filled(make_table(USERS))


def filled(table):
    made = ["int(id) AS id", "concat('c', id % 7) AS city", "int(id) AS v", "if(id < 100, 'mon', 't/u e') AS day"]
    table.append(table.session.range(200).selectExpr(*made).coalesce(1), provenance=a_run(sequence=1))
    return table


def changes(table, *rows):
    return table.session.createDataFrame(list(rows), SCHEMA).coalesce(1)


def by_every_reader(table):
    """The rows as the library, Spark's Delta reader and delta-rs read them, which is one answer.

    DuckDB, whose extension for Delta tables comes by the network alone, reads a manifest: of a table without vectors
    the same rows, with vectors none.
    """
    library = sorted(map(tuple, table.read().collect()))
    spark = table.session.read.format("delta").load(table.store.address)
    assert sorted(map(tuple, spark.select(*table.spec.columns).collect())) == library
    assert without_spark(table) == library
    if vectors_of(table):
        with pytest.raises(ContractError, match="rows that deletion vectors delete"):
            write_manifest(table)
    else:
        write_manifest(table)
        listed = ListedFiles.at(table.store.address).duckdb_query()
        assert sorted(duckdb.sql(f"SELECT {', '.join(table.spec.columns)} FROM ({listed})").fetchall()) == library
    return library


def without_spark(table):
    """The rows as delta-rs reads them."""
    return sorted(tuple(row[c] for c in table.spec.columns) for row in rows_at(table.store))


def rows_by_log(table):
    known = table.ledger.state().statistics().values()
    assert all(each.exact for each in known)
    return sum(each.rows for each in known)


def vectors_of(table):
    return [file["deletionVector"]["cardinality"] for file in table.ledger.state().files() if "deletionVector" in file]


def bin_files(table):
    return {path.name for path in table.location.rglob("deletion_vector_*.bin")}


# --- the rows ---------------------------------------------------------------------------------------------------------


class Model:
    """A table with deletion vectors, one without, a dictionary, and the versions of the past."""

    def __init__(self, marked, copied):
        self.rng, self.marked, self.copied = random.Random(11), marked, copied  # noqa: S311 - no secret
        self.rows = {row[0]: row for row in by_every_reader(marked)}
        self.past = {marked.ledger.version(): self.rows}

    def merge(self, number):
        ids, days = self.rng.sample(range(260), 12), ["mon", "t/u e", "wed"]
        rows = [(n, f"m{number}", self.rng.randint(-3, 9), self.rng.choice(days)) for n in ids]
        gone = {row[0] for row in rows if row[2] < 0}
        merged = self.rows | {row[0]: row for row in rows}
        self.rows = {n: row for n, row in merged.items() if n not in gone}
        run, tables = a_run(sequence=number), (self.marked, self.copied)
        ours, theirs = (table.merge(changes(table, *rows), UPSERT, provenance=run) for table in tables)
        assert ours.figures == theirs.figures

    def delete(self, number):
        self.rows = {n: row for n, row in self.rows.items() if n % 9 != number % 9}
        for table in (self.marked, self.copied):
            table.delete(f"id % 9 = {number % 9}", provenance=a_run(sequence=number))

    def purge(self, number):
        compact(self.marked.target(a_run(sequence=number)), max_deleted_share=0)
        assert not vectors_of(self.marked)

    def foreign(self, number):
        self.rows = {n: row for n, row in self.rows.items() if n % 13 != number}
        for table in (self.marked, self.copied):
            table.session.sql(f"DELETE FROM delta.`{table.store.address}` WHERE id % 13 = {number}")

    def restore(self, number):
        version, run = self.rng.choice([*self.past]), a_run(sequence=number)
        self.rows = self.past[version]
        self.marked.restore(version, provenance=run)
        self.copied.overwrite(self.copied.session.createDataFrame([*self.rows.values()], SCHEMA), provenance=run)

    def holds(self):
        content = by_every_reader(self.marked)
        self.past[self.marked.ledger.version()] = self.rows
        known = rows_by_log(self.marked) == len(self.rows)
        return known and content == sorted(map(tuple, self.copied.read().collect())) == sorted(self.rows.values())


def test_random_changes_equal_copies_and_a_dictionary(make_table):
    """Merges, deletes, foreign deletes, a restore and a purge, over checkpoints: one content by every reader."""
    model = Model(filled(make_table(USERS)), filled(make_table(replace(USERS, name="silver/copied", properties={}))))
    kinds = ["merge", "delete", "foreign", "purge", "merge", "restore", "merge", "purge"]
    for number, kind in enumerate(kinds, 3):
        getattr(model, kind)(number)
        assert model.holds(), kind
    version = model.rng.choice([*model.past])
    then = sorted(map(tuple, model.marked.read(version=version).collect()))
    assert then == sorted(model.past[version].values()), version


@pytest.mark.both
def test_a_merge_writes_the_changed_rows_and_a_bitmap(users, make_table):
    """The files stay; of a file without a row nothing stays; without the property the file is written again."""
    before = active_files(users)
    three = changes(users, (3, "x", 1, "mon"), (500, "y", 1, "mon"), (4, "", -1, "mon"))
    merged = users.merge(three, UPSERT, provenance=a_run(sequence=3))
    counted = {"inserted": 1, "updated": 1, "deleted": 1, "unused": 0, "untouched": 198, "before": 200, "after": 200}
    assert {name: merged.figures[name] for name in counted} == counted
    assert before < active_files(users)
    assert vectors_of(users) == [2]
    written = users.ledger.commit(users.ledger.version())
    assert written.metrics["numDeletionVectorsAdded"] == "1"
    plain = filled(make_table(replace(USERS, name="silver/plain", properties={})))
    held = active_files(plain)
    plain.merge(changes(plain, (3, "x", 1, "mon")), UPSERT, provenance=a_run(sequence=3))
    assert len(held & active_files(plain)) == 1
    users.delete("day = 't/u e'", provenance=a_run(sequence=4))
    assert len(active_files(users) & before) == 1
    assert vectors_of(users) == [2]


def test_rows_of_keys_are_recomputed_in_place(users):
    """A recomputation marks what it changes, and leaves the rest of the keys' rows where they are."""

    def with_one_more(present, source):
        return present.selectExpr("id", "city", "if(id = 7, v + 1, v) AS v", "day").unionByName(source)

    source = users.session.createDataFrame([(900, "c0", 0, "mon")], SCHEMA)
    done = users.recompute(
        source, keys=["city"], identity=["city", "id"], compute=with_one_more, provenance=a_run(sequence=3)
    )
    assert [done.figures[name] for name in ("inserted", "updated", "deleted")] == [1, 1, 0]
    assert vectors_of(users) == [1]
    assert (7, "c0", 8, "mon") in by_every_reader(users)
    assert rows_by_log(users) == 201


def test_an_insert_into_a_table_that_only_grows_marks_nothing(make_table):
    """Append-only tables take merges without a match, and refuse those with one."""
    table = filled(make_table(replace(USERS, properties={**MARKED, "delta.appendOnly": "true"})))
    new = Merge(["id"], [Insert()])
    assert table.merge(changes(table, (500, "y", 1, "mon")), new, provenance=a_run(sequence=3)).figures["inserted"] == 1
    with pytest.raises(ConfigError, match="append-only"):
        table.merge(changes(table, (5, "y", 1, "mon")), UPSERT, provenance=a_run(sequence=4))
    assert (vectors_of(table), rows_by_log(table)) == ([], 201)


# --- readers of changes and of the past -------------------------------------------------------------------------------


def test_readers_of_changes_know_vectors(users, make_table):
    """Changed partitions, and the refresh of a copy by them, see what a vector deletes; a purge changes nothing."""
    counts = TableSpec("gold/days", {"day": Column("STRING", required=True), "users": Column("BIGINT")}, key=("day",))
    copy, query = make_table(counts), "SELECT day, count(*) AS users FROM {base} GROUP BY ALL"

    def refreshed():
        done = materialize(users, copy.target(a_run(copy.name)), query=query)
        return done.figures["partitions read"], sorted(map(tuple, copy.read().collect()))

    assert refreshed() == (2, [("mon", 100), ("t/u e", 100)])
    first = users.ledger.version()
    marked(users)
    assert {dict(key)["day"] for key in users.ledger.changes(since=first)[1]} == {"mon"}
    assert refreshed() == (1, [("mon", 98), ("t/u e", 100)])
    last = users.ledger.version()
    compact(users.target(a_run()), max_deleted_share=0)
    assert users.ledger.changes(since=last)[1] == {}
    assert refreshed() == (0, [("mon", 98), ("t/u e", 100)])


def marked(table):
    """Three rows of a day are marked, of which one stays with another value."""
    table.merge(changes(table, (3, "x", 1, "mon"), (4, "", -1, "mon")), UPSERT, provenance=a_run(sequence=3))
    table.delete("id = 5", provenance=a_run(sequence=4))


def test_the_past_of_a_marked_table_is_read_compared_and_restored(users):
    """By a milestone that a vacuum keeps; a table that shows versions by their files refuses vectors by name."""
    before = without_spark(users)
    set_milestone(users.target(a_run()), name="full")
    marked(users)
    after = without_spark(users)
    found = compare_versions(users, keys=["id"], before="full")
    assert (found.passed, found.figures["samples"].count("id ")) == (False, 3), found.figures
    compact(users.target(a_run()), max_deleted_share=0)
    late = users.ledger.commit(users.ledger.version()).timestamp + timedelta(days=40)
    vacuum(users.target(a_run()), retention_hours=168, now=late)
    assert sorted(map(tuple, users.read(version="full").collect())) == before
    set_milestone(users.target(a_run()), name="full", change="release")
    users.delete("id = 6", provenance=a_run(sequence=5))
    roll_back(users.target(a_run()), to=users.ledger.version() - 1, because="a mistake")
    assert without_spark(users) == after
    users.delete("id = 7", provenance=a_run(sequence=6))
    with pytest.raises(ContractError, match="a version is shown by its files: compact the version"):
        content_of(users)


def test_a_change_feed_of_a_marked_table_has_each_changed_row(make_table):
    """Only Spark writes change data: a merge of such a table is Spark's, with vectors of Spark's."""
    fed = filled(make_table(replace(USERS, properties={**MARKED, "delta.enableChangeDataFeed": "true"})))
    rows = changes(fed, (3, "x", 1, "mon"), (500, "y", 1, "mon"), (4, "", -1, "mon"))
    version = fed.merge(rows, UPSERT, provenance=a_run(sequence=3)).version
    feed = fed.session.read.option("readChangeFeed", True).option("startingVersion", version).format("delta")
    found = {(row["id"], row["_change_type"]) for row in feed.load(fed.store.address).collect()}
    assert found == {(3, "update_preimage"), (3, "update_postimage"), (500, "insert"), (4, "delete")}
    assert vectors_of(fed) == [2]
    assert {row[0] for row in by_every_reader(fed)} == {*range(200), 500} - {4}


# --- deaths -----------------------------------------------------------------------------------------------------------


STEPS = {"vectors": (marking, "write_vectors"), "commit": (commits, "write")}


def merge_and_die(gateway, place, rows, number, when, step):
    """Merge on the engine of the test, in a process that kills itself before or after a step."""
    shared_engine.attach(*gateway)
    table = Table(USERS, place, SparkEngine().session)
    real = getattr(*STEPS[step])

    def killed(store, *args, **kwargs):
        here = step == "vectors" or store.address == table.store.address  # a stage has a log of its own
        done = None if here and when == "before" else real(store, *args, **kwargs)
        _ = os.kill(os.getpid(), signal.SIGKILL) if here else None
        return done

    setattr(*STEPS[step], killed)
    table.merge(changes(table, *rows), UPSERT, provenance=a_run(sequence=number))


@pytest.mark.slow
def test_a_killed_merge_is_all_there_or_nothing_of_it(users):
    """Killed with SIGKILL around the vectors and around the commit: a retry ends it, and a vacuum what was left."""
    gateway = users.session.sparkContext._gateway
    users.delete("id = 150", provenance=a_run(sequence=3))
    before = {row[0]: row for row in without_spark(users)}
    rows = [(3, "x", 1, "mon"), (500, "y", 1, "mon"), (4, "", -1, "mon")]
    after = sorted(row for n, row in (before | {row[0]: row for row in rows}).items() if n != 4)

    def kill(when, step, rows, number):
        given = shared_engine.open_gateway(gateway), str(users.location), rows, number, when, step
        process = get_context("spawn").Process(target=merge_and_die, args=given)
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, (when, step)

    for when, step in (("before", "vectors"), ("after", "vectors"), ("before", "commit")):
        kill(when, step, rows, 4)
        assert without_spark(users) == sorted(before.values()), (when, step)
    assert users.merge(changes(users, *rows), UPSERT, provenance=a_run(sequence=4)).applied
    assert without_spark(users) == after
    kill("after", "commit", [(5, "", -1, "mon")], 5)
    assert without_spark(users) == [row for row in after if row[0] != 5]
    assert not users.merge(changes(users, (5, "", -1, "mon")), UPSERT, provenance=a_run(sequence=5)).applied
    late = users.ledger.commit(users.ledger.version()).timestamp + timedelta(days=40)
    vacuum(users.target(a_run()), retention_hours=168, now=late)
    assert {name.rpartition("/")[2] for name in users.ledger.vector_files()} == bin_files(users)
    assert by_every_reader(users) == [row for row in after if row[0] != 5]


# --- other writers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def before_lock(monkeypatch):
    """``before_lock(action)``: another writer acts once, when rows are staged and not yet published."""

    def interposed(action):
        real, tried = copy_on_write.turn, []

        def turn(location):
            tried.append(1)
            if len(tried) == 1:
                action()
            return real(location)

        monkeypatch.setattr(copy_on_write, "turn", turn)
        return tried

    return interposed


@pytest.mark.parametrize("other", ["another vector of the file", "a purge"])
def test_a_file_marked_or_purged_meanwhile_is_marked_again(users, before_lock, other):
    """The path is the same and the rows are not: both deletions stand."""
    users.delete("id = 50", provenance=a_run(sequence=3))

    def interfere():
        if other == "a purge":
            compact(users.target(a_run(run_id="purge")), max_deleted_share=0)
        else:
            users.session.sql(f"DELETE FROM delta.`{users.store.address}` WHERE id = 60")

    tried = before_lock(interfere)
    users.merge(changes(users, (3, "x", 1, "mon")), UPSERT, provenance=a_run(sequence=4))
    gone = {50, 60} if other != "a purge" else {50}
    assert len(tried) == 2
    assert {row[0] for row in by_every_reader(users)} == {*range(200)} - gone


def test_a_purge_gives_way_to_a_vector_of_the_same_file(users, monkeypatch):
    """What was deleted while files were written again stays deleted."""
    users.delete("id = 50", provenance=a_run(sequence=3))
    real = compaction.turn

    def turn(location):
        monkeypatch.setattr(compaction, "turn", real)
        users.delete("id = 51", provenance=a_run(sequence=4))
        return real(location)

    monkeypatch.setattr(compaction, "turn", turn)
    assert "gave way" in compact(users.target(a_run(run_id="purge")), max_deleted_share=0).reason
    assert {row[0] for row in by_every_reader(users)} == {*range(200)} - {50, 51}


# --- the vectors' files -----------------------------------------------------------------------------------------------


def test_a_vacuum_keeps_the_vectors_in_use_and_removes_the_others(users):
    """Of the newest version, of versions within the retention, and of nobody; what is read stays right."""
    for number in (3, 4):
        users.delete(f"id = {number}", provenance=a_run(sequence=number))
    (users.location / f"deletion_vector_{'0' * 8}-0000-0000-0000-{'0' * 12}.bin").write_bytes(b"of a death")
    newest = users.ledger.commit(users.ledger.version()).timestamp
    late = newest + timedelta(days=9)
    assert len(bin_files(users)) == 3
    before = by_every_reader(users)
    vacuum(users.target(a_run()), retention_hours=24 * 30, now=newest)
    assert len(bin_files(users)) == 3
    vacuum(users.target(a_run()), retention_hours=168, now=late)
    assert (len(bin_files(users)), by_every_reader(users)) == (1, before)
    compact(users.target(a_run()), max_deleted_share=0)
    vacuum(users.target(a_run()), retention_hours=168, now=late)
    assert (len(bin_files(users)), by_every_reader(users)) == (0, before)


def test_a_change_that_is_refused_or_overtaken_leaves_no_vector(users, before_lock):
    """Vectors lie in the stage of the rows and go with the stage."""
    before_lock(lambda: users.session.sql(f"DELETE FROM delta.`{users.store.address}` WHERE id = 60"))
    users.delete("id = 61", provenance=a_run(sequence=3))
    named = {name.rpartition("/")[2] for name in users.ledger.vector_files()}
    own = {path.name for path in users.location.glob("*staged-*/deletion_vector_*.bin")}
    assert len(own) == 1
    assert own <= named


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_a_damaged_vector_is_an_error_and_no_row(users, damage):
    """Each reader of positions names the file, and the checks of a table find a missing one."""
    users.delete("id = 5", provenance=a_run(sequence=3))
    (file,) = users.location.rglob("deletion_vector_*.bin")
    if damage == "gone":
        file.unlink()
        assert [lost.path.rpartition("/")[2] for lost in lost_files(users.store, users.ledger.state())] == [file.name]
        assert not verify_table(users.ledger).sound
    else:
        raw = bytearray(file.read_bytes())
        raw[20] ^= 1
        file.write_bytes(bytes(raw))
    with pytest.raises(ContractError, match=f"deletion vector .*{file.name} cannot be read"):
        users.delete("id = 6", provenance=a_run(sequence=4))


def test_plain_readers_get_a_purged_table_or_a_refusal(users):
    """DuckDB cannot know of vectors: a manifest is refused with the option that purges, and is made after it."""
    users.delete("id % 2 = 0", provenance=a_run(sequence=3))
    with pytest.raises(ContractError, match=r"purge them first \(compact with max_deleted_share=0\)"):
        write_manifest(users)
    purged = compact(users.target(a_run()), max_deleted_share=0)
    assert (purged.changed, purged.figures["partitions"]) == (False, 2)
    assert write_manifest(users).applied
    assert DeltaTable(str(users.location)).count() == pa.table({"n": range(100)}).num_rows
    assert compact(users.target(a_run()), max_deleted_share=0).reason.startswith("nothing to compact")
