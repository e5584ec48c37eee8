"""What an option takes several of may be given twice: it is refused, or as if it were given once.

Lists of columns are tried in ``test_names.py``, where every use of a pattern is run anyway.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, Update
from dedp_assets.patterns.error_management.filter_interceptor import filter_measures, intercept_filters
from dedp_assets.patterns.error_management.static_late_data_integrator import plan_lookback
from dedp_assets.patterns.idempotency.transactional_writer import (
    DatabaseTarget,
    RowSet,
    TableRows,
    publish_group,
    read_group,
    write_transaction,
)
from tests.helpers import a_run, read_back

pytestmark = pytest.mark.spark


DAYS = TableSpec("gold/days", {"n": Column("BIGINT"), "day": Column("STRING")}, partition_by=("day",))


def group_of(spark, tables, **run):
    """Two rows of Monday for each table."""
    rows = spark.range(2).selectExpr("id AS n", "'mon' AS day")
    return [TableRows(rows, table.target(a_run(**run), partition={"day": "mon"})) for table in tables]


def test_a_table_named_twice_in_a_group_is_refused(spark, make_table):
    """Whoever writes one table twice would lose what the first rows were; a table of another group is named."""
    tables = [make_table(replace(DAYS, name=f"gold/{name}")) for name in ("days", "other", "stranger")]
    rows = group_of(spark, tables)
    with pytest.raises(ConfigError, match="names gold/days twice"):
        publish_group([rows[0], rows[1], replace(rows[0], into=tables[0].target(a_run(), partition={"day": "tue"}))])
    assert not any(table.ledger.exists() for table in tables)
    publish_group(rows[:2])
    with pytest.raises(
        ConfigError, match=r"gold/stranger is not of the group of gold/days: it holds gold/days, gold/o"
    ):
        read_group([tables[0], tables[2]])
    with pytest.raises(ConfigError, match="names gold/days twice"):
        read_group([tables[0], tables[0]])
    assert [len(read_back(table)) for table in tables[:2]] == [2, 2]


def test_a_group_that_is_given_no_rows_empties_no_partition(spark, make_table):
    """Unless it is said of the table: as of a partition that is overwritten, and none of the others is written."""
    tables = [make_table(replace(DAYS, name=f"gold/{name}")) for name in ("days", "other")]
    rows = group_of(spark, tables)
    publish_group(rows)
    rows = group_of(spark, tables, inputs={"n": 2})
    without = [rows[0], replace(rows[1], rows=rows[1].rows.limit(0))]
    with pytest.raises(AuditFailed, match=r"gold/other.*input_is_not_empty"):
        publish_group(without)
    assert [len(read_back(table)) for table in tables] == [2, 2]
    publish_group([without[0], replace(without[1], allow_empty=True)])
    assert [len(read_back(table)) for table in tables] == [2, 0]


def test_rows_for_one_table_of_a_database_come_in_one_set(spark):
    """Before the database is asked for anything."""
    rows = RowSet("public.users", spark.range(1), keys=["id"])
    into = DatabaseTarget("users", print, a_run(sequence=1))
    with pytest.raises(ConfigError, match=r"names public\.users twice"):
        write_transaction([rows, rows], into)
    with pytest.raises(ConfigError, match="keys= names id twice"):
        write_transaction([replace(rows, keys=["id", "id"])], into)


def test_two_filters_in_a_row_count_their_own(spark, make_table):
    """What the first one drops is counted under its conditions, beside the second one's; the same again is refused."""
    ages = spark.createDataFrame([(1, 20), (2, 1), (3, 30), (4, None)], "id INT, age INT")
    first, second = {"old": "age > 3"}, {"older": "age > 25"}
    split = intercept_filters(intercept_filters(ages, conditions=first), conditions=second)
    kept, seen = tally(split, identity=["id"], measures={**filter_measures(first), **filter_measures(second)})
    table = make_table(TableSpec("gold/ages", {"id": Column("INT"), "age": Column("INT")}))
    found = table.stage(kept, provenance=a_run(), rows_read=RowsRead(tally=seen)).publish().figures
    counted = {name: found[name] for name in ("rejected by old", "unknown to old", "rejected by older")}
    assert counted == {"rejected by old": 2, "unknown to old": 1, "rejected by older": 1}
    with pytest.raises(ConfigError, match="filtered by conditions old before"):
        intercept_filters(split, conditions=first)


def test_a_partition_named_twice_is_planned_for_once_or_refused():
    """A look-back counts partitions: one that is there twice would shorten it; a current one is planned for once."""
    days = ["1", "2", "3"]
    with pytest.raises(ConfigError, match="partitions= names 1 twice"):
        plan_lookback({"1": 5}, {}, lookback=1, current=["3"], partitions=["1", *days])
    plan = plan_lookback({"3": 5}, {}, lookback=1, current=["3", "3"], partitions=days)
    assert plan.partitions == ("3",)


@pytest.mark.parametrize("again", ["id", "ID"])
def test_a_key_is_declared_of_each_column_once(again):
    """As the columns of the table are."""
    with pytest.raises(ConfigError, match=r"key= names id twice|are not among its columns"):
        TableSpec("t", {"id": Column("INT")}, key=("id", again))


def test_a_clause_sets_a_column_once(spark, make_table):
    """The last one would count, and nobody would know of the other."""
    table = make_table(TableSpec("t", {"id": Column("INT"), "n": Column("INT")}))
    rows = spark.sql("SELECT 1 AS id, 2 AS n")
    for clause in (Update({"n": "1", "N": "2"}), Insert({"id": "s.id", "ID": "2"})):
        with pytest.raises(ConfigError, match=r"t: a clause names (n|id) twice"):
            table.merge(rows, Merge(["id"], [clause]), provenance=a_run())
