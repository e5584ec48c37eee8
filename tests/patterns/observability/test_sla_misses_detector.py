"""SLA Misses Detector."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.observability._domino import reached_from
from dedp_assets.patterns.observability._timing.deadlines import first_moment
from dedp_assets.patterns.observability._timing.percentiles import nearest_rank
from dedp_assets.patterns.observability.sla_misses_detector import (
    BatchTimes,
    Due,
    TimedRun,
    at_risk,
    detect_sla_misses,
    measure_latency,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW

END = datetime(2026, 1, 6, tzinfo=timezone.utc)  # a Tuesday
SIX, MINUTE, HOUR, DAY = END + timedelta(hours=6), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
DEADLINE = SIX + 40 * MINUTE
DUE = Due("06:40", within_minutes=40)
BERLIN = "Europe/Berlin"


def a_run(outcome="running", *, partition="2026-01-05", ends_at=END, **more):
    started = {} if outcome == "not started" else {"started_at": SIX}
    return TimedRun(partition=partition, ends_at=ends_at, outcome=outcome, **{**started, **more})


def detect(*runs, at, due=DUE, **more):
    return detect_sla_misses(runs, at, due=due, table="gold/report", **more)


def verdicts(*runs, at, due=DUE, **more):
    return {each.metric: each.verdict for each in detect(*runs, at=at, due=due, **more).measurements}


@pytest.mark.parametrize(
    ("minutes", "running", "ended"),
    [(39, "ok", "ok"), (40, "fail", "ok"), (41, "fail", "fail")],
)
def test_a_run_of_39_minutes_is_silent_and_one_of_40_alerts_while_it_runs(minutes, running, ended):
    """A run that still runs at 40:00 has missed; one that ended then has not."""
    now = SIX + minutes * MINUTE
    assert verdicts(a_run(), at=now) == {"run_seconds": running, "pipeline_seconds": running}
    done = a_run("succeeded", ended_at=now)
    assert verdicts(done, at=now + MINUTE) == {"run_seconds": ended, "pipeline_seconds": ended}
    assert {each.since for each in detect(a_run(), at=now).troubles} <= {DEADLINE}


def test_a_failed_run_and_one_that_nobody_started_miss_the_deadline():
    """Neither says anything by itself; before the deadline somebody may still repair it."""
    failed, absent = a_run("failed", ended_at=SIX + 5 * MINUTE), a_run("not started")
    for run, state in ((failed, "the last attempt failed"), (absent, "no run has started")):
        assert not detect(run, at=DEADLINE - MINUTE).troubles
        miss = detect(run, at=DEADLINE + HOUR).troubles[-1]
        assert (miss.metric, miss.verdict, miss.since) == ("pipeline_seconds", "fail", DEADLINE)
        assert miss.reason == f"due at 2026-01-06 06:40 UTC, and {state}; no upstream table explains it"
    assert [each.metric for each in detect(absent, at=DEADLINE).measurements] == ["pipeline_seconds"]
    assert detect(failed, at=DEADLINE).troubles[0].reason == (
        "no attempt has succeeded within 40 min of the first start, and the last one failed"
    )


def test_a_table_with_a_duration_and_no_deadline_has_one_limit():
    """The clock from the end of the data is measured all the same."""
    due = Due(within_minutes=40)
    run, pipeline = detect(a_run(), at=SIX + 41 * MINUTE, due=due).measurements
    assert (run.verdict, pipeline.verdict, pipeline.value, pipeline.at_most) == ("fail", "ok", 24_060, None)
    (absent,) = detect(a_run("not started"), at=SIX, due=due).measurements
    assert absent.verdict == "ok"


def test_the_clock_of_the_task_is_apart_from_the_clock_of_the_pipeline():
    """A runs for 60 minutes, then B for 5: B kept its 40 minutes, the pipeline missed, and A is why."""
    a_end = SIX + 60 * MINUTE
    a = a_run("succeeded", ended_at=a_end, inputs_ready_at=END + HOUR, last_input="bronze/visits")
    b = a_run("succeeded", started_at=a_end, ended_at=a_end + 5 * MINUTE, inputs_ready_at=a_end, last_input="silver/a")
    now = a_end + 10 * MINUTE
    run, pipeline = detect(b, at=now).measurements
    assert (run.value, run.at_most, run.verdict) == (5 * 60, 40 * 60, "ok")
    assert (pipeline.value, pipeline.at_most, pipeline.verdict) == (7 * 3600 + 300, 6 * 3600 + 2400, "fail")
    assert pipeline.explained_by == "silver/a"
    assert [(each.metric, each.verdict, each.explained_by) for each in detect(a, at=now).measurements] == [
        ("run_seconds", "fail", ""),
        ("pipeline_seconds", "fail", ""),
    ]


@pytest.mark.parametrize(
    ("ready", "outcome", "cause"),
    [
        (END + HOUR, "running", ""),
        (SIX, "running", ""),
        (SIX + MINUTE, "running", "silver/visits"),
        (DEADLINE + HOUR, "succeeded", "silver/visits"),
        (None, "not started", "silver/visits"),
        (None, "failed", "silver/visits"),
        (END, "not started", ""),
        (None, "running", ""),
    ],
)
def test_a_miss_is_told_as_the_tables_own_or_as_upstreams(ready, outcome, cause):
    """Upstream's, if the inputs left less time than a run may take, or are still missing."""
    now = DEADLINE + 2 * HOUR
    ended = {"ended_at": now} if outcome == "succeeded" else {}
    run = a_run(outcome, inputs_ready_at=ready, last_input="silver/visits", **ended)
    miss = detect(run, at=now).troubles[-1]
    assert (miss.metric, miss.explained_by) == ("pipeline_seconds", cause)
    assert bool(cause) == ("silver/visits" in miss.reason)


def test_without_a_promised_duration_the_usual_one_tells_whose_miss_it_is():
    """The median of the other runs; a backfill's or the judged run's own duration counts for nothing."""
    due = Due("06:40")
    before = [
        a_run("succeeded", partition=f"{n}", ended_at=SIX + n * MINUTE, ends_at=END - n * DAY) for n in (10, 20, 90)
    ]
    before.append(a_run("succeeded", partition="b", ended_at=SIX + MINUTE, ends_at=END - DAY, is_backfill=True))
    late = a_run("succeeded", started_at=SIX + 21 * MINUTE, ended_at=SIX + 2 * HOUR, last_input="silver/visits")
    for minutes, cause in ((21, "silver/visits"), (19, "")):
        run = replace(late, inputs_ready_at=SIX + minutes * MINUTE)
        assert detect(*before, run, at=SIX + 3 * HOUR, due=due).troubles[-1].explained_by == cause
    # Nothing is known of other runs: inputs that came before the deadline were in time.
    alone = replace(late, inputs_ready_at=DEADLINE)
    assert detect(alone, at=SIX + 3 * HOUR, due=due).troubles[-1].explained_by == ""


def test_a_retry_counts_from_the_first_start():
    """An attempt of 35 minutes failed; the second one takes 10 and is late."""
    run = a_run("succeeded", started_at=SIX - 5 * MINUTE, ended_at=SIX + 40 * MINUTE)
    (miss,) = detect(run, at=DEADLINE + HOUR).troubles
    assert (miss.metric, miss.value, miss.reason) == (
        "run_seconds",
        45 * 60,
        "took 45 min from the first start, longer than 40 min",
    )


def test_an_early_warning_comes_at_a_share_of_the_window():
    """Of the run's 40 minutes, and of the 400 minutes from the end of the data to the deadline; then it fails."""
    due = replace(DUE, warn_at=0.8)
    early = a_run(started_at=END)
    assert verdicts(early, at=END + 31 * MINUTE, due=due) == {"run_seconds": "ok", "pipeline_seconds": "ok"}
    assert verdicts(early, at=END + 32 * MINUTE, due=due) == {"run_seconds": "warn", "pipeline_seconds": "ok"}
    absent = a_run("not started")
    assert verdicts(absent, at=END + 319 * MINUTE, due=due) == {"pipeline_seconds": "ok"}
    warning = detect(absent, at=END + 325 * MINUTE, due=due).measurements[0]
    assert (warning.verdict, warning.since) == ("warn", END + 320 * MINUTE)
    assert verdicts(absent, at=DEADLINE, due=due) == {"pipeline_seconds": "fail"}
    # What was delivered in time needs no warning, however close it was.
    done = a_run("succeeded", ended_at=SIX + 39 * MINUTE)
    assert detect(done, at=DEADLINE, due=due).verdict == "ok"


def test_a_backfill_of_old_partitions_does_not_miss_and_a_repair_by_backfill_does():
    """The backfill of last year runs today; yesterday's partition is repaired by a backfill two hours late."""
    old = a_run(partition="2025-01-05", ends_at=END - 365 * DAY, is_backfill=True)
    assert detect(old, at=SIX + 10 * HOUR).measurements == ()
    assert detect(replace(old, outcome="succeeded", ended_at=SIX + HOUR), at=SIX + 2 * HOUR).measurements == ()
    repair = a_run(started_at=DEADLINE + 2 * HOUR, is_backfill=True)
    assert detect(repair, at=DEADLINE + 3 * HOUR).verdict == "fail"
    nobody = a_run("not started", partition="2025-01-05", ends_at=END - 365 * DAY)
    assert detect(nobody, at=SIX).verdict == "fail"


def test_a_miss_is_measured_for_a_while_after_the_delivery_and_not_for_ever():
    """An alert ends; the last measurement of the partition stays a miss."""
    late = a_run("succeeded", ended_at=DEADLINE + HOUR)
    found = detect(late, at=DEADLINE + 25 * HOUR).troubles[-1]
    assert found.reason.startswith("delivered 60 min after 2026-01-06 06:40 UTC")
    assert detect(late, at=DEADLINE + 26 * HOUR).measurements == ()
    assert detect(late, at=DEADLINE + 2 * HOUR, recent_hours=0).measurements == ()


def test_a_partition_whose_data_goes_on_is_not_waited_for():
    """A run of today's partition may be too long, but nothing is due before the day has ended."""
    run = a_run(started_at=END - HOUR)
    assert verdicts(run, at=END - 10 * MINUTE) == {"run_seconds": "fail"}
    assert verdicts(a_run("not started"), at=END - MINUTE) == {}
    early = a_run("succeeded", started_at=END - HOUR, ended_at=END - 50 * MINUTE)
    run, pipeline = detect(early, at=END + HOUR).measurements
    assert (run.verdict, pipeline.verdict, pipeline.value) == ("ok", "ok", 0)


def test_a_delivery_whose_time_the_log_forgot_is_unknown():
    """It is neither late nor in time."""
    (found,) = detect(a_run("succeeded"), at=SIX).measurements
    assert (found.verdict, found.value) == ("unknown", None)
    assert found.reason == "2026-01-05 is there, and the log no longer tells since when"


@pytest.mark.parametrize(
    ("due", "end", "expected"),
    [
        (Due("06:40"), END, "2026-01-06 06:40"),
        (Due("00:00"), END, "2026-01-07 00:00"),
        (Due("06:40", days_after=2), END, "2026-01-08 06:40"),
        (Due("06:40", zone=BERLIN), END, "2026-01-06 05:40"),
        (Due("06:40", zone="America/New_York"), END, "2026-01-06 11:40"),
        (Due("06:40", zone=BERLIN), END + 180 * DAY, "2026-07-05 04:40"),
        (
            Due("06:40", weekdays=["monday", "tuesday", "wednesday", "thursday", "friday"]),
            END + 4 * DAY,
            "2026-01-12 06:40",
        ),
        (Due("06:40", weekdays=["tuesday"], holidays=[date(2026, 1, 6)]), END, "2026-01-13 06:40"),
        (Due("06:40", weekdays=["monday"], if_closed="none"), END, None),
        (Due("06:40", holidays=[date(2026, 1, 6)], if_closed="none"), END, None),
        (Due(within_minutes=5), END, None),
    ],
)
def test_a_deadline_is_the_first_such_time_after_the_data_on_an_open_day(due, end, expected):
    """In the zone of the clock, never before the data has ended; a weekend's or a holiday's moves on, or has none."""
    found = due.deadline(end)
    assert (f"{found:%Y-%m-%d %H:%M}" if found else None) == expected


def test_a_quiet_weekend_is_no_miss():
    """Friday's data, and that of the weekend, is due on Monday, which is a holiday: on Tuesday."""
    due = Due("06:40", weekdays=["monday", "tuesday", "wednesday", "thursday", "friday"], holidays=[date(2026, 1, 12)])
    quiet = [a_run("not started", partition=f"{n}", ends_at=END + n * DAY) for n in (4, 5, 6)]
    assert not detect(*quiet, at=END + 6 * DAY + 12 * HOUR, due=due).troubles
    assert len(detect(*quiet, at=END + 7 * DAY + 12 * HOUR, due=due).troubles) == 3
    never = replace(due, if_closed="none")
    assert not detect(*quiet, at=END + 30 * DAY, due=never).troubles


def test_a_time_that_does_not_exist_is_due_at_the_skip_and_one_that_exists_twice_at_the_first():
    """02:30 in Berlin: on the last Sunday in March clocks go from 02:00 to 03:00, in October back."""
    due = Due("02:30", zone=BERLIN)
    spring, autumn = (datetime(2026, *day, tzinfo=ZoneInfo(BERLIN)) for day in ((3, 29), (10, 25)))
    assert due.deadline(spring).isoformat() == "2026-03-29T01:00:00+00:00"
    assert due.deadline(autumn).isoformat() == "2026-10-25T00:30:00+00:00"
    assert due.shown(due.deadline(spring)) == "2026-03-29 03:00 CEST"


DAYS = st.dates(date(2026, 1, 1), date(2026, 12, 31))
CLOCKS = st.times().map(lambda each: each.replace(second=0, microsecond=0))
NEAR_CHANGES = st.sampled_from([date(2026, 3, 8), date(2026, 3, 29), date(2026, 10, 25), date(2026, 11, 1)])


@given(DAYS | NEAR_CHANGES, CLOCKS | st.just(time(2, 30)), st.sampled_from([BERLIN, "America/New_York"]))
def test_a_deadline_is_the_first_moment_at_which_clocks_show_that_time_or_a_later_one(day, clock, zone):
    """Over a year of two zones, whichever way they change their clocks."""
    local = ZoneInfo(zone)
    found = first_moment(day, clock, local)
    stated = datetime.combine(day, clock)

    def shown(moment):
        return moment.astimezone(local).replace(tzinfo=None)

    assert stated <= shown(found) < stated + timedelta(hours=1, minutes=1)
    assert all(shown(found - timedelta(seconds=back)) < stated for back in (1, 60, 1799, 3600, 7200))


@given(
    DAYS | NEAR_CHANGES,
    CLOCKS,
    st.sampled_from([BERLIN, "America/New_York", "UTC"]),
    st.sets(
        st.sampled_from(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]), min_size=1
    ),
    st.integers(0, 3),
)
def test_a_deadline_lies_after_the_data_and_on_an_open_day(day, clock, zone, weekdays, days_after):
    """And a later partition is never due before an earlier one."""
    due = Due(f"{clock:%H:%M}", zone=zone, weekdays=sorted(weekdays), days_after=days_after)
    ends = [datetime.combine(day, time(), timezone.utc) + n * HOUR for n in range(0, 72, 7)]
    found = [due.deadline(each) for each in ends]
    assert found == sorted(found)
    for end, deadline in zip(ends, found, strict=True):
        assert deadline > end
        assert f"{deadline.astimezone(ZoneInfo(zone)):%A}".lower() in weekdays


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "at or within_minutes must be stated"),
        ({"at": "6:40"}, "at must be a time of day like 06:40, not '6:40'"),
        ({"at": "24:00"}, "at must be a time of day"),
        ({"at": 400}, "Due.at must be a text, not 400"),  # what YAML makes of 06:40 without quotes
        ({"at": "06:40", "zone": "Berlin"}, "zone must be a time zone like Europe/Berlin, not 'Berlin'"),
        ({"at": "06:40", "zone": "../x"}, "zone must be a time zone"),
        ({"at": "06:40", "zone": "Europe"}, "zone must be a time zone"),
        ({"at": "06:40", "zone": ""}, "zone must be a time zone"),
        ({"at": "06:40", "weekdays": []}, "weekdays must name a day"),
        ({"at": "06:40", "weekdays": ["mon"]}, "Due.weekdays must be"),
        ({"at": "06:40", "days_after": -1}, "days_after must be between 0 and 366, not -1"),
        ({"within_minutes": 0}, "within_minutes must be above 0, not 0"),
        ({"at": "06:40", "warn_at": 1.0}, "warn_at must be above 0 and below 1, not 1"),
    ],
)
def test_a_promise_that_nobody_can_keep_is_refused(options, message):
    """By the name of the field."""
    with pytest.raises(ConfigError, match=message.replace("(", "\\(")):
        Due(**options)


def test_options_and_runs_that_cannot_be_are_refused():
    """By name."""
    with pytest.raises(ConfigError, match="table must be a text that is not empty"):
        detect_sla_misses([], END, due=DUE, table="")
    with pytest.raises(ConfigError, match="recent_hours must be 0 or more, not -1"):
        detect(at=END, recent_hours=-1)
    with pytest.raises(ConfigError, match="started_at must be the start of the run of 'x', not None"):
        TimedRun(partition="x", ends_at=END, outcome="running")
    with pytest.raises(ConfigError, match="ended_at must not lie before started_at"):
        a_run("succeeded", ended_at=SIX - HOUR)
    with pytest.raises(ConfigError, match="written_at must not lie before started_at"):
        BatchTimes(event_at=None, started_at=SIX, written_at=END)


def batch(event=0.0, processing=1.0):
    written = SIX + HOUR
    event_at = None if event is None else written - timedelta(seconds=event)
    return BatchTimes(event_at=event_at, started_at=written - timedelta(seconds=processing), written_at=written)


def latency(batches, **more):
    stated = {"event_within_seconds": 600, "processing_within_seconds": 60, "producer": "topic visits", **more}
    return measure_latency(batches, SIX, table="bronze/visits", **stated)


def test_p95_and_maximum_of_micro_batches_are_those_of_the_known_distribution():
    """1 to 100 seconds, in any order: P95 is 95 by nearest rank, the maximum 100."""
    seconds = [(7 * n) % 101 for n in range(1, 101)]
    found = {each.metric: each.value for each in latency([batch(10 * n, n) for n in seconds]).measurements}
    assert found == {
        "processing_latency_p95": 95,
        "processing_latency_max": 100,
        "event_latency_p95": 950,
        "event_latency_max": 1000,
    }


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.95, 1.0]))
def test_a_nearest_rank_is_the_least_value_that_covers_the_share(values, share):
    """Counted out, without the formula."""
    covered = [each for each in values if sum(v <= each for v in values) >= share * len(values) - 1e-9]
    assert nearest_rank(values, share) == min(covered)


def test_late_events_with_fast_processing_are_the_producers_and_slow_code_is_the_tables_own():
    """A producer three hours behind; code that takes five minutes, which makes the events late as well."""
    (late,) = latency([batch(event=10_800, processing=5)] * 3).troubles
    assert (late.metric, late.explained_by) == ("event_latency_p95", "topic visits")
    assert late.reason == "event latency of 3 micro-batches; the processing is in time: topic visits delivers late"
    slow = latency([batch(event=10_800, processing=300)] * 3).troubles
    assert [(each.metric, each.explained_by) for each in slow] == [
        ("processing_latency_p95", ""),
        ("event_latency_p95", ""),
    ]


def test_one_slow_micro_batch_alerts_only_if_the_maximum_is_judged():
    """The other 99 are what most readers see."""
    batches = [batch(10, 1)] * 99 + [batch(10, 500)]
    assert latency(batches).verdict == "ok"
    (slow,) = latency(batches, judged="max").troubles
    assert (slow.metric, slow.value) == ("processing_latency_max", 500)


def test_events_of_the_future_count_as_zero_and_unknown_ones_not_at_all():
    """A producer's clock that is ahead makes no negative latency; without any event nothing is known."""
    found = {each.metric: each for each in latency([batch(-500), batch(None), batch(400)]).measurements}
    assert (found["event_latency_p95"].value, found["event_latency_max"].value) == (400, 400)
    assert latency([batch(-500)]).measurements[-1].value == 0
    assert {each.verdict for each in latency([]).measurements} == {"unknown"}
    assert latency([batch(None)]).verdict == "unknown"


def test_a_limit_or_a_name_of_a_latency_that_cannot_be_is_refused():
    """By name."""
    for option in ("event_within_seconds", "processing_within_seconds"):
        with pytest.raises(ConfigError, match=f"{option} must be above 0, not 0"):
            latency([], **{option: 0})
    with pytest.raises(ConfigError, match="producer must be a text that is not empty"):
        latency([], producer="")


def miss(table, cause="", *, minutes=0, verdict="fail", metric="pipeline_seconds", partition="2026-01-05"):
    since = DEADLINE + minutes * MINUTE
    told = {"explained_by": cause, "since": since, "partition": partition}
    return Measurement(metric=metric, table=table, at=since, verdict=verdict, **told)


def explained(found):
    return {each.table: each.explained_by for each in found.troubles}


DIAMOND = {"source": ["left", "right"], "left": ["report"], "right": ["report"], "report": ["mail"]}


def test_one_late_table_explains_a_diamond_of_others_and_names_who_is_at_risk():
    """Four misses, one alert; the mail has no trouble yet."""
    misses = (miss("report", "right", minutes=2), miss("right", "source"), miss("source"), miss("left", "source"))
    found = at_risk(Measured(misses), DIAMOND)
    assert explained(found) == {"report": "source", "right": "source", "source": "", "left": "source"}
    assert [each.table for each in found.measurements] == [each.table for each in misses]
    assert found.measurements[2].reason == "at risk: left, right, report, mail"
    named = at_risk(Measured(misses), DIAMOND, deadlines=["mail", "elsewhere"])
    assert named.measurements[2].reason == "at risk: mail"


def test_a_trouble_of_a_tables_own_is_not_hidden_behind_an_upstream_one():
    """Its inputs were there in time: it hangs by itself, and it is what its own readers wait for."""
    misses = (miss("source"), miss("left"), miss("report", "left"), miss("right", metric="run_seconds"))
    found = at_risk(Measured(misses), DIAMOND)
    assert explained(found) == {"source": "", "left": "", "report": "left", "right": ""}


def test_a_root_that_nobody_measures_gets_an_alert_in_place_of_those_it_explains():
    """A table without a deadline, or with a later one, holds up twenty others."""
    readers = [f"gold/{n:02}" for n in range(24)]
    fine = Measurement(metric="pipeline_seconds", table="silver/a", at=DEADLINE, verdict="ok")
    misses = Measured((fine, *(miss(each, "silver/a", minutes=n) for n, each in enumerate(readers))))
    found = at_risk(misses, {"silver/a": readers})
    (root,) = [each for each in found.troubles if not each.explained_by]
    assert (root.metric, root.table, root.value, root.since) == ("readers_delayed", "silver/a", 24, DEADLINE)
    assert root.reason.startswith("too late for gold/00, gold/01, ")
    assert root.reason.endswith("gold/19 and 4 more")
    # A table between them that has no deadline is passed over, towards the trouble that is the cause.
    chain = at_risk(Measured((miss("a"), miss("c", "b"))), {"a": ["b"], "b": ["c"]})
    assert explained(chain) == {"a": "", "c": "a"}


def test_a_circle_of_causes_has_one_root():
    """The one whose trouble began first; a table behind the circle has the same root."""
    circle = {"a": ["b"], "b": ["c"], "c": ["a", "d"]}
    misses = (miss("a", "c", minutes=3), miss("b", "a", minutes=1), miss("c", "b", minutes=2), miss("d", "c"))
    assert explained(at_risk(Measured(misses), circle)) == {"a": "b", "b": "", "c": "b", "d": "b"}


def test_warnings_and_figures_within_limits_are_kept():
    """An early warning upstream names those at risk; what is fine stays as it is."""
    fine = miss("report", verdict="ok")
    found = at_risk(Measured((miss("source", verdict="warn"), fine)), DIAMOND)
    assert found.measurements[0].reason == "at risk: left, right, report, mail"
    assert found.measurements[1] == fine
    assert at_risk(Measured(), DIAMOND) == Measured()


TABLES = st.sampled_from("abcdef")
MISSES = st.lists(
    st.tuples(TABLES, TABLES | st.just(""), st.integers(0, 3), st.sampled_from(["ok", "warn", "fail", "unknown"])),
    max_size=8,
)


@given(MISSES, st.dictionaries(TABLES, st.lists(TABLES, max_size=3)))
def test_every_trouble_has_a_root_that_raises_an_alert(stated, downstream):
    """In any graph, with circles and causes that nobody measured: no trouble is explained by one that stays silent."""
    misses = Measured(tuple(miss(t, cause, minutes=m, verdict=v) for t, cause, m, v in stated))
    found = at_risk(misses, downstream)
    alerting = {each.table for each in found.troubles if not each.explained_by}
    assert {each.explained_by for each in found.troubles} - {""} <= alerting
    kept = found.measurements[: len(misses.measurements)]
    assert [(each.table, each.verdict) for each in kept] == [(each.table, each.verdict) for each in misses.measurements]
    assert all(
        not each.explained_by for each, was in zip(kept, misses.measurements, strict=True) if not was.explained_by
    )
    again = at_risk(found, downstream)
    assert explained(again) == explained(found)


def test_a_lineage_is_followed_nearest_first():
    """Through diamonds and circles, each table once, never the table itself."""
    assert reached_from(DIAMOND, "source") == ["left", "right", "report", "mail"]
    assert reached_from({"a": ["b"], "b": ["a"]}, "a") == ["b"]


@known_calls
def calls_that_work(known):
    late = Measurement(metric="pipeline_seconds", table="silver/daily", at=NOW, verdict="fail")
    return {
        "at_risk": {"misses": Measured((late,)), "downstream": {"a": ["b"]}, "deadlines": ["b"]},
        "measure_latency": {
            "batches": [BatchTimes(event_at=NOW, started_at=NOW, written_at=NOW)],
            "now": NOW,
            "table": "t",
            "producer": "p",
            "judged": "p95",
            "event_within_seconds": 600.0,
            "processing_within_seconds": 60.0,
        },
    }
