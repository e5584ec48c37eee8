"""A run that is killed in the middle: readers see all of it or nothing, and afterwards it is as if nothing happened."""

from __future__ import annotations

import shutil
import subprocess
import sys

import dagster as dg
import psutil
import pytest

from dedp_assets.case_study.sources.visits import BROKEN
from dedp_assets.graph.outcomes.run_tags import process_of
from dedp_assets.graph.resources.environments import CHECKOUT, child_environment
from tests.case_study.assets.conftest import day, visits_of, world_in
from tests.faults.processes import descendants, kill, living, wait_until

TABLES = (
    "bronze/visits",
    "silver/visits",
    "silver/visits_dead_letter",
    "gold/daily_page_views",
    "gold/daily_visitors",
)
CHANCE = {"run_id", "dead_lettered_at"}

pytestmark = [pytest.mark.slow, pytest.mark.budget(80, "processes are killed at points of their work")]


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
    reached.unlink(missing_ok=True)
    environment = child_environment({"DEDP_HOME": str(world.settings.home)}, without=("SPARK_REMOTE",))
    output, everything = (world.settings.home / "output").open("wb"), set()
    command = [sys.executable, "-m", "tests.faults.killed", point, table, str(reached)]
    with output, subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=output, stderr=output) as run:
        process = psutil.Process(run.pid)
        try:
            assert wait_until(lambda: reached.exists() or run.poll() is not None)
            assert reached.exists(), (world.settings.home / "output").read_text()
            everything = descendants(process)
            process.kill()
            run.wait()
            assert wait_until(lambda: not living(everything), seconds=60), "the engine outlives its run"
        finally:
            kill({process, *everything, *descendants(process)})
    return run.pid


KILLS = (
    ("staged", "silver/visits", "old"),
    ("after commit", "silver/visits", "new"),
    ("before commit", "gold/daily_visitors", "old"),
)
"""Point of a table's write at which a run is killed, and whose rows the table then shows, each run after the other."""


def of_day(rows, number):
    return [row for row in rows if row["event_date"] == day(number)]


def test_a_killed_run_leaves_nothing_half_done(undisturbed, spark, tmp_path):
    """Each day shows its old rows or all of its new ones; each start closes the run before, the last one ends well.

    Runs are killed one after the other, at every point of a write and in silver as in gold: each of them goes on from
    what the killed one left.
    """
    waiting, before, after = undisturbed
    shutil.copytree(waiting, tmp_path, dirs_exist_ok=True)
    killed = set()
    with world_in(tmp_path) as world:
        for point, table, seen in KILLS:
            killed.add(str(killed_at(world, point, table)))
            left = rows_of(world, table)
            changed = [number for number in (0, 1) if of_day(left, number) != of_day(before[table], number)]
            assert len(changed) == (seen == "new"), (point, table, changed)
            assert all(of_day(left, number) == of_day(after[table], number) for number in changed), (point, table)
            assert len(left) == len(of_day(left, 0)) + len(of_day(left, 1))
        world.restart()
        world.react()
        assert contents(world) == after
        assert world.react() == []
        failed = world.platform.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        assert {str(process_of(run)) for run in failed} == killed
        assert len(failed) == len(killed) == len(KILLS)
