"""Dynamic Late Data Integrator: exactly the partitions that late data touched run again, oldest first, each once."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.delta import Ledger, Table, transaction_id
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import (
    claim_late_partitions,
    judge_late_partitions,
    plan_late_partitions,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import EVENTS, NOW, a_run, read_back, write_log
from tests.two_runs import two_runs

DAYS = [f"2026-01-{day:02d}" for day in range(5, 9)]
TODAY = "2026-01-09"
PARTITION = {"event_date": DAYS[0]}
COLUMNS = {"id": "long", "user_id": "string", "amount": "double", "event_date": "date"}


def moment(text):
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())


def days(first, last):
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(start + timedelta(days=n)).isoformat() for n in range((end - start).days + 1)]


def no_session():
    raise AssertionError("planning and leasing start no Spark")


PROCESSED = {"2024-12-17": moment("2024-12-17T10:20"), "2024-12-18": moment("2024-12-18T09:55")}
UPDATED = {"2024-12-17": moment("2024-12-17T03:00"), "2024-12-18": moment("2024-12-20T10:12")}


@pytest.mark.parametrize(
    ("current", "chosen", "held"),
    [("2024-12-21", ("2024-12-18",), []), ("2024-12-18", (), ["2024-12-18"]), ("2024-12-17", (), ["2024-12-18"])],
)
def test_only_what_changed_after_it_was_processed_and_lies_before_the_present_is_late(current, chosen, held):
    """Of the two days of the state table, the one updated after its processing is chosen, never the present one."""
    plan = plan_late_partitions(UPDATED, PROCESSED, current=current)
    assert plan.partitions == chosen
    assert plan.causes == dict.fromkeys(chosen, "late-data")
    assert plan.cursor == {key: UPDATED[key] for key in chosen}
    assert list(plan.held) == held


def test_a_leased_partition_is_not_chosen_again_and_a_processed_one_is_not_late():
    """A second plan finds nothing: first because it is in flight, then because it is done."""
    second = plan_late_partitions(UPDATED, PROCESSED, current="2024-12-21", in_flight=["2024-12-18"])
    assert (second.partitions, second.held) == ((), {"2024-12-18": "is being processed"})
    done = {**PROCESSED, "2024-12-18": UPDATED["2024-12-18"]}
    third = plan_late_partitions(UPDATED, done, current="2024-12-21")
    assert (third.partitions, third.held, third.reason) == ((), {}, "nothing is late")


def test_no_fixed_window_misses_what_is_very_old():
    """Sixteen days and a hundred days late are both found, oldest first, and nothing between them runs."""
    changed = {**dict.fromkeys(days("2025-09-28", "2026-01-08"), 1), "2025-10-01": 7, "2025-12-24": 6}
    applied = dict.fromkeys(changed, 1)
    assert plan_late_partitions(changed, applied, current=TODAY).partitions == ("2025-10-01", "2025-12-24")


def test_an_old_partition_that_was_never_processed_is_first_seen_and_not_late():
    """Without a cursor it is chosen as new work, from the very first version on."""
    plan = plan_late_partitions({"2026-01-01": 0, DAYS[0]: 3}, {DAYS[0]: 2}, current=TODAY)
    assert plan.causes == {"2026-01-01": "first-seen", DAYS[0]: "late-data"}


def test_data_that_arrives_during_the_processing_is_found_by_the_next_plan():
    """What is remembered is the version that was read, so a change after the reading is ahead of it."""
    applied = {DAYS[0]: 1}
    read = plan_late_partitions({DAYS[0]: 5}, applied, current=TODAY).cursor
    following = plan_late_partitions({DAYS[0]: 6}, {**applied, **read}, current=TODAY)
    assert (following.partitions, following.cursor) == ((DAYS[0],), {DAYS[0]: 6})


def test_older_than_accepted_is_reported_and_left_out():
    """The oldest accepted date itself is still brought in."""
    changed = dict.fromkeys(DAYS, 2)
    plan = plan_late_partitions(changed, dict.fromkeys(DAYS, 1), current=TODAY, oldest=DAYS[1])
    assert plan.partitions == tuple(DAYS[1:])
    assert plan.held == {DAYS[0]: f"older than {DAYS[1]}, the oldest date accepted"}


def test_a_limit_takes_the_oldest_first_and_the_rest_comes_with_the_next_plans():
    """Nothing is forgotten: plan after plan, every late partition has its turn."""
    changed, applied, order = dict.fromkeys(DAYS, 2), dict.fromkeys(DAYS, 1), []
    while (plan := plan_late_partitions(changed, applied, current=TODAY, limit=3)).partitions:
        order.append(plan.partitions)
        applied |= plan.cursor
    assert order == [tuple(DAYS[:3]), (DAYS[3],)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_never_chooses_is_refused(limit):
    """It would leave everything late for good."""
    with pytest.raises(ConfigError, match="would never choose"):
        plan_late_partitions({}, {}, current=TODAY, limit=limit)


MONTH = days("2024-09-21", "2024-10-20")
SEEN = {**dict.fromkeys(MONTH, 1), MONTH[0]: 40}
STATE = dict.fromkeys(MONTH, 1)


def test_a_stateful_consumer_replays_everything_after_the_late_partition():
    """One late row of a month ago means thirty partitions in order, each after the one it depends on."""
    plan = plan_late_partitions(SEEN, STATE, current="2024-10-21", replay_history=True)
    assert len(plan.partitions) == 30
    assert list(plan.partitions) == MONTH
    assert plan.causes[MONTH[0]] == "late-data"
    assert {plan.causes[key] for key in MONTH[1:]} == {"follows 2024-09-21"}


def test_a_replay_of_history_older_than_accepted_is_refused_and_reported():
    """A cap turns a replay of a month into a report."""
    plan = plan_late_partitions(SEEN, STATE, current="2024-10-21", replay_history=True, oldest="2024-10-01")
    assert (plan.partitions, plan.reason) == ((), "nothing is late")
    assert plan.held == {MONTH[0]: "older than 2024-10-01, the oldest date accepted"}


def test_a_limited_replay_of_history_reaches_the_end_of_it_plan_by_plan():
    """The partitions that follow wait for the next plan; they are not forgotten once the late one is done."""
    applied, order = dict(STATE), []
    while (
        plan := plan_late_partitions(SEEN, applied, current="2024-10-21", replay_history=True, limit=10)
    ).partitions and len(order) < 30:
        order += plan.partitions
        applied |= plan.cursor
    assert order == MONTH


def test_a_replay_of_history_leaves_out_what_is_being_processed():
    """A partition in flight is held, and the others are chosen."""
    changed, applied = dict.fromkeys(DAYS, 2), dict.fromkeys(DAYS, 1)
    plan = plan_late_partitions(changed, applied, current=TODAY, replay_history=True, in_flight=[DAYS[2]])
    assert plan.partitions == (DAYS[0], DAYS[1], DAYS[3])
    assert plan.held == {DAYS[2]: "is being processed"}


@pytest.fixture
def upstream(tmp_path):
    """A table of four days without a JVM, one day a version."""
    location = tmp_path / "upstream"
    write_log(location, COLUMNS, ["event_date"], [{"changed": [{"event_date": day}]} for day in DAYS])
    return location


@pytest.fixture
def downstream(tmp_path):
    """A table that applied every day of upstream, and that no Spark may touch."""
    location = tmp_path / "downstream" / EVENTS.name
    txn = {transaction_id(EVENTS.name, {"event_date": day}, 0): n for n, day in enumerate(DAYS, start=1)}
    write_log(location, COLUMNS, ["event_date"], [{"txn": {app: version}} for app, version in txn.items()])
    return Table(EVENTS, location, no_session)


def plan_by_logs(upstream, downstream):
    _, found = Ledger(upstream).changes()
    changed = {dict(key)["event_date"]: version for key, version in found.items()}
    state = downstream.ledger.state()
    applied = {day: state.applied(downstream.name, {"event_date": day}) for day in changed}
    return plan_late_partitions(changed, {d: v for d, v in applied.items() if v is not None}, current=TODAY)


def apply(downstream, cursor):
    txn = {transaction_id(EVENTS.name, {"event_date": day}, 0): version for day, version in cursor.items()}
    write_log(downstream.location, COLUMNS, ["event_date"], [{"txn": txn}])


def delete(location, day):
    removed = {
        "path": "v1/part-0.parquet",
        "deletionTimestamp": 1767600000000,
        "dataChange": True,
        "partitionValues": {"event_date": day},
    }
    version = len(list((location / "_delta_log").glob("*.json")))
    actions = [{"commitInfo": {"timestamp": 1767600000000, "operation": "DELETE"}}, {"remove": removed}]
    (location / "_delta_log" / f"{version:020d}.json").write_text("".join(json.dumps(a) + "\n" for a in actions))


def test_an_append_to_an_old_partition_selects_it_once(upstream, downstream):
    """The logs of the two tables say what is late, and after the backfill nothing is."""
    assert plan_by_logs(upstream, downstream).partitions == ()
    write_log(upstream, COLUMNS, ["event_date"], [{"changed": [{"event_date": DAYS[1]}]}])
    plan = plan_by_logs(upstream, downstream)
    assert (plan.causes, plan.cursor) == ({DAYS[1]: "late-data"}, {DAYS[1]: 5})
    apply(downstream, plan.cursor)
    assert plan_by_logs(upstream, downstream).partitions == ()


def test_a_compaction_wakes_nobody(upstream, downstream):
    """Files that were rewritten without a change of rows are no late data."""
    compacted = [{"changed": [{"event_date": day} for day in DAYS], "data_change": False}]
    write_log(upstream, COLUMNS, ["event_date"], compacted)
    assert plan_by_logs(upstream, downstream).partitions == ()


def test_a_deletion_in_an_old_partition_selects_it(upstream, downstream):
    """Rows that are gone are a change like rows that came."""
    delete(upstream, DAYS[0])
    assert plan_by_logs(upstream, downstream).cursor == {DAYS[0]: 5}


def test_delta_itself_compacts_silently_and_deletes_audibly(spark, events, event_rows, downstream):
    """OPTIMIZE of a real table selects nothing, DELETE selects the partition that lost rows."""
    for number, day in enumerate([DAYS[0], DAYS[0], DAYS[1]], start=1):
        events.append(event_rows(3, day=day, start=10 * number), provenance=a_run(sequence=number))
    apply(downstream, plan_by_logs(events.location, downstream).cursor)
    before = events.ledger.version()
    spark.sql(f"OPTIMIZE delta.`{events.location}`").collect()
    assert events.ledger.version() > before
    assert plan_by_logs(events.location, downstream).partitions == ()
    spark.sql(f"DELETE FROM delta.`{events.location}` WHERE id = 30").collect()
    assert plan_by_logs(events.location, downstream).cursor == {DAYS[1]: events.ledger.version()}
    assert 30 not in {row["id"] for row in read_back(events)}


def claim(table, owner, *, current=TODAY, changed=None, now=NOW, **options):
    return claim_late_partitions(
        changed or {}, table, current=current, owner=owner, now=now, lease_seconds=60, **options
    )


LATE = dict.fromkeys(DAYS, 9)


def test_a_claim_is_the_late_partitions_in_order_and_then_the_current_one(downstream):
    """A run that integrates late data itself works through its claim; nobody else gets any of it meanwhile."""
    mine = claim(downstream, "a", changed={**LATE, TODAY: 10})
    assert mine.plan.partitions == (*DAYS, TODAY)
    assert mine.plan.causes == {**dict.fromkeys(DAYS, "late-data"), TODAY: "current"}
    assert mine.plan.cursor == {**LATE, TODAY: 10}
    for current in (TODAY, DAYS[1]):
        other = claim(downstream, "b", changed={**LATE, TODAY: 10}, current=current)
        assert other.plan.partitions == ()
        assert other.plan.held[current] == "is being processed by a"
    assert claim(downstream, "a", changed={**LATE, TODAY: 10}).plan == mine.plan, "a retry goes on"


def test_a_late_partition_is_handed_over_to_a_run_of_its_own(downstream):
    """The run that it is handed to claims it under the same owner, and other owners still do not get it."""
    claim(downstream, "a", changed=LATE)
    handed = claim(downstream, "a", current=DAYS[3], changed=LATE)
    assert handed.plan.partitions[-1] == DAYS[3]
    assert DAYS[3] not in claim(downstream, "b", current=DAYS[3], changed=LATE).plan.partitions


def test_four_days_in_parallel_integrate_each_late_partition_once(downstream):
    """However close together they come and plan, each partition is in the claim of one run and not of five."""
    start, today = Barrier(4), days("2026-01-09", "2026-01-12")

    def run(current):
        start.wait(timeout=30)
        return claim(downstream, f"run of {current}", current=current, changed={**LATE, **dict.fromkeys(today, 9)})

    with ThreadPoolExecutor(4) as pool:
        claims = list(pool.map(run, today))
    assert sorted(key for each in claims for key in each.plan.partitions) == [*DAYS, *today]
    for current, each in zip(today, claims, strict=True):
        assert all(key <= current for key in each.plan.partitions)


def test_a_stateful_consumer_claims_everything_after_the_late_partition(downstream):
    """What follows is leased with it, so that no run of a later day builds on a past that is about to change."""
    mine = claim(downstream, "a", changed={DAYS[1]: 9}, replay_history=True)
    assert mine.plan.partitions == (DAYS[1], TODAY)
    mine = claim(downstream, "a", changed={**dict(zip(DAYS, (1, 9, 3, 4), strict=True))}, replay_history=True)
    assert mine.plan.partitions == (*DAYS[1:], TODAY)


def test_a_claim_ends_by_release_or_by_time(downstream):
    """A run that gives back makes room at once, a run that died does when its lease is over."""
    second = timedelta(seconds=1)
    mine = claim(downstream, "a")
    assert claim(downstream, "b", now=NOW + 59 * second).plan.partitions == ()
    mine.release(TODAY, now=NOW + 59 * second)
    assert claim(downstream, "b", now=NOW + 59 * second).plan.partitions == (TODAY,)
    assert claim(downstream, "c", now=NOW + 60 * second).plan.partitions == ()
    assert claim(downstream, "c", now=NOW + 119 * second).plan.partitions == (TODAY,)
    mine.release(TODAY, now=NOW + 120 * second)
    assert claim(downstream, "d", now=NOW + 121 * second).plan.partitions == (), "who lost a lease cannot end it"


def test_claims_change_no_rows(downstream):
    """A claimed and released partition is nobody's late data, and its cursor stays."""
    before = downstream.ledger.version()
    claim(downstream, "a", current=DAYS[0]).release(DAYS[0], now=NOW)
    assert downstream.ledger.version() == before + 2
    assert downstream.ledger.changes(since=before) == (before + 2, {})
    assert downstream.ledger.state().applied(EVENTS.name, PARTITION) == 1


def test_what_blocks_late_data_is_a_finding(downstream):
    """A run in flight is none; one that died with its claim, and data older than accepted, are named."""

    def judged(seconds, **options):
        return judge_late_partitions(LATE, downstream, current=TODAY, now=NOW + timedelta(seconds=seconds), **options)

    assert judged(0).figures == {"behind": 4, "in flight": 0, "not done": 0, "too old": 0}
    mine = claim(downstream, "run-1", changed=LATE, oldest=DAYS[1])
    flying = judged(59)
    assert (flying.passed, flying.figures["in flight"]) == (True, 3)
    apply(downstream, {DAYS[1]: 9})
    mine.release(DAYS[2], now=NOW)
    finding = judged(60, oldest=DAYS[1])
    assert (finding.name, finding.passed, finding.refuses) == ("late_data_is_brought_in", False, False)
    assert finding.figures == {"behind": 3, "in flight": 0, "not done": 1, "too old": 1}
    assert finding.note == (
        f"{DAYS[0]} is older than {DAYS[1]}, the oldest date accepted; "
        f"{DAYS[3]} was leased by run-1 until 2026-01-20T12:01:00+00:00, and is not done"
    )
    claim(downstream, "run-2", changed=LATE, now=NOW + timedelta(seconds=61))
    assert judged(62).passed


def test_claims_need_one_partition_column(downstream):
    """Late data is integrated by date, or by whatever one column the table is partitioned by."""
    flat = Table(replace(EVENTS, partition_by=()), downstream.location, no_session)
    with pytest.raises(ConfigError, match="not partitioned by one column"):
        claim(flat, "a")


def test_there_is_nothing_to_claim_where_there_is_no_table(tmp_path):
    """A planner that is too early is told to come again."""
    with pytest.raises(NotReady, match="silver/events does not exist yet"):
        claim(Table(EVENTS, tmp_path / "none", no_session), "a")


KEYS = days("2026-01-01", "2026-01-05")
OWNERS = ["a", "b", "c"]
steps = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(KEYS)),
    st.tuples(st.just("claim"), st.sampled_from(OWNERS), st.sampled_from(KEYS)),
    st.tuples(st.sampled_from(["finish", "crash"]), st.sampled_from(OWNERS)),
    st.tuples(st.just("wait"), st.sampled_from([20, 61])),
)


class World:
    """A downstream table in a folder, and a plain model of who holds what until when, and of what was applied."""

    def __init__(self, home):
        self.table = Table(EVENTS, Path(home, EVENTS.name), no_session)
        write_log(self.table.location, COLUMNS, ["event_date"], [])
        self.now, self.version = NOW, 1
        self.changed, self.applied, self.held, self.claims = dict.fromkeys(KEYS, 1), {}, {}, {}
        self.integrated = Counter()

    def do(self, step):
        getattr(self, step[0])(*step[1:])

    def change(self, key):
        self.version += 1
        self.changed[key] = self.version

    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)

    def claim(self, owner, current):
        others = {key for key, (who, ends) in self.held.items() if who != owner and ends > self.now}
        late = [k for k in KEYS if k < current and k not in others and self.changed[k] > self.applied.get(k, 0)]
        expected = (*late, current) if current not in others else tuple(late)
        claimed = claim(self.table, owner, current=current, changed=self.changed, now=self.now)
        assert claimed.plan.partitions == expected
        assert claimed.plan.cursor == {key: self.changed[key] for key in expected}
        assert others & {*KEYS[: KEYS.index(current)], current} >= {
            key for key, reason in claimed.plan.held.items() if "processed by" in reason and key <= current
        }
        self.held |= {key: (owner, self.now + timedelta(seconds=60)) for key in expected}
        self.claims.setdefault(owner, []).append(claimed)

    def crash(self, owner):
        self.claims.pop(owner, None)

    def finish(self, owner):
        for claimed in self.claims.pop(owner, []):
            for key, version in claimed.plan.cursor.items():
                holds = self.held.get(key, ("", self.now))
                if holds[0] == owner and holds[1] > self.now and version > self.applied.get(key, 0):
                    apply(self.table, {key: version})
                    self.applied[key] = version
                    self.integrated[key, version] += 1
                claimed.release(key, now=self.now)
                if holds[0] == owner:
                    self.held.pop(key, None)


@pytest.mark.promise("in-any-order-of-changes")
@settings(deadline=None, max_examples=settings.default.max_examples * 2 // 5)
@given(st.lists(steps, max_size=14))
def test_in_any_order_of_changes_claims_crashes_and_time_each_version_is_integrated_once(order):
    """What is claimed is what a plain model says; in the end nothing is late, and nothing was integrated twice."""
    with tempfile.TemporaryDirectory() as home:
        world = World(home)
        for step in order:
            world.do(step)
        world.wait(61)
        world.claim("last", KEYS[-1])
        world.finish("last")
        assert world.applied == world.changed
        assert set(world.integrated.values()) <= {1}


@known_calls
def calls_that_work(known):
    late = {"changed": {"mon": 3}, "current": "tue", "oldest": "", "now": NOW, "table": known.daily}
    return {
        "claim_late_partitions": {**late, "owner": "me", "lease_seconds": 60},
        "judge_late_partitions": late,
        "plan_late_partitions": {
            "changed": {"mon": 3},
            "applied": {"mon": 1},
            "current": "tue",
            "in_flight": ["mon"],
            "limit": 1,
        },
    }


@two_runs()
def claimed_at_once(world):
    table = world.table("late", "day STRING, n INT", by=["day"])
    table.overwrite(world.frame("day STRING, n INT", ("mon", 1)), provenance=world.run("base"))
    changed, options = {"mon": 9, "tue": 9}, {"current": "wed", "now": NOW, "lease_seconds": 60}
    for owner in ("one", "two"):
        yield lambda w, owner=owner: claim_late_partitions(changed, w["late"], owner=owner, **options).plan.partitions
