"""Dagster's own daemon, queue and pools: a backfill of tables in order, and tables with several runs at once."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dagster as dg
import psutil
import pytest
import yaml

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.laptop.orchestration.instance import prepare_home
from tests.case_study.assets.intervals import intervals, most_at_once
from tests.case_study.assets.test_daemon import skipped
from tests.faults.processes import descendants, kill, wait_until
from tests.hand_written import commit_day

pytestmark = [pytest.mark.slow, pytest.mark.budget(120, "a daemon, a backfill and the runs that they start")]

DAYS = [f"2026-01-{number:02}" for number in range(5, 10)]
AMOUNTS, TOTALS, HEAVY, CRITICAL = "silver/amounts", "gold/totals", "gold/heavy", "gold/critical"
RUNS_AT_ONCE = 8


class World:
    """A home whose queue lets many runs start, a code location of the tests, and the daemon over both."""

    def __init__(self, home, patch):
        patch.setenv("DEDP_HOME", str(home))
        patch.setenv("DAGSTER_HOME", str(home / "dagster"))
        prepare_home(settings())
        config = home / "dagster" / "dagster.yaml"
        stated = yaml.safe_load(config.read_text())
        stated["concurrency"]["runs"]["max_concurrent_runs"] = RUNS_AT_ONCE
        config.write_text(yaml.safe_dump(stated))
        self.workspace = home / "workspace.yaml"
        code = {
            "relative_path": str(Path(__file__).with_name("runners_project.py")),
            "working_directory": str(CHECKOUT),
        }
        self.workspace.write_text(yaml.safe_dump({"load_from": [{"python_file": code}]}))
        self.home, self.lake = home, lake_of(settings())
        self.instance = dg.DagsterInstance.from_config(str(home / "dagster"))
        variables = {"DEDP_HOME": home, "DAGSTER_HOME": home / "dagster", "DEDP_TICK_SECONDS": 1}
        variables |= {"DEDP_CACHE": settings().cache, "PYTHONPATH": CHECKOUT}
        self.variables = child_environment({n: str(v) for n, v in variables.items()}, without=("SPARK_REMOTE",))

    def start(self, command, *arguments):
        """Start a command of Dagster over the home."""
        program = str(Path(sys.executable).parent / command)
        with (self.home / f"{command}.log").open("ab") as log:
            return subprocess.Popen(
                [program, *arguments, "-w", str(self.workspace)],
                cwd=CHECKOUT,
                env=self.variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def note(self, name, *, there=True):
        """Put or remove a file that tells the runs to fail or to wait."""
        (self.home / name).touch() if there else (self.home / name).unlink()

    def runs(self, table, day=""):
        """Runs of a table, or of a day of it, oldest first."""
        found = self.instance.get_run_records(dg.RunsFilter(), ascending=True)
        mine = [
            each
            for each in found
            if dg.AssetKey(table.split("/")) in (each.dagster_run.asset_selection or ())
            or (each.dagster_run.job_name == "count_days" and table == TOTALS)
        ]
        return [each.dagster_run for each in mine if day in ("", each.dagster_run.tags["dagster/partition"])]

    def days(self, table):
        """Days of a table that are committed, in the order of their commits, with what each noted."""
        ledger = self.lake.ledger(table)
        records = [commit.record for commit in ledger.commits()] if ledger.exists() else []
        return {each.partition["day"]: each.notes.get("days") for each in records if each}

    def intervals(self, table):
        """When each run's step began and ended, in order."""
        return intervals(self.instance, self.runs(table), table)

    def observed(self, table, day):
        """Why a day was not computed, by its newest observation; empty if it was never observed."""
        wanted = dg.AssetRecordsFilter(dg.AssetKey(table.split("/")), asset_partitions=[day])
        records = self.instance.fetch_observations(wanted, limit=1).records
        return records[0].asset_observation.metadata[NOT_COMPUTED].value if records else ""

    def ended(self, table, day):
        runs = self.runs(table, day)
        return bool(runs) and all(run.is_finished for run in runs)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        world = World(home, patch)
        for day in DAYS:
            commit_day(world.lake, AMOUNTS, day)
        world.note(f"fail-{DAYS[2]}")
        world.note(f"hold-gold-heavy-{DAYS[0]}")
        backfill = world.start("dagster", "job", "backfill", "-j", "count_days", "--all", "--noprompt")
        assert backfill.wait(timeout=180) == 0
        queued = [run.status.value for run in world.runs(TOTALS)]
        assert queued == ["QUEUED"] * len(DAYS)
        daemon = world.start("dagster-daemon", "run")
        process = psutil.Process(daemon.pid)
        try:
            yield world
        finally:
            kill({process, *descendants(process)})
            daemon.wait(timeout=60)
            world.instance.dispose()


def test_a_slow_run_blocks_no_other_run_of_its_table(world):
    """With two slots, the other four days are done while the first is held; no more than two run at once."""
    assert wait_until(lambda: {*DAYS[1:]} <= world.days(HEAVY).keys())
    (slow,) = world.runs(HEAVY, DAYS[0])
    assert slow.status is dg.DagsterRunStatus.STARTED
    others = [run for run in world.runs(HEAVY) if run.run_id != slow.run_id]
    assert wait_until(lambda: all(world.instance.get_run_by_id(run.run_id).is_finished for run in others))
    assert most_at_once(world.intervals(HEAVY)) == 2
    assert world.instance.event_log_storage.get_concurrency_info("gold_heavy").slot_count == 2


def test_a_critical_table_has_a_slot_though_another_fills_its_own(world):
    """It is done with all days while the heavy one is still held, and its runs come first in the queue."""
    assert wait_until(lambda: {*DAYS} <= world.days(CRITICAL).keys())
    assert {run.tags["dagster/priority"] for run in world.runs(CRITICAL)} == {"5"}
    assert not {run.run_id for run in world.runs(CRITICAL)} & {run.run_id for run in world.runs(HEAVY)}
    assert not world.ended(HEAVY, DAYS[0])


def test_a_failed_day_of_a_backfill_holds_the_later_days_though_slots_are_free(world):
    """The backfill of all days was queued at once: two days are there, and the later ones say whom they wait for."""
    assert wait_until(lambda: all(world.ended(TOTALS, day) for day in DAYS))
    looked = skipped(world.instance, "reconciler")
    assert wait_until(lambda: skipped(world.instance, "reconciler") > looked + 1)
    assert world.days(TOTALS) == {DAYS[0]: 1, DAYS[1]: 2}
    assert f"the amount of {DAYS[2]} is not to be believed" in world.observed(TOTALS, DAYS[2])
    for day in DAYS[3:]:
        # Which of the days before it was missing, when its run had its turn in the queue.
        named = re.fullmatch(rf"{TOTALS} {day} comes after (\S+), which .*", world.observed(TOTALS, day))
        assert named
        assert named[1] in DAYS[: DAYS.index(day)]
    ticks = [s for s in world.instance.all_instigator_state() if s.instigator_name == "reconciler"]
    (tick,) = world.instance.get_ticks(ticks[0].instigator_origin_id, ticks[0].selector_id, limit=1)
    assert f"{TOTALS} {DAYS[3]}: {AMOUNTS} changed" in tick.skip_reason
    assert f"comes after {TOTALS} {DAYS[2]}" in tick.skip_reason


def test_the_later_days_go_on_by_themselves_once_the_failed_one_is_repaired(world):
    """The amount is corrected upstream; nobody launches a run. Each day was computed once, after the day before."""
    world.note(f"fail-{DAYS[2]}", there=False)
    commit_day(world.lake, AMOUNTS, DAYS[2])
    assert wait_until(lambda: {*DAYS} <= world.days(TOTALS).keys())
    assert list(world.days(TOTALS).items()) == [(day, number) for number, day in enumerate(DAYS, start=1)]
    assert wait_until(lambda: all(world.ended(TOTALS, day) for day in DAYS))
    steps = world.intervals(TOTALS)
    assert all(end <= start for (_, end), (start, _) in pairwise(steps))
    by_reconciler = {run.tags["dagster/partition"] for run in world.runs(TOTALS) if "dagster/sensor_name" in run.tags}
    assert by_reconciler >= {*DAYS[2:]}


def test_the_slow_run_ends_as_the_last_and_its_day_is_there(world):
    """Nothing was lost on the way."""
    world.note(f"hold-gold-heavy-{DAYS[0]}", there=False)
    assert wait_until(lambda: world.ended(HEAVY, DAYS[0]))
    assert list(world.days(HEAVY))[-1] == DAYS[0]
    assert {*world.days(HEAVY)} == {*DAYS}
