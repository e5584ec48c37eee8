"""A run that is killed in the middle: readers see all of it or nothing, and afterwards it is as if nothing happened."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import dagster as dg
import pytest

from dedp_assets.instance import PROCESS
from dedp_assets.sources.visits import BROKEN
from resources.environments import CHECKOUT, child_environment
from tests.assets.conftest import day, visits_of, world_in
from tests.faults.processes import descendants, kill, living, wait_until

TABLES = (
    "bronze/visits",
    "silver/visits",
    "silver/visits_dead_letter",
    "gold/daily_page_views",
    "gold/daily_visitors",
)
CHANCE = {"run_id", "dead_lettered_at"}

pytestmark = pytest.mark.slow


def load(world):
    """Two loaded days."""
    world.land(day(0), visits_of(0))
    world.land(day(1), visits_of(1))
    world.react()


def redeliver(world):
    """The second day again, with more visits, late ones of the first day, and a broken record."""
    world.land(day(1), visits_of(1, count=50), late=visits_of(0, count=3, seed=9), broken=BROKEN[:1])


def contents(world):
    """Rows of every table, without what differs from run to run."""
    return {table: rows_of(world, table) for table in TABLES}


def rows_of(world, table):
    rows = [{name: str(value) for name, value in row.items() if name not in CHANCE} for row in world.rows(table)]
    return sorted(rows, key=str)


@pytest.fixture(scope="module")
def undisturbed(spark, tmp_path_factory):
    """A home in which two days are loaded and one is delivered again, and what its tables hold before and after."""
    home, waiting = tmp_path_factory.mktemp("undisturbed"), tmp_path_factory.mktemp("waiting") / "home"
    with world_in(home) as world:
        load(world)
        before = contents(world)
        redeliver(world)
    shutil.copytree(home, waiting)
    with world_in(home) as world:
        world.react()
        yield waiting, before, contents(world)


def killed_at(world, point, table):
    """Let another process load what has landed, kill it at a point of a table's write, and return its id."""
    reached = world.settings.home / "reached"
    environment = child_environment({"DEDP_HOME": str(world.settings.home)}, without=("SPARK_REMOTE",))
    output, everything = (world.settings.home / "output").open("wb"), set()
    command = [sys.executable, "-m", "tests.faults.killed", point, table, str(reached)]
    with output, subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=output, stderr=output) as run:
        try:
            assert wait_until(lambda: reached.exists() or run.poll() is not None)
            assert reached.exists(), (world.settings.home / "output").read_text()
            everything = descendants(run.pid)
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            assert wait_until(lambda: not living(everything), seconds=60), "the engine outlives its run"
        finally:
            kill({run.pid, *everything, *descendants(run.pid)})
    return run.pid


@pytest.mark.parametrize(
    ("point", "table", "seen"),
    [
        ("staged", "silver/visits", "old"),
        ("before commit", "silver/visits", "old"),
        ("after commit", "silver/visits", "new"),
        ("before commit", "gold/daily_visitors", "old"),
    ],
)
def test_a_killed_run_leaves_nothing_half_done(undisturbed, spark, tmp_path, point, table, seen):
    """The table shows its old rows or all of its new ones; the next start closes the run and ends where others end."""
    waiting, before, after = undisturbed
    shutil.copytree(waiting, tmp_path, dirs_exist_ok=True)
    with world_in(tmp_path) as world:
        process = killed_at(world, point, table)
        left = rows_of(world, table)
        whole = [row for row in (before if seen == "old" else after)[table] if row["event_date"] == day(1)]
        assert [row for row in left if row["event_date"] == day(1)] == whole
        assert [row for row in left if row["event_date"] == day(0)] == [
            row for row in before[table] if row["event_date"] == day(0)
        ]
        world.restart()
        world.react()
        assert contents(world) == after
        assert world.react() == []
        (failed,) = world.platform.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        assert failed.tags[PROCESS] == str(process)
