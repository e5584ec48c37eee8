"""Targets of writes, and tables that are opened by what their log says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError, ContractError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.rows import RowsRead
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target, same_run
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from tests.helpers import a_run, read_back, write_log

DAYS = TableSpec("gold/days", {"n": Column("BIGINT"), "day": Column("STRING")}, partition_by=("day",))
FEW = Audit(name="few", of="written", fail_above=9)


def nobody():
    raise AssertionError("no session is needed")


@pytest.fixture
def days(tmp_path):
    return Table(DAYS, tmp_path / "gold" / "days", nobody)


def test_a_target_is_a_line_and_a_run_of_it_may_be_named_by_its_id(days):
    """With an id, inputs and sequence are given beside it; a whole provenance has its own."""
    into = days.target("nightly-17", partition={"day": "mon"}, audits=[FEW], inputs={"a.csv": "sha256:1"}, sequence=3)
    run = into.run
    assert (run.asset, run.run_id, run.inputs, run.sequence) == ("gold/days", "nightly-17", {"a.csv": "sha256:1"}, 3)
    assert (into.name, into.partition, into.owned, into.audits) == ("gold/days", {"day": "mon"}, {"day": "mon"}, (FEW,))
    assert days.target(a_run()).run == a_run()
    for more in ({"inputs": {}}, {"sequence": 1}):
        with pytest.raises(ConfigError, match="gold/days: inputs= and sequence= must be part of run"):
            days.target(a_run(), **more)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run": ""}, "run must be"),
        ({"run": None}, "run must be"),
        ({"partition": "mon"}, "partition must be a mapping, not 'mon'"),
        ({"audits": FEW}, "audits must be a list"),
        ({"rows_read": 7}, "rows_read must be a RowsRead, not an int"),
    ],
)
def test_a_target_of_something_else_is_refused(days, given, said):
    """By the name of the option."""
    with pytest.raises(ConfigError, match=said):
        days.target(**{"run": "nightly-17", **given})


@pytest.mark.parametrize(
    ("part", "given"),
    [
        ("partition", {"partition": {"day": "mon"}}),
        ("audits", {"audits": [FEW]}),
        ("rows_read", {"rows_read": RowsRead(figures={"read": 7})}),
    ],
)
def test_a_pattern_refuses_what_it_would_ignore(days, part, given):
    """An audit that nobody judges, and a partition that nobody replaces, are mistakes of the call."""
    parts = {"partition", "audits", "rows_read"}
    into = days.target("run-1", **given)
    with pytest.raises(ConfigError, match=f"gold/days: the target of a.pattern must have no {part}$"):
        into.by("a.pattern", *(parts - {part}))
    named = into.by("a.pattern", part)
    assert named.run.pattern == "a.pattern"
    assert replace(named, run=into.run) == into


def test_an_execution_is_no_partition(tmp_path):
    """A table that executions change is written as a whole; the target names the execution."""
    totals = Table(TableSpec("gold/totals", {"n": Column("INT")}, executed_by="day"), tmp_path / "t", nobody)
    into = totals.target("run-1", partition={"day": "2026-01-05"})
    assert (into.execution, into.owned) == ("2026-01-05", {})
    assert into.by("a.pattern", "execution").execution == "2026-01-05"
    with pytest.raises(ConfigError, match="must have no execution"):
        into.by("a.pattern", "partition")


def test_further_audits_notes_and_facts_are_added(days):
    """An equal audit is there once, and facts about the rows read are kept for the accounting."""
    into = days.target("run-1", audits=[FEW]).with_audits(FEW, replace(FEW, name="more"))
    assert [audit.name for audit in into.audits] == ["few", "more"]
    assert into.noting({"a": 1}).noting({"b": 2}).run.notes == {"a": 1, "b": 2}
    found = Finding("sound", passed=True)
    assert into.reading(figures={"read": 7}, represented="seen", findings=[found]).rows_read == RowsRead(
        None, {"read": 7}, "seen", (found,)
    )


def test_targets_of_two_runs_are_not_written_by_one(days):
    """Which of the two runs would answer for both tables?"""
    same_run(days.target("run-1"), days.target("run-1"))
    same_run(days.target("run-1").noting({"open": True}), days.target("run-1"))
    with pytest.raises(ConfigError, match="the targets gold/days and gold/days must be of one run, not of two"):
        same_run(days.target("run-1"), days.target("run-2"))


# --- tables that exist ------------------------------------------------------------------------------------------------

RICH = TableSpec(
    "silver/users",
    {
        "id": Column("BIGINT", "identity", required=True),
        "email": Column("STRING", classification="personal", replica="pseudonym"),
        "name": Column("VARCHAR(9)"),
        "odd.name": Column("ARRAY<STRUCT<`a.b`: INT, `c`: MAP<STRING, DECIMAL(9,2)>>>"),
        "seen": Column("TIMESTAMP", technical=True),
        "small": Column("SMALLINT"),
        "day": Column("DATE", required=True),
    },
    partition_by=("day",),
    checks={"named": "name IS NULL OR name <> ''"},
    comment="One row per user.",
    key=("id",),
    properties={"delta.enableChangeDataFeed": "true"},
)


@pytest.mark.spark
def test_a_table_that_exists_says_what_it_declares(spark, make_table):
    """Types, tags, keys and rules come back; written by it, the table is altered in nothing and keeps its promises."""
    made = make_table(RICH)
    made.ensure()
    known, version = made.ledger.state(), made.ledger.version()
    found = Table.at(made.location, spark)
    assert found.name == RICH.name
    assert {n: replace(c, comment="") for n, c in found.spec.columns.items()} == {
        n: replace(c, comment="", type=c.type) for n, c in RICH.columns.items()
    }
    assert (found.spec.partition_by, found.spec.key, found.spec.checks) == (("day",), ("id",), dict(RICH.checks))
    assert found.spec.withheld("log") == RICH.withheld("log")
    values = {"id": "{0}", "email": "'a@x.org'", "name": "'Ada'", "day": "DATE '{1}'"}
    typed = [f"CAST({values.get(n, 'NULL')} AS {c.type}) AS {identifier(n)}" for n, c in RICH.columns.items()]
    rows = [spark.sql(f"SELECT {', '.join(typed)}".format(*each)) for each in ((1, "2026-01-05"), (1, "2026-01-06"))]
    upsert_keyed(rows[0], found.target("run-1", partition={"day": "2026-01-05"}))
    with pytest.raises(AmbiguousKeys):
        upsert_keyed(rows[1], found.target("run-2", partition={"day": "2026-01-06"}))
    assert [(each["id"], each["name"]) for each in read_back(made)] == [(1, "Ada")]
    state = made.ledger.state()
    assert (state.properties, state.columns) == (known.properties, known.columns)
    assert made.ledger.version() == version + 1


@pytest.mark.spark
def test_a_table_of_another_tool_is_written_as_it_is(spark, tmp_path):
    """Properties that the library would set are left alone; its constraints are judged."""
    place = tmp_path / "lake" / "orders"
    write_deltalake(place, spark.range(3).selectExpr("id AS n", "'mon' AS day").toArrow(), partition_by=["day"])
    DeltaTable(place).alter.add_constraint({"few": "n < 9"})
    before = Table.at(place, spark).ledger.state().properties
    orders = Table.at(place, spark)
    assert (orders.name, orders.spec.checks) == ("lake/orders", {"few": "n < 9"})
    monday = {"day": "mon"}
    rows = spark.range(5).selectExpr("id AS n", "'mon' AS day")
    assert overwrite_partition(rows, orders.target("run-1", partition=monday)).rows.written == 5
    with pytest.raises(ContractError, match="few"):
        overwrite_partition(rows.selectExpr("n + 9 AS n", "day"), orders.target("run-2", partition=monday))
    assert orders.ledger.state().properties == before


def test_a_place_without_a_table_is_refused(tmp_path):
    """In one sentence that names it; and a table may have another name than its place."""
    with pytest.raises(ConfigError, match=r"nowhere holds no table: declare one \(TableSpec\)"):
        Table.at(tmp_path / "nowhere", nobody)
    write_log(tmp_path / "t", {"id": "long"}, [], [])
    assert Table.at(tmp_path / "t", nobody, name="silver/t").name == "silver/t"
    assert isinstance(Table.at(tmp_path / "t", nobody).target("r"), Target)
