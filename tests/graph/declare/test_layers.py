"""Short forms of a declaration, and the facts of a layer: each is the same as the record written out."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from dedp_assets.components.chains.declaring import declare, draft
from dedp_assets.components.yaml.documents import documents
from dedp_assets.graph.declare import (
    About,
    Figure,
    Follow,
    Gates,
    InOrder,
    Nightly,
    OnRequest,
    Pinned,
    Reads,
    Runs,
    Target,
    day_to_week,
    lake_table,
    same,
)
from dedp_assets.graph.declare.layers import module_of
from dedp_assets.graph.declare.partitions import DAILY, WEEKLY
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition

COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
SOURCE, OTHER = (TableSpec(name, COLUMNS, partition_by=("day",)) for name in ("bronze/source", "bronze/other"))
TOTALS = TableSpec("gold/totals", COLUMNS, partition_by=("day",))
WHOLE = TableSpec("gold/whole", {"id": Column("BIGINT", required=True)})
BY_RUN = TableSpec("gold/sums", {"id": Column("BIGINT")}, key=("id",), executed_by="day")
SOME = Audit(name="some", of="written", fail_below=1)
LATE = Nightly("0 2 * * *", lookback=14)
LAYER = About(owner="team:gold", fresh_hours=26, figures={"rows": "all rows"}, unchecked={"volume": "a fixed number"})


def totals(source: Pinned, into: Target) -> WriteResult:
    """Count."""
    return overwrite_partition(source.rows(), into)


def made(spec=TOTALS, function=totals, **stated):
    """A table of the stated parts."""
    return lake_table(spec, **{"about": About("team:x"), "patterns": [Table.overwrite], **stated})(function)


@pytest.fixture
def layered(monkeypatch):
    """A function in a package whose layer states facts, below a package of another layer."""
    for name, facts in {"some_project": About("team:project"), "some_project.gold": LAYER}.items():
        package = ModuleType(name)
        package.ABOUT = facts
        folder = f"/{name.replace('.', '/')}"
        package.__path__, package.__file__ = [folder], f"{folder}/__init__.py"
        monkeypatch.setitem(sys.modules, name, package)

    def of_layer(source: Pinned, into: Target) -> WriteResult:
        return overwrite_partition(source.rows(), into)

    of_layer.__module__ = "some_project.gold.totals"
    return of_layer


@pytest.mark.parametrize(
    ("spec", "stated", "reads", "runs"),
    [
        (TOTALS, {"reads": [SOURCE]}, Reads({SOURCE: same("day")}), Runs(DAILY)),
        (TOTALS, {"reads": [SOURCE, OTHER]}, Reads({SOURCE: same("day"), OTHER: same("day")}), Runs(DAILY)),
        (TOTALS, {"reads": {SOURCE: same("day")}, "runs": DAILY}, Reads({SOURCE: same("day")}), Runs(DAILY)),
        (TOTALS, {"reads": [SOURCE], "runs": LATE}, Reads({SOURCE: same("day")}), Runs(DAILY, LATE)),
        (TOTALS, {"reads": [SOURCE], "runs": Runs(job="x")}, Reads({SOURCE: same("day")}), Runs(DAILY, job="x")),
        (BY_RUN, {"reads": [SOURCE], "runs": InOrder()}, Reads({SOURCE: same("day")}), Runs(DAILY, InOrder(Follow()))),
        (
            TOTALS,
            {"reads": {SOURCE: day_to_week("day")}, "runs": WEEKLY},
            Reads({SOURCE: day_to_week("day")}),
            Runs(WEEKLY),
        ),
    ],
)
def test_mappings_and_days_follow_from_partition_columns(spec, stated, reads, runs):
    """Of upstream tables that are only named; a mapping or a calendar that is stated is taken as it is."""
    table = made(spec, **stated)
    assert (table.reads, table.runs) == (reads, runs)


def test_a_table_without_partitions_reads_all_rows_and_needs_no_calendar():
    """Of each named table, and also if it is computed on request."""
    table = made(WHOLE, reads=[SOURCE], runs=OnRequest())
    assert table.runs == Runs(when=OnRequest())
    assert [dict(each) for feed in table.reads.tables.values() for each in feed.reads("")] == [{}]


def test_a_record_of_reads_makes_no_days():
    """A declaration that says how partitions feed its own says which there are: without a calendar it has none."""
    assert made(reads=Reads({SOURCE: same("day")})).runs == Runs()


def test_audits_and_readers_stand_for_their_records(layered):
    """And a job by its name computes the table, with the first line of the function as its purpose."""
    table = made(reads=[SOURCE], gates=[SOME], runs=Runs(job="count_totals"))
    assert table.gates == Gates((SOME,))
    assert (table.job.name, table.job.description, table.job.selection) == ("count_totals", "Count.", "")
    assert table.code_version == "1"
    assert made(reads=[SOURCE], function=layered, about="dashboards").about.used_by == "dashboards"


def test_the_check_for_a_partition_without_rows_follows_from_the_writing_pattern():
    """A check that each run yields is declared, once, and with the table's own words where it has some."""
    said = [
        made(reads=[SOURCE], patterns=[overwrite_partition], gates=gates).gates.blocking
        for gates in ((), Gates(if_empty="Warns."), Gates(checks={"input_is_not_empty": "Known."}))
    ]
    assert [each["input_is_not_empty"] for each in said] == [
        "Refuses or warns of a partition without rows.",
        "Warns.",
        "Known.",
    ]


def test_a_table_states_what_differs_from_its_layer(layered):
    """The nearest package counts; mappings hold what both state, and the table goes first."""
    bare = made(reads=[SOURCE], function=layered, about=None).about
    assert bare == LAYER
    own = About("team:y", figures={"rows": Figure("rows"), "more": "more"}, unchecked={"freshness": "it is old"})
    about = made(reads=[SOURCE], function=layered, about=own).about
    assert (about.owner, about.fresh_hours) == ("team:y", 26)
    assert about.figures == {"rows": Figure("rows"), "more": "more"}
    assert about.unchecked == {"volume": "a fixed number", "freshness": "it is old"}


def test_a_table_in_yaml_has_the_facts_of_the_folders_layer(layered):
    """Of the nearest package around the file, whatever folders are between."""
    text = """
type: dedp_assets.components.TableComponent
attributes:
  table: {name: gold/totals, columns: {id: {type: BIGINT}, day: {type: DATE}}, partition_by: [day]}
  reads: {tables: {bronze/source: {same: {column: day}}}}
  runs: {partitions: {daily: {}}}
  about: {used_by: dashboards}
  steps:
    - idempotency.data_overwrite: {}
"""
    (document,) = documents(text, "/some_project/gold/sales/defs.yaml")
    table, faults = declare(draft(document), {"bronze/source": SOURCE})
    assert not faults
    assert module_of(document.file) == "some_project.gold.defs"
    assert table.about == replace(LAYER, used_by="dashboards")
    assert table.gates.if_empty == "Refuses a partition without rows."


@pytest.mark.parametrize(
    ("spec", "runs", "known"),
    [
        (TOTALS, None, {}),
        (TOTALS, LATE, {"completeness": "its schedule asks for the partitions of its lookback that are missing"}),
        (TOTALS, replace(LATE, follows_late=True), {}),
        (TOTALS, InOrder(LATE), {"completeness": "its schedule asks for the partitions in their order"}),
        (TOTALS, OnRequest(), dict.fromkeys(("completeness", "freshness"), "made when somebody asks for it")),
        (WHOLE, None, {"volume": "it has no partitions of its own to compare"}),
        (BY_RUN, None, dict.fromkeys(("volume", "null_shares"), "it has no partitions of its own to compare")),
    ],
)
def test_reasons_without_a_check_follow_from_starts_and_partitions(spec, runs, known):
    """What a table states itself goes first; the catalogue shows all of them."""
    assert made(spec, reads=[SOURCE], runs=runs).unchecked == known
    stated = made(spec, reads=[SOURCE], runs=runs, about=About("team:x", unchecked={"completeness": "it never is"}))
    assert stated.unchecked == {**known, "completeness": "it never is"}
    (asset,) = stated.definition().specs
    assert "completeness: it never is" in asset.metadata["not checked"]
