"""Profiles: states of columns that merge like the rows they are of."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from functools import reduce

import datasketches
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.profiles import ColumnProfile, Profile


def state(values, *, column="amount", kind="DOUBLE", sampled=None):
    """The state of some values, as Spark would compute it, by Python's own sketches."""
    held = [each for each in values if each is not None]
    distinct, quantiles = datasketches.hll_sketch(12), datasketches.kll_doubles_sketch(400)
    frequent = datasketches.frequent_strings_sketch(9)
    for each in held:
        distinct.update(str(each))
        frequent.update(str(each))
        if kind != "STRING":
            quantiles.update(float(each))
    lengths = [len(each) for each in held] if kind == "STRING" else []
    return ColumnProfile(
        column=column,
        type=kind,
        rows=len(values),
        nulls=len(values) - len(held),
        empties=lengths.count(0),
        minimum=str(min(held)) if held else None,
        maximum=str(max(held)) if held else None,
        shortest=min(lengths, default=None),
        longest=max(lengths, default=None),
        sampled=len(values) if sampled is None else sampled,
        distinct=distinct.serialize_compact(),
        quantiles=quantiles.serialize(),
        values=frequent.serialize(),
    )


def exact(found):
    """What a state says without an error."""
    counts = [found.rows, found.nulls, found.nans, found.infinities, found.empties, found.sampled]
    return counts, found.minimum, found.maximum, found.shortest, found.longest, found.categories()


texts = st.lists(st.none() | st.text(max_size=3), max_size=60)
numbers = st.lists(st.none() | st.integers(-(10**9), 10**9), max_size=60)


@given(st.lists(texts, max_size=5))
def test_parts_of_texts_merge_to_the_state_of_all_rows(parts):
    """Counts, bounds, lengths and (up to 384) values are those of a plain look at all rows."""
    merged = reduce(ColumnProfile.__add__, [state(part, kind="STRING") for part in parts], state([], kind="STRING"))
    rows = [each for part in parts for each in part]
    held = [each for each in rows if each is not None]
    assert (merged.rows, merged.nulls, merged.empties) == (len(rows), rows.count(None), held.count(""))
    assert (merged.minimum, merged.maximum) == (min(held, default=None), max(held, default=None))
    assert (merged.shortest, merged.longest) == (min(map(len, held), default=None), max(map(len, held), default=None))
    assert merged.categories() == Counter(held)
    assert merged.category_error == 0
    assert abs(merged.distinct_count - len({*held})) <= 1


@given(numbers, numbers, numbers)
def test_the_merge_is_associative_and_commutative_with_an_identity(one, two, three):
    """Order and grouping of the parts change no exact figure, and an empty state none at all."""
    a, b, c = (state(each, kind="BIGINT") for each in (one, two, three))
    assert exact((a + b) + c) == exact(a + (b + c)) == exact(c + b + a)
    assert (a + b).distinct_count == pytest.approx((b + a).distinct_count)
    nothing = ColumnProfile(column="amount", type="BIGINT")
    assert a + nothing == a == nothing + a
    assert Profile() + Profile({"amount": a}) == Profile({"amount": a}) == Profile({"amount": a}) + Profile()


@pytest.fixture(scope="module")
def day():
    """The values of a day in 24 hours, and the merged state."""
    hours = [[math.exp((n * 7919 % 1000) / 150) * (1 + hour) for n in range(1000)] for hour in range(24)]
    merged = Profile.merged(Profile({"amount": state(hour)}) for hour in hours)
    return sorted(each for hour in hours for each in hour), merged.columns["amount"]


def test_24_hours_merge_to_the_day_within_the_stated_errors(day):
    """Distinct values and ranks of quantiles stay within what the states promise of themselves."""
    values, merged = day
    assert (merged.rows, merged.measured) == (24_000, 24_000)
    distinct = len({*values})
    assert abs(merged.distinct_count - distinct) <= 0.0325 * distinct
    assert 0 < merged.rank_error < 0.01
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        rank = bisect_right(values, merged.quantile(share)) / len(values)
        assert abs(rank - share) <= 2 * merged.rank_error + 1 / len(values)
    assert float(merged.minimum) == values[0]
    assert float(merged.maximum) == values[-1]


def test_bins_of_equal_shares_hold_what_the_values_say(day):
    """Counts of bins add up to the values, and each differs from the exact count by the rank error at most."""
    values, merged = day
    edges = merged.bin_edges(10)
    counts = merged.bin_counts(edges)
    assert len(counts) == 10
    assert sum(counts) == len(values)
    below = [0, *(bisect_right(values, edge) for edge in edges), len(values)]
    wrong = [abs(count - (high - low)) for count, low, high in zip(counts, below, below[1:], strict=False)]
    assert max(wrong) <= 4 * merged.rank_error * len(values)


def test_an_edge_belongs_to_the_bin_below_it_and_equal_edges_are_one():
    """A column with few values has fewer bins than were asked for."""
    few = state([1, 1, 1, 1, 2, 3], kind="INT")
    assert few.bin_counts((1.0, 2.0)) == (4, 1, 1)
    assert few.bin_edges(10) == (1.0, 2.0, 3.0)
    assert state([], kind="INT").bin_edges(4) == ()
    assert state([], kind="INT").bin_counts((1.0,)) == (0, 0)


def test_frequent_values_of_many_are_found_within_the_stated_error():
    """More than 384 values: the common ones are there, and no count is off by more than the error."""
    merged = reduce(
        ColumnProfile.__add__,
        [state([*["USA"] * 600, *[f"{part}-{n}" for n in range(400)]], kind="STRING") for part in range(5)],
    )
    assert merged.categories()["USA"] == pytest.approx(3000, abs=merged.category_error)
    assert 0 < merged.category_error <= 0.007 * merged.rows
    assert merged.shares()["USA"] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(
    ("kind", "values", "bounds"),
    [
        ("INT", [9, 10, -1], ("-1", "10")),
        ("DECIMAL(38,2)", ["99999999999999999999.01", "99999999999999999999.02"], ("99999999999999999999.01",) * 0),
        ("STRING", ["9", "10"], ("10", "9")),
        ("DATE", ["2026-01-31", "2026-02-01"], ("2026-01-31", "2026-02-01")),
    ],
)
def test_bounds_merge_in_the_order_of_the_type(kind, values, bounds):
    """Numbers as numbers, though they are stored as text."""
    states = [ColumnProfile(column="x", type=kind, rows=1, minimum=str(v), maximum=str(v)) for v in values]
    merged = reduce(ColumnProfile.__add__, states[::-1])
    expected = bounds or (values[0], values[-1])
    assert (merged.minimum, merged.maximum) == expected


def test_counts_of_a_sample_are_scaled_and_marked():
    """Shares need no scale."""
    sampled = state(["a", "a", "b"], kind="STRING", sampled=3)
    part = ColumnProfile(column="amount", type="STRING", rows=27)
    found = sampled + part
    assert found.is_sampled
    assert not sampled.is_sampled
    assert found.categories() == {"a": 2, "b": 1}
    assert found.categories(scaled=True) == {"a": 20, "b": 10}
    assert found.shares() == {"a": 2 / 3, "b": 1 / 3}


def test_stored_rows_give_the_profile_back():
    """Also as Spark reads them, with bytes that may change."""
    profile = Profile({"a": state(["x", None], column="a", kind="STRING"), "b": state([1, 2], column="b", kind="INT")})
    stored = [{n: bytearray(v) if isinstance(v, bytes) else v for n, v in r.items()} for r in profile.as_rows()]
    assert Profile.of_rows(stored) == profile
    assert Profile.of_rows([*stored, *stored]).rows == 4
    assert Profile.of_rows([]) == Profile()


def test_a_summary_names_figures_and_no_value():
    """It goes into a commit record, which everybody reads."""
    summary = Profile({"name": state(["Ada", "Ada", None], column="name", kind="STRING")}).summary()
    assert summary == {"name": {"distinct": 1, "rows": 3, "nulls": 1, "sampled": 3, "shortest": 3, "longest": 3}}


def test_columns_of_other_names_and_types_do_not_merge():
    """A column that changed its type has two profiles."""
    with pytest.raises(ConfigError, match="a INT and a STRING must be of one column and type"):
        ColumnProfile(column="a", type="INT") + ColumnProfile(column="a", type="STRING")


def test_questions_that_have_no_answer():
    """Nothing is made up of no rows, and an option out of range is refused."""
    nothing = ColumnProfile(column="a", type="INT")
    assert (nothing.null_share, nothing.distinct_count, nothing.quantile(0.5), nothing.rank_error) == (None, 0, None, 0)
    assert (nothing.categories(), nothing.shares(), nothing.category_error) == ({}, {}, 0)
    with pytest.raises(ConfigError, match="share must be between 0 and 1, not 2"):
        nothing.quantile(2)
    with pytest.raises(ConfigError, match="bins must be 2 or more, not 1"):
        nothing.bin_edges(1)
