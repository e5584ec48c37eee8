"""Two reports of page views side by side, and their exports by the branch of each day."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import date, timedelta

import dagster as dg
import pytest

from dedp_assets.case_study.defs.gold.legacy_page_views import LEGACY_PAGE_VIEWS, legacy_page_views
from dedp_assets.case_study.defs.platform.page_views_compared import page_views_compared
from dedp_assets.case_study.defs.serving.page_view_exports import MIGRATED_ON
from dedp_assets.graph.declare import job_of
from dedp_assets.graph.run.choices import SKIPPED
from dedp_assets.patterns.connectors.landing.deliveries import MARKER
from dedp_assets.patterns.delta import Table
from tests.case_study.assets.conftest import day, visits_of
from tests.helpers import a_run

pytestmark = [pytest.mark.spark, pytest.mark.budget(60, "a platform with two landed days and their reports")]

BEFORE = (date.fromisoformat(MIGRATED_ON) - timedelta(days=1)).isoformat()
LEGACY, NEW, COMPARED = "gold/legacy_page_views", "gold/daily_page_views", "platform/page_views_compared"
FILES, TABLE, EXPORTS = "serving/page_view_files", "serving/page_views", "serving/page_view_exports"
RECEIPTS = {LEGACY: "gold/legacy_page_view_files", FILES: FILES}
"""Table of a folder of CSV files -> table that lists the files."""


@pytest.fixture(scope="module")
def days(week):
    """The last day before the migration and the first one since, reported and exported."""
    for number, key in ((0, BEFORE), (1, MIGRATED_ON)):
        assert day(number) == key
        week.land(key, visits_of(number))
    week.react()
    for table in (LEGACY, COMPARED, FILES, TABLE, EXPORTS):
        for key in (BEFORE, MIGRATED_ON):
            assert not week.compute(table, key).failure
    return week


def counts(rows):
    """Each row of a report with how often it is there."""
    return Counter((row["page"], int(row["views"]), int(row["visitors"])) for row in rows)


def lines_of(world, table, key):
    """The records of a day's folder of CSV files, which holds the listed files and no other one."""
    place = world.exported(table) / f"event_date={key}"
    sizes = {each.name: each.stat().st_size for each in place.iterdir() if each.name != MARKER}
    receipts = [(row["file"], row["size_bytes"]) for row in world.rows(RECEIPTS[table], event_date=key)]
    assert sorted(sizes.items()) == sorted(receipts)
    return [row for name in sizes for row in csv.DictReader((place / name).read_text().splitlines())]


def test_the_legacy_report_fills_a_table_and_files_from_one_run(days):
    """With the same rows in both."""
    rows = counts(days.rows(LEGACY, event_date=BEFORE))
    assert counts(lines_of(days, LEGACY, BEFORE)) == rows
    assert rows


def test_equal_reports_pass_the_comparison(days):
    """The figures of each day are kept in a table, and in the check's evaluation."""
    found = {row["figure"]: row["pages"] for row in days.rows(COMPARED, event_date=BEFORE)}
    assert found["compared"] == found["legacy rows"] == found["new rows"] > 0
    assert not any(count for figure, count in found.items() if figure.endswith(("differs", "missing in new", "keys")))
    assert days.checks(COMPARED)["legacy_and_new_agree"]


def test_a_difference_is_found_and_stops_nothing(days, spark):
    """A count of the legacy report that somebody changed: the check warns with the page and both counts."""
    table = Table(LEGACY_PAGE_VIEWS, days.address(LEGACY), spark)
    page = days.rows(LEGACY, event_date=MIGRATED_ON)[0]["page"]
    changed = table.read({"event_date": MIGRATED_ON}).selectExpr(
        "event_date", "page", f"if(page = '{page}', views + 7, views) AS views", "visitors"
    )
    newer = a_run(LEGACY, sequence=days.last(LEGACY, event_date=MIGRATED_ON).record.sequence + 1)
    table.overwrite(changed, partition={"event_date": MIGRATED_ON}, provenance=newer)
    assert not days.compute(COMPARED, MIGRATED_ON).failure
    verdict = days.evaluation(COMPARED, "legacy_and_new_agree")
    assert (verdict.passed, verdict.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert verdict.metadata["views differs"].value == 1
    assert f"page {page}: views" in verdict.metadata["samples"].value


def test_each_day_is_exported_by_its_branch(days):
    """Files before the migration and a table since, and one list of both."""
    assert {str(row["event_date"]) for row in days.rows(FILES)} == {BEFORE}
    assert {str(row["event_date"]) for row in days.rows(TABLE)} == {MIGRATED_ON}
    folder = days.exported(FILES)
    assert [each.name for each in folder.iterdir() if each.is_symlink()] == [f"event_date={BEFORE}"]
    parts = {(str(row["event_date"]), row["branch"]): row["parts"] for row in days.rows(EXPORTS)}
    assert parts == {(BEFORE, "files"): len(days.rows(FILES)), (MIGRATED_ON, "table"): len(days.rows(TABLE))}
    assert len(days.rows(EXPORTS)) == len(parts)
    reported = {key: counts(days.rows(NEW, event_date=key)) for key in (BEFORE, MIGRATED_ON)}
    assert counts(lines_of(days, FILES, BEFORE)) == reported[BEFORE]
    assert counts(days.rows(TABLE)) == reported[MIGRATED_ON]
    assert all(reported.values())


def test_a_run_of_the_other_branch_is_an_observation(days):
    """With the branch and the reason, and no materialization."""
    instance = days.platform.instance
    wanted = dg.AssetRecordsFilter(dg.AssetKey(FILES.split("/")), asset_partitions=[MIGRATED_ON])
    (found,) = instance.fetch_observations(wanted, limit=5).records
    told = {name: value.value for name, value in found.asset_observation.metadata.items()}
    assert told == {
        SKIPPED: "the partition is of branch table",
        "branch": "table",
        "condition": f"since {MIGRATED_ON}",
        "value": MIGRATED_ON,
    }
    assert instance.fetch_materializations(wanted, limit=5).records == []


def test_the_branches_have_profiles_and_runs_of_their_own(days):
    """The legacy report's tags are those of its job and of its step; the new count has none of them."""
    assert job_of(legacy_page_views).tags == {"dedp/profile": "legacy"}
    legacy, compared = (each.definition().node_def for each in (legacy_page_views, page_views_compared))
    assert legacy.tags["dedp/profile"] == "legacy"
    assert "dedp/profile" not in compared.tags
