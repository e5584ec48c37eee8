"""Single Runner."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.flow.single_runner import PartitionProgress, judge_catch_up, plan_in_order, require_place
from tests.contracts.known_calls import known_calls

WAITING, RUNNING, FAILED, MISSING = (PartitionProgress(each) for each in ("waiting", "running", "failed", "missing"))
MINUTE = 60
KEYS = ["1", "2", "3", "4", "5"]


def committed(version, based_on=None):
    return PartitionProgress("committed", version=version, based_on=based_on)


def test_five_requested_partitions_run_one_at_a_time_in_order():
    """A backfill with all slots free; the first partition starts like the others, with nobody before it."""
    progress = dict.fromkeys(KEYS, WAITING)
    ran, before = [], None
    while (plan := plan_in_order(progress)).partitions:
        (key,) = plan.partitions
        assert plan.causes == {key: f"follows {before}" if before else "first"}
        progress[key] = RUNNING
        assert plan_in_order(progress).partitions == ()
        progress[key] = committed(len(ran) + 1, len(ran) or None)
        ran.append(key)
        before = key
    assert ran == KEYS
    assert plan.reason == "every partition is current"


def test_a_failed_partition_holds_the_later_ones_until_it_is_repaired():
    """Though nothing runs; the reason names it."""
    progress = {"1": committed(1), "2": committed(2, 1), "3": FAILED, "4": WAITING, "5": WAITING}
    plan = plan_in_order(progress)
    why = "comes after 3, which failed: repair it, and the later ones go on"
    assert (plan.partitions, plan.held) == ((), {"3": "failed", "4": why, "5": why})
    assert plan_in_order({**progress, "3": WAITING}).partitions == ("3",)
    assert plan_in_order({**progress, "3": committed(3, 2)}).partitions == ("4",)


def test_a_partition_that_nobody_asked_for_holds_the_later_ones():
    """Their state would be that of an earlier partition."""
    plan = plan_in_order({"1": committed(1), "2": MISSING, "3": WAITING})
    assert plan.partitions == ()
    assert plan.held == {"2": "nobody has asked for it", "3": "comes after 2, which has not run"}


def test_a_rerun_makes_the_later_partitions_stale_and_they_follow_in_order():
    """Each as soon as the one before it has changed; one that changes nothing ends it."""
    progress = {"1": committed(1), "2": committed(9, 1), "3": committed(3, 2), "4": committed(4, 3)}
    plan = plan_in_order(progress)
    assert plan.partitions == ("3",)
    assert plan.causes == {"3": "2 changed at version 9"}
    assert plan.held == {"4": "comes after 3, which is run again first"}
    assert plan_in_order({**progress, "3": committed(10, 9)}).partitions == ("4",)
    assert plan_in_order({**progress, "3": committed(3, 9)}).reason == "every partition is current"


def test_an_earlier_partition_waits_for_a_later_one_that_runs():
    """One at a time, whichever it is."""
    plan = plan_in_order({"1": WAITING, "2": RUNNING, "3": WAITING})
    assert plan.partitions == ()
    assert plan.held["1"] == "waits for the end of 2: one run at a time"


def test_a_request_beyond_the_limit_is_rejected_by_limit_and_length():
    """The hundredth has a place, the next has none; one that is queued keeps its place."""
    queued = {str(number) for number in range(99)}
    require_place(queued, request="new")
    queued.add("99")
    with pytest.raises(NotReady, match="new is rejected: 100 requests are queued and the limit is 100"):
        require_place(queued, request="new")
    require_place(queued, request="99")
    with pytest.raises(NotReady, match="2 requests are queued and the limit is 1"):
        require_place(["a", "b"], request="c", limit=1)
    with pytest.raises(ConfigError, match="limit must be 1 or more, not 0"):
        require_place((), request="c", limit=0)


@pytest.mark.parametrize(
    ("minutes", "lag", "periods"),
    [
        ([30, 30], 0, 0),
        ([90], 30, 1),
        ([90, 30], 0, 0),
        ([30, 30, 30, 180], 120, 4),
        ([30, 30, 180, 30], 90, 3),
        ([90, 60, 60], 30, "never"),
        ([90, 75, 75], 60, "never"),
        ([60, 60], 0, 0),
        ([], 0, 0),
    ],
)
def test_a_lag_returns_to_zero_exactly_if_a_run_is_shorter_than_the_interval(minutes, lag, periods):
    """Of an hourly schedule: one run of 90 minutes among runs of 30 is made up in the next hour."""
    usual = [30] * 3 if periods == 1 else []  # what runs took before: the long one is not the usual one
    found = judge_catch_up([each * MINUTE for each in (*usual, *minutes)], interval_seconds=60 * MINUTE)
    assert (found.figures["lag_seconds"] / MINUTE, found.figures["periods_to_recover"]) == (lag, periods)
    assert (found.passed, bool(found.note)) == (periods != "never", periods == "never")


@given(st.lists(st.integers(0, 200), max_size=12), st.integers(1, 120), st.integers(1, 120))
def test_the_periods_to_recover_are_those_of_a_schedule_that_goes_on(before, run, interval):
    """Runs of the usual duration follow until one starts on time."""
    durations = [*before, *[run] * (len(before) + 1)]
    figures = judge_catch_up(durations, interval_seconds=interval).figures
    assert figures["run_seconds"] == run
    start = end = 0
    for number, each in enumerate(durations):
        start = max(number * interval, end)
        end = start + each
    late, periods = max(0, end - len(durations) * interval), 0
    assert figures["lag_seconds"] == late
    while late > 0 and run < interval:
        late, periods = max(0, late + run - interval), periods + 1
    assert figures["periods_to_recover"] == ("never" if late else periods)


def test_a_schedule_without_an_interval_and_a_run_that_ends_before_it_starts_are_refused():
    """By the name of the argument."""
    with pytest.raises(ConfigError, match="interval_seconds must be above 0, not 0"):
        judge_catch_up([1.0], interval_seconds=0.0)
    with pytest.raises(ConfigError, match="durations must be 0 or more, not -1"):
        judge_catch_up([1.0, -1.0], interval_seconds=1.0)


def test_a_commit_without_a_version_is_refused():
    """Nobody could tell which partitions it makes stale."""
    with pytest.raises(ConfigError, match="version must be that of the last change of mon, not None"):
        plan_in_order({"mon": PartitionProgress("committed")})


@dataclass
class Order:
    """Partitions that add their number to the state of the one before; ``true`` is what each should hold."""

    progress: dict = field(default_factory=dict)
    amounts: dict = field(default_factory=lambda: dict.fromkeys(KEYS, 1))
    states: dict = field(default_factory=dict)
    began: dict = field(default_factory=dict)
    version: int = 0

    def request(self, key):
        for each in KEYS[: KEYS.index(key)]:
            self.progress.setdefault(each, MISSING)
        if self.progress.get(key, MISSING).status != "running":
            self.amounts[key] += 1
            self.progress[key] = WAITING

    def start(self, _key):
        for key in plan_in_order(self.progress).partitions:
            before = [each for each in KEYS if each < key]
            assert all(self.progress[each].status == "committed" for each in before)
            assert "running" not in {each.status for each in self.progress.values()}
            last = before[-1] if before else None
            assert last is None or self.states[last] == self.true(last)
            read = self.progress[last].version if last else None
            self.began[key] = (self.states.get(last, 0) + self.amounts[key], read)
            self.progress[key] = RUNNING

    def end(self, key):
        if self.progress.get(key) == RUNNING:
            state, based_on = self.began.pop(key)
            self.version += 1
            self.states[key] = state
            self.progress[key] = committed(self.version, based_on)

    def fail(self, key):
        if self.progress.get(key) == RUNNING:
            self.began.pop(key)
            self.progress[key] = FAILED

    def true(self, key):
        return sum(self.amounts[each] for each in KEYS if each <= key)


STEPS = st.tuples(st.sampled_from(["request", "start", "start", "end", "fail"]), st.sampled_from(KEYS))


@pytest.mark.promise("no-partition-runs-before-the-one")
@given(st.lists(STEPS, max_size=40))
def test_no_partition_runs_before_the_one_before_it_succeeded_and_no_request_is_lost(steps):
    """Whatever is requested, started, ended and failed; with repairs, all hold in the end what one pass would give."""
    order = Order()
    for step, key in steps:
        getattr(order, step)(key)
    for _ in range(3 * len(KEYS)):
        for key, each in list(order.progress.items()):
            if each.status in ("failed", "missing"):
                order.progress[key] = replace(each, status="waiting")
        for key in KEYS:
            order.end(key)
        order.start("")
    assert plan_in_order(order.progress).reason == "every partition is current"
    assert {key: order.states[key] for key in order.progress} == {key: order.true(key) for key in order.progress}


@known_calls
def calls_that_work(known):
    return {
        "require_place": {"queued": ["mon"], "request": "tue", "limit": 2},
        "judge_catch_up": {"durations": [30.0, 90.0], "interval_seconds": 60.0},
    }
