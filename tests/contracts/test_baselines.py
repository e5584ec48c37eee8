"""Baselines: what was judged bad is no measure for what follows, wherever something is held against the past.

Each baseline of the library judges a series of entries, of which each is good (0) or bad (1). A baseline that is added
gets a line in ``BASELINES``; ``test_every_baseline_counts_by_the_same_rule`` fails for a module that keeps a median of
its own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.checks.null_shares import NullCounts, judge_null_shares
from dedp_assets.graph.declare.defaults import USUAL_NULLS, USUAL_VOLUME
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.measuring.activity import Activity, PartitionSize
from dedp_assets.patterns.core.measuring.expected_values import expected
from dedp_assets.patterns.core.measuring.profiles import Profile
from dedp_assets.patterns.core.measuring.usual import Baseline, reach
from dedp_assets.patterns.core.parsing.field_census import FieldCensus, FieldFigures
from dedp_assets.patterns.core.parsing.field_changes import measure_fields
from dedp_assets.patterns.delta import Ledger, audits_of_usual
from dedp_assets.patterns.observability.skew_detector import detect_skew
from dedp_assets.patterns.quality.offline_observer import judge_profile
from tests.core.measuring.test_profiles import state
from tests.helpers import a_record, write_log

FIRST = date(2026, 1, 5)
NOW = datetime(2027, 1, 1, tzinfo=timezone.utc)
LEVEL = 7
"""Most bad entries in a row that a baseline takes for a fault and not for a new level."""

Series = Sequence[int]
Judge = Callable[[Series], bool]
"""Function that returns whether the last entry of a series is found to be bad."""


def day(number: int) -> str:
    return (FIRST + timedelta(days=number)).isoformat()


def of_values(series: Series, *, every: int = 1, **rule: object) -> bool:
    """By rows of days; with ``every`` 7, each entry is a week of which the last day is judged."""
    days = [value for each in series for value in [0] * (every - 1) + [each]]
    history = {day(number): 100.0 if bad else 1000.0 for number, bad in enumerate(days)}
    key, baseline = day(len(days) - 1), Baseline(**rule)
    return expected(history, key, baseline=baseline).verdict(history[key]) == "fail"


def of_hours(series: Series) -> bool:
    """By rows of hours: each entry is a day, of which one hour is bad."""
    history = {
        f"{day(number)}-{hour:02d}": 100.0 if bad and hour == 13 else 1000.0
        for number, bad in enumerate(series)
        for hour in range(24)
    }
    key = f"{day(len(series) - 1)}-13"
    return expected(history, key, baseline=Baseline(season="hour", last=8)).verdict(history[key]) == "fail"


def of_sizes(series: Series) -> bool:
    """By a table's log, with the limits of the check of every table."""
    sizes = {day(n): PartitionSize(rows=100 if bad else 1000, size=1, files=1) for n, bad in enumerate(series)}
    measured = detect_skew(Activity(table="a/b", partitions=sizes), NOW, baseline=USUAL_VOLUME)
    return measured.verdict == "fail"


def of_nulls(series: Series) -> bool:
    """By the statistics of the log."""
    counts = {day(n): NullCounts(1000, {"user": 900 if bad else 10}) for n, bad in enumerate(series)}
    return not judge_null_shares(counts, limits=USUAL_NULLS).passed


def of_fields(series: Series, *, bad: FieldFigures) -> bool:
    """By the fields of a source."""
    good = FieldFigures({"string": 1000})
    censuses = [FieldCensus(1000, declared={"user": bad if each else good}) for each in series]
    *earlier, newest = censuses
    measured = measure_fields("a/b", NOW, partition=day(len(series)), census=newest, earlier=earlier[::-1])
    return bool(measured.troubles)


@cache
def profile(values: tuple[object, ...], kind: str, nans: int = 0) -> Profile:
    return Profile({"a": replace(state(list(values), column="a", kind=kind), nans=nans)})


def of_profiles(series: Series, *, metric: str, good: Sequence[object], bad: Sequence[object], kind: str) -> bool:
    """By profiles of a column."""
    profiles = [profile(tuple(bad if each else good), kind) for each in series]
    *history, newest = profiles
    measured = judge_profile(newest, history, NOW, table="a/b")
    return metric in {each.metric for each in measured.troubles}


def of_nans(series: Series) -> bool:
    """By profiles of a floating point column."""
    *history, newest = [profile((1.0,) * 600, "DOUBLE", 300 if bad else 0) for bad in series]
    troubles = judge_profile(newest, history, NOW, table="a/b").troubles
    return "not_finite_share.a" in {each.metric for each in troubles}


def of_columns(series: Series) -> bool:
    """By the columns of profiles."""
    whole = Profile({name: state(["x"] * 600, column=name, kind="STRING") for name in "ab"})
    *history, newest = [Profile({"a": whole.columns["a"]}) if bad else whole for bad in series]
    return "schema_changes" in {each.metric for each in judge_profile(newest, history, NOW, table="a/b").troubles}


def of_commits(series: Series, *, root: Path, is_whole: bool) -> bool:
    """By the commits of a table: each write is judged by the ones before, and published with the verdict."""
    location, partition_by = root / "-".join(map(str, (is_whole, *series))), [] if is_whole else ["day"]
    audits, passed = {"duplicates_are_as_usual": "duplicates"}, True
    for number, bad in enumerate(series):
        partition, again = {"day": day(number)} if partition_by else {}, 300 if bad else 10
        rows = {"read": 1000, "written": 1000 - again, "dead": 0, "duplicates": again, "filtered": 0}
        usual = audits_of_usual(Ledger(location), audits, partition=partition or None, tolerance=0.05, severity="warn")
        finding = usual[0].judge(rows)
        passed, verdict = finding.passed, "passed" if finding.passed else "warned"
        record = a_record("a/b", partition, verdict=verdict, rows=rows, findings=[finding.as_dict()])
        write_log(location, {"id": "long", "day": "date"}, partition_by, [{"record": record}])
    return not passed


SHAPES = {
    "null_share.a": (["x"] * 600, ["x"] * 300 + [None] * 300, "STRING"),
    "distinct_values.a": ([f"{n % 300}" for n in range(600)], ["x"] * 600, "STRING"),
    "new_categories.a": (["x"] * 600, [f"{n % 10}" for n in range(600)], "STRING"),
    "share_shift.a": (["x"] * 500 + ["y"] * 100, ["x"] * 100 + ["y"] * 500, "STRING"),
    "distribution.a": (list(range(600)), [n + 5000 for n in range(600)], "BIGINT"),
}

BASELINES: dict[str, Judge] = {
    "rows": of_values,
    "rows, last 3": lambda series: of_values(series, last=3),
    "rows of a weekday": lambda series: of_values(series, every=7, season="weekday", last=8),
    "rows of an hour": of_hours,
    "sizes of partitions": of_sizes,
    "shares of NULL": of_nulls,
    "profile, not_finite_share.a": of_nans,
    "a field that is gone": lambda series: of_fields(series, bad=FieldFigures({}, absent=1000)),
    "a field of another type": lambda series: of_fields(series, bad=FieldFigures({"integer": 1000}, mistyped=1000)),
    "columns of a profile": of_columns,
    **{
        f"profile, {metric}": lambda series, m=metric, s=shape: of_profiles(
            series, metric=m, good=s[0], bad=s[1], kind=s[2]
        )
        for metric, shape in SHAPES.items()
    },
}


OF_COMMITS = {"shares of partitions": False, "shares of commits": True}
NAMES = [*BASELINES, *OF_COMMITS]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("logs")


def is_found(name: str, root: Path, series: Series) -> bool:
    return BASELINES[name](series) if name in BASELINES else of_commits(series, root=root, is_whole=OF_COMMITS[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_is_found_on_each_day_that_it_lasts_and_the_end_of_it_is_none(name, root):
    """The eighth bad day as the first one; the good day after it is as good as any before."""
    found = [is_found(name, root, [*[0] * 8, *[1] * number]) for number in range(1, LEVEL + 2)]
    assert found == [True] * (LEVEL + 1)
    for lasted in (1, LEVEL):
        assert not is_found(name, root, [*[0] * 8, *[1] * lasted, 0])


@pytest.mark.parametrize("name", NAMES)
def test_a_new_level_is_usual_at_last(name, root):
    """Nobody has to reset anything."""
    assert not is_found(name, root, [*[0] * 8, *[1] * 17])


@pytest.mark.parametrize("name", NAMES)
def test_two_faults_change_no_later_verdict(name, root):
    """Neither that of a good day nor that of a bad one."""
    series = [*[0] * 8, *[1] * 5, *[0] * 3, *[1] * 7, *[0] * 2]
    assert [is_found(name, root, [*series, last]) for last in (0, 1)] == [False, True]


@pytest.mark.parametrize("name", [name for name in BASELINES if "profile" not in name])
@given(st.lists(st.tuples(st.integers(0, LEVEL), st.integers(1, 8)), max_size=5), st.integers(0, 1))
def test_faults_of_the_past_change_no_verdict(name, faults, last):
    """However many there were, as long as good days lie between them."""
    series = [0] * 8
    for bad, good in faults:
        series += [1] * bad + [0] * good
    # As many as a season looks back at.
    assert BASELINES[name]([*series[: reach(LEVEL)], last]) == bool(last)


def test_every_baseline_counts_by_the_same_rule():
    """A median of earlier values stands in no module but those that keep to :class:`Counted`."""
    found = {}
    for path in sorted((CHECKOUT / "dedp_assets").rglob("*.py")):
        text = path.read_text()
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)] if "median(" in text else []
        if any(getattr(call.func, "id", "") == "median" for call in calls):
            found[str(path.relative_to(CHECKOUT / "dedp_assets"))] = "Counted" in text
    of_the_present = {
        "graph/reconcile/estimating.py",  # how long runs take, and how much they read, to tell of the next ones
        "patterns/flow/single_runner.py",  # how long runs take, to tell when they catch up
        "patterns/observability/_timing/clocks.py",  # how long a run takes, to tell which inputs came too late
        "patterns/observability/_lags/lag_totals.py",  # spread of one moment
        "patterns/observability/_timing/volumes.py",  # spread of one moment
        "patterns/quality/_profiles/profile_rules.py",  # of the states that a series counts
    }
    assert {path for path, counts in found.items() if not counts} == of_the_present
