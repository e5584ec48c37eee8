"""Checks of what is stored: judged from the log, whoever wrote the table, and without computing anything."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta

import dagster as dg
import pytest

from dedp_assets.graph.checks.stored import STORED, stored_checks
from dedp_assets.graph.declare import About, Reads, Runs, lake_table
from dedp_assets.graph.inputs.feeds import Pinned, same
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.run.batches import Step
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target
from tests.helpers import a_record, write_log

COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
SOURCE = TableSpec("bronze/source", COLUMNS, partition_by=("day",))
DAYS = dg.DailyPartitionsDefinition("2026-01-05", end_date="2026-02-05")
NOT_HERE = {"versions_are_sound", "keys_are_unique", "every_version_is_readable", "layout_is_as_declared"}
HERE = STORED.keys() - NOT_HERE
"""The checks of this table, which holds no versions, and promises no key and no layout."""
NIGHT = "2026-01-08T01:00:00+00:00"


@lake_table(
    TableSpec("gold/totals", COLUMNS, partition_by=("day",), comment="One row per day.", checks={"even": "id % 2 = 0"}),
    reads=Reads({SOURCE: same("day")}),
    runs=Runs(DAYS),
    about=About("team:x", fresh_hours=26),
    patterns=[Table.overwrite],
    code_version="1",
)
def totals(step: Step, source: Pinned, into: Target) -> WriteResult:
    """Nobody calls it: its table is judged and never computed."""
    pytest.fail("a check computed the table")


@pytest.fixture
def judged(tmp_path):
    """``judged(*days, now=...)``: the verdicts on a table whose log holds a file of one row for each day named."""

    def run(*days, now=NIGHT, engine=None, select=()):
        if days:
            commits = [{"changed": [{"day": day} for day in days], "record": a_record("gold/totals", {"day": days[0]})}]
            write_log(tmp_path / "gold/totals", {"id": "long", "day": "date"}, ["day"], commits)
        return evaluations(tmp_path, now, engine or SparkEngine(), select)

    return run


def evaluations(root, now, engine, names):
    checks = stored_checks(totals)
    keys = [dg.AssetCheckKey(dg.AssetKey(["gold", "totals"]), name) for name in names or HERE]
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [checks], instance=instance, selection=dg.AssetSelection.checks(*keys),
            resources={"lake": Lake(root=str(root), engine=engine), "clock": Clock(fixed=now)},
        )  # fmt: skip
        return {found.check_name: found for found in done.get_asset_check_evaluations()}


CHEAP = ("files_are_there", "data_is_recent", "newest_volume_is_usual")


def test_a_table_that_holds_nothing_says_so(judged):
    """A warning with what to do, and no error: nobody has materialized it yet."""
    found = judged()
    assert set(found) == HERE
    assert not any(each.passed for each in found.values())
    assert {each.description for each in found.values()} == {"the table holds nothing yet: materialize it"}
    assert {each.severity for each in found.values()} == {dg.AssetCheckSeverity.WARN}


@pytest.mark.parametrize(
    ("now", "recent"),
    [(NIGHT, True), ("2026-01-08T02:00:00+00:00", True), ("2026-01-08T02:00:01+00:00", False)],
)
def test_data_is_recent_until_the_declared_time_after_its_newest_day(judged, now, recent):
    """The 6th ended at midnight and may be the newest for 26 hours; a day that is not over does not count."""
    verdict = judged("2026-01-05", "2026-01-06", "2026-01-08", now=now, select=CHEAP)["data_is_recent"]
    assert verdict.passed == recent
    assert ("the newest complete partition is 2026-01-06" in (verdict.description or "")) != recent


def test_a_lost_file_is_named(judged):
    """The hand-written log names files that were never there: an error, with the command that helps."""
    verdict = judged("2026-01-05", select=CHEAP)["files_are_there"]
    assert not verdict.passed
    assert verdict.severity == dg.AssetCheckSeverity.ERROR
    assert "lacks 1 of its data files" in verdict.description
    assert "dedp verify" in verdict.description


@pytest.mark.parametrize(
    ("stored", "figures"),
    [({"id": "long", "day": "date"}, {}), ({"day": "date"}, {"added": "id"}), ({"DAY": "date", "Id": "long"}, {})],
)
def test_a_declaration_that_the_stored_table_can_take_over_is_compatible(tmp_path, stored, figures):
    """The same columns in any order and case, or a missing one that may be NULL, which is named; no engine starts."""
    verdict = declared_over(tmp_path, stored)
    assert verdict.passed
    assert {name: value.value for name, value in verdict.metadata.items()} == figures


def test_a_declaration_that_the_stored_table_cannot_take_over_names_each_reason(tmp_path):
    """A dropped column, a widened type without the property, each by its rule; and the steps of a rename."""
    verdict = declared_over(tmp_path, {"id": "integer", "day": "date", "device": "string"})
    assert (verdict.passed, verdict.severity) == (False, dg.AssetCheckSeverity.ERROR)
    for reason in (
        "id: integer cannot become long in the stored table without the property delta.enableTypeWidening=true",
        "device: a stored column is neither dropped nor renamed; rename or drop in steps: declare the new column",
        "(column_removed); `platform/schema_migrations` takes the steps",
    ):
        assert reason in verdict.description


def declared_over(root, stored):
    """The verdict on the declaration of a table whose log has other columns; nobody has an engine."""
    write_log(root / "gold/totals", stored, ["DAY" if "DAY" in stored else "day"], [])
    (verdict,) = evaluations(root, NIGHT, SparkEngine(), ["declared_schema_is_compatible"]).values()
    return verdict


@pytest.mark.parametrize(("files", "usual"), [(1, False), (2, True), (4, True), (8, True), (9, False)])
def test_the_newest_day_is_held_against_the_days_before_it(judged, files, usual):
    """Between half and twice of the median; the figures say what was compared."""
    before = ["2026-01-04"] * 4 + ["2026-01-05"] * 4
    verdict = judged(*before, *["2026-01-06"] * files, select=CHEAP)["newest_volume_is_usual"]
    assert verdict.passed == usual
    assert {name: value.value for name, value in verdict.metadata.items()} == {"rows": files, "usual": 4}


def test_a_first_day_has_nothing_to_be_compared_with(judged):
    """It passes and says why."""
    verdict = judged("2026-01-05", select=CHEAP)["newest_volume_is_usual"]
    assert verdict.passed
    assert verdict.description == "2026-01-05 has 1 row: too little history: 0 of 1 earlier values"


@pytest.mark.parametrize(("files", "usual"), [(1, False), (2, True), (3, False)])
def test_a_quiet_weekday_is_held_against_the_same_weekday_after_six_weeks(judged, files, usual):
    """Two rows on Sundays, eight on other days: two would be too few for any other day, and three are too many."""
    first = date(2026, 1, 5)
    days = [first + timedelta(days=n) for n in range(49)]
    before = [day.isoformat() for day in days[:-1] for _ in range(2 if day.weekday() == 6 else 8)]
    verdict = judged(*before, *[days[-1].isoformat()] * files, now="2026-02-23T01:00:00+00:00", select=CHEAP)
    assert verdict["newest_volume_is_usual"].passed == usual


@pytest.mark.spark
def test_a_foreign_writers_row_that_breaks_a_constraint_is_found(spark, tmp_path):
    """Rows that were stored before the constraint existed, or around it, are counted by the rule they break."""
    folder = tmp_path / "gold/totals"
    rows = "(1, DATE'2026-01-05'), (2, DATE'2026-01-05'), (3, DATE'2026-01-06')"
    spark.sql(f"CREATE TABLE delta.`{folder}` (id BIGINT, day DATE) USING delta PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO delta.`{folder}` VALUES {rows}")
    created = (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    metadata = next(json.loads(line) for line in created if '"metaData"' in line)
    metadata["metaData"]["configuration"] = {"delta.constraints.even": "id % 2 = 0"}
    (folder / "_delta_log" / f"{2:020d}.json").write_text(json.dumps(metadata))
    (verdict,) = evaluations(tmp_path, NIGHT, SparkEngine(), ["stored_rows_keep_constraints"]).values()
    assert verdict.description == "2 rows break even"
    assert {name: value.value for name, value in verdict.metadata.items()} == {"rows": 3, "even": 2}


@pytest.mark.spark
def test_a_column_that_looks_personal_and_is_of_no_class_is_a_warning(spark, tmp_path):
    """Of a layer that others read, by counts alone; bronze and silver are not asked."""
    folder = tmp_path / "gold/totals"
    spark.sql(f"CREATE TABLE delta.`{folder}` (id STRING, day DATE) USING delta PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO delta.`{folder}` VALUES ('ada@example.org', DATE'2026-01-05')")
    (verdict,) = evaluations(tmp_path, NIGHT, SparkEngine(), ["personal_columns_are_declared"]).values()
    assert (verdict.passed, verdict.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert verdict.description == "id looks personal (e-mail in 1 of 1 sampled values) and is of no class"
    assert "ada@" not in f"{verdict.metadata}"
    offered = {table: names_of(table) for table in ("silver/totals", "gold/totals", "export/totals")}
    assert [table for table, names in offered.items() if "personal_columns_are_declared" in names] == [
        "gold/totals",
        "export/totals",
    ]


def names_of(table):
    """The checks of stored data that a table of that name has."""
    columns = {name: replace(column, classification="public") for name, column in totals.spec.columns.items()}
    spec = replace(totals.spec, name=table, columns=columns)
    reads = replace(totals.reads, tables={replace(each, columns=columns): f for each, f in totals.reads.tables.items()})
    declared = replace(totals, spec=spec, reads=reads)
    return {each.name for each in stored_checks(declared).check_specs}
