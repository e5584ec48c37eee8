"""Static Late Data Integrator: a fixed look-back, of which only what changed is processed, and each partition once."""

from __future__ import annotations

from datetime import date, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from dedp_assets.patterns.error_management.static_late_data_integrator import (
    judge_beyond_lookback,
    order_steps,
    plan_lookback,
)
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from tests.contracts.known_calls import known_calls
from tests.helpers import EVENTS, a_run, read_back


def days(first, last):
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(start + timedelta(days=n)).isoformat() for n in range((end - start).days + 1)]


DECEMBER = days("2024-12-01", "2024-12-31")
OCTOBER = days("2024-10-01", "2024-10-20")


def plan(changed, applied, *current, partitions=DECEMBER, lookback=14, **options):
    return plan_lookback(changed, applied, current=current, partitions=partitions, lookback=lookback, **options)


def test_a_look_back_of_fourteen_days_is_the_present_and_the_fourteen_before_it():
    """Of 31 December that is 17 December to 31 December: the day before them is too late, and reported."""
    found = plan(dict.fromkeys(DECEMBER, 2), dict.fromkeys(DECEMBER[:-1], 1), "2024-12-31")
    assert list(found.partitions) == days("2024-12-17", "2024-12-31")
    assert found.held["2024-12-15"] == found.held["2024-12-16"] == "late beyond the look-back of 14"
    assert set(found.cursor.values()) == {2}


def test_only_what_changed_since_it_was_applied_is_processed():
    """The look-back is a bound and no work by itself; a plan after the work is empty and says so."""
    changed = {**dict.fromkeys(DECEMBER, 1), "2024-12-20": 7, "2024-12-31": 6}
    applied = dict.fromkeys(DECEMBER[:-1], 1)
    found = plan(changed, applied, "2024-12-31")
    assert found.causes == {"2024-12-20": "late-data", "2024-12-31": "current"}
    assert found.held == dict.fromkeys(
        set(days("2024-12-17", "2024-12-30")) - {"2024-12-20"}, "unchanged since version 1"
    )
    again = plan(changed, {**applied, **found.cursor}, "2024-12-31")
    assert (again.partitions, again.reason) == ((), "nothing changed in the look-back")


def test_without_the_control_gate_all_of_the_look_back_is_processed():
    """The pattern's plain form: whether or not anything changed, and no partition more."""
    found = plan(dict.fromkeys(DECEMBER, 1), dict.fromkeys(DECEMBER, 1), "2024-12-31", only_changed=False)
    assert list(found.partitions) == days("2024-12-17", "2024-12-31")
    assert found.causes["2024-12-17"] == "look-back"
    assert found.held == {}


def test_an_old_partition_that_was_never_processed_is_first_seen():
    """It is brought in like late data, under a name of its own."""
    found = plan({"2024-12-20": 4}, {}, "2024-12-31")
    assert found.causes == {"2024-12-20": "first-seen"}


def test_data_that_arrives_during_the_run_is_found_by_the_next_plan():
    """What is remembered is the version that was read."""
    found = plan({"2024-12-30": 5}, {"2024-12-30": 1}, "2024-12-31")
    later = plan({"2024-12-30": 6}, {"2024-12-30": 1, **found.cursor}, "2024-12-31")
    assert later.cursor == {"2024-12-30": 6}


@pytest.mark.parametrize("lookback", [0, 1, 4])
def test_a_backfill_of_many_days_processes_the_union_of_their_look_backs_once(lookback):
    """Three days with four before each are seven partitions and not fifteen; the last day alone covers the three."""
    changed = dict.fromkeys(OCTOBER, 1)
    found = plan(changed, {}, *days("2024-10-10", "2024-10-12"), partitions=OCTOBER, lookback=lookback)
    assert list(found.partitions) == OCTOBER[9 - lookback : 12]
    alone = plan(changed, {}, "2024-10-12", partitions=OCTOBER, lookback=4)
    assert set(alone.partitions) > set(days("2024-10-10", "2024-10-12"))


def test_a_backfill_of_a_year_is_a_year_and_one_look_back():
    """However long the range, no partition is in the plan twice, and none is missing."""
    year = days("2023-01-01", "2024-12-31")
    found = plan(dict.fromkeys(year, 1), {}, *year[365:], partitions=year)
    assert list(found.partitions) == year[365 - 14 :]


def test_the_first_partition_of_all_has_no_look_back():
    """The window ends where the partitions begin."""
    found = plan(dict.fromkeys(DECEMBER, 1), {}, DECEMBER[1])
    assert found.partitions == tuple(DECEMBER[:2])


LATE = {"2024-12-28": 9, "2024-12-29": 9, "2024-12-31": 8}


@pytest.mark.parametrize(
    ("placement", "order", "groups"),
    [
        ("late first", ("28", "29", "31"), (("28", "29"), ("31",))),
        ("parallel", ("28", "29", "31"), (("28", "29", "31"),)),
        ("current first", ("31", "28", "29"), (("31",), ("28", "29"))),
    ],
)
def test_late_data_is_placed_before_beside_or_after_the_present(placement, order, groups):
    """The order of the plan, and of the groups of which one waits for the other."""
    found = plan(LATE, {}, "2024-12-31", placement=placement)
    assert tuple(key[-2:] for key in found.partitions) == order
    steps = order_steps(found, placement=placement)
    assert tuple(tuple(key[-2:] for key in group) for group in steps) == groups


def carry_out(steps, process):
    """What a runner does: a group begins only if the one before succeeded, whatever failed within a group."""
    done = []
    for group in steps:
        succeeded = [key for key in group if process(key)]
        done += succeeded
        if len(succeeded) < len(group):
            break
    return done


@pytest.mark.parametrize(
    ("placement", "done"),
    [
        ("late first", ["2024-12-29"]),
        ("parallel", ["2024-12-29", "2024-12-31"]),
        ("current first", ["2024-12-31", "2024-12-29"]),
    ],
)
def test_a_late_partition_that_fails_stops_the_present_only_if_it_comes_first(placement, done):
    """Sequential: the present waits for a right past. Parallel: it does not."""
    found = plan(LATE, {}, "2024-12-31", placement=placement)
    assert carry_out(order_steps(found, placement=placement), lambda key: key != "2024-12-28") == done


@pytest.mark.parametrize("placement", ["parallel", "current first"])
def test_a_stateful_consumer_takes_late_data_first_or_not_at_all(placement):
    """Refused before anything is planned."""
    with pytest.raises(ConfigError, match="use late first"):
        plan(LATE, {}, "2024-12-31", placement=placement, stateful=True)
    with pytest.raises(ConfigError, match="use late first"):
        order_steps(plan(LATE, {}, "2024-12-31"), placement=placement, stateful=True)


def test_a_stateful_consumer_replays_everything_after_a_late_partition_in_order():
    """Those beyond the newest current one too, and each waits for the one before."""
    changed, applied = {**dict.fromkeys(OCTOBER, 1), "2024-10-11": 40}, dict.fromkeys(OCTOBER, 1)
    found = plan(changed, applied, "2024-10-12", partitions=OCTOBER, lookback=4, stateful=True)
    assert list(found.partitions) == days("2024-10-11", "2024-10-20")
    assert list(found.causes.values()) == ["late-data", "current", *["follows"] * 8]
    assert set(found.cursor.values()) == {40}
    assert order_steps(found, stateful=True) == tuple((key,) for key in found.partitions)


def test_a_replay_that_was_interrupted_goes_on_where_it_ended():
    """What follows is behind until it has what the ones before it have."""
    changed, applied = {**dict.fromkeys(OCTOBER, 1), "2024-10-18": 40}, dict.fromkeys(OCTOBER, 1)
    broken = {**applied, "2024-10-18": 40}
    found = plan(changed, broken, "2024-10-20", partitions=OCTOBER, lookback=4, stateful=True)
    assert found.causes == {"2024-10-19": "follows", "2024-10-20": "current"}


def test_what_is_late_beyond_the_look_back_warns_and_names_the_partitions():
    """Sixteen days late with fifteen accepted is lost, and somebody is told."""
    changed = {**dict.fromkeys(DECEMBER, 1), "2024-12-15": 5, "2024-12-30": 6}
    options = {"current": ["2024-12-31"], "partitions": DECEMBER}
    finding = judge_beyond_lookback(changed, dict.fromkeys(DECEMBER, 1), **options, lookback=15)
    assert (finding.passed, finding.severity, finding.figures["partitions"]) == (False, "warn", 1)
    assert finding.note == "changed upstream and not brought in: 2024-12-15"
    assert judge_beyond_lookback(changed, dict.fromkeys(DECEMBER, 1), **options, lookback=16).passed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lookback": -1}, "must not be negative"),
        ({"current": []}, "name a partition"),
        ({"current": ["2025-01-01"]}, "no partition 2025-01-01"),
        ({"placement": "late last"}, "must be late first"),
    ],
)
def test_options_that_can_never_work_are_refused(options, said):
    """Each with what is wrong."""
    with pytest.raises(ConfigError, match=said):
        plan_lookback({}, {}, **{"current": DECEMBER[-1:], "partitions": DECEMBER, "lookback": 1, **options})


KEYS = [f"{n:02}" for n in range(12)]
ARRIVALS = st.lists(st.lists(st.integers(0, 11), max_size=4), min_size=12, max_size=12)
"""Day -> days that rows arrive for on it; those of a later day count as their own day's."""


@given(ARRIVALS, st.integers(0, 5), st.sampled_from(["late first", "parallel", "current first"]))
def test_day_after_day_downstream_holds_what_arrived_within_the_look_back(arrivals, lookback, placement):
    """Against a plain model: rows in time are there, later ones are reported, nothing is processed for nothing."""
    upstream, downstream, changed, applied = {}, {}, {}, {}
    expected: dict[str, int] = {}
    for today, key in enumerate(KEYS):
        beyond = set()
        for place in {today, *(place for place in arrivals[today] if place < today)}:
            upstream[KEYS[place]] = upstream.get(KEYS[place], 0) + 1
            changed[KEYS[place]] = max(changed.values(), default=0) + 1
            beyond |= {KEYS[place]} if place < today - lookback else set()
        found = plan(changed, applied, key, partitions=KEYS, lookback=lookback, placement=placement)
        lost = {name for name, why in found.held.items() if "beyond" in why}
        assert beyond <= lost
        finding = judge_beyond_lookback(changed, applied, current=[key], partitions=KEYS, lookback=lookback)
        assert finding.passed == (not lost)
        for chosen in found.partitions:
            assert downstream.get(chosen) != upstream[chosen], "it was processed for nothing"
            downstream[chosen] = upstream[chosen]
        expected |= {name: upstream[name] for place, name in enumerate(KEYS) if today - lookback <= place <= today}
        assert downstream == expected
        applied |= found.cursor
        assert not plan(changed, applied, key, partitions=KEYS, lookback=lookback).partitions


def replayed(upstream, keys):
    """A stateful consumer: each day's total goes on from the day before."""
    totals, total = {}, 0
    for key in keys:
        total += upstream[key]
        totals[key] = total
    return totals


@given(ARRIVALS, st.integers(0, 11), st.data())
def test_a_stateful_consumer_that_is_interrupted_anywhere_ends_like_a_clean_rebuild(arrivals, lookback, data):
    """Each plan may be carried out in part only; once one is finished, every day is right."""
    upstream, totals, changed, applied = {}, {}, {}, {}
    for today, key in enumerate(KEYS):
        for place in {today, *(place for place in arrivals[today] if today - lookback <= place < today)}:
            upstream[KEYS[place]] = upstream.get(KEYS[place], 0) + 1
            changed[KEYS[place]] = max(changed.values(), default=0) + 1
        found = plan(changed, applied, key, partitions=KEYS, lookback=11, stateful=True)
        last = data.draw(st.integers(0, len(found.partitions))) if today < 11 else len(found.partitions)
        for chosen in found.partitions[:last]:
            before = KEYS[KEYS.index(chosen) - 1] if chosen != KEYS[0] else ""
            totals[chosen] = totals.get(before, 0) + upstream[chosen]
            applied[chosen] = found.cursor[chosen]
    assert totals == replayed(upstream, KEYS)


@given(ARRIVALS)
def test_a_look_back_over_everything_chooses_what_the_dynamic_integrator_chooses(arrivals):
    """The two patterns differ in what they accept as late, and not in how they tell that something is."""
    changed = {KEYS[place]: day + 1 for day, places in enumerate(arrivals) for place in places}
    applied = {key: version // 2 for key, version in changed.items() if version % 3}
    static = plan(changed, applied, KEYS[-1], partitions=KEYS, lookback=11)
    dynamic = plan_late_partitions(changed, applied, current="99")
    assert (static.partitions, static.cursor) == (dynamic.partitions, dynamic.cursor)


COUNTS = TableSpec(
    "gold/counts",
    {"event_date": Column("DATE", required=True), "events": Column("BIGINT", required=True)},
    partition_by=("event_date",),
)
WEEK = days("2026-01-05", "2026-01-09")


@pytest.fixture(scope="module")
def integrated(spark, tmp_path_factory):
    """Four days, counted day by day with a look-back of two; late rows for two of them, the fifth day, and it again."""
    home = tmp_path_factory.mktemp("lookback")
    events, counts = Table(EVENTS, home / "events", spark), Table(COUNTS, home / "counts", spark)

    def land(day, first, number, sequence):
        rows = spark.range(first, first + number).selectExpr(
            "id", "'u' AS user_id", "1.0D AS amount", f"DATE '{day}' AS event_date"
        )
        events.append(rows, provenance=a_run(sequence=sequence))

    def integrate(current):
        _, found = events.ledger.changes()
        changed = {str(dict(key)["event_date"]): version for key, version in found.items()}
        state = counts.ledger.state() if counts.ledger.exists() else None
        read = {day: state.applied(COUNTS.name, {"event_date": day}) for day in changed} if state else {}
        applied = {day: version for day, version in read.items() if version is not None}
        chosen = plan_lookback(changed, applied, current=[current], partitions=WEEK, lookback=2)
        for day in chosen.partitions:
            rows = events.read({"event_date": day}).groupBy("event_date").agg({"id": "count"}).toDF(*COUNTS.columns)
            provenance = a_run(COUNTS.name, sequence=chosen.cursor[day])
            overwrite_partition(rows, counts.target(provenance, partition={"event_date": day}))
        return chosen

    for number, day in enumerate(WEEK[:-1], start=1):
        land(day, 100 * number, 3, number)
        integrate(day)
    for number, day in enumerate((WEEK[1], WEEK[2], WEEK[4]), start=6):
        land(day, 100 * number, 2, number)
    before = counts.ledger.version()
    chosen = integrate(WEEK[-1])
    after, rows = counts.ledger.version(), read_back(counts)
    again = integrate(WEEK[-1])
    return SimpleNamespace(counts=counts, before=before, after=after, rows=rows, chosen=chosen, again=again)


def test_late_rows_within_the_look_back_are_in_the_table_and_older_ones_are_not(integrated):
    """The late rows of two days ago are counted; those of three days ago are held and named."""
    found = {str(row["event_date"]): row["events"] for row in integrated.rows}
    assert found == {WEEK[0]: 3, WEEK[1]: 3, WEEK[2]: 5, WEEK[3]: 3, WEEK[4]: 2}
    assert integrated.chosen.held[WEEK[1]] == "late beyond the look-back of 2"


def test_the_tables_log_names_exactly_the_partitions_that_were_rewritten(integrated):
    """Whoever reads them can tell what to read again; nothing else was touched."""
    _, changed = integrated.counts.ledger.changes(since=integrated.before)
    assert {dict(key)["event_date"] for key in changed} == {WEEK[2], WEEK[4]}


def test_the_same_run_again_processes_nothing_and_leaves_the_same_rows(integrated):
    """Not even a commit."""
    assert integrated.again.partitions == ()
    assert integrated.counts.ledger.version() == integrated.after
    assert read_back(integrated.counts) == integrated.rows


@known_calls
def calls_that_work(known):
    back = {"changed": {"mon": 3}, "applied": {"mon": 1}, "current": ["tue"], "partitions": ["mon", "tue"]}
    return {
        "judge_beyond_lookback": {**back, "lookback": 1},
        "order_steps": {"plan": Plan(("mon",), "", {"mon": "late-data"})},
    }
