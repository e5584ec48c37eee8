"""Dagster's own daemon, queue and pools: what a late file starts there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import psutil
import pytest

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings
from tests.case_study.assets.conftest import day, visits_of, world_in
from tests.faults.processes import descendants, kill, wait_until

pytestmark = pytest.mark.budget(60, "a daemon and the runs that it starts")

TABLES = ("bronze/visits", "silver/visits", "silver/visits_dead_letter", "gold/daily_page_views", "gold/daily_visitors")


def drop_late(folder, lines):
    """A file that came after the marker and has not grown since."""
    (folder / "late.jsonl").write_text("".join(f"{line}\n" for line in lines))
    ages = {"late.jsonl": 30, "_SUCCESS": 60}
    for path in folder.iterdir():
        then = time.time() - ages.get(path.name, 90)  # noqa: TID251 - what file systems go by
        os.utime(path, (then, then))


@contextmanager
def daemon(home, workspace=CHECKOUT / "workspace.yaml", **more):
    """Dagster's daemon over a home, with sensors that look every second; ended with all its processes.

    ``more`` are variables of its environment.
    """
    variables = {"DEDP_HOME": home, "DAGSTER_HOME": f"{home}/dagster", "DEDP_TICK_SECONDS": "1", "DEDP_JIT": "quick"}
    variables |= {"DEDP_CACHE": str(settings().cache), "DEDP_SPARK_MASTER": "local[1]"}
    variables |= more
    command = [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-w", str(workspace)]
    with Path(home, "daemon.log").open("ab") as log:
        started = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=child_environment({name: str(value) for name, value in variables.items()}, without=("SPARK_REMOTE",)),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    process = psutil.Process(started.pid)
    try:
        yield started
    finally:
        kill({process, *descendants(process)})
        started.wait(timeout=60)


def skipped(instance, sensor):
    """How often a sensor looked and asked for nothing."""
    (state,) = [s for s in instance.all_instigator_state() if s.instigator_name == sensor] or [None]
    if state is None:
        return 0
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=200)
    return sum(tick.status.value == "SKIPPED" for tick in ticks)


@pytest.mark.promise("a-late-file-is-one")
@pytest.mark.slow
def test_a_late_file_is_one_run_by_the_daemon(spark, tmp_path):
    """Through sensor, queue and pools to gold, once, though the sensors look again all the while."""
    with world_in(tmp_path) as world:
        world.land(day(0), visits_of(0))
        world.react()
        before = world.versions()
    drop_late(tmp_path / "landing/visits" / day(0), visits_of(0, count=3, seed=9))
    with dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance, daemon(tmp_path) as process:
        known = {run.run_id for run in instance.get_runs()}

        def new():
            return [run for run in instance.get_runs() if run.run_id not in known]

        assert wait_until(lambda: process.poll() is not None or any(run.is_finished for run in new()))
        looks = {name: skipped(instance, name) for name in ("deliveries", "reconciler")}
        assert wait_until(lambda: all(skipped(instance, name) > seen for name, seen in looks.items()))
        (run,) = new()
        assert (run.status, run.job_name) == (dg.DagsterRunStatus.SUCCESS, "daily_visits")
        assert (run.tags["dagster/partition"], run.tags["dedp/cause"]) == (day(0), "late-file")
        events = Counter(
            entry.dagster_event.event_type_value for entry in instance.all_logs(run.run_id) if entry.dagster_event
        )
        assert (events["PIPELINE_ENQUEUED"], events["PIPELINE_STARTING"], events["STEP_SUCCESS"]) == (1, 1, 4)
        pools = {table.replace("/", "_") for table in TABLES} - {"silver_visits_dead_letter"}
        assert pools <= set(instance.event_log_storage.get_concurrency_keys())
    with world_in(tmp_path) as world:
        assert len(world.ids("silver/visits", event_date=day(0))) == 43
        assert world.rows("gold/daily_visitors", event_date=day(0))[0]["visits"] == 43
        changed = {name for name, version in world.versions().items() if version > before[name]}
        assert changed >= {"bronze/visits", "silver/visits", "gold/daily_page_views", "gold/daily_visitors"}
        assert world.react() == []
