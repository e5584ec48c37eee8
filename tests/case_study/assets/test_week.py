"""From landing to gold through Dagster: loading, late data, reruns, ranges, code changes. The tests tell one story."""

from __future__ import annotations

import json
from collections import Counter

import dagster as dg
import pytest

from dedp_assets.graph.catalogue.selections import checks_of
from tests.case_study.assets.conftest import SILVER_AND_GOLD, day, page_views, visits_of

GOLD = ("gold/daily_page_views", "gold/daily_visitors")


def events(lines):
    return [json.loads(line) for line in lines]


@pytest.mark.both
def test_a_landed_day_reaches_gold(week):
    """Silver holds exactly the landed visits, gold exactly their counts."""
    landed = events(visits_of(0))
    assert week.ids("silver/visits", event_date=day(0)) == sorted(e["visit_id"] for e in landed)
    views = {row["page"]: row["views"] for row in week.rows("gold/daily_page_views", event_date=day(0))}
    assert views == page_views(landed)
    (total,) = week.rows("gold/daily_visitors", event_date=day(0))
    assert (total["visits"], total["visitors"]) == (40, len({e["user_id"] for e in landed}))
    assert total["bytes"] == sum(e["bytes"] for e in landed)


@pytest.mark.both
def test_the_ui_shows_versions_rows_and_verdicts(week):
    """Each materialization carries what the ledger says, and every check of silver and gold has run."""
    shown = week.materialization("silver/visits", day(1))
    assert shown["dagster/partition_row_count"] == shown["rows read"] == 40
    assert (shown["verdict"], shown["version"]) == ("passed", week.last("silver/visits", event_date=day(1)).version)
    graph = week.platform.definitions.resolve_asset_graph()
    for table in ("bronze/visits", "silver/visits", *GOLD):
        declared = {check.name for check in checks_of(graph, [dg.AssetKey(table.split("/"))])}
        assert week.checks(table) == dict.fromkeys(declared, True), table


@pytest.mark.both
def test_gold_names_the_silver_version_it_was_computed_from(week):
    """The commit of a gold date pins the silver version that changed that date last."""
    silver = week.ledger("silver/visits").changed({"event_date": day(1)}).version
    for table in GOLD:
        assert week.last(table, event_date=day(1)).record.inputs == {"silver/visits": silver}


@pytest.mark.both
def test_nothing_new_means_nothing_happens(week):
    """Sensors ask for nothing, and a day that is run again by hand makes no commit."""
    before = week.versions()
    assert week.react() == []
    assert week.run("daily_visits", day(1)).failure == ""
    assert week.versions() == before


@pytest.mark.both
def test_late_visits_rebuild_exactly_the_dates_they_belong_to(week):
    """Late records of one past date rebuild that date in silver and gold; other dates keep their very files."""
    files = {table: week.ledger(table).state().files() for table in ("silver/visits", *GOLD)}
    late = visits_of(0, count=3, seed=9)
    week.land(day(3), visits_of(3), late=late)
    assert week.react() == [("daily_visits", day(3)), (SILVER_AND_GOLD, day(0))]
    assert {e["visit_id"] for e in events(late)} <= set(week.ids("silver/visits", event_date=day(0)))
    (total,) = week.rows("gold/daily_visitors", event_date=day(0))
    assert total["visits"] == 43
    for table, before in files.items():
        kept = {f["path"] for f in before if str(f["partition.event_date"]) != day(0)}
        assert kept <= {f["path"] for f in week.ledger(table).state().files()}
        assert week.last(table, event_date=day(0)).record.cause == "late-data"


def test_late_visits_say_how_late_they_are_and_of_which_dates(week):
    """The rows are marked, their check warns by its name, and the landing day shows numbers that can be plotted."""
    marked = Counter(
        (row["timeliness"], str(row["event_date"])) for row in week.rows("bronze/visits", landed_on=day(3))
    )
    assert marked == {("on_time", day(3)): 40, ("late", day(0)): 3}
    evaluation = week.evaluation("bronze/visits", "most_visits_are_on_time")
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    shown = week.materialization("bronze/visits", day(3))
    assert (shown["late records"], shown["event dates with late records"]) == (3, 1)
    assert 1.9 < shown["late on average [days]"] <= shown["late by at most [days]"] < 3
    assert shown["rows by event_date"] == {day(0): 3, day(3): 40}


def test_compaction_of_upstream_wakes_nobody(week, spark):
    """OPTIMIZE rewrites the files of bronze and silver, not their rows, so neither silver nor gold is computed."""
    loaded = week.versions()
    for table in ("bronze/visits", "silver/visits"):
        location, where = week.address(table), f"event_date = '{day(0)}'"
        rows = spark.read.format("delta").load(location).where(where).repartition(4)
        writer = rows.write.format("delta").mode("overwrite").option("dataChange", "false")
        writer.option("replaceWhere", where).save(location)
        spark.sql(f"OPTIMIZE delta.`{location}`")
    before = week.versions()
    assert {table: before[table] - loaded[table] for table in before if before[table] != loaded[table]} == {
        "bronze/visits": 2,
        "silver/visits": 2,
    }
    assert week.react() == []
    assert week.versions() == before


def test_an_older_record_that_came_twice_is_kept_once(week):
    """A visit repeated on a later landing day is a duplicate of its own date, and its first delivery survives."""
    again = visits_of(1)[:5]
    week.land(day(4), visits_of(4), late=again)
    gold = {table: week.ledger(table).changed({"event_date": day(1)}).version for table in GOLD}
    assert week.react() == [("daily_visits", day(4)), (SILVER_AND_GOLD, day(1))]
    record = week.last("silver/visits", event_date=day(1)).record
    assert (record.rows["read"], record.rows["written"], record.rows["duplicates"]) == (45, 40, 5)
    unusual = week.evaluation("silver/visits", "duplicates_are_as_usual")
    assert (unusual.passed, unusual.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert {str(row["landed_on"]) for row in week.rows("silver/visits", event_date=day(1))} == {day(1)}
    assert {table: week.ledger(table).changed({"event_date": day(1)}).version for table in GOLD} == gold


def test_a_range_runs_in_one_run_and_publishes_each_day(week):
    """One run over three days, as a single-run backfill starts it, commits and reports each day by itself."""
    for number in (5, 6, 7):
        week.land(day(number), visits_of(number))
    tags = {"dagster/asset_partition_range_start": day(5), "dagster/asset_partition_range_end": day(7)}
    assert week.run("daily_visits", **tags).failure == ""
    for number in (5, 6, 7):
        assert len(week.ids("silver/visits", event_date=day(number))) == 40
        assert week.materialization("gold/daily_visitors", day(number))["rows represented"] == 40
    assert week.react() == []


def test_one_bad_day_does_not_keep_the_others_of_its_range_from_being_published(week):
    """The day that is not ready fails the run with one sentence; the days beside it are in gold all the same."""
    week.land(day(9), visits_of(9))
    tags = {"dagster/asset_partition_range_start": day(8), "dagster/asset_partition_range_end": day(9)}
    ended = week.run("daily_visits", **tags)
    assert f"{day(8)}: nothing has landed: put the files into" in ended.failure
    assert len(week.rows("bronze/visits", landed_on=day(9))) == 40
    assert week.materialization("bronze/visits", day(9))["dagster/partition_row_count"] == 40
    assert week.materialization("gold/daily_visitors", day(9))["rows represented"] == 40
    assert week.rows("gold/daily_visitors", event_date=day(8)) == []
    assert week.react() == []
