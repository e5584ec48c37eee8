"""Rows of some keys, computed anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AmbiguousKeys, AuditFailed, ConfigError, Conflict, SchemaMismatch
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.helpers import a_run, read_back

SPEC = TableSpec("silver/places", {"k": Column("BIGINT"), "n": Column("INT"), "v": Column("STRING")})


@pytest.fixture
def places(make_table, spark):
    """Three keys with two rows each."""
    table = make_table(SPEC)
    rows = spark.range(6).selectExpr("id div 2 AS k", "CAST(id % 2 AS INT) AS n", "'old' AS v")
    table.overwrite(rows, provenance=a_run())
    return table


def numbered(present, source):
    """One row for each row of the source, numbered after the first one that was there before."""
    first = present.filter("n = 0").selectExpr("k", "n", "v")
    return first.unionByName(source.selectExpr("k", "CAST(n AS INT) AS n", "v"))


@pytest.mark.both
def test_all_rows_of_a_key_make_place_for_what_is_computed(places, spark):
    """Rows stay, change, go and come; other keys' rows are kept; each is counted, and nothing done twice."""
    source = spark.sql("SELECT * FROM VALUES (1L, 2, 'new'), (1L, 3, 'new'), (9L, 1, 'first') AS (k, n, v)")
    options = {"keys": ["k"], "identity": ["k", "n"], "compute": numbered, "provenance": a_run(run_id="2")}
    done = places.recompute(source, **options)
    held = {(row["k"], row["n"]): row["v"] for row in read_back(places)}
    kept = {(k, n): "old" for k in (0, 2) for n in (0, 1)}
    assert held == {**kept, (1, 0): "old", (1, 2): "new", (1, 3): "new", (9, 1): "first"}
    assert {name: done.figures[name] for name in ("inserted", "updated", "deleted")} == {
        "inserted": 3,
        "updated": 0,
        "deleted": 1,
    }
    assert (done.figures["before"], done.figures["after"]) == (6, 8)
    again = places.recompute(source, **{**options, "provenance": a_run(run_id="3")})
    assert (again.changed, again.reason) == (False, "no row is to be changed")


def test_an_audit_measures_rows_that_nothing_touches_only_if_it_asks_for_them(places, spark):
    """Rows of other keys are counted as kept in any case; by its own SQL an audit sees them, too."""
    source = spark.sql("SELECT 1L AS k, 2 AS n, 'new' AS v")
    options = {"keys": ["k"], "identity": ["k", "n"], "compute": numbered}
    seen = Audit(name="old", sql=f"count_if({OUTCOME} = 'kept' AND v = 'old')", fail_below=5)
    few = Audit(name="few_stay", of="kept", fail_above=4)
    with pytest.raises(AuditFailed, match="few_stay"):
        places.recompute(source, **options, provenance=a_run(run_id="2"), audits=[few])
    done = places.recompute(source, **options, provenance=a_run(run_id="3"), audits=[seen])
    assert (done.changed, done.figures["old"]) == (True, 5)
    assert len(read_back(places)) == 6


def test_what_cannot_be_published_changes_nothing(places, spark, make_table):
    """A NULL key, other columns, an audit that refuses, no keys, a table with a change feed."""
    source = spark.sql("SELECT * FROM VALUES (1L, 2, 'new'), (NULL, 3, 'new') AS (k, n, v)")
    options = {"keys": ["k"], "identity": ["k", "n"], "compute": numbered, "provenance": a_run(run_id="2")}
    before = places.ledger.version()
    with pytest.raises(AmbiguousKeys, match="1 of 2 rows have NULL in k"):
        places.recompute(source, **options)
    with pytest.raises(SchemaMismatch, match="missing columns"):
        places.recompute(source.filter("k = 1"), **{**options, "compute": lambda present, _: present.select("k", "n")})
    with pytest.raises(ConfigError, match="name the columns"):
        places.recompute(source, **{**options, "keys": []})
    few = Audit(name="few_are_new", of="inserted", fail_above=0)
    with pytest.raises(AuditFailed, match="few_are_new"):
        places.recompute(source.filter("k = 1"), **options, audits=[few])
    assert places.ledger.version() == before
    fed = make_table(replace(SPEC, name="silver/fed", properties={"delta.enableChangeDataFeed": "true"}))
    with pytest.raises(ConfigError, match="a change feed"):
        fed.recompute(source, **options)


def test_keys_that_were_chosen_before_another_write_are_refused(places, spark):
    """The caller looked at a version, and does not know what came after it; at the newest one nothing is in the way."""
    source = spark.sql("SELECT 1L AS k, 2 AS n, 'new' AS v")
    options = {"keys": ["k"], "identity": ["k", "n"], "compute": numbered}
    before = places.ledger.version()
    places.delete("k = 2", provenance=a_run(run_id="2"))
    with pytest.raises(Conflict, match=f"were computed from version {before}"):
        places.recompute(source, **options, provenance=a_run(run_id="3"), since=before)
    assert places.recompute(source, **options, provenance=a_run(run_id="4"), since=places.ledger.version()).changed
