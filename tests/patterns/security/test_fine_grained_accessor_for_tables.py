"""Fine-Grained Accessor for Tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.security.fine_grained_accessor_for_tables import (
    ColumnMask,
    Policy,
    read_for,
)
from tests.helpers import a_run

pytestmark = pytest.mark.spark

KEY = MaskingKey("tables-1", b"0123456789abcdef0123456789ABCDEF")
COLUMNS = {
    "id": Column("INT", "person"),
    "name": Column("STRING", "name", classification="personal"),
    "ssn": Column("STRING", "number", classification="personal"),
    "salary": Column("INT", "euros", classification="sensitive"),
    "note": Column("STRING", "note", classification="free text"),
    "region": Column("STRING", "region", classification="public"),
    "store": Column("STRING", "store", classification="public"),
}
PEOPLE = TableSpec("silver/people", COLUMNS, partition_by=("region",))
DDL = ", ".join(f"{name} {column.type}" for name, column in COLUMNS.items())
SSN = ColumnMask(by="shape", value="999-99-9999")
ANALYST = Policy(
    "analyst",
    ["id", "name", "ssn", "region"],
    {"ssn": SSN, "name": ColumnMask("partial", unless="id = 2")},
    "store = 'a'",
)
MANAGER = Policy("manager of the north", ["id", "name", "ssn", "salary", "region", "store"], {}, "region = 'North'")
ADMIN = Policy("admin", [*COLUMNS], {}, rows="true", may_export=True)
POLICIES = [ANALYST, MANAGER, ADMIN]
PERSONS = [
    (1, "Ada Lovelace", "111-22-3331", 8273641, "canary note one", "North", "a"),
    (2, "Eve Online", "111-22-3332", 8273642, "canary note two", "North", "a"),
    (3, "Bob Hidden", "111-22-3333", 8273643, "canary note three", "South", "b"),
    (4, "Dan Southern", None, None, None, "South", "a"),
]


def made(spark, folder, rows, name="silver/people"):
    table = Table(replace(PEOPLE, name=name), folder / name, spark)
    table.overwrite(spark.createDataFrame(rows, DDL), provenance=a_run(name, run_id="first"))
    return table


@pytest.fixture(scope="module")
def people(spark, tmp_path_factory):
    return made(spark, tmp_path_factory.mktemp("people"), PERSONS)


def seen(table, audience, policies=POLICIES, **options):
    return sorted(
        [tuple(row) for row in read_for(table, policies, KEY, audience=audience, **options).collect()], key=repr
    )


# --- three identities ------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_one_query_under_three_identities_shows_the_matrix_of_policies(people):
    """Acceptance 1, AC-8.3-2: columns, rows and cells of each; the same query of all."""
    assert seen(people, "analyst") == [
        (1, "Ada***", "XXX-XX-3331", "North"),
        (2, "Eve Online", "XXX-XX-3332", "North"),
        (4, "Dan***", None, "South"),
    ]
    assert seen(people, "manager of the north") == [
        (1, "Ada Lovelace", "111-22-3331", 8273641, "North", "a"),
        (2, "Eve Online", "111-22-3332", 8273642, "North", "a"),
    ]
    assert seen(people, "admin") == PERSONS


def test_an_audience_without_a_policy_sees_nothing(people):
    """Acceptance 4, AC-8.3-2: denied by a sentence; a policy without a filter of rows shows columns and no rows."""
    with pytest.raises(ConfigError, match="intern has no policy for silver/people, so that nothing is shown"):
        read_for(people, POLICIES, audience="intern")
    with pytest.raises(ConfigError, match="Admin has no policy"):
        read_for(people, POLICIES, audience="Admin")
    with pytest.raises(ConfigError, match="policies must have one policy of admin for silver/people, not 2"):
        read_for(people, [ADMIN, ADMIN], audience="admin")
    assert seen(people, "no group", [Policy("no group", ["id"])]) == []


def test_a_new_column_and_an_old_version_are_read_by_the_policy_of_today(spark, tmp_path):
    """Acceptance 3, 4, 7: a column that the table gets later is hidden; time travel shows no more than today."""
    table = made(spark, tmp_path, PERSONS)
    first = table.ledger.version()
    table.overwrite(spark.createDataFrame(PERSONS[:1], DDL), provenance=a_run(table.name, run_id="second"))
    assert [row[0] for row in seen(table, "analyst", version=first)] == [1, 2, 4]
    tight = [replace(ANALYST, columns=["id"], masks={}, rows="id = 2")]
    assert seen(table, "analyst", tight, version=first) == [(2,)]
    assert seen(table, "analyst", tight) == []
    wide = TableSpec("silver/people", {**COLUMNS, "iban": Column("STRING", classification="personal")}, ("region",))
    again = Table(wide, table.location, spark)
    rows = spark.createDataFrame(PERSONS, DDL).withColumn("iban", F.lit("DE00canary"))
    again.overwrite(rows, provenance=a_run(table.name, run_id="third"))
    assert "iban" not in read_for(again, POLICIES, audience="analyst").columns
    assert "iban" not in read_for(again, POLICIES, audience="admin").columns
    with pytest.raises(ConfigError, match="the policy of admin for silver/people names iban, which the rows do not"):
        read_for(again, [replace(ADMIN, columns=["id", "iban"])], audience="admin", version=first)


def test_partitions_are_named_by_columns_in_the_clear_alone(people):
    """A partition of a hidden or masked column would tell the column's value."""
    assert [row[0] for row in seen(people, "analyst", partitions=[{"region": "South"}])] == [4]
    hidden = [replace(ANALYST, columns=["id"], masks={})]
    masked = [replace(ANALYST, masks={"region": ColumnMask("null", unless="true")})]
    for policies in (hidden, masked):
        with pytest.raises(ConfigError, match=r"partitions must be of columns that analyst sees in the clear.*region"):
            read_for(people, policies, audience="analyst", partitions=[{"region": "South"}])
