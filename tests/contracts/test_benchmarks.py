"""Benchmarks stay runnable: each is executed once on small data or imported; no test waits for a measurement."""

from __future__ import annotations

import importlib

import pytest

from benchmarks import data
from benchmarks.__main__ import NAMES
from benchmarks.measure import interleave
from dedp_assets.case_study.defs.silver.visits import VISITS

pytestmark = pytest.mark.budget(60, "eleven benchmarks, each side once on small data")
LONG = (
    "publish", "ticks", "warm_engine", "increment", "capture", "compaction", "jdbc", "merge", "merge_size",
    "filter_accounting", "as_of_join", "salting", "local_aggregation", "sessionizing", "cleaner", "replay",
    "late_integration", "parallel_split", "versions", "latency", "declarations", "observers",
)  # fmt: skip
"""Benchmarks that start processes, or take longer than a test may also on small data: `make bench BENCH=--quick`."""


def once(sides, *, rounds, warm_up=1, repeats=1, **options):
    """Execute each side once, in place of all rounds."""
    return interleave(sides, rounds=1, warm_up=0, repeats=1, **options)


@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LONG])
def test_a_benchmark_runs(spark, tmp_path, monkeypatch, name):
    """On small data and without a claim about its speed: a column of the platform that it does not write stops it."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(module, "interleave", once, raising=False)
    assert module.run(quick=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_imports_and_can_be_run(name):
    """A name of the platform that is renamed or moved breaks its benchmark here."""
    assert callable(importlib.import_module(f"benchmarks.{name}").run)


def test_the_scripts_columns_are_types_of_sql():
    """The other side of `step` and `throughput` parses what the platform's table declares."""
    kinds = dict(each.split(" ", 1) for each in data.TYPED.split(", "))
    assert kinds == {name: VISITS.columns[name].type for name in kinds}
