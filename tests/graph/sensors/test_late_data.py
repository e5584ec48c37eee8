"""Late data: exactly the stale dates, oldest first, each once."""

from __future__ import annotations

import shutil

import dagster as dg
import pytest
from deltalake import DeltaTable

from dedp_assets.case_study.defs.gold.daily_page_views import daily_page_views
from dedp_assets.case_study.defs.gold.daily_visitors import daily_visitors
from dedp_assets.case_study.defs.silver.visits import visits
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.outcomes.run_tags import REQUEST
from dedp_assets.graph.sensors.reconciler import reconciler
from dedp_assets.patterns.delta import transaction_id
from tests.helpers import a_record

late_visits, late_gold = reconciler([visits], []), reconciler([daily_page_views, daily_visitors], [])
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
    assert data.skip_message == "nothing to ask for, bronze/visits at version 7"


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


def test_a_restart_finds_the_same_whatever_the_cursor_says(week, keys):
    """What is remembered only saves work, and a cursor of anybody is not read: the logs say the same."""
    week.tick(late_visits)
    week.bronze(landed("2026-01-12", "2026-01-06"))
    remembered = keys(week.tick(late_visits))
    week.cursors["reconciler"] = '{"silver/visits": {"versions": {"bronze/visits": 99}}}'
    assert keys(week.tick(reconciler([visits], []))) == remembered == ["2026-01-06"]


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
    assert data.skip_message.endswith(
        "silver/visits 2026-01-06: bronze/visits changed at version 8; is being processed"
    )
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


def refuse(zone, table, day, version, *, code_version):
    """What a run leaves in the lake that refused a date."""
    refusal = Refusal((str(version),), code_version, "run-1", "too many dead letters")
    Refusals(zone.resources()["lake"].refused(table)).note(day, refusal)


@pytest.mark.promise("a-refused-date-is-not")
def test_a_refused_date_is_not_repeated_until_its_version_changes(week, keys):
    """No run has to be recorded for that; new data lifts the ban."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    refuse(week, "silver/visits", "2026-01-06", 8, code_version=visits.code_version)
    data = week.tick(late_visits)
    assert keys(data) == []
    assert "silver/visits 2026-01-06: too many dead letters" in data.skip_message
    week.bronze(landed("2026-01-13", "2026-01-06"))
    assert keys(week.tick(late_visits)) == ["2026-01-06"]


def test_what_older_code_refused_is_asked_for_again(week, keys):
    """A fix of the code is a reason to try."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    refuse(week, "silver/visits", "2026-01-06", 8, code_version="0")
    assert keys(week.tick(late_visits)) == ["2026-01-06"]


def test_refused_dates_do_not_keep_newer_ones_from_their_turn(week, keys):
    """However many of the oldest were refused, or failed three times, the limit of a tick counts what is asked for."""
    days = [f"2025-12-{number:02}" for number in range(1, 32)]
    week.bronze(landed("2026-01-12", *days, "2026-01-06"))
    for day in days[1:]:
        refuse(week, "silver/visits", day, 8, code_version=visits.code_version)
    for _ in range(3):
        week.ran({REQUEST: f"silver/visits:{days[0]}@8"}, fails=True)
    data = week.tick(late_visits)
    assert keys(data) == ["2026-01-06"]


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
    refuse(week, "gold/daily_visitors", "2026-01-06", 8, code_version=daily_visitors.code_version)
    week.ran(request.tags, fails=True)
    (again,) = week.tick(late_gold).run_requests
    assert again.run_key == f"{request.run_key}#2"
    assert again.asset_selection == [dg.AssetKey(["gold", "daily_page_views"])]
    week.dated("gold/daily_page_views", gold("gold/daily_page_views", "2026-01-06", 8))
    data = week.tick(late_gold)
    assert keys(data) == []
    assert "gold/daily_visitors 2026-01-06: too many dead letters" in data.skip_message


@pytest.mark.parametrize("ours", [True, False], ids=["by the library", "by somebody else"])
def test_what_a_restore_took_back_is_asked_for_and_nothing_else(week, keys, ours):
    """Though no upstream table changed, and though a run for that very version succeeded long ago."""
    assert keys(week.tick(late_visits)) == []
    generation = [{"txn": {"silver/visits/generation": 1}}] if ours else []
    week.dated("silver/visits", *generation, {"changed": [{"event_date": WEEK[1]}], "operation": "RESTORE"})
    restored = 9 if ours else 8
    # Somebody's lease of the date is no write of it.
    week.dated("silver/visits", {"txn": {f"silver/visits/event_date={WEEK[1]}/lease": 1767600000}})
    for sensor in (late_visits, reconciler([visits], [])):
        (request,) = week.tick(sensor).run_requests
        assert (request.partition_key, request.tags["dedp/cause"]) == (WEEK[1], "restore")
        assert request.run_key == f"silver/visits:{WEEK[1]}@2~{restored}"
    again = silver(WEEK[1], 2)
    if ours:
        again["txn"] = {transaction_id("silver/visits", {"event_date": WEEK[1]}, 1): 2}
    week.dated("silver/visits", again)
    assert keys(week.tick(late_visits)) == []
    assert keys(week.tick(reconciler([visits], []))) == []


@pytest.mark.promise("a-restore-upstream-wakes-what")
def test_a_restore_upstream_wakes_what_it_changed(week, keys):
    """Its rows are others now: downstream computes them anew, from the version of the restore."""
    week.tick(late_visits)
    week.bronze({"changed": [{"landed_on": WEEK[2], "event_date": WEEK[2]}], "operation": "RESTORE"})
    (request,) = week.tick(late_visits).run_requests
    assert request.run_key == f"silver/visits:{WEEK[2]}@8"


def test_what_is_computed_from_a_restored_date_comes_after_it(week):
    """Gold is not computed from what the restore left of silver, while silver's date is being caught up."""
    for table in ("gold/daily_page_views", "gold/daily_visitors"):
        week.dated(table, *[gold(table, day, version) for version, day in enumerate(WEEK, start=1)])
    week.dated("silver/visits", {"changed": [{"event_date": WEEK[1]}], "operation": "RESTORE"})
    data = week.tick(reconciler([daily_page_views, daily_visitors, visits], []))
    assert [request.run_key for request in data.run_requests] == [f"silver/visits:{WEEK[1]}@2~8"]
    assert [request.run_key for request in week.tick(late_gold).run_requests] == [
        f"gold/daily_page_views:{WEEK[1]}@8"
    ]  # alone, gold follows the restore


def test_a_deleted_table_is_computed_anew(week, keys):
    """Its folder is gone, and the runs that filled it succeeded: each date is asked for under another key."""
    assert keys(week.tick(late_visits)) == []
    shutil.rmtree(week.root / "lake/silver/visits")
    week.ran({REQUEST: f"silver/visits:{WEEK[0]}@1"})
    data = week.tick(late_visits)
    assert keys(data) == WEEK
    assert [request.run_key for request in data.run_requests[:2]] == [
        f"silver/visits:{WEEK[0]}@1#2",
        f"silver/visits:{WEEK[1]}@2",
    ]


def test_what_the_log_has_forgotten_counts_for_those_who_applied_nothing(week, keys):
    """A cleaned log tells what changed since; of what was before, only dates that nobody computed are asked for."""
    week.bronze(landed("2026-01-12"), landed("2026-01-13", WEEK[2]))
    DeltaTable(str(week.root / "lake/bronze/visits")).create_checkpoint()
    for version in range(9):
        (week.root / f"lake/bronze/visits/_delta_log/{version:020d}.json").unlink()
    for sensor in (late_visits, reconciler([visits], [])):
        assert keys(week.tick(sensor)) == [WEEK[2], "2026-01-12"]


def test_an_upstream_table_that_was_begun_again_is_named_with_what_to_do(week, keys):
    """Its versions count from the beginning, so that nothing says what was applied of it: a person decides."""
    week.tick(late_visits)
    shutil.rmtree(week.root / "lake/bronze/visits")
    week.bronze(*[landed(day) for day in WEEK[4:]])
    for sensor in (late_visits, reconciler([visits], [])):
        data = week.tick(sensor)
        assert keys(data) == []
        assert f"silver/visits {WEEK[4]}: has applied version 5 of bronze/visits, whose log does" in data.skip_message
    shutil.rmtree(week.root / "lake/silver/visits")
    assert keys(week.tick(late_visits)) == WEEK[4:]


def test_runs_that_succeed_and_change_nothing_end_after_three(week, keys):
    """A defect of a table's code does not start runs for ever; the reason names the run to look at."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    for _ in range(3):
        (request,) = week.tick(late_visits).run_requests
        week.ran(request.tags)
    data = week.tick(late_visits)
    assert keys(data) == []
    assert "3 runs succeeded and left it as it was: look at run" in data.skip_message


def test_a_run_that_its_daemon_created_and_never_launched_is_asked_for_under_its_key(week):
    """The daemon launches the one that is there; anybody else's new run holds the date."""
    week.bronze(landed("2026-01-12", "2026-01-06"))
    (request,) = week.tick(late_visits).run_requests
    tags = {**DAY, **request.tags, "dagster/sensor_name": "reconciler", "dagster/run_key": request.run_key}
    recorded(week, tags, dg.DagsterRunStatus.NOT_STARTED, job="daily_visits", selection=request.asset_selection)
    (again,) = week.tick(late_visits).run_requests
    assert again.run_key == request.run_key


def test_one_date_is_asked_for_once_though_its_gold_is_behind_too(week):
    """The run that corrects silver computes gold of the same date."""
    everything = reconciler([visits, daily_page_views, daily_visitors], [])
    for table in ("gold/daily_page_views", "gold/daily_visitors"):
        week.dated(table, *[gold(table, day, version) for version, day in enumerate(WEEK, start=1)])
    week.dated("silver/visits", silver("2026-01-06", 2))
    week.bronze(landed("2026-01-12", "2026-01-06"))
    (request,) = week.tick(everything).run_requests
    assert [key.to_user_string() for key in request.asset_selection] == [
        "silver/visits", "silver/visits_dead_letter", "gold/daily_page_views", "gold/daily_visitors",
    ]  # fmt: skip


def test_no_tables_yet_is_no_error(zone):
    """Before anything was written a tick says so instead of failing."""
    assert zone.tick(late_visits).skip_message == "nothing to ask for"


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


def test_a_broken_log_holds_back_its_own_edges_and_no_others(week, keys):
    """Silver is asked for though gold's log is damaged; the tick fails once nothing else is left, until a repair."""
    everything = reconciler([visits, daily_page_views, daily_visitors], [])
    for table in ("gold/daily_page_views", "gold/daily_visitors"):
        week.dated(table, *[gold(table, day, version) for version, day in enumerate(WEEK, start=1)])
    assert keys(week.tick(everything)) == []
    week.dated("gold/daily_visitors", gold("gold/daily_visitors", WEEK[0], 9))
    log = week.root / "lake/gold/daily_visitors/_delta_log" / f"{8:020d}.json"
    whole = log.read_text()
    log.write_text("HELLO")
    week.bronze(landed("2026-01-12", "2026-01-06"))
    assert [r.run_key for r in week.tick(everything).run_requests] == ["silver/visits:2026-01-06@8"]
    week.dated("silver/visits", silver("2026-01-06", 8))
    assert [r.run_key for r in week.tick(everything).run_requests] == ["gold/daily_page_views:2026-01-06@8"]
    week.dated("gold/daily_page_views", gold("gold/daily_page_views", "2026-01-06", 8))
    with pytest.raises(Exception, match="gold/daily_visitors: version 8 of its log is damaged"):
        week.tick(everything)
    log.write_text(whole)
    (request,) = week.tick(everything).run_requests
    assert [key.to_user_string() for key in request.asset_selection] == ["gold/daily_visitors"]
