"""The only writer: stages, audits, publishing, retries, DML."""

from __future__ import annotations

import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from time import sleep

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import (
    AuditFailed,
    ConfigError,
    Conflict,
    ContractError,
    SchemaMismatch,
    TransactionReused,
)
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import Insert, Merge, StagedWrite, Table, Update
from dedp_assets.patterns.delta.commit import file_exchange, spark_writer
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.ingestion.compactor import compact
from tests.helpers import EVENTS, NOW, a_run, active_files, job_group, jobs_of, read_back

pytestmark = pytest.mark.budget(70, "every verb of a table, and each of its refusals")

DAY = {"event_date": "2026-01-05"}
NEXT_DAY = {"event_date": "2026-01-06"}
LANDED = {"landed_on": "2026-01-07"}
VISITS = TableSpec(
    "bronze/visits",
    {name: Column(kind) for name, kind in {"raw": "STRING", "landed_on": "DATE", "event_date": "DATE"}.items()},
    partition_by=("landed_on", "event_date"),
)
UPSERT = Merge(["id"], [Update(), Insert()])
NAMED = replace(EVENTS, properties={"delta.columnMapping.mode": "name"})
TRACKED = replace(EVENTS, properties={"delta.enableRowTracking": "true"})


def ids(table):
    return [row["id"] for row in read_back(table)]


def unique_ids(table):
    return sorted(ids(table))


def ids_by_spark(table):
    """For tables that deltalake's Arrow reader does not read as they are meant."""
    return sorted(row["id"] for row in table.session.read.format("delta").load(str(table.location)).collect())


def last_commit(table):
    return table.ledger.commit(table.ledger.version())


def stages(table):
    return {path.name for path in table.location.glob("staged-*")}


def visits(spark, *rows):
    """``("a", "2026-01-05")``: raw and event date."""
    return spark.createDataFrame(rows, "raw STRING, event_date STRING").selectExpr(
        "raw", "DATE '2026-01-07' AS landed_on", "CAST(event_date AS DATE) AS event_date"
    )


def foreign_append(table, number, day):
    rows = {"id": [number], "user_id": ["foreign"], "amount": [1.0], "event_date": [date.fromisoformat(day)]}
    write_deltalake(str(table.location), pa.table(rows), mode="append")


@pytest.fixture
def events(created_events):
    """An empty table of :data:`EVENTS`."""
    return created_events


@pytest.fixture
def before_commit(monkeypatch):
    """``before_commit(action, times)``: somebody acts before the commit; gives the number of commits tried."""

    def interposed(action, times=1):
        real, tried = stage_commit.commit_files, []

        def commit(*args, **options):
            tried.append(1)
            if len(tried) <= times:
                action()
            real(*args, **options)

        monkeypatch.setattr(stage_commit, "commit_files", commit)
        return tried

    return interposed


# --- create and alter -------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_a_table_is_created_once_with_everything_it_declares(make_table):
    """Columns, comments, constraints, properties; a second look makes no commit."""
    table = make_table(EVENTS)
    created = table.ensure()
    assert {c: f["nullable"] for c, f in created.columns.items()} == {
        "id": False,
        "user_id": True,
        "amount": True,
        "event_date": False,
    }
    assert created.columns["amount"]["metadata"]["comment"] == "how much, in euros"
    assert created.properties["delta.constraints.amount_is_positive"] == EVENTS.checks["amount_is_positive"]
    assert (created.partition_columns, created.snapshot.metadata().description) == (("event_date",), EVENTS.comment)
    assert table.ensure().version == created.version
    assert not [c for c in table.ledger.commits() if c.changed]


def test_a_table_is_altered_in_commits_that_change_no_row(events, event_rows, spark):
    """A new column, constraint and property come before the next write, and old rows have NULL there."""
    before = events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1)).version
    wider = replace(
        EVENTS,
        columns={**EVENTS.columns, "city": Column("STRING", "it's where")},
        checks={**EVENTS.checks, "city_is_named": "city IS NULL OR city <> ''"},
        properties={"delta.checkpointInterval": "7"},
    )
    altered = Table(wider, events.location, spark)
    state = altered.ensure()
    assert state.columns["city"]["metadata"]["comment"] == "it's where"
    assert state.properties["delta.constraints.city_is_named"] == "city IS NULL OR city <> ''"
    assert state.properties["delta.checkpointInterval"] == "7"
    assert altered.ledger.changes(since=before) == (state.version, {})
    assert altered.ensure().version == state.version
    assert [(row["id"], row["city"]) for row in read_back(altered)] == [(0, None), (1, None)]
    with pytest.raises(AuditFailed, match="city_is_named=1"):
        altered.overwrite(event_rows(1).selectExpr("*", "'' AS city"), partition=DAY, provenance=a_run(sequence=2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"partition_by": ()}, r"is partitioned by \['event_date'\], declared is \[\]"),
        ({"columns": {k: c for k, c in EVENTS.columns.items() if k != "amount"}}, r"\['amount'\]"),
        ({"columns": {**EVENTS.columns, "city": Column("STRING", required=True)}}, r"required columns \['city'\]"),
    ],
    ids=["partitioning", "dropped column", "new required column"],
)
def test_a_write_with_another_declaration_is_refused(events, event_rows, spark, change, words):
    """What needs a migration stops the write before a row is staged, and names the difference."""
    version = events.overwrite(event_rows(1), partition=DAY, provenance=a_run(sequence=1)).version
    staged = stages(events)
    other = Table(replace(EVENTS, **change), events.location, spark)
    with pytest.raises(SchemaMismatch, match=words):
        other.overwrite(event_rows(2), provenance=a_run(sequence=2))
    assert (events.ledger.version(), stages(events)) == (version, staged)


# --- append and overwrite ---------------------------------------------------------------------------------------------


@pytest.mark.both
def test_overwrite_replaces_the_partition_and_only_it(events, event_rows):
    """Rows that are gone from the input are gone from the table; neighbours keep their very files."""
    events.overwrite(event_rows(5), partition=DAY, provenance=a_run(sequence=1))
    events.overwrite(event_rows(2, day="2026-01-06"), partition=NEXT_DAY, provenance=a_run(sequence=1))
    neighbours = {path for path in active_files(events) if "2026-01-06" in path}
    result = events.overwrite(event_rows(3, start=1), partition=DAY, provenance=a_run(sequence=2))
    assert (result.applied, result.rows.written) == (True, 3)
    assert sorted(r["id"] for r in read_back(events) if str(r["event_date"]) == "2026-01-05") == [1, 2, 3]
    assert neighbours <= active_files(events)


def test_without_a_partition_the_whole_table_is_replaced(events, event_rows):
    """A full load owns everything."""
    events.overwrite(event_rows(5), partition=DAY, provenance=a_run(sequence=1))
    events.overwrite(event_rows(2, day="2026-01-06"), provenance=a_run(sequence=1))
    assert [(r["id"], str(r["event_date"])) for r in read_back(events)] == [(0, "2026-01-06"), (1, "2026-01-06")]


def test_an_append_adds_rows_once(events, event_rows):
    """A retry adds nothing and says which version and run it was; the next sequence adds again."""
    first = events.append(event_rows(2), provenance=a_run(sequence=1))
    again = events.append(event_rows(2), provenance=a_run(sequence=1, run_id="run-2"))
    assert (again.applied, again.changed, again.version) == (False, False, first.version)
    assert again.reason == f"already applied at version {first.version} by run run-1: nothing to do"
    events.append(event_rows(2, start=2), provenance=a_run(sequence=2))
    assert unique_ids(events) == [0, 1, 2, 3]


def test_of_two_appends_that_went_on_from_the_same_place_one_is_refused(events, event_rows):
    """The second one would add rows of the first again; a retry of the first one is none."""
    events.append(event_rows(1), provenance=a_run(sequence=5))
    one = events.stage(event_rows(1, start=1), provenance=a_run(sequence=7), append=True)
    other = events.stage(event_rows(2, start=1), provenance=a_run(sequence=9, run_id="run-2"), append=True)
    one.publish(after=5)
    with pytest.raises(
        Conflict, match=r"silver/events all applied upstream version 7 meanwhile.*from version 5.*again"
    ):
        other.publish(after=5)
    retried = events.stage(event_rows(1, start=1), provenance=a_run(sequence=7, run_id="run-3"), append=True)
    assert not retried.publish(after=5).applied
    assert ids(events) == [0, 1]


def test_a_mark_moves_the_cursor_and_changes_no_row(events, event_rows):
    """One commit with record and transaction; nobody downstream sees a change, and doing it again does nothing."""
    events.append(event_rows(2), provenance=a_run(sequence=1))
    rows, before = ids(events), events.ledger.version()
    marked = events.mark(provenance=a_run(sequence=8))
    assert (marked.applied, marked.changed, marked.version) == (True, False, before + 1)
    assert events.ledger.transactions().applied(events.name, {}) == 8
    assert (ids(events), events.ledger.changes(since=before)) == (rows, (before + 1, {}))
    assert not events.mark(provenance=a_run(sequence=8)).applied


def test_an_append_that_could_not_be_retried_is_refused(make_table, event_rows):
    """Without a sequence a retry would add its rows twice; nothing is staged for it."""
    table = make_table(EVENTS)
    with pytest.raises(ConfigError, match=r"an append to silver/events needs provenance\.sequence"):
        table.append(event_rows(2), provenance=a_run())
    assert not table.ledger.exists()


@pytest.mark.promise("staged-rows-belong-to-nobody")
def test_staged_rows_belong_to_nobody_until_they_are_published(events, event_rows):
    """A crash after the audit leaves a folder and the old version."""
    events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1))
    version = events.ledger.version()
    staged = events.stage(event_rows(9), partition=DAY, provenance=a_run(sequence=2))
    assert (events.ledger.version(), unique_ids(events)) == (version, [0, 1])
    assert stages(events) >= {staged.stage.store.name}
    assert staged.publish().version == version + 1
    assert unique_ids(events) == list(range(9))


@pytest.mark.parametrize("sequence", [1, None], ids=["identified", "anonymous"])
def test_publishing_a_stage_twice_changes_nothing(events, event_rows, sequence):
    """The second time is a retry; the rows of the first stay readable."""
    staged = events.stage(event_rows(3), partition=DAY, provenance=a_run(sequence=sequence))
    assert staged.publish().changed
    assert not staged.publish().changed
    assert unique_ids(events) == [0, 1, 2]


@pytest.mark.promise("the-commit-says-who-wrote")
def test_the_commit_says_who_wrote_what_from_what_and_why(events, event_rows):
    """One commit holds the files, the transaction and the record, as Delta's own tools show them."""
    run = a_run(
        sequence=4, run_id="run-9", code_version="3", cause="late-data", inputs={"bronze": 4}, notes={"files": 2}
    )
    audit = Audit(name="amounts_are_modest", sql="max(amount)", warn_above=1)
    result = events.overwrite(event_rows(3), partition=DAY, provenance=run.by("some.pattern"), audits=[audit])
    commit, record = last_commit(events), last_commit(events).record
    assert (commit.version, commit.rows_added, commit.operation) == (result.version, 3, "WRITE")
    assert commit.changes(DAY)
    assert (record.asset, record.run_id, record.code_version, record.pattern, record.cause) == (
        "silver/events",
        "run-9",
        "3",
        "some.pattern",
        "late-data",
    )
    assert (record.inputs, record.partition, record.sequence, record.verdict) == ({"bronze": 4}, DAY, 4, "warned")
    assert record.rows == {"read": 3, "written": 3, "dead": 0, "duplicates": 0, "filtered": 0}
    assert record.figures["amounts_are_modest"] == 3.0
    assert [f["name"] for f in record.findings if not f["passed"]] == ["amounts_are_modest"]
    assert record.notes["files"] == 2
    assert events.ledger.state().applied("silver/events", DAY) == 4
    assert DeltaTable(str(events.location)).transaction_version("silver/events/event_date=2026-01-05/0") == 4


def test_an_approved_refusal_is_published_under_the_persons_name(events, event_rows):
    """The record keeps who decided and why."""
    rule = Audit(name="enough_rows", of="written", fail_below=10, approvable=True)
    with pytest.raises(AuditFailed, match="enough_rows: below 10"):
        events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1), audits=[rule])
    approved = a_run(sequence=1, approval=Approval("ada", "a holiday"))
    assert events.overwrite(event_rows(3), partition=DAY, provenance=approved, audits=[rule]).applied
    record = last_commit(events).record
    assert (record.verdict, record.approval) == ("approved", {"by": "ada", "because": "a holiday"})


# --- retries and replays ----------------------------------------------------------------------------------------------


def test_a_retry_changes_nothing_and_says_so(events, event_rows):
    """Same inputs, same rows: no commit, no files left behind, and the counts of the first time."""
    first = events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    folders = stages(events)
    again = events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1, run_id="run-2"))
    assert (again.applied, again.changed, again.rows) == (False, False, first.rows)
    assert again.reason == f"already applied at version {first.version} by run run-1: nothing to do"
    assert (events.ledger.version(), stages(events)) == (first.version, folders)


def test_other_rows_under_an_applied_sequence_are_refused(events, event_rows):
    """Same inputs cannot mean other rows; the table keeps the ones it has."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    with pytest.raises(TransactionReused, match="read the same inputs before and came back with other rows"):
        events.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=1))
    assert unique_ids(events) == [0, 1, 2]


def test_a_stale_run_is_refused(events, event_rows):
    """Rows of upstream version 1 do not replace rows of version 2."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=2))
    with pytest.raises(Conflict, match="already applied upstream version 2, this run read version 1 and is stale"):
        events.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=1))
    assert unique_ids(events) == [0, 1, 2]


def test_rows_computed_from_the_table_do_not_undo_what_was_written_since(events, event_rows):
    """A rewrite of one partition fails on another write to it, and on no write to its neighbour."""
    base = events.overwrite(event_rows(3), partition=DAY, provenance=a_run()).version
    mine = events.stage(event_rows(4), partition=DAY, provenance=a_run(run_id="run-2"))
    events.overwrite(event_rows(2, day="2026-01-06"), partition=NEXT_DAY, provenance=a_run())
    assert mine.publish(since=base).version == base + 2
    theirs = events.stage(event_rows(9), partition=DAY, provenance=a_run(run_id="run-3"))
    with pytest.raises(
        Conflict, match=rf"was written at version {base + 2}, these rows were computed from version {base}"
    ):
        theirs.publish(since=base)
    assert [row["id"] for row in read_back(events) if str(row["event_date"]) == DAY["event_date"]] == [0, 1, 2, 3]


def test_the_same_rows_under_new_code_change_no_row(events, event_rows):
    """The record moves on, the files stay, and nobody downstream sees a change."""
    first = events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    files = active_files(events)
    replay = events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1, code_version="2"))
    assert (replay.applied, replay.changed) == (True, False)
    assert (active_files(events), last_commit(events).record.code_version) == (files, "2")
    assert events.ledger.changes(since=first.version) == (replay.version, {})


def test_other_rows_under_new_code_replace_the_old_ones(events, event_rows):
    """A deliberate replay of an applied upstream version."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    assert events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1, code_version="2")).changed
    assert unique_ids(events) == [0, 1]


def test_pairs_of_equal_rows_are_rows_too(events, event_rows):
    """Two rows that occur twice each do not cancel out of the fingerprint: the new ones are published."""

    def twice(number):
        return event_rows(1, start=number).unionAll(event_rows(1, start=number))

    events.overwrite(twice(1), partition=DAY, provenance=a_run(sequence=1))
    assert events.overwrite(twice(2), partition=DAY, provenance=a_run(sequence=2)).changed
    assert ids(events) == [2, 2]


def test_a_value_that_moved_to_another_column_is_another_row(make_table, spark):
    """NULL beside a value is not the same as the value beside NULL."""
    table = make_table(TableSpec("silver/pairs", {"a": Column("STRING"), "b": Column("STRING")}))
    table.overwrite(spark.sql("SELECT 'x' AS a, string(NULL) AS b"), provenance=a_run(sequence=1))
    assert table.overwrite(spark.sql("SELECT string(NULL) AS a, 'x' AS b"), provenance=a_run(sequence=2)).changed
    assert read_back(table) == [{"a": None, "b": "x"}]


# --- cursors ----------------------------------------------------------------------------------------------------------


@pytest.mark.promise("no-kind-of-write-uses")
def test_no_kind_of_write_uses_up_the_cursor_of_another(events, event_rows):
    """Appends go on at their next version after a full load, a clear, and an overwrite at a higher version."""
    events.append(event_rows(1), provenance=a_run(sequence=1))
    events.overwrite(event_rows(2, start=10), provenance=a_run())
    events.append(event_rows(1, start=20), provenance=a_run(sequence=2))
    events.overwrite(event_rows(1, start=30), provenance=a_run(sequence=9))
    events.append(event_rows(1, start=40), provenance=a_run(sequence=3))
    events.clear(partition=DAY, provenance=a_run())
    events.append(event_rows(1, start=50), provenance=a_run(sequence=4))
    assert unique_ids(events) == [50]
    assert events.append(event_rows(1, start=40), provenance=a_run(sequence=3)).applied is False
    with pytest.raises(Conflict, match="already applied upstream version 9, this run read version 8"):
        events.overwrite(event_rows(1), provenance=a_run(sequence=8))
    assert (unique_ids(events), events.ledger.transactions().applied(events.name, {})) == ([50], 9)


def test_rows_beside_others_are_not_the_same_rows_as_alone(events, event_rows):
    """An append and an overwrite of equal rows are different tables: the overwrite is no repetition of the append."""
    told = {"inputs": {"file": "a"}}
    events.append(event_rows(1), provenance=a_run(sequence=1))
    events.append(event_rows(1, start=5), provenance=a_run(sequence=2, **told))
    result = events.overwrite(event_rows(1, start=5), provenance=a_run(sequence=2, **told))
    assert (result.applied, result.changed, unique_ids(events)) == (True, True, [5])


@pytest.mark.promise("a-run-that-started-earlier")
def test_a_run_that_started_earlier_does_not_put_its_rows_over_a_later_ones(events, event_rows):
    """Without an upstream version the start of the runs tells which delivery is older; started anew, it may write."""
    early, late = NOW, NOW + timedelta(minutes=1)
    slow = events.stage(event_rows(1), provenance=a_run(run_id="slow", inputs={"delivery": "old"}, at=early))
    events.overwrite(event_rows(2, start=10), provenance=a_run(run_id="quick", inputs={"delivery": "new"}, at=late))
    with pytest.raises(Conflict, match="written at version 1 by a run that started after this one"):
        slow.publish()
    assert unique_ids(events) == [10, 11]
    events.overwrite(event_rows(1), provenance=a_run(inputs={"delivery": "old"}, at=late + timedelta(minutes=1)))
    assert unique_ids(events) == [0]


# --- conflicts --------------------------------------------------------------------------------------------------------


def test_a_commit_lost_to_another_writer_is_tried_again(events, event_rows, before_commit):
    """A foreign delete in the same partition: the second attempt replaces what is there then."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    tried = before_commit(lambda: DeltaTable(str(events.location)).delete("id = 1"))
    result = events.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=2))
    assert (len(tried), result.applied, result.changed) == (2, True, True)
    assert unique_ids(events) == [0, 1, 2, 3]


def test_rows_that_come_in_between_do_not_survive_an_overwrite(events, event_rows, before_commit):
    """A foreign append to the owned partition is replaced with it; one beside it stays."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))

    def append():
        foreign_append(events, 900, "2026-01-05")
        foreign_append(events, 901, "2026-01-06")

    before_commit(append)
    events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=2))
    assert unique_ids(events) == [0, 1, 901]


def test_attempts_end_where_another_writer_never_yields(events, event_rows, before_commit, monkeypatch):
    """A bounded number of times, then the conflict is the caller's; our rows are not there."""
    monkeypatch.setattr(Backoff, "pause", lambda *_: 0.001)
    events.overwrite(event_rows(9), partition=DAY, provenance=a_run(sequence=1))
    numbers = iter(range(9))
    tried = before_commit(lambda: DeltaTable(str(events.location)).delete(f"id = {next(numbers)}"), times=99)
    with pytest.raises(Conflict, match="another writer changed the table first"):
        events.overwrite(event_rows(2, start=50), partition=DAY, provenance=a_run(sequence=2))
    assert len(tried) == 5
    assert unique_ids(events) == [5, 6, 7, 8]


def test_a_conflict_that_spark_itself_reports_is_known_as_one(events, event_rows):
    """Whatever class the engine wraps it in: a statement over an outdated snapshot is told from other errors."""
    events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1))
    slow = event_rows(1).filter("reflect('java.lang.Thread', 'sleep', 2000L) IS NOT NULL")
    statement = f"MERGE INTO delta.`{events.location}` t USING {{s}} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    with ThreadPoolExecutor(1) as pool:
        merging = pool.submit(events.session.sql, statement, s=slow)
        while not merging.done():
            foreign_append(events, 0, "2026-01-05")
            sleep(0.2)
    assert "DELTA_CONCURRENT" in str(merging.exception())
    assert spark_writer.is_conflict(merging.exception())


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_broken_constraints_are_counted_and_nothing_is_published(events, event_rows):
    """CHECK and NOT NULL violations by number, samples without personal data, and the stage for inspection."""
    events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1))
    version = events.ledger.version()
    bad = event_rows(5).selectExpr(
        "nullif(id, 0) AS id", "user_id", "if(id IN (2, 3), -1D, amount) AS amount", "event_date"
    )
    with pytest.raises(AuditFailed, match=r"nothing published.*id_is_not_null=1, amount_is_positive=2") as refused:
        events.overwrite(bad, partition=DAY, provenance=a_run(sequence=2))
    assert (events.ledger.version(), unique_ids(events)) == (version, [0, 1])
    assert "'amount': -1.0" in str(refused.value)
    assert "u2" not in str(refused.value)
    inspected = DeltaTable(refused.value.stage).to_pyarrow_table().to_pylist()
    assert sorted(str(row["id"]) for row in inspected) == ["1", "2", "3", "4", "None"]
    assert [f.name for f in refused.value.findings if not f.passed] == ["constraints_hold"]


def test_a_constraint_that_a_person_added_by_hand_holds_too(events, event_rows, spark):
    """Rules are read from the stored table, not from the declaration."""
    events.ensure()
    spark.sql(f"ALTER TABLE delta.`{events.location}` ADD CONSTRAINT small CHECK (id < 2)")
    with pytest.raises(AuditFailed, match="small=1"):
        events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    assert ids(events) == []


@pytest.mark.parametrize("moment", ["before the publish", "between decision and commit"])
def test_a_constraint_that_came_after_the_rows_were_judged_refuses_them(
    events, event_rows, spark, before_commit, moment
):
    """The rows may break the new rule: nothing is published, and the next run is judged by the rule."""

    def constrain():
        spark.sql(f"ALTER TABLE delta.`{events.location}` ADD CONSTRAINT small CHECK (id < 2)")

    staged = events.stage(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    if moment == "before the publish":
        constrain()
    else:
        before_commit(constrain)
    with pytest.raises(Conflict, match=r"constraint small changed after the rows were judged .* run it again"):
        staged.publish()
    assert (ids(events), stages(events)) == ([], set())
    assert events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1)).changed


def test_a_column_that_came_after_the_rows_were_judged_is_null_in_them(events, event_rows, spark):
    """A column of another type refuses the rows instead: their files would not be readable any more."""
    whole, refused = (events.stage(event_rows(3), partition=DAY, provenance=a_run(sequence=n)) for n in (1, 2))
    spark.sql(f"ALTER TABLE delta.`{events.location}` ADD COLUMNS (note STRING)")
    assert whole.publish().changed
    assert [row["note"] for row in read_back(events)] == [None] * 3
    stored = DeltaTable(str(events.location)).to_pyarrow_table()
    texts = stored.set_column(stored.column_names.index("amount"), "amount", stored["amount"].cast("string"))
    spark.sql(f"ALTER TABLE delta.`{events.location}` DROP CONSTRAINT amount_is_positive")
    write_deltalake(str(events.location), texts, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(Conflict, match="column amount"):
        refused.publish()


def test_rows_outside_the_partition_are_refused(events, event_rows):
    """A run that owns one day cannot write to another, with NULL being another."""
    rows = event_rows(2).unionAll(event_rows(1, day="2026-01-06"))
    with pytest.raises(AuditFailed, match=r"rows_lie_in_their_partition: failed \(outside=1\)"):
        events.overwrite(rows, partition=DAY, provenance=a_run(sequence=1))
    dateless = event_rows(1).selectExpr("id", "user_id", "amount", "CAST(NULL AS DATE) AS event_date")
    with pytest.raises(AuditFailed, match="outside=1"):
        events.overwrite(dateless, partition=DAY, provenance=a_run(sequence=1))
    assert ids(events) == []


def test_every_failed_audit_is_named_at_once(events, event_rows):
    """With its figure and with rows at fault."""
    rules = [
        Audit.none_where("nobody_is_number_two", "id = 2"),
        Audit(name="many_rows", of="written", fail_below=100),
        Audit(name="any_rows", of="written", fail_below=1),
    ]
    with pytest.raises(AuditFailed, match=r"nobody_is_number_two: above 0.*; many_rows: below 100") as refused:
        events.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=1), audits=rules)
    assert "'id': 2" in str(refused.value)
    assert ids(events) == []


def test_an_expression_spark_does_not_know_is_a_wrong_call(events, event_rows, caplog, monkeypatch):
    """A misspelled audit names its expression, publishes nothing and logs nothing, however logging is configured."""
    monkeypatch.setattr(logging.getLogger("SQLQueryContextLogger"), "disabled", False)
    with pytest.raises(ConfigError, match="amuont"):
        events.overwrite(
            event_rows(1), partition=DAY, provenance=a_run(sequence=1), audits=[Audit.none_where("x", "amuont < 0")]
        )
    assert ids(events) == []
    assert caplog.records == []


# --- splits and accounting --------------------------------------------------------------------------------------------


@pytest.fixture
def split(event_rows):
    """Four valid rows, a dead one and a duplicate."""
    outcome = "CASE WHEN id < 4 THEN 'valid' WHEN id = 4 THEN 'dead' ELSE 'duplicate' END AS __dedp_outcome"
    parts = {"valid": tuple(EVENTS.columns), "dead": ("id", "reason"), "duplicate": ("id",)}
    return Split(event_rows(6).selectExpr("*", outcome, "'because' AS reason"), parts, identity=("id",))


@pytest.mark.both
def test_all_parts_of_a_split_are_staged_in_one_pass_and_accounted_for(events, split):
    """The kept part becomes the table's rows, another one can be read for another table."""
    staged = events.stage(split, partition=DAY, provenance=a_run(sequence=1), also=["dead"])
    assert [(row["id"], row["reason"]) for row in staged.part("dead").collect()] == [(4, "because")]
    result = staged.publish()
    assert (result.rows.read, result.rows.written, result.rows.dead, result.rows.duplicates) == (6, 4, 1, 1)
    assert result.rows.unaccounted == 0
    assert unique_ids(events) == [0, 1, 2, 3]


def test_audits_of_a_split_say_which_rows_they_are_about(events, split):
    """By predicate they judge the kept rows; an aggregate over all parts has to name the outcome, or is refused."""
    vague = Audit(name="largest", sql="max(id)", fail_above=3)
    with pytest.raises(ConfigError, match="audit largest would measure every part of the split"):
        events.overwrite(split, partition=DAY, provenance=a_run(sequence=1), audits=[vague])
    assert ids(events) == []
    exact = replace(vague, sql="max(if(__dedp_outcome = 'valid', id, NULL))")
    nobody = Audit.none_where("nobody_is_number_four", "id = 4")
    result = events.overwrite(split, partition=DAY, provenance=a_run(sequence=1), audits=[exact, nobody])
    assert (result.figures["largest"], result.figures["nobody_is_number_four"]) == (3, 0)


def test_rows_lost_between_reading_and_writing_refuse_the_write(events, event_rows):
    """What was tallied at the read has to arrive, all of it."""

    def write(step, count=4):
        rows, seen = tally(event_rows(count), identity=["id"])
        rows_read = RowsRead(tally=seen)
        return events.stage(step(rows), partition=DAY, provenance=a_run(), rows_read=rows_read).publish()

    with pytest.raises(AuditFailed, match=r"rows_are_accounted_for: .*\(read=4, written=3"):
        write(lambda rows: rows.filter("id <> 2"))
    with pytest.raises(AuditFailed, match="other records came out than went in"):
        write(lambda rows: rows.withColumn("id", F.expr("id + 1")))
    assert ids(events) == []
    for count in (0, 4):
        assert write(lambda rows: rows.filter("id >= 0"), count).rows.written == count


def test_where_no_row_is_left_below_a_shuffle_the_counts_are_nought(events, event_rows):
    """Spark drops a shuffle that turns out empty, and would drop with it what was counted below."""
    rows, seen = tally(event_rows(4).filter("rand() > 2"), identity=["id"])
    groups = rows.groupBy("user_id", "event_date").agg(F.max("id").alias("id"), F.max("amount").alias("amount"))
    staged = events.stage(
        groups, partition=DAY, provenance=a_run(), rows_read=RowsRead(tally=seen, represented="written")
    )
    result = staged.publish()
    assert (result.rows.read, result.rows.written) == (0, 0)
    assert [f.note for f in result.findings if not f.passed] == []


# --- what lies on disk ------------------------------------------------------------------------------------------------


def test_partitions_below_the_owned_one_keep_their_files_unless_they_differ(make_table, spark):
    """One changed date of a landing day rewrites that date; the others are no change for anybody."""
    table = make_table(VISITS)
    old = visits(spark, ("a", "2026-01-04"), ("b", "2026-01-05"), ("c", None), ("gone", "2026-01-06"))
    first = table.overwrite(old, partition=LANDED, provenance=a_run(sequence=1))
    files = active_files(table)
    new = visits(spark, ("a", "2026-01-04"), ("B", "2026-01-05"), ("c", None), ("new", "2026-01-07"))
    table.overwrite(new, partition=LANDED, provenance=a_run(sequence=2))
    assert sorted(row["raw"] for row in read_back(table)) == ["B", "a", "c", "new"]
    assert len(files & active_files(table)) == 2
    changed = {dict(key)["event_date"] for key in table.ledger.changes(since=first.version)[1]}
    assert changed == {"2026-01-05", "2026-01-06", "2026-01-07"}


def test_what_was_compared_counts_for_nothing_once_others_wrote(make_table, spark, monkeypatch):
    """Rows are compared before the lock is taken; what came meanwhile is replaced like the rest."""
    table = make_table(VISITS)
    rows = visits(spark, ("a", "2026-01-04"), ("b", "2026-01-05"))
    table.overwrite(rows, partition=LANDED, provenance=a_run(sequence=1))
    real = StagedWrite._compare

    def overtaken(staged, *given):
        compared = real(staged, *given)
        late = {"raw": ["late"], "landed_on": [date(2026, 1, 7)], "event_date": [date(2026, 1, 4)]}
        write_deltalake(str(table.location), pa.table(late), mode="append")
        return compared

    monkeypatch.setattr(StagedWrite, "_compare", overtaken)
    new = visits(spark, ("a", "2026-01-04"), ("B", "2026-01-05"))
    table.overwrite(new, partition=LANDED, provenance=a_run(sequence=2))
    assert sorted(row["raw"] for row in read_back(table)) == ["B", "a"]


def test_no_job_runs_while_the_lock_is_held(make_table, spark, monkeypatch):
    """Whatever is written: other writers wait for a commit, and not for somebody's computation."""
    held, lock = [], LocalStore.lock

    @contextmanager
    def counted(store, timeout_seconds):
        with lock(store, timeout_seconds) as hold:
            before = jobs_of(spark)
            yield hold
            held.append(jobs_of(spark) - before)

    monkeypatch.setattr(LocalStore, "lock", counted)
    table = make_table(VISITS)
    rows = [visits(spark, ("a", "2026-01-04"), (name, "2026-01-05")) for name in "bcd"]
    with job_group(spark):
        for sequence, each in enumerate(rows[:2], start=1):
            table.overwrite(each, partition=LANDED, provenance=a_run(sequence=sequence))
            table.append(each, provenance=a_run(sequence=sequence))
        keys = ["raw", "event_date"]
        table.merge(rows[2], Merge(keys, [Update(), Insert()]), provenance=a_run(sequence=3))
        table.delete("raw = 'c'", provenance=a_run(sequence=4))
        compact(table.target(a_run(run_id="compaction")))
        table.clear(partition=LANDED, provenance=a_run(sequence=5))
        assert jobs_of(spark)
    assert len(held) >= 8
    assert not any(held)


def test_rows_deleted_by_a_mark_do_not_come_back(make_table, spark):
    """With deletion vectors too, the rows of a replaced partition are gone."""
    table = make_table(replace(VISITS, properties={"delta.enableDeletionVectors": "true"}))
    old = visits(spark, *[(letter, "2026-01-05") for letter in "abcdef"], ("z", "2026-01-06")).coalesce(1)
    table.overwrite(old, partition=LANDED, provenance=a_run(sequence=1))
    table.delete("raw = 'a'", partition=LANDED, provenance=a_run(sequence=2))
    new = visits(spark, ("q", "2026-01-05"), ("z", "2026-01-06"))
    table.overwrite(new, partition=LANDED, provenance=a_run(sequence=3))
    assert sorted(row.raw for row in table.read().collect()) == ["q", "z"]


def test_clearing_a_partition_needs_no_spark(events, event_rows):
    """An empty delivery replaces the day by nothing; the engine is not asked."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    events.overwrite(event_rows(1, day="2026-01-06"), partition=NEXT_DAY, provenance=a_run(sequence=1))

    def nobody():
        pytest.fail("a session was asked for")

    cleared = Table(EVENTS, events.location, nobody).clear(partition=DAY, provenance=a_run(sequence=2))
    assert (cleared.applied, cleared.changed, cleared.rows.written) == (True, True, 0)
    assert [str(row["event_date"]) for row in read_back(events)] == ["2026-01-06"]
    assert not Table(EVENTS, events.location, nobody).clear(partition=DAY, provenance=a_run(sequence=2)).applied


@pytest.mark.parametrize("city", ["O'Hare", "Zürich/Nord 5%", '5" pipe'])
def test_partitions_of_any_name_are_written_read_and_retried(make_table, spark, city):
    """Letters that paths and SQL escape are letters like any other."""
    spec = TableSpec("silver/cities", {"n": Column("BIGINT"), "city": Column("STRING")}, partition_by=("city",))
    table = make_table(spec)

    def write(count, sequence):
        rows = spark.range(count).selectExpr("id AS n", f"{quoted(city)} AS city")
        return table.overwrite(rows, partition={"city": city}, provenance=a_run(sequence=sequence))

    write(3, 1)
    assert not write(3, 1).applied
    write(2, 2)
    assert read_back(table) == [{"n": 0, "city": city}, {"n": 1, "city": city}]
    assert sorted(row.n for row in table.read({"city": city}).collect()) == [0, 1]


def test_a_partition_is_the_same_however_its_column_is_capitalised(make_table, spark):
    """To read and to write, with a value and without; a column that is none of the table's partitions is refused."""
    spec = TableSpec("silver/cities", {"n": Column("BIGINT"), "city": Column("STRING")}, partition_by=("city",))
    table = make_table(spec)
    table.overwrite(spark.sql("VALUES (1L, 'Ulm'), (2L, NULL) AS (n, city)"), provenance=a_run())
    assert [row.n for row in table.read({"CITY": "Ulm"}).collect()] == [1]
    assert [row.n for row in table.read({"City": None}).collect()] == [2]
    table.overwrite(spark.sql("SELECT 3L AS n, 'Ulm' AS city"), partition={"CITY": "Ulm"}, provenance=a_run())
    assert sorted(row["n"] for row in read_back(table)) == [2, 3]
    for value in ("Ulm", None):
        with pytest.raises(ConfigError, match=r"silver/cities is partitioned by \['city'\], not by \['town'\]"):
            table.read({"town": value})


def test_personal_columns_leave_no_trace_in_the_log(events, event_rows):
    """No minimum or maximum of a person's data, whoever writes: staged files and merged ones."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    events.merge(event_rows(1, start=7), UPSERT, partition=DAY, provenance=a_run(sequence=2))
    log = [path.read_text().splitlines() for path in (events.location / "_delta_log").glob("*.json")]
    adds = [json.loads(line)["add"] for lines in log for line in lines if '"add"' in line]
    bounds = [json.loads(add["stats"])[kind] for add in adds for kind in ("minValues", "maxValues")]
    assert len(bounds) >= 4
    assert all("id" in bound and "user_id" not in bound for bound in bounds)


def test_timestamps_are_readable_by_every_engine(make_table, spark):
    """Microseconds in UTC, not Spark's INT96: the same value for Spark, deltalake, duckdb and Arrow."""
    import duckdb  # here, because a process that has imported it reports leaks of its binding when it ends

    table = make_table(TableSpec("silver/clock", {"at": Column("TIMESTAMP")}))
    table.overwrite(spark.sql("SELECT TIMESTAMP '2026-01-05 10:00:00.123456Z' AS at"), provenance=a_run(sequence=1))
    file = str(table.location / next(iter(active_files(table))))
    assert pq.read_schema(file).field("at").type == pa.timestamp("us", tz="UTC")
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).physical_type == "INT64"
    micros = duckdb.sql(f"SELECT epoch_us(\"at\") FROM read_parquet('{file}')").fetchall()[0][0]
    assert micros == spark.sql("SELECT unix_micros(TIMESTAMP '2026-01-05 10:00:00.123456Z')").collect()[0][0]
    assert [row["at"].isoformat() for row in read_back(table)] == ["2026-01-05T10:00:00.123456+00:00"]


# --- merge, delete, restore -------------------------------------------------------------------------------------------


@pytest.mark.both
def test_a_merge_is_one_commit_with_record_and_transaction_and_happens_once(events, event_rows):
    """Matched rows are updated, others inserted; a retry is recognised, other rows under the same id are refused."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    source = event_rows(2, start=2, amount="99D")
    merged = events.merge(source, UPSERT, partition=DAY, provenance=a_run(sequence=2, inputs={"bronze": 2}))
    assert (merged.applied, merged.changed) == (True, True)
    expected = [(0, 0.0), (1, 1.5), (2, 99.0), (3, 99.0)]
    assert sorted((row["id"], row["amount"]) for row in read_back(events)) == expected
    commit = last_commit(events)
    assert (commit.operation, commit.record.sequence, commit.record.inputs) == ("MERGE", 2, {"bronze": 2})
    assert events.ledger.state().applied("silver/events", DAY) == 2
    again = events.merge(source, UPSERT, partition=DAY, provenance=a_run(sequence=2, inputs={"bronze": 2}))
    assert (again.applied, again.version) == (False, merged.version)
    with pytest.raises(TransactionReused, match="came back with other rows"):
        events.merge(event_rows(1), UPSERT, partition=DAY, provenance=a_run(sequence=2, inputs={"bronze": 2}))
    assert sorted((row["id"], row["amount"]) for row in read_back(events)) == expected
    assert events.ledger.version() == merged.version


@pytest.mark.both
def test_a_merge_that_breaks_a_constraint_changes_nothing_and_names_it(events, event_rows):
    """Merged rows are counted against constraints as any others: how many, which rule, and a sample of them."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    version = events.ledger.version()
    nobody = event_rows(1).selectExpr("CAST(NULL AS BIGINT) AS id", "user_id", "amount", "event_date")
    for source, broken in ((event_rows(1, amount="-1D"), "amount_is_positive"), (nobody, "id")):
        sentence = rf"silver/events all: nothing published\. constraints_hold: failed \({broken}.*=1\)\. For example"
        with pytest.raises(AuditFailed, match=sentence) as raised:
            events.merge(source, UPSERT, provenance=a_run(sequence=2))
        assert "user_id" not in str(raised.value)
    assert events.ledger.version() == version


@pytest.mark.parametrize("day", ["", "yesterday", "2026-02-30", "20260105"])
def test_a_partition_that_no_row_can_lie_in_is_refused(events, event_rows, day):
    """A value that the column's type does not have: named before anything is computed."""
    for write in (
        lambda: events.overwrite(event_rows(1), partition={"event_date": day}, provenance=a_run()),
        lambda: events.clear(partition={"event_date": day}, provenance=a_run()),
    ):
        with pytest.raises(ConfigError, match=r"silver/events has no partition event_date=.* of type DATE"):
            write()
    assert not list(events.location.glob("staged-*"))


def test_a_delete_is_one_commit_with_record_and_transaction_and_happens_once(events, event_rows):
    """A predicate over one partition leaves the other alone; a retry is recognised."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    events.overwrite(event_rows(3, day="2026-01-06"), partition=NEXT_DAY, provenance=a_run(sequence=1))
    deleted = events.delete("id >= 1", partition=DAY, provenance=a_run(sequence=2))
    assert (deleted.applied, deleted.changed, last_commit(events).operation) == (True, True, "DELETE")
    assert (last_commit(events).record.sequence, events.ledger.state().applied("silver/events", DAY)) == (2, 2)
    assert unique_ids(events) == [0, 0, 1, 2]
    assert not events.delete("id >= 1", partition=DAY, provenance=a_run(sequence=2)).applied
    with pytest.raises(TransactionReused):
        events.delete("id >= 0", partition=DAY, provenance=a_run(sequence=2))
    assert unique_ids(events) == [0, 0, 1, 2]


def test_a_statement_leaves_no_setting_behind(events, event_rows, spark):
    """Whatever the session writes next does not carry our transaction, even after a failure."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    events.delete("id = 0", partition=DAY, provenance=a_run(sequence=2))
    with pytest.raises(ConfigError, match="no_such_column"):
        events.delete("no_such_column = 0", partition=DAY, provenance=a_run(sequence=3))
    for key in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata"):
        assert spark.conf.get(f"spark.databricks.delta.{key}", None) is None
    assert unique_ids(events) == [1, 2]


def test_every_replay_of_a_statement_takes_effect(events, event_rows):
    """A third statement at one upstream version, from other inputs, is not mistaken for the second."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    for number in range(3):
        events.delete(f"id = {number}", partition=DAY, provenance=a_run(sequence=2, inputs={"request": number}))
    assert ids(events) == []


def test_what_was_rolled_back_may_be_applied_again(events, event_rows):
    """A restore is a new commit with a record; it raises the generation, so the same run is new once more."""
    good = events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1))
    events.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=2))
    restored = events.restore(good.version, provenance=a_run(run_id="run-7", cause="rollback"))
    assert (restored.applied, restored.changed, unique_ids(events)) == (True, True, [0, 1])
    assert (last_commit(events).record.run_id, last_commit(events).record.cause) == ("run-7", "rollback")
    assert events.ledger.state().generation("silver/events") == 1
    again = events.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=2))
    assert (again.applied, unique_ids(events)) == (True, [0, 1, 2, 3])


# --- tables that need Spark's own writer ------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [NAMED, TRACKED], ids=["columns by name", "row tracking"])
def test_tables_beyond_the_metadata_only_commit_are_written_by_spark_alike(make_table, event_rows, spec):
    """Same function, same rows, same record, same retries."""
    table = make_table(spec)
    table.overwrite(event_rows(2, day="2026-01-06"), partition=NEXT_DAY, provenance=a_run(sequence=1))
    first = table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    assert not file_exchange.serves(table.ledger.state())
    assert (first.applied, first.changed, first.rows.written) == (True, True, 3)
    assert (last_commit(table).record.sequence, table.ledger.state().applied("silver/events", DAY)) == (1, 1)
    again = table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    assert (again.applied, again.version) == (False, first.version)
    with pytest.raises(TransactionReused):
        table.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=1))
    table.overwrite(event_rows(1), partition=DAY, provenance=a_run(sequence=2))
    with pytest.raises(Conflict, match="stale"):
        table.overwrite(event_rows(4), partition=DAY, provenance=a_run(sequence=1, inputs={"x": 1}))
    table.append(event_rows(1, start=8), provenance=a_run(sequence=1))
    assert ids_by_spark(table) == [0, 0, 1, 8]


def test_the_same_rows_change_nothing_by_sparks_writer_either(make_table, event_rows):
    """New code with equal rows is a commit that nobody downstream sees."""
    table = make_table(NAMED)
    first = table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    replay = table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1, code_version="2"))
    assert (replay.applied, replay.changed) == (True, False)
    assert table.ledger.changes(since=first.version)[1] == {}


def test_every_replay_is_published_by_sparks_writer_too(make_table, event_rows):
    """Three replays at one upstream version, each with other rows: the last one is there."""
    table = make_table(NAMED)
    for number in range(1, 4):
        table.overwrite(event_rows(number), partition=DAY, provenance=a_run(sequence=1, inputs={"x": number}))
    assert ids_by_spark(table) == [0, 1, 2]


def test_clearing_works_for_every_table(make_table, event_rows):
    """An empty delivery empties its day, whoever has to write it."""
    table = make_table(NAMED)
    table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    table.clear(partition=DAY, provenance=a_run(sequence=2))
    assert ids_by_spark(table) == []


def test_every_table_can_be_restored(make_table, event_rows):
    """Rolling back does not depend on what the table is made of."""
    table = make_table(TRACKED)
    good = table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    table.overwrite(event_rows(1), partition=DAY, provenance=a_run(sequence=2))
    table.restore(good.version, provenance=a_run())
    assert ids_by_spark(table) == [0, 1, 2]


def test_rows_are_not_stored_twice_by_sparks_writer(make_table, event_rows):
    """What was staged for the audit is gone once Spark wrote its own files."""
    table = make_table(NAMED)
    table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    on_disk = {str(path.relative_to(table.location)) for path in table.location.rglob("*.parquet")}
    assert {path for path in on_disk if "_delta_log" not in path} == active_files(table)


# --- channels ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(make_table):
    """A table whose landing days take one channel each."""
    return make_table(replace(VISITS, one_channel_per="landed_on"))


def test_a_value_takes_rows_by_one_channel_only(shared, spark):
    """An overwrite, a clearing and an append by another channel are refused and leave nothing; the own one goes on."""
    by_topic = {"channel": "topic visits", "sequence": 1}
    shared.append(visits(spark, ("a", "2026-01-05"), ("b", None)), provenance=a_run(**by_topic))
    sentence = "bronze/visits landed_on=2026-01-07 holds rows that came by topic visits: nothing by files was published"
    with pytest.raises(ContractError, match=sentence):
        shared.overwrite(visits(spark, ("c", None)), partition=LANDED, provenance=a_run())
    with pytest.raises(ContractError, match=sentence):
        shared.clear(partition=LANDED, provenance=a_run())
    other = {"channel": "topic clicks", "sequence": 2}
    with pytest.raises(ContractError, match="nothing by topic clicks was published"):
        shared.append(visits(spark, ("c", "2026-01-05")), provenance=a_run(**other))
    assert len(stages(shared)) == 1
    shared.append(visits(spark, ("c", "2026-01-05")), provenance=a_run(**{**by_topic, "sequence": 2}))
    assert sorted(row["raw"] for row in read_back(shared)) == ["a", "b", "c"]


def test_a_value_that_was_emptied_is_free_and_deleting_rows_changes_no_channel(shared, spark):
    """Its own channel hands a landing day over; erasing a person's rows does not."""
    by_topic = {"channel": "topic visits", "sequence": 8}
    shared.overwrite(visits(spark, ("a", None), ("b", None)), partition=LANDED, provenance=a_run())
    shared.delete("raw = 'a'", provenance=a_run(sequence=7, channel="erasure"))
    with pytest.raises(ContractError, match="holds rows that came by files: nothing by topic visits was published"):
        shared.append(visits(spark, ("c", None)), provenance=a_run(**by_topic))
    shared.clear(partition=LANDED, provenance=a_run())
    shared.append(visits(spark, ("c", None)), provenance=a_run(**by_topic))
    assert [row["raw"] for row in read_back(shared)] == ["c"]


def test_a_channel_can_own_partitions_only():
    """A column that is none has no files by value."""
    with pytest.raises(ConfigError, match="raw is no partition column"):
        replace(VISITS, one_channel_per="raw")


def test_rows_that_go_on_after_a_version_are_refused_after_another(events, event_rows):
    """Of two writers that go on at the same place one is refused, though its version is a new one."""
    first = events.stage(event_rows(2), provenance=a_run(sequence=2), append=True)
    second = events.stage(event_rows(3), provenance=a_run(sequence=3), append=True)
    first.publish(after=0)
    with pytest.raises(Conflict, match="applied upstream version 2 meanwhile, this run went on from version 0"):
        second.publish(after=0)
    assert first.publish(after=0).applied is False
    assert unique_ids(events) == [0, 1]


# --- names ------------------------------------------------------------------------------------------------------------

NAMES = ["outcome", "n", "x", "Reason", "syntax", "a.b", "dash-ed", "Ümlaut", "1st", "select", "value", "b`tick", "_x"]
ODDLY_NAMED = TableSpec("silver/named", {name: Column("STRING") for name in NAMES}, partition_by=("outcome",))


@pytest.mark.both
def test_every_name_of_a_column_works(make_table, spark):
    """A partition column like our verdict, columns like our aggregates, and letters that SQL has to quote."""
    table, columns = make_table(ODDLY_NAMED), ", ".join(f"`{name.replace('`', '``')}` STRING" for name in NAMES)

    def load(sequence, change):
        changes = ({}, {"outcome": "valid"}, change, {"outcome": "dead"})
        wanted = [{name: name for name in NAMES} | each for each in changes]
        rows = spark.createDataFrame([tuple(row.values()) for row in wanted], columns)
        verdict = f"if(outcome = 'dead', 'dead', 'valid') AS {OUTCOME}"
        parts = {"valid": tuple(NAMES), "dead": ("Reason", "a.b")}
        split = Split(rows.selectExpr("*", verdict), parts, identity=tuple(NAMES))
        staged = table.stage(split, provenance=a_run(sequence=sequence), also=("dead",))
        dead = staged.part("dead").select("Reason", "`a.b`", "`b``tick`")
        assert [tuple(row) for row in dead.collect()] == [("Reason", "a.b", None)]
        return staged.publish(), sorted(wanted[:-1], key=str)

    for sequence, change in enumerate([{"n": "other"}, {"x": "other"}, {"_x": "other"}], start=1):
        result, rows = load(sequence, change)
        assert (result.changed, result.rows.written, result.rows.dead) == (True, 3, 1)
        assert sorted(read_back(table), key=str) == rows


def test_an_audit_may_have_any_name_and_switches_no_guard_off(events, event_rows):
    """An audit called as the guards' own figures once were judges its own figure, and the guards theirs."""
    astray = event_rows(2).unionByName(event_rows(1, day="2026-01-06", start=9))
    calm = [Audit(name=name, sql="max(0L)", fail_above=0) for name in ("outside", "fingerprint", "identity")]
    with pytest.raises(AuditFailed, match="rows_lie_in_their_partition") as refused:
        events.overwrite(astray, partition=DAY, provenance=a_run(), audits=calm)
    assert {f.name for f in refused.value.findings if f.passed} > {"outside", "fingerprint", "identity"}
    events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1), audits=calm)
    assert events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=2), audits=calm).changed


@pytest.mark.parametrize("figures", [{"written": 0}, {"__dedp_outside": 0}])
def test_a_reading_brings_no_figure_that_is_measured(events, event_rows, figures):
    """What a write counts by itself cannot be told to it; refused before a row is computed."""
    with pytest.raises(ConfigError, match="which is measured: give it another name"):
        events.stage(event_rows(1), partition=DAY, provenance=a_run(), rows_read=RowsRead(figures=figures))
    assert not list(events.location.glob("staged-*"))


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [("ARRAY<INT>", "array(1, NULL)", "array(NULL, 1)"), ("MAP<STRING, INT>", "map('a', 1)", "map('a', NULL)")],
)
def test_nested_content_that_changes_is_published(make_table, spark, kind, before, after):
    """Arrays, and maps, which could not be written at all: what differs is no repetition, and what does not is one."""
    table = make_table(TableSpec("silver/nested", {"c": Column(kind)}))
    changed = [
        table.overwrite(spark.sql(f"SELECT CAST({value} AS {kind}) AS c"), provenance=a_run(run_id=f"run-{n}")).changed
        for n, value in enumerate((before, after, after))
    ]
    assert changed == [True, True, False]


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{b", "a)b", "a\nb", "a\tb", "a=b"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_name_that_no_file_can_have_is_refused_when_the_table_is_made(make_table, name, inside):
    """Delta says which name it does not take, of a column or inside of one; nothing is left of the table."""
    nested = Column(f"STRUCT<{identifier(name)}: INT>")
    table = make_table(TableSpec("names/refused", {"id": Column("INT"), "s" if inside else name: nested}))
    told = re.escape(name.partition("\n")[0])
    words = rf"names/refused cannot be made as it is declared: .*invalid character.*names:.*{told}"
    with pytest.raises(ConfigError, match=words):
        table.ensure()
    assert not table.ledger.exists()
