"""Measuring: a tally taken in the pass that writes says what it says in a pass of its own."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import RowsRead, count_where, digest, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import staged_writes
from tests.helpers import a_run, read_back

pytestmark = pytest.mark.spark

COLUMNS = {"id": Column("BIGINT", required=True), "day": Column("DATE"), "even": Column("BOOLEAN")}
DAY = {"day": "2026-01-05"}
SUM = Audit(name="sum_is_known", sql="sum(id)", fail_below=0)
LARGE = Audit(name="few_are_large", of="large", where="id > 3", fail_above=9)


@pytest.fixture
def passes(monkeypatch):
    """The measurings of the stages that are made meanwhile."""
    seen, stage_rows = [], staged_writes.stage_rows

    def staged(split, layout, *, measuring, **options):
        seen.append(measuring)
        return stage_rows(split, layout, measuring=measuring, **options)

    monkeypatch.setattr(staged_writes, "stage_rows", staged)
    return seen


def places(spark):
    """Six rows, and a split of them: four are kept, and one is dropped by each of two parts."""
    rows = spark.range(6).selectExpr("id", f"DATE '{DAY['day']}' AS day", "id % 2 = 0 AS even")
    outcome = F.expr("CASE WHEN id = 1 THEN 'early' WHEN id = 4 THEN 'bot' ELSE 'valid' END").alias(OUTCOME)
    columns = ("id", "day", "even")
    return rows, Split(rows.select("*", outcome), dict.fromkeys(("valid", "early", "bot"), columns), identity=("id",))


@pytest.mark.promise("the-same-number-of-other")
@pytest.mark.parametrize("of_a_split", [False, True])
@pytest.mark.parametrize("audits", [(), (LARGE,), (SUM,)])
def test_a_tally_taken_along_says_the_same(spark, make_table, passes, of_a_split, audits):
    """Rows, counts, figures and findings are equal; what aggregates would count rows that are dropped goes apart."""
    plain, split = places(spark)
    found = []
    for name in ("along", "apart"):
        table = make_table(TableSpec(f"silver/{name}", COLUMNS, partition_by=("day",)))
        kept, seen = tally(split if of_a_split else plain, identity=["id"], measures={"odd": count_where("NOT even")})
        staged = table.stage(
            kept if name == "along" else kept.select("*"),
            partition=DAY,
            provenance=a_run(table.name),
            audits=audits,
            rows_read=RowsRead(tally=seen),
        )
        found.append((staged.publish(), sorted(row["id"] for row in read_back(table))))
    (first, rows_of_one), (second, rows_of_two) = found
    assert rows_of_one == rows_of_two == ([0, 2, 3, 5] if of_a_split else [0, 1, 2, 3, 4, 5])
    assert (first.rows, first.figures, first.findings) == (second.rows, second.figures, second.findings)
    assert first.rows.filtered == (2 if of_a_split else 0)
    assert first.figures["odd"] == 3
    taken = [{**measuring.measures, **measuring.asked}.keys() >= {"read", "odd"} for measuring in passes]
    assert taken == [not (of_a_split and SUM in audits), False]


def test_a_predicate_is_counted_where_it_is_true(spark):
    """NULL counts as little as false, of rows or of none."""
    rows = spark.sql("SELECT * FROM VALUES (true), (false), (NULL), (true) AS t(a)")
    for given in (rows, rows.filter("false")):
        counted, known = given.selectExpr(count_where("a"), "count_if(a)").collect()[0]
        assert counted == known


def test_what_is_hashed_once_is_digested_alike(spark):
    """A digest over a column with the hash is the digest over the hash."""
    rows = spark.range(5)
    once = rows.selectExpr("id", "xxhash64(id) AS h").selectExpr(digest("h", where="id > 2")).collect()
    assert once == rows.selectExpr(digest("xxhash64(id)", where="id > 2")).collect()
