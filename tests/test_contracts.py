"""`dedp contract` in a project of somebody else."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import yaml

from dedp_assets.cli import main
from dedp_assets.graph.resources.clock import Clock

GOLD = "gold/sales_by_day"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A new project, whose package no earlier one of this process is called like."""
    place = tmp_path_factory.mktemp("projects")
    folder = place / f"brook_of_{place.name}"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DEDP_HOME", raising=False)
        assert main(["new", str(folder)]) == 0
    return folder


@pytest.fixture
def dedp(made, monkeypatch, capsys):
    """``dedp("check")``: exit code, output and errors; each test begins without contracts."""
    monkeypatch.delenv("DEDP_HOME", raising=False)
    monkeypatch.chdir(made)
    declaration = made / made.name / "defs/sales_by_day/defs.yaml"
    before, contracts = declaration.read_text(), made / made.name / "defs/contracts"
    capsys.readouterr()

    def run(*options):
        try:
            code = main(["contract", *options])
        except SystemExit as stopped:
            code = stopped.code
        return code, *capsys.readouterr()

    run.declaration, run.contracts = declaration, contracts
    yield run
    declaration.write_text(before)
    for file in contracts.rglob("*.yaml"):
        file.unlink()


def declare(dedp, **about):
    """Change the declaration, as in an editor."""
    stated = yaml.safe_load(dedp.declaration.read_text())
    stated["attributes"]["about"] = {**stated["attributes"].get("about", {}), **about}
    dedp.declaration.write_text(yaml.safe_dump(stated, sort_keys=False))


def test_a_contract_is_shown_published_and_checked(dedp):
    """The document lies among the definitions; without it, the check fails with the command that helps."""
    code, out, _ = dedp("show", GOLD)
    assert code == 0
    assert yaml.safe_load(out)["apiVersion"] == "v3.2.0"
    assert dedp("check") == (
        1,
        f"{GOLD}: no contract is published: dedp contract publish {GOLD}\n",
        "contracts: 1, faults: 1\n",
    )
    assert dedp("publish") == (0, f"{GOLD}: 1.0.0 is published\n", "")
    document = yaml.safe_load((dedp.contracts / f"{GOLD}.yaml").read_text())
    published_at = datetime.fromisoformat(document.pop("contractCreatedTs"))
    assert (published_at.utcoffset(), published_at.microsecond) == (timedelta(0), 0)
    assert document == yaml.safe_load(out)
    assert dedp("check") == (0, "", "contracts: 1, faults: 0\n")
    assert dedp("diff")[1] == f"{GOLD}: 1.0.0, as published\n"
    assert dedp("publish") == (0, "", "")


def test_a_compatible_change_is_agreed_and_published_as_a_minor_version(dedp):
    """The check asks for the publish."""
    dedp("publish")
    declare(dedp, fresh_hours=12)
    code, out, _ = dedp("check")
    assert code == 1
    assert out.endswith(f"{GOLD}: agreed as 1.1.0: dedp contract publish {GOLD}\n")
    assert dedp("publish")[:2] == (0, f"{GOLD}: 1.1.0 is published\n")
    assert dedp("check")[0] == 0


def test_a_constraint_in_yaml_gives_the_allowed_values_of_a_column(dedp):
    """One less is agreed, a further one waits for the readers."""
    stated = yaml.safe_load(dedp.declaration.read_text())

    def allow(values):
        stated["attributes"]["table"]["checks"] = {"few_orders": f"orders IN ({values})"}
        dedp.declaration.write_text(yaml.safe_dump(stated, sort_keys=False))

    allow("1, 2, 3")
    dedp("publish")
    document = yaml.safe_load((dedp.contracts / f"{GOLD}.yaml").read_text())
    orders = next(each for each in document["schema"][0]["properties"] if each["name"] == "orders")
    assert orders["enum"] == [{"value": 1}, {"value": 2}, {"value": 3}]
    allow("2, 1")
    assert dedp("publish")[:2] == (0, f"{GOLD}: 1.1.0 is published\n")
    allow("1, 2, 5")
    code, out, _ = dedp("publish")
    assert code == 1
    assert out.startswith(f"{GOLD}: BREAKING quality.allowed.orders: orders may also be 5\n")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({}, "columns ['orders'] must have a class before they come to its contract"),
        ({"classification": "secret"}, "columns ['orders'] are secret and must not come to its contract"),
    ],
)
def test_columns_that_nobody_classified_or_that_are_secret_come_to_no_contract(dedp, stated, words):
    """Nothing is written; the sentence shows the declaration."""
    declared = yaml.safe_load(dedp.declaration.read_text())
    columns = declared["attributes"]["table"]["columns"]
    del columns["orders"]["classification"]
    columns["orders"] |= stated
    dedp.declaration.write_text(yaml.safe_dump(declared, sort_keys=False))
    code, out, errors = dedp("publish")
    assert (code, out) == (2, "")
    assert f"{GOLD}: {words}" in errors
    assert not [*dedp.contracts.rglob("*.yaml")]


def test_a_breaking_change_is_refused_until_its_readers_agree(dedp):
    """Named with those it hits; then announced, acknowledged and published as a major version."""
    declare(dedp, fresh_hours=12, used_by="dashboards, which show it")
    dedp("publish")
    declare(dedp, fresh_hours=48)
    broken = f"{GOLD}: BREAKING sla.fresh_hours: hours of freshness: 48, was 12\n"
    for action in ("check", "publish"):
        code, out, _ = dedp(action)
        assert code == 1
        assert out == f"{broken}{GOLD}: affected: dashboards: dedp contract announce {GOLD}\n"
    assert dedp("acknowledge", GOLD, "--by", "dashboards")[0] == 2
    code, out, _ = dedp("announce", GOLD)
    assert code == 0
    assert "to acknowledge until" in out
    code, out, _ = dedp("publish", GOLD)
    assert code == 1
    assert f"{GOLD}: waits for dashboards, or until" in out
    code, _, errors = dedp("acknowledge", GOLD, "--by", "nobody")
    assert (code, "must come from dashboards, not nobody" in errors) == (2, True)
    assert dedp("acknowledge", GOLD, "--by", "dashboards")[1].endswith(f"dedp contract publish {GOLD}\n")
    assert dedp("publish") == (0, f"{GOLD}: 2.0.0 is published\n", "")
    assert dedp("check")[0] == 0
    assert [file.name for file in dedp.contracts.rglob("*.yaml")] == ["sales_by_day.yaml"]


def test_the_check_of_declarations_holds_published_contracts(dedp, capsys):
    """With the commands for files alone and for programs, and in a project without contracts, as before."""
    declare(dedp, fresh_hours=12, used_by="dashboards")
    assert main(["check"]) == 0
    assert "contracts" not in "".join(capsys.readouterr())
    dedp("publish")
    assert main(["check"]) == 0
    declare(dedp, fresh_hours=48)
    capsys.readouterr()
    assert main(["check"]) == 1
    assert f"{GOLD}: affected: dashboards: dedp contract announce {GOLD}\n" in capsys.readouterr().out
    assert main(["check", "--format", "json"]) == 0


def test_a_breaking_change_is_published_once_its_notice_has_passed(dedp, monkeypatch):
    """Whether its readers answered or not."""
    declare(dedp, fresh_hours=12, used_by="dashboards")
    dedp("publish")
    declare(dedp, fresh_hours=48)
    dedp("announce", GOLD)
    later = Clock().now().replace(year=Clock().now().year + 1)
    monkeypatch.setattr(Clock, "now", lambda _: later)
    assert dedp("publish")[0] == 0


def test_a_contract_of_a_table_that_is_gone_is_a_fault(dedp):
    """Its readers were not told."""
    dedp("publish")
    file = dedp.contracts / "gold/earlier.yaml"
    file.write_text((dedp.contracts / f"{GOLD}.yaml").read_text().replace(GOLD, "gold/earlier"))
    code, out, _ = dedp("check")
    assert code == 1
    assert out.startswith("gold/earlier: has a published contract and is not declared")


def test_what_is_not_there_is_named(dedp):
    """An unknown table, and a change that needs no announcement."""
    for action in ("show", "diff", "publish", "announce", "acknowledge --by x"):
        code, _, errors = dedp(*action.split(), "gold/nope")
        assert (code, "table must be one of the project, such as " in errors) == (2, True), action
    assert "must have a published contract" in dedp("announce", GOLD)[2]
    dedp("publish")
    assert "must have a breaking change" in dedp("announce", GOLD)[2]
    assert dedp()[0] == 2
