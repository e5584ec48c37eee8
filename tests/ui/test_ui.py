"""The platform in a browser: what a person sees and does in Dagster's UI while `dedp up` runs, in one story.

A real Chromium does it, the one of the machine. ``DEDP_PICTURES=folder`` keeps pictures; README's are of pictures.py.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest

from dedp_assets.case_study.sources import devices
from tests.ui.up import BAD, CHROMIUM, DAYS, DEDP, FIRST, GOLD, GOOD, open_platform, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.budget(350, "a whole platform and a browser"),
]


@pytest.fixture(scope="module")
def up(test_settings):
    """A platform whose home lies outside of pytest's folder, which other pytests close to PostgreSQL's user."""
    with tempfile.TemporaryDirectory(prefix="dedp-") as home, open_platform(Path(home)) as made:
        yield made


def test_lineage_begins_at_the_sources(up):
    """From the landing zone and the topic to gold, in one picture."""
    path = f"/assets/{GOLD}?view=lineage&lineageScope=upstream&lineageDepth=5"
    up.look(path, "sources", "bronze", "silver", "daily_visitors", picture="lineage")


def test_an_asset_tells_what_it_is_and_plots_its_figures(up):
    """Description, columns, owners, freshness, source code; figures carry names that people read."""
    text = up.look("/assets/silver/visits?view=overview", "Source code", "rows duplicates", picture="asset")
    assert "visits.py" in text
    assert "Freshness policy" in text
    assert "web-analytics" in text
    assert "Plots" in text
    assert f"{up.status}/table/silver/visits" in text
    events = up.look(f"/assets/silver/visits?view=events&partition={GOOD[0]}", "rows written")
    assert "size [bytes]" in events
    assert "written by" in events


def test_a_failed_check_is_seen_and_holds_the_gate(up):
    """Half of the bad day's records are torn: its check says so, silver and gold hold nothing of it."""
    text = up.look(
        "/assets/silver/visits?view=checks&checkDetail=dead_letters_are_few", "Latest execution", picture="check"
    )
    assert "Failed" in text
    assert up.days("silver/visits") == up.days(GOLD) == set(GOOD)
    (refused,) = [run for run, status in up.runs().items() if status == "FAILURE"]
    up.look(f"/runs/{refused}", f"dedp approve silver/visits {BAD}")


def test_the_status_page_tells_of_the_refusal_and_whom_it_affects(up):
    """What somebody reads first: the bad day, the command that helps, the tables downstream; links lead to Dagster."""
    up.page.goto(up.status)
    card = up.page.locator(".trouble", has_text=f"refused: silver/visits {BAD}").first
    card.wait_for()
    text = card.inner_text()
    assert f"dedp approve silver/visits {BAD}" in text
    assert GOLD in text
    if folder := os.environ.get("DEDP_PICTURES"):  # noqa: TID251
        up.page.screenshot(path=f"{folder}/status.png", full_page=True)
    up.page.locator(f'svg.strip a[href="/table/silver/visits#{BAD}"]').click()
    assert "refused" in up.page.locator("tr:target").inner_text()
    assert up.page.locator(f'a[href^="{up.url}/assets/silver/visits"]').first.is_visible()


def test_a_partition_is_materialized_by_hand(up):
    """The dialog launches one run, which finds the day unchanged and says so."""
    before = set(up.runs(GOLD))
    up.materialize(GOLD, GOOD[0], "Launch 1 run")
    wait_until(lambda: [s for run, s in up.runs(GOLD).items() if run not in before] == ["SUCCESS"], "the run")
    up.look(f"/assets/{GOLD}?view=events&partition={GOOD[0]}", "unchanged since version")


def test_a_run_is_executed_again(up):
    """From its page, all of its steps."""
    before = up.runs(GOLD)
    done = next(run for run, status in before.items() if status == "SUCCESS")
    up.look(f"/runs/{done}", "Re-execute all")
    up.page.get_by_role("button", name="Re-execute all").click()
    wait_until(lambda: [s for run, s in up.runs(GOLD).items() if run not in before] == ["SUCCESS"], "the second run")


def test_one_check_is_run_alone(up):
    """What is stored is judged and nothing is computed."""
    versions = up.days("silver/visits")
    up.look("/assets/silver/visits?view=checks&checkDetail=files_are_there", "Every data file that the newest version")
    up.page.get_by_role("button", name="Execute").last.click()
    up.page.get_by_text("Passed").first.wait_for()
    assert up.days("silver/visits") == versions


def test_a_range_of_days_is_backfilled(up):
    """A range typed into the dialog becomes a backfill with a run for each day, all of which succeed."""
    up.materialize(GOLD, f"[{GOOD[0]}...{GOOD[-1]}]", "Launch backfill")
    query = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { status numPartitions } } } }"

    def ended():
        return [each for each in up.ask(query)["partitionBackfillsOrError"]["results"] if "COMPLETED" in each["status"]]

    wait_until(ended, "the backfill")
    assert ended() == [{"status": "COMPLETED_SUCCESS", "numPartitions": len(GOOD)}]


def test_runs_of_one_partition_at_once_leave_the_rows_of_one(up):
    """Each table twice at the same time, whatever is unchanged: an overwrite, a merge, executions in order, a group."""
    up.launch("silver/referrals", GOOD[0])
    following = ["gold/last_referrals", "gold/referrer_totals", "gold/referred_pages, gold/referring_sites"]
    up.wait(lambda: all(up.rows(table) for table in ", ".join(following).split(", ")), "what follows the referrals")
    writes = ["silver/visits, silver/visits_dead_letter", *following]
    tables = ", ".join(writes).split(", ")
    before = {table: up.rows(table) for table in tables}
    launched = {up.launch(written, GOOD[0], force=True) for written in writes for _ in range(2)}
    assert up.ended(*launched) == dict.fromkeys(launched, "SUCCESS")
    assert {table: up.rows(table) for table in tables} == before


HOURS, REPORT, SO_FAR = "gold/page_views_by_hour", "gold/page_views_report", "gold/page_views_so_far"


def test_a_day_names_its_missing_hours_whether_it_is_computed_or_waits(up):
    """What is computed without them, in its event and its check; what waits, on the status page and in its run."""
    day = GOOD[0]
    *there, first, last = [f"{day}-{hour:02d}" for hour in range(24)]
    up.ended(up.launch(HOURS, there[0], there[-1]))
    up.wait(lambda: up.rows(SO_FAR, day), "the day so far")
    told = up.look(f"/assets/{SO_FAR}?view=events&partition={day}", "missing branches", picture="partial_day")
    assert {"22 of 24", str(22 / 24), f"{first}, {last}"} <= {line.strip() for line in told.splitlines()}
    missing = f"{first} (waiting), {last} (waiting)"
    up.look(f"/assets/{SO_FAR}?view=checks&checkDetail=every_branch_is_there", f"{day}: without 2 of 24: {missing}")
    assert all("'is_approximate': True" in row for row in up.rows(SO_FAR, day))
    waits = f"{day} waits for 2 of 24: {missing} of {HOURS}"
    up.page.goto(f"{up.status}/table/{REPORT}#{day}")
    assert waits in up.page.locator("tr:target").inner_text()
    asked = up.launch(REPORT, day)
    assert up.ended(asked) == {asked: "FAILURE"}
    up.look(f"/runs/{asked}", waits)
    up.look(f"/assets/{REPORT}?view=events&partition={day}", waits)
    assert up.rows(REPORT, day) == []


def test_the_last_hours_bring_the_day_that_waited_for_them(up):
    """Nobody asks for it. The day so far is complete, and no longer approximate."""
    day = GOOD[0]
    up.ended(up.launch(HOURS, f"{day}-22", f"{day}-23"))
    up.wait(lambda: up.rows(REPORT, day) and "True" not in str(up.rows(SO_FAR, day)), "the day of 24 hours")
    for table in (REPORT, SO_FAR):
        up.look(f"/assets/{table}?view=events&partition={day}", "24 of 24", "slowest branch")


def test_a_skipped_branch_says_which_one_was_taken_and_why(up):
    """Of one run that is asked for both branches of a day, and for the list behind them."""
    day, (files, table, exports) = GOOD[0], [f"serving/page_view{end}" for end in ("_files", "s", "_exports")]
    run = up.launch(f"{files}, {table}, {exports}", day)
    assert up.ended(run) == {run: "SUCCESS"}
    reason = "branch files condition before"
    taken = up.look(f"/assets/{files}?view=events&partition={day}", "condition")
    skipped = up.look(f"/assets/{table}?view=events&partition={day}", "the partition is of branch files")
    assert reason in " ".join(taken.split())
    assert reason in " ".join(skipped.split())
    assert f"Partition {day} observed" in skipped
    assert up.rows(table, day) == []
    assert ["'branch': 'files'" in row for row in up.rows(exports, day)] == [True]


def test_a_sequence_goes_on_from_the_failed_steps_and_repeats_no_other_one(up):
    """By Dagster's own re-execution: paid answers and counts stand. A report without its preview is a degraded run."""
    day = GOOD[0]
    places, countries, regions, report = steps = [
        "bronze/ip_locations", "gold/visits_by_country", "gold/visits_by_region", "gold/country_report"
    ]  # fmt: skip
    idle = lambda: not up.runs(statuses=["QUEUED", "STARTING", "STARTED"])  # noqa: E731
    up.wait(lambda: up.days(countries) == up.days(regions) == {*GOOD} and idle(), "the report, by itself")
    before = up.versions(*steps)
    with up.closed_to_writers(regions):
        with up.closed_to_writers(report):
            failed = up.launch("", day, job="country_report", force=True)
            assert up.ended(failed) == {failed: "FAILURE"}
        assert up.steps(failed) == {places: "SUCCESS", countries: "SUCCESS", regions: "FAILURE", report: "FAILURE"}
        up.look(f"/runs/{failed}", "stopped: country_report cannot be written")
        degraded = up.execute_again(failed, "FROM_FAILURE")
        assert up.ended(degraded) == {degraded: "FAILURE"}
    assert up.steps(degraded) == {regions: "FAILURE", report: "SUCCESS"}
    up.look(f"/runs/{degraded}", f"degraded: {regions} {day}: visits_by_region cannot be written")
    mended = up.execute_again(degraded, "FROM_FAILURE")
    assert up.ended(mended) == {mended: "SUCCESS"}
    assert up.steps(mended) == {regions: "SUCCESS"}
    up.look(f"/runs?q=id%3A{mended}", f"run {degraded[:8]}: {regions}")
    assert up.versions(*steps) == {**before, report: before[report] + 1}


def deliver_what_is_joined(up):
    """Devices; users and places come by themselves."""
    devices.deliver(up.home / "landing/devices", devices.devices(count=5))
    awaited = ("silver/users", "silver/devices_current", "bronze/ip_locations")
    up.wait(lambda: all(up.rows(table) for table in awaited), "what is joined")


JOINED = ("silver/visits_enriched", "gold/visits_cube")


def test_days_weeks_and_a_stream_are_backfilled_and_executed_again(up):
    """In one backfill over two days and a week; each of its runs, executed again, changes no row.

    The rerun law of the graph says the same of every table, without processes.
    """
    deliver_what_is_joined(up)
    monday = (FIRST - timedelta(days=FIRST.weekday())).isoformat()
    daily = dict.fromkeys(JOINED, (GOOD[0], GOOD[1]))
    wanted = {**daily, "gold/visits_cube_weekly": (monday, monday), "gold/sessions_live": None}
    backfill = up.backfill(wanted)
    up.wait(lambda: up.runs_of(backfill), "the backfill")
    before = {table: up.rows(table) for table in wanted}
    assert all(before.values())
    assert all({GOOD[0], GOOD[1]} <= up.days(table) for table in JOINED)
    again = [up.execute_again(run) for run in up.runs_of(backfill)]
    assert up.ended(*again) == dict.fromkeys(again, "SUCCESS")
    assert {table: up.rows(table) for table in wanted} == before


def test_an_approved_day_reaches_gold_and_says_who_decided(up):
    """The command that the refusal names, beside the running platform; gold follows by itself."""
    done = subprocess.run(
        [DEDP, "approve", "silver/visits", BAD, "--by", "Ada", "--because", "the collector is being mended"],
        env=up.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    up.wait(lambda: up.days(GOLD) == set(DAYS), "gold of the approved day")
    up.look(f"/assets/silver/visits?view=events&partition={BAD}", "Ada: the collector is being mended")
