"""A VARIANT is handed on like any other column: written, merged, deduplicated, kept in versions."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.merger import merge_changes
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


@pytest.mark.both
def test_files_with_variants_are_read_by_others_whatever_the_session_says(table, bodies, spark):
    """Spark would shred the values, which asks for a feature that the table does not have."""
    named = "spark.sql.variant.inferShreddingSchema"
    spark.conf.set(named, "true")
    try:
        overwrite_partition(bodies('{"a":1}', '{"a":"x"}'), table.target(a_run(sequence=1), partition=MONDAY))
    finally:
        spark.conf.unset(named)
    assert [row["id"] for row in sorted(read_back(table), key=lambda row: row["id"])] == [0, 1]
    for file in table.ledger.state().files():
        assert sorted(pq.ParquetFile(table.location / file["path"]).schema.names) == [
            "id",
            "metadata",
            "metadata",
            "value",
            "value",
        ]


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
