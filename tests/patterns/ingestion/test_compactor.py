"""Compaction: fewer files, the same rows; readers, writers and late-data detection notice nothing; the past is kept."""

from __future__ import annotations

import gc
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Ledger, Merge, Table, Update, table_lock
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.maintenance import compaction
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.compactor import compact, plan_compaction, vacuum
from tests.contracts.known_calls import known_calls
from tests.helpers import EVENTS, NOW, a_record, a_run, active_files, read_back, write_log
from tests.two_runs import two_runs

pytestmark = pytest.mark.budget(70, "many small files are written first")

DAYS = ("2026-01-05", "2026-01-06")
DAY, NEXT_DAY = ({"event_date": day} for day in DAYS)
WEEK = 7 * 24


@pytest.fixture
def events(created_events):
    """An empty table of :data:`EVENTS`."""
    return created_events


@pytest.fixture
def small(events):
    """Twelve tiny files on each of two days: ids 0 to 11 and 12 to 23."""
    append(events, range(12), DAYS[0])
    append(events, range(12, 24), DAYS[1])
    return events


@pytest.fixture
def meanwhile(monkeypatch):
    """``meanwhile(action)``: somebody acts after the files are rewritten and before they are exchanged."""

    def interposed(action):
        real = compaction._exchange

        def exchange(*arguments):
            monkeypatch.setattr(compaction, "_exchange", real)
            action()
            return real(*arguments)

        monkeypatch.setattr(compaction, "_exchange", exchange)

    return interposed


def append(table, numbers, day):
    """One commit for each number, by a foreign writer: a tiny file with one row."""
    folder, version = table.location / f"event_date={day}", table.ledger.version()
    folder.mkdir(exist_ok=True)
    for number in numbers:
        file = folder / f"tiny-{number}.parquet"
        pq.write_table(pa.table({"id": [number], "user_id": [f"u{number}"], "amount": [1.0]}), file)
        add = {
            "path": file.relative_to(table.location).as_posix(),
            "partitionValues": {"event_date": day},
            "size": file.stat().st_size,
            "modificationTime": file.stat().st_mtime_ns // 1_000_000,
            "dataChange": True,
            "stats": json.dumps({"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}}),
        }
        info = {"timestamp": add["modificationTime"], "operation": "WRITE"}
        version += 1
        commits.write(table.store, version, [{"commitInfo": info}, {"add": add}])


def ids(table, version=None):
    return sorted(row["id"] for row in read_back(table, version))


def ids_by_spark(table):
    return sorted(row["id"] for row in table.session.read.format("delta").load(str(table.location)).collect())


def ids_of(rows):
    return sorted(row["id"] for row in rows.collect())


def last_commit(table):
    return table.ledger.commit(table.ledger.version())


def later(table, days):
    """The time this many days after the table's newest commit."""
    return last_commit(table).timestamp + timedelta(days=days)


def on_disk(table):
    """Data files below the table's folder, relative to it."""
    return {path.relative_to(table.location).as_posix() for path in table.location.rglob("*.parquet")} - {
        path.relative_to(table.location).as_posix() for path in table.location.glob("_delta_log/*.parquet")
    }


def stages(table):
    return {path.name for path in table.location.glob("staged-*")}


# --- what a compaction does -------------------------------------------------------------------------------------------


def test_hundreds_of_tiny_appends_become_one_file_a_day(events):
    """Same rows, one commit that changes none of them, before and after in the figures; a second run does nothing."""
    append(events, range(100), DAYS[0])
    append(events, range(100, 200), DAYS[1])
    rows, before = read_back(events), events.ledger.version()
    size = sum(file["size_bytes"] for file in events.ledger.state().files())
    result = compact(events.target(a_run(run_id="run-7")))
    assert (result.applied, result.changed, result.version) == (True, False, before + 1)
    assert (result.figures["files_before"], result.figures["files_after"]) == (200, 2)
    assert result.figures["bytes_before"] == size
    assert (
        result.figures["bytes_after"] == sum(file["size_bytes"] for file in events.ledger.state().files()) < size / 10
    )
    assert (len(active_files(events)), read_back(events), ids_by_spark(events)) == (2, rows, list(range(200)))
    commit = last_commit(events)
    assert (commit.operation, commit.changed, commit.maintenance.run_id) == ("OPTIMIZE", frozenset(), "run-7")
    assert (commit.maintenance.pattern, commit.maintenance.figures) == ("ingestion.compactor", result.figures)
    cost = commit.maintenance.cost
    assert (cost.files_read, cost.bytes_read, cost.files_written, cost.rows_written, cost.attempts) == (
        *(200, size),
        *(2, 200, 1),
    )
    assert cost.bytes_written == commit.bytes_added
    assert cost.seconds >= cost.staging_seconds > 0
    raw = (events.location / "_delta_log" / f"{commit.version:020d}.json").read_text().splitlines()
    moved = [file for line in raw for kind, file in json.loads(line).items() if kind in ("add", "remove")]
    assert (len(moved), {file["dataChange"] for file in moved}) == (202, {False})
    files = active_files(events)
    again = compact(events.target(a_run()))
    assert (again.applied, again.version, active_files(events)) == (False, before + 1, files)
    assert again.reason == "nothing to compact: no partition has 10 or more files below 134217728 bytes to merge"


@pytest.mark.both
def test_deltas_own_history_names_the_compaction_and_later_statements_work_on_its_files(small, spark):
    """Spark shows operation and record, reads the rows, and deletes and merges on the merged files."""
    compact(small.target(a_run(run_id="run-7")))
    newest = spark.sql(f"DESCRIBE HISTORY delta.`{small.location}` LIMIT 1").collect()[0]
    assert (newest["operation"], json.loads(newest["userMetadata"])["run_id"]) == ("OPTIMIZE", "run-7")
    assert newest["operationMetrics"]["numRemovedFiles"] == "24"
    small.delete("id % 2 = 0", partition=DAY, provenance=a_run(sequence=1))
    assert ids_by_spark(small) == ids(small) == [*range(1, 12, 2), *range(12, 24)]
    source = spark.range(12, 30).selectExpr("id", "'m' AS user_id", "2D AS amount", "DATE '2026-01-06' AS event_date")
    small.merge(source, Merge(["id"], [Update(), Insert()]), partition=NEXT_DAY, provenance=a_run(sequence=1))
    assert ids_by_spark(small) == ids(small) == [*range(1, 12, 2), *range(12, 30)]


def test_nothing_to_do_starts_no_spark_and_says_why(small):
    """Too few small files anywhere: no commit, no session, and the reason names the thresholds."""

    def no_session():
        raise AssertionError("Spark was asked for")

    idle = Table(EVENTS, small.location, no_session)
    result = compact(idle.target(a_run()), min_small_files=13, small_bytes=1024 * 1024)
    assert (result.applied, result.changed, result.version) == (False, False, small.ledger.version())
    assert result.reason == "nothing to compact: no partition has 13 or more files below 1048576 bytes to merge"


def test_only_the_named_partition_is_compacted(small):
    """The other one keeps its very files; a partition of another column is refused."""
    others = {path for path in active_files(small) if DAYS[1] in path}
    assert compact(small.target(a_run(), partition={"EVENT_DATE": DAY["event_date"]})).figures["partitions"] == 1
    assert (len(active_files(small)), others <= active_files(small), ids(small)) == (13, True, list(range(24)))
    with pytest.raises(ConfigError, match=r"is partitioned by \['event_date'\], not by \['day'\]"):
        compact(small.target(a_run(), partition={"day": DAYS[0]}))


def test_large_files_are_not_rewritten(small, event_rows):
    """Only what is small is read and written again."""
    small.append(event_rows(2000, start=100).coalesce(1), provenance=a_run(sequence=1))
    (large,) = (f["path"] for f in small.ledger.state().files() if f["num_records"] == 2000)
    compact(small.target(a_run()), small_bytes=4096)
    assert large in active_files(small)
    assert len(active_files(small)) == 3
    assert ids(small) == [*range(24), *range(100, 2100)]


def test_merged_files_grow_up_to_the_target(small):
    """A target of four files' size packs each day into several files, and none of them is lost."""
    size = max(file["size_bytes"] for file in small.ledger.state().files())
    result = compact(small.target(a_run()), small_bytes=size + 1, target_bytes=4 * size)
    assert result.figures["files_after"] == len(active_files(small)) == 6
    assert ids(small) == list(range(24))


def test_unusual_and_missing_partition_values_survive(make_table, spark):
    """Values that file systems escape, and NULL, keep their rows."""
    spec = TableSpec("bronze/odd ü", {"id": Column("BIGINT"), "place": Column("STRING")}, partition_by=("place",))
    table, places = make_table(spec), ["a b:c", "50%", "ü/x", "o'clock", None]
    table.ensure()
    for number in range(3):
        rows = {"id": [number * 5 + n for n in range(5)], "place": places}
        write_deltalake(str(table.location), pa.table(rows), mode="append")
    rows = read_back(table)
    assert compact(table.target(a_run()), min_small_files=3).figures["files_after"] == 5
    assert (read_back(table), ids_by_spark(table)) == (rows, list(range(15)))
    assert ids_of(table.read({"place": "50%"}, {"place": None})) == [1, 4, 6, 9, 11, 14]
    assert plan_compaction(table.ledger, min_small_files=2).partitions == ()
    vacuum(table.target(a_run()), retention_hours=WEEK, now=later(table, 8))
    assert (len(on_disk(table)), ids_by_spark(table)) == (5, list(range(15)))


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("BOOLEAN", "true", "false"),
        ("TIMESTAMP", "'2026-01-05 10:00:00'", "'2026-01-05 11:30:00.5'"),
        ("TIMESTAMP_NTZ", "'2026-01-05 10:00:00'", "'2026-03-29 02:30:00.000005'"),
    ],
)
def test_partitions_whose_values_are_written_in_several_ways_survive(make_table, spark, kind, first, second):
    """Delta writes them as one text, readers show another: the rows stay where they are."""
    spec = TableSpec("bronze/typed", {"id": Column("BIGINT"), "part": Column(kind)}, partition_by=("part",))
    table = make_table(spec)
    part = f"CAST(if(id % 2 = 0, {first}, {second}) AS {kind}) AS part"
    for number in range(3):
        rows = spark.range(number * 4, number * 4 + 4, numPartitions=1).selectExpr("id", part)
        table.append(rows, provenance=a_run(sequence=number))

    def stored():
        return sorted(map(tuple, spark.read.format("delta").load(str(table.location)).collect()))

    rows = stored()
    assert compact(table.target(a_run()), min_small_files=3).figures["files_after"] == 2
    assert stored() == rows
    assert not compact(table.target(a_run()), min_small_files=2).applied


def test_no_statistics_of_personal_columns_come_in(small):
    """What the table keeps out of its log stays out when files are rewritten."""
    compact(small.target(a_run()))
    added = [json.loads(f["add"]["stats"]) for f in raw_actions(small) if "add" in f]
    assert all(set(stats["minValues"]) == set(stats["maxValues"]) == {"id", "amount"} for stats in added)
    assert "u7" not in (small.location / "_delta_log" / f"{small.ledger.version():020d}.json").read_text()


def raw_actions(table):
    return [
        json.loads(line)
        for line in (table.location / "_delta_log" / f"{table.ledger.version():020d}.json").read_text().splitlines()
    ]


@pytest.mark.parametrize(
    "properties",
    [{"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}],
    ids=["deletion vectors", "columns by name"],
)
def test_tables_that_only_spark_can_commit_to_are_compacted_in_place(make_table, event_rows, properties):
    """Deleted rows stay deleted, the other partition keeps its files, a second run does nothing."""
    table = make_table(replace(EVENTS, properties=properties))
    for number in range(3):
        table.append(event_rows(4, start=number * 4).coalesce(1), provenance=a_run(sequence=number))
    table.append(event_rows(1, day=DAYS[1], start=50).coalesce(1), provenance=a_run(sequence=9))
    table.delete("id IN (1, 5)", partition=DAY, provenance=a_run(sequence=1))
    rows = ids_by_spark(table)
    result = compact(table.target(a_run(run_id="run-7")), min_small_files=2)
    assert (result.applied, result.changed, ids_by_spark(table)) == (True, False, rows)
    assert (last_commit(table).operation, last_commit(table).maintenance.run_id) == ("OPTIMIZE", "run-7")
    assert (last_commit(table).changed, result.figures["files_after"]) == (frozenset(), 2)
    assert not compact(table.target(a_run()), min_small_files=2).applied
    vacuum(table.target(a_run()), retention_hours=WEEK, now=later(table, 8))
    assert ids_by_spark(table) == rows


def test_more_rows_than_the_log_knows_of_are_not_exchanged(small):
    """If the files and the log disagree, nothing is committed and nothing is left behind."""
    lie = small.location / "_delta_log" / f"{small.ledger.version():020d}.json"
    lie.write_text(lie.read_text().replace('\\"numRecords\\": 1', '\\"numRecords\\": 2'))
    version, files = small.ledger.version(), active_files(small)
    with pytest.raises(ContractError, match="its files hold 13 rows, 12 were read from them"):
        compact(small.target(a_run()))
    assert (small.ledger.version(), active_files(small), stages(small)) == (version, files, set())


# --- what others notice of it: nothing --------------------------------------------------------------------------------


def test_streams_and_the_change_feed_see_no_row(make_table, spark, tmp_path):
    """A stream that was up to date stays so, a new one sees each row once, and the feed of the version is empty."""
    table = make_table(replace(EVENTS, properties={"delta.enableChangeDataFeed": "true"}))
    table.ensure()
    append(table, range(12), DAYS[0])

    def stream(name):
        source = spark.readStream.format("delta").load(str(table.location)).writeStream.format("parquet")
        source = source.option("checkpointLocation", str(tmp_path / f"{name} checkpoint")).option(
            "path", str(tmp_path / name)
        )
        source.trigger(availableNow=True).start().awaitTermination()
        return ids_of(spark.read.parquet(str(tmp_path / name)))

    assert stream("before") == list(range(12))
    version = compact(table.target(a_run())).version
    assert stream("before") == list(range(12))
    append(table, [12], DAYS[0])
    assert stream("before") == stream("after") == list(range(13))
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
    assert [(row["id"], row["_change_type"]) for row in feed.load(str(table.location)).collect()] == [(12, "insert")]


def test_late_data_detection_and_cursors_see_no_change(small, event_rows):
    """No partition changed; what wrote it last, its cursor, and a retry of that write are what they were."""
    for day in DAYS:
        small.overwrite(
            event_rows(12, day=day).repartition(12), partition={"event_date": day}, provenance=a_run(sequence=4)
        )
    wrote, applied = small.ledger.latest(DAY), small.ledger.state().applied("silver/events", DAY)
    version = compact(small.target(a_run(), partition=DAY), min_small_files=2).version
    assert small.ledger.changes(since=version - 1) == (version, {})
    assert small.ledger.latest(DAY) == wrote
    assert small.ledger.latest({}).operation == "WRITE"
    assert small.ledger.state().applied("silver/events", DAY) == applied == 4
    retry = small.overwrite(event_rows(12), partition=DAY, provenance=a_run(sequence=4))
    assert (retry.applied, retry.version) == (False, wrote.version)


def test_rows_are_read_at_the_version_that_changed_them_last_even_after_compaction_and_vacuum(small):
    """Downstream pins that version; its files are gone, the rows are the same ones in the merged files."""
    changed = small.ledger.changed(DAY).version
    compact(small.target(a_run()))
    vacuum(small.target(a_run()), retention_hours=WEEK, now=later(small, 8))
    assert ids_of(small.read(DAY, version=changed)) == list(range(12))
    assert ids_of(small.read(version=small.ledger.changed(NEXT_DAY).version)) == list(range(24))
    append(small, [90], DAYS[1])
    assert ids_of(small.read(DAY, version=changed)) == list(range(12))
    with pytest.raises(ConfigError, match="can no longer be read at version"):
        small.read(NEXT_DAY, version=changed + 12)


def test_readers_and_an_appending_writer_go_on_while_files_are_merged(small, event_rows):
    """Nobody fails, no reader ever sees a row twice or misses one, and every append is there in the end."""
    compacted, seen = Event(), []

    def read():
        while not compacted.is_set():
            seen.append(ids(small))
        seen.append(ids(small))

    def write():
        number = 0
        while not compacted.is_set() or number < 3:
            small.append(event_rows(1, start=100 + number).coalesce(1), provenance=a_run(sequence=number))
            number += 1
        return number

    with ThreadPoolExecutor() as pool:
        reader, writer = pool.submit(read), pool.submit(write)
        results = [compact(small.target(a_run()), min_small_files=2) for _ in range(2)]
        compacted.set()
        appended = writer.result()
        reader.result()
    assert results[0].applied
    complete = [*range(24), *range(100, 100 + appended)]
    assert all(rows == complete[: len(rows)] and len(rows) >= 24 for rows in seen)
    assert ids_by_spark(small) == ids(small) == complete


class Readers:
    """Readers in threads of their own: one looks all the time, one is in the middle of a version's files."""

    def __init__(self, table):
        self.location, self.seen = str(table.location), []
        self.done, self.halfway, self.go_on = Event(), Event(), Event()

    def look(self):
        """Files and ids of one version after the other."""
        while not self.done.is_set():
            table = DeltaTable(self.location)
            ids = table.to_pyarrow_table(columns=["id"])["id"].to_pylist()
            self.seen.append((frozenset(pa.table(table.get_add_actions())["path"].to_pylist()), sorted(ids)))

    def read_slowly(self):
        """The ids of one version, half of its files read before somebody says to go on."""
        files = list(DeltaTable(self.location).to_pyarrow_dataset().get_fragments())
        read = [file.to_table(columns=["id"])["id"][0].as_py() for file in files[:12]]
        self.halfway.set()
        assert self.go_on.wait(60)
        return sorted([*read, *(file.to_table(columns=["id"])["id"][0].as_py() for file in files[12:])])

    def await_a_look(self):
        """That began after now: one that began before may be the first to end."""
        enough, ends = len(self.seen) + 2, time.monotonic() + 60
        while len(self.seen) < enough and time.monotonic() < ends:
            time.sleep(0.01)


def test_readers_that_overlap_the_exchange_get_the_old_or_the_new_files_and_the_same_rows(small, monkeypatch):
    """One looks before, during and after it, one is in the middle of the old files, one has pinned their version."""
    readers, write, old = Readers(small), commits.write, frozenset(active_files(small))

    def exchange(store, version, actions):
        ours = store == small.store
        if ours:
            assert readers.halfway.wait(60)
            readers.await_a_look()
        write(store, version, actions)
        if ours:
            readers.await_a_look()
            readers.go_on.set()

    monkeypatch.setattr(compaction.commits, "write", exchange)
    pinned = small.read(version=small.ledger.version())
    with ThreadPoolExecutor() as pool:
        looking, reading = pool.submit(readers.look), pool.submit(readers.read_slowly)
        try:
            assert compact(small.target(a_run())).applied
        finally:
            readers.done.set()
        looking.result()
        assert reading.result() == list(range(24))
    assert {files for files, _ in readers.seen} == {old, frozenset(active_files(small))}
    assert all(rows == list(range(24)) for _, rows in readers.seen)
    assert (ids_of(pinned), len(pinned.inputFiles())) == (list(range(24)), 24)


# --- other writers ----------------------------------------------------------------------------------------------------


def test_the_table_is_not_locked_while_files_are_rewritten(small, meanwhile):
    """However long the rewriting takes, ingestion waits for the exchange only."""

    def take_the_lock():
        with table_lock(small.store, timeout_seconds=0):
            pass

    meanwhile(take_the_lock)
    assert compact(small.target(a_run())).applied


def test_an_append_in_the_middle_survives(small, meanwhile, event_rows):
    """Both succeed; the appended file stays as it is."""
    meanwhile(lambda: small.append(event_rows(2, start=50).coalesce(1), provenance=a_run(sequence=1)))
    result = compact(small.target(a_run()))
    assert (result.applied, result.figures["gave_way"], result.figures["files_after"]) == (True, 0, 3)
    assert ids_by_spark(small) == ids(small) == [*range(24), 50, 51]


@pytest.mark.parametrize(
    ("writer", "left"),
    [
        ("overwrite", [50, 51]),
        ("merge", [*range(3, 12), *range(3)]),
        ("delete", list(range(1, 12))),
    ],
)
def test_a_partition_that_is_changed_in_the_middle_belongs_to_its_writer(small, meanwhile, event_rows, writer, left):
    """Its rows and files are what the writer left; the other partition is compacted; the result says so."""

    def act():
        run = a_run(sequence=1)
        if writer == "overwrite":
            small.overwrite(event_rows(2, start=50), partition=DAY, provenance=run)
        elif writer == "merge":
            small.merge(event_rows(3), Merge(["id"], [Update({"amount": "9"})]), partition=DAY, provenance=run)
        else:
            small.delete("id = 0", partition=DAY, provenance=run)

    meanwhile(act)
    result = compact(small.target(a_run()))
    assert (result.applied, result.figures["partitions"], result.figures["gave_way"]) == (True, 1, 1)
    assert result.reason.endswith("; gave way to other writers in event_date=2026-01-05")
    assert last_commit(small).maintenance.notes["gave_way"] == ["event_date=2026-01-05"]
    assert ids_by_spark(small) == ids(small) == sorted([*left, *range(12, 24)])
    assert max(row["amount"] for row in read_back(small)) == {"merge": 9.0, "overwrite": 76.5}.get(writer, 1.0)
    assert len([path for path in active_files(small) if DAYS[1] in path]) == 1
    assert on_disk(small) >= active_files(small)


def test_of_two_compactions_at_once_one_gives_way(small, meanwhile):
    """The second finds the files exchanged: it commits nothing, says so and leaves nothing behind."""
    meanwhile(lambda: compact(small.target(a_run(run_id="first"))))
    result = compact(small.target(a_run(run_id="second")))
    assert (result.applied, result.changed, result.figures["gave_way"]) == (False, False, 2)
    assert result.reason == "gave way to other writers in event_date=2026-01-05, event_date=2026-01-06"
    assert last_commit(small).maintenance.run_id == "first"
    assert ids_by_spark(small) == list(range(24))
    assert len(stages(small)) == 1


def test_a_compaction_that_is_overtaken_by_a_foreign_commit_tries_again(small, monkeypatch):
    """A writer without our lock takes the version first: the exchange is made at the next one."""
    real, overtaken = compaction.commits.write, []

    def write(store, version, content):
        if store == small.store and not overtaken:
            overtaken.append(version)
            append(small, [60], DAYS[0])
        real(store, version, content)

    monkeypatch.setattr(compaction.commits, "write", write)
    result = compact(small.target(a_run()))
    assert (result.applied, result.version) == (True, overtaken[0] + 1)
    assert ids_by_spark(small) == ids(small) == [*range(24), 60]


def test_a_compaction_that_dies_before_its_commit_changes_nothing(small, meanwhile):
    """The table is what it was, the next run succeeds, and the vacuum removes what the dead one wrote."""

    def die():
        raise SystemExit("killed")

    meanwhile(die)
    version, files = small.ledger.version(), active_files(small)
    with suppress(SystemExit):
        compact(small.target(a_run()))
    gc.collect()
    (orphan,) = stages(small)
    assert (small.ledger.version(), active_files(small), ids_by_spark(small)) == (version, files, list(range(24)))
    assert compact(small.target(a_run())).figures["files_after"] == 2
    vacuum(small.target(a_run()), retention_hours=WEEK, now=later(small, 6))
    assert orphan in stages(small)
    vacuum(small.target(a_run()), retention_hours=WEEK, now=later(small, 8))
    assert orphan not in stages(small)
    assert (on_disk(small), ids_by_spark(small)) == (active_files(small), list(range(24)))


# --- which partitions are worth it ------------------------------------------------------------------------------------


@pytest.fixture
def logged(tmp_path):
    """``logged({None: 3})``: a ledger of that many files of 100 bytes for each date; no data, no Spark."""

    def written(files):
        commits = [{"changed": [{"event_date": day}] * count} for day, count in files.items()]
        write_log(tmp_path / "events", {"id": "long", "event_date": "date"}, ["event_date"], commits)
        return Ledger(tmp_path / "events", name="silver/events")

    return written


def test_a_plan_names_the_partitions_worth_it_and_why_the_others_are_not(logged):
    """Counts and average sizes, from the log alone."""
    plan = plan_compaction(logged({"2026-01-05": 12, "2026-01-06": 3, None: 10}))
    assert plan.partitions == ("event_date=2026-01-05", "event_date=NULL")
    assert plan.causes["event_date=2026-01-05"] == "12 of 12 files are small, 100 bytes on average"
    assert plan.held == {"event_date=2026-01-06": "3 of 3 files are small: fewer than 10, 100 bytes on average"}
    assert plan.reason == "2 partitions have 10 or more files below 134217728 bytes"


def test_a_plan_is_limited_to_a_partition(logged):
    """Others are neither chosen nor held."""
    plan = plan_compaction(logged({"2026-01-05": 12, "2026-01-06": 12}), NEXT_DAY)
    assert (plan.partitions, plan.held) == (("event_date=2026-01-06",), {})


@pytest.mark.parametrize(
    ("options", "held"),
    [
        ({"small_bytes": 100}, "0 of 12 files are small: fewer than 10, 100 bytes on average"),
        ({"min_small_files": 13}, "12 of 12 files are small: fewer than 13, 100 bytes on average"),
        (
            {"min_small_files": 13, "min_average_bytes": 100},
            "12 of 12 files are small: fewer than 13, 100 bytes on average",
        ),
        ({"small_bytes": 101, "target_bytes": 101}, "its 12 small files would still be 12"),
    ],
)
def test_a_partition_is_left_alone_below_each_threshold(logged, options, held):
    """At the size a file is small no longer, and merging has to make fewer files."""
    plan = plan_compaction(logged({"2026-01-05": 12}), **options)
    assert (plan.partitions, plan.held) == ((), {"event_date=2026-01-05": held})


def test_a_small_average_makes_a_partition_worth_it_however_few_its_files_are(logged):
    """Three files of 100 bytes are fewer than ten, and below 101 bytes on average; one alone merges with none."""
    ledger = logged({"2026-01-05": 3, "2026-01-06": 1})
    assert plan_compaction(ledger).partitions == ()
    plan = plan_compaction(ledger, min_average_bytes=101)
    assert plan.causes == {"event_date=2026-01-05": "3 of 3 files are small, 100 bytes on average"}
    assert plan.held == {"event_date=2026-01-06": "its 1 small files would still be 1"}
    assert (
        plan.reason == "1 partitions have 10 or more files below 134217728 bytes, or files below 101 bytes on average"
    )


def test_what_a_small_average_chose_is_compacted(small):
    """The compaction follows the same limits as the plan."""
    size = sum(file["size_bytes"] for file in small.ledger.state().files()) // 24
    monday, few = small.target(a_run(), partition=DAY), {"min_small_files": 13}
    assert not compact(monday, min_average_bytes=size // 2, **few).applied
    assert compact(monday, min_average_bytes=2 * size, **few).figures["files_after"] == 13
    assert ids(small) == list(range(24))
    assert not compact(monday, min_average_bytes=2 * size, **few).applied


@pytest.mark.parametrize(
    "options",
    [
        {"small_bytes": 0},
        {"small_bytes": 9, "target_bytes": 8},
        {"min_small_files": 1},
        {"min_average_bytes": -1},
        {"small_bytes": 9, "min_average_bytes": 10},
    ],
)
def test_thresholds_that_make_no_sense_are_refused(logged, options):
    """An error of the call, before anything is looked at."""
    with pytest.raises(ConfigError, match=r"(small|min_average)_bytes="):
        plan_compaction(logged({"2026-01-05": 12}), **options)


# --- vacuum -----------------------------------------------------------------------------------------------------------


def test_old_files_stay_for_time_travel_until_the_retention_is_over(small):
    """Six days later every version is readable, eight days later the newest one is, and the disk is free again."""
    append(small, [24], DAYS[0])
    old, before = on_disk(small), small.ledger.version()
    compacted = compact(small.target(a_run())).version
    assert on_disk(small) == old | active_files(small)
    early = vacuum(small.target(a_run()), retention_hours=WEEK, now=later(small, 6))
    assert (early.applied, early.figures["files_removed"], old <= on_disk(small)) == (False, 0, True)
    assert ids_of(small.read(version=before - 1)) == ids(small, before - 1) == list(range(24))
    cleaned = vacuum(small.target(a_run(run_id="run-9")), retention_hours=WEEK, now=later(small, 8))
    assert (cleaned.applied, cleaned.changed, cleaned.figures["files_removed"]) == (True, False, 25)
    assert (cleaned.figures["bytes_removed"] > 0, on_disk(small)) == (True, active_files(small))
    assert (ids(small), ids_by_spark(small), ids_of(small.read())) == (list(range(25)),) * 3
    with pytest.raises(
        ConfigError, match=rf"silver/events can no longer be read at version {before - 1}: .* 24 of its"
    ):
        small.read(version=before - 1)
    with pytest.raises(ConfigError, match="can no longer be read at version"):
        small.restore(before - 1, provenance=a_run())
    assert ids_of(small.read(version=compacted)) == list(range(25))
    assert small.ledger.changes(since=compacted)[1] == {}
    assert (last_commit(small).operation, last_commit(small).maintenance.run_id) == ("VACUUM END", "run-9")
    again = vacuum(small.target(a_run()), retention_hours=WEEK, now=later(small, 8))
    assert (again.applied, again.version) == (False, cleaned.version)


def test_what_was_removed_within_the_retention_stays(small, event_rows):
    """A file that a version of six days ago needs is kept, however old it is itself."""
    started = last_commit(small).timestamp
    small.overwrite(event_rows(1, start=70), partition=DAY, provenance=a_run(sequence=1))
    replaced = small.ledger.version()
    # Between the replaced rows' own time and the time they were replaced lies the cutoff.
    cutoff = started + (last_commit(small).timestamp - started) / 2
    vacuum(small.target(a_run()), retention_hours=WEEK, now=cutoff + timedelta(hours=WEEK))
    assert ids_of(small.read(version=replaced - 1)) == list(range(24))
    vacuum(small.target(a_run()), retention_hours=WEEK, now=later(small, 8))
    with pytest.raises(ConfigError, match="12 of its files"):
        small.read(version=replaced - 1)


@pytest.mark.parametrize(
    ("declared", "hours", "refused"),
    [
        (None, 167, True),
        (None, 168, False),
        ("interval 30 days", 168, True),
        ("interval 2 days 12 hours", 60, False),
        ("interval 1 week", -1, True),
    ],
)
def test_a_retention_below_the_safe_one_is_refused(make_table, declared, hours, refused):
    """A week, or what the table declares; nothing is removed by a refused vacuum."""
    properties = {"delta.deletedFileRetentionDuration": declared} if declared else {}
    table = make_table(EVENTS)
    write_log(table.location, {"id": "long"}, [], [])
    log = table.location / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"configuration": {}', f'"configuration": {json.dumps(properties)}'))
    into, options = table.target(a_run()), {"retention_hours": hours, "now": later(table, 8)}
    if not refused:
        assert not vacuum(into, **options).applied
        return
    with pytest.raises(ConfigError, match=rf"a retention of {hours} h is below the \d+ h that are safe"):
        vacuum(into, **options)
    if hours > 0:
        assert not vacuum(into, **options, allow_unsafe=True).applied


def test_a_shorter_retention_is_a_decision_of_the_caller(small):
    """With the override, everything but the newest version goes."""
    compact(small.target(a_run()))
    now = later(small, 0) + timedelta(seconds=1)
    with pytest.raises(ConfigError, match="pass allow_unsafe"):
        vacuum(small.target(a_run()), retention_hours=0, now=now)
    assert vacuum(small.target(a_run()), retention_hours=0, now=now, allow_unsafe=True).figures["files_removed"] == 24
    assert (on_disk(small), ids_by_spark(small)) == (active_files(small), list(range(24)))


@pytest.mark.parametrize("options", [{"retention_hours": WEEK}, {"retention_hours": 0, "allow_unsafe": True}])
def test_a_running_write_keeps_its_files_however_late_it_is(small, event_rows, options):
    """Staged rows that wait for their commit are nobody's yet and not lost; once given up, they go."""
    staged = small.stage(event_rows(3, start=80), partition=DAY, provenance=a_run(sequence=1))
    given_up = small.stage(event_rows(3, start=90), partition=DAY, provenance=a_run(sequence=1)).stage.location
    gc.collect()
    result = vacuum(small.target(a_run()), now=later(small, 30), **options)
    assert result.figures["stages_in_use"] == 1
    assert (staged.stage.location.exists(), given_up.exists()) == (True, False)
    assert not list(small.location.glob(f".{given_up.name}*"))
    staged.publish()
    assert ids_by_spark(small) == ids(small) == [*range(12, 24), 80, 81, 82]


def test_a_record_of_maintenance_answers_for_no_partition(logged):
    """A gate that asks for the newest verdict of a partition is not answered by a compaction."""
    ledger = logged({"2026-01-05": 1})
    log = ledger.location / "_delta_log" / f"{2:020d}.json"
    record = a_record("silver/events", {"event_date": "2026-01-05"})
    for operation in ("OPTIMIZE", "VACUUM END"):
        info = {"timestamp": 1, "operation": operation, "userMetadata": record.to_json()}
        log.write_text(json.dumps({"commitInfo": info}))
        assert (ledger.commit(2).record, ledger.commit(2).maintenance) == (None, record)
        assert ledger.latest(DAY).version == 1


@known_calls
def calls_that_work(known):
    return {
        "compact": {"into": known.daily.target(known.run, partition={"day": "mon"})},
        "plan_compaction": {"ledger": known.daily.ledger, "partition": {"day": "mon"}},
        "vacuum": {"into": known.daily.target(known.run), "retention_hours": 200, "now": NOW},
    }


@two_runs()
def compacted_at_once(world):
    columns = "id INT, day STRING"
    table = world.table("small", columns, by=["day"])
    for n in range(2):
        table.append(world.frame(columns, (n, "mon"), (n, "tue")), provenance=world.run(str(n), sequence=n + 1))
    yield lambda w: compact(w.into("small", "compaction"))
    yield lambda w: overwrite_partition(w.frame(columns, (9, "mon")), w.into("small", "2", "mon"))


@two_runs(under_one_lock=True)
def vacuumed_at_once(world):
    """Files that the other run still writes, or has just published, are not removed."""
    columns = "id INT, day STRING"
    world.table("small", columns, by=["day"])
    for number in range(2):
        overwrite_partition(world.frame(columns, (number, "mon")), world.into("small", f"base {number}", "mon"))
    later = datetime(2100, 1, 1, tzinfo=timezone.utc)
    yield lambda w: vacuum(w.into("small", "vacuum"), retention_hours=0, now=later, allow_unsafe=True)
    yield lambda w: overwrite_partition(w.frame(columns, (9, "mon")), w.into("small", "2", "mon"))
