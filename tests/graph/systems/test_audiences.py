"""Audiences of a project: declared policies, and the record of their changes in the home."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedp_assets.graph.systems.audiences import Audiences
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.policies import ColumnMask, Policy
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.governance.purpose_based_access_control import AccessRequest, AccessRules
from tests.helpers import NOW, a_run

ANALYSTS = Policy("analysts", ("id", "name"), {"name": ColumnMask("partial")}, "id > 1")
TIERS = AccessRules().tiers
AUDIENCES = Audiences({"silver/people": [ANALYSTS, Policy("support", ["id"], rows="true")], "silver/pets": [ANALYSTS]})


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without a record."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    return tmp_path


def test_the_run_that_applies_a_change_first_is_on_record(home):
    """Later runs, and other tables, change nothing; a column list is the same list however it is written."""
    first, second = a_run("gold/x", run_id="one"), a_run("gold/x", run_id="two")
    assert AUDIENCES.changed("silver/people")
    assert AUDIENCES.in_force("silver/people", first) == AUDIENCES.policies["silver/people"]
    assert not AUDIENCES.changed("silver/people")
    assert AUDIENCES.changed("silver/pets")
    AUDIENCES.in_force("silver/people", second)
    tight = replace(AUDIENCES, policies={"silver/people": [replace(ANALYSTS, rows="id > 2")]})
    assert tight.changed("silver/people")
    tight.in_force("silver/people", replace(second, at=NOW + timedelta(days=1), code_version="7"))
    by = [(each["by"], each["audience"], each["after"] is None) for each in AUDIENCES.log.changes()]
    assert by == [
        ("run one of gold/x, code 1", "analysts", False),
        ("run one of gold/x, code 1", "support", False),
        ("run two of gold/x, code 7", "analysts", False),
        ("run two of gold/x, code 7", "support", True),
    ]
    assert (home / "policies.jsonl").exists()


def test_a_table_or_audience_without_a_policy_is_shown_nothing(home):
    """By name, before anything is opened, granted or on record."""
    with pytest.raises(ConfigError, match=r"one with policies \(silver/people, silver/pets\), not silver/other"):
        AUDIENCES.in_force("silver/other", a_run())
    pets = Table(TableSpec("silver/pets", {"id": Column("INT", "number")}), home / "pets", None)
    ask = AccessRequest(user="ada", purpose="analytics")
    for open_pets in (lambda: AUDIENCES.open(pets, "support", ask, at=NOW), lambda: AUDIENCES.read(pets, "support")):
        with pytest.raises(ConfigError, match="support has no policy for silver/pets, so that nothing is shown"):
            open_pets()
    assert list(AUDIENCES.log.changes()) == []
    assert AUDIENCES.grants.audit() == []


def test_a_project_may_ask_an_approval_of_managers_for_internal_tables(home):
    """Guide 8.3: internal tables need a training and a manager; the decisions are in the home's audit."""
    tiers = [replace(each, approval=True, approvers=["may"]) if each.name == "internal" else each for each in TIERS]
    rules = AccessRules(tiers=tiers, qualified={"ada": ["Data Handling 101"]})
    pets = Table(TableSpec("gold/pets", {"id": Column("INT", "number", classification="quasi")}), home / "pets", None)
    ask, audiences = AccessRequest(user="ada", purpose="analytics"), replace(AUDIENCES, rules=rules)
    asked = [audiences.request(pets, ask, at=NOW, approved_by=by).denied for by in ("", "ada", "may")]
    denied = {"gold/pets": "internal tables need the approval of may"}
    assert asked == [denied, denied, {}]
    assert [(row.outcome, row.approved_by) for row in AUDIENCES.grants.audit()] == [
        ("denied", ""),
        ("denied", "ada"),
        ("granted", "may"),
    ]
