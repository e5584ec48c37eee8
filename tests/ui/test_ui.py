"""The platform in a browser: what a person sees and does in Dagster's UI while `dedp up` runs, in one story.

A real Chromium does it, the one of the machine. ``DEDP_PICTURES=docs/pictures`` keeps the pictures that README shows.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dedp_assets.local.ports import free as free_port
from dedp_assets.patterns.delta import Ledger
from dedp_assets.resources import kafka
from dedp_assets.resources.clock import Clock
from dedp_assets.resources.environments import child_environment, settings
from dedp_assets.sources import devices, partner_visits, visits
from dedp_assets.sources.ads import ads_before
from dedp_assets.sources.visits_topic import publish
from tests.helpers import free_pair

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.budget(600, "a whole platform and a browser"),
]
FIRST = Clock().now().date() - timedelta(days=4)
DAYS = [(FIRST + timedelta(days=number)).isoformat() for number in range(4)]
*GOOD, BAD = DAYS
DEDP = str(Path(sys.executable).parent / "dedp")
GOLD = "gold/daily_visitors"


class Up:
    """A running platform and a browser that looks at it."""

    def __init__(self, home: Path, url: str, status: str, page, environment) -> None:
        self.home, self.url, self.status, self.page, self.environment = home, url, status, page, environment

    def look(self, path: str, *texts: str, picture: str = "") -> str:
        """Open a page and wait until it shows the texts; returns all of its text."""
        self.page.goto(self.url + path)
        for text in texts:
            self.page.get_by_text(text).first.wait_for()
        if picture and (folder := os.environ.get("DEDP_PICTURES")):  # noqa: TID251
            self.page.wait_for_timeout(2_000)
            self.page.screenshot(path=f"{folder}/{picture}.png")
        return self.page.inner_text("body")

    def materialize(self, table: str, partitions: str, launch: str) -> None:
        """Launch what the dialog of an asset's page launches for the partitions."""
        self.look(f"/assets/{table}?view=overview", "Definition")
        self.page.get_by_role("button", name="Materialize").first.click()
        dialog = self.page.get_by_role("dialog")
        typed = dialog.locator("input[type=text]").first
        typed.fill(partitions)
        typed.press("Tab")
        dialog.get_by_role("button", name=launch).click()
        dialog.wait_for(state="hidden")

    def ask(self, query: str, **variables: object):
        """Ask the webserver what Dagster recorded, or to do something."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"content-type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)["data"]

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait for what other processes do; no page is left open, which would ask the webserver all the time."""
        self.page.goto("about:blank")
        try:
            wait_until(holds, what)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.report()}") from None

    def report(self) -> str:
        """The end of the platform's log and the failed runs with their errors, for a failing test's message."""
        log = (self.home / "up.log").read_text(errors="replace")[-6_000:]
        failures = self.ask(
            "{ runsOrError(filter: {statuses: [FAILURE, STARTED, QUEUED, STARTING, CANCELED]}) { ... on Runs "
            "{ results { runId status jobName tags { key value } "
            "eventConnection(limit: 500) { events { __typename ... on MessageEvent { message } "
            "... on ErrorEvent { error { message causes { message } } } } } } } } }"
        )
        unfinished = [
            (run["jobName"], run["status"], run["tags"], run["eventConnection"]["events"][-6:])
            for run in failures["runsOrError"]["results"]
        ]
        return f"{log}\n{json.dumps(unfinished, indent=1)[:20_000]}"

    def runs(self, *tables: str, **wanted: object) -> dict[str, str]:
        """Run -> status, newest first; of the tables that are named, or those that Dagster's filter finds."""
        found = self.ask(
            "query($wanted: RunsFilter) { runsOrError(filter: $wanted, limit: 500) "
            "{ ... on Runs { results { runId status assetSelection { path } } } } }",
            wanted=wanted,
        )
        return {
            run["runId"]: run["status"]
            for run in found["runsOrError"]["results"]
            if not tables or {"/".join(asset["path"]) for asset in run["assetSelection"] or ()} & {*tables}
        }

    def launch(self, tables: str, day: str, *, force: bool = False) -> str:
        """Launch what the dialog does for tables that one run writes, without waiting for anything; the run."""
        selected = ", ".join(f"{{path: {json.dumps(table.split('/'))}}}" for table in tables.split(", "))
        tags = {"dagster/partition": day, **({"dedp/force": "true"} if force else {})}
        pairs = ", ".join(f'{{key: "{key}", value: "{value}"}}' for key, value in tags.items())
        found = self.ask(
            'mutation { launchRun(executionParams: {mode: "default", runConfigData: {}, '
            f"executionMetadata: {{tags: [{pairs}]}}, "
            'selector: {repositoryLocationName: "dedp", repositoryName: "__repository__", jobName: "__ASSET_JOB", '
            f"assetSelection: [{selected}]}}}}) "
            "{ __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"
        )
        assert found["launchRun"]["__typename"] == "LaunchRunSuccess", found
        return found["launchRun"]["run"]["runId"]

    def backfill(self, days: Mapping[str, tuple[str, str] | None]) -> str:
        """Launch what the dialog does for several tables: the first and the last partition of each; the backfill."""
        chosen = [
            {
                "assetKey": {"path": table.split("/")},
                "partitions": {"range": {"start": ends[0], "end": ends[1]}} if ends else None,
            }
            for table, ends in days.items()
        ]
        found = self.ask(
            "mutation($chosen: [PartitionsByAssetSelector]) { launchPartitionBackfill(backfillParams: "
            "{partitionsByAssets: $chosen}) { ... on LaunchBackfillSuccess { backfillId } "
            "... on PythonError { message } } }",
            chosen=chosen,
        )
        return found["launchPartitionBackfill"]["backfillId"]

    def runs_of(self, backfill: str) -> list[str]:
        """The runs of a backfill, once it has ended well."""
        found = self.ask(
            "query($backfill: String!) { partitionBackfillOrError(backfillId: $backfill) "
            "{ ... on PartitionBackfill { status error { message } runs { runId status } } } }",
            backfill=backfill,
        )["partitionBackfillOrError"]
        failed = [run["runId"] for run in found["runs"] if run["status"] == "FAILURE"]
        assert "FAIL" not in found["status"], (found, [self.failures(run) for run in failed])
        return [run["runId"] for run in found["runs"]] if found["status"] == "COMPLETED_SUCCESS" else []

    def failures(self, run: str) -> list[str]:
        """What the failed steps of a run said."""
        found = self.ask(
            "query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events { "
            "... on ExecutionStepFailureEvent { stepKey error { message cause { message } } } } } } }",
            run=run,
        )
        return [str(event) for event in found["logsForRun"]["events"] if event]

    def execute_again(self, run: str) -> str:
        """Execute all steps of a run again; the new run."""
        found = self.ask(
            "mutation($run: String!) { launchRunReexecution(reexecutionParams: {parentRunId: $run, "
            "strategy: ALL_STEPS}) { ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }",
            run=run,
        )
        return found["launchRunReexecution"]["run"]["runId"]

    def rows(self, table: str) -> list[str]:
        """The rows that an independent reader finds; none before there is a table."""
        path = str(self.home / "lakehouse" / table)
        found = DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []
        return sorted(map(str, found))

    def days(self, table: str) -> set[str]:
        """The days that a table holds rows of."""
        ledger = Ledger(self.home / "lakehouse" / table, name=table)
        partitions = ledger.state().statistics() if ledger.exists() else {}
        return {dict(partition)["event_date"] for partition in partitions}


def wait_until(holds: Callable[[], object], what: str, *, seconds: int = 480) -> None:
    """Wait for something that processes beside this one do; the time is only there to end a hanging test."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(1)


@pytest.fixture(scope="module")
def home():
    """A home, not in pytest's folder, which every other pytest that starts closes to PostgreSQL's user."""
    with tempfile.TemporaryDirectory(prefix="dedp-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def up(home, test_settings):
    """`dedp up` on three good days and a bad one, once its sensors have loaded what can be loaded."""
    from playwright.sync_api import sync_playwright

    port, status_port = free_port(), free_port()
    for number, day in enumerate(DAYS):
        lines = visits.visits_of(FIRST + timedelta(days=number), count=40)
        broken = [line[:20] for line in lines[:20]] if day == BAD else []
        visits.deliver(home / "landing/visits", FIRST + timedelta(days=number), lines[len(broken) :], broken=broken)
    fixed = {
        "DEDP_HOME": str(home),
        "DEDP_CACHE": str(settings().cache),
        "DEDP_JIT": "quick",
        "DEDP_FIRST_DAY": GOOD[0],
    }
    environment = child_environment(fixed, without=("SPARK_REMOTE", "DAGSTER_HOME"))
    ports = [
        "--port",
        str(port),
        "--engine-port",
        str(free_port()),
        "--kafka-port",
        str(free_pair()),
        "--services-port",
        str(free_port()),
        "--status-port",
        str(status_port),
        "--registry-port",
        str(free_port()),
    ]
    with (home / "up.log").open("wb") as log:
        running = subprocess.Popen([DEDP, "up", *ports], env=environment, stdout=log, stderr=log)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1500, "height": 950})
            page.set_default_timeout(90_000)
            made = Up(home, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{status_port}", page, environment)
            made.wait(lambda: made.days(GOLD) == set(GOOD), "gold of the good days")
            made.wait(lambda: made.runs(statuses=["FAILURE"]), "the refusal of the bad day")
            yield made
            browser.close()
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(60)


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
    writes = ["silver/visits, silver/visits_dead_letter", "silver/referrals", GOLD, *following]
    tables = ", ".join(writes).split(", ")
    before = {table: up.rows(table) for table in tables}
    launched = {up.launch(written, GOOD[0], force=True) for written in writes for _ in range(2)}

    def ended() -> set[str]:
        return set(up.runs(runIds=[*launched]).values())

    up.wait(lambda: ended() <= {"SUCCESS", "FAILURE", "CANCELED"}, "the runs")
    assert up.runs(runIds=[*launched]) == dict.fromkeys(launched, "SUCCESS")
    assert {table: up.rows(table) for table in tables} == before


def deliver_what_is_joined(up):
    """Devices, ads and what partners reported, as far as the first two days need them; users come by themselves."""
    chosen, days = replace(settings(), home=up.home, kafka=None), (FIRST, FIRST + timedelta(days=1))
    devices.deliver(up.home / "landing/devices", devices.devices(count=5))
    for day in days:
        files = {"magazine": partner_visits.magazine_visits(day, count=3)}
        partner_visits.deliver(up.home / "landing/partner_visits", day, files)
    topic = kafka.Kafka(bootstrap=kafka.address(chosen), topic=chosen.ads_topic)
    publish(topic, [ad for day in days for ad in ads_before(visits.visits_of(day, count=40))], key="ad_page")
    awaited = ("silver/users", "silver/devices_current", "silver/partner_visits", "bronze/ads", "bronze/ip_locations")
    up.wait(lambda: all(up.rows(table) for table in awaited), "what is joined")
    for day in GOOD[:2]:
        up.launch("silver/ads, silver/ads_dead_letter", day)
    up.wait(lambda: up.days("silver/ads") >= {*GOOD[:2]}, "the ads of two days")


JOINED = ("bronze/ip_locations", "silver/visits_enriched", "silver/ad_impressions", "silver/partner_visits")
AGGREGATED = ("silver/visits_by_visitor", "gold/pages_by_visit", "gold/visits_cube")
OVER_MIDNIGHT = ("silver/sessions_pending", "gold/sessions")
BESIDE = ("platform/visits_context", "platform/partner_delivery", "platform/alerts")
SOMETIMES_EMPTY = {"platform/alerts", "silver/sessions_pending"}
"""No page may have failed, and nobody may have been there at midnight."""


def test_joins_aggregates_sessions_and_deliveries_are_backfilled_and_executed_again(up):
    """All of them in one backfill over two days and a week; each of its runs, executed again, changes no row."""
    deliver_what_is_joined(up)
    monday = (FIRST - timedelta(days=FIRST.weekday())).isoformat()
    daily = dict.fromkeys((*JOINED, *AGGREGATED, *OVER_MIDNIGHT, *BESIDE), (GOOD[0], GOOD[1]))
    wanted = {**daily, "gold/visits_cube_weekly": (monday, monday), "gold/sessions_live": None}
    backfill = up.backfill(wanted)
    up.wait(lambda: up.runs_of(backfill), "the backfill")
    before = {table: up.rows(table) for table in wanted}
    assert {table for table, rows in before.items() if not rows} <= SOMETIMES_EMPTY
    assert all({GOOD[0], GOOD[1]} <= up.days(table) for table in (*JOINED, *AGGREGATED))
    again = [up.execute_again(run) for run in up.runs_of(backfill)]

    def ended() -> set[str]:
        return set(up.runs(runIds=again).values())

    up.wait(lambda: ended() <= {"SUCCESS", "FAILURE", "CANCELED"}, "the runs")
    assert up.runs(runIds=again) == dict.fromkeys(again, "SUCCESS")
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
