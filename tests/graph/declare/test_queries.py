"""A table that is one query: the same as the function that somebody would write."""

from __future__ import annotations

from functools import partial

import pytest

from dedp_assets.graph.declare import (
    About,
    Gates,
    Inputs,
    OnRequest,
    Pinned,
    Reads,
    Request,
    Runs,
    Step,
    lake_query,
    same,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.merger import merge_changes
from tests.helpers import a_run

DAY = Column("DATE", "day")
VISITS = TableSpec("silver/visits", {"page": Column("STRING"), "day": DAY}, partition_by=("day",))
NAMES = TableSpec(
    "silver/names", {"page": Column("STRING"), "name": Column("STRING"), "day": DAY}, partition_by=("day",)
)
RAW = TableSpec("bronze/visits", VISITS.columns, partition_by=("day",))
PAGES = TableSpec(
    "gold/pages", {"name": Column("STRING"), "views": Column("BIGINT"), "day": DAY}, partition_by=("day",)
)
LAST = TableSpec("gold/last", {"name": Column("STRING"), "views": Column("BIGINT")}, key=("name",), executed_by="day")
QUERY = """
    SELECT name, count(*) AS views, DATE {day} AS day FROM {visits} JOIN {names} USING (page) GROUP BY name
"""
COUNTED = Audit.all_read("every_visit_is_counted", "views")
ABOUT = About("team:x")


@lake_query(PAGES, reads=[VISITS, NAMES], sql=QUERY, gates=[COUNTED], about=ABOUT)
def pages() -> None:
    """Count the views of each page."""


def a_query(sql=QUERY, spec=PAGES, **stated):
    """A table by query."""

    def of_a_query() -> None:
        """Count."""

    return lake_query(spec, **{"reads": [VISITS, NAMES], "sql": sql, "about": ABOUT, **stated})(of_a_query)


def test_the_decorator_declares_all_but_the_query():
    """Name, description, inputs, days, the writing pattern and its check follow."""
    assert (pages.spec, pages.reads, pages.runs) == (
        PAGES,
        Reads({VISITS: same("day"), NAMES: same("day")}),
        Runs(DAILY),
    )
    assert pages.gates == Gates((COUNTED,), if_empty="Refuses a partition without rows.")
    assert list(pages.patterns) == [overwrite_partition]
    made = pages.definition()
    assert (made.op.name, made.op.description) == ("gold_pages", "Count the views of each page.")
    (reference,) = made.specs_by_key[made.key].metadata["dagster/code_references"].code_references
    assert reference.file_path == __file__


def test_a_changed_query_or_write_is_another_version_of_the_code():
    """So that the table is computed again by itself; the same one is the same version in each process."""
    versions = {
        each.code_version
        for each in (
            a_query(),
            a_query(QUERY.replace("count(*)", "count(page)")),
            a_query(write=partial(overwrite_partition, allow_empty=True)),
            a_query(write=partial(merge_changes, keys=["name"]), spec=LAST),
        )
    }
    assert len(versions) == 4
    assert a_query().code_version == pages.code_version == "de82e248"


def test_what_a_write_is_called_with_is_known():
    """The check says what happens to a partition without rows; a pattern without one has none."""
    assert (
        a_query(write=partial(overwrite_partition, allow_empty=True)).gates.if_empty
        == "Warns of a partition without rows."
    )
    merged = a_query(write=partial(merge_changes, keys=["name"]), spec=LAST)
    assert (merged.gates.if_empty, list(merged.patterns)) == ("", [merge_changes])


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM {visit}", "gold/pages: sql .*{visit}.*did you mean {visits}"),
        ("SELECT * FROM {visits} WHERE x = {name}", "gold/pages: sql .*{name}"),
    ],
)
def test_a_name_that_nothing_has_is_refused(sql, said):
    """When the module is loaded; a braced name is an upstream table, or the column of the partition."""
    with pytest.raises(ConfigError, match=said):
        a_query(sql)


def test_two_tables_of_one_dataset_have_the_names_of_their_layers():
    """As in YAML; the short one is refused."""
    with pytest.raises(ConfigError, match=r"\{visits\}"):
        a_query("SELECT * FROM {visits}", reads=[VISITS, RAW])
    assert a_query("SELECT * FROM {silver_visits} UNION ALL SELECT * FROM {bronze_visits}", reads=[VISITS, RAW])


@pytest.fixture
def lake(spark, tmp_path):
    """A lake with the visits and the names of a day, and a visit of the next one."""
    lake = Lake(root=str(tmp_path), engine=SparkEngine())
    for day, seen in (("2026-01-05", ["/", "/", "/about"]), ("2026-01-06", ["/"])):
        rows = spark.createDataFrame([(page, day) for page in seen], "page STRING, day STRING")
        overwrite_partition(
            rows.selectExpr("page", "date(day) AS day"), lake.table(VISITS).target(a_run(), partition={"day": day})
        )
    names = spark.createDataFrame([("/", "home"), ("/about", "about")], "page STRING, name STRING")
    rows = names.selectExpr("page", "DATE '2026-01-05' AS day", "name")
    overwrite_partition(rows, lake.table(NAMES).target(a_run(), partition={"day": "2026-01-05"}))
    return lake


def pin_of(lake, spec):
    """The first day of a table, pinned."""
    version = lake.ledger(spec.name).version()
    return Pinned(lake.table(spec), ({"day": "2026-01-05"},), version, version)


@pytest.mark.spark
def test_a_run_computes_the_query_and_writes_the_partition(lake):
    """Over the pinned partitions, with the number of rows read, which the audit compares with."""
    step = Step("2026-01-05", Inputs({}), a_run())
    result = pages(pin_of(lake, VISITS), pin_of(lake, NAMES), step.target(lake.table(PAGES), (COUNTED,)))
    assert result.changed
    assert result.figures["views"] == result.figures["read"] == 3
    found = lake.table(PAGES).read().collect()
    assert {(row["name"], row["views"], str(row["day"])) for row in found} == {
        ("home", 2, "2026-01-05"),
        ("about", 1, "2026-01-05"),
    }


@pytest.mark.spark
def test_a_query_reads_what_a_function_found(lake):
    """Rows that a function pinned, of a table that the graph does not have."""

    def find(request: Request) -> Inputs:
        return Inputs({})

    table = a_query(
        "SELECT page AS name, count(*) AS views, day FROM {found} GROUP BY ALL",
        reads=Reads(inputs=find),
        runs=Runs(DAILY, OnRequest()),
    )
    found = Inputs({}, found=pin_of(lake, VISITS))
    step = Step("2026-01-05", found, a_run())
    assert table(step.target(lake.table(PAGES)), step).changed
    assert {row["name"] for row in lake.table(PAGES).read().collect()} == {"/", "/about"}
