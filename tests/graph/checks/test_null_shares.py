"""Shares of NULL values: usual by earlier partitions, with the error of few rows."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.checks.null_shares import NullCounts, judge_null_shares
from dedp_assets.graph.declare.defaults import USUAL_NULLS


def days(*nulls, rows=10_000, column="email"):
    """A partition for each number of NULL values, in order."""
    return {f"2026-01-{day:02d}": NullCounts(rows, {column: n}) for day, n in enumerate(nulls, 5)}


def judged(counts):
    return judge_null_shares(counts, limits=USUAL_NULLS)


def test_a_column_that_turns_empty_is_named_with_both_shares():
    """Though every value is allowed."""
    found = judged(days(100, 120, 90, 10_000))
    assert not found.passed
    assert found.severity == "warn"
    assert found.note == "email is NULL in 100.0% of the rows of 2026-01-08, usually in 1.0%"


def test_a_column_that_is_no_longer_empty_is_named_too():
    """A field that means something else now."""
    assert judged(days(9_000, 9_100, 9_050, 100)).note.endswith("1.0% of the rows of 2026-01-08, usually in 90.5%")


def test_the_limit_is_the_tolerance_and_four_standard_errors():
    """Without an error of the share, exactly at the tolerance is usual and one row above is not."""
    exact = replace(USUAL_NULLS, errors=0.0)
    verdicts = [judge_null_shares(days(0, 0, 0, n), limits=exact).passed for n in (499, 500, 501)]
    assert verdicts == [True, True, False]


def test_few_rows_tell_nothing():
    """One NULL in two rows is no news; a thousand in two thousand are."""
    small = {**days(0, 0, 0), "2026-01-08": NullCounts(2, {"email": 1})}
    assert judged(small).passed
    assert not judged({**small, "2026-01-08": NullCounts(2_000, {"email": 1_000})}).passed


def test_too_little_history_is_an_answer_of_its_own():
    """Also for a column that is newer than the table, and for a table without partitions."""
    assert judged({}).note == "too little history: 0 of 3 earlier partitions"
    assert judged(days(0, 0, 10_000)).note == "too little history: 2 of 3 earlier partitions"
    new = days(0, 0, 0, 0)
    new["2026-01-08"] = NullCounts(10_000, {"email": 0, "phone": 10_000})
    assert judged(new).passed


def test_a_partition_without_rows_has_no_share():
    """The newest one with rows is judged; those without count for nothing."""
    counts = {**days(0, 0, 0, 10_000), "2026-01-04": NullCounts(0, {}), "2026-02-01": NullCounts(0, {})}
    assert "of the rows of 2026-01-08" in judged(counts).note


@given(st.integers(0, 96), st.lists(st.integers(0, 4), min_size=3, max_size=8), st.integers(0, 100), st.integers(1, 5))
def test_more_rows_of_the_same_shares_never_excuse_a_share(usual, more, newest, factor):
    """The margin shrinks with the rows; of earlier shares that are usual, whatever the number of rows."""
    nulls = [*(usual + each for each in more), newest]
    few, many = (judged(days(*(n * by for n in nulls), rows=100 * by)) for by in (1, factor))
    assert few.passed or not many.passed
