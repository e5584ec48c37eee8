"""Concurrent Runner."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.flow.concurrent_runner import PipelineRun, advance_latest, latest_of, plan_starts
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, write_log
from tests.two_runs import two_runs

INGEST = PipelineRun("ingest")


def test_a_slow_run_blocks_no_later_run():
    """A is still running, and B, C and D start and end, though one of them has to wait for a slot."""
    running, ended = {"A": INGEST}, []
    queued = dict.fromkeys(["B", "C", "D"], INGEST)
    while queued:
        for name in plan_starts(queued, running, slots={"ingest": 3}).partitions:
            running[name] = queued.pop(name)
            assert len(running) <= 3
        ended += [name for name in running if name != "A"]
        running = {"A": INGEST}
    assert ended == ["B", "C", "D"]


def test_at_most_five_of_twenty_queued_runs_run_and_a_critical_pipeline_has_slots_of_its_own():
    """The reason of a run that waits says whose slots are taken, and by which runs."""
    queued = {f"heavy {number:02}": PipelineRun("heavy") for number in range(20)}
    queued["critical"] = PipelineRun("critical")
    plan = plan_starts(queued, {}, slots={"heavy": 5, "critical": 1})
    assert plan.partitions == (*(f"heavy {number:02}" for number in range(5)), "critical")
    taken = ", ".join(plan.partitions[:5])
    assert plan.held["heavy 05"] == f"5 of 5 slots of heavy are taken: {taken}"
    assert len(plan.held) == 15


def test_pools_are_shared_by_pipelines_and_the_higher_priority_comes_first():
    """A run that waits for a pool takes no slot of its pipeline meanwhile."""
    backfill, report = PipelineRun("backfill", ("database",)), PipelineRun("report", ("database",), priority=1)
    queued = {"b1": backfill, "b2": PipelineRun("backfill"), "r": report}
    plan = plan_starts(queued, {}, slots={"backfill": 1})
    assert plan.partitions == ("r", "b2")
    assert plan.held == {"b1": "1 of 1 slots in database are taken: r"}
    assert plan_starts(queued, {}, slots={"backfill": 2}, pools={"database": 2}).partitions == ("r", "b1", "b2")


def test_a_pipeline_without_a_stated_number_has_one_slot():
    """More than one run at once is a decision."""
    assert plan_starts({"a": INGEST, "b": INGEST}, {}, slots={}).partitions == ("a",)


def test_a_pipeline_that_shares_state_is_refused_more_than_one_slot():
    """By the name of the state; with one slot it runs."""
    shares = {"ingest": "_latest_state.json"}
    with pytest.raises(ConfigError, match=r"slots of ingest must be 1, not 2: its runs share _latest_state.json"):
        plan_starts({}, {}, slots={"ingest": 2}, shares=shares)
    assert plan_starts({"a": INGEST}, {}, slots={"ingest": 1}, shares=shares).partitions == ("a",)
    with pytest.raises(ConfigError, match="slots of ingest must be 1 or more, not 0"):
        plan_starts({}, {}, slots={"ingest": 0})
    with pytest.raises(ConfigError, match="pools of db must be 1 or more, not 0"):
        plan_starts({}, {}, slots={}, pools={"db": 0})


RUNS = st.builds(
    PipelineRun,
    pipeline=st.sampled_from(["a", "b", "c"]),
    pools=st.lists(st.sampled_from(["x", "y"]), unique=True).map(tuple),
    priority=st.integers(0, 2),
)


@pytest.mark.promise("never-more-runs-than-slots")
@given(
    arriving=st.lists(RUNS, max_size=15),
    slots=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 3)),
    pools=st.dictionaries(st.sampled_from(["x", "y"]), st.integers(1, 2)),
    ends=st.randoms(use_true_random=False),
)
def test_never_more_runs_than_slots_and_none_is_lost(arriving, slots, pools, ends):
    """Runs arrive and end in any order; a run waits only while its pipeline or one of its pools is full."""
    waiting, queued, running, done = list(enumerate(arriving)), {}, {}, []
    while waiting or queued or running:
        if waiting and ends.random() < 0.5:
            number, run = waiting.pop(0)
            queued[f"{number:02}"] = run
        plan = plan_starts(queued, running, slots=slots, pools=pools)
        assert plan.held.keys() == queued.keys() - {*plan.partitions}
        for name in plan.partitions:
            running[name] = queued.pop(name)
        pipelines = [run.pipeline for run in running.values()]
        taken = [pool for run in running.values() for pool in run.pools]
        assert all(pipelines.count(each) <= slots.get(each, 1) for each in "abc")
        assert all(taken.count(each) <= pools.get(each, 1) for each in "xy")
        for run in queued.values():
            full = pipelines.count(run.pipeline) == slots.get(run.pipeline, 1)
            assert full or any(taken.count(pool) == pools.get(pool, 1) for pool in run.pools)
        if running and ends.random() < 0.7:
            done.append(ends.choice(sorted(running)))
            del running[done[-1]]
    assert sorted(done) == [f"{number:02}" for number in range(len(arriving))]


@pytest.fixture
def results(tmp_path):
    """A table that is there."""
    spec = TableSpec("gold/results", {"id": Column("BIGINT", "x")})
    write_log(tmp_path / spec.name, {"id": "long"}, [], [{}])
    return Lake(root=str(tmp_path), engine=SparkEngine()).table(spec)


def test_a_run_that_ends_late_moves_the_latest_pointer_nowhere(results):
    """B of 9:30 is done before A of 9:00: the pointer stays at B, and A says so."""
    assert latest_of(results) is None
    first, late, again = (advance_latest(results.target(a_run()), position=each) for each in (930, 900, 930))
    assert (first.applied, first.reason, latest_of(results)) == (True, "latest is 930", 930)
    assert (late.applied, late.reason) == (False, "latest stays 930, which is later than 900")
    assert (again.applied, again.reason, again.version) == (False, "latest stays 930", first.version)
    assert advance_latest(results.target(a_run()), position=1000).reason == "latest is 1000 after 930"


def test_runs_that_end_at_once_leave_the_pointer_at_the_latest(results):
    """Every move of the log is a move forward, and the last one is the greatest."""
    positions = [5, 3, 9, 1, 8, 2]
    with ThreadPoolExecutor(6) as threads:
        moved = list(threads.map(lambda each: advance_latest(results.target(a_run()), position=each), positions))
    assert latest_of(results) == 9
    steps = [commit.transactions["gold/results/latest"] for commit in results.ledger.commits() if commit.transactions]
    assert steps == sorted(set(steps))
    assert len(steps) == sum(each.applied for each in moved)


def test_a_pointer_of_no_table_and_a_position_below_the_first_are_refused(tmp_path, results):
    """A pointer is part of a table's log."""
    nowhere = Lake(root=str(tmp_path / "x"), engine=SparkEngine()).table(results.spec)
    assert latest_of(nowhere) is None
    with pytest.raises(NotReady):
        advance_latest(nowhere.target(a_run()), position=1)
    with pytest.raises(ConfigError, match="position must be 0 or more, not -1"):
        advance_latest(results.target(a_run()), position=-1)


@known_calls
def calls_that_work(known):
    ingest = PipelineRun("ingest", ("database",), priority=1)
    return {
        "plan_starts": {
            "queued": {"b": ingest},
            "running": {"a": ingest},
            "slots": {"ingest": 2},
            "pools": {"database": 2},
            "shares": {"report": "latest.json"},
        },
        "advance_latest": {"into": known.daily.target(known.run), "position": 3},
        "latest_of": {"table": known.daily},
    }


@two_runs()
def pointed_at_once(world):
    """Results of a later and an earlier run: the pointer is at the later one, whoever moves it last."""
    table = world.table("results", "id INT")
    table.append(world.frame("id INT", (1,)), provenance=world.run("base", sequence=1))
    for position in (3, 2):

        def move(w, position=position):
            advance_latest(w.into("results", str(position)), position=position)
            return (latest_of(w["results"]),)

        yield move
