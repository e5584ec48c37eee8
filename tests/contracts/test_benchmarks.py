"""Benchmarks stay runnable: what they take of the platform is there, though no test waits for a measurement."""

from __future__ import annotations

import importlib

import pytest

from benchmarks import data
from benchmarks.__main__ import NAMES
from dedp_assets.case_study.defs.silver.visits import VISITS


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_imports_and_can_be_run(name):
    """A name of the platform that is renamed or moved breaks its benchmark here."""
    assert callable(importlib.import_module(f"benchmarks.{name}").run)


def test_the_scripts_columns_are_types_of_sql():
    """The other side of `step` and `throughput` parses what the platform's table declares."""
    kinds = dict(each.split(" ", 1) for each in data.TYPED.split(", "))
    assert kinds == {name: VISITS.columns[name].type for name in kinds}
