"""Exclusive Choice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.flow.exclusive_choice import Choice, Router, Rule, plan_branch

MIGRATION = (Rule("legacy", before="2024-01-01"), Rule("modern", since="2024-01-01"))
FIRST = date(2023, 12, 1)
DAYS = st.integers(0, 90).map(lambda n: (FIRST + timedelta(days=n)).isoformat())


def test_the_boundary_day_belongs_to_the_branch_that_begins_there():
    """``before`` is exclusive and ``since`` inclusive: no day is left open, and none goes to both."""
    days = ["2023-12-30", "2023-12-31", "2024-01-01", "2024-01-02"]
    legacy, modern = (plan_branch(days, rules=MIGRATION, branch=name) for name in ("legacy", "modern"))
    assert legacy.partitions == ("2023-12-30", "2023-12-31")
    assert modern.partitions == ("2024-01-01", "2024-01-02")
    assert legacy.held.keys() == modern.causes.keys()


def test_the_reason_is_the_condition_and_the_value():
    """Of the partitions that are chosen and of those that are not, with the branch that they belong to."""
    plan = plan_branch(["2023-12-31", "2024-01-01"], rules=MIGRATION, branch="modern")
    assert plan.causes == {"2024-01-01": "2024-01-01: since 2024-01-01"}
    assert plan.held == {"2023-12-31": "legacy, 2023-12-31: before 2024-01-01"}
    assert plan.reason == "1 of 2 are modern"
    assert Router(MIGRATION).choose("2024-02-01") == Choice("modern", "since 2024-01-01", "2024-02-01")


def test_an_hour_belongs_to_the_branch_of_its_day():
    """A bound by day divides finer keys at the day's first hour."""
    hours = ["2023-12-31-23", "2024-01-01-00"]
    assert plan_branch(hours, rules=MIGRATION, branch="modern").partitions == ("2024-01-01-00",)


def test_every_kind_of_condition_chooses():
    """Lists and regular expressions as well as ranges, and several conditions of a rule together."""
    rules = [Rule("here", among=["de", "fr"]), Rule("test", matching="x-.*"), Rule("late", since="y", before="z")]
    router = Router(rules)
    assert [router.choose(key).branch for key in ("de", "x-1", "yy")] == ["here", "test", "late"]
    assert router.choose("fr").condition == "one of de, fr"
    assert router.choose("yy").condition == "since y and before z"


def test_a_fact_of_the_partition_chooses_the_writer():
    """By the format of a delivery, say; a format that no rule knows is an error and no silent nothing."""
    rules = [Rule("text", of="format", among=["csv"]), Rule("table", of="format", among=["delta"])]
    plan = plan_branch({"a": {"format": "csv"}, "b": {"format": "delta"}}, rules=rules, branch="table")
    assert plan.causes == {"b": "delta: format one of delta"}
    with pytest.raises(ConfigError, match="true of c with format xml, not none"):
        plan_branch({"c": {"format": "xml"}}, rules=rules, branch="table")
    with pytest.raises(ConfigError, match="the facts of c must have format"):
        plan_branch(["c"], rules=rules, branch="table")


def test_a_partition_without_a_rule_is_an_error_that_names_it():
    """With the rules that were tried."""
    rules = [Rule("legacy", before="2024-01-01"), Rule("modern", since="2024-01-02")]
    with pytest.raises(ConfigError, match=r"2024-01-01, not none \(legacy: before 2024-01-01; modern: since"):
        plan_branch(["2023-12-31", "2024-01-01"], rules=rules, branch="modern")


OVERLAPPING = [
    (Rule("a", before="2024-01-02"), Rule("b", since="2024-01-01")),
    (Rule("a", before="2024-01-01"), Rule("b", before="2023-01-01")),
    (Rule("a", since="2023", before="2025"), Rule("b", since="2024", before="2026")),
    (Rule("a", among=["x", "y"]), Rule("b", among=["y"])),
    (Rule("a", among=["2024-01-05"]), Rule("b", since="2024-01-01")),
    (Rule("a", among=["x1"]), Rule("b", matching="x.")),
    (Rule("a", since="2024-01-01"), Rule("b", since="2024-01-01", matching=r"\d{4}-.*")),
]


@pytest.mark.parametrize(("one", "other"), [*OVERLAPPING, *((b, a) for a, b in OVERLAPPING)])
def test_rules_that_overlap_are_refused_where_they_are_stated(one, other):
    """Ranges, lists, and regular expressions as far as a list or a bound shows it."""
    with pytest.raises(ConfigError, match=r"rules must not overlap, as [ab] .* and [ab] "):
        Router([one, other])


def test_an_overlap_that_nothing_shows_is_an_error_at_the_partition():
    """Two regular expressions, or conditions on two facts."""
    for rules in (
        [Rule("a", matching="x.*"), Rule("b", matching=".*y")],
        [Rule("a", since="x"), Rule("b", of="format", among=["csv"])],
    ):
        with pytest.raises(ConfigError, match="true of xy with format csv, not 2"):
            plan_branch({"xy": {"format": "csv"}}, rules=rules, branch="a")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "branch a must have a condition"),
        ({"before": "2024", "since": "2024"}, "before must lie after since, 2024, not be 2024"),
        ({"matching": "("}, r"matching must be a regular expression, not '\('"),
        ({"since": "x", "of": ""}, "branch and of must be names"),
        ({"since": 2024}, "Rule.since must be a text, not 2024"),
    ],
)
def test_a_rule_that_can_never_work_is_refused(options, text):
    """By the option's name."""
    with pytest.raises(ConfigError, match=text):
        Rule("a", **options)


def test_a_router_names_two_branches_and_plans_one_of_them():
    """One branch is no choice, and a branch that no rule names would run nothing for ever."""
    with pytest.raises(ConfigError, match="rules must name two branches or more, not a"):
        Router([Rule("a", since="x")])
    with pytest.raises(ConfigError, match="branch must be one of legacy, modern, not 'moderne'"):
        plan_branch([], rules=MIGRATION, branch="moderne")


def test_a_key_in_another_form_than_the_bounds_is_refused():
    """As texts, 2024-1-2 lies after 2024-01-10, and 31.12.2023 after both."""
    for key in ("2024-1-2", "31.12.2023", "20240102"):
        with pytest.raises(ConfigError, match=f"key must be written like 2024-01-01, .*, not {re.escape(key)}"):
            plan_branch([key], rules=MIGRATION, branch="modern")


def test_keys_are_read_once_and_planned_in_their_order():
    """An iterator is enough, and who plans decides on the order."""
    keys = iter(["2024-01-03", "2024-01-01", "2023-12-01"])
    assert plan_branch(keys, rules=MIGRATION, branch="modern").partitions == ("2024-01-03", "2024-01-01")


DECIDED = """
import json, sys
from dedp_assets.patterns.flow.exclusive_choice import Rule, plan_branch
rules = [Rule("legacy", before="2024-01-01"), Rule("modern", since="2024-01-01")]
keys = [f"2024-01-{n % 28 + 1:02d}-{n:05d}" for n in range(10_000)]
seen = []
watched = ("open", "os.", "import", "socket.", "subprocess.")
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith(watched) else None)
plan = plan_branch(keys, rules=rules, branch="modern")
known = [*seen]
open(sys.executable).close()
print(json.dumps([len(plan.partitions), known, seen[len(known):]]))
"""


def test_a_decision_loads_no_engine_and_opens_no_file():
    """Ten thousand partitions whose data nobody has are routed by their names, in a process that watches itself."""
    # A process of its own: nobody can remove an audit hook again.
    command = [sys.executable, "-c", DECIDED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [10_000, [], ["open"]], "the last one is a file that the watch has to see"


def model(key, bounds):
    """The branch of a day by a plain count of the bounds up to it."""
    return f"branch {sum(bound <= key for bound in bounds)}"


@given(
    bounds=st.lists(DAYS, min_size=1, max_size=5, unique=True).map(sorted),
    keys=st.lists(DAYS, max_size=30, unique=True),
)
def test_ranges_choose_as_a_plain_model_does(bounds, keys):
    """Each key goes to exactly one branch, whatever the bounds are and however the keys lie."""
    edges = ["", *bounds, ""]
    rules = [Rule(f"branch {n}", since=edges[n], before=edges[n + 1]) for n in range(len(bounds) + 1)]
    plans = {name: plan_branch(keys, rules=rules, branch=name) for name in Router(rules).branches}
    assert {key: name for name, plan in plans.items() for key in plan.partitions} == {k: model(k, bounds) for k in keys}
    assert sum(len(plan.partitions) for plan in plans.values()) == len(keys)
    assert all({*plan.partitions} | plan.held.keys() == {*keys} for plan in plans.values())


@given(st.data())
def test_a_router_is_refused_exactly_if_two_ranges_or_lists_share_a_text(data):
    """Held against every day there is; what is refused at the definition would have met at a partition."""
    universe = [(FIRST + timedelta(days=n)).isoformat() for n in range(12)]
    day = st.sampled_from(universe)
    ranged = st.builds(lambda a, b: {"since": min(a, b), "before": max(a, b)}, day, day)
    options = st.one_of(
        ranged.filter(lambda each: each["since"] < each["before"]),
        st.builds(lambda d: {"since": d}, day),
        st.builds(lambda d: {"before": d}, day.filter(lambda d: d != universe[0])),
        st.builds(lambda d: {"among": d}, st.lists(day, min_size=1, max_size=3)),
    )
    one, other = Rule("a", **data.draw(options)), Rule("b", **data.draw(options))
    meets = any(one.holds(text) and other.holds(text) for text in ["", *universe])
    if meets:
        with pytest.raises(ConfigError, match="must not overlap"):
            Router([one, other])
    else:
        assert Router([one, other]).branches == ("a", "b")
