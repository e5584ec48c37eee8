"""Drift statistics of the Offline Observer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.quality._profiles.drift import (
    Drift,
    correct,
    drift_of_bins,
    drift_of_categories,
)
from dedp_assets.patterns.quality._profiles.two_samples import chi2_sf, holm

ENOUGH = st.lists(st.integers(300, 10_000), min_size=2, max_size=12)


def verdict_and_effect(found: Drift) -> tuple[object, ...]:
    return found.verdict, found.statistic, found.p_value, found.effect, found.js


@pytest.mark.parametrize(
    ("statistic", "freedom", "expected"),
    [
        (3.841458820694124, 1, 0.05),
        (6.634896601021214, 1, 0.01),
        (9.21034037197618, 2, 0.01),
        (16.918977604620448, 9, 0.05),
        (21.665994333461924, 9, 0.01),
        (37.56623478662507, 20, 0.01),
        (124.34211340400407, 100, 0.05),
        (1074.679449, 1000, 0.05),
    ],
)
def test_p_values_are_those_of_the_tables(statistic, freedom, expected):
    """Quantiles of the chi-square distribution for odd, even and many degrees of freedom."""
    assert chi2_sf(statistic, freedom) == pytest.approx(expected, rel=1e-6)


def test_p_values_are_those_of_a_simulation():
    """Shares of 200,000 sums of squares above some values."""
    drawn = np.random.default_rng(3).chisquare(7, 200_000)
    for value in (1.0, 5.0, 14.0, 20.0):
        assert chi2_sf(value, 7) == pytest.approx((drawn > value).mean(), abs=0.004)


@pytest.mark.parametrize(("statistic", "freedom", "expected"), [(0, 3, 1), (5, 0, 1), (math.inf, 4, 0), (1e12, 999, 0)])
def test_p_values_of_extreme_statistics_are_0_or_1(statistic, freedom, expected):
    """No overflow, and one cell is no test."""
    assert chi2_sf(statistic, freedom) == expected


@given(st.lists(st.floats(0, 400), min_size=2, max_size=5).map(sorted), st.integers(1, 60))
def test_p_values_fall_with_the_statistic_and_rise_with_the_cells(statistics, freedom):
    """A larger distance is never more probable, but for the last digits of a sum of 30 floats."""
    found = [chi2_sf(each, freedom) for each in statistics]
    digits = 1e-13
    assert all(later <= earlier + digits for earlier, later in itertools.pairwise(found))
    assert all(p <= chi2_sf(each, freedom + 1) + digits for p, each in zip(found, statistics, strict=True))


def test_usa_becoming_unknown_is_a_drift():
    """Of valid values only, 90 % of the one became 90 % of the other."""
    base = {"USA": 9_000, "Canada": 800, "Unknown": 200}
    found = drift_of_categories({"USA": 200, "Canada": 800, "Unknown": 9_000}, base)
    assert found.verdict == "warn"
    assert found.reason == "USA: 90.0% -> 2.0%; Unknown: 2.0% -> 90.0%"
    assert found.effect > 5
    assert 0.5 < found.js < 1


def test_five_categories_becoming_fifty_is_a_drift():
    """45 new ones, each of them rare."""
    base = dict.fromkeys(range(5), 2000)
    new = dict.fromkeys(range(5), 180) | dict.fromkeys(range(5, 50), 2)
    assert drift_of_categories(new, base).verdict == "warn"


@pytest.mark.parametrize(
    ("new", "base"),
    [
        ({"a": 900, "b": 100}, {"a": 1_000_000}),
        ({"a": 1_000_000}, {"a": 900, "b": 100}),
        ({"a": 1_000}, {"b": 1_000}),
        ({"a": 400, "b": 60, "c": 40}, {"a": 10**9, "b": 10}),
        ({None: 500, "a": 500}, {"a": 1_000}),
        ({"a": 10**9, "b": 10**9}, {"a": 10**9, "b": 2 * 10**9}),
    ],
    ids=["new", "vanished", "exchanged", "new beside many rows", "NULL", "huge"],
)
def test_new_and_vanished_categories_are_a_drift(new, base):
    """Zero counts on either side, whatever the numbers of rows."""
    found = drift_of_categories(new, base)
    assert found.verdict == "warn"
    assert found.p_value < 0.005
    assert math.isfinite(found.effect)


@pytest.mark.parametrize(
    ("new", "base"),
    [
        ({"a": 1_000}, {"a": 7_000}),
        ({"a": 1_000, "b": 0}, {"a": 7_000, "c": 0}),
        ({"a": 997, "b": 3}, {"a": 100_000}),
        ({f"new {n}": 1 for n in range(1_000)}, {f"old {n}": 1 for n in range(1_000)}),
        ({math.nan: 500, "a": 500}, {float("nan"): 500, "a": 500}),
        ({"all others": 500, "a": 500}, {"all others": 5_000, "a": 5_000}),
        ({"None": 500, None: 500}, {"None": 5_000, None: 5_000}),
    ],
    ids=["one category", "zeros", "three rows", "ids", "NaN", "a name as ours", "NULL and its name"],
)
def test_equal_and_rare_categories_are_no_drift(new, base):
    """One category cannot shift, a few rows prove nothing, and ids have no frequencies."""
    assert drift_of_categories(new, base).verdict == "ok"


def test_no_baseline_and_too_few_rows_are_unknown():
    """Neither is "ok", and the reason says which."""
    assert drift_of_categories({"a": 1_000}, None).reason == "no baseline"
    assert drift_of_categories({"a": 1_000}, {}).reason == "no baseline"
    assert drift_of_bins([500, 500], None).reason == "no baseline"
    assert drift_of_bins([500, 500], [0, 0]).reason == "no baseline"
    few = drift_of_categories({"a": 120}, {"b": 1_000})
    assert (few.verdict, few.reason) == ("unknown", "too few rows: 120 of 500")
    assert drift_of_categories({}, {"b": 1_000}).reason == "too few rows: 0 of 500"
    assert drift_of_bins([500, 500], [3, 5]).reason == "too few rows in the baseline: 8 of 500"


def test_categories_that_only_one_side_names_may_be_among_the_other_rows():
    """The twenty most frequent of many change by chance from day to day; a frequent new one is still found."""
    base = {f"c{n}": 100 - n for n in range(20)}
    new = {f"c{n}": 100 - n for n in range(18)} | {"c20": 80, "c21": 79}
    assert drift_of_categories(new, base, new_rows=5_000, base_rows=5_000).verdict == "ok"
    assert drift_of_categories(new, base).verdict == "warn"
    assert drift_of_categories(new | {"c99": 900}, base, new_rows=5_000, base_rows=5_000).verdict == "warn"
    assert drift_of_categories(new, base, new_rows=3_000, base_rows=100_000).verdict == "warn"


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf])
def test_a_count_that_is_none_is_refused(wrong):
    """With the name of the count."""
    with pytest.raises(ConfigError, match="the count of 'a' must be 0 or more, not"):
        drift_of_categories({"a": wrong}, {"a": 1_000})
    with pytest.raises(ConfigError, match="the count of 1 must be 0 or more, not"):
        drift_of_bins([1, wrong], [1, 1])


def test_bins_that_do_not_fit_are_refused():
    """Other numbers of bins."""
    with pytest.raises(ConfigError, match="must have the same bins, not 2 and 3"):
        drift_of_bins([1, 2], [1, 2, 3])


def test_a_currency_bug_is_a_drift_of_bins():
    """All amounts a hundredth of the usual ones fall into the first of the baseline's deciles."""
    assert drift_of_bins([100_000] + [0] * 9, [2_000] * 10).reason.startswith("bin 1 of 10: 10.0% -> 100.0%")
    assert drift_of_bins([300, 200], [10**6, 0]).verdict == "warn"


def test_errors_of_a_sketch_are_no_drift():
    """A billion rows in a sketch tell no more than the sketch: with exact numbers the difference is significant."""
    base, new = [10**8] * 10, [1.2 * 10**8, 0.8 * 10**8] + [10**8] * 8
    exact, sketched = drift_of_bins(new, base, min_psi=0.001), drift_of_bins(new, base, min_psi=0.001, rank_error=0.05)
    assert (exact.verdict, sketched.verdict) == ("warn", "ok")
    assert drift_of_bins([5 * 10**8] + [5 * 10**8 / 9] * 9, base, rank_error=0.0133).verdict == "warn"


def test_holm_is_stricter_with_more_tests():
    """The least p value against the level by all tests, the next by one fewer, and none after the first that fails."""
    assert holm({"a": 0.004}, level=0.005) == {"a"}
    assert holm({"a": 0.004, "b": 0.5}, level=0.005) == frozenset()
    assert holm({"a": 0.001, "b": 0.002, "c": 0.02}, level=0.01) == {"a", "b"}
    assert holm({"a": 0.006, "b": 0.006}, level=0.01) == frozenset()
    assert holm({"a": 0.004, "b": None, "c": math.nan}, level=0.005) == {"a"}
    assert holm({}, level=0.01) == frozenset()


def test_one_of_many_columns_is_no_drift_by_chance():
    """The verdict changes, the figures stay, and what is certain remains."""
    barely = Drift(verdict="warn", reason="b", p_value=0.004, effect=0.1)
    found = {"barely": barely, "certain": Drift(verdict="warn", p_value=1e-9), "none": Drift(verdict="unknown")}
    found |= {f"ok {n}": Drift(verdict="ok", p_value=0.5) for n in range(20)}
    settled = correct(found)
    assert {name: each.verdict for name, each in settled.items() if each.verdict != "ok"} == {
        "certain": "warn",
        "none": "unknown",
    }
    assert settled["barely"].reason == "a difference by chance: one of 23 looked at"
    assert settled["barely"].p_value == 0.004


@given(ENOUGH, st.data())
def test_the_two_samples_may_change_places(new, data):
    """Statistic, p value and effect are of the difference."""
    base = data.draw(st.lists(st.integers(300, 10_000), min_size=len(new), max_size=len(new)))
    there, back = drift_of_bins(new, base), drift_of_bins(base, new)
    assert there.verdict == back.verdict
    assert verdict_and_effect(there)[1:] == pytest.approx(verdict_and_effect(back)[1:])


@given(ENOUGH, st.integers(1, 1_000), st.integers(1, 1_000))
def test_the_same_shares_are_no_drift(counts, factor, other):
    """Whatever the numbers of rows of both."""
    found = drift_of_bins([factor * each for each in counts], [other * each for each in counts])
    assert (found.verdict, found.js) == ("ok", pytest.approx(0, abs=1e-12))
    assert found.p_value == pytest.approx(1)
    assert found.effect == pytest.approx(0, abs=1e-3)


@given(ENOUGH, st.data(), st.integers(2, 10**6))
def test_the_size_of_a_difference_does_not_depend_on_the_rows(new, data, factor):
    """With a factor of rows on both sides the divergence stays, and the p value falls."""
    base = data.draw(st.lists(st.integers(300, 10_000), min_size=len(new), max_size=len(new)))
    few, many = drift_of_bins(new, base), drift_of_bins([factor * n for n in new], [factor * n for n in base])
    assert many.js == pytest.approx(few.js, abs=1e-9)
    assert many.effect == pytest.approx(few.effect, rel=0.02, abs=1e-4)
    assert many.p_value <= few.p_value + 1e-12


@given(ENOUGH, st.data(), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_shift_is_never_less_of_a_drift(base, data, one, other):
    """On the way from one distribution to another, statistic, PSI and divergence rise."""
    away = data.draw(st.lists(st.integers(300, 10_000), min_size=len(base), max_size=len(base)))
    scaled = [each * sum(base) / sum(away) for each in away]
    near, far = [
        drift_of_bins([b + part * (s - b) for b, s in zip(base, scaled, strict=True)], base)
        for part in sorted((one, other))
    ]
    for figure in ("statistic", "effect", "js"):
        assert getattr(near, figure) <= getattr(far, figure) + 1e-9
    assert (near.verdict, far.verdict) != ("warn", "ok")


@given(st.permutations(range(8)), st.lists(st.integers(0, 2_000), min_size=16, max_size=16))
def test_the_names_and_their_order_say_nothing(order, counts):
    """Categories may be read in any order."""
    new, base = dict(enumerate(counts[:8])), dict(enumerate(counts[8:]))
    mixed = drift_of_categories({n: new[n] for n in order}, {n: base[n] for n in order})
    assert mixed == drift_of_categories(new, base)


@pytest.mark.parametrize("rows", [500, 2_000, 100_000])
@pytest.mark.parametrize(
    "weights",
    [[1] * 10, [900, 50, 30, 10, 5, 3, 1, 0.5, 0.5], [1 / n for n in range(1, 400)]],
    ids=["equal", "skewed", "long tail"],
)
def test_false_alarms_are_rare_and_shifts_are_seen(rows, weights):
    """Of 300 samples without a drift 1 % at most is one, beyond chance of the count; of a shift by 25 %, all."""
    random = np.random.default_rng(7)
    usual = np.array(weights) / sum(weights)
    shifted = np.append(usual[:-1] * 0.75, usual[-1] * 0.75 + 0.25)

    def is_drift(now):
        samples = [random.multinomial(n, p).tolist() for n, p in ((rows, now), (20_000, usual))]
        return drift_of_bins(*samples).verdict == "warn"

    assert sum(is_drift(usual) for _ in range(300)) <= 7
    assert all(is_drift(shifted) for _ in range(20))


def test_a_test_against_a_baseline_taken_as_exact_cries_wolf():
    """Of 100,000 rows against 20,000, chi-square of one sample sees drifts where there are none; of two, none."""
    random = np.random.default_rng(1)
    wolves = 0
    for _ in range(50):
        new, base = random.multinomial(100_000, [0.1] * 10), random.multinomial(20_000, [0.1] * 10)
        wolves += chi2_sf(float(((new - 5 * base) ** 2 / (5 * base)).sum()), 9) < 0.01
        assert drift_of_bins(new.tolist(), base.tolist()).verdict == "ok"
    assert wolves > 40
