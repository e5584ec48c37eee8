"""Merge and delete: which rows change, what is counted, what is refused, and who may interfere."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import (
    AmbiguousKeys,
    AuditFailed,
    ConfigError,
    Conflict,
    ContractError,
    SchemaMismatch,
    TransactionReused,
)
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Delete, Insert, Merge, Update
from dedp_assets.patterns.delta.commit import file_exchange
from dedp_assets.patterns.delta.rows import copy_on_write, touched_files
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from tests.helpers import EVENTS, a_run, active_files, read_back
from tests.renaming import MAPPED, STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.budget(90, "every clause of a merge by both ways of writing, and generated merges")

DAY = {"event_date": "2026-01-05"}
NEXT_DAY = {"event_date": "2026-01-06"}
UPSERT = Merge(["id"], [Update(), Insert()])
PAIRS = TableSpec("silver/pairs", {"a": Column("BIGINT"), "b": Column("STRING"), "v": Column("INT")})
_ARROW = pa.schema(
    [("id", pa.int64()), ("user_id", pa.string()), ("amount", pa.float64()), ("event_date", pa.date32())]
)


@pytest.fixture
def events(created_events):
    """An empty table of :data:`EVENTS`."""
    return created_events


@pytest.fixture
def looked(monkeypatch):
    """Every table counts as large: the files to rewrite are looked for."""
    monkeypatch.setattr(touched_files, "SMALL_BYTES", -1)


@pytest.fixture(params=["small", "large"])
def either_way(request):
    """Once as a small table, whose files are rewritten as they are, and once as a large one."""
    if request.param == "large":
        request.getfixturevalue("looked")


def put(table, *numbers, day="2026-01-05"):
    """A foreign append of rows, one file a day."""
    rows = {"id": numbers, "user_id": [f"u{n}" for n in numbers], "amount": [n * 1.0 for n in numbers]}
    dated = {**rows, "event_date": [date.fromisoformat(day)] * len(numbers)}
    write_deltalake(str(table.location), pa.table(dated, schema=_ARROW), mode="append")


def amounts(table):
    """Each day's rows, id -> amount, through an independent reader."""
    found = {}
    for row in read_back(table):
        assert row["id"] not in found.setdefault(str(row["event_date"]), {})
        found[str(row["event_date"])][row["id"]] = row["amount"]
    return found


def counts(result):
    return {name: result.figures[name] for name in ("inserted", "updated", "deleted", "untouched", "unused")}


def finding(result, name):
    return next(found for found in result.findings if found.name == name)


def files_of(table, day):
    return {f["path"] for f, key in table.ledger.state().keyed_files() if dict(key) == {"event_date": day}}


# --- what a merge does ------------------------------------------------------------------------------------------------


def test_clauses_take_rows_in_their_order_and_every_row_is_accounted_for(events, spark, either_way):
    """Insert, update, delete by condition; newer rows stay, flagged unknown keys are not inserted; all is counted."""
    put(events, 1, 2, 3, 4)
    put(events, 10, 11, day="2026-01-06")
    kept = files_of(events, "2026-01-06")
    changes = [(1, 50.0, False), (2, 0.5, False), (3, 9.0, True), (7, 7.0, False), (8, 8.0, True)]
    source = spark.createDataFrame(changes, "id BIGINT, price DOUBLE, gone BOOLEAN")
    merged = events.merge(
        source,
        Merge(
            ["ID"],
            [
                Delete(when="s.gone"),
                Update({"amount": "s.price + t.amount", "USER_ID": "'changed'"}, when="s.price > t.amount"),
                Insert({"id": "s.id", "amount": "s.price", "event_date": "DATE '2026-01-07'"}, when="NOT s.gone"),
            ],
        ),
        provenance=a_run(sequence=1),
    )
    assert amounts(events) == {
        "2026-01-05": {1: 51.0, 2: 2.0, 4: 4.0},
        "2026-01-06": {10: 10.0, 11: 11.0},
        "2026-01-07": {7: 7.0},
    }
    assert {row["id"]: row["user_id"] for row in read_back(events)} == {
        1: "changed",
        7: None,
        **{n: f"u{n}" for n in (2, 4, 10, 11)},
    }
    assert counts(merged) == {"inserted": 1, "updated": 1, "deleted": 1, "untouched": 4, "unused": 1}
    assert (merged.figures["before"], merged.figures["after"], merged.rows.unaccounted) == (6, 6, 0)
    assert (merged.rows.read, merged.rows.written, merged.rows.filtered) == (5, 2, 1)
    assert finding(merged, "rows_are_accounted_for").passed
    commit = events.ledger.commit(merged.version)
    assert commit.record.figures == merged.figures
    assert (commit.record.verdict, commit.record.counted, commit.operation) == ("passed", True, "MERGE")
    assert {dict(key)["event_date"] for key in commit.changed} == {"2026-01-05", "2026-01-07"}
    assert files_of(events, "2026-01-06") == kept
    assert DeltaTable(str(events.location)).history(1)[0]["operationMetrics"]["numTargetRowsInserted"] == "1"


def test_only_files_with_a_row_to_change_are_rewritten(events, event_rows, looked):
    """Of several files the others stay; a file whose rows match and no clause takes stays as well."""
    for start in (0, 10, 20, 30):
        put(events, *range(start, start + 5))
    before = active_files(events)
    source = event_rows(1, start=12).unionAll(event_rows(1, start=21)).unionAll(event_rows(1, start=39))
    merged = events.merge(
        source, Merge(["id"], [Update({"amount": "99"}, when="s.id = 12")]), provenance=a_run(sequence=1)
    )
    assert len(before & active_files(events)) == 3
    assert counts(merged) == {"inserted": 0, "updated": 1, "deleted": 0, "untouched": 19, "unused": 1}
    assert amounts(events)["2026-01-05"][12] == 99.0


def test_the_logs_bounds_and_the_partition_leave_files_unread(events, event_rows):
    """A file that cannot hold a key need not even be there: key bounds, dates among the keys, and named partitions."""
    put(events, 1, 2)
    put(events, 50, 51)
    put(events, 1, 2, day="2026-01-06")
    gone = {f["path"] for f, key in events.ledger.state().keyed_files() if f["min.id"] == 50}
    gone |= files_of(events, "2026-01-06")
    for path in gone:
        (events.location / path).unlink()
    upsert = Merge(["id", "event_date"], [Update(), Insert()])
    merged = events.merge(event_rows(2, start=2), upsert, provenance=a_run(sequence=1))
    assert counts(merged) == {"inserted": 1, "updated": 1, "deleted": 0, "untouched": 5, "unused": 0}
    merged = events.merge(event_rows(2, start=3), UPSERT, partition=DAY, provenance=a_run(sequence=2))
    assert (counts(merged)["inserted"], counts(merged)["updated"]) == (1, 1)
    assert gone <= active_files(events)


def test_a_merge_that_only_inserts_takes_no_file_away(make_table, event_rows):
    """New keys are appended, which a table that only takes appends allows; it refuses anything else, unchanged."""
    table = make_table(replace(EVENTS, properties={"delta.appendOnly": "true"}))
    table.append(event_rows(3), provenance=a_run(sequence=1))
    before = active_files(table)
    merged = table.merge(event_rows(4, start=1), Merge(["id"], [Insert()]), provenance=a_run(sequence=2))
    assert counts(merged) == {"inserted": 2, "updated": 0, "deleted": 0, "untouched": 3, "unused": 0}
    assert before < active_files(table)
    version = table.ledger.version()
    for change in (
        lambda: table.merge(event_rows(1), Merge(["id"], [Update()]), provenance=a_run(sequence=3)),
        lambda: table.delete("id = 1", provenance=a_run(sequence=3)),
    ):
        with pytest.raises(ConfigError, match="silver/events is append-only"):
            change()
    assert table.ledger.version() == version


def test_a_merge_that_changes_nothing_moves_the_cursor_and_no_partition(events, event_rows, either_way):
    """No row to change, and no row at all: one commit with the record, without files; nothing downstream is stale."""
    put(events, 1, 2)
    before = active_files(events)
    sources = [event_rows(2, start=1), event_rows(0)]
    for number, source in enumerate(sources, start=1):
        merged = events.merge(
            source,
            Merge(["id"], [Update(when="s.amount < -1"), Delete(when="CAST(NULL AS BOOLEAN)")]),
            provenance=a_run(sequence=number),
        )
        assert (merged.applied, merged.changed, merged.reason) == (True, False, "no row is to be changed")
        assert events.ledger.state().applied("silver/events", {}) == number
        assert not events.ledger.commit(merged.version).changed
    assert active_files(events) == before
    assert not list(events.location.glob("*staged-*"))


def test_null_in_a_key_matches_nothing_unless_it_is_said_to_be_a_value(make_table, spark, either_way):
    """As in SQL: such a row of the source is new. With ``null_keys`` NULL equals NULL, in files with bounds, too."""
    for null_keys, expected in ((False, [(None, "x", 1), (None, "x", 9), (1, None, 2), (1, None, 8), (2, "y", 7)]),
                                (True, [(None, "x", 9), (1, None, 8), (2, "y", 7)])):  # fmt: skip
        table = make_table(replace(PAIRS, name=f"silver/pairs_{null_keys}"))
        table.append(
            spark.createDataFrame([(None, "x", 1), (1, None, 2), (2, "y", 3)], "a BIGINT, b STRING, v INT"),
            provenance=a_run(sequence=1),
        )
        source = spark.createDataFrame([(None, "x", 9), (1, None, 8), (2, "y", 7)], "a BIGINT, b STRING, v INT")
        table.merge(source, Merge(["a", "b"], [Update(), Insert()], null_keys=null_keys), provenance=a_run(sequence=2))
        rows = sorted((tuple(row.values()) for row in read_back(table)), key=str)
        assert rows == sorted(expected, key=str)


@pytest.mark.promise("two-rows-for-one-key")
def test_two_rows_for_one_key_are_refused_with_the_key(events, make_table, spark, event_rows):
    """Whether or not the table has the key; NULL is none, unless it is said to be one. Personal keys are not shown."""
    put(events, 1, 2)
    twice = event_rows(3, start=1).unionAll(event_rows(1, start=3, amount="7D"))
    sentence = r"silver/events: the source has several rows for one key.* id=3 \(2 rows\)"
    with pytest.raises(AmbiguousKeys, match=sentence):
        events.merge(twice, UPSERT, provenance=a_run(sequence=1))
    with pytest.raises(AmbiguousKeys, match="a personal key") as raised:
        events.merge(twice, Merge(["user_id"], [Delete()]), provenance=a_run(sequence=1))
    assert "u3" not in str(raised.value)
    assert (events.ledger.version(), list(events.location.glob("*staged-*"))) == (1, [])
    table = make_table(PAIRS)
    nulls = spark.createDataFrame([(None, "x", 1), (None, "x", 2)], "a BIGINT, b STRING, v INT")
    with pytest.raises(AmbiguousKeys, match="a=None, b=x"):
        table.merge(nulls, Merge(["a", "b"], [Insert()], null_keys=True), provenance=a_run(sequence=1))
    assert table.merge(nulls, Merge(["a", "b"], [Insert()]), provenance=a_run(sequence=1)).figures["inserted"] == 2


def test_a_row_whose_partition_value_changes_moves_or_is_refused(events, event_rows, either_way):
    """Without a named partition it leaves the old one and is in the new one; outside of a named one nothing is put."""
    put(events, 1, 2)
    put(events, 10, day="2026-01-06")
    moved = events.merge(event_rows(1, start=2, day="2026-01-06"), UPSERT, provenance=a_run(sequence=1))
    assert amounts(events) == {"2026-01-05": {1: 1.0}, "2026-01-06": {2: 3.0, 10: 10.0}}
    assert {dict(key)["event_date"] for key in events.ledger.commit(moved.version).changed} == {
        "2026-01-05",
        "2026-01-06",
    }
    version = events.ledger.version()
    for number in (1, 5):
        stray = event_rows(1, start=number, day="2026-01-06")
        with pytest.raises(AuditFailed, match=r"event_date=2026-01-05: nothing published.*outside=1"):
            events.merge(stray, UPSERT, partition=DAY, provenance=a_run(sequence=2))
    assert events.ledger.version() == version


def test_a_further_condition_narrows_what_matches(events, spark, either_way):
    """Rows of which the keys are equal and ``on`` is not true do not meet: the source's row is a new one."""
    put(events, 1, 2)
    source = spark.createDataFrame([(1, 5.0), (2, 1.0)], "id BIGINT, amount DOUBLE")
    insert = Insert({"id": "s.id + 100", "amount": "s.amount", "event_date": "DATE '2026-01-05'"})
    events.merge(
        source,
        Merge(["id"], [Update({"amount": "s.amount"}), insert], on="t.amount < s.amount"),
        provenance=a_run(sequence=1),
    )
    assert amounts(events) == {"2026-01-05": {1: 5.0, 2: 2.0, 102: 1.0}}


def test_one_row_of_the_source_changes_every_row_of_its_key(events, spark, either_way):
    """Keys identify rows of the source; the table may hold several of one key, in one file or in many."""
    put(events, 1, 2)
    put(events, 1, day="2026-01-06")
    put(events, 1, 3, day="2026-01-07")
    source = spark.createDataFrame([(1, 9.0), (3, None)], "id BIGINT, amount DOUBLE")
    clauses = [Delete(when="s.amount IS NULL"), Update({"amount": "s.amount"})]
    merged = events.merge(source, Merge(["id"], clauses), provenance=a_run(sequence=1))
    assert amounts(events) == {"2026-01-05": {1: 9.0, 2: 2.0}, "2026-01-06": {1: 9.0}, "2026-01-07": {1: 9.0}}
    assert counts(merged) == {"inserted": 0, "updated": 3, "deleted": 1, "untouched": 1, "unused": 0}
    assert merged.rows.unaccounted == 0


@pytest.mark.parametrize("city", ["New York", "O'Hare 5%", "a/b=c+d", "Zürich"])
def test_files_whose_paths_need_escapes_are_found_and_removed(make_table, spark, city, looked):
    """Partition values with blanks and signs: the file that is looked for is the one that goes."""
    spec = TableSpec("silver/my cities", {"n": Column("BIGINT"), "city": Column("STRING")}, partition_by=("city",))
    table = make_table(spec)
    rows = spark.createDataFrame([(1, city), (2, city), (3, "Rome")], "n BIGINT, city STRING")
    table.ensure()
    rows.write.format("delta").mode("append").save(str(table.location))
    table.merge(rows.filter("n = 1"), Merge(["n"], [Update({"n": "s.n + 10"})]), provenance=a_run(sequence=1))
    assert sorted((row["n"], row["city"]) for row in read_back(table)) == [(2, city), (3, "Rome"), (11, city)]
    table.delete("n = 2", partition={"city": city}, provenance=a_run(sequence=2))
    assert sorted((row["n"], row["city"]) for row in read_back(table)) == [(3, "Rome"), (11, city)]


def test_many_partitions_are_merged_in_one_pass(make_table, spark):
    """More partitions than frames can be put together: values come by the file, of every type, NULL among them."""
    kinds = {"d": "DATE", "t": "TIMESTAMP", "n": "INT"}
    spec = TableSpec(
        "silver/many", {"id": Column("BIGINT"), **{c: Column(k) for c, k in kinds.items()}}, partition_by=tuple(kinds)
    )
    table = make_table(spec)
    rows = spark.range(70).selectExpr(
        "id",
        "date_add(DATE '2026-01-01', CAST(id AS INT)) AS d",
        "timestamp_seconds(id * 3601) AS t",
        "IF(id = 3, NULL, CAST(id AS INT)) AS n",
    )
    table.append(rows, provenance=a_run(sequence=1))
    merged = table.merge(
        rows.selectExpr("id", "d", "t", "n + 100 AS n"), Merge(["id"], [Update()]), provenance=a_run(sequence=2)
    )
    assert counts(merged) == {"inserted": 0, "updated": 70, "deleted": 0, "untouched": 0, "unused": 0}
    expected = {row.id: (row.d, row.t.timestamp(), None if row.n is None else row.n + 100) for row in rows.collect()}
    assert {row["id"]: (row["d"], row["t"].timestamp(), row["n"]) for row in read_back(table)} == expected


# --- audits, constraints, types ---------------------------------------------------------------------------------------


@pytest.mark.promise("audits-see-what-the-change")
def test_audits_see_what_the_change_brings_and_not_what_was_there(events, event_rows, either_way):
    """A rule that old rows break passes; one that new rows break refuses, with samples, and leaves the stage."""
    put(events, 1, 200)
    rule = Audit.none_where("amounts_are_small", "amount > 100", approvable=True)
    few = Audit(name="updates_are_few", of="updated", per="before", fail_above=0.5)
    own = Audit(name="sum_is_small", sql=f"sum(if(`{OUTCOME}` = 'inserted', amount, 0))", fail_above=1000)
    merged = events.merge(event_rows(2, start=1), UPSERT, audits=[rule, few, own], provenance=a_run(sequence=1))
    assert [found.name for found in merged.findings[3:]] == ["amounts_are_small", "updates_are_few", "sum_is_small"]
    assert (merged.figures["amounts_are_small"], merged.figures["sum_is_small"]) == (0, 3.0)
    version = events.ledger.version()
    with pytest.raises(AuditFailed, match=r"amounts_are_small.*'id': 2, 'amount': 101\.0") as raised:
        events.merge(event_rows(1, start=2, amount="101D"), UPSERT, audits=[rule], provenance=a_run(sequence=2))
    assert "'id': 200" not in str(raised.value)
    assert 101.0 in DeltaTable(raised.value.stage).to_pyarrow_table()["amount"].to_pylist()
    assert events.ledger.version() == version
    approved = a_run(sequence=2, approval=Approval(by="Ada", because="a sale", audits=("amounts_are_small",)))
    events.merge(event_rows(1, start=2, amount="101D"), UPSERT, audits=[rule], provenance=approved)
    assert events.ledger.commit(version + 1).record.verdict == "approved"
    with pytest.raises(AuditFailed, match="deletes_few"):
        events.delete(
            "true", audits=[Audit(name="deletes_few", of="deleted", fail_above=1)], provenance=a_run(sequence=3)
        )
    assert len(read_back(events)) == 3


@pytest.mark.parametrize(
    ("clauses", "options", "error", "sentence"),
    [
        ([Update({"amont": "1"})], {}, ConfigError, "silver/events has no column amont"),
        ([Update({"amount": "s.price"})], {}, ConfigError, "silver/events: .*price"),
        ([Update({"amount": "s.user_id"})], {}, SchemaMismatch, "amount would become STRING, the table has DOUBLE"),
        ([Insert({"id": "t.id"})], {}, ConfigError, "silver/events: .*t.*id"),
        ([Delete(when="s.id")], {}, ConfigError, "s.id is no condition, its type is BIGINT"),
        ([Update(), Delete(when="true")], {}, ConfigError, "never gets a row"),
        ([], {}, ConfigError, "at least one key and one clause"),
        ([Update()], {"keys": []}, ConfigError, "at least one key"),
        ([Update()], {"keys": "id"}, ConfigError, "keys must be a list of columns, not 'id'"),
        ([Update()], {"keys": ["key"]}, ConfigError, r"the keys \['key'\] are not columns of both"),
        ([Update()], {"on": "t.id >"}, ConfigError, "silver/events: .*PARSE"),
        ([Update()], {"partition": {"id": "1"}}, ConfigError, "partitioned by"),
    ],
)
def test_what_can_never_work_is_refused_before_anything_is_computed(
    events, event_rows, clauses, options, error, sentence
):
    """Names, types, conditions, order: one sentence that names the offender, and no stage."""
    told = {"keys": ["id"], "clauses": clauses, **options}
    partition = told.pop("partition", None)
    with pytest.raises(error, match=sentence):
        events.merge(event_rows(1), Merge(**told), partition=partition, provenance=a_run(sequence=1))
    assert (events.ledger.version(), list(events.location.glob("*staged-*"))) == (0, [])


def test_a_source_without_the_tables_columns_has_to_name_its_values(events, spark):
    """``Update()`` and ``Insert()`` take all columns; narrower values fit wider columns and nothing else does."""
    source = spark.sql("SELECT CAST(1 AS INT) AS id, 5 AS amount, DATE '2026-01-05' AS event_date")
    with pytest.raises(SchemaMismatch, match="the source has no column user_id"):
        events.merge(source, Merge(["id"], [Insert()]), provenance=a_run(sequence=1))
    with pytest.raises(SchemaMismatch, match="id is STRING in the rows and BIGINT in the table: cast it"):
        events.merge(source.withColumn("id", source.id.cast("string")), Merge(["id"], [Delete()]), provenance=a_run())
    values = {"id": "s.id", "amount": "s.amount", "event_date": "s.event_date", "user_id": "NULL"}
    events.merge(source, Merge(["id"], [Insert(values)]), provenance=a_run(sequence=1))
    assert amounts(events) == {"2026-01-05": {1: 5.0}}


# --- delete -----------------------------------------------------------------------------------------------------------


def test_a_delete_keeps_rows_for_which_the_predicate_is_null(make_table, spark, either_way):
    """Only true deletes; a table can be emptied; the figures say so."""
    table = make_table(PAIRS)
    table.append(
        spark.createDataFrame([(1, "x", 1), (2, None, 2), (3, "y", 3)], "a BIGINT, b STRING, v INT"),
        provenance=a_run(sequence=1),
    )
    deleted = table.delete("b = 'x'", provenance=a_run(sequence=2))
    assert counts(deleted) == {"inserted": 0, "updated": 0, "deleted": 1, "untouched": 2, "unused": 0}
    assert [row["a"] for row in read_back(table)] == [2, 3]
    emptied = table.delete("true", provenance=a_run(sequence=3))
    assert (emptied.figures["after"], read_back(table), active_files(table)) == (0, [], set())
    nothing = table.delete("true", provenance=a_run(sequence=4))
    assert (nothing.applied, nothing.changed) == (True, False)


# --- retries and other writers ----------------------------------------------------------------------------------------


@pytest.fixture
def before_lock(monkeypatch):
    """``before_lock(action, times)``: somebody acts when rows are staged and not yet published; gives the attempts."""

    def interposed(action, times=1):
        real, tried = copy_on_write.turn, []

        def turn(location):
            tried.append(1)
            if len(tried) <= times:
                action(len(tried))
            return real(location)

        monkeypatch.setattr(copy_on_write, "turn", turn)
        return tried

    return interposed


@pytest.mark.parametrize(
    ("interference", "attempts", "expected"),
    [
        ("a row with a key of the source", 2, {1: 3.0, 2: 3.0, 5: 7.5}),
        ("a touched row changed", 2, {1: 1.0, 2: 3.0, 5: 7.5}),
        ("a file compacted", 2, {1: 1.0, 2: 3.0, 5: 7.5}),
        ("rows out of reach", 1, {1: 1.0, 2: 3.0, 5: 7.5, 900: 900.0}),
        ("another partition", 1, {1: 1.0, 2: 3.0, 5: 7.5}),
    ],
)
def test_what_others_do_meanwhile_is_seen_where_it_matters(
    events, event_rows, before_lock, interference, attempts, expected, looked
):
    """A change of what was read is computed again on top of it; anything else is in nobody's way. No row is lost."""
    put(events, 1)
    put(events, 2)
    delta = DeltaTable(str(events.location))

    def interfere(_):
        acts = {
            "a row with a key of the source": lambda: put(events, 5),
            "a touched row changed": lambda: delta.update(updates={"amount": "77"}, predicate="id = 2"),
            "a file compacted": delta.optimize.compact,
            "rows out of reach": lambda: put(events, 900),
            "another partition": lambda: put(events, 2, day="2026-01-06"),
        }
        acts[interference]()

    tried = before_lock(interfere)
    source = event_rows(1, start=2).unionAll(event_rows(1, start=5))
    expected = {**expected, 1: 1.0}
    merged = events.merge(source, UPSERT, partition=DAY, provenance=a_run(sequence=1))
    assert (len(tried), merged.applied, amounts(events)["2026-01-05"]) == (attempts, True, expected)
    assert len(list(events.location.glob(".staged-*"))) == 0


def test_attempts_end_where_others_change_the_rows_each_time(events, event_rows, before_lock, monkeypatch):
    """Five times, then the conflict is the caller's; nothing of ours is there, and no stage is left."""
    monkeypatch.setattr(Backoff, "pause", lambda *_: 0.001)
    put(events, 1)
    before_lock(lambda number: put(events, 10 + number), times=99)
    with pytest.raises(Conflict, match="other writers changed the rows that this run changes"):
        events.merge(event_rows(40), UPSERT, provenance=a_run(sequence=1))
    assert sorted(amounts(events)["2026-01-05"]) == [1, 11, 12, 13, 14, 15]
    assert not list(events.location.glob("*staged-*"))


def test_a_commit_lost_to_a_writer_without_our_lock_is_tried_again(events, event_rows, monkeypatch):
    """Somebody else's commit between the look and ours: the staged rows are published at the next version."""
    put(events, 1)
    real, staged = file_exchange.exchange_files, []

    def exchange(*args, **options):
        staged.append(1)
        if len(staged) == 1:
            put(events, 1, day="2026-01-09")
        real(*args, **options)

    monkeypatch.setattr(file_exchange, "exchange_files", exchange)
    merged = events.merge(event_rows(2, start=1), UPSERT, partition=DAY, provenance=a_run(sequence=1))
    assert (len(staged), merged.version, amounts(events)) == (
        2,
        3,
        {"2026-01-05": {1: 1.5, 2: 3.0}, "2026-01-09": {1: 1.0}},
    )


def test_a_retry_is_found_before_and_after_staging(events, event_rows, before_lock):
    """The same merge twice at once is applied once; other rows under its sequence are refused, and a stale one is."""
    put(events, 1)
    run = a_run(sequence=3, inputs={"bronze": 3})

    def same(number):
        if number == 1:
            events.merge(event_rows(3), UPSERT, provenance=run)

    before_lock(same)
    second = events.merge(event_rows(3), UPSERT, provenance=run)
    assert (second.applied, second.figures["inserted"], second.figures["updated"]) == (False, 2, 1)
    version = events.ledger.version()
    assert not events.merge(event_rows(3), UPSERT, provenance=run).applied
    with pytest.raises(TransactionReused, match="came back with other rows"):
        events.merge(event_rows(2), UPSERT, provenance=run)
    with pytest.raises(TransactionReused):
        events.merge(event_rows(3), Merge(["id"], [Delete()]), provenance=run)
    with pytest.raises(Conflict, match="is stale"):
        events.merge(event_rows(2), UPSERT, provenance=a_run(sequence=2))
    assert events.ledger.version() == version
    assert not list(events.location.glob(".staged-*"))


def test_writers_of_one_session_do_not_meet_in_each_others_commits(make_table, event_rows, spark):
    """Threads that merge, by us and by Delta's statement, and one that appends by Spark: nothing lost or mixed up."""
    feed = replace(EVENTS, name="silver/feed", properties={"delta.enableChangeDataFeed": "true"})
    tables = [make_table(replace(EVENTS, name="silver/own")), make_table(feed)]
    foreign = make_table(replace(EVENTS, name="silver/foreign"))
    for table in (*tables, foreign):
        table.ensure()

    def merge(table):
        for number in range(1, 3):
            table.merge(event_rows(number * 2), UPSERT, provenance=a_run(table.name, sequence=number))

    def append():
        for number in range(4):
            event_rows(1, start=number).write.format("delta").mode("append").save(str(foreign.location))

    with ThreadPoolExecutor(3) as pool:
        for done in [*[pool.submit(merge, table) for table in tables], pool.submit(append)]:
            done.result()
    assert [sorted(amounts(table)["2026-01-05"]) for table in (*tables, foreign)] == [[*range(4)]] * 3
    for table in tables:
        assert [c.record.sequence for c in table.ledger.commits() if c.record] == [1, 2]
        assert {c.record.asset for c in table.ledger.commits() if c.record} == {table.name}
    assert not [c for c in foreign.ledger.commits() if c.record or c.transactions]
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


# --- tables that only Spark changes -----------------------------------------------------------------------------------


def by_spark(table):
    rows = table.session.read.format("delta").load(str(table.location)).collect()
    return sorted((row["id"], row["amount"]) for row in rows)


BY_SPARK = [
    pytest.param({"delta.columnMapping.mode": "name"}, marks=pytest.mark.both),
    {"delta.enableChangeDataFeed": "true"},
]


@pytest.mark.parametrize("properties", BY_SPARK, ids=lambda properties: next(iter(properties)))
def test_tables_that_only_spark_changes_take_deltas_statement(make_table, event_rows, properties):
    """The same function, rows, figures, retries and refusals; nothing is left beside the table."""
    table = make_table(replace(EVENTS, properties=properties))
    table.append(event_rows(3), provenance=a_run(sequence=1))
    stages = set(table.location.glob("*staged-*"))
    clauses = [Delete(when="s.amount > 100"), Update(), Insert(when="s.amount < 100")]
    source = event_rows(1, start=1, amount="101D").unionAll(event_rows(2, start=2, amount="99D"))
    merge = Merge(["id"], clauses)
    merged = table.merge(source, merge, partition=DAY, provenance=a_run(sequence=2, inputs={"bronze": 2}))
    assert by_spark(table) == [(0, 0.0), (2, 99.0), (3, 99.0)]
    assert [merged.figures[name] for name in ("source", "inserted", "updated", "deleted")] == [3, 1, 1, 1]
    assert (merged.rows.read, merged.rows.unaccounted, table.ledger.commit(merged.version).record.sequence) == (3, 0, 2)
    assert not table.merge(source, merge, partition=DAY, provenance=a_run(sequence=2, inputs={"bronze": 2})).applied
    for rows, error, sentence in (
        (event_rows(1, amount="-1D"), ContractError, r"nothing was changed.*amount_is_positive"),
        (event_rows(1, day="2026-01-06"), ContractError, "1 source rows lie outside of event_date=2026-01-05"),
        (source.unionAll(source), AmbiguousKeys, "several rows for one key"),
    ):
        with pytest.raises(error, match=sentence):
            table.merge(rows, merge, partition=DAY, provenance=a_run(sequence=3))
    few = Audit(name="few", of="deleted", fail_above=1)
    with pytest.raises(ConfigError, match="could judge few before they are visible: give no audits"):
        table.delete("true", audits=[few], provenance=a_run(sequence=3))
    deleted = table.delete("id = 3", partition=DAY, provenance=a_run(sequence=3))
    assert (by_spark(table), deleted.figures["deleted"]) == ([(0, 0.0), (2, 99.0)], 1)
    assert set(table.location.glob("*staged-*")) <= stages


def test_the_change_feed_shows_the_changed_rows_and_no_others(make_table, event_rows, spark):
    """A reader of the feed gets an update as an update, and nothing of the rows that were rewritten along."""
    table = make_table(replace(EVENTS, properties={"delta.enableChangeDataFeed": "true"}))
    table.append(event_rows(5), provenance=a_run(sequence=1))
    table.merge(event_rows(2, start=4), UPSERT, provenance=a_run(sequence=2))
    table.delete("id = 0", provenance=a_run(sequence=3))
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
    kinds = sorted((row["id"], row["_change_type"]) for row in feed.load(str(table.location)).collect())
    assert kinds == [(0, "delete"), (4, "update_postimage"), (4, "update_preimage"), (5, "insert")]


# --- against a model --------------------------------------------------------------------------------------------------

MODEL = TableSpec(
    "silver/model",
    {"k": Column("STRING"), "day": Column("DATE"), "v": Column("INT"), "tags": Column("ARRAY<STRING>")},
    partition_by=("day",),
)
KEYS = ["a", "B", "b", "", " ", "ä", "a\u0308", "z" * 70, "%20", "null", "'", "\U0001f600"]
DAYS = [date(2026, 1, 5), date(2026, 1, 6), None]
BY_DELTA = (
    "MERGE INTO delta.`%s` t USING {s} s ON t.k = s.k WHEN MATCHED AND s.gone THEN DELETE "
    "WHEN MATCHED AND s.v >= t.v THEN UPDATE SET k = s.k, day = s.day, v = s.v, tags = s.tags "
    "WHEN NOT MATCHED AND NOT s.gone THEN INSERT (k, day, v, tags) VALUES (s.k, s.day, s.v, s.tags)"
)


def some_changes(rng):
    """Rows for some of the keys: key, day, value, tags, and whether the key is gone."""
    chosen = rng.sample(KEYS, rng.randint(1, len(KEYS)))
    tags = [None, [], ["x", None]]
    return [(k, rng.choice(DAYS), rng.randint(0, 9), rng.choice(tags), rng.random() < 0.25) for k in chosen]


def merged_into(model, changes):
    """What the changes make of a dictionary."""
    found = dict(model)
    for *row, gone in changes:
        there = found.get(row[0])
        if gone:
            found.pop(row[0], None)
        elif there is None or row[2] >= there[2]:
            found[row[0]] = tuple(row)
    return found


def content(table):
    return sorted((tuple(row.values()) for row in read_back(table)), key=repr)


def test_random_merges_and_deletes_equal_a_dictionary_and_deltas_own(make_table, spark, monkeypatch):
    """Odd keys, moving partitions, small and large ways in turn: three ways to one table, and figures that add up."""
    rng, model = random.Random(7), {}  # noqa: S311 - no secret
    ours, theirs = make_table(MODEL), make_table(replace(MODEL, name="silver/theirs"))
    theirs.ensure()
    clauses = [Delete(when="s.gone"), Update(when="s.v >= t.v"), Insert(when="NOT s.gone")]
    for number in range(1, 6):
        monkeypatch.setattr(touched_files, "SMALL_BYTES", rng.choice([-1, 1 << 22]))
        before, run = model, a_run(sequence=number)
        if number % 4:
            changes = some_changes(rng)
            model = merged_into(before, changes)
            source = spark.createDataFrame(changes, "k STRING, day DATE, v INT, tags ARRAY<STRING>, gone BOOLEAN")
            figures = ours.merge(source, Merge(["k"], clauses), provenance=run).figures
            spark.sql(BY_DELTA % theirs.location, s=source).collect()
        else:
            model = {k: row for k, row in before.items() if row[2] >= number and row[1] is not None}
            figures = ours.delete(f"v < {number} OR day IS NULL", provenance=run).figures
            spark.sql(f"DELETE FROM delta.`{theirs.location}` WHERE v < {number} OR day IS NULL").collect()
        assert content(ours) == content(theirs) == sorted(model.values(), key=repr), number
        assert (figures["before"], figures["after"]) == (len(before), len(model)), number
        assert figures["inserted"] == len(model.keys() - before.keys()), number
        assert figures["deleted"] == len(before.keys() - model.keys()), number
    assert [c.record.sequence for c in ours.ledger.commits() if c.record] == [*range(1, 6)]


@pytest.mark.parametrize(("always", "refused"), [("ALWAYS", "insert"), ("BY DEFAULT", "update")])
def test_a_column_that_the_table_counts_is_set_by_no_merge(spark, make_table, always, refused):
    """Delta would refuse it in the middle of the work; values that leave the column out are merged."""
    table = make_table(TableSpec("silver/numbered", {"n": Column("BIGINT"), "id": Column("INT"), "v": Column("INT")}))
    path = f"delta.`{table.store.uri}`"
    spark.sql(f"CREATE TABLE {path} (n BIGINT GENERATED {always} AS IDENTITY, id INT, v INT) USING delta")
    rows = spark.sql("SELECT 7L AS n, 1 AS id, 2 AS v")
    clauses = [Insert(), Update({"v": "s.v"})] if refused == "insert" else [Insert(), Update()]
    with pytest.raises(ConfigError, match=f"counts n by itself .IDENTITY., and a merge cannot {refused} such a column"):
        table.merge(rows, Merge(["id"], clauses), provenance=a_run())
    assert read_back(table) == []
    named = [Update({"v": "s.v"}), Insert({"id": "s.id", "v": "s.v"})]
    for number in (1, 2):
        table.merge(
            rows.selectExpr("id", f"{number} AS v"), Merge(["id"], named), provenance=a_run(inputs={"b": number})
        )
    assert [(row["id"], row["v"]) for row in read_back(table)] == [(1, 2)]
    if refused == "update":
        allowed = [Insert(), Update({"v": "s.v"})]
        more = spark.sql("SELECT 70L AS n, 2 AS id, 2 AS v")
        table.merge(more, Merge(["id"], allowed), provenance=a_run(inputs={"b": 3}))
        assert {row["n"] for row in read_back(table)} >= {70}


@any_names(STORED)
def merged_by_hand(n, **spec):
    columns = "id INT, number INT, day STRING"
    table = n.table(columns, checks={"positive": f"{n.q('number')} > 0"}, by=["day"], **spec)
    table.overwrite(n.frame(columns, (1, 1, "a b"), (None, 1, "c%d")), provenance=a_run())
    more = Update({n("number"): f"t.{n.q('number')} + s.{n.q('number')}"})
    new = Insert({n("id"): f"s.{n.q('id')}", n("day"): "'{0}'", n("number"): "7"})
    clauses, source = [Delete(when=f"s.{n.q('number')} > 8"), more, new], [(1, 9), (None, 5), (3, 3), (4, 4)]
    rows = n.frame("id INT, number INT", *source)
    table.merge(rows, Merge(n.all("id"), clauses, null_keys=True), provenance=a_run())
    table.delete(f"{n.q('id')} = 4", provenance=a_run())
    yield table.read()


@any_names(MAPPED)
def merged_by_delta(n):
    yield from merged_by_hand(n, properties={"delta.columnMapping.mode": "name"})


@two_runs()
def deleted_at_once(world):
    columns = "key STRING, day STRING, n INT"
    table = world.table("keyed", columns, by=["day"], key=("key", "day"))
    upsert_keyed(world.frame(columns, ("a", "mon", 1), ("b", "mon", 2)), table.target(world.run("base")))
    yield lambda w: w["keyed"].delete("n > 5", provenance=w.run("1"))
    yield lambda w: upsert_keyed(w.frame(columns, ("a", "mon", 9), ("c", "mon", 7)), w.into("keyed", "2", "mon"))
