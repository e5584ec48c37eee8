"""`dedp classify`: proposals beside declarations."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dedp_assets.commands import classify as command
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.helpers import a_run

pytestmark = pytest.mark.spark
COLUMNS = {"id": Column("BIGINT", classification="public"), "mail": Column("STRING")}


@pytest.fixture
def classify(monkeypatch, capsys):
    """``classify(table)``: exit code and output."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("dedp_assets.commands._tables.require_home", lambda _: None)

    def run(table):
        found = SimpleNamespace(names=lambda: [table.name], stored=lambda _: table)
        monkeypatch.setattr(command, "lake_of", lambda _: found)
        return command.classify(None, table.name), capsys.readouterr().out

    return run


def test_what_looks_personal_is_shown_in_counts_beside_its_declaration(spark, make_table, classify):
    """Exit code 1 until somebody declares it; a table without rows says so."""
    table = make_table(TableSpec("gold/people", COLUMNS))
    assert classify(table) == (0, "gold/people: nothing is stored yet: `dedp plan gold/people`\n")
    table.overwrite(spark.sql("SELECT 1L AS id, 'ada@example.org' AS mail"), provenance=a_run())
    code, out = classify(table)
    assert code == 1
    assert "mail in its name and e-mail in 1 of 1 sampled values" in out
    assert "to look at: 1" in out
    assert "ada@" not in out
    declared = {**COLUMNS, "mail": Column("STRING", classification="personal")}
    code, out = classify(make_table(TableSpec("gold/people", declared)))
    assert (code, "to look at: 0" in out) == (0, True)
