"""Activity: arrivals of rows and sizes of partitions, as a log tells them."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.measuring.activity import Activity
from dedp_assets.patterns.core.types.partitions import NO_VALUE
from dedp_assets.patterns.delta import ActivityLog, Ledger
from tests.helpers import a_record, field_of, write_log, write_protocol
from tests.logs import LogOverTime

pytestmark = pytest.mark.budget(40, "six statements of Delta, each a job or more")

NAME = "silver/events"
T0 = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
DAY, NEXT = "2026-01-05", "2026-01-06"
COUNTS = {"read": 9, "written": 9, "dead": 0, "duplicates": 0, "filtered": 0}


def after(minutes):
    return T0 + timedelta(minutes=minutes)


@pytest.fixture
def log(tmp_path):
    made = LogOverTime(tmp_path / "events", NAME)
    made.create(T0)
    return made


def poll(log, **options):
    return ActivityLog(event_time="happened_at", **options).poll(ledger_of(log))


def ledger_of(log):
    return Ledger(log.location, name=NAME)


def add(path="new", rows=10, *, day=DAY, change=True, newest=None, **more):
    stats = (
        {} if rows is None else {"stats": json.dumps({"numRecords": rows, **({"maxValues": newest} if newest else {})})}
    )
    return {
        "add": {
            "path": path,
            "partitionValues": {"day": day},
            "size": 100,
            "modificationTime": int(after(3).timestamp() * 1000),
            "dataChange": change,
            **stats,
            **more,
        }
    }


def remove(path="old", *, day=DAY, change=True):
    return {"remove": {"path": path, "partitionValues": {"day": day}, "dataChange": change}}


def commit(log, operation, *actions, metrics=None, record=None, minutes=1, **info):
    """Write a commit by hand, as any writer may."""
    log.version += 1
    stated = {"timestamp": int(after(minutes).timestamp() * 1000), "operation": operation, **info}
    stated |= {"operationMetrics": metrics} if metrics else {}
    stated |= {"userMetadata": record.to_json()} if record else {}
    file = log.location / "_delta_log" / f"{log.version:020d}.json"
    file.write_text("".join(json.dumps(each) + "\n" for each in ({"commitInfo": stated}, *actions)))


def test_a_table_that_does_not_exist_has_no_activity_until_it_is_there(tmp_path):
    """By the same reader, once it is created."""
    log, reader = LogOverTime(tmp_path / "events", NAME), ActivityLog()
    assert reader.poll(ledger_of(log)) == Activity(table=NAME, version=-1)
    log.create(T0)
    assert reader.poll(ledger_of(log)) == Activity(table=NAME, version=0)
    log.write(after(1), DAY, 3)
    assert len(reader.poll(ledger_of(log)).arrivals) == 1


def test_a_write_of_the_library_is_an_arrival_with_its_run_and_a_partition_with_its_verdict(log):
    """Rows by the row accounting; times of the commits; the newest event by the file's statistics."""
    log.write(after(1), DAY, 7, newest=after(-5), run_id="r1", cause="schedule", verdict="warned")
    log.write(after(2), DAY, 5, newest=after(-9), append=True, run_id="r2", cause="late-data")
    log.write(after(3), NEXT, 2)
    found = poll(log)
    first, second, third = found.arrivals
    assert (first.version, first.at, first.rows, first.partition) == (1, after(1), 7, DAY)
    assert (first.run_id, first.cause, first.newest_event) == ("r1", "schedule", after(-5))
    assert (second.cause, second.newest_event, third.newest_event) == ("late-data", after(-9), None)
    day = found.partitions[DAY]
    assert (day.rows, day.size, day.files) == (12, 1200, 2)
    assert (day.first_at, day.last_at, day.verdict) == (after(1), after(2), "passed")
    assert list(found.partitions) == [DAY, NEXT]


BROUGHT = {
    "an append": ("WRITE", [add(rows=10)], None, 10),
    "an overwrite": ("WRITE", [remove(), add(rows=10)], None, 10),
    "a micro-batch": ("STREAMING UPDATE", [add("a"), add("b", 5)], None, 15),
    "a table made of a query": ("CREATE TABLE AS SELECT", [add(rows=10)], {"numOutputRows": "10"}, 10),
    "a partial overwrite that copied rows": ("WRITE", [remove(), add(rows=10)], {"numCopiedRows": "8"}, 2),
    "a merge": ("MERGE", [remove(), add(rows=10)], {"numTargetRowsInserted": "3", "numTargetRowsCopied": "7"}, 3),
    "a merge that updates": ("MERGE", [remove(), add(rows=10)], {"numTargetRowsUpdated": "4"}, 4),
    "a merge of delta-rs": ("MERGE", [remove(), add(rows=10)], {"num_target_rows_inserted": 2}, 2),
    "a merge into nothing, without metrics": ("MERGE", [add(rows=10)], None, 10),
    "a file without statistics": ("WRITE", [add(rows=None)], None, 1),
    "a file without statistics, with metrics": ("WRITE", [add(rows=None)], {"numOutputRows": "6"}, 6),
    "a file without statistics of delta-rs": ("WRITE", [add(rows=None)], {"num_added_rows": 6}, 6),
}
NOTHING = {
    "an optimize": ("OPTIMIZE", [remove(change=False), add(change=False)], {"numOutputRows": "10"}),
    "a reorg": ("REORG", [remove(change=False), add(change=False)], None),
    "the start of a vacuum": ("VACUUM START", [], {"numFilesToDelete": "3"}),
    "the end of a vacuum": ("VACUUM END", [], {"numDeletedFiles": "3"}),
    "statistics computed again": ("COMPUTE STATS", [add(change=False)], None),
    "an empty append": ("WRITE", [], {"numOutputRows": "0"}),
    "an empty file": ("WRITE", [add(rows=0)], None),
    "a delete of files": ("DELETE", [remove()], None),
    "a delete that copied rows": ("DELETE", [remove(), add(rows=9)], {"numDeletedRows": "1", "numCopiedRows": "9"}),
    "a delete by a vector": ("DELETE", [remove(), add("old", deletionVector={"cardinality": 2})], None),
    "an update": ("UPDATE", [remove(), add(rows=9)], {"numUpdatedRows": "9", "numCopiedRows": "0"}),
    "a merge that copied": ("MERGE", [remove(), add()], {"numTargetRowsInserted": "0", "numOutputRows": "10"}),
    "a rewriting merge that states nothing": ("MERGE", [remove(), add()], None),
    "changed properties": ("SET TBLPROPERTIES", [], None),
}


@pytest.mark.parametrize("name", BROUGHT)
def test_a_foreign_commit_that_brought_rows_is_an_arrival_of_what_was_inserted(log, name):
    """By the statistics of the files, and by the operation's metrics where rows were copied."""
    operation, actions, metrics, rows = BROUGHT[name]
    commit(log, operation, *actions, metrics=metrics)
    (arrival,) = poll(log).arrivals
    assert (arrival.rows, arrival.at, arrival.partition) == (rows, after(1), DAY)
    assert (arrival.run_id, arrival.cause, arrival.seconds, arrival.restores) == ("", "", None, False)


@pytest.mark.parametrize("name", NOTHING)
def test_maintenance_deletions_and_copies_are_no_arrivals(log, name):
    """However many files they write: the pulse of a table does not move."""
    commit(log, "WRITE", add("old", rows=10), minutes=0)
    operation, actions, metrics = NOTHING[name]
    commit(log, operation, *actions, metrics=metrics)
    found = poll(log)
    assert [each.version for each in found.arrivals] == [1]
    assert found.version == 2


def test_a_change_of_the_schema_is_no_arrival(log):
    """Though it is the table's newest commit."""
    log.write(after(1), DAY, 3)
    log.alter(after(9), **{"delta.appendOnly": "true"})
    assert [each.at for each in poll(log).arrivals] == [after(1)]


def test_the_row_accounting_of_a_commit_record_counts_and_not_the_rows_of_rewritten_files(log):
    """A merge of the library copies rows of touched files; a write that changed one partition of two wrote it alone."""
    merged = a_record(NAME, {"day": DAY}, rows={**COUNTS, "written": 2})
    commit(log, "MERGE", remove(), add(rows=100), record=merged)
    commit(log, "WRITE", add("less", rows=4), record=a_record(NAME, {"day": DAY}, rows=COUNTS))
    commit(log, "WRITE", record=a_record(NAME, {"day": DAY}, rows=COUNTS))  # the rows were there already
    deleted = a_record(NAME, {}, rows=dict.fromkeys(COUNTS, 0))
    commit(log, "DELETE", remove("less"), add("rest", rows=3), record=deleted)
    assert [(each.version, each.rows) for each in poll(log).arrivals] == [(1, 2), (2, 4)]


def test_a_statement_of_delta_under_a_record_without_counts_is_counted_by_its_metrics(log):
    """Delta's own MERGE, in the name of a run of the library."""
    uncounted = a_record(NAME, {"day": DAY}, verdict="none", rows=dict.fromkeys(COUNTS, 0), run_id="r9")
    commit(log, "MERGE", remove(), add(rows=10), metrics={"numTargetRowsInserted": "3"}, record=uncounted)
    (arrival,) = poll(log).arrivals
    assert (arrival.rows, arrival.run_id) == (3, "r9")


def test_a_restore_is_an_arrival_of_its_own_kind(log):
    """Rows of an earlier version are current again; a restore that only takes rows away brings none."""
    commit(log, "WRITE", add("a", rows=10))
    commit(log, "DELETE", remove("a"))
    commit(log, "RESTORE", add("a", rows=10), operationParameters={"version": 1})
    commit(log, "RESTORE", remove("a"), operationParameters={"version": 0})
    assert [(each.version, each.restores) for each in poll(log).arrivals] == [(1, False), (3, True)]


STAMP = "2026-01-05T11:55:00"


@pytest.mark.parametrize(
    ("stated", "newest"),
    [
        ({"happened_at": f"{STAMP}.000Z"}, after(-5)),
        ({"happened_at": f"{STAMP}.000+01:00"}, after(-65)),
        ({"happened_at": STAMP}, after(-5)),
        ({"happened_at": f"{STAMP}.123456Z"}, after(-5) + timedelta(microseconds=123456)),
        ({"happened_at": "not a time"}, None),
        ({"happened_at": 5}, None),
        ({"other": f"{STAMP}Z"}, None),
        (None, None),
    ],
)
def test_the_newest_event_comes_from_the_statistics_with_their_zone(log, stated, newest):
    """UTC without one; unknown if they lack the column, were cut off, or hold no time."""
    commit(log, "WRITE", add(newest=stated))
    assert poll(log).arrivals[0].newest_event == newest
    assert ActivityLog().poll(ledger_of(log)).arrivals[0].newest_event is None


def test_the_newest_event_of_several_files_is_unknown_if_one_of_them_does_not_tell(log):
    """A file without an event, or without a row, has nothing to tell."""
    early, late = {"happened_at": f"{STAMP}Z"}, {"happened_at": "2026-01-05T11:59:00Z"}
    nulls = add("nulls", 3)
    nulls["add"]["stats"] = json.dumps({"numRecords": 3, "nullCount": {"happened_at": 3}})
    commit(log, "WRITE", add("a", newest=late), add("b", newest=early), nulls, add("empty", 0))
    commit(log, "WRITE", add("c", newest=late), add("d"))
    commit(log, "WRITE", {"add": {**nulls["add"], "path": "e"}})
    assert [each.newest_event for each in poll(log).arrivals] == [after(-1), None, None]


def test_columns_go_by_their_physical_names_in_statistics_and_partition_values(tmp_path):
    """Under column mapping; the caller's names are those of the schema, in any case."""
    fields = [
        field_of("id", "long"),
        field_of("When", "timestamp", **{"delta.columnMapping.physicalName": "col-1"}),
        field_of("day", "date", **{"delta.columnMapping.physicalName": "col-2"}),
    ]
    table = tmp_path / "events"
    stats = json.dumps({"numRecords": 2, "maxValues": {"col-1": f"{STAMP}Z"}})
    file = {**add()["add"], "partitionValues": {"col-2": DAY}, "stats": stats}
    mapped = {"delta.columnMapping.mode": "name"}
    write_protocol(table, fields, partition_by=["day"], configuration=mapped, version=(2, 5), more=[{"add": file}])
    found = ActivityLog(event_time="when").poll(Ledger(table, name=NAME))
    assert (found.arrivals[0].newest_event, found.arrivals[0].partition, *found.partitions) == (after(-5), DAY, DAY)
    by_day = ActivityLog(event_time="day").poll(Ledger(table, name=NAME))
    assert by_day.arrivals[0].newest_event == datetime(2026, 1, 5, tzinfo=timezone.utc)


def test_a_commit_without_a_time_has_that_of_its_files_and_the_commit_time_of_the_protocol_counts_first(log):
    """A writer may leave ``commitInfo`` out, and may have its clock corrected by the log."""
    commit(log, "WRITE", add("a"), timestamp=None)
    commit(log, "WRITE", add("b"), inCommitTimestamp=int(after(8).timestamp() * 1000))
    assert [each.at for each in poll(log).arrivals] == [after(3), after(8)]


def test_partitions_follow_additions_removals_and_deleted_rows(log):
    """A file without statistics leaves the number of rows unknown, until it is gone."""
    commit(log, "WRITE", add("a", 10), add("b", None), add("c", 7, day=NEXT), add("n", 1, day=None))
    first = poll(log).partitions
    assert {key: (each.rows, each.files) for key, each in first.items()} == {
        DAY: (None, 2),
        NEXT: (7, 1),
        NO_VALUE: (1, 1),
    }
    vector = {"pathOrInlineDv": "x", "offset": 1, "cardinality": 3}
    commit(log, "DELETE", remove("a"), remove("b"), add("a", 10, deletionVector=vector), minutes=4)
    commit(log, "DELETE", remove("c", day=NEXT), minutes=5)
    day, _ = poll(log).partitions.values()
    assert (day.rows, day.files, day.first_at, day.last_at) == (7, 1, after(1), after(4))


def test_maintenance_moves_neither_rows_nor_times_of_a_partition(log):
    """Files are exchanged; who asks when the partition was written is not misled."""
    log.write(after(1), DAY, 5)
    log.write(after(2), DAY, 6, append=True)
    log.optimize(after(9))
    log.vacuum(after(10))
    day = poll(log).partitions[DAY]
    assert (day.rows, day.files, day.last_at, day.verdict) == (11, 1, after(2), "passed")


def test_a_partition_key_is_made_up_of_the_columns_that_are_asked_for(tmp_path):
    """One column's value is the graph's key; several are spelled out, and any other column is refused."""
    values = [{"day": DAY, "hour": hour} for hour in ("1", "2")]
    columns = {"id": "long", "day": "date", "hour": "integer"}
    owned = a_record(NAME, {"day": DAY})
    write_log(tmp_path / "t", columns, ["day", "hour"], [{"changed": values, "record": owned}, {"changed": values[:1]}])
    ledger = Ledger(tmp_path / "t", name=NAME)
    by_both, by_day = ActivityLog().poll(ledger), ActivityLog(keyed_by=("day",)).poll(ledger)
    assert {key: each.rows for key, each in by_both.partitions.items()} == {
        f"day={DAY}/hour=1": 2,
        f"day={DAY}/hour=2": 1,
    }
    assert [each.partition for each in by_both.arrivals] == [DAY, f"day={DAY}/hour=1"]
    assert ({key: each.rows for key, each in by_day.partitions.items()}, by_day.arrivals[1].partition) == (
        {DAY: 3},
        DAY,
    )
    with pytest.raises(ConfigError, match=r"keyed_by must be partition columns of \['day', 'hour'\], not minute"):
        ActivityLog(keyed_by=("minute",)).poll(ledger)


def test_a_table_without_partitions_has_one_with_an_empty_key(tmp_path):
    """Its size is that of the table."""
    write_log(tmp_path / "t", {"id": "long"}, [], [{"changed": [{}]}, {"changed": [{}]}])
    found = ActivityLog().poll(Ledger(tmp_path / "t"))
    assert {key: each.rows for key, each in found.partitions.items()} == {"": 2}
    assert {each.partition for each in found.arrivals} == {""}


def test_an_unchanged_table_is_looked_at_and_not_read(log, monkeypatch):
    """The same answer, without the bytes of a commit."""
    log.write(after(1), DAY, 3)
    reader, ledger = ActivityLog(), ledger_of(log)
    first = reader.poll(ledger)
    monkeypatch.setattr(Ledger, "state", lambda *_: pytest.fail("read the state"))
    monkeypatch.setattr("dedp_assets.patterns.delta.activity.pairs_of", lambda _: pytest.fail("read a commit"))
    assert reader.poll(ledger) is first


def test_another_table_in_the_same_folder_is_read_from_its_beginning(log):
    """As long as the one before it or longer, and after a time without any."""
    log.write(after(1), DAY, 3)
    reader, ledger = ActivityLog(), ledger_of(log)
    assert list(reader.poll(ledger).partitions) == [DAY]
    shutil.rmtree(log.location)
    other = LogOverTime(log.location, NAME)
    other.create(after(5))
    other.write(after(6), NEXT, 1)
    other.write(after(7), NEXT, 1)
    found = reader.poll(ledger)
    assert ([each.at for each in found.arrivals], list(found.partitions)) == ([after(6), after(7)], [NEXT])
    shutil.rmtree(log.location)
    assert reader.poll(ledger) == Activity(table=NAME)


def test_a_log_that_was_cleaned_up_tells_what_it_retains(log):
    """Sizes of all active files; arrivals and times of the commits that are left."""
    for number, day in enumerate([DAY, NEXT, DAY, DAY]):
        log.write(after(number), day, 10 + number, append=True)
    known = ActivityLog(event_time="happened_at")
    whole = known.poll(ledger_of(log))
    DeltaTable(str(log.location)).create_checkpoint()
    for old in range(3):
        (log.location / "_delta_log" / f"{old:020d}.json").unlink()
    found = poll(log)
    assert [each.version for each in found.arrivals] == [3, 4]
    assert {k: (v.rows, v.size, v.files) for k, v in found.partitions.items()} == {
        k: (v.rows, v.size, v.files) for k, v in whole.partitions.items()
    }
    assert (found.partitions[DAY].first_at, found.partitions[NEXT].first_at) == (after(2), None)
    assert known.poll(ledger_of(log)) is whole  # what was read once is kept
    log.write(after(9), NEXT, 1, append=True)
    log.delete(after(10), DAY)
    assert {k: v.rows for k, v in poll(log).partitions.items()} == {NEXT: 12}
    assert {k: v.rows for k, v in known.poll(ledger_of(log)).partitions.items()} == {NEXT: 12}


@pytest.mark.parametrize("text", ["", "{", '{"add": {"path": "x", "stats": "{"}}', '{"add": {"stats": "{}"}}', "[1]"])
def test_a_damaged_commit_is_named_and_the_next_poll_reads_the_repaired_log(log, text):
    """Nothing of a half read log is kept."""
    log.write(after(1), DAY, 3)
    reader, ledger = ActivityLog(), ledger_of(log)
    reader.poll(ledger)
    log.write(after(2), DAY, 4, append=True)
    file = log.location / "_delta_log" / f"{2:020d}.json"
    whole = file.read_text()
    file.write_text(text)
    for damaged in (reader, ActivityLog()):
        with pytest.raises(ContractError, match="version 2 of its log is damaged"):
            damaged.poll(ledger)
    file.write_text(whole)
    assert [each.rows for each in reader.poll(ledger).arrivals] == [3, 4]


def test_a_log_with_a_missing_commit_is_damaged(log):
    """What came before it is not taken for all there is."""
    for minute in range(3):
        log.write(after(minute), DAY, 3)
    (log.location / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(ContractError, match=NAME):
        poll(log)


@pytest.mark.spark
def test_statements_of_spark_bring_what_they_insert(spark, tmp_path):
    """By the metrics and statistics that Delta really writes, under deletion vectors and column mapping."""
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    reader, ledger = ActivityLog("at"), Ledger(path)
    columns = "id INT, at TIMESTAMP, day DATE"
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING DELTA PARTITIONED BY (day) TBLPROPERTIES ({properties})")
    rows = ", ".join(f"({n}, TIMESTAMP '2026-01-05 12:00:0{n}Z', DATE '{DAY}')" for n in range(8))
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    assert [(each.rows, each.newest_event) for each in reader.poll(ledger).arrivals] == [(8, T0 + timedelta(seconds=7))]
    source = "SELECT explode(array(7, 8, 9)) AS id, TIMESTAMP '2026-01-05 12:00:09Z' AS at, DATE '2026-01-05' AS day"
    merge = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    spark.sql(f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id {merge}")
    spark.sql(f"UPDATE {table} SET id = id + 100 WHERE id < 2")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"OPTIMIZE {table}")
    found = reader.poll(ledger)
    assert [each.rows for each in found.arrivals] == [8, 3]
    assert found.arrivals[1].newest_event == T0 + timedelta(seconds=9)
    assert {key: each.rows for key, each in found.partitions.items()} == {DAY: 9}
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    restored = reader.poll(ledger)
    assert [each.restores for each in restored.arrivals] == [False, False, True]
    assert {key: each.rows for key, each in restored.partitions.items()} == {DAY: 8}
    assert restored == ActivityLog("at").poll(ledger)


STEPS = st.tuples(
    st.sampled_from(["write", "append", "empty", "delete", "optimize", "vacuum", "alter", "foreign", "poll", "poll"]),
    st.sampled_from([DAY, NEXT]),
    st.integers(0, 5),
)


@given(st.lists(STEPS, max_size=25))
def test_polling_in_any_split_of_the_log_is_polling_once(steps):
    """Arrivals, sizes, times and verdicts; and the sizes are those of the table's state."""
    with tempfile.TemporaryDirectory() as folder:
        log = LogOverTime(Path(folder) / "events", NAME)
        log.create(T0)
        reader = ActivityLog(event_time="happened_at")
        for minute, (step, day, rows) in enumerate(steps):
            take(log, reader, step, day, rows, after(minute))
        found = reader.poll(ledger_of(log))
        assert found == poll(log)
        stated = ledger_of(log).state().statistics()
        assert {key: (each.rows, each.files, each.size) for key, each in found.partitions.items()} == {
            dict(key)["day"]: (each.rows, each.files, each.bytes) for key, each in stated.items()
        }


def take(log, reader, step, day, rows, at):
    if step == "poll":
        reader.poll(ledger_of(log))
    elif step in ("write", "append"):
        log.write(at, day, rows, append=step == "append", newest=at if rows % 2 else None, verdict="warned")
    elif step == "delete":
        log.delete(at, day)
    elif step == "foreign":
        log.actions(at, "WRITE", [add(f"{at:%H%M}", rows, day="2026-02-01")])
    else:
        getattr(log, step)(at)
