"""Tables that others made or changed: their names, their rules and their writers hold as well."""

from __future__ import annotations

from datetime import date

import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, Table, Update
from dedp_assets.patterns.quality.audit_write_audit_publish import require_pass
from tests.helpers import a_run, read_back

DAY, NEXT = {"day": "2026-01-05"}, {"day": "2026-01-06"}
MAPPED = TableSpec(
    "t/mapped",
    {"id": Column("INT"), "the amount, in €": Column("INT"), "day": Column("DATE")},
    partition_by=("day",),
    properties={"delta.columnMapping.mode": "name"},
)
RULED = TableSpec("t/ruled", {"id": Column("INT"), "day": Column("DATE")}, partition_by=("day",))


@pytest.mark.promise("a-mapped-table-is-known")
def test_a_mapped_table_is_known_by_the_names_of_its_schema(make_table, spark):
    """Its files name columns otherwise: changes and gates hold all the same, before and after a column is renamed."""
    table = make_table(MAPPED)
    rows = spark.sql(
        "SELECT id, id * 10 AS `the amount, in €`, DATE'2026-01-05' + id AS day FROM VALUES (0), (1) AS t(id)"
    )
    ours = table.overwrite(rows, provenance=a_run("t/mapped", sequence=1))
    assert table.ledger.changes()[1] == {tuple(day.items()): ours.version for day in (DAY, NEXT)}
    assert require_pass(table.ledger, DAY, version=ours.version).passed

    spark.sql(f"UPDATE delta.`{table.location}` SET `the amount, in €` = 99 WHERE id = 0")
    foreign = table.ledger.version()
    assert table.ledger.changes(since=ours.version)[1] == {tuple(DAY.items()): foreign}
    assert "without an audit" in require_pass(table.ledger, DAY, version=foreign).note
    assert require_pass(table.ledger, NEXT, version=foreign).passed

    spark.sql(f"ALTER TABLE delta.`{table.location}` RENAME COLUMN day TO `the day`")
    spark.sql(f"DELETE FROM delta.`{table.location}` WHERE id = 1")
    assert table.ledger.latest({"the day": "2026-01-06"}).operation == "DELETE"
    assert table.ledger.latest({"the day": "2026-01-05"}).version == foreign
    assert [row.id for row in table.read({"the day": date(2026, 1, 5)}).collect()] == [0]


def test_names_are_found_in_a_checkpoint_too(make_table, spark):
    """The log may have forgotten the commit that declared the table."""
    table = make_table(MAPPED)
    rows = spark.sql("SELECT 1 AS id, 10 AS `the amount, in €`, DATE'2026-01-05' AS day")
    version = table.overwrite(rows, provenance=a_run("t/mapped", sequence=1)).version
    DeltaTable(str(table.location)).create_checkpoint()
    (table.location / "_delta_log" / f"{0:020d}.json").unlink()
    assert table.ledger.latest(DAY).version == version


@pytest.mark.promise("what-delta-enforces-row-by")
@pytest.mark.parametrize(
    ("declared", "good", "bad", "rule"),
    [
        ("name VARCHAR(3)", "'abc'", "'abcd'", r"name_is_a_varchar\(3\)=1"),
        ("name CHAR(2)", "'ab'", "'abc'", r"name_is_a_char\(2\)=1"),
        ("twice INT GENERATED ALWAYS AS (id * 2)", "id * 2", "3", "twice_is_generated=1"),
        (
            "at STRUCT<x: INT NOT NULL, y: STRUCT<`z.z`: STRING NOT NULL>>",
            "named_struct('x', 1, 'y', named_struct('z.z', 'q'))",
            "named_struct('x', 1, 'y', named_struct('z.z', CAST(NULL AS STRING)))",
            r"at\.y\.z\.z_is_not_null=1",
        ),
    ],
    ids=["VARCHAR", "CHAR", "generated", "NOT NULL inside"],
)
def test_what_delta_enforces_row_by_row_is_counted_and_refused(make_table, spark, declared, good, bad, rule):
    """A metadata-only commit checks no row; the rules that stand in the stored schema are judged before it."""
    name, _, kind = declared.partition(" ")
    plain = {"twice": "INT", "name": "STRING"}.get(name, kind.replace(" NOT NULL", ""))
    location = make_table(RULED).location
    spark.sql(f"CREATE TABLE delta.`{location}` (id INT, day DATE, {declared}) USING DELTA PARTITIONED BY (day)")
    spec = TableSpec(
        "t/ruled", {**RULED.columns, name: Column(kind if "CHAR" in kind else plain)}, partition_by=("day",)
    )
    table = make_table(spec)
    rows = spark.sql(
        f"SELECT id, DATE'2026-01-05' AS day, if(id = 1, {good}, {bad}) AS {name} FROM VALUES (1), (2) AS t(id)"
    )
    with pytest.raises(AuditFailed, match=rf"constraints_hold: failed \(.*{rule}"):
        table.overwrite(rows, partition=DAY, provenance=a_run("t/ruled", sequence=1))
    assert read_back(table) == []
    table.overwrite(rows.filter("id = 1"), partition=DAY, provenance=a_run("t/ruled", sequence=1))
    assert [row["id"] for row in read_back(table)] == [1]


def test_lengths_inside_of_a_column_are_refused_as_what_cannot_be_checked(make_table, spark):
    """Before anything is written, with what to declare instead."""
    table = make_table(TableSpec("t/ruled", {"names": Column("ARRAY<STRING>")}))
    spark.sql(f"CREATE TABLE delta.`{table.location}` (names ARRAY<VARCHAR(2)>) USING DELTA")
    with pytest.raises(ConfigError, match=r"names is ARRAY<VARCHAR\(2\)>: .* Declare STRING there, and the length"):
        table.overwrite(spark.sql("SELECT array('abc') AS names"), provenance=a_run("t/ruled"))


def test_a_table_that_takes_appends_only_says_so(make_table, spark):
    """Nobody was faster: there is nothing to run again."""
    table = make_table(TableSpec("t/ruled", {"id": Column("INT")}, properties={"delta.appendOnly": "true"}))
    table.append(spark.sql("SELECT 1 AS id"), provenance=a_run("t/ruled", sequence=1))
    with pytest.raises(ConfigError, match=r"append-only \(delta.appendOnly\)"):
        table.overwrite(spark.sql("SELECT 2 AS id"), provenance=a_run("t/ruled"))
    assert [row["id"] for row in read_back(table)] == [1]


def test_a_merge_that_compares_a_column_that_spark_pads_is_refused_with_what_to_declare(make_table, spark):
    """Delta cannot, and says so in the words of its own analysis."""
    table = make_table(TableSpec("t/padded", {"id": Column("INT"), "name": Column("CHAR(3)")}))
    rows = spark.sql("SELECT 1 AS id, 'a' AS name")
    table.overwrite(rows, provenance=a_run("t/padded"))
    clauses = [Update(when="NOT (t.name <=> s.name)"), Insert()]
    with pytest.raises(ConfigError, match=r"t/padded has a CHAR column.*VARCHAR"):
        table.merge(rows, Merge(["id"], clauses), provenance=a_run("t/padded", run_id="2"))
    assert [row["id"] for row in read_back(table)] == [1]


def test_a_table_that_counts_a_column_is_emptied_and_marked_without_its_values(make_table, spark):
    """No row states a value of such a column; writes without rows are made all the same."""
    location = make_table(TableSpec("t/counted", {"id": Column("INT")})).location
    columns = "(n BIGINT GENERATED ALWAYS AS IDENTITY, id INT, day DATE)"
    spark.sql(f"CREATE TABLE delta.`{location}` {columns} USING DELTA PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO delta.`{location}` (id, day) VALUES (1, DATE'2026-01-05'), (2, DATE'2026-01-06')")
    table = Table.at(location, spark)
    assert table.clear(partition=DAY, provenance=a_run(sequence=1)).changed
    assert table.mark(provenance=a_run(sequence=2)).applied
    assert [row.id for row in table.read().collect()] == [2]
