"""Reading at a pinned version: the same rows the Delta reader gives, by the files the log names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake
from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.snapshots import reading
from tests.helpers import EVENTS, a_run
from tests.scans import files_read

DAY = {"event_date": "2026-01-05"}
NEXT_DAY = {"event_date": "2026-01-06"}
DATED = TableSpec("silver/dated", {"n": Column("BIGINT"), "day": Column("DATE")}, partition_by=("day",))


@pytest.mark.parametrize(
    ("uri", "plain"),
    [
        ("file:///lake/a%20b/part+1.parquet", "file:/lake/a b/part+1.parquet"),
        ("file:/lake/day=2026%252D01/c%3A1", "file:/lake/day=2026%2D01/c:1"),
        ("s3a://bucket/lake/a%20b", "s3a:/bucket/lake/a b"),
    ],
)
def test_a_file_has_one_name_whoever_writes_its_uri(uri, plain):
    """Escapes and slashes differ between Spark and the store; a plus sign is no blank, and nothing is decoded twice."""
    assert reading.plain_uri(uri) == plain


def by_delta(table, version=None):
    reader = table.session.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(str(table.location))


def rows(frame):
    return sorted(map(str, (row.asDict() for row in frame.collect())))


@pytest.mark.both
def test_a_pinned_version_reads_as_it_was(events, event_rows):
    """Later commits do not show, neither in the rows nor in an older frame that is read late."""
    first = events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1)).version
    pinned = events.read(version=first)
    events.overwrite(event_rows(5, start=7), partition=DAY, provenance=a_run(sequence=2))
    assert sorted(row["id"] for row in pinned.collect()) == [0, 1]
    assert rows(events.read(version=first)) == rows(by_delta(events, first))
    assert rows(events.read()) == rows(by_delta(events))


@pytest.mark.both
def test_only_the_named_partitions_are_read(events, event_rows):
    """One, several, or one that is not there, with the types of the table."""
    events.overwrite(event_rows(2), partition=DAY, provenance=a_run(sequence=1))
    events.overwrite(event_rows(3, day="2026-01-06"), partition=NEXT_DAY, provenance=a_run(sequence=1))
    assert rows(events.read(DAY)) == rows(by_delta(events).filter("event_date = '2026-01-05'"))
    assert rows(events.read(DAY, NEXT_DAY)) == rows(by_delta(events))
    nothing = events.read({"event_date": "2026-01-09"})
    assert (nothing.collect(), nothing.dtypes) == ([], by_delta(events).dtypes)
    assert events.read(DAY).dtypes == by_delta(events).dtypes


def test_rows_without_a_partition_value_are_a_partition(make_table, spark):
    """NULL is found by name like any other value."""
    table = make_table(DATED)
    dates = "VALUES (1L, DATE '2026-01-05'), (2L, NULL), (3L, NULL) AS t(n, day)"
    table.overwrite(spark.sql(f"SELECT * FROM {dates}"), provenance=a_run(sequence=1))
    assert sorted(row["n"] for row in table.read({"day": None}).collect()) == [2, 3]
    assert [row["n"] for row in table.read({"day": "2026-01-05"}).collect()] == [1]
    assert rows(table.read()) == rows(by_delta(table))


def test_a_table_without_rows_is_read_as_no_rows(events):
    """With its columns."""
    events.ensure()
    assert events.read().collect() == []
    assert events.read().dtypes == by_delta(events).dtypes


def test_a_table_that_is_not_there_is_not_ready(events):
    """Reading creates nothing."""
    with pytest.raises(NotReady, match="silver/events does not exist yet"):
        events.read()
    assert not events.ledger.exists()


def test_rows_from_before_a_column_have_null_there(events, event_rows, spark):
    """Old files and new ones together."""
    events.overwrite(event_rows(1), partition=DAY, provenance=a_run(sequence=1))
    wider = Table(replace(EVENTS, columns={**EVENTS.columns, "city": Column("STRING")}), events.location, spark)
    new = event_rows(1, day="2026-01-06").selectExpr("*", "'Rome' AS city")
    wider.overwrite(new, partition=NEXT_DAY, provenance=a_run(sequence=1))
    assert sorted(str(row["city"]) for row in wider.read().collect()) == ["None", "Rome"]
    assert rows(wider.read()) == rows(by_delta(wider))


def test_renamed_columns_are_left_to_the_delta_reader(make_table, event_rows):
    """Where the files call the columns otherwise, the rows come out under the table's names."""
    table = make_table(replace(EVENTS, properties={"delta.columnMapping.mode": "name"}))
    table.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    assert sorted((row["id"], row["user_id"]) for row in table.read(DAY).collect()) == [(0, "u0"), (1, "u1"), (2, "u2")]


def test_rows_deleted_by_a_mark_are_not_read(make_table, event_rows):
    """A deletion vector leaves the file as it is; the Delta reader knows which rows are gone."""
    table = make_table(replace(EVENTS, properties={"delta.enableDeletionVectors": "true"}))
    table.overwrite(event_rows(6).coalesce(1), partition=DAY, provenance=a_run(sequence=1))
    table.delete("id = 1", partition=DAY, provenance=a_run(sequence=2))
    assert sorted(row["id"] for row in table.read(DAY).collect()) == [0, 2, 3, 4, 5]


def test_many_partitions_are_read_as_the_same_rows(make_table, spark, monkeypatch):
    """Beyond a number of partitions the Delta reader takes over; nobody sees a difference."""
    table = make_table(DATED)
    many = spark.range(6).selectExpr("id AS n", "date_add(DATE '2026-01-05', int(id)) AS day").coalesce(1)
    table.overwrite(many, provenance=a_run(sequence=1))
    one_way = rows(table.read())
    monkeypatch.setattr(reading, "_MOST_PARTITIONS", 3)
    assert rows(table.read()) == one_way == rows(by_delta(table))
    assert [row["n"] for row in table.read({"day": "2026-01-07"}).collect()] == [2]


def test_a_filter_on_a_table_of_many_files_opens_those_that_may_match(make_table, spark, monkeypatch):
    """By the statistics in the log, for any filter of later; of few files, all are opened, and rows are the same."""
    table = make_table(TableSpec("silver/words", {"n": Column("BIGINT"), "word": Column("STRING")}))
    many = spark.range(0, 12, 1, 4).selectExpr("id AS n", "concat('w', id) AS word")
    table.overwrite(many, provenance=a_run(sequence=1))
    for most, opened in ((4, 4), (3, 1)):
        monkeypatch.setattr(reading, "_MOST_FILES", most)
        few = table.read().where("n BETWEEN 6 AND 7")
        assert (files_read(few), rows(few.select("word"))) == (opened, ["{'word': 'w6'}", "{'word': 'w7'}"])
        assert rows(table.read()) == rows(by_delta(table))


NAMED = TableSpec(
    "silver/named",
    {"n": Column("BIGINT"), "day": Column("DATE"), "kind": Column("STRING")},
    partition_by=("day", "kind"),
)


def test_a_few_named_partitions_are_read_as_the_same_rows(make_table, spark, monkeypatch):
    """In one frame or in one for each partition: values that differ, that are the same, and none at all."""
    table = make_table(NAMED)
    cells = "('2026-01-05', 'a'), ('2026-01-05', NULL), ('2026-01-06', 'it''s'), (NULL, 'a')"
    several = "SELECT id AS n, DATE(day) AS day, kind FROM range(3), VALUES " + cells + " AS t(day, kind)"
    table.overwrite(spark.sql(several).filter("n < 2 OR kind = 'a'"), provenance=a_run(sequence=1))
    day = {"day": "2026-01-05"}
    for named in ([day], [day, {"day": None}], [{"kind": None}, {"kind": "it's"}], [{"day": "2026-01-06"}, day]):
        together = table.read(*named)
        with monkeypatch.context() as patch:
            patch.setattr(reading, "_MOST_COMPARED", 0)
            apart = table.read(*named)
        assert rows(together) == rows(apart)
        assert together.dtypes == apart.dtypes
        assert together.columns == [*NAMED.columns]


@pytest.mark.parametrize("names", [("x", "x"), ("a b", "x"), ("x", "ü+b")], ids=["twice", "blank", "escaped"])
def test_files_of_other_writers_are_read_whatever_they_are_called(tmp_path, spark, names):
    """The same name in two partitions, or one that Spark writes otherwise than the log."""
    for number, name in enumerate(names):
        folder = tmp_path / "silver" / "foreign" / f"day=2026-01-0{number + 1}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": pa.array([number], pa.int64())}), folder / f"{name}.parquet")
    where = tmp_path / "silver" / "foreign"
    day = deltalake.Schema([deltalake.Field("day", "date")])
    convert_to_deltalake(str(where), partition_by=day, partition_strategy="hive")
    read = Table.at(where, spark).read({"day": "2026-01-01"}, {"day": "2026-01-02"})
    assert sorted((row["n"], row["day"].day) for row in read.collect()) == [(0, 1), (1, 2)]


def test_a_column_may_be_called_as_the_metadata_of_a_file(make_table, spark):
    """Spark shows the column then, and no metadata."""
    table = make_table(replace(DATED, columns={**DATED.columns, "_metadata": Column("STRING")}))
    table.overwrite(
        spark.sql("SELECT id AS n, date_add(DATE '2026-01-05', int(id)) AS day, 'm' AS _metadata FROM range(2)"),
        provenance=a_run(sequence=1),
    )
    read = table.read({"day": "2026-01-05"}, {"day": "2026-01-06"})
    assert sorted((row["n"], row["day"].day, row["_metadata"]) for row in read.collect()) == [(0, 5, "m"), (1, 6, "m")]


def test_files_that_lie_elsewhere_are_found(events, event_rows, spark, tmp_path):
    """A shallow clone names the files of another table."""
    events.overwrite(event_rows(3), partition=DAY, provenance=a_run(sequence=1))
    spark.sql(f"CREATE TABLE delta.`{tmp_path / 'clone'}` SHALLOW CLONE delta.`{events.location}`")
    clone = Table(EVENTS, tmp_path / "clone", spark)
    assert rows(clone.read(DAY)) == rows(events.read(DAY))


FLOATS = [[5.0, float("nan")], [float("nan"), None], [-0.0, float("inf"), float("-inf")]]
COMPARED = ["{} > 5", "{} >= 5", "{} = double('NaN')", "{} <> 5", "NOT {} <= 5", "{} < 5", "{} IS NULL", "isnan({})"]
NUMBERED = {"x": "DOUBLE", "s": "STRUCT<x: DOUBLE, n: INT>", "n": "INT"}


@pytest.fixture(scope="module", params=["library", "Spark", "delta-rs"])
def floats(request, spark, tmp_path_factory):
    """A table with a file for each list of values, which are there alone and in a STRUCT, by a writer."""
    folder = tmp_path_factory.mktemp("floats") / "t"
    table = Table(TableSpec("t/floats", {name: Column(kind) for name, kind in NUMBERED.items()}), folder, spark)
    columns = ", ".join(map(" ".join, NUMBERED.items()))
    for number, values in enumerate(FLOATS):
        frame = spark.createDataFrame([(x, (x, 1), number) for x in values], columns).coalesce(1)
        if request.param == "library":
            table.append(frame, provenance=a_run(sequence=number + 1))
        elif request.param == "Spark":
            frame.write.format("delta").mode("append").save(str(folder))
        else:
            deltalake.write_deltalake(str(folder), pa.table(frame.toArrow()), mode="append")
    return table


@pytest.mark.parametrize("most", [64, 0], ids=["by files", "by Delta"])
def test_no_statistics_of_floats_lose_a_row(floats, most, spark, monkeypatch):
    """delta-rs leaves NaN out of its bounds, and Spark orders NaN above all: filters find the rows by their values."""
    monkeypatch.setattr(reading, "_MOST_PARTITIONS", most)
    rows_ = floats.read()
    conditions = [each.format(column) for column in ("x", "s.x") for each in COMPARED]
    counted = [rows_.filter(each).selectExpr(f"{n} AS place") for n, each in enumerate(conditions)]
    found = Counter(row["place"] for row in reduce(DataFrame.union, counted).collect())
    known = spark.createDataFrame(rows_.collect(), rows_.schema)
    expected = known.selectExpr(*[f"count_if({each}) AS c{n}" for n, each in enumerate(conditions)]).head()
    assert [found[n] for n in range(len(conditions))] == [*expected]
