"""Benchmarks stay runnable: each is executed once on tiny data, as with `--quick`; no test waits for a measurement."""

from __future__ import annotations

import sys
import tempfile

import pytest

from benchmarks import data, latency
from benchmarks.__main__ import NAMES, in_process, measured
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.resources.environments import settings

pytestmark = pytest.mark.budget(
    170, "all benchmarks but one, each side once on tiny data; an engine sees each plan for the first time"
)
IN_A_PROCESS = ("declarations", "warm_engine")
"""Benchmarks that count all jobs of an engine, or attach a session to one: the tests' own is in the way."""
OF_A_PLATFORM = "latency"
"""Benchmark of a whole platform, which takes minutes; `test_first_hour` runs such a one."""


@pytest.fixture
def alone(spark, monkeypatch):
    """A home of its own; what a benchmark sets of environment, paths and session is put back."""
    for way in ("read", "write"):  # Delta sets both in a session that meets its first table, and never again
        spark.conf.set(f"spark.sql.parquet.fieldId.{way}.enabled", "true")
    paths, set_before = [*sys.path], dict(spark.conf.getAll)
    monkeypatch.setenv("DEDP_FIRST_DAY", settings().first_day.isoformat())
    # Not in pytest's folder, which a second run closes to the user of a PostgreSQL server.
    with tempfile.TemporaryDirectory(prefix="dedp-bench-", ignore_cleanup_errors=True) as home:
        monkeypatch.setenv("DEDP_HOME", home)
        monkeypatch.setenv("DAGSTER_HOME", f"{home}/dagster")
        yield
    sys.path[:] = paths
    for name, value in dict(spark.conf.getAll).items():
        if name not in set_before:
            spark.conf.unset(name)
        elif value != set_before[name]:
            spark.conf.set(name, set_before[name])


@pytest.mark.spark
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", [name for name in NAMES if name != OF_A_PLATFORM])
def test_a_benchmark_runs(name):
    """Without a claim about its speed: a column of the platform that it does not write stops it."""
    assert in_process(name, quick=True) if name in IN_A_PROCESS else measured(name, quick=True)


def test_the_benchmark_of_a_platform_can_be_run():
    """Its names of the platform are there; whether a platform starts and computes, other tests show."""
    assert callable(latency.run)


def test_the_scripts_columns_are_types_of_sql():
    """The other side of `step` and `throughput` parses what the platform's table declares."""
    kinds = dict(each.split(" ", 1) for each in data.TYPED.split(", "))
    assert kinds == {name: VISITS.columns[name].type for name in kinds}
