"""Contracts of declared tables, held against published documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.case_study import defs
from dedp_assets.case_study.reporting import defs as reports
from dedp_assets.graph.catalogue.contracts import CONTRACT, ContractFolder, with_contracts
from dedp_assets.graph.checks.contracts import (
    announcement,
    declared_contract,
    judge_declaration,
    unmet_needs,
    with_contract,
)
from dedp_assets.graph.declare import (
    About,
    Due,
    Expects,
    Gates,
    Pinned,
    Reads,
    Runs,
    Target,
    declared,
    lake_table,
    same,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.sql.column_lineage import ColumnLineage, Influence
from dedp_assets.project import project

NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
SALES = TableSpec(
    "gold/sales",
    {
        "day": Column("DATE", "UTC day", required=True, classification="public"),
        "shop": Column("STRING", "shop", classification="public"),
        "amount": Column("BIGINT", "cents", required=True, classification="public"),
    },
    partition_by=("day",),
    checks={"sold": "amount > 0"},
    key=("day", "shop"),
    comment="One row per day and shop.",
)
RAW = TableSpec("silver/raw", {"day": Column("DATE"), "cents": Column("BIGINT")}, partition_by=("day",))
BEST = TableSpec("gold/best", {"day": Column("DATE"), "best": Column("STRING")}, partition_by=("day",))


def tables(sales=SALES, used_by="", due="08:00", fresh=26.0):
    """A table and a reader of another team."""

    def compute(raw: Pinned, into: Target) -> WriteResult: ...

    def read(sales: Pinned, into: Target) -> WriteResult: ...

    make = lake_table(
        sales,
        reads=Reads({RAW: same("day")}),
        runs=Runs(DAILY),
        gates=Gates([Audit(name="not_too_many", of="written", fail_below=10, fail_above=500)]),
        about=About(
            owner="team:shop", used_by=used_by, fresh_hours=fresh, expects=Expects(due=Due(due) if due else None)
        ),
        patterns=[len],
        code_version="1",
    )
    reader = lake_table(
        BEST,
        reads=Reads({sales: same("day")}),
        runs=Runs(DAILY),
        about=About(owner="team:bi", derived={"best": ["shop"]}),
        patterns=[len],
        code_version="1",
    )
    return [make(compute), reader(read)]


@pytest.fixture
def folder(tmp_path):
    """A folder with the published contract of the table."""
    found = ContractFolder(tmp_path / "contracts")
    found.publish(declared_contract(tables(), "gold/sales"))
    return found


def columns(**changed):
    """The table with other columns, and another key."""
    return replace(SALES, columns={n: c for n, c in {**SALES.columns, **changed}.items() if c}, key=("day",))


def test_a_declaration_says_the_whole_contract(folder):
    """Columns, constraints, audits, volume, service level, and readers with their columns; it is read back equal."""
    contract = declared_contract(tables(used_by="dashboards, which show it"), "gold/sales")
    assert (contract.owner, contract.key, contract.partition_by) == ("team:shop", ("day", "shop"), ("day",))
    assert contract.quality.checks == {"sold": "amount > 0"}
    assert contract.quality.rules == {"not_too_many": "written: fails below 10, fails above 500"}
    assert (contract.quality.daily_rows_min, contract.quality.daily_rows_max) == (10, 500)
    assert (contract.sla.fresh_hours, contract.sla.due, contract.sla.weekdays) == (26, "08:00", ())
    assert [(each.name, each.contact, each.columns) for each in contract.consumers] == [
        ("gold/best", "team:bi", ("day", "shop")),
        ("dashboards", "dashboards", None),
    ]
    folder.publish(contract)
    assert folder.published("gold/sales") == contract
    assert folder.names() == ["gold/sales"]


def test_what_is_declared_as_published_differs_in_nothing(folder):
    """A further reader is no change of a promise."""
    found = judge_declaration(tables(used_by="dashboards"), "gold/sales", folder, NOW)
    assert found.passed
    assert found.figures["differences"] == []
    assert judge_declaration(tables(), "gold/best", folder, NOW) is None


def test_an_added_column_is_agreed_and_a_removed_one_waits_for_its_readers(folder):
    """By the columns that a reader declares, and by the filters that runs were observed to have."""
    wider = judge_declaration(
        tables(replace(SALES, columns={**SALES.columns, "note": Column("STRING")})), "gold/sales", folder, NOW
    )
    assert (wider.passed, wider.figures["version"]) == (True, "1.1.0")
    shopless = tables(columns(shop=Column("INT", "shop")))
    assert judge_declaration(shopless, "gold/sales", folder, NOW).figures["affected"] == ["gold/best"]
    unread = tables(columns(amount=Column("INT", "cents", required=True)))
    assert judge_declaration(unread, "gold/sales", folder, NOW).figures["affected"] == ["gold/best"]  # by the key
    unread = tables(replace(SALES, columns={**SALES.columns, "amount": Column("INT", "cents", required=True)}))
    found = judge_declaration(unread, "gold/sales", folder, NOW)
    assert (found.passed, found.figures["affected"], found.figures["version"]) == (True, [], "2.0.0")
    observed = {"gold/best": ColumnLineage({}, (Influence("gold/sales", "amount", "SORT"),))}
    found = judge_declaration(unread, "gold/sales", folder, NOW, observed)
    assert (found.passed, found.figures["affected"]) == (False, ["gold/best"])


def test_the_owner_may_promise_more_without_asking(folder):
    """The one who changes a declaration is the producer: a tighter promise is a minor version."""
    found = judge_declaration(tables(fresh=13.0, due="07:00"), "gold/sales", folder, NOW)
    assert (found.passed, found.figures["version"]) == (True, "1.1.0")
    assert not judge_declaration(tables(fresh=48.0), "gold/sales", folder, NOW).passed


def test_allowed_values_come_from_a_constraint_and_are_judged_by_their_readers(folder):
    """A further value waits for whoever reads the column; one less, and the first list, are the owner's decision."""

    def listed(*values):
        check = f"shop IS NULL OR shop IN ({', '.join(map(repr, values))})"
        return tables(replace(SALES, checks={**SALES.checks, "known_shop": check}))

    contract = declared_contract(listed("north", "south"), "gold/sales")
    assert (contract.quality.allowed, contract.quality.checks) == ({"shop": ("north", "south")}, SALES.checks)
    first = judge_declaration(listed("north", "south"), "gold/sales", folder, NOW)
    assert (first.passed, first.figures["version"]) == (True, "1.1.0")
    folder.publish(contract)
    assert judge_declaration(listed("south", "north"), "gold/sales", folder, NOW).figures["differences"] == []
    fewer = judge_declaration(listed("north"), "gold/sales", folder, NOW)
    assert (fewer.passed, fewer.figures["breaking"], fewer.figures["version"]) == (True, [], "1.1.0")
    more = judge_declaration(listed("north", "south", "east"), "gold/sales", folder, NOW)
    assert (more.passed, more.figures["affected"]) == (False, ["gold/best"])
    assert more.figures["breaking"] == ["quality.allowed.shop: shop may also be east"]


def test_an_announced_change_is_published_after_its_notice_and_the_announcement_goes(folder):
    """What is announced stands in a file beside the contract until then."""
    loose = tables(fresh=48.0)
    with pytest.raises(ConfigError, match="must have a published contract"):
        announcement(loose, "gold/best", folder, NOW)
    folder.announce(announcement(loose, "gold/sales", folder, NOW))
    assert folder.names() == ["gold/sales"]
    assert folder.announced("gold/sales").affected == ["team:bi"]
    assert not judge_declaration(loose, "gold/sales", folder, NOW + timedelta(days=29)).passed
    found = judge_declaration(loose, "gold/sales", folder, NOW + timedelta(days=30))
    assert (found.passed, found.figures["version"]) == (True, "2.0.0")
    folder.publish(declared_contract(loose, "gold/sales", "2.0.0"))
    assert folder.announced("gold/sales") is None
    assert judge_declaration(loose, "gold/sales", folder, NOW).passed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "must be YAML"),
        ("- 1", "must hold keys and values"),
        ("kind: Dataset", "must be a DataContract"),
    ],
)
def test_a_file_that_is_no_contract_is_named(tmp_path, text, said):
    """With its path."""
    file = tmp_path / "gold" / "sales.yaml"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"sales.yaml.*{said}"):
        ContractFolder(tmp_path).published("gold/sales")


def test_a_contract_under_another_name_is_refused(folder):
    """A copied file would promise the rows of another table."""
    folder.path.joinpath("gold/best.yaml").write_text(folder.path.joinpath("gold/sales.yaml").read_text())
    with pytest.raises(ConfigError, match="must be the contract of gold/best, not of gold/sales"):
        folder.published("gold/best")


def test_the_catalogue_shows_the_version_of_each_published_contract(folder):
    """Of the assets with one; the others stay as they are."""
    assets = [dg.AssetSpec(["gold", "sales"]), dg.AssetSpec(["gold", "best"])]
    shown = with_contracts(dg.Definitions(assets=assets), folder)
    assert [spec.metadata.get(CONTRACT) for spec in shown.resolve_all_asset_specs()] == ["1.0.0", None]
    assert with_contracts(shown, ContractFolder(Path("nowhere"))) is shown


def test_the_contracts_of_the_case_study_are_published_as_declared():
    """`dedp contract publish` after a compatible change, `dedp contract announce` before a breaking one."""
    known, published = declared(defs), project().contracts()
    names = with_contract(known, published)
    assert {name for name in names if name.startswith("gold/")} >= {"gold/daily_visitors", "gold/visits_cube"}
    findings = {name: judge_declaration(known, name, published, NOW) for name in names}
    assert {
        n: f and f.figures["differences"] for n, f in findings.items() if f is None or f.figures["differences"]
    } == {}
    assert set(published.names()) <= set(names)


def test_the_reports_find_what_they_need_in_the_producers_contract():
    """In the build of the consumer's code location, by the document of the other one; a lost column is found."""
    published = project().contracts()
    assert unmet_needs(declared(reports), published) == []


def test_a_producer_that_breaks_a_report_is_named(tmp_path):
    """Each report, with the column."""
    hours, folder = project().contracts().published("gold/page_views_by_hour"), ContractFolder(tmp_path)
    folder.publish(replace(hours, columns={name: c for name, c in hours.columns.items() if name != "views"}))
    notes = {each.note for each in unmet_needs(declared(reports), folder)}
    assert "reporting/busy_pages cannot read gold/page_views_by_hour 1.1.0: views is not there" in notes


def test_the_code_location_shows_the_published_version_of_each_gold_table():
    """By the metadata that a run reads: `dedp_assets.definitions` finds the documents of its project."""
    specs = {"/".join(spec.key.path): spec for spec in project().definitions().resolve_all_asset_specs()}
    published = project().contracts()
    shown = {name: spec.metadata[CONTRACT] for name, spec in specs.items() if CONTRACT in spec.metadata}
    assert shown == {name: published.published(name).version for name in published.names()}
