"""A running platform and a browser, as tests of the UI drive them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from dedp_assets.case_study.sources import visits
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import child_environment, settings
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.delta import Ledger
from tests.helpers import free_pair

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIRST = Clock().now().date() - timedelta(days=3)
DAYS = [(FIRST + timedelta(days=number)).isoformat() for number in range(3)]
*GOOD, BAD = DAYS
DEDP = str(Path(sys.executable).parent / "dedp")
GOLD = "gold/daily_visitors"
LAUNCHED = "... on LaunchRunSuccess { run { runId } } ... on PythonError { message }"


class Up:
    """A running platform and a browser that looks at it."""

    def __init__(self, home: Path, url: str, status: str, page: Page, environment: dict[str, str]) -> None:
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

    def launch(self, tables: str, first: str, last: str = "", *, job: str = "__ASSET_JOB", force: bool = False) -> str:
        """Launch one run of a partition or a range, without waiting for anything; the run.

        Of tables by name, as the dialog does, or of all tables of a job, if none is named.
        """
        ends = {"asset_partition_range_start": first, "asset_partition_range_end": last}
        tags = {f"dagster/{name}": key for name, key in (ends if last else {"partition": first}).items()}
        chosen = {
            "mode": "default",
            "runConfigData": {},
            "executionMetadata": {
                "tags": [{"key": k, "value": v} for k, v in (tags | ({"dedp/force": "true"} if force else {})).items()]
            },
            "selector": {
                "repositoryLocationName": "dedp",
                "repositoryName": "__repository__",
                "jobName": job,
                "assetSelection": [{"path": table.split("/")} for table in tables.split(", ")] if tables else None,
            },
        }
        query = f"mutation($chosen: ExecutionParams!) {{ launchRun(executionParams: $chosen) {{ {LAUNCHED} }} }}"
        found = self.ask(query, chosen=chosen)["launchRun"]
        assert "run" in found, found
        return found["run"]["runId"]

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

    def execute_again(self, run: str, strategy: str = "ALL_STEPS") -> str:
        """Execute steps of a run again, as the buttons of its page do: all, or ``FROM_FAILURE`` on; the new run."""
        found = self.ask(
            "mutation($chosen: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $chosen) "
            f"{{ {LAUNCHED} }} }}",
            chosen={"parentRunId": run, "strategy": strategy},
        )
        return found["launchRunReexecution"]["run"]["runId"]

    def ended(self, *runs: str) -> dict[str, str]:
        """Run -> status, once all of the runs have ended, well or not."""
        self.wait(lambda: {*self.runs(runIds=runs).values()} <= {"SUCCESS", "FAILURE", "CANCELED"}, "the runs")
        return self.runs(runIds=runs)

    def steps(self, run: str) -> dict[str, str]:
        """Table -> status, of the steps that a run executed."""
        found = self.ask(
            "query($run: ID!) { runOrError(runId: $run) { ... on Run { stepStats { stepKey status } } } }", run=run
        )
        return {step["stepKey"].replace("_", "/", 1): step["status"] for step in found["runOrError"]["stepStats"]}

    def rows(self, table: str, day: str = "") -> list[str]:
        """The rows that an independent reader finds, of a day or all; none before there is a table."""
        path = str(self.home / "lakehouse" / table)
        found = DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []
        return sorted(str(row) for row in found if day in ("", str(row.get("event_date"))))

    def days(self, table: str) -> set[str]:
        """The days that a table holds rows of."""
        ledger = Ledger(self.home / "lakehouse" / table, name=table)
        partitions = ledger.state().statistics() if ledger.exists() else {}
        return {dict(partition)["event_date"] for partition in partitions}

    def versions(self, *tables: str) -> dict[str, int]:
        """Table -> its newest version."""
        return {table: Ledger(self.home / "lakehouse" / table, name=table).version() for table in tables}

    @contextmanager
    def closed_to_writers(self, table: str) -> Iterator[None]:
        """Put a folder in the place of a table's lock: nobody can write the table then, whatever rights they have."""
        lock = (self.home / "lakehouse" / table).with_name(f".{Path(table).name}.lock")
        lock.unlink(missing_ok=True)
        lock.mkdir()
        yield
        lock.rmdir()


def wait_until(holds: Callable[[], object], what: str, *, seconds: int = 480) -> None:
    """Wait for something that processes beside this one do; the time is only there to end a hanging test."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(1)


@contextmanager
def browser_page() -> Iterator[Page]:
    """A page of the machine's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 950})
        page.set_default_timeout(90_000)
        yield page
        browser.close()


@contextmanager
def open_platform(home: Path) -> Iterator[Up]:
    """`dedp up` on three good days and a bad one, once its sensors have loaded what can be loaded."""
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
    ports = {f"--{name}port": free_port() for name in ("", "engine-", "services-", "status-", "registry-")}
    options = [*map(str, chain.from_iterable(ports.items())), "--kafka-port", str(free_pair())]
    with (home / "up.log").open("wb") as log:
        running = subprocess.Popen([DEDP, "up", *options], env=environment, stdout=log, stderr=log)
    try:
        with browser_page() as page:
            web, status = (f"http://127.0.0.1:{ports[name]}" for name in ("--port", "--status-port"))
            made = Up(home, web, status, page, environment)
            made.wait(lambda: made.days(GOLD) == set(GOOD), "gold of the good days")
            made.wait(lambda: made.runs(statuses=["FAILURE"]), "the refusal of the bad day")
            yield made
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(60)
