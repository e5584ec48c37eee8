"""The late-data sensors: exactly the stale dates, oldest first, each once."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.defs.gold.daily_page_views import daily_page_views
from dedp_assets.defs.gold.daily_visitors import daily_visitors
from dedp_assets.defs.silver.visits import visits
from dedp_assets.graph.run_tags import refusal
from dedp_assets.patterns.delta.log import transaction_id
from sensors.late_data import late_data
from tests.helpers import a_record

late_visits, late_gold = late_data([visits]), late_data([daily_page_views, daily_visitors])
WEEK = [f"2026-01-{day:02d}" for day in range(5, 12)]


def landed(day: str, *dates: str | None, **fields) -> dict:
    return {"changed": [{"landed_on": day, "event_date": d} for d in dates or (day,)], **fields}


def silver(day: str, version: int) -> dict:
    record = a_record("silver/visits", {"event_date": day}, sequence=version)
    txn = {transaction_id("silver/visits", {"event_date": day}, 0): version}
    return {"changed": [{"event_date": day}], "record": record, "txn": txn}


def gold(table: str, day: str, version: int) -> dict:
    return {"changed": [{"event_date": day}], "txn": {transaction_id(table, {"event_date": day}, 0): version}}


@pytest.fixture
def week(zone):
    """A week landed (bronze versions 1 to 7) and processed by silver."""
    zone.bronze(*[landed(day) for day in WEEK])
    zone.dated("silver/visits", *[silver(day, version) for version, day in enumerate(WEEK, start=1)])
    return zone


def test_nothing_late_says_so(week, keys):
    """A processed week requests nothing and names the version it looked at."""
    data = week.tick(late_visits)
    assert keys(data) == []
    assert data.skip_message == "nothing is late up to version 7 of bronze/visits"


def test_exactly_the_touched_dates_oldest_first(week, keys):
    """A delivery with rows of three dates, two of them processed before, requests those two and its own."""
    week.bronze(landed("2026-01-12", "2026-01-09", "2026-01-06", "2026-01-12"))
    data = week.tick(late_visits)
    assert keys(data) == ["2026-01-06", "2026-01-09", "2026-01-12"]
    assert [r.tags["dedp/cause"] for r in data.run_requests] == ["late-data", "late-data", "first-seen"]
    assert data.run_requests[0].run_key == "silver/visits:2026-01-06@8"
    assert data.run_requests[0].asset_selection == SILVER


def test_repeated_ticks_keep_the_run_key_until_the_date_is_done(week, keys):
    """However often a tick comes, Dagster sees one key for one version; once applied it is not asked for again."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    seen = {r.run_key for _ in range(3) for r in week.tick(late_visits).run_requests}
    assert seen == {"silver/visits:2026-01-06@8"}
    week.dated("silver/visits", silver("2026-01-06", 8))
    assert keys(week.tick(late_visits)) == []


def test_a_restart_with_or_without_cursor_finds_the_same(week, keys):
    """The cursor only saves work: without it, the logs say the same."""
    week.tick(late_visits)
    week.bronze(landed("2026-01-12", "2026-01-06"))
    with_cursor = keys(week.tick(late_visits))
    week.cursors.clear()
    assert keys(week.tick(late_visits)) == with_cursor == ["2026-01-06"]


def test_data_that_arrives_while_a_date_is_processed_is_found_next_time(week):
    """The run applied the version it read, not the one that is current when it ends."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    week.tick(late_visits)
    week.bronze(landed("2026-01-13", "2026-01-06"))
    week.dated("silver/visits", silver("2026-01-06", 8))
    data = week.tick(late_visits)
    assert [r.run_key for r in data.run_requests] == ["silver/visits:2026-01-06@9"]


def test_compaction_is_not_late_data(week, keys):
    """A commit that changes no row wakes nobody."""
    week.bronze(landed("2026-01-05", "2026-01-05", data_change=False))
    assert keys(week.tick(late_visits)) == []


def test_records_without_an_event_date_belong_to_their_landing_day(week, keys):
    """A late undated record makes the day it landed on stale."""
    week.bronze(landed("2026-01-07", None))
    assert keys(week.tick(late_visits)) == ["2026-01-07"]


DAY = {"dagster/partition": "2026-01-06"}
RANGE = {"dagster/asset_partition_range_start": "2026-01-05", "dagster/asset_partition_range_end": "2026-01-07"}
SILVER = [dg.AssetKey(["silver", "visits"]), dg.AssetKey(["silver", "visits_dead_letter"])]


def recorded(zone, tags, status, *, job="daily_visits", selection=None):
    """A run of the instance, as Dagster records it."""
    chosen = frozenset(selection) if selection else None
    definition = zone.definitions.resolve_job_def(job)
    return zone.instance.create_run_for_job(definition, tags=tags, status=status, asset_selection=chosen)


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
@pytest.mark.parametrize(
    "run",
    [
        {"tags": DAY},
        {"tags": RANGE},
        {"tags": DAY, "job": "daily_visits"},
        {"tags": RANGE, "job": "__ASSET_JOB", "selection": SILVER},
    ],
    ids=["its day", "a range over it", "a job that goes on to gold", "materialized by hand"],
)
def test_a_date_in_flight_is_left_alone_and_comes_back(week, keys, run, status):
    """While a run computes silver's date, whoever started it and however, no second one starts."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    made = recorded(week, **run, status=status)
    data = week.tick(late_visits)
    assert keys(data) == []
    assert "2026-01-06: is being processed" in data.skip_message
    week.instance.report_run_canceled(made)
    assert keys(week.tick(late_visits)) == ["2026-01-06"]


@pytest.mark.parametrize(
    "run",
    [
        {"tags": DAY, "job": "load_legacy_visits"},
        {"tags": DAY, "job": "daily_visits", "selection": [dg.AssetKey(["gold", "daily_visitors"])]},
        {"tags": {"dagster/partition": "2026-01-07"}},
        {"tags": {**RANGE, "dagster/asset_partition_range_start": "2026-01-07"}},
        {"tags": DAY, "job": "daily_visits", "selection": [dg.AssetKey(["bronze", "visits"])]},
        {"tags": {}, "job": "stream_visits"},
    ],
    ids=["another table", "downstream", "another day", "another range", "a part of its job", "no asset"],
)
def test_a_run_that_does_not_compute_the_date_holds_nothing_back(week, keys, run):
    """Of the same day or of the same job: what counts is the table and its partition."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    recorded(week, **run, status=dg.DagsterRunStatus.STARTED)
    assert keys(week.tick(late_visits)) == ["2026-01-06"]


def test_future_dates_wait_for_their_day(week, keys):
    """An event of tomorrow, from a fast clock, has no partition yet."""
    week.bronze(landed("2026-01-20", "2026-01-21"))
    data = week.tick(late_visits)
    assert keys(data) == []
    assert "2026-01-21: not before 2026-01-21" in data.skip_message
    week.now = "2026-01-21T00:10:00+00:00"
    assert keys(week.tick(late_visits)) == ["2026-01-21"]


def test_a_refused_date_is_not_repeated_until_its_version_changes(week, keys):
    """The run that refused it, whoever started it, says so by a tag; new data lifts the ban."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    week.ran(refusal("silver/visits", "2026-01-06", 8), fails=True)
    data = week.tick(late_visits)
    assert keys(data) == []
    assert "2026-01-06: refused at 8" in data.skip_message
    week.bronze(landed("2026-01-13", "2026-01-06"))
    assert keys(week.tick(late_visits)) == ["2026-01-06"]


def test_silver_rewrite_cascades_to_gold(week, keys):
    """Gold's dates follow silver's, when either of its tables is behind."""
    for table in ("gold/daily_page_views", "gold/daily_visitors"):
        week.dated(table, *[gold(table, day, version) for version, day in enumerate(WEEK, start=1)])
    assert keys(week.tick(late_gold)) == []
    week.dated("silver/visits", silver("2026-01-06", 8))
    assert keys(week.tick(late_gold)) == ["2026-01-06"]
    week.dated("gold/daily_page_views", gold("gold/daily_page_views", "2026-01-06", 8))
    assert keys(week.tick(late_gold)) == ["2026-01-06"]
    week.dated("gold/daily_visitors", gold("gold/daily_visitors", "2026-01-06", 8))
    assert keys(week.tick(late_gold)) == []


def test_a_refusal_of_one_table_does_not_keep_its_neighbour_from_being_tried_again(week, keys):
    """Of two tables of gold one was refused and one crashed: another attempt, until both have spoken."""
    week.dated("silver/visits", silver("2026-01-06", 8))
    for table in ("gold/daily_page_views", "gold/daily_visitors"):
        others = [gold(table, day, version) for version, day in enumerate(WEEK, start=1) if day != "2026-01-06"]
        week.dated(table, *others)
    (request,) = week.tick(late_gold).run_requests
    refused = refusal("gold/daily_visitors", "2026-01-06", 8)
    week.ran({**request.tags, **refused}, fails=True)
    (again,) = week.tick(late_gold).run_requests
    assert again.run_key == f"{request.run_key}#2"
    week.dated("gold/daily_page_views", gold("gold/daily_page_views", "2026-01-06", 8))
    data = week.tick(late_gold)
    assert keys(data) == []
    assert "2026-01-06: refused at 8" in data.skip_message


def test_a_restored_downstream_is_rebuilt(week, keys):
    """A restore raises the generation: what was applied before it no longer counts, for dates that change."""
    week.dated("silver/visits", {"txn": {"silver/visits/generation": 1}})
    week.cursors.clear()
    assert keys(week.tick(late_visits)) == WEEK


def test_no_tables_yet_is_no_error(zone):
    """Before anything was written a tick says so instead of failing."""
    assert "nothing is late" in zone.tick(late_visits).skip_message


@pytest.mark.parametrize("content", ['{"commitInfo": ', "", "HELLO"], ids=["torn", "emptied", "text"])
def test_a_broken_log_fails_the_tick_with_its_reason(week, content):
    """A tick that cannot read the log does not pretend that nothing is late: table, file and remedy are named."""
    log = week.root / "lake/bronze/visits/_delta_log" / f"{3:020d}.json"
    log.write_text(content)
    with pytest.raises(Exception, match="bronze/visits: version 3 of its log is damaged") as raised:
        week.tick(late_visits)
    said = str(raised.value) + str(raised.value.__cause__)
    assert "_delta_log/00000000000000000003.json" in said
    assert "put it back from a backup" in said
