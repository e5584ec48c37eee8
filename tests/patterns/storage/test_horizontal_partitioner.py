"""Horizontal Partitioner."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.maintenance import repartitioning
from dedp_assets.patterns.storage.horizontal_partitioner import (
    EXCESS,
    change_partitions,
    partition_rows,
    process_excess,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, files_of, read_back
from tests.renaming import STORED, any_names
from tests.scans import files_read
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

DAY_0 = date(2026, 1, 1)
SCHEMA = "id INT, at TIMESTAMP"
BY_DAY = TableSpec(
    "visits", {"id": Column("INT"), "at": Column("TIMESTAMP"), "day": Column("DATE")}, partition_by=("day",)
)
LANDED = replace(
    BY_DAY,
    name="landed",
    columns={**BY_DAY.columns, "landed_on": Column("STRING")},
    partition_by=("landed_on", "day"),
)
KEYED = TableSpec(
    "keyed",
    {"id": Column("INT"), "country": Column("STRING"), "landed_on": Column("STRING"), **EXCESS},
    partition_by=("landed_on", "country", "excess"),
)
QUEUE = TableSpec(
    "queue",
    {name: column for name, column in KEYED.columns.items() if name != "excess"},
    partition_by=("landed_on", "country"),
)
KEYED_ROWS = "id INT, country STRING, landed_on STRING"
MON = {"landed_on": "mon"}


def at(day, hour=12):
    return datetime(2026, 1, 1, hour, tzinfo=timezone.utc) + timedelta(days=day)


def ids(table):
    return sorted(row["id"] for row in read_back(table))


@pytest.fixture(scope="module")
def hundred(spark, tmp_path_factory):
    """A hundred days of two visits each, written without Spark."""
    place, days = tmp_path_factory.mktemp("lake") / "visits", [DAY_0 + timedelta(n % 100) for n in range(200)]
    rows = pa.table({"id": pa.array(range(200), pa.int32()), "at": [at(n % 100) for n in range(200)], "day": days})
    write_deltalake(place, rows, partition_by=["day"])
    return Table(BY_DAY, place, spark)


def test_four_of_a_hundred_days_are_read_from_their_files_alone(spark, hundred):
    """By the scan's own count; a question about another column opens all files for the same rows."""
    days = hundred.read(*[{"day": DAY_0 + timedelta(n)} for n in range(95, 99)])
    files = [hundred.store.address_of(path) for path in active_files(hundred)]
    full = spark.read.parquet(*files).filter("id % 100 BETWEEN 95 AND 98")
    assert (files_read(days), files_read(full), len(files)) == (4, 100, 100)
    expected = sorted(row["id"] for row in read_back(hundred) if 95 <= (row["day"] - DAY_0).days <= 98)
    assert sorted(row["id"] for row in days.collect()) == sorted(row["id"] for row in full.collect()) == expected
    assert len(expected) == 8


def test_a_late_event_lies_in_its_old_partition_and_makes_that_one_stale(spark, make_table):
    """By event time a landing changes an old day, and other files stay; by processing time it lies in its hour."""
    table = make_table(LANDED)
    first = spark.createDataFrame(
        [(1, at(0), "mon"), (2, at(1), "mon"), (3, at(2), "mon")], f"{SCHEMA}, landed_on STRING"
    )
    into = table.target(a_run(), partition=MON)
    written = partition_rows(first.repartition(3), into, column="day", event_time="at")
    # One file a day, small as it is, whatever number of tasks made the rows.
    small = {f"day=2026-01-0{n}/landed_on=mon": 1 for n in (1, 2, 3)}
    assert (written.figures["partitions"], written.figures["small_files"]) == (3, small)
    version, files = table.ledger.version(), active_files(table)
    late = spark.createDataFrame([(4, at(0, 23), "tue")], f"{SCHEMA}, landed_on STRING")
    tuesday = table.target(a_run(run_id="run-2"), partition={"landed_on": "tue"})
    partition_rows(late, tuesday, column="day", event_time="at")
    changed = {dict(key)["day"] for key in table.ledger.changes(since=version)[1]}
    assert changed == {"2026-01-01"}
    assert files < active_files(table)
    by_run = make_table(replace(BY_DAY, name="by_run", columns={**BY_DAY.columns, "day": Column("TIMESTAMP")}))
    partition_rows(late.drop("landed_on"), by_run.target(a_run(at=at(1, 9) + timedelta(minutes=5))), column="day")
    assert [row["day"] for row in read_back(by_run)] == [at(1, 9)]


def test_a_rerun_replaces_its_partition_only_and_a_refused_one_nothing(spark, make_table):
    """Files of other partitions keep their names; a failure in the middle of the write leaves the old rows."""
    table = make_table(BY_DAY)
    rows = spark.createDataFrame([(n, at(n)) for n in range(3)], SCHEMA)
    partition_rows(rows, table.target(a_run()), column="day", event_time="at")
    others = active_files(table) - files_of(table, day="2026-01-02")
    again = spark.createDataFrame([(7, at(1)), (8, at(1))], f"{SCHEMA}")
    second = {"partition": {"day": date(2026, 1, 2)}}
    partition_rows(again, table.target(a_run(run_id="run-2"), **second), column="day", event_time="at")
    assert others < active_files(table)
    assert ids(table) == [0, 2, 7, 8]
    before = active_files(table)
    broken = again.selectExpr("CAST('broken' AS INT) AS id", "at")
    for bad in (broken, again.limit(0), rows):
        with pytest.raises((AuditFailed, ContractError)):
            partition_rows(bad, table.target(a_run(run_id="run-3"), **second), column="day", event_time="at")
    assert active_files(table) == before
    partition_rows(again, table.target(a_run(run_id="run-4"), **second), column="day", event_time="at")
    assert active_files(table) == before


def test_a_key_of_many_values_is_refused_before_anything_is_written(spark, make_table):
    """With the pointer to buckets; the option lets as many through as it says, and not one more."""
    spec = TableSpec("users", {"id": Column("INT"), "user": Column("STRING")}, partition_by=("user",))
    rows = spark.sql("SELECT CAST(id AS INT) AS id, CAST(id AS STRING) AS user FROM range(1000)")
    table = make_table(spec)
    with pytest.raises(ContractError, match=r"more than 300 partitions by user.*storage\.bucket\.lay_out"):
        partition_rows(rows, table.target(a_run()))
    assert not table.store.files()
    few = rows.filter("id < 3")
    with pytest.raises(ContractError, match="more than 2 partitions"):
        partition_rows(few, table.target(a_run()), most_partitions=2)
    assert partition_rows(few, table.target(a_run()), most_partitions=3).figures["partitions"] == 3


def landing(spark, big=100, small=1):
    """A landing of which one country has a hundred times the rows of the others."""
    rows = (
        [(n, "US", "mon") for n in range(big)] + [(1000 + n, "SM", "mon") for n in range(small)] + [(2000, None, "mon")]
    )
    return spark.createDataFrame(rows, KEYED_ROWS)


def test_the_excess_of_a_partition_waits_and_is_there_once_in_the_end(spark, make_table):
    """Whoever runs again, in whatever order: the rows of the table and of the queue are those of the landing."""
    table, queue = make_table(KEYED), make_table(QUEUE)
    expected = sorted([*range(100), 1000, 2000])
    with pytest.raises(NotReady, match="queue is not there yet"):
        process_excess(queue, table.target(a_run(), partition=MON))

    def load():
        run = a_run(inputs={"landing": 1})
        into, beside = table.target(run, partition=MON), queue.target(run, partition=MON)
        return partition_rows(landing(spark), into, beside, most_rows=10)

    assert load().beside[0].rows.written == 90
    assert Counter(row["country"] for row in read_back(table)) == {"US": 10, "SM": 1, None: 1}
    assert sorted([*ids(table), *ids(queue)]) == expected
    assert process_excess(queue, table.target(a_run(), partition=MON)).rows.written == 90
    assert ids(table) == expected
    load()
    version = table.ledger.version()
    process_excess(queue, table.target(a_run(), partition=MON))
    assert (table.ledger.version(), ids(table)) == (version, expected)
    # A landing that is not skewed any more has nothing in the queue.
    run = a_run(run_id="run-2", inputs={"landing": 2})
    partition_rows(
        landing(spark, big=5), table.target(run, partition=MON), queue.target(run, partition=MON), most_rows=10
    )
    process_excess(queue, table.target(a_run(run_id="run-2"), partition=MON))
    assert (ids(table), ids(queue)) == ([0, 1, 2, 3, 4, 1000, 2000], [])


def test_a_death_between_table_and_queue_loses_and_doubles_nothing(spark, make_table, monkeypatch):
    """The rerun publishes what is missing, and the queue is processed as if nothing had been."""
    table, queue = make_table(KEYED), make_table(QUEUE)
    run = a_run(inputs={"landing": 1})

    def load():
        into, beside = table.target(run, partition=MON), queue.target(run, partition=MON)
        return partition_rows(landing(spark, big=20), into, beside, most_rows=5)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dedp_assets.patterns.storage.horizontal_partitioner._queued", dies)
        with pytest.raises(KeyboardInterrupt):
            load()
    assert len(ids(table)) == 7
    load()
    process_excess(queue, table.target(a_run(), partition=MON))
    assert ids(table) == [*range(20), 1000, 2000]


def test_a_skewed_partition_without_a_queue_is_refused(spark, make_table):
    """By name and number, before anything is written."""
    table = make_table(KEYED)
    rows = landing(spark).selectExpr("*", "false AS excess")
    with pytest.raises(ContractError, match="may have 10 rows, and country=US/excess=false has 100; nothing was"):
        partition_rows(rows, table.target(a_run(), partition=MON), most_rows=10)
    assert not table.ledger.exists()


ODD = ["a/b", "a=b", "a b", "é", "100%", "..", "'", "x:y", "[z]*?", "NULL", "null", None]


@pytest.mark.both
def test_values_with_special_characters_and_null_round_trip(spark, make_table):
    """Each is a partition of its own, found by its value; the empty text, which the log takes for NULL, is refused."""
    spec = TableSpec("odd", {"id": Column("INT"), "key": Column("STRING")}, partition_by=("key",))
    table = make_table(spec)
    rows = spark.createDataFrame(list(enumerate(ODD)), "id INT, key STRING")
    assert partition_rows(rows, table.target(a_run())).figures["partitions"] == len(ODD)
    assert {row["id"]: row["key"] for row in read_back(table)} == dict(enumerate(ODD))
    for n in (0, 1, 4, 8, 11):
        assert [row["id"] for row in table.read({"key": ODD[n]}).collect()] == [n]
    with pytest.raises(AuditFailed, match="key_is_a_partition_value"):
        partition_rows(spark.createDataFrame([(1, "")], "id INT, key STRING"), table.target(a_run(run_id="run-2")))


@pytest.fixture
def by_day(spark, make_table):
    """Six days of visits, of which one has no time, by day."""
    table = make_table(BY_DAY)
    visits = [(n, at(n % 6), DAY_0 + timedelta(n % 6)) for n in range(12)] + [(99, None, None)]
    table.overwrite(spark.createDataFrame(visits, f"{SCHEMA}, day DATE").coalesce(1), provenance=a_run(sequence=1))
    return table


def as_declared(table, *by):
    """The table with other partition columns in its declaration."""
    return Table(replace(table.spec, partition_by=by), table.store, table.session)


def test_the_key_changes_in_one_commit_of_equal_rows(by_day):
    """Partitions by id instead of day: same rows, files of the new layout, no change of rows in the log."""
    before, version = read_back(by_day), by_day.ledger.version()
    new = as_declared(by_day, "id")
    changed = change_partitions(new.target(a_run(run_id="run-2")))
    assert (changed.applied, changed.version, changed.changed) == (True, version + 1, False)
    assert changed.reason == "partitioned by id instead of day"
    assert changed.figures["files_before"] == 7
    assert (read_back(new), new.ledger.state().partition_columns) == (before, ("id",))
    assert {tuple(row) for row in new.read({"id": 3}).collect()} == {(3, at(3).replace(tzinfo=None), date(2026, 1, 4))}
    assert files_read(new.read().filter("id = 3")) == 1
    assert new.ledger.commit(changed.version).changed == frozenset()
    assert read_back(new, version) == before
    again = change_partitions(new.target(a_run(run_id="run-3")))
    assert (again.applied, again.reason) == (False, "partitioned by id already: nothing to do")
    assert new.overwrite(new.read({"id": 3}), partition={"id": 3}, provenance=a_run(run_id="run-4")).applied
    assert read_back(new) == before


def test_a_killed_rewrite_goes_on_where_it_was_and_readers_never_see_a_mix(spark, by_day, monkeypatch):
    """A reader after each step has the old partitions and all rows; the next attempt copies the missing steps only."""
    before, version, seen = read_back(by_day), by_day.ledger.version(), []
    new, append = as_declared(by_day), Table.append

    def watched(table, rows, **options):
        if len(seen) == 3:
            raise KeyboardInterrupt
        result = append(table, rows, **options)
        seen.append((by_day.ledger.version(), by_day.ledger.state().partition_columns, read_back(by_day) == before))
        return result

    monkeypatch.setattr(Table, "append", watched)
    with pytest.raises(KeyboardInterrupt):
        change_partitions(new.target(a_run(run_id="run-2")), step_bytes=1)
    assert seen == [(version, ("day",), True)] * 3
    monkeypatch.setattr(Table, "append", lambda *args, **options: seen.append("step") or append(*args, **options))
    assert change_partitions(new.target(a_run(run_id="run-3")), step_bytes=1).applied
    assert seen[3:] == ["step"] * 4
    assert (read_back(new), new.ledger.state().partition_columns) == (before, ())


def test_a_table_that_was_changed_meanwhile_stays_as_its_writer_left_it(spark, by_day, monkeypatch):
    """The rewrite ends with a conflict, and begins with the new rows the next time."""
    new, same = as_declared(by_day, "id"), repartitioning._require_same

    def meanwhile(*args):
        same(*args)
        by_day.append(spark.createDataFrame([(7, at(0), DAY_0)], f"{SCHEMA}, day DATE"), provenance=a_run(sequence=2))

    monkeypatch.setattr(repartitioning, "_require_same", meanwhile)
    with pytest.raises(Conflict, match="was changed while its rows were copied"):
        change_partitions(new.target(a_run(run_id="run-2")))
    monkeypatch.setattr(repartitioning, "_require_same", same)
    assert (len(read_back(by_day)), by_day.ledger.state().partition_columns) == (14, ("day",))
    # Rows that were judged by the old partitions are not published into the new ones.
    staged = by_day.stage(by_day.read({"day": DAY_0}), append=True, provenance=a_run(run_id="run-4", sequence=3))
    assert change_partitions(new.target(a_run(run_id="run-3"))).applied
    assert len(read_back(new)) == 14
    with pytest.raises(Conflict, match="partition columns changed after the rows were judged"):
        staged.publish()


def test_what_cannot_be_is_refused_before_anything_is_written(spark, make_table):
    """By the option's name, with what it must be."""
    rows, table, queue = spark.createDataFrame([(1, at(0))], SCHEMA), make_table(BY_DAY), make_table(QUEUE)
    into, keyed = table.target(a_run()), make_table(KEYED)
    for options, why in (
        ({"column": "at"}, "must be a DATE or TIMESTAMP that visits is partitioned by, not at"),
        ({"column": "day", "event_time": "id"}, "event_time must be a TIMESTAMP or DATE, not id, a INT"),
        ({"event_time": "at"}, "event_time must go with column"),
        ({"column": "day", "event_time": "x"}, "no column x"),
        ({"most_partitions": 0}, "at least 1"),
        ({}, "no column day"),
    ):
        with pytest.raises(ConfigError, match=why):
            partition_rows(rows, into, **options)
    with pytest.raises(ConfigError, match="must have a time"):
        partition_rows(rows, table.target(replace(a_run(), at=None)), column="day")
    of_monday, other = keyed.target(a_run(), partition=MON), queue.target(a_run(), partition={"landed_on": "tue"})
    for target, beside, options, why in (
        (of_monday, other, {"most_rows": 1}, "own the partition of the rows"),
        (of_monday, queue.target(a_run(), partition=MON), {}, "a queue must go with most_rows"),
        (keyed.target(a_run()), queue.target(a_run()), {"most_rows": 1}, "must name a partition"),
        (into, queue.target(a_run()), {"most_rows": 1}, "visits must be partitioned by excess"),
    ):
        with pytest.raises(ConfigError, match=why):
            partition_rows(landing(spark), target, beside, **options)
    for options, why in (({"step_bytes": 0}, "at least 1"), ({}, "must be there before")):
        with pytest.raises(ConfigError, match=why):
            change_partitions(into, **options)
    assert not any(each.ledger.exists() for each in (table, keyed, queue))


def test_a_change_to_a_key_of_many_values_is_refused(by_day):
    """Before a row is copied."""
    files = by_day.store.files()
    with pytest.raises(ContractError, match="more than 5 partitions by id"):
        change_partitions(as_declared(by_day, "id").target(a_run(run_id="run-2")), most_partitions=5)
    assert by_day.store.files() == files


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["a", "b/c", None]), st.integers(1, 6), min_size=1), st.integers(1, 6))
def test_the_table_and_its_queue_are_the_landing(spark, make_table, volumes, most):
    """For any volumes and any limit: no partition has more rows than it may, and no row is lost or there twice."""
    name = f"{sorted(volumes.items(), key=str)}/{most}".encode().hex()
    table, queue = (make_table(replace(spec, name=f"{spec.name}{name}")) for spec in (KEYED, QUEUE))
    landed = [(n, country, "mon") for country, count in volumes.items() for n in range(count)]
    run = a_run(inputs={"landing": 1})
    targets = table.target(run, partition=MON), queue.target(run, partition=MON)
    partition_rows(spark.createDataFrame(landed, KEYED_ROWS), *targets, most_rows=most)
    held = Counter(row["country"] for row in read_back(table))
    assert held == {country: min(count, most) for country, count in volumes.items()}
    rows = [(row["id"], row["country"], row["landed_on"]) for each in (table, queue) for row in read_back(each)]
    assert Counter(rows) == Counter(landed)


@any_names(STORED, handed_on=["page"])
def rows_in_partitions(n):
    columns = "id INT, page STRING, country STRING, landed STRING"
    table = n.table(columns, more=EXCESS, by=["landed", "country"])
    table.spec = replace(table.spec, partition_by=(*table.spec.partition_by, *EXCESS))
    queue = n.table(columns, by=["landed", "country"])
    rows = n.frame(columns, *[(m, f"/{m}", "US" if m else "SM", "mon") for m in range(6)])
    run, mon = a_run(inputs={"landing": 1}), {n("landed"): "mon"}
    partition_rows(rows, table.target(run, partition=mon), queue.target(run, partition=mon), most_rows=2)
    yield [{"excess": 0, "n": len(read_back(queue))}]
    process_excess(queue, table.target(run, partition=mon))
    yield table
    columns = "id INT, at TIMESTAMP"
    times = n.table(columns, more={n.declared("day"): Column("DATE")}, by=["day"])
    visits = n.frame(columns, (1, at(0)), (2, at(1)))
    partition_rows(visits, times.target(run), column=n.declared("day"), event_time=n("at"))
    yield times
    changed = Table(replace(times.spec, partition_by=(n.declared("id"),)), times.store, times.session)
    yield [change_partitions(changed.target(run)).figures | {"bytes_before": 0, "bytes_after": 0}]
    yield changed


@known_calls
def calls_that_work(known):
    columns = {"id": Column("INT"), "day": Column("STRING"), "landed": Column("STRING")}
    table = known.table("gold/spread", {**columns, **EXCESS}, by=("landed", "day", "excess"))
    queue = known.table("gold/waiting", columns, by=("landed", "day"))
    mon = {"partition": {"landed": "mon"}}
    stored = known.table("gold/changing", columns, (1, "mon", "mon"), by=("day",))
    changing = Table(replace(stored.spec, partition_by=("landed",)), stored.location, known.spark)
    return {
        "partition_rows": {
            "rows": known.visits.selectExpr("id", "day", "'mon' AS landed"),
            "into": table.target(known.run, **mon),
            "queue": queue.target(known.run, **mon),
            "most_rows": 3,
            "most_partitions": 7,
            "allow_empty": False,
        },
        "process_excess": {"queue": queue, "into": table.target(known.run, **mon)},
        "change_partitions": {"into": changing.target(known.run), "most_partitions": 7, "step_bytes": 9},
    }


@two_runs()
def landings_at_once(world):
    columns = "id INT, day STRING"
    world.table("spread", columns, by=["day"])
    partition_rows(world.frame(columns, (1, "mon")), world.into("spread", "base", "mon"))
    yield lambda w: partition_rows(w.frame(columns, (2, "mon")), w.into("spread", "1", "mon"))
    yield lambda w: partition_rows(w.frame(columns, (3, "mon")), w.into("spread", "2", "mon"))


@two_runs()
def excess_at_once(world):
    columns = "id INT, day STRING"
    world.table("spread", columns, more=EXCESS, by=["day", *EXCESS])
    world.table("waiting", columns, by=["day"])
    landed, queue = world.frame(columns, (1, "mon"), (2, "mon"), (3, "mon")), world.into("waiting", "base", "mon")
    partition_rows(landed, world.into("spread", "base", "mon"), queue, most_rows=1)
    yield lambda w: process_excess(w["waiting"], w.into("spread", "1", "mon"))
    yield lambda w: process_excess(w["waiting"], w.into("spread", "2", "mon"))


@two_runs(under_one_lock=True)
def changes_of_partitions_at_once(world):
    columns = "id INT, day STRING"
    world.table("moved", columns, by=["day"])
    partition_rows(world.frame(columns, (1, "mon"), (2, "tue")), world.into("moved", "base"))
    world.table("moved", columns)
    yield lambda w: change_partitions(w.into("moved", "1"))
    yield lambda w: change_partitions(w.into("moved", "2"))
