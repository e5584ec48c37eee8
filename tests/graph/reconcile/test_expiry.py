"""Partitions that were removed by age: no late data for tables downstream, and none to be computed again."""

from __future__ import annotations

import pytest

from dedp_assets.graph.declare import Follow
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.maintenance import remove_expired
from tests.hand_written import commit_day, daily, declare
from tests.helpers import NOW, a_run

OLD, NEW = "2026-01-06", "2026-01-07"
SILVER = declare("silver/t", Follow())


@pytest.fixture
def world(tmp_path):
    """Two days of a table, which the table downstream has applied."""
    lake, landing = Lake(root=str(tmp_path / "lake"), engine=SparkEngine()), Landing(root=str(tmp_path / "landing"))
    for day in (OLD, NEW):
        version = commit_day(lake, "bronze/x", day)
        commit_day(lake, "silver/t", day, {"bronze/x": version}, version)
    return lake, landing


def wants(world, loop=None):
    outcome, _ = (loop or Reconciler([SILVER])).reconcile(*world, NOW)
    return {ask.want.key for ask in outcome.asks}


def expire(world, name):
    lake, _ = world
    table = Table(daily(name), lake.ledger(name).location, None)
    return remove_expired(table, [(("day", OLD),)], a_run("platform/maintenance"), rule=30)


def test_an_expired_partition_upstream_asks_for_nothing(world):
    """Neither a sensor that saw it go nor one that reads the log from its beginning asks for the day."""
    loop = Reconciler([SILVER])
    assert wants(world, loop) == set()
    assert expire(world, "bronze/x").applied
    assert (wants(world, loop), wants(world)) == (set(), set())


def test_an_expired_partition_of_a_table_is_no_missing_one(world):
    """It was computed, and is not to be computed again."""
    loop = Reconciler([SILVER])
    wants(world, loop)
    assert expire(world, "silver/t").applied
    assert (wants(world, loop), wants(world)) == (set(), set())


def test_an_expired_partition_that_was_never_computed_is_given_up(world):
    """Neither a table that is new nor one that failed on the day waits for rows that are gone."""
    lake, _ = world
    commit_day(lake, "bronze/x", OLD)
    new = declare("silver/new", Follow())
    loop, both = Reconciler([SILVER]), Reconciler([new])
    assert (wants(world, loop), wants(world, both)) == ({OLD}, {OLD, NEW})
    expire(world, "bronze/x")
    assert (wants(world, loop), wants(world, both), wants(world, Reconciler([new]))) == (set(), {NEW}, {NEW})


def test_late_rows_of_an_expired_day_are_late_data(world):
    """Whoever writes the day again asks for it downstream, as at any time."""
    loop = Reconciler([SILVER])
    wants(world, loop)
    expire(world, "bronze/x")
    lake, _ = world
    commit_day(lake, "bronze/x", OLD)
    assert (wants(world, loop), wants(world)) == ({OLD}, {OLD})


def test_the_log_tells_of_an_expiry_whoever_asks_for_the_truth(world):
    """What computes from earlier rows sees the change; what follows changes does not."""
    lake, _ = world
    before = lake.ledger("bronze/x").version()
    version = expire(world, "bronze/x").version
    ledger, key = lake.ledger("bronze/x"), (("day", OLD),)
    assert ledger.changes(since=before) == (version, {})
    assert ledger.changes(since=before, expired=True) == (version, {key: version})
    (glimpse,) = ledger.glimpses(since=before)
    assert (glimpse.changed, ledger.commit(version).changed) == (frozenset(), {key})
    assert ledger.changed({"day": OLD}).version == version
