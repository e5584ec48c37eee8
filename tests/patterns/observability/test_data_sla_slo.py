"""Data SLA SLO."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.mail.episodes import follow
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.observability.data_sla_slo import Objective, measure_objective, severity_of
from dedp_assets.patterns.observability.sla_misses_detector import BatchTimes, measure_latency
from tests.contracts.known_calls import known_calls

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TABLE = "silver/orders"
FRESHNESS = Objective(name="freshness", metric="delay", table=TABLE, target=30 * 60, alert=45 * 60)
COMPLETENESS = Objective(
    name="completeness",
    metric="partition_rows",
    table=TABLE,
    target=0.8,
    alert=0.5,
    good_share=0.9,
    figure="newest",
    of_usual=True,
)


def delay(minutes, ago=0.0, **more):
    value = None if minutes is None else 60.0 * minutes
    stated = {"metric": "delay", "table": TABLE, "verdict": "ok" if value is not None else "fail", "unit": "s", **more}
    return Measurement(at=NOW - ago * HOUR, value=value, **stated)


def rows(share, day, ago=0.0, usual=1_000_000):
    return Measurement(
        metric="partition_rows", table=TABLE, at=NOW - ago * HOUR, verdict="ok", partition=day, value=share * usual,
        unit="rows", target=usual,
    )  # fmt: skip


def measure(*history, objective=FRESHNESS, now=NOW):
    found = measure_objective(history, now, objective=objective)
    return {each.metric.removeprefix(f"{objective.name}_"): each for each in found.measurements}


def severity(*history, objective=FRESHNESS, now=NOW):
    return severity_of(measure_objective(history, now, objective=objective))


@pytest.mark.parametrize(
    ("minutes", "verdict", "expected"),
    [(10, "ok", ""), (30, "ok", ""), (40, "warn", "P3"), (45, "warn", "P3"), (50, "fail", "P2")],
)
def test_a_constant_delay_is_reported_as_itself_and_has_the_severity_of_its_bound(minutes, verdict, expected):
    """Ten minutes over a day is a P95 of ten minutes, and not the age of the oldest event of the day."""
    events = [NOW - n * HOUR for n in range(24)]
    batches = [
        BatchTimes(
            event_at=at, started_at=at + minutes * timedelta(minutes=1), written_at=at + minutes * timedelta(minutes=1)
        )
        for at in events
    ]
    limits = {"event_within_seconds": 3600, "processing_within_seconds": 60, "table": TABLE}
    measured = [measure_latency([each], each.written_at, **limits).measurements[2] for each in batches]
    objective = Objective(name="freshness", metric="event_latency_p95", table=TABLE, target=30 * 60, alert=45 * 60)
    now = NOW + HOUR
    figure = measure(*measured, objective=objective, now=now)["figure"]
    assert (figure.value, figure.unit, figure.target, figure.at_most) == (60 * minutes, "s", 1800, 2700)
    assert (figure.verdict, severity(*measured, objective=objective, now=now)) == (verdict, expected)
    assert figure.reason[:2] == expected


@pytest.mark.parametrize(("share", "expected"), [(0.8, ""), (0.79, "P3"), (0.5, "P3"), (0.49, "P2")])
@pytest.mark.parametrize("usual", [1_000, 10**9])
def test_a_day_with_too_few_rows_alarms_however_large_the_table(share, expected, usual):
    """The rows of the newest day count, against the usual day."""
    earlier = [rows(1, f"2026-01-{day:02}", ago=24 * (20 - day), usual=usual) for day in range(1, 20)]
    today = rows(share, "2026-01-20", usual=usual)
    found = measure(*earlier, today, objective=COMPLETENESS)
    assert (found["figure"].value, found["figure"].reason[:2]) == (pytest.approx(share), expected)
    assert (found["figure"].at_least, found["figure"].at_most) == (0.5, None)


def test_a_breach_consumes_budget_and_the_window_rolls():
    """One bad measurement of 100 uses up the budget of 99 %, one of 200 half; after 30 days it is forgotten."""
    good = [delay(10, ago=n) for n in range(199)]
    bad = delay(40, ago=199)
    found = measure(*good, bad)
    assert (found["budget_left"].value, found["budget_left"].verdict) == (0.5, "ok")
    assert found["good_share"].value == pytest.approx(0.995)
    spent = measure(*good[:99], bad)
    assert (spent["budget_left"].value, spent["budget_left"].verdict) == (0.0, "warn")
    assert spent["budget_left"].reason == (
        "P3: the error budget of 30 days is used up: 1 of 100 measurements are bad, 0.01 of all may be"
    )
    assert spent["budget_left"].since == bad.at
    assert measure(*good[:99], bad, delay(40, ago=150))["budget_left"].value < 0
    later = NOW + 30 * DAY - 100 * HOUR
    assert measure(*good[:99], bad, now=later)["budget_left"].value == 1
    assert measure(*good, bad, now=NOW + 40 * DAY)["budget_left"].verdict == "unknown"


def test_a_budget_that_is_nearly_used_up_is_the_least_severity():
    """Below a quarter is P4: 4 of 500 bad ones leave a fifth, 3 leave two fifths."""
    good = [delay(10, ago=n) for n in range(30, 526)]
    bad = [delay(40, ago=n) for n in (526, 527, 528, 529)]
    found = measure(*good, *bad)["budget_left"]
    assert (found.value, found.verdict, found.since) == (pytest.approx(0.2), "warn", bad[0].at)
    assert found.reason.startswith("P4: the error budget of 30 days is used up but for 20%: 4 of 500")
    assert severity(*good, *bad) == "P4"
    assert severity(delay(10, ago=29), *good, *bad[:3]) == ""


def test_the_burn_rate_is_that_of_the_recent_measurements():
    """Two bad ones of twenty in the last day are ten times what 99 % allows; older ones count for the budget alone."""
    recent = [delay(40 if n < 2 else 10, ago=n) for n in range(20)]
    old = [delay(10, ago=n) for n in range(30, 330)]
    found = measure(*recent, *old)
    assert found["burn_rate"].value == pytest.approx(10)
    assert (found["burn_rate"].verdict, found["burn_rate"].target) == ("ok", 1)
    assert measure(*old)["burn_rate"].verdict == "unknown"


def test_an_outage_is_the_worst_severity_and_an_unknown_figure_is_none():
    """A failure without a figure: the table is not there. A detector that cannot judge says nothing about the table."""
    out = delay(None, reason="the table does not exist")
    found = measure(delay(10, ago=1), out)["figure"]
    assert (found.verdict, found.value, found.reason) == ("fail", None, "P1: the table does not exist")
    assert found.since == NOW
    assert severity(delay(10, ago=1), out) == "P1"
    assert severity(delay(None, ago=1), delay(10)) == "P3"  # it is over, and used up the budget
    for nothing in ([], [delay(None, verdict="unknown")], [delay(10, metric="other")], [delay(10, table="other")]):
        found = measure(*nothing)
        assert {each.verdict for each in found.values()} == {"unknown"}
        assert severity(*nothing) == ""
    assert measure()["figure"].reason == "nothing was measured of late"


def test_a_breach_is_one_episode_however_often_it_is_measured():
    """Measured every hour of a breach of six hours: raised once, cleared once."""
    objective = Objective(
        name="freshness", metric="delay", table=TABLE, target=1800, alert=2700, figure="newest", good_share=0.5
    )
    history, episodes, sinces = [], {}, set()
    for hour in range(24):
        now = NOW + hour * HOUR
        history.append(delay(50 if 12 <= hour < 18 else 10, ago=-hour))
        found = measure_objective(history, now, objective=objective)
        sinces |= {each.since for each in found.troubles}
        alerts = [
            Trouble(kind=each.metric, table=each.table, figure=each.figure, source="platform")
            for each in found.troubles
        ]
        for episode in follow(list(episodes.values()), alerts, now):
            episodes[episode.id] = episode
    (episode,) = episodes.values()
    assert (episode.since, episode.ended) == (NOW + 12 * HOUR, NOW + 18 * HOUR)
    assert sinces == {NOW + 12 * HOUR}


def test_a_trouble_began_with_the_first_bad_measurement_after_the_last_good_one():
    """Also before the recent hours; of scattered bad ones with the first recent one."""
    lasting = [delay(50, ago=n) for n in range(48)]
    assert measure(*lasting, delay(10, ago=48))["figure"].since == NOW - 47 * HOUR
    scattered = [delay(50 if n % 2 else 10, ago=n) for n in range(48)]
    assert measure(*scattered)["figure"].since == NOW - 23 * HOUR


def test_a_partition_counts_once_however_often_it_was_measured():
    """By its newest measurement; of the whole table each time counts, and a repeated one does not count twice."""
    often = [rows(0.4, "2026-01-19", ago=n) for n in range(1, 20)]
    repaired = rows(1, "2026-01-19")
    others = [rows(1, f"2026-01-{day:02}", ago=24 * (20 - day)) for day in range(1, 10)]
    found = measure(*often, repaired, *others, objective=COMPLETENESS)
    assert (found["good_share"].value, found["figure"].value) == (1, 1)
    assert measure(*often, *others, objective=COMPLETENESS)["good_share"].value == 0.9
    once, twice = measure(delay(10), delay(40, ago=1)), measure(delay(10), delay(40, ago=1), delay(40, ago=1))
    assert once == twice


def test_a_share_of_the_usual_value_needs_a_usual_value():
    """A first day has none, and zero rows as usual make no share; they count as nothing."""
    first = Measurement(metric="partition_rows", table=TABLE, at=NOW, verdict="ok", partition="x", value=5)
    zero = Measurement(metric="partition_rows", table=TABLE, at=NOW, verdict="ok", partition="y", value=5, target=0)
    assert measure(first, zero, objective=COMPLETENESS)["figure"].verdict == "unknown"


def test_most_values_keep_the_present_figure_on_either_side():
    """Of 1 to 20: P95 is 19 where low is good, and 2 where high is good."""
    values = [delay(n / 60, ago=n / 2) for n in range(1, 21)]
    low = Objective(name="low", metric="delay", table=TABLE, target=100, alert=200)
    high = Objective(name="high", metric="delay", table=TABLE, target=0.5, alert=0.1)
    assert measure(*values, objective=low)["figure"].value == pytest.approx(19)
    assert measure(*values, objective=high)["figure"].value == pytest.approx(2)


def test_the_worst_severity_of_several_objectives_counts():
    """And what is no trouble, or no objective's, has none."""
    found = measure_objective([delay(40)], NOW, objective=FRESHNESS)
    other = measure_objective([rows(0.1, "x")], NOW, objective=COMPLETENESS)
    assert severity_of(found + other) == "P2"
    assert severity_of(Measured()) == ""
    assert severity_of(Measured((delay(None, reason="P9: no severity"),))) == ""


HISTORY = st.lists(st.tuples(st.sampled_from([None, 10, 40, 50]), st.integers(-5, 800)), max_size=30)


@given(HISTORY, st.sampled_from([0.5, 0.9, 0.99]))
def test_severities_figures_and_verdicts_agree_on_any_history(stated, share):
    """Fail is P1 or P2, warn P3 or P4; shares and rates alert nobody; a worse history never has more budget."""
    objective = Objective(name="freshness", metric="delay", table=TABLE, target=1800, alert=2700, good_share=share)
    history = [delay(minutes, ago=ago) for minutes, ago in stated]
    found = measure(*history, objective=objective)
    assert all(found[name].verdict in ("ok", "unknown") for name in ("good_share", "burn_rate"))
    for each in found.values():
        expected = {"fail": ("P1", "P2"), "warn": ("P3", "P4")}.get(each.verdict, ("",))
        assert (each.reason[:2] if each.is_trouble else "") in expected
        assert (each.since is not None) == each.is_trouble
    worse = measure(*history, delay(50, ago=0.5), objective=objective)
    if found["budget_left"].value is not None:
        assert worse["budget_left"].value <= found["budget_left"].value
    assert measure(*history, *history, objective=objective) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alert": 1800}, "alert must be above the target or below it, not 1800 like the target"),
        ({"good_share": 1.0}, "good_share must be above 0 and below 1, not 1"),
        ({"recent_hours": 0}, "recent_hours must be above 0 and within the window, not 0"),
        ({"recent_hours": 800}, "recent_hours must be above 0 and within the window, not 800"),
        ({"name": ""}, "an objective must have a name, a metric and a table"),
        ({"target": "30 min"}, "Objective.target must be a number, not '30 min'"),
        ({"figure": "mean"}, "Objective.figure must be p95 or newest, not 'mean'"),
    ],
)
def test_an_objective_that_cannot_be_measured_is_refused(change, message):
    """By the name of the field."""
    stated = {"name": "freshness", "metric": "delay", "table": TABLE, "target": 1800, "alert": 2700}
    with pytest.raises(ConfigError, match=re.escape(message)):
        Objective(**{**stated, **change})


@known_calls
def calls_that_work(known):
    late = Measurement(metric="pipeline_seconds", table="silver/daily", at=NOW, verdict="fail")
    return {"severity_of": {"measured": Measured((late,))}}
