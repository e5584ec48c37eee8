"""Lag of the graph's tables, by logs that are written by hand."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from dedp_assets.graph.declare import About, Follow, OnRequest, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.observe.lags import LagCache, lags
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.observability.lag_detector import detect_lag
from tests.hand_written import DAYS, commit_day, daily, declare

NOW = datetime(2026, 1, 20, tzinfo=timezone.utc)
MON, TUE, WED = "2026-01-05", "2026-01-06", "2026-01-07"
SILVER = declare("silver/x", Follow())


def of_two(name: str) -> object:
    """A table that reads two others by day."""

    def build(step: Step, into: Target) -> WriteResult: ...

    reads = Reads({daily("bronze/x"): same("day"), daily("bronze/y"): same("day")})
    stated = {"patterns": [Table.overwrite], "about": About("team:x"), "code_version": "1"}
    return lake_table(daily(name), reads=reads, runs=Runs(DAYS), **stated)(build)


BOTH = of_two("gold/both")


@pytest.fixture
def lake(tmp_path):
    return Lake(root=str(tmp_path), engine=SparkEngine())


def sampled(lake, *tables, **more):
    """(Consumer, producer) -> the sample."""
    return {(each.consumer, each.producer): each for each in lags(tables, lake, NOW, **more)}


def seen(sample):
    return sample.lag, sample.unread_rows, sample.unread_partitions


def test_a_table_lags_by_the_commits_of_its_stale_partitions(lake):
    """Two of Tuesday; not those of Monday, which it has computed since, nor one that changed nothing."""
    known = LagCache(Overview([SILVER]))
    assert seen(sampled(lake, SILVER, known=known)["silver/x", "bronze/x"]) == (0, 0, 0)
    versions = [commit_day(lake, "bronze/x", day) for day in (MON, TUE, MON)]
    first = sampled(lake, SILVER, known=known)["silver/x", "bronze/x"]
    assert (seen(first), first.consumed) == ((3, 3, 2), None)
    commit_day(lake, "silver/x", MON, sequence=versions[2])
    again = commit_day(lake, "bronze/x", TUE)
    commit_day(lake, "bronze/x", WED, changed=False)
    for found in (sampled(lake, SILVER, known=known), sampled(lake, SILVER)):
        sample = found["silver/x", "bronze/x"]
        assert (seen(sample), sample.consumed) == ((2, 2, 1), versions[1])
        assert sample.unread_since == lake.ledger("bronze/x").commit(versions[1]).timestamp
    commit_day(lake, "silver/x", TUE, sequence=again)
    done = sampled(lake, SILVER, known=known)["silver/x", "bronze/x"]
    assert (seen(done), done.consumed, done.produced) == ((0, 0, 0), again + 2, again + 2)
    assert detect_lag([done], NOW).verdict == "ok"


def test_of_two_upstream_tables_the_one_that_changed_is_behind(lake):
    """Cursors are sums: the record of the last commit says what is of which."""
    for name in ("bronze/x", "bronze/y"):
        commit_day(lake, name, MON)
    commit_day(lake, "gold/both", MON, inputs={"bronze/x": 1, "bronze/y": 1}, sequence=2)
    commit_day(lake, "bronze/y", MON)
    found = sampled(lake, BOTH)
    assert seen(found["gold/both", "bronze/x"]) == (0, 0, 0)
    assert seen(found["gold/both", "bronze/y"]) == (1, 1, 1)


def test_an_upstream_table_that_was_begun_again_is_no_lag(lake):
    """The table has applied a version that the new log does not have."""
    commit_day(lake, "bronze/x", MON)
    commit_day(lake, "silver/x", MON, sequence=7)
    (found,) = (each for each in detect_lag(lags([SILVER], lake, NOW), NOW).measurements if each.metric == "restarted")
    assert (found.table, found.partition, found.verdict) == ("silver/x", "bronze/x", "fail")


def test_a_table_whose_log_cannot_be_read_is_left_out(lake, tmp_path):
    """Nobody knows its lag; the others are sampled."""
    commit_day(lake, "bronze/x", MON)
    commit_day(lake, "bronze/y", MON)
    (tmp_path / "bronze/y/_delta_log" / f"{1:020d}.json").write_text("{")
    assert [each.consumer for each in lags([SILVER, BOTH], lake, NOW)] == ["silver/x"]


def test_a_table_that_runs_on_request_alone_does_not_lag(lake):
    """Nobody has promised that it follows."""
    commit_day(lake, "bronze/x", MON)
    assert lags([declare("silver/asked", OnRequest())], lake, NOW) == []


def test_a_refused_partition_does_not_lag(lake):
    """Its refusal is told; what came since, what other code refused, and other partitions do lag."""
    known = LagCache(Overview([SILVER]))
    commit_day(lake, "bronze/x", MON)
    tuesday = commit_day(lake, "bronze/x", TUE)
    notes = Refusals(lake.refused("silver/x"))
    assert seen(sampled(lake, SILVER, known=known)["silver/x", "bronze/x"]) == (2, 2, 2)
    notes.note(TUE, Refusal((str(tuesday),), SILVER.code_version, "run", "torn"))
    assert seen(sampled(lake, SILVER, known=known)["silver/x", "bronze/x"]) == (1, 1, 1)
    notes.note(TUE, Refusal((str(tuesday),), "another", "run", "torn"))
    assert seen(sampled(lake, SILVER, known=known)["silver/x", "bronze/x"]) == (2, 2, 2)
    notes.note(TUE, Refusal((str(tuesday),), SILVER.code_version, "run", "torn"))
    commit_day(lake, "bronze/x", TUE)
    assert seen(sampled(lake, SILVER, known=known)["silver/x", "bronze/x"]) == (3, 3, 2)
