"""Unaligned Fan-In."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.flow.aligned_fan_in import BranchState
from dedp_assets.patterns.flow.unaligned_fan_in import FALLBACK, judge_branches, label_partial, plan_unaligned
from tests.contracts.known_calls import known_calls

DAY = "2026-01-05"
HOURS = [f"{DAY}-{hour:02d}" for hour in range(24)]
STATES = ("succeeded", "failed", "running", "waiting")


def branch(state, version=1):
    return BranchState(state, version if state == "succeeded" else None)


def hours(*failed, state="failed"):
    return {hour: branch(state if hour in failed else "succeeded", n) for n, hour in enumerate(HOURS, 1)}


def test_20_of_24_hours_are_a_partial_day():
    """At the newest version of the 20."""
    plan = plan_unaligned({DAY: hours(*HOURS[20:])})
    assert (plan.partitions, plan.causes, plan.cursor) == ((DAY,), {DAY: "partial"}, {DAY: 20})


def test_24_of_24_hours_are_a_complete_day():
    """Without a warning."""
    plan = plan_unaligned({DAY: hours()})
    assert (plan.causes, plan.cursor) == ({DAY: "complete"}, {DAY: 24})
    judged = judge_branches(hours())
    assert (judged.passed, judged.figures["completeness"], judged.note) == (True, 1.0, "")


def test_an_hour_that_still_runs_is_waited_for_even_past_the_deadline():
    """It has not ended; one that nobody has started is waited for until the deadline."""
    running, waiting = hours(HOURS[3], state="running"), hours(HOURS[3], state="waiting")
    for due in ((), (DAY,)):
        plan = plan_unaligned({DAY: running}, due=due)
        assert (plan.partitions, plan.held) == ((), {DAY: f"waits for 1 of 24: {HOURS[3]} (running)"})
    assert plan_unaligned({DAY: waiting}).held == {DAY: f"waits for 1 of 24: {HOURS[3]} (waiting)"}
    assert plan_unaligned({DAY: waiting}, due=[DAY]).causes == {DAY: "partial"}


def test_0_of_24_hours_ask_for_the_error_handler():
    """Which has no version to apply; the verdict is a failure."""
    none = hours(*HOURS)
    plan = plan_unaligned({DAY: none})
    assert (plan.partitions, plan.causes, plan.cursor) == ((DAY,), {DAY: FALLBACK}, {})
    judged = judge_branches(none)
    assert (judged.refuses, judged.figures["succeeded"], judged.figures["completeness"]) == (True, 0, 0.0)


def test_the_completeness_is_counted_and_the_missing_hours_are_named():
    """20 of 24 are 20 / 24, and 23 are 23 / 24: a warning that lets the rows through."""
    for missing in (HOURS[20:], HOURS[7:8]):
        judged = judge_branches(hours(*missing))
        assert (judged.passed, judged.severity, judged.refuses) == (False, "warn", False)
        assert judged.figures["completeness"] == (24 - len(missing)) / 24
        assert all(f"{hour} (failed)" in judged.note for hour in missing)
        assert not any(hour in judged.note for hour in HOURS if hour not in missing)


by_days = st.dictionaries(
    st.sampled_from(["mon", "tue", "wed"]),
    st.dictionaries(st.sampled_from(HOURS), st.builds(branch, st.sampled_from(STATES), st.integers(0, 9)), min_size=1),
)


@given(by_days, st.sets(st.sampled_from(["mon", "tue", "wed"])))
def test_a_day_is_chosen_if_all_have_ended_and_else_waits(by_day, due):
    """Whatever the states, against the rule in plain words; and the verdict agrees with the plan."""
    due = due & by_day.keys()
    plan = plan_unaligned(by_day, due=due)
    for day, each in by_day.items():
        states = [one.state for one in each.values()]
        ended = "running" not in states and (day in due or "waiting" not in states)
        assert (day in plan.partitions, day in plan.held) == (ended, not ended)
        if ended:
            judged = judge_branches(each)
            assert (plan.causes[day] == "complete") == judged.passed
            assert (plan.causes[day] == FALLBACK) == judged.refuses == ("succeeded" not in states)
            assert (day in plan.cursor) == ("succeeded" in states)


def test_a_deadline_of_an_unknown_day_is_refused():
    """By name, as is a day without hours."""
    with pytest.raises(ConfigError, match="due must name partitions of branches, not tue"):
        plan_unaligned({"mon": hours()}, due=["tue"])
    with pytest.raises(ConfigError, match="branches must name the upstream partitions of the partition, not none"):
        judge_branches({})


@pytest.mark.spark
def test_every_row_says_whether_it_is_approximate(spark):
    """By the verdict, also in columns with odd names; what is there already stays as it is."""
    rows = spark.createDataFrame([("/a", 1), ("/b", 2)], "`page.url` STRING, views INT")
    partial = label_partial(rows, judge_branches(hours(*HOURS[20:])), completeness="share of `hours`")
    assert sorted(map(tuple, partial.collect())) == [("/a", 1, True, 20 / 24), ("/b", 2, True, 20 / 24)]
    complete = label_partial(rows, judge_branches(hours()), column="is.partial")
    assert complete.columns == ["page.url", "views", "is.partial"]
    assert {row["is.partial"] for row in complete.collect()} == {False}


@pytest.mark.spark
def test_a_label_that_the_rows_have_and_a_foreign_verdict_are_refused(spark):
    """By name, before anything is computed; without a success there is nothing to label."""
    rows = spark.createDataFrame([(True,)], "is_approximate BOOLEAN")
    judged = judge_branches(hours())
    with pytest.raises(AuditFailed, match="no branch succeeded: without 24 of 24"):
        label_partial(rows, judge_branches(hours(*HOURS)))
    with pytest.raises(ConfigError, match="the rows have a column is_approximate, which this step adds"):
        label_partial(rows, judged)
    with pytest.raises(ConfigError, match="column must be a name, and another one than completeness, not 'x'"):
        label_partial(rows, judged, column="x", completeness="X")
    with pytest.raises(ConfigError, match="judged must be a verdict of judge_branches, not some without"):
        label_partial(rows, Finding("some", passed=True), column="x")


@known_calls
def calls_that_work(known):
    hours = {"mon-01": BranchState("succeeded", 1), "mon-02": BranchState("failed")}
    judged = judge_branches(hours)
    return {
        "plan_unaligned": {"branches": {"mon": hours}, "due": ["mon"]},
        "judge_branches": {"branches": hours, "name": "every_hour_is_there"},
        "label_partial": {"rows": known.visits, "judged": judged, "column": "partial", "completeness": "share"},
    }
