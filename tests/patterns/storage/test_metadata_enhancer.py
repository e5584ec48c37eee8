"""Metadata Enhancer: files and pages that filters skip, statistics that are true whoever wrote the files."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.schema import Column, TableLayout, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.maintenance.statistics import COUNTED, true_statistics
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.storage.metadata_enhancer import (
    enhance_statistics,
    refresh_planner_statistics,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, read_back
from tests.renaming import STORED, any_names
from tests.scans import scanned
from tests.two_runs import two_runs

PEOPLE = TableSpec(
    "silver/people",
    {
        "age": Column("INT", "years"),
        "score": Column("DOUBLE", "any number"),
        "name": Column("STRING", "who", classification="personal"),
        "city": Column("STRING", "where"),
        "seen": Column("TIMESTAMP", "when"),
        "flag": Column("BOOLEAN", "whether"),
    },
)
SCHEMA = ", ".join(f"{name} {column.type}" for name, column in PEOPLE.columns.items())
NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
NAN, LONG = float("nan"), "x" * 100


def people(*rows):
    """Rows of age, score, name, city, time and flag, as another writer has them."""
    kinds = [pa.int32(), pa.float64(), pa.string(), pa.string(), pa.timestamp("us", "UTC"), pa.bool_()]
    columns = zip(*rows, strict=True) if rows else [[] for _ in kinds]
    return pa.table([pa.array(v, k) for v, k in zip(columns, kinds, strict=True)], names=list(PEOPLE.columns))


def a_person(number):
    return number, number / 2, f"n{number}", f"c{number}", NOON + timedelta(minutes=number), number % 2 == 0


def add_file(table, rows, stats=None):
    """A commit of a writer that states no statistics, or these."""
    version = table.ledger.version() + 1
    file = table.location / f"part-{version}.parquet"
    pq.write_table(rows, file)
    sized = {"size": file.stat().st_size, "modificationTime": 1767600000000, "dataChange": True}
    stated = {} if stats is None else {"stats": json.dumps(stats)}
    add = {"path": file.name, "partitionValues": {}, **sized, **stated, "tags": {"theirs": "1"}}
    commits.write(table.store, version, [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, {"add": add}])


def statistics(table):
    """The statistics of the active files, as the log has them."""
    adds = table.ledger.added_files(table.ledger.version())
    return [json.loads(adds[path].get("stats") or "{}") for path in sorted(active_files(table))]


def scan(rows, *metrics):
    """Figures of the scan that a frame's rows came out of, and the rows."""
    *counted, found = scanned(rows, *metrics)
    return (*counted, sorted(map(str, found)))


def by_delta(table, where):
    return table.session.read.format("delta").load(str(table.location)).where(where)


@pytest.fixture
def table(make_table):
    """An empty table of people."""
    made = make_table(PEOPLE)
    made.ensure()
    return made


def test_each_file_states_what_it_holds_and_nothing_of_personal_or_other_columns(spark, make_table):
    """Rows, bounds and NULL counts of the chosen columns, equal to those of the rows read back from each file."""
    table = make_table(replace(PEOPLE, layout=TableLayout(statistics=("age", "city"))))
    rows = spark.createDataFrame([*map(a_person, range(40)), (None, None, "n", None, None, None)], SCHEMA)
    table.append(rows.repartition(3), provenance=a_run(sequence=1))
    adds = table.ledger.added_files(table.ledger.version())
    assert len(adds) == 3
    for path, add in adds.items():
        held, stated = pq.read_table(table.location / path).to_pydict(), json.loads(add["stats"])
        assert stated["numRecords"] == len(held["age"])
        for column in ("age", "city"):
            values = [value for value in held[column] if value is not None]
            bounds = stated["minValues"][column], stated["maxValues"][column], stated["nullCount"][column]
            assert bounds == (min(values), max(values), held[column].count(None))
        assert {*stated["minValues"], *stated["maxValues"]} == {"age", "city"}
        assert {*stated["nullCount"]} == {"age", "city", "flag"}
    assert table.ledger.state().properties["delta.dataSkippingStatsColumns"] == "age,city"
    assert not enhance_statistics(table.target(a_run())).applied


def test_a_filter_opens_the_files_that_may_match_and_json_opens_all(spark, table, tmp_path):
    """Of eight files by age, those that overlap, at the boundary, too; as JSON lines, all, for the same rows."""
    for number in range(8):
        write_deltalake(table.location, people(*map(a_person, range(20 * number, 20 * number + 21))), mode="append")
    folder = str(tmp_path / "json")
    table.read().select("age", "city").repartition(8).write.json(folder)
    for where, files in {"age > 80": 4, "age >= 80": 5, "age = 80": 2, "age > 160": 0, "age = 85": 1}.items():
        opened, found = scan(by_delta(table, where).select("age", "city"), "numFiles")
        every, control = scan(spark.read.schema("age INT, city STRING").json(folder).where(where), "numFiles")
        assert (opened, every, found) == (files, 8, control)


TRAPS = [
    (1, 1.0, "a", LONG + "a", NOON, True),
    (None, NAN, "b", LONG + "z", NOON + timedelta(microseconds=999), False),
    (5, 5.0, "c", "", None, None),
    (-3, -math.inf, "d", None, datetime(1969, 12, 31, 23, tzinfo=timezone(timedelta(hours=-11))), True),
]
FILTERS = (
    "score > 5", "score >= 5", "score = double('NaN')", "score < 1", "age IS NULL", "age = 5",
    "city > repeat('x', 101)", f"city = '{LONG}z'", "city = ''", "seen > TIMESTAMP '2026-01-05 12:00:00+00:00'",
    "seen = TIMESTAMP '2026-01-05 02:00:00.000999-10:00'", "seen < TIMESTAMP '1970-01-02 00:00:00+00:00'",
)  # fmt: skip


@pytest.fixture(scope="module")
def trapped(spark, tmp_path_factory):
    """Values that tempt to a wrong skip, written by delta-rs, by Spark and by the library, a file each."""
    table = Table(PEOPLE, tmp_path_factory.mktemp("traps") / "people", spark)
    table.ensure()
    write_deltalake(table.location, people(*TRAPS), mode="append")
    rows = spark.createDataFrame(TRAPS, SCHEMA).coalesce(1)
    rows.write.format("delta").mode("append").save(str(table.location))
    table.append(rows, provenance=a_run(sequence=1))
    return table


def test_a_wrong_bound_of_another_writer_is_mended_and_no_filter_loses_a_row(spark, trapped):
    """delta-rs states 5 as the greatest of 1, NaN and 5, in the log and the file: Spark loses the row, then not."""
    assert by_delta(trapped, "score > 5").count() == 2
    before, rows = trapped.ledger.version(), read_back(trapped)
    done = enhance_statistics(trapped.target(a_run()))
    assert (done.applied, done.changed, done.figures["files_rewritten"]) == (True, False, 1)
    assert done.reason.startswith("1 files written again, whose footers pass over NaN; ")
    assert trapped.ledger.changes(since=before)[1] == {}
    assert len(trapped.ledger.commit(before + 1).maintenance.notes["wrong_footers"]) == 1
    plain = spark.createDataFrame(TRAPS, SCHEMA)
    for where in FILTERS:
        found = sorted(str(row) for row in by_delta(trapped, where).collect())
        assert found == sorted(str(row) for row in plain.where(where).collect() for _ in range(3)) != [], where
    assert repr(read_back(trapped)) == repr(rows)
    assert not enhance_statistics(trapped.target(a_run())).applied


def test_files_without_statistics_get_them_and_no_row_is_touched(table, monkeypatch):
    """By a commit without data change, which keeps tags and files; a second run opens no file, and some are skipped."""
    for number in range(4):
        add_file(table, people(*map(a_person, range(10 * number, 10 * number + 10))))
    rows, files, version = read_back(table), active_files(table), table.ledger.version()
    assert scan(by_delta(table, "age > 25"), "numFiles")[0] == 4
    done = enhance_statistics(table.target(a_run(run_id="run-7")))
    assert (
        done.figures["files_opened"] == done.figures["files_described"] == done.figures["files_without_statistics"] == 4
    )
    assert (read_back(table), active_files(table), table.ledger.changes(since=version)[1]) == (rows, files, {})
    commit = table.ledger.commit(done.version)
    assert (commit.record, commit.maintenance.run_id, commit.operation) == (None, "run-7", "COMPUTE STATS")
    assert commit.maintenance.figures["analyzed_version"] == version
    assert [each["numRecords"] for each in statistics(table)] == [10] * 4
    assert all("name" not in each["nullCount"] for each in statistics(table))
    assert {add["tags"]["theirs"] for add in table.ledger.added_files(done.version).values()} == {"1"}
    assert scan(by_delta(table, "age > 25"), "numFiles")[0] == 2
    monkeypatch.setattr(LocalStore, "open", lambda _, path: pytest.fail(f"opened {path}"))
    again = enhance_statistics(table.target(a_run()))
    assert (again.applied, again.version, again.figures["files_opened"]) == (False, done.version, 0)
    assert again.reason == "nothing to describe: the statistics of 4 files are those of the files"


def test_statistics_of_personal_columns_leave_the_log(table):
    """Another writer stated them; fields inside of columns and true bounds stay."""
    rows = people(a_person(1), a_person(2))
    bounds = {"age": 1, "name": "n1", "inside": {"a": 1}}
    stats = {
        "numRecords": 2,
        "minValues": bounds,
        "maxValues": {**bounds, "age": 2, "name": "n2"},
        "nullCount": {"name": 0},
    }
    add_file(table, rows, stats)
    done = enhance_statistics(table.target(a_run()))
    assert done.figures["files_with_further_statistics"] == 1
    (stated,) = statistics(table)
    assert "name" not in {*stated["minValues"], *stated["maxValues"], *stated["nullCount"]}
    assert (stated["minValues"]["inside"], stated["minValues"]["age"], stated["maxValues"]["age"]) == ({"a": 1}, 1, 2)
    assert not enhance_statistics(table.target(a_run())).applied


def test_what_statistics_cost_the_log_is_what_was_chosen(spark, make_table):
    """Of forty columns, two have a fifth of the bytes in the log that all have; the rows are the same."""
    columns = {f"c{n}": Column("STRING") for n in range(40)}
    rows = spark.range(50).selectExpr(*[f"CAST(id * {n} AS STRING) AS c{n}" for n in range(40)]).coalesce(1)
    sizes, held = {}, {}
    for name, chosen in {"all": list(columns), "two": ["c1", "c2"]}.items():
        spec = TableSpec(name, columns, layout=TableLayout(statistics=tuple(chosen)))
        made = make_table(spec)
        made.append(rows, provenance=a_run(sequence=1))
        sizes[name] = sum(len(json.dumps(each)) for each in statistics(made))
        held[name] = sorted(map(tuple, made.read().collect()))
    assert sizes["two"] * 5 < sizes["all"]
    assert held["two"] == held["all"]


def test_a_bloom_filter_and_small_pages_let_fewer_rows_out_of_a_scan(spark, make_table):
    """By the way that arrives, in files of the library and of Spark: a key that no file has costs no row."""
    columns = {"n": Column("INT"), "k": Column("STRING")}
    layout = TableLayout(statistics=("n",), bloom={"k": 4000}, page_rows=100)
    spec = TableSpec("keys", columns, layout=layout)
    rows = spark.range(4000).selectExpr("CAST(id AS INT) AS n", "sha2(CAST(id AS STRING), 256) AS k").coalesce(1)
    tables = {"bloom": make_table(spec), "control": make_table(TableSpec("control", columns))}
    read = {}
    for name, table in tables.items():
        table.append(rows, provenance=a_run(sequence=1))
        rows.write.format("delta").mode("append").save(str(table.location))
        for key, where in {"none": "k = 'a'", "one": "k = sha2('7', 256)", "page": "n = 1234"}.items():
            read[name, key], found = scan(table.read().where(where), "numOutputRows")
            assert len(found) == {"none": 0}.get(key, 2)
    assert (read["bloom", "none"], read["control", "none"]) == (0, 8000)
    assert (read["bloom", "page"], read["control", "page"]) == (200, 8000)
    assert read["bloom", "one"] <= 8000
    for path in active_files(tables["bloom"]):
        chunk = pq.ParquetFile(tables["bloom"].location / path).metadata.row_group(0).column(0)
        assert (chunk.has_column_index, chunk.has_offset_index) == (True, True)


VALUES = st.one_of(st.none(), st.floats(width=64), st.sampled_from([0.0, -0.0, NAN, math.inf, -math.inf, 5.0]))
TEXTS = st.one_of(st.none(), st.text(max_size=3), st.text(min_size=60, max_size=70))


def rank(value):
    """Spark's order of numbers: NaN is greater than any other, and both zeros are one."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


@given(st.lists(st.tuples(VALUES, TEXTS), min_size=1, max_size=6), VALUES, TEXTS)
def test_no_filter_skips_a_file_that_has_a_row_of_it(rows, number, text):
    """Rows with skipping are those of a plain model, for any values: a bound leaves no value of the file outside."""
    held = {"x": [row[0] for row in rows], "t": [row[1] for row in rows]}
    file = io.BytesIO()
    pq.write_table(pa.table(held, pa.schema({"x": pa.float64(), "t": pa.string()})), file)
    stated = true_statistics(io.BytesIO(file.getvalue()), ["x", "t"], ["x"]).found
    for column, wanted, order in (("x", number, rank), ("t", text, lambda value: value.encode())):
        values = [value for value in held[column] if value is not None]
        assert stated["nullCount"][column] == held[column].count(None)
        low, high = (stated[kind].get(column) for kind in ("minValues", "maxValues"))
        if wanted is None:
            continue
        reads = {
            "=": (low is None or order(low) <= order(wanted)) and (high is None or order(wanted) <= order(high)),
            ">": high is None or order(high) > order(wanted),
            "<": low is None or order(low) < order(wanted),
        }
        finds = {
            "=": any(order(value) == order(wanted) for value in values),
            ">": any(order(value) > order(wanted) for value in values),
            "<": any(order(value) < order(wanted) for value in values),
        }
        assert all(reads[kind] or not finds[kind] for kind in reads)


@pytest.mark.slow
def test_planner_statistics_go_stale_and_a_refresh_mends_the_plan(database):
    """A control whose statistics are apart from the data: after a load the estimate is of before, until ANALYZE."""

    def planned(connection):
        (plan,) = connection.execute("EXPLAIN (FORMAT JSON) SELECT * FROM people WHERE city = 'c'").fetchone()
        return plan[0]["Plan"]["Node Type"], plan[0]["Plan"]["Plan Rows"]

    with database.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE people (id int, city text) WITH (autovacuum_enabled = false)")
        connection.execute("CREATE INDEX by_city ON people (city)")
        connection.execute("INSERT INTO people SELECT n, 'c' FROM generate_series(1, 100) n; ANALYZE people")
        connection.execute("INSERT INTO people SELECT n, 'd' || n FROM generate_series(1, 20000) n")
        stale, (estimated,) = (
            planned(connection),
            connection.execute("SELECT reltuples FROM pg_class WHERE relname = 'people'").fetchone(),
        )
        assert (estimated, stale[1] > 5_000) == (100, True)
        found = refresh_planner_statistics(database.connect, table="public.people", version=7)
        assert (found.passed, found.severity) == (False, "warn")
        assert found.figures == {"rows_before": 100, "rows_after": 20100, "analyzed_version": 7}
        assert found.note == "public.people: plans were made for 100 rows of 20100"
        fresh = planned(connection)
        assert fresh[1] < 1000 < stale[1]
        assert fresh[0] != stale[0] == "Seq Scan"
    assert refresh_planner_statistics(database.connect, table="public.people").passed
    with pytest.raises(ConfigError, match=r"table must be schema\.table, not 'people'"):
        refresh_planner_statistics(database.connect, table="people")


def test_tables_that_cannot_be_described_are_refused(spark, table, tmp_path):
    """A log that only Spark writes, and a file that is damaged, by name; nothing is committed."""
    place = tmp_path / "mapped"
    spark.sql(f"CREATE TABLE delta.`{place}` (a INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    with pytest.raises(ConfigError, match="must be a table whose log the library writes, not one of which only Spark"):
        enhance_statistics(Table.at(place, spark).target(a_run()))
    add_file(table, people(a_person(1)))
    (table.location / "part-1.parquet").write_bytes(b"no Parquet")
    with pytest.raises(ContractError, match=r"part-1\.parquet cannot be read, nothing was described again"):
        enhance_statistics(table.target(a_run()))
    assert table.ledger.version() == 1


def test_a_table_in_a_bucket_is_described_there(bucket_store):
    """Footers are read from the bucket, and the log is written there, without Spark."""
    table = Table(PEOPLE, bucket_store, lambda: pytest.fail("Spark was started"))
    table.ensure()
    file = io.BytesIO()
    pq.write_table(people(a_person(1), a_person(2)), file)
    bucket_store.put("part-1.parquet", file.getvalue())
    sized = {"size": len(file.getvalue()), "modificationTime": 1767600000000, "dataChange": True}
    add = {"path": "part-1.parquet", "partitionValues": {}, **sized}
    commits.write(bucket_store, 1, [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, {"add": add}])
    assert enhance_statistics(table.target(a_run())).figures["files_without_statistics"] == 1
    (found,) = table.ledger.state().files()
    assert (found["num_records"], found["min.age"], found["max.age"]) == (2, 1, 2)
    assert COUNTED in table.ledger.added_files(2)["part-1.parquet"]["tags"]


@pytest.mark.both
def test_rows_are_read_alike_with_chosen_statistics(spark, make_table):
    """Embedded and over Spark Connect: filters, NULL and an empty write."""
    table = make_table(replace(PEOPLE, layout=TableLayout(statistics=("age",), bloom={"city": 10})))
    table.append(spark.createDataFrame([*map(a_person, range(9))], SCHEMA), provenance=a_run(sequence=1))
    table.append(spark.createDataFrame([], SCHEMA), provenance=a_run(sequence=2))
    assert not enhance_statistics(table.target(a_run())).applied
    assert sorted(row["age"] for row in by_delta(table, "age > 5 AND city <> 'c7'").collect()) == [6, 8]


@known_calls
def calls_that_work(known):
    return {
        "enhance_statistics": {"into": known.daily.target(known.run, partition={"day": "mon"})},
        "refresh_planner_statistics": {"connect": known.begin, "table": "public.people", "version": 1},
    }


@any_names(STORED, handed_on=("kept",))
def chosen(n):
    columns = "id INT, page STRING, kept STRING, day STRING"
    held = n.table(columns, by=["day"])
    layout = TableLayout(statistics=tuple(n.all("id", "page")), bloom={n("page"): 10})
    table = n.make_table(replace(held.spec, layout=layout))
    table.append(n.frame(columns, *[(i, f"/{i}", "x", "mon") for i in range(20)]), provenance=a_run(sequence=1))
    yield table
    yield [{"counted": len(each["minValues"])} for each in statistics(table)[:1]]


@two_runs()
def described_at_once(world):
    columns = "id INT, day STRING"
    table = world.table("plain", columns)
    table.append(world.frame(columns, (0, "mon")), provenance=world.run("base", sequence=1))
    add_file(table, pa.table({"id": pa.array([1], pa.int32()), "day": ["tue"]}))
    yield lambda w: enhance_statistics(w.into("plain", "enhancer"))
    yield lambda w: w["plain"].append(w.frame(columns, (2, "wed")), provenance=w.run("more", sequence=2))
