"""A step on the warm shared engine against the same step in a cold, embedded run.

Ours: ``silver/visits`` for one date of 1,000 visits, in a process that is attached to a running Spark Connect
server and has run the step before, as Dagster's daemon and its engine do (``make up``).
Theirs: the same job for the same date in a fresh Python process that starts an embedded engine, runs the step and ends,
as a cron job does; with the class-data archive and the quick compiler, its best case.

Fair, because both are the same code on the same lake, each after one more late visit. CPU of ours holds the server's;
that of theirs is read before its JVM ends, so its end costs nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks import data
from benchmarks.measure import Row, Sample, Side, compare, explain, timed, tree_cpu
from benchmarks.step import Bronze
from dedp_assets.graph.resources.environments import CHECKOUT, apply, child_environment, settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.laptop.orchestration.instance import Platform
from tests.helpers import connect_server

__all__ = ["cold_run", "run"]

_GOAL = 0.1
_VISITS = 1_000
_ATTACHED = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE")
_COLD = "from benchmarks.warm_engine import cold_run; cold_run()"


def run(*, quick: bool) -> list[Row]:
    """Measure both."""
    with connect_server(settings()) as remote:
        apply({"SPARK_REMOTE": remote})
        bronze, platform, on = Bronze(SparkEngine(remote=remote).session), Platform(settings()), data.day(0)
        bronze.land(on, _VISITS)
        warm: list[Sample] = []
        cold: list[Sample] = []
        warm_up, rounds = (1, 1) if quick else (8, 3)
        for number in range(warm_up + rounds):
            bronze.touch(on, 2 * number)
            sample = timed(lambda: _warm(platform, on))
            if number >= warm_up:
                warm.append(sample)
                bronze.touch(on, 2 * number + 1)
                cold.append(_cold())
        sides = Side("attached, warm session", warm), Side("fresh process, embedded engine", cold)
        row = compare(f"{_VISITS:,} visits", *sides, at_most=_GOAL)
        if not row.met:
            bronze.touch(on, 10_000)
            row.why = explain(lambda: _step(platform, on), ["_compute", "route", "stage", "stage_rows", "publish"])
        bronze.session.stop()
    return [row]


def cold_run() -> None:
    """What the fresh process does; says how much CPU it took."""
    _step(Platform(settings()), data.day(0))
    print(tree_cpu())


def _warm(platform: Platform, on: str) -> dict[str, float]:
    """The step; of its CPU, what this process used, the rest being the engine's."""
    before = time.process_time()
    _step(platform, on)
    return {"CPU s in Python": time.process_time() - before}


def _cold() -> Sample:
    environment = child_environment({"DEDP_JIT": "quick", "PYTHONWARNINGS": "ignore"}, without=_ATTACHED)
    said: list[str] = []

    def start() -> None:
        done = subprocess.run(
            [sys.executable, "-c", _COLD], env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.extend(done.stdout.split())

    wall = timed(start).wall
    return Sample(float(said[-1]), wall)


def _step(platform: Platform, on: str) -> None:
    ended = platform.compute("silver/visits", partition=on)
    assert not ended.failure, ended.failure
