"""Tables with resource profiles of their own: a slow branch and a fast one, coupled and decoupled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.graph.declare import About, Pinned, Reads, Runs, Target, job_of, lake_table, same
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.reconcile.reconciling import plan_requests
from dedp_assets.graph.reconcile.requests import run_request
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from tests.helpers import a_record, write_log

DAYS = dg.DailyPartitionsDefinition("2026-01-05", end_date="2026-01-12")
NOW = datetime(2026, 1, 12, tzinfo=timezone.utc)
MONDAY, TUESDAY = "2026-01-05", "2026-01-06"
COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
SOURCE, SLOW, FAST = (
    TableSpec(name, COLUMNS, partition_by=("day",), comment="One row per day.")
    for name in ("bronze/source", "silver/slow", "silver/fast")
)
PROFILE = {"dedp/profile": "memory"}


def branch(spec, **profile):
    """A table of the shared source."""

    def compute(source: Pinned, into: Target) -> WriteResult: ...

    compute.__name__ = spec.name.rpartition("/")[2]
    stated = {"about": About("team:x"), "patterns": [Table.overwrite], "code_version": "1"}
    return lake_table(spec, reads=Reads({SOURCE: same("day")}), runs=Runs(DAYS, **profile), **stated)(compute)


@pytest.fixture
def asked(tmp_path):
    """``asked(tables, busy)``: the runs that the reconciler asks for, with two days at the source."""
    commits = [{"record": a_record(SOURCE.name, {"day": key}), "changed": [{"day": key}]} for key in (MONDAY, TUESDAY)]
    write_log(tmp_path / SOURCE.name, {"id": "long", "day": "date"}, ["day"], commits)
    lake = Lake(root=str(tmp_path), engine=SparkEngine())

    def plan(tables, busy):
        wants = Overview(tables).poll(lake, None, NOW)
        return plan_requests(wants, busy=busy, refused=lambda *_: None, tried=lambda _: {}, limit=25).asks

    return plan


def starts(ask, pools):
    """Whether a run may start while pools are in use: each table has a pool of its own, and takes a slot of it."""
    return not {name.replace("/", "_") for name in ask.tables} & pools


def test_a_slow_branch_in_the_same_run_blocks_the_next_day_of_the_fast_one(asked):
    """One run computes both tables of a day, so that Tuesday waits for the pool that Monday's slow branch holds."""
    runs = asked([branch(SLOW), branch(FAST)], {SLOW.name: {MONDAY}, FAST.name: {MONDAY}})
    assert [(each.want.key, {*each.tables}) for each in runs] == [(TUESDAY, {SLOW.name, FAST.name})]
    assert not any(starts(each, {"silver_slow"}) for each in runs)


def test_a_slow_branch_with_a_profile_of_its_own_blocks_no_day_of_the_fast_one(asked):
    """Monday and Tuesday of the fast branch have runs of their own, which take none of the slow one's slots."""
    runs = asked([branch(SLOW, profile=PROFILE), branch(FAST)], {SLOW.name: {MONDAY}})
    fast = {each.want.key for each in runs if each.tables == (FAST.name,) and starts(each, {"silver_slow"})}
    assert fast == {MONDAY, TUESDAY}
    assert [each.want.key for each in runs if SLOW.name in each.tables] == [TUESDAY]


def test_the_profile_is_in_the_tags_of_runs_jobs_and_steps(asked):
    """Of the branch that has one, and of no other."""
    slow, fast = branch(SLOW, profile=PROFILE), branch(FAST)
    tags = {each.tables: run_request(each, None).tags for each in asked([slow, fast], {})}
    assert tags[(SLOW.name,)]["dedp/profile"] == "memory"
    assert "dedp/profile" not in tags[(FAST.name,)]
    assert [job_of(each).tags for each in (slow, fast)] == [PROFILE, {}]
    assert [PROFILE.items() <= dict(each.definition().op.tags).items() for each in (slow, fast)] == [True, False]
    assert slow.definition().op.pool == "silver_slow"


def test_a_table_with_another_profile_follows_in_a_run_of_its_own(asked):
    """Key by key, as its upstream table is computed."""
    follower = TableSpec("gold/follower", COLUMNS, partition_by=("day",), comment="x")

    def compute(fast: Pinned, into: Target) -> WriteResult: ...

    stated = {"about": About("team:x"), "patterns": [Table.overwrite], "code_version": "1"}
    reads = Reads({FAST: same("day")})
    for runs, chained in ((Runs(DAYS), True), (Runs(DAYS, profile=PROFILE), False)):
        after = lake_table(replace(follower), reads=reads, runs=runs, **stated)(compute)
        computed = [each.tables for each in asked([branch(FAST), after], {}) if FAST.name in each.tables]
        assert [follower.name in tables for tables in computed] == [chained, chained]
