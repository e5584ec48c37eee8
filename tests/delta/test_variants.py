"""A VARIANT is handed on like any other column: written, merged, deduplicated, kept in versions."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.merger import merge_changes
from dedp_assets.patterns.ingestion.compactor import compact
from tests.helpers import a_run, read_back

EVENTS = TableSpec(
    "silver/payloads",
    {
        "id": Column("INT", required=True),
        "body": Column("VARIANT"),
        "parts": Column("ARRAY<STRUCT<v: VARIANT>>"),
        "day": Column("STRING"),
    },
    partition_by=("day",),
)
MONDAY = {"day": "mon"}


@pytest.fixture
def table(make_table):
    """A table with a VARIANT, alone and inside of an array."""
    return make_table(EVENTS)


@pytest.fixture
def bodies(spark):
    """``bodies("1", "2")``: rows with these JSON texts as VARIANT."""

    def rows(*texts):
        numbered = spark.createDataFrame(list(enumerate(texts)), "id INT, text STRING")
        body = "parse_json(text)"
        return numbered.selectExpr("id", f"{body} AS body", f"array(struct({body} AS v)) AS parts", "'mon' AS day")

    return rows


def told(table):
    return dict(table.read().selectExpr("id", "to_json(struct(body, parts))").collect())


def of(text):
    return f'{{"body":{text},"parts":[{{"v":{text}}}]}}'


def test_a_partition_with_variants_is_replaced_and_a_rerun_changes_nothing(table, bodies):
    """Rows read and rows written are held against each other by what the variants say."""
    texts = ['{"a":[1,null]}', "null", "-0.5", '"2026-01-05"']

    def write(*texts, number):
        rows, seen = tally(bodies(*texts), identity=["id"])
        run = a_run(inputs={"bronze": number}, sequence=number)
        return overwrite_partition(rows, table.target(run, partition=MONDAY, rows_read=RowsRead(tally=seen)))

    assert write(*texts, number=1).changed
    assert told(table) == {number: of(text) for number, text in enumerate(texts)}
    assert not write(*texts, number=2).changed
    assert write(*texts[:3], "20260105", number=3).changed


SHREDDING = ("spark.sql.variant.writeShredding.enabled", "spark.sql.variant.inferShreddingSchema")
"""Settings of a session whose plain Parquet files have shredded values."""


@pytest.fixture
def shredding(spark):
    """A session that shreds the values wherever nothing else is said."""
    for name in SHREDDING:
        spark.conf.set(name, "true")
    yield spark
    for name in SHREDDING:
        spark.conf.unset(name)


@pytest.mark.both
def test_files_with_variants_are_read_by_others_whatever_the_session_says(table, bodies, shredding):
    """Spark would shred the values, which asks for a feature that the table does not have."""
    texts = ['{"a":1}', '{"a":"x"}']
    overwrite_partition(bodies(*texts), table.target(a_run(sequence=1), partition=MONDAY))
    assert told(table) == {number: of(text) for number, text in enumerate(texts)}
    assert [row["id"] for row in sorted(read_back(table), key=lambda row: row["id"])] == [0, 1]
    assert_unshredded(table)
    assert {shredding.conf.get(name) for name in SHREDDING} == {"true"}


def test_small_files_with_variants_are_merged_into_one_that_others_read(table, bodies, shredding):
    """Delta rewrites them, in a session of its own that sees what the caller's session says."""
    for number in range(2):
        table.append(bodies('{"a":1}').withColumn("id", F.lit(number)), provenance=a_run(sequence=number + 1))
    assert compact(table.target(a_run()), min_small_files=2).changed is False
    assert (len(table.ledger.state().files()), told(table)) == (1, dict.fromkeys(range(2), of('{"a":1}')))
    assert [row["id"] for row in sorted(read_back(table), key=lambda row: row["id"])] == [0, 1]
    assert_unshredded(table)


def assert_unshredded(table):
    """No file has a typed part of a VARIANT, by pyarrow; Delta's own files have the partition column, too."""
    for file in table.ledger.state().files():
        names = pq.ParquetFile(table.location / file["path"]).schema.names
        assert sorted({*names} - {"day"}) == ["id", "metadata", "value"]


def test_merges_tell_variants_apart_by_value_and_type(table, bodies):
    """A row whose VARIANT is the same is left alone; one that is of another type now is not."""

    def merge(rows, number):
        return merge_changes(rows, table.target(a_run(inputs={"bronze": number}, sequence=number)), keys=["id"])

    merge(bodies("1.5", '{"b":1,"a":2}'), 1)
    assert not merge(bodies("1.5", '{"a":2,  "b":1}'), 2).changed
    result = merge(bodies("1.5e0", '{"a":2,"b":1}'), 3)
    assert (result.changed, result.reason) == (True, "1 rows updated")


def test_records_with_variants_are_deduplicated_by_their_keys(bodies):
    """The survivor brings its VARIANT along."""
    rows = bodies("1", "2").selectExpr("*", "2 AS at").unionAll(bodies("3").selectExpr("*", "1 AS at"))
    kept = deduplicate(rows, keys=["id"], order_by=["at"])["valid"]
    assert sorted(kept.selectExpr("id", "to_json(body)").collect()) == [(0, "3"), (1, "2")]
