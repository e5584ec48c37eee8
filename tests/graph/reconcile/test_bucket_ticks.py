"""Ticks of the reconciler over tables in a bucket: the requests of a look, however many partitions there are."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.graph.declare import Follow
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.measuring.requests import counting_requests
from tests.hand_written import declare
from tests.logs import LogOverTime, upload
from tests.object_faults import proxied

pytestmark = pytest.mark.slow

START = datetime(2020, 1, 1, tzinfo=timezone.utc)
TABLES = ("silver/a", "silver/b", "silver/new")
"""The last one was never computed, and waits for a run."""
NAMES = ("bronze/x", *TABLES)
MOST_OF_A_FIRST_LOOK = 60
"""Requests that tell where a log begins and ends; up to 31 ask for commits behind its end."""


class Ticking:
    """Tables in a bucket that read another one by day, and ticks over them."""

    def __init__(self, lake, landing, partitions):
        self.lake, self.now = lake, START + timedelta(days=partitions, hours=1)
        days = dg.DailyPartitionsDefinition("2020-01-01")
        self.reconciler = Reconciler([declare(name, Follow(), partitions=days) for name in TABLES])
        self.landing, self.logs = landing, {}
        for name in NAMES[:-1]:
            log = self.logs[name] = LogOverTime(landing.parent / name, name)
            log.create(START)
            for number in range(partitions):
                applied = None if name == "bronze/x" else partitions
                log.write(START, f"{START + timedelta(days=number):%Y-%m-%d}", 1, upstream=applied)
            upload(log, lake.ledger(name).store)

    def write(self, name, **given):
        """Write the second day once more."""
        version = self.logs[name].write(START, "2020-01-02", 1, **given)
        upload(self.logs[name], self.lake.ledger(name).store, since=version)
        return version

    def tick(self, proxy):
        """The requests of a tick by table and kind, and the keys that it asks for by table."""
        before = len(proxy.seen)
        with counting_requests() as ours:
            outcome, _ = self.reconciler.reconcile(self.lake, Landing(root=str(self.landing)), self.now)
        theirs = proxy.seen[before:]
        assert ours.sent == Counter(kind for kind, _ in theirs)
        notes = [key for _, key in theirs if "_refused" in key]
        looks = Counter(next(n for n in NAMES if f"/{n}/" in f"{key}/") for _, key in theirs if key not in notes)
        return dict(looks), len(notes), {(table, ask.want.key) for ask in outcome.asks for table in ask.tables}


@pytest.fixture
def proxy(object_store, bucket_store, monkeypatch):
    """A proxy that sees every request."""
    with proxied(object_store, monkeypatch) as running:
        yield running


@pytest.mark.parametrize("partitions", [5, 400])
def test_a_tick_costs_two_requests_a_table_and_one_for_each_new_commit(bucket_store, proxy, tmp_path, partitions):
    """Of a table that was never computed, too; and one look for the notes on refusals of each table that lags.

    The first look at a table reads each commit once.
    """
    lake = Lake(root=bucket_store.uri, engine=SparkEngine())
    ticking = Ticking(lake, tmp_path / "landing", partitions)
    looks, _, _ = ticking.tick(proxy)
    assert max(looks.values()) < partitions + MOST_OF_A_FIRST_LOOK
    unchanged = dict.fromkeys(NAMES, 2)
    looks, notes, asked = ticking.tick(proxy)
    assert (looks, notes, {table for table, _ in asked}) == (unchanged, 1, {"silver/new"})
    applied = ticking.write("bronze/x")
    looks, notes, asked = ticking.tick(proxy)
    assert (looks, notes) == ({**unchanged, "bronze/x": 3}, 3)
    assert {("silver/a", "2020-01-02"), ("silver/b", "2020-01-02")} < asked
    ticking.write("silver/a", upstream=applied)
    looks, notes, asked = ticking.tick(proxy)
    assert (looks, notes) == ({**unchanged, "silver/a": 3}, 2)
    assert ("silver/a", "2020-01-02") not in asked
    assert ("silver/b", "2020-01-02") in asked
