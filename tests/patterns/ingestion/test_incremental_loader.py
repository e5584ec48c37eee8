"""Incremental Loader: every row the source ever showed is in the target once, in the partition of its window."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.landing.deliveries import MARKER, delivery_at
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError, NotReady, SchemaMismatch
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.delta.staging.stages import Stage
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.ingestion.incremental_loader import load_increment, load_partition, plan_windows
from dedp_assets.patterns.ingestion.readiness_marker import delivering, plan_ready
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, active_files, files_of, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.budget(50, "windows of a source, against every kind of change in it")

DAYS = [f"2026-01-{day:02d}" for day in range(5, 13)]
ORIGIN = datetime(2026, 1, 5, tzinfo=timezone.utc)
DAY = 86400
VISITS = TableSpec(
    "bronze/legacy_visits",
    {
        "visit_id": Column("STRING", "key in the source"),
        "page": Column("STRING"),
        "is_deleted": Column("BOOLEAN", "soft delete"),
        "event_time": Column("TIMESTAMP", "when the visit happened"),
        "ingestion_time": Column("TIMESTAMP", "when the row was committed to the source"),
        "ingested_on": Column("DATE", "UTC day of ingestion_time", required=True),
    },
    partition_by=("ingested_on",),
)
SOURCE = "visit_id STRING, ingestion_time STRING, page STRING, event_time STRING, is_deleted BOOLEAN"


@pytest.fixture
def visits(make_table):
    """The target: one partition a day of ingestion."""
    return make_table(VISITS)


@pytest.fixture
def source(spark):
    """``source(("a", "2026-01-05 10:00"))``: the whole legacy table as it is now; page, event time, deletion follow."""

    def shown(*rows):
        full = [(*row, *("home", row[1], False)[len(row) - 2 :]) for row in rows]
        times = [f"CAST({c} AS TIMESTAMP) AS {c}" for c in ("event_time", "ingestion_time")]
        return spark.createDataFrame(full, SOURCE).selectExpr("visit_id", "page", "is_deleted", *times)

    return shown


def window(day):
    start = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    return start, start + timedelta(days=1)


def load(rows, table, day, *, delta="ingestion_time", audits=(), **fields):
    into = table.target(a_run(table.name, **fields), partition={"ingested_on": day}, audits=audits)
    return load_increment(rows, into, delta=delta, window=window(day), keys=["visit_id"])


def plan(table, until, **options):
    """What is due when the source has shown everything before ``until``."""
    asked = {"column": "ingested_on", "origin": ORIGIN, "length": DAY, **options}
    return plan_windows(table.ledger, until=datetime.fromisoformat(f"{until}+00:00"), **asked)


def ids(table, version=None):
    """Visit ids by day of ingestion, through an independent reader."""
    held = {}
    for row in read_back(table, version):
        held.setdefault(str(row["ingested_on"]), []).append(row["visit_id"])
    return {day: sorted(found) for day, found in sorted(held.items())}


# --- windows of a delta column ----------------------------------------------------------------------------------------


@pytest.mark.both
def test_every_row_lands_in_exactly_one_window(visits, source):
    """Rows at both bounds and a microsecond beside them: nothing is lost or double, where BETWEEN takes one twice."""
    rows = source(
        ("too early", "2026-01-04 23:59:59.999999"),
        ("first start", "2026-01-05 00:00:00"),
        ("first last tick", "2026-01-05 23:59:59.999999"),
        ("boundary", "2026-01-06 00:00:00"),
        ("second tick", "2026-01-06 00:00:00.000001"),
        ("too late", "2026-01-07 00:00:00"),
    )
    assert load(rows, visits, DAYS[0]).rows.read == 2
    assert load(rows, visits, DAYS[1]).rows.read == 2
    assert ids(visits) == {DAYS[0]: ["first last tick", "first start"], DAYS[1]: ["boundary", "second tick"]}
    between = [rows.filter(F.col("ingestion_time").between(*map(F.lit, window(day)))) for day in DAYS[:2]]
    assert "boundary" in {r["visit_id"] for r in between[0].intersect(between[1]).collect()}


def test_a_rerun_replaces_its_slice_and_touches_no_other(visits, source):
    """The same rows under a new run change no file; a corrected row replaces its former self and is not appended."""
    rows = [("a", "2026-01-05 10:00"), ("b", "2026-01-05 11:00")], [("c", "2026-01-06 10:00")]
    for day, shown in zip(DAYS, rows, strict=False):
        load(source(*shown), visits, day, inputs={"legacy": 1})
    files, neighbours = active_files(visits), files_of(visits, ingested_on=DAYS[1])
    again = load(source(*rows[0], *rows[1]), visits, DAYS[0], inputs={"legacy": 2}, run_id="run-2")
    assert (again.changed, again.figures["late"], active_files(visits)) == (False, 0, files)
    retry = load(source(*rows[0], *rows[1]), visits, DAYS[0], inputs={"legacy": 2}, run_id="run-2")
    assert (retry.applied, retry.version) == (False, again.version)
    corrected = load(source(rows[0][0], ("b", "2026-01-05 11:00", "cart")), visits, DAYS[0], inputs={"legacy": 3})
    assert (corrected.changed, corrected.figures["late"], corrected.figures["gone"]) == (True, 0, 0)
    assert visits.ledger.commit(corrected.version).changed == {(("ingested_on", DAYS[0]),)}
    assert ids(visits) == {DAYS[0]: ["a", "b"], DAYS[1]: ["c"]}
    assert {row["page"] for row in read_back(visits) if row["visit_id"] == "b"} == {"cart"}
    assert files_of(visits, ingested_on=DAYS[1]) == neighbours


def test_a_row_that_becomes_visible_late_is_found_and_counted(visits, source):
    """A transaction that committed after its window was read is found by looking back, in its own partition."""
    before = [("a", "2026-01-05 10:00"), ("b", "2026-01-06 10:00")]
    for key in plan(visits, "2026-01-07T00:00", lookback=1).partitions:
        load(source(*before), visits, key)
    assert plan(visits, "2026-01-07T00:00", lookback=1).partitions == ()
    now = source(*before, ("late", "2026-01-06 23:59"), ("c", "2026-01-07 10:00"), ("later", "2026-01-05 09:00"))
    chosen = plan(visits, "2026-01-08T00:00", lookback=1)
    assert chosen.causes == {DAYS[1]: "look-back", DAYS[2]: "due"}
    found = {key: load(now, visits, key).figures["late"] for key in chosen.partitions}
    assert found == {DAYS[1]: 1, DAYS[2]: 0}
    assert ids(visits) == {DAYS[0]: ["a"], DAYS[1]: ["b", "late"], DAYS[2]: ["c"]}
    everything = plan(visits, "2026-01-09T00:00", lookback=99)
    assert everything.partitions == tuple(DAYS[:4])
    assert [load(now, visits, key).figures["late"] for key in everything.partitions] == [1, 0, 0, 0]
    assert ids(visits) == {DAYS[0]: ["a", "later"], DAYS[1]: ["b", "late"], DAYS[2]: ["c"]}


def test_late_rows_are_a_figure_that_an_audit_may_judge(visits, source):
    """Whoever cannot bear late rows says how many, and the window is refused before it is published."""
    load(source(("a", "2026-01-05 10:00")), visits, DAYS[0])
    punctual = Audit(name="no_row_comes_late", of="late", fail_above=0)
    with pytest.raises(AuditFailed, match="no_row_comes_late: above 0"):
        load(source(("a", "2026-01-05 10:00"), ("b", "2026-01-05 11:00")), visits, DAYS[0], audits=[punctual])
    assert ids(visits) == {DAYS[0]: ["a"]}


def test_windows_that_are_backfilled_at_the_same_time_equal_those_of_one_by_one(spark, make_table):
    """Each run reads its own window only, several go together, and both tables hold every row of the source once."""
    rows = spark.range(8 * 96).selectExpr(
        "concat('v', id) AS visit_id",
        "'home' AS page",
        "false AS is_deleted",
        "TIMESTAMP '2026-01-01 00:00:00' AS event_time",
        f"timestamp_micros(unix_micros(TIMESTAMP '{ORIGIN:%Y-%m-%d}') + id * 15 * 60 * 1000000) AS ingestion_time",
    )
    together, apart = (make_table(TableSpec(f"bronze/{n}", VISITS.columns, ("ingested_on",))) for n in "ab")
    together.ensure()
    start = Barrier(4)

    def backfill(day):
        start.wait(timeout=60)
        return load(rows, together, day)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(backfill, DAYS))
    for day in DAYS:
        load(rows, apart, day)
    assert {r.rows.read for r in results} == {96}
    assert read_back(together) == read_back(apart)
    assert sorted(row["visit_id"] for row in read_back(together)) == sorted(f"v{n}" for n in range(8 * 96))


def test_reading_more_than_the_window_shows(spark, visits, source, tmp_path):
    """Of a source with a file for each day only the window's own is opened: the others are no longer there."""
    folder = str(tmp_path / "source")
    for day in DAYS[:3]:
        source((f"v {day}", f"{day} 10:00")).coalesce(1).write.format("delta").mode("append").save(folder)
    rows = spark.read.format("delta").load(folder)
    for add in pa.table(DeltaTable(folder).get_add_actions(flatten=True)).to_pylist():
        if str(add["min.ingestion_time"])[:10] != DAYS[1]:
            (tmp_path / "source" / add["path"]).unlink()
    load(rows, visits, DAYS[1])
    assert ids(visits) == {DAYS[1]: [f"v {DAYS[1]}"]}
    with pytest.raises(SPARK_ERRORS, match=r"FILE_NOT_EXIST|does not exist|FAILED_READ_FILE"):
        load(rows, visits, DAYS[0])


def test_every_name_of_a_column_works(make_table, spark):
    """As the key, as the delta column and beside them, when a window is read the first time and again."""
    names = ["k`ey", "at.time", "Outcome", "is known", "came late"]
    columns = {name: Column("TIMESTAMP" if name == "at.time" else "STRING") for name in names[:3]}
    table = make_table(TableSpec("bronze/named", {**columns, "day": Column("DATE")}, ("day",)))
    named = ["'a' AS `k``ey`", f"TIMESTAMP '{DAYS[0]} 10:00:00' AS `at.time`", "'x' AS Outcome"]
    day, options = {"day": DAYS[0]}, {"delta": "at.time", "window": window(DAYS[0]), "keys": ["k`ey"]}
    for outcome in ("x", "y"):
        rows = spark.sql(f"SELECT {', '.join(named)}").withColumn("Outcome", F.lit(outcome))
        load_increment(rows, table.target(a_run(table.name, inputs={"reading": outcome}), partition=day), **options)
        assert [(row["k`ey"], row["Outcome"]) for row in read_back(table)] == [("a", outcome)]
    with pytest.raises(ConfigError, match="column __dedp_late: names like that are the library's"):
        load_increment(rows.selectExpr("*", "1 AS __dedp_late"), table.target(a_run(), partition=day), **options)


def test_an_event_time_column_misses_what_arrives_late(visits, source, make_table):
    """A late producer's row is loaded by when it was ingested; by when it happened, its window is long past."""
    rows = source(("on time", "2026-01-05 10:00", "home", "2026-01-05 09:59"))
    by_event = make_table(TableSpec("bronze/by_event", VISITS.columns, ("ingested_on",)))
    load(rows, visits, DAYS[0])
    load(rows, by_event, DAYS[0], delta="event_time")
    arrived = source(("on time", "2026-01-05 10:00", "home", "2026-01-05 09:59")).unionByName(
        source(("offline", "2026-01-06 10:00", "home", "2026-01-05 10:30"))
    )
    load(arrived, visits, DAYS[1])
    load(arrived, by_event, DAYS[1], delta="event_time")
    assert ids(visits) == {DAYS[0]: ["on time"], DAYS[1]: ["offline"]}
    assert ids(by_event) == {DAYS[0]: ["on time"]}


# --- deletes and updates ----------------------------------------------------------------------------------------------


def current(table):
    """The current state of an insert-only or soft-deleting source: the newest version of each key."""
    newest = deduplicate(table.read(), keys=["visit_id"], order_by=["ingestion_time"], keep="last")["valid"]
    return {row["visit_id"]: row["page"] for row in newest.filter("NOT is_deleted").collect()}


def test_a_hard_delete_stays_and_a_soft_delete_arrives_marked(visits, source):
    """The documented limit: a deleted row is never seen again and stays, also when its window is read once more."""
    load(source(("hard", "2026-01-05 10:00"), ("soft", "2026-01-05 11:00"), ("c", "2026-01-05 12:00")), visits, DAYS[0])
    now = source(("soft", "2026-01-06 09:00", "home", "2026-01-05 11:00", True), ("c", "2026-01-05 12:00"))
    load(now, visits, DAYS[1])
    again = load(now, visits, DAYS[0])
    assert (again.figures["gone"], again.figures["late"], again.changed) == (2, 0, False)
    assert ids(visits) == {DAYS[0]: ["c", "hard", "soft"], DAYS[1]: ["soft"]}
    assert set(current(visits)) == {"c", "hard"}


def test_an_insert_only_source_is_folded_downstream(visits, source):
    """Inserts, updates and deletes are rows of their own; the newest of each key is the current state."""
    log = source(
        ("a", "2026-01-05 10:00", "v1"),
        ("b", "2026-01-05 11:00", "v1"),
        ("a", "2026-01-06 10:00", "v2"),
        ("b", "2026-01-06 11:00", "v2", "2026-01-06 11:00", True),
        ("c", "2026-01-06 12:00", "v1"),
    )
    for day in DAYS[:2]:
        load(log, visits, day)
    assert ids(visits) == {DAYS[0]: ["a", "b"], DAYS[1]: ["a", "b", "c"]}
    assert current(visits) == {"a": "v2", "c": "v1"}


def test_repeats_of_a_key_in_one_window_are_all_kept(visits, source):
    """The loader takes what the source shows; it neither multiplies nor merges repeats when it reads them again."""
    twice = [("a", "2026-01-05 10:00", "v1"), ("a", "2026-01-05 11:00", "v2")]
    load(source(*twice), visits, DAYS[0])
    assert load(source(*twice, ("b", "2026-01-05 12:00")), visits, DAYS[0]).figures["late"] == 1
    assert load(source(("b", "2026-01-05 12:00")), visits, DAYS[0]).figures["gone"] == 2
    assert ids(visits) == {DAYS[0]: ["a", "a", "b"]}


# --- rows that fit nowhere --------------------------------------------------------------------------------------------


def test_a_row_without_a_delta_value_does_not_vanish_silently(visits, source):
    """No window would ever show it: the load is refused with the count, until a person decides to leave it out."""
    rows = source(("a", "2026-01-05 10:00"), ("lost", None), ("lost too", None))
    with pytest.raises(AuditFailed, match=r"every_row_has_a_delta_value: above 0 \(undated=2\)"):
        load(rows, visits, DAYS[0])
    assert (ids(visits), plan(visits, "2026-01-06T00:00").partitions) == ({}, (DAYS[0],))
    approval = Approval(by="Ada", because="rows of a test", audits=("every_row_has_a_delta_value",))
    result = load(rows, visits, DAYS[0], approval=approval)
    assert (result.rows.read, result.rows.written, result.rows.filtered) == (3, 1, 2)
    record = visits.ledger.commit(result.version).record
    assert (record.verdict, record.figures["undated"]) == ("approved", 2)
    assert ids(visits) == {DAYS[0]: ["a"]}


def test_a_row_that_loses_its_delta_value_stays_loaded(visits, source):
    """What the source made unreadable is not taken out of the target, even if the loss is approved."""
    load(source(("a", "2026-01-05 10:00"), ("b", "2026-01-05 11:00")), visits, DAYS[0])
    approval = Approval(by="Ada", because="known defect")
    result = load(source(("a", None), ("b", "2026-01-05 11:00")), visits, DAYS[0], approval=approval)
    assert (result.figures["undated"], result.figures["gone"], result.figures["late"]) == (1, 1, 0)
    assert ids(visits) == {DAYS[0]: ["a", "b"]}


def test_a_row_without_its_key_is_refused(visits, source):
    """It could not be told from the others when its window is read again; no approval changes that."""
    approval = Approval(by="Ada", because="looks harmless")
    with pytest.raises(AuditFailed, match="every_row_has_its_key: above 0"):
        load(source((None, "2026-01-05 10:00"), ("a", "2026-01-05 10:00")), visits, DAYS[0], approval=approval)
    assert ids(visits) == {}


@pytest.mark.parametrize("loaded", [False, True], ids=["first reading", "second reading"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.drop("page"), r"missing columns \['page'\]"),
        (lambda rows: rows.withColumn("city", F.lit("x")), r"unknown columns \['city'\]"),
        (lambda rows: rows.withColumn("page", F.lit(1)), "page is INT in the rows and STRING in the table"),
    ],
    ids=["dropped", "added", "retyped"],
)
def test_a_source_whose_columns_changed_is_refused(visits, source, change, words, loaded):
    """The message names table and column, nothing is converted silently, and the window stays as it was."""
    rows = source(("a", "2026-01-05 10:00"))
    if loaded:
        load(rows, visits, DAYS[0])
    with pytest.raises(SchemaMismatch, match=f"bronze/legacy_visits: {words}"):
        load(change(rows), visits, DAYS[0])
    assert ids(visits) == ({DAYS[0]: ["a"]} if loaded else {})


# --- failures and other runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_run_that_dies_moves_the_mark_with_its_commit_or_not_at_all(visits, source, monkeypatch, dies):
    """Killed before the commit the window is still due, killed after it is not; a rerun leaves no gap and no double."""
    rows = source(("a", "2026-01-05 10:00"), ("b", "2026-01-06 10:00"))
    load(rows, visits, DAYS[0])
    place, name = (stage_commit, "commit_files") if dies == "before" else (Stage, "finish")

    def die(*_, **__):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(place, name, die)
        with pytest.raises(SystemExit):
            load(rows, visits, DAYS[1], inputs={"legacy": 1})
    assert plan(visits, "2026-01-07T00:00").partitions == ((DAYS[1],) if dies == "before" else ())
    rerun = load(rows, visits, DAYS[1], inputs={"legacy": 1})
    assert rerun.applied == (dies == "before")
    assert ids(visits) == {DAYS[0]: ["a"], DAYS[1]: ["b"]}


def test_of_two_runs_that_read_the_same_window_none_undoes_the_other(visits, source, monkeypatch):
    """Rows that a run found while another one was between reading and writing survive; the other one runs again."""
    first, late = ("a", "2026-01-05 10:00"), ("late", "2026-01-05 11:00")
    load(source(first), visits, DAYS[0])
    stage = visits.stage

    def overtaken(*args, **options):
        monkeypatch.setattr(visits, "stage", stage)
        staged = stage(*args, **options)
        load(source(first, late), visits, DAYS[0], run_id="run-2")
        return staged

    monkeypatch.setattr(visits, "stage", overtaken)
    with pytest.raises(Conflict, match="these rows were computed from version"):
        load(source(first), visits, DAYS[0], run_id="run-1")
    assert load(source(first), visits, DAYS[0], run_id="run-1").figures["gone"] == 1
    assert ids(visits) == {DAYS[0]: ["a", "late"]}


def test_a_partition_holds_one_window(visits, source):
    """Another window under the same key would take its neighbour's rows a second time: it is refused."""
    load(source(("a", "2026-01-05 10:00")), visits, DAYS[0])
    asked, into = (
        {"delta": "ingestion_time", "keys": ["visit_id"]},
        visits.target(a_run(), partition={"ingested_on": DAYS[0]}),
    )
    longer = (window(DAYS[0])[0], window(DAYS[1])[1])
    with pytest.raises(ConfigError, match=r"holds the window 2026-01-05T00:00:00\+00:00/2026-01-06T"):
        load_increment(source(("b", "2026-01-06 10:00")), into, window=longer, **asked)
    assert ids(visits) == {DAYS[0]: ["a"]}


@pytest.mark.parametrize("name", ["ingested_on", "INGESTED_ON"])
def test_what_the_source_says_of_the_partition_is_not_overwritten(visits, source, name):
    """A source that has the column has a say, however it spells the name: its row is of another partition."""
    rows = source(("a", "2026-01-05 10:00")).withColumn(name, F.lit(DAYS[1]).cast("date"))
    with pytest.raises(ContractError, match=r"(?i)ingested_on"):
        load(rows, visits, DAYS[0])
    assert ids(visits) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keys": []}, "each name a column"),
        ({"partition": {}}, "each name a column"),
        ({"keys": ["id"]}, "no column id"),
        ({"delta": "updated_at"}, "no column updated_at"),
        ({"partition": {"page": "home"}}, r"is partitioned by \['ingested_on'\]"),
        ({"window": window(DAYS[0])[::-1]}, "no value of ingestion_time lies in"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_read(visits, source, options, words):
    """Each message says what is wrong."""
    asked = {"delta": "ingestion_time", "window": window(DAYS[0]), "keys": ["visit_id"], **options}
    into = visits.target(a_run(), partition=asked.pop("partition", {"ingested_on": DAYS[0]}))
    with pytest.raises(ConfigError, match=words):
        load_increment(source(("a", "2026-01-05 10:00")), into, **asked)
    assert not (visits.ledger.exists() and ids(visits))


# --- what the source is asked -----------------------------------------------------------------------------------------


@pytest.fixture
def read_plan(visits, spark, monkeypatch):
    """The physical plans of the rows that loads write, in full length."""
    setting, stage, seen = "spark.sql.maxMetadataStringLength", visits.stage, []

    def looked(split, **options):
        seen.append(split.rows._jdf.queryExecution().executedPlan().toString())
        return stage(split, **options)

    monkeypatch.setattr(visits, "stage", looked)
    spark.conf.set(setting, "2000")
    yield seen
    spark.conf.unset(setting)


BOUNDED = re.compile(
    r"PushedFilters: \[\*?Or\(Or\(And\(GreaterThanOrEqual\(ingestion_time,2026-01-05[^,]*\),"
    r"LessThan\(ingestion_time,2026-01-06[^,]*\)\),IsNull\(ingestion_time\)\),"
    # What no window holds is refused, not left out.
    r"Or\(LessThan\(ingestion_time,0001-01-02[^,]*\),GreaterThanOrEqual\(ingestion_time,9999-01-01[^,]*\)\)\)\]"
)


def test_files_are_asked_for_the_window_only(visits, source, spark, tmp_path, read_plan):
    """Both bounds reach the Parquet reader, in a first reading and when the window is merged."""
    source(("a", "2026-01-05 10:00"), ("b", "2026-01-06 10:00")).write.parquet(str(tmp_path / "legacy"))
    rows = spark.read.parquet(str(tmp_path / "legacy"))
    for _ in range(2):
        load(rows, visits, DAYS[0])
    assert all(BOUNDED.search(seen) for seen in read_plan), read_plan
    assert len(read_plan) == 2


def test_a_database_is_asked_for_the_window_only(visits, source, spark, tmp_path, read_plan):
    """Both bounds reach the database, also where several connections share the window; no row is lost on the way."""
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    rows = source(
        ("a", "2026-01-05 00:00"), ("b", "2026-01-05 23:59:59.999999"), ("c", "2026-01-06 00:00"), ("d", "2026-01-04")
    )
    stated = "visit_id VARCHAR(20), page VARCHAR(20)"
    rows.write.jdbc(url, "legacy", properties={"createTableColumnTypes": stated})
    bounds = {"lowerBound": "2026-01-05 00:00:00", "upperBound": "2026-01-06 00:00:00", "numPartitions": "3"}
    options = {"url": url, "dbtable": "legacy", "partitionColumn": "ingestion_time", **bounds}
    legacy = spark.read.format("jdbc").options(**options).load()
    load(legacy, visits, DAYS[0])
    assert "numPartitions=3" in read_plan[0]
    assert BOUNDED.search(read_plan[0]), read_plan[0]
    assert ids(visits) == {DAYS[0]: ["a", "b"]}


def test_a_delta_table_is_a_source_and_only_files_of_the_window_are_opened(visits, source, make_table):
    """Delta's statistics skip the files of other windows: one of them may even be gone."""
    copy = make_table(TableSpec("landing/legacy", {n: c for n, c in VISITS.columns.items() if n != "ingested_on"}))
    known = set()
    for number, day in enumerate(DAYS[:2]):
        copy.append(source((f"v{number}", f"{day} 10:00")), provenance=a_run(sequence=number))
        (newest,) = active_files(copy) - known
        known.add(newest)
    (copy.location / newest).unlink()
    rows = copy.session.read.format("delta").load(str(copy.location))
    load(rows, visits, DAYS[0])
    assert ids(visits) == {DAYS[0]: ["v0"]}


def test_an_integer_that_grows_is_a_delta_column_too(make_table, spark):
    """Windows of ids, each a partition; the plan counts in ids."""
    columns = {"id": Column("BIGINT"), "batch": Column("STRING")}
    table = make_table(TableSpec("bronze/orders", columns, ("batch",)))
    rows = spark.range(1, 250).select("id")
    asked = {"column": "batch", "origin": 1, "length": 100}
    chosen = plan_windows(table.ledger, until=250, **asked)
    assert chosen.cursor == {"1": "1/101", "101": "101/201"}
    for key, interval in chosen.cursor.items():
        start, end = map(int, interval.split("/"))
        load_increment(
            rows, table.target(a_run(), partition={"batch": key}), delta="id", window=(start, end), keys=["id"]
        )
    assert sorted(row["id"] for row in read_back(table)) == list(range(1, 201))
    assert plan_windows(table.ledger, until=250, **asked).partitions == ()


# --- which window comes next ------------------------------------------------------------------------------------------


def test_windows_are_due_once_they_are_over(visits, source):
    """The one that still runs is held with the time it ends, and one that was loaded is not due again."""
    first = plan(visits, "2026-01-07T23:59:59.999999")
    assert first.partitions == (DAYS[0], DAYS[1])
    assert first.cursor[DAYS[0]] == "2026-01-05T00:00:00+00:00/2026-01-06T00:00:00+00:00"
    assert first.held == {DAYS[2]: "is not over before 2026-01-08 00:00:00+00:00"}
    assert first.reason == "everything before 2026-01-05 00:00:00+00:00 is loaded, 2 windows are due"
    load(source(("a", "2026-01-05 10:00")), visits, DAYS[0])
    assert plan(visits, "2026-01-07T23:59").partitions == (DAYS[1],)
    assert plan(visits, "2026-01-08T00:00").partitions == (DAYS[1], DAYS[2])
    assert plan(visits, "2026-01-04T00:00").partitions == ()


def test_a_quiet_window_is_loaded_too(visits, source):
    """No rows are an answer: the mark moves on, and what becomes visible there later is late."""
    result = load(source(("b", "2026-01-06 10:00")), visits, DAYS[0])
    assert (result.applied, result.rows.read) == (True, 0)
    assert plan(visits, "2026-01-07T00:00").partitions == (DAYS[1],)
    assert load(source(("a", "2026-01-05 10:00")), visits, DAYS[0]).figures["late"] == 1
    assert ids(visits) == {DAYS[0]: ["a"]}


def test_the_mark_survives_a_restart_and_the_cleanup_of_the_log(visits, source):
    """A new process plans what the old one would have; the windows are known without the commits that loaded them."""
    for day in DAYS[:2]:
        load(source(("a", "2026-01-05 10:00")), visits, day)
    before = plan(visits, "2026-01-08T00:00", lookback=1)
    assert before.causes == {DAYS[1]: "look-back", DAYS[2]: "due"}
    asked = {"column": "ingested_on", "origin": ORIGIN, "length": DAY, "until": ORIGIN + timedelta(days=3)}
    assert plan_windows(Ledger(visits.location, name=visits.name), **asked, lookback=1) == before
    DeltaTable(str(visits.location)).create_checkpoint()
    for commit in sorted((visits.location / "_delta_log").glob("0*.json"))[:-1]:
        commit.unlink()
    assert plan_windows(Ledger(visits.location, name=visits.name), **asked, lookback=1) == before


def test_a_backfill_moves_the_mark_neither_forwards_nor_backwards(visits, source):
    """A window loaded ahead hides no gap, and one loaded again opens none."""
    rows = source(*[(f"v{n}", f"{day} 10:00") for n, day in enumerate(DAYS)])
    for day in (DAYS[0], DAYS[1], DAYS[4], DAYS[0]):
        load(rows, visits, day)
    chosen = plan(visits, "2026-01-11T00:00", lookback=1)
    assert chosen.causes == {
        DAYS[1]: "look-back",
        DAYS[2]: "due",
        DAYS[3]: "due",
        DAYS[4]: "look-back",
        DAYS[5]: "due",
    }
    assert chosen.reason.startswith("everything before 2026-01-07 00:00:00+00:00 is loaded")


def test_what_was_rolled_back_is_due_again(visits, source):
    """After a restore the windows are loaded once more, and no row is there twice."""
    rows = source(("a", "2026-01-05 10:00"), ("b", "2026-01-06 10:00"))
    kept = load(rows, visits, DAYS[0])
    load(rows, visits, DAYS[1])
    visits.restore(kept.version, provenance=a_run())
    chosen = plan(visits, "2026-01-07T00:00")
    assert chosen.partitions == (DAYS[0], DAYS[1])
    for day in chosen.partitions:
        load(rows, visits, day)
    assert ids(visits) == {DAYS[0]: ["a"], DAYS[1]: ["b"]}


def test_planning_takes_no_negative_look_back(visits):
    """Nothing lies before the past."""
    with pytest.raises(ConfigError, match="lookback=-1"):
        plan(visits, "2026-01-07T00:00", lookback=-1)


# --- a source that is partitioned by time -----------------------------------------------------------------------------

PARTITIONED = TableSpec(
    "bronze/legacy_days", {"visit_id": Column("STRING"), "date": Column("DATE")}, partition_by=("date",)
)


@pytest.fixture
def days(make_table):
    """The target, laid out as its source is."""
    return make_table(PARTITIONED)


@pytest.fixture
def landing(tmp_path, spark):
    """A landing zone with ``date=`` folders: deliver a day, read all of it, or see what a plan offers."""

    class Landing:
        root = tmp_path / "landing"

        def deliver(self, day, *visits, marked=True):
            folder = self.root / f"date={day}"
            with delivering(folder):
                number = len(list(folder.glob("*.parquet")))
                pq.write_table(pa.table({"visit_id": visits}), folder / f"part-{number}.parquet")
            if not marked:
                (folder / MARKER).unlink()
            return folder

        def read(self):
            return spark.read.schema("visit_id STRING, date DATE").parquet(str(self.root))

        def offered(self, **options):
            lying = [delivery_at(folder) for folder in self.root.iterdir()]
            return plan_ready(lying, consumed={}, now=NOW, **options)

    return Landing()


def take(landing, table, day, *, ready=None, **fields):
    plan = ready or landing.offered()
    return load_partition(
        landing.read(), table.target(a_run(table.name, **fields), partition={"Date": day}), ready=plan
    )


@pytest.mark.both
def test_one_whole_partition_is_loaded_and_no_other_is_read(days, landing):
    """The log keeps the layout; a neighbour's file may be unreadable, and its partition keeps its very files."""
    landing.deliver(DAYS[0], "a", "b")
    damaged = landing.deliver(DAYS[1], "c")
    take(landing, days, DAYS[1])
    neighbours = active_files(days)
    for file in damaged.glob("*.parquet"):
        file.write_bytes(b"no parquet")
    result = take(landing, days, DAYS[0])
    assert result.rows.read == 2
    assert visit_ids(days) == {DAYS[0]: ["a", "b"], DAYS[1]: ["c"]}
    own = active_files(days) - neighbours
    assert DeltaTable(str(days.location)).metadata().partition_columns == ["date"]
    assert (files_of(days, date=DAYS[0]), files_of(days, date=DAYS[1])) == (own, neighbours)
    assert own
    again = take(landing, days, DAYS[0], run_id="run-2")
    assert (again.changed, visit_ids(days)) == (False, {DAYS[0]: ["a", "b"], DAYS[1]: ["c"]})


def visit_ids(table):
    held = {}
    for row in read_back(table):
        held.setdefault(str(row["date"]), []).append(row["visit_id"])
    return {day: sorted(found) for day, found in sorted(held.items())}


def test_a_partition_is_not_loaded_before_it_is_ready(days, landing):
    """Without its marker nothing is written, not even a table; with it the next look takes all of it."""
    landing.deliver(DAYS[0], "half", marked=False)
    with pytest.raises(NotReady, match=rf"bronze/legacy_days date={DAYS[0]} was not loaded: 1 files but no _SUCCESS"):
        take(landing, days, DAYS[0])
    assert not days.ledger.exists()
    landing.deliver(DAYS[0], "rest")
    result = take(landing, days, DAYS[0])
    assert visit_ids(days) == {DAYS[0]: ["half", "rest"]}
    delivered = delivery_at(landing.root / f"date={DAYS[0]}")
    assert days.ledger.commit(result.version).record.notes["delivery"] == delivered.identity


def test_the_next_partition_is_a_sign_of_readiness_too(days, landing):
    """By that convention the newest one has to wait."""
    for day in DAYS[:2]:
        landing.deliver(day, day, marked=False)
    offered = landing.offered(convention="next_partition")
    take(landing, days, DAYS[0], ready=offered)
    with pytest.raises(NotReady, match="the next partition does not exist yet"):
        take(landing, days, DAYS[1], ready=offered)
    assert visit_ids(days) == {DAYS[0]: [DAYS[0]]}


def test_a_missing_partition_is_an_error_and_no_success_without_rows(days, landing):
    """What was never delivered, and what is said to be ready and holds nothing, publishes nothing."""
    landing.deliver(DAYS[0], "a")
    take(landing, days, DAYS[0])
    version = days.ledger.version()
    with pytest.raises(NotReady, match=f"date={DAYS[1]} was not loaded: there is no such partition"):
        take(landing, days, DAYS[1])
    with pytest.raises(AuditFailed, match="input_is_not_empty: below 1"):
        take(landing, days, DAYS[1], ready=Plan((f"date={DAYS[1]}",), "a marker, and no file"))
    assert (days.ledger.version(), visit_ids(days)) == (version, {DAYS[0]: ["a"]})


def test_rows_without_their_partition_column_are_refused(days, landing, spark):
    """Reading below the partition's folder flattens the layout: the rows would not say where they belong."""
    folder = landing.deliver(DAYS[0], "a")
    with pytest.raises(ConfigError, match="the rows have no column date"):
        load_partition(
            spark.read.schema("visit_id STRING").parquet(str(folder)),
            days.target(a_run(), partition={"date": DAYS[0]}),
            ready=landing.offered(),
        )


def test_a_partition_without_a_value_is_refused(days, landing):
    """NULL is no partition that a run can be due for, and no text of one."""
    landing.deliver(DAYS[0], "a")
    with pytest.raises(ConfigError, match="partition must give date a value, not None"):
        load_partition(
            landing.read(), days.target(a_run(), partition={"date": None}), ready=Plan(("date=None",), "ready")
        )
    assert not days.ledger.exists()


def test_a_redelivered_partition_replaces_its_rows(days, landing):
    """A partition is delivered whole, so what a new delivery lacks is gone, and the days after it are untouched."""
    landing.deliver(DAYS[0], "a", "b")
    landing.deliver(DAYS[1], "c")
    for day in DAYS[:2]:
        take(landing, days, day, inputs={"landing": landing.offered().cursor[f"date={day}"]})
    for file in (landing.root / f"date={DAYS[0]}").glob("*.parquet"):
        file.unlink()
    landing.deliver(DAYS[0], "b", "d")
    take(landing, days, DAYS[0], inputs={"landing": landing.offered().cursor[f"date={DAYS[0]}"]})
    assert visit_ids(days) == {DAYS[0]: ["b", "d"], DAYS[1]: ["c"]}


@any_names(STORED)
def incremented(n):
    table = n.table("id INT, seq BIGINT, part STRING", by=["part"])
    for rows in ([(1, 99), (2, 100), (3, 150)], [(2, 101), (4, 150), (5, 200)]):
        into = table.target(a_run(replay=True), partition={n("part"): "100/200"})
        options = {"window": (100, 200), "keys": n.all("id"), "delta": n("seq")}
        load_increment(n.frame("id INT, seq BIGINT", *rows), into, **options)
    yield table


@known_calls
def calls_that_work(known):
    daily = known.daily.target(known.run, partition={"day": "mon"})
    sold = known.table("bronze/sold", "id INT, seq BIGINT, part STRING", by=("part",))
    return {
        "load_partition": {"rows": known.visits, "into": daily, "ready": Plan(("mon",), "")},
        # with a window before 0, so that the largest value of a wrong option makes more windows than can be planned
        "plan_windows": {"ledger": sold.ledger, "column": "part", "origin": -100, "length": 100, "until": 250},
    }


@two_runs()
def incremented_at_once(world):
    columns = "id INT, seq BIGINT"
    table = world.table("loaded", f"{columns}, part STRING", by=["part"])
    own, options = {"part": "100"}, {"window": (100, 200), "keys": ["id"], "delta": "seq"}
    load_increment(world.frame(columns, (1, 100)), table.target(world.run("base"), partition=own), **options)
    for name, rows in (("1", [(1, 100), (2, 150)]), ("2", [(3, 160)])):
        yield lambda w, name=name, rows=rows: load_increment(
            w.frame(columns, *rows), w["loaded"].target(w.run(name), partition=own), **options
        )


@two_runs()
def partitions_loaded_at_once(world):
    columns = "id INT, day STRING"
    table = world.table("daily", columns, by=["day"])

    def write(w, name, *ids):
        ready = Plan(("mon",), "", cursor={"mon": f"marker {name}"})
        load_partition(w.frame(columns, *[(n, "mon") for n in ids]), w.into("daily", name, "mon"), ready=ready)

    write(world, "base", 1)
    assert table.ledger.exists()
    yield lambda w: write(w, "1", 1, 2)
    yield lambda w: write(w, "2", 3)
