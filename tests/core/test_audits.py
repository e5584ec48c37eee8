"""Audits: bounds on measured figures, and what a person may overrule."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit, judge, overrule, summary, verdict
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Finding

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
bounds = st.none() | numbers


@given(numbers, bounds, bounds, bounds, bounds)
def test_an_audit_passes_exactly_within_its_bounds(value, fail_below, fail_above, warn_below, warn_above):
    """A figure on a bound passes; beyond a fail bound it refuses, beyond a warn bound alone it warns."""
    given_bounds = {
        "fail_below": fail_below,
        "fail_above": fail_above,
        "warn_below": warn_below,
        "warn_above": warn_above,
    }
    if all(bound is None for bound in given_bounds.values()):
        given_bounds["fail_above"] = value
        fail_above = value
    found = Audit(name="a", of="x", **given_bounds).judge({"x": value})

    def beyond(low, high):
        return (low is not None and value < low) or (high is not None and value > high)

    fails, warns = beyond(fail_below, fail_above), beyond(warn_below, warn_above)
    assert found.passed is not (fails or warns)
    assert found.refuses is fails
    assert bool(found.note) is not found.passed


@given(numbers, st.integers(1, 10**6), numbers)
def test_a_ratio_is_judged_as_the_quotient(value, base, bound):
    """`per` divides, and the ratio is among the figures."""
    found = Audit(name="a", of="x", per="y", fail_above=bound).judge({"x": value, "y": base})
    assert found.figures == {"x": value, "y": base, "ratio": float(value) / base}
    assert found.passed is (float(value) / base <= bound)


@pytest.mark.parametrize(
    ("value", "base", "refuses"),
    [
        (math.inf, 1, True),
        (-math.inf, 1, True),
        (math.nan, 1, True),
        pytest.param(10**400, 1, True, id="huge"),
        (Decimal("NaN"), 1, True),
        (5, math.nan, True),
        (math.inf, math.inf, True),
        pytest.param(5, 10**400, False, id="huge base"),
    ],
)
def test_a_figure_without_end_lies_beyond_every_bound(value, base, refuses):
    """And of what is no number nothing is known, so that it is refused, alone and as a ratio."""
    audit = Audit(name="a", of="x", per="y", fail_above=9, fail_below=-9)
    assert audit.judge({"x": value, "y": base}).refuses is refuses
    assert base != 1 or Audit(name="a", of="x", fail_above=9, fail_below=-9).judge({"x": value}).refuses


@pytest.mark.parametrize("base", [None, 0])
def test_without_history_a_ratio_passes_and_says_so(base):
    """The first batch has nothing to be compared with."""
    found = Audit(name="a", of="x", per="y", fail_above=0).judge({"x": 5, "y": base})
    assert (found.passed, found.note) == (True, "no y to compare with")


def test_a_ratio_to_a_figure_nobody_measured_fails():
    """A misspelled base switches no guard off: it differs from a history that is known to be empty."""
    found = Audit(name="a", of="x", per="present", fail_above=0).judge({"x": 5})
    assert (found.refuses, found.note) == (True, "nobody measured present")


@pytest.mark.parametrize("field", ["name", "of", "per"])
def test_a_name_of_the_librarys_own_is_refused(field):
    """Internal figures can be neither judged nor shadowed."""
    with pytest.raises(ConfigError, match="uses the name __Dedp_outside"):
        Audit(**{"name": "a", "of": "x", "fail_above": 0, field: "__Dedp_outside"})


def test_a_figure_nobody_measured_fails():
    """A misspelled figure does not pass unnoticed."""
    found = Audit(name="a", of="x", fail_above=0).judge({"z": 0})
    assert (found.refuses, found.note) == (True, "the figure was not measured")


def test_a_figure_that_is_no_number_does_not_pass():
    """NaN compares with nothing, which must not read as within the bounds."""
    assert not Audit(name="a", of="x", fail_below=0, fail_above=10).judge({"x": math.nan}).passed


def test_all_rules_are_judged_so_that_one_run_names_every_problem():
    """The summary names each refusal with its figures and leaves out what passed or only warned."""
    rules = [
        Audit(name="few_dead", of="dead", per="read", fail_above=0.1),
        Audit(name="enough", of="read", fail_below=100),
        Audit(name="no_duplicates", of="duplicates", warn_above=0),
        Audit(name="some", of="read", fail_below=1),
    ]
    findings = judge(rules, {"dead": 5, "read": 10, "duplicates": 1})
    assert [f.passed for f in findings] == [False, False, False, True]
    assert summary(findings) == ("few_dead: above 0.1 (dead=5, read=10, ratio=0.5); enough: below 100 (read=10)")


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"of": "read"}, "audit a has no bound"), ({"fail_above": 0}, "audit a measures nothing")],
)
def test_an_audit_that_can_never_fail_is_refused(fields, words):
    """A rule without bound or without figure is a mistake of the caller."""
    with pytest.raises(ConfigError, match=words):
        Audit(name="a", **fields)


def test_none_where_counts_the_rows_at_fault():
    """One such row refuses the batch, and the predicate stays available for samples."""
    rule = Audit.none_where("nobody_is_negative", "amount < 0", approvable=True)
    assert (rule.figure, rule.where, rule.sql) == ("nobody_is_negative", "amount < 0", "count_if(amount < 0)")
    assert rule.judge({"nobody_is_negative": 0}).passed
    assert rule.judge({"nobody_is_negative": 1}).refuses


def test_an_approval_turns_refusals_into_warnings_that_name_the_person():
    """Only approvable refusals change; passed ones and the others stay as they are."""
    findings = [
        Finding("passes", passed=True, approvable=True),
        Finding("hard", passed=False),
        Finding("soft", passed=False, approvable=True, note="above 3"),
    ]
    passes, hard, soft = overrule(findings, Approval("ada", "holiday"))
    assert (passes, hard) == tuple(findings[:2])
    assert (soft.refuses, soft.passed, soft.approved_by) == (False, False, "ada")
    assert soft.note == "above 3; approved by ada: holiday"
    assert overrule(findings, None) == tuple(findings)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], "none"),
        ([Finding("a", passed=True)], "passed"),
        ([Finding("a", passed=True), Finding("b", passed=False, severity="warn")], "warned"),
        ([Finding("b", passed=False, severity="warn"), Finding("c", passed=False, approved_by="ada")], "approved"),
    ],
)
def test_the_verdict_says_the_strongest_thing_about_published_rows(findings, expected):
    """None, passed, warned or approved."""
    assert verdict(findings) == expected


def test_what_was_read_is_all_counted():
    """A sum over a column, or over an expression, that lacks or doubles a row read refuses the rows."""
    counted = Audit.all_read("every_visit_is_counted", "my views")
    assert counted.measure == "coalesce(sum(`my views`), 0)"
    assert Audit.all_read("pages", "shown", "size(pages)").measure == "coalesce(sum(size(pages)), 0)"
    verdicts = {total: counted.judge({"my views": total, "read": 3}).passed for total in (0, 2, 3, 4)}
    assert verdicts == {0: False, 2: False, 3: True, 4: False}
