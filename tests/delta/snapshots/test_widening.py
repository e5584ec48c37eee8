"""Type widening: a declared type becomes the stored one where Delta widens it, and nowhere else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.quality.schema_migrator import Migration, migrate_schema
from tests.helpers import NOW, a_run

NARROW = TableSpec("silver/n", {"n": Column("INT")})
WIDENING = {"delta.enableTypeWidening": "true"}


def declared(table, kind, **properties):
    return Table(TableSpec("silver/n", {"n": Column(kind)}, properties=properties), table.location, table.session)


@pytest.fixture
def narrow(make_table):
    """A table with an INT of 1."""
    table = make_table(NARROW)
    table.ensure()
    write_deltalake(str(table.location), pa.table({"n": pa.array([1], pa.int32())}), mode="append")
    return table


@pytest.mark.parametrize(("kind", "properties"), [("BIGINT", {}), ("STRING", WIDENING), ("SMALLINT", WIDENING)])
def test_a_type_that_delta_does_not_widen_is_refused(narrow, kind, properties):
    """Without the feature, and to a type that is not wider: nothing is claimed, and nothing changes."""
    with pytest.raises(SchemaMismatch, match=f"n is declared as {kind}, the table has integer: this needs a migration"):
        declared(narrow, kind, **properties).ensure()
    assert narrow.ledger.state().columns["n"]["type"] == "integer"


def test_an_int_becomes_a_bigint_with_the_feature(spark, narrow):
    """The stored type is long, and a value above 2^31 comes back; the names of such a table are Spark's to change."""
    wide = declared(narrow, "BIGINT", **WIDENING)
    assert wide.ensure().columns["n"]["type"] == "long"
    wide.append(spark.range(2**31, 2**31 + 1).selectExpr("id AS n"), provenance=a_run(sequence=1))
    stored = spark.read.format("delta").load(str(wide.location))
    assert sorted(row["n"] for row in stored.collect()) == [1, 2**31]
    moves = Migration(name="v2", rename={"n": "m"})
    with pytest.raises(ConfigError, match="has features that only Spark writes"):
        migrate_schema(wide.target(a_run()), NOW, migration=moves, to="declared")
