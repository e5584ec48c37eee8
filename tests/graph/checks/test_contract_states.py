"""States of published contracts: what the newest rows were written under, and drift of the declaration."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from dedp_assets.graph.catalogue.contracts import ContractFolder
from dedp_assets.graph.checks.contract_states import contract_states, judge_contract_states
from dedp_assets.graph.checks.contracts import declared_contract
from dedp_assets.graph.declare import About, Pinned, Reads, Runs, Target, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger
from tests.helpers import a_record, write_log

NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
NAME = "gold/sales"
DATED = {"day": Column("DATE", "UTC day", classification="public")}
AMOUNT = Column("BIGINT", "cents", classification="public")
SALES = TableSpec(NAME, {**DATED, "amount": AMOUNT}, partition_by=("day",))
RAW = TableSpec("silver/raw", {"day": Column("DATE"), "amount": Column("BIGINT")}, partition_by=("day",))


def tables(spec=SALES):
    """A gold table of one team."""

    def compute(raw: Pinned, into: Target) -> WriteResult: ...

    make = lake_table(
        spec, reads=Reads({RAW: same("day")}), runs=Runs(DAILY), about=About("team:shop"), patterns=[len],
        code_version="1",
    )  # fmt: skip
    return [make(compute)]


@pytest.fixture
def folder(tmp_path):
    """A folder with the contract of the table, in version 1.1.0."""
    found = ContractFolder(tmp_path / "contracts")
    found.publish(declared_contract(tables(), NAME, "1.1.0"))
    return found


def commit(tmp_path, day, **fields):
    """Commit a day of the table by hand; ``under`` is the version that the run names."""
    under = fields.pop("under", None)
    notes = {"contracts": {NAME: under, "gold/beside": "9.0.0"}} if under else {}
    record = a_record(NAME, {"day": day}, notes=notes)
    columns = {"day": "date", "amount": "long"}
    write_log(tmp_path / NAME, columns, ["day"], [{"record": record, "changed": [{"day": day}], **fields}])


def state(tmp_path, folder, spec=SALES):
    """The state of the only contract."""
    (found,) = contract_states(tables(spec), folder, lambda name: Ledger(tmp_path / name, name=name), NOW)
    return found


def test_the_newest_commit_of_rows_names_the_version(tmp_path, folder):
    """Of this table, whatever the day; a table that holds nothing yet was written under nothing and is no trouble."""
    assert (state(tmp_path, folder).is_current, state(tmp_path, folder).troubles) == (None, ())
    commit(tmp_path, "2026-01-04", under="1.0.0")
    assert (state(tmp_path, folder).written_under, state(tmp_path, folder).is_current) == ("1.0.0", False)
    assert state(tmp_path, folder).troubles == ("written under 1.0.0, published is 1.1.0",)
    commit(tmp_path, "2026-01-05", under="1.1.0")
    assert (state(tmp_path, folder).is_current, state(tmp_path, folder).troubles) == (True, ())


def test_rows_of_nobody_knows_whom_are_under_no_contract_and_maintenance_writes_none(tmp_path, folder):
    """A foreign commit and a run without a contract are behind; a compaction leaves the rows as they were written."""
    commit(tmp_path, "2026-01-05", under="1.1.0")
    commit(tmp_path, "2026-01-05", record=None, data_change=False, operation="OPTIMIZE")
    assert state(tmp_path, folder).is_current
    commit(tmp_path, "2026-01-05", record=None)
    assert state(tmp_path, folder).troubles == ("written under no contract, published is 1.1.0",)
    commit(tmp_path, "2026-01-05")
    assert state(tmp_path, folder).written_under == ""


@pytest.mark.parametrize(
    ("columns", "drift", "said"),
    [
        ({}, "none", ""),
        ({"shop": Column("STRING")}, "compatible", "columns.shop: a column is added: shop STRING"),
        ({"amount": replace(AMOUNT, type="INT")}, "breaking", "columns.amount: amount: type is integer, was long"),
    ],
)
def test_a_declaration_that_differs_is_named_with_the_kind_and_the_differences(tmp_path, folder, columns, drift, said):
    """As `dedp contract diff` judges it, for consumers."""
    found = state(tmp_path, folder, replace(SALES, columns={**SALES.columns, **columns}))
    assert (found.drift, "; ".join(found.differences)) == (drift, said)
    finding = judge_contract_states("x", [found])
    assert (finding.passed, finding.severity, finding.figures["drifted"]) == (not said, "warn", bool(said))
    assert finding.note == (f"{NAME}: declared with {drift} differences from 1.1.0: {said}" if said else "")


def test_the_warning_names_each_table_and_counts_all(tmp_path, folder):
    """Behind and drifted at once, beside a table in order."""
    commit(tmp_path, "2026-01-05", under="1.1.0")
    right = state(tmp_path, folder)
    wrong = replace(right, written_under="1.0.0", drift="breaking", differences=("a", "b"))
    finding = judge_contract_states("x", [right, wrong])
    assert finding.figures == {"contracts": 2, "behind": 1, "drifted": 1}
    behind = "written under 1.0.0, published is 1.1.0"
    assert finding.note == f"{NAME}: {behind}; declared with breaking differences from 1.1.0: a; b"
    assert judge_contract_states("x", [right, right]).passed


def test_tables_without_a_published_contract_and_contracts_without_a_table_are_left_out(tmp_path, folder):
    """The build tells of both (`dedp contract check`)."""
    folder.publish(replace(folder.published(NAME), name="gold/gone"))
    ledger_of = lambda name: Ledger(tmp_path / name, name=name)  # noqa: E731
    assert [each.contract.name for each in contract_states(tables(), folder, ledger_of, NOW)] == [NAME]
    assert contract_states(tables(), ContractFolder(tmp_path / "empty"), ledger_of, NOW) == []
