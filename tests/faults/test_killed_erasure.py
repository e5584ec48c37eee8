"""An erasure whose process is killed: the next one ends the case, and nobody else loses a row."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from dedp_assets.cli import main
from dedp_assets.graph.erasure.cases import Cases
from dedp_assets.graph.resources.environments import child_environment
from tests.case_study.assets.conftest import day, visits_of, world_in
from tests.case_study.assets.test_erasure import GONE, LOGIN, MAIL, capture, hits, rows_of_others, visit
from tests.faults.processes import descendants, kill, living, wait_until
from tests.platforms import DEDP

pytestmark = [pytest.mark.slow, pytest.mark.budget(60, "three processes with an engine of their own are killed")]

KILLS = (1, 3, 6)
"""Numbers of places that are erased when a process is killed, each in a run after the other."""
OTHERS = ("silver/visits", "silver/users_current", "bronze/visits")


def erased(world):
    """Places of the case that are erased, with what was found there."""
    cases = Cases(world.settings.home / "erasures", world.settings.home / "keys")
    return {place.name: place.found for place in cases.case("GDPR-1").places if place.state == "erased"}


def killed_after(world, places):
    """Let another process erase the person, and kill it and its engine once so many places are erased."""
    environment = child_environment({"DEDP_HOME": str(world.settings.home)}, without=("SPARK_REMOTE",))
    words, everything = [DEDP, "erase", "--because", "GDPR-1", "--by", "legal", "--most", "1"], set()
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        process = psutil.Process(run.pid)
        try:
            assert wait_until(lambda: len(erased(world)) >= places or run.poll() is not None, every=0.02)
            assert run.poll() is None, "the process ended before it was killed"
            everything = descendants(process)
            process.kill()
            run.wait()
            assert wait_until(lambda: not living(everything), seconds=60), "the engine outlives its process"
        finally:
            kill({process, *everything, *descendants(process)})


def test_a_killed_erasure_is_ended_by_the_next(spark, tmp_path, capsys):
    """The report counts each row once, no byte of the person is left, and the rows of others are as they were."""
    with world_in(tmp_path) as world:
        for number in range(2):
            broken = [visit(90 + number, number, event_time="not a time")]
            world.land(day(number), [*visits_of(number), *[visit(n, number) for n in range(3)], *broken])
        capture(world, 1, (GONE, MAIL, LOGIN), ("u1", "eve@elsewhere.org", "eve"))
        world.react()
        before = {table: rows_of_others(world, table) for table in OTHERS if table != "bronze/visits"}
        lines = len(world.rows("bronze/visits"))
        assert main(["erase", "--subject", GONE, "--because", "GDPR-1", "--most", "1"]) == 0
        for places in KILLS:
            killed_after(world, places)
        world.restart()
        main(["erase", "--because", "GDPR-1", "--most", "1"])
        world.react()
        assert main(["erase", "--because", "GDPR-1", "--most", "1"]) == 0, capsys.readouterr().out
        found = erased(world)
        assert (found["silver/visits"], found["bronze/visits"]) == (6, 8), found
        assert {table: rows_of_others(world, table) for table in before} == before
        assert len(world.rows("bronze/visits")) == lines - 8
        assert hits(world) == []
