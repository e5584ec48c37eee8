"""Times of partitions with a deadline, from the calendar, the logs and the run storage, all written by hand."""

# Without `from __future__ import annotations`: the declaration reads the parameters of a function in a function.

import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.graph.declare import About, Branch, Follow, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.inputs.feeds import aligned, hour_to_day
from dedp_assets.graph.observe.deadlines import recent_records, records_of, timed_runs
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, DataArrival, PartitionSize
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.flow.exclusive_choice import Router, Rule
from dedp_assets.patterns.observability.sla_misses_detector import Due, detect_sla_misses
from tests.hand_written import daily, declare

DAYS = dg.DailyPartitionsDefinition("2026-01-01", timezone="UTC", end_offset=1)
NOW = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
MIDNIGHT = NOW - timedelta(hours=12)
DUE = Due("06:40", within_minutes=40)
TABLE = declare("silver/orders", Follow(), partitions=DAYS)
STATUS = dg.DagsterRunStatus
YESTERDAY, BEFORE = "2026-01-09", "2026-01-08"


def at(hour, minute=0, day=10):
    return datetime(2026, 1, day, hour, minute, tzinfo=timezone.utc)


def a_run(*days, start=None, end=None, status=STATUS.SUCCESS, run_id="", selection="silver/orders", **tags):
    """A record of the run of one day, or of a range of days."""
    names = (
        ["dagster/partition"] if len(days) == 1 else [f"dagster/asset_partition_range_{n}" for n in ("start", "end")]
    )
    tags |= dict(zip(names, days, strict=True))
    chosen = frozenset({dg.AssetKey(selection.split("/"))}) if selection else None
    run = dg.DagsterRun(
        "compute", run_id=run_id or str(uuid.uuid4()), status=status, tags=tags, asset_selection=chosen
    )  # fmt: skip
    created = start or NOW
    times = {"start_time": start.timestamp() if start else None, "end_time": end.timestamp() if end else None}
    return dg.RunRecord(storage_id=1, dagster_run=run, create_timestamp=created, update_timestamp=end or NOW, **times)


def log(*commits, table="silver/orders", arrivals=()):
    """What a log tells: day and time of its first commit, each with rows."""
    sizes = {day: PartitionSize(rows=1, size=1, files=1, first_at=first, last_at=first) for day, first in commits}
    brought = [
        DataArrival(version=n, at=first, rows=1, partition=day) for n, (day, first) in enumerate(commits) if first
    ]
    return Activity(table=table, version=len(commits), arrivals=tuple(arrivals or brought), partitions=sizes)


LONG_AGO = ("2026-01-01", at(1, day=2))


def timed(activity, runs=(), *, table=TABLE, upstream=(), now=NOW, due=DUE, days=2):
    known = {each.table: each for each in upstream}
    return {each.partition: each for each in timed_runs(table, activity, known, runs, now, due=due, days=days)}


def test_a_partition_without_a_run_is_expected_by_the_calendar():
    """Of the last two days those whose deadline lies within; today's day has not ended, and is due tomorrow."""
    found = timed(log(LONG_AGO))
    assert [*found] == [BEFORE, YESTERDAY]
    assert {each.outcome for each in found.values()} == {"not started"}
    assert found[YESTERDAY].ends_at == MIDNIGHT
    assert [*timed(log(LONG_AGO), now=at(6), days=1)] == [BEFORE, YESTERDAY]
    assert [*timed(log(LONG_AGO), days=4)] == ["2026-01-06", "2026-01-07", BEFORE, YESTERDAY]
    assert detect_sla_misses([*found.values()], NOW, due=DUE, table="silver/orders").verdict == "fail"


def test_deadlines_that_are_moved_by_a_weekend_are_found():
    """What ended since Monday, the 5th, is due on Monday, the 12th."""
    due = replace(DUE, weekdays=["monday"])
    found = timed(log(LONG_AGO), due=due, now=at(12, day=12), days=1)
    assert (min(found), max(found), len(found)) == ("2026-01-05", "2026-01-11", 7)


def test_what_was_due_before_the_first_commit_counts_for_nothing():
    """Of a new table, and of one without any commit, whose newest partition counts alone."""
    assert [*timed(log((YESTERDAY, at(5))), days=5)] == [YESTERDAY]
    assert [*timed(log(), days=5)] == [YESTERDAY]
    assert [*timed(Activity(table="silver/orders"), days=5, now=at(6))] == [YESTERDAY]
    assert [*timed(log(), days=5, now=datetime(2026, 1, 1, 6, tzinfo=timezone.utc))] == []


def test_a_new_platform_owes_nothing():
    """Without an upstream table there was never any data; with one, the newest partition is due."""
    nothing, visits = Activity(table="silver/orders"), Activity(table="bronze/orders")
    assert timed(nothing, upstream=[visits]) == {}
    assert [*timed(nothing, upstream=[visits, log(LONG_AGO, table="bronze/users")])] == [YESTERDAY]
    assert [*timed(nothing)] == [YESTERDAY]


def test_a_table_that_promises_a_duration_alone_is_expected_by_the_end_of_its_data():
    """There is no deadline; the partitions that ended within the days count."""
    assert [*timed(log(LONG_AGO), due=Due(within_minutes=5))] == [BEFORE, YESTERDAY]


def test_the_first_commit_is_the_delivery_and_later_runs_do_not_count():
    """A retry counts from the first start; the run for late data two hours later changes nothing."""
    runs = [
        a_run(YESTERDAY, start=at(8), end=at(8, 5), **{"dedp/cause": "late-data"}),
        a_run(YESTERDAY, start=at(6, 10), end=at(6, 20)),
        a_run(YESTERDAY, start=at(6), end=at(6, 5), status=STATUS.FAILURE),
    ]
    run = timed(log(LONG_AGO, (YESTERDAY, at(6, 19))), runs)[YESTERDAY]
    assert (run.outcome, run.started_at, run.ended_at, run.is_backfill) == ("succeeded", at(6), at(6, 19), False)


@pytest.mark.parametrize(
    ("runs", "outcome", "started", "ended"),
    [
        ([], "not started", None, None),
        ([a_run(YESTERDAY, status=STATUS.NOT_STARTED)], "not started", None, None),
        ([a_run(YESTERDAY, start=at(6), status=STATUS.STARTED)], "running", at(6), None),
        ([a_run(YESTERDAY, start=at(6), end=at(7), status=STATUS.FAILURE)], "failed", at(6), at(7)),
        ([a_run(YESTERDAY, start=at(6), end=at(7), status=STATUS.CANCELED)], "failed", at(6), at(7)),
        ([a_run(YESTERDAY, start=at(6), end=at(7))], "succeeded", at(6), at(7)),
        (
            [
                a_run(YESTERDAY, start=at(6), end=at(7), status=STATUS.FAILURE),
                a_run(YESTERDAY, start=at(8), status=STATUS.STARTED),
            ],
            "running",
            at(6),
            None,
        ),
        ([a_run(BEFORE, start=at(6), status=STATUS.STARTED)], "not started", None, None),
    ],
)
def test_a_partition_without_a_commit_is_as_its_runs_are(runs, outcome, started, ended):
    """A run that waits has not started; one that succeeded had nothing to commit; a run of another day says nothing."""
    run = timed(log(LONG_AGO), runs)[YESTERDAY]
    assert (run.outcome, run.started_at, run.ended_at) == (outcome, started, ended)


def test_a_delivery_that_the_log_forgot_is_there_without_a_time():
    """It is not taken for a missing one."""
    run = timed(log(LONG_AGO, (YESTERDAY, None)))[YESTERDAY]
    assert (run.outcome, run.ended_at) == ("succeeded", None)


def test_a_run_of_several_days_and_tables_is_timed_from_where_its_own_work_begins():
    """From the commit of the day before in the same run, or of the upstream table; not from before the first start."""
    range_run = a_run(BEFORE, YESTERDAY, start=at(5), end=at(7), run_id="r")
    brought = [DataArrival(version=1, at=at(6), rows=1, partition=BEFORE, run_id="r")]
    activity = log(LONG_AGO, (BEFORE, at(6)), (YESTERDAY, at(6, 30)), arrivals=brought)
    found = timed(activity, [range_run])
    assert [(each.started_at, each.ended_at) for each in found.values()] == [(at(5), at(6)), (at(6), at(6, 30))]
    one = a_run(YESTERDAY, start=at(5), end=at(7))
    for ready, started in ((at(6, 20), at(6, 20)), (at(4), at(5)), (at(6, 45), at(5))):
        upstream = log((YESTERDAY, ready), table="bronze/x")
        run = timed(log(LONG_AGO, (YESTERDAY, at(6, 30))), [one], upstream=[upstream])[YESTERDAY]
        assert run.started_at == started


def test_a_partition_that_only_a_backfill_ran_is_known_as_one():
    """By its runs, or by the cause in the log once the runs are deleted; a repaired night is none."""
    nightly = a_run(YESTERDAY, start=at(2), end=at(3), status=STATUS.FAILURE)
    backfill = a_run(YESTERDAY, start=at(8), end=at(9), **{"dagster/backfill": "b"})
    activity = log(LONG_AGO, (YESTERDAY, at(9)))
    assert timed(activity, [backfill])[YESTERDAY].is_backfill
    assert not timed(activity, [nightly, backfill])[YESTERDAY].is_backfill
    assert not timed(activity)[YESTERDAY].is_backfill
    deleted = [DataArrival(version=1, at=at(9), rows=1, partition=YESTERDAY, cause="backfill")]
    assert timed(log(LONG_AGO, (YESTERDAY, at(9)), arrivals=deleted))[YESTERDAY].is_backfill


def test_inputs_are_ready_with_the_last_upstream_table_that_was_committed():
    """Two tables of the same day; the missing one is named, an unread one passed over, a rerun counts for nothing."""

    @lake_table(
        daily("gold/totals"),
        reads=Reads({daily("silver/a"): same("day"), daily("silver/b"): same("day")}),
        runs=Runs(DAYS),
        about=About("team:x"),
        patterns=[Table.overwrite],
        code_version="1",
    )
    def totals(a: Pinned, b: Pinned, into: Target) -> WriteResult:
        raise AssertionError("nobody computes it")

    def inputs(*upstream):
        run = timed(log(LONG_AGO), table=totals, upstream=upstream)[YESTERDAY]
        return run.inputs_ready_at, run.last_input

    a, b = log((YESTERDAY, at(3)), table="silver/a"), log((YESTERDAY, at(5)), table="silver/b")
    assert inputs(a, b) == (at(5), "silver/b")
    assert inputs(a, log((BEFORE, at(5)), table="silver/b")) == (None, "silver/b")
    assert inputs(log(table="silver/a"), b) == (None, "silver/a")
    assert inputs(a) == (at(3), "silver/a")
    assert inputs() == (None, "")
    assert inputs(log((YESTERDAY, None), table="silver/a")) == (None, "")


def test_an_aligned_fan_in_needs_all_hours_and_others_take_what_is_there():
    """23 of 24 hours: the last of them is missing, or never comes."""

    def declared(feed):
        @lake_table(
            daily("gold/days"),
            reads=Reads({daily("silver/hours", "hour"): feed}),
            runs=Runs(DAYS),
            about=About("team:x"),
            patterns=[Table.overwrite],
            code_version="1",
        )
        def days(hours: Pinned, into: Target) -> WriteResult:
            raise AssertionError("nobody computes it")

        return days

    hours = [(f"{YESTERDAY}-{hour:02d}", at(hour, 30, day=9)) for hour in range(23)]
    upstream = [log(*hours, table="silver/hours")]
    some = timed(log(LONG_AGO), table=declared(hour_to_day("hour")), upstream=upstream)[YESTERDAY]
    assert (some.inputs_ready_at, some.last_input) == (at(22, 30, day=9), "silver/hours")
    whole = declared(aligned(hour_to_day("hour")))
    needed = timed(log(LONG_AGO), table=whole, upstream=upstream)[YESTERDAY]
    assert (needed.inputs_ready_at, needed.last_input) == (None, "silver/hours")
    full = [log(*hours, (f"{YESTERDAY}-23", at(0, 30)), table="silver/hours")]
    assert timed(log(LONG_AGO), table=whole, upstream=full)[YESTERDAY].inputs_ready_at == at(0, 30)


def test_a_partition_of_another_branch_has_no_deadline():
    """Its table never holds it."""
    router = Router([Rule("legacy", before=YESTERDAY), Rule("modern", since=YESTERDAY)])
    modern = replace(TABLE, runs=Runs(DAYS, Branch(router, "modern", by=Follow())))
    assert [*timed(log(LONG_AGO), table=modern)] == [YESTERDAY]


def test_a_table_without_partitions_by_time_is_refused():
    """Its promise could not be held against a calendar."""
    whole = replace(TABLE, runs=Runs(dg.StaticPartitionsDefinition(["x"]), Follow()))
    with pytest.raises(ConfigError, match="due must be the promise of a table with partitions by time"):
        timed(log(LONG_AGO), table=whole)


def test_runs_of_all_tables_are_read_at_once_and_divided_by_table():
    """By the assets of each run; a run that changed before the days is not read."""
    with dg.DagsterInstance.ephemeral() as instance:
        for record in (a_run(YESTERDAY), a_run(YESTERDAY, selection="silver/other"), a_run(BEFORE, selection="")):
            instance.add_run(record.dagster_run)
        now = Clock().now()
        records = recent_records(instance, now, days=1)
        assert len(records) == 3
        (mine,) = records_of(records, TABLE, None)
        assert mine.dagster_run.tags["dagster/partition"] == YESTERDAY
        assert recent_records(instance, now + timedelta(days=3), days=1) == []
