"""Local Sequencer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.flow.local_sequencer import (
    SequenceStep,
    StepState,
    chain_steps,
    judge_steps,
    plan_steps,
)
from tests.contracts.known_calls import known_calls

RAW, ENRICHED, METRICS, EXPORTED = "raw", "enriched", "metrics", "exported"
CHAIN = (
    SequenceStep(RAW),
    SequenceStep(ENRICHED, [RAW]),
    SequenceStep(METRICS, [ENRICHED]),
    SequenceStep(EXPORTED, [METRICS]),
)
FORKED = (
    SequenceStep(RAW),
    SequenceStep("preview", [RAW], on_failure="continue"),
    SequenceStep("shared preview", ["preview"], on_failure="continue"),
    SequenceStep(EXPORTED, [RAW]),
)
DONE, FAILED = StepState("done", inputs="v1"), StepState("failed", inputs="v1")
V1 = dict.fromkeys((RAW, ENRICHED, METRICS, EXPORTED), "v1")


def states(**named):
    return {name.replace("_", " "): state for name, state in named.items()}


def test_a_failure_of_the_last_step_repeats_the_last_step_alone():
    """Nothing before it runs again, the paid step included."""
    found = plan_steps(CHAIN, states=states(raw=DONE, enriched=DONE, metrics=DONE, exported=FAILED), inputs=V1)
    assert (found.partitions, found.causes, found.held) == ((EXPORTED,), {EXPORTED: "failed"}, {})
    assert found.cursor == {EXPORTED: "v1"}


def test_a_run_begins_at_the_first_step_that_is_not_current():
    """Everything is computed the first time, and nothing once all is done."""
    assert plan_steps(CHAIN, states={}, inputs={}).partitions == (RAW, ENRICHED, METRICS, EXPORTED)
    middle = plan_steps(CHAIN, states=states(raw=DONE, enriched=FAILED), inputs=V1)
    assert middle.causes == {ENRICHED: "failed", METRICS: "not run", EXPORTED: "not run"}
    assert plan_steps(CHAIN, states=dict.fromkeys(V1, DONE), inputs=V1).partitions == ()


def test_changed_inputs_and_changed_code_repeat_a_step_and_the_steps_that_read_it():
    """An earlier step that succeeded is repeated for nothing else."""
    done = dict.fromkeys(V1, DONE)
    changed = plan_steps(CHAIN, states=done, inputs={**V1, ENRICHED: "v2"})
    assert changed.causes == {ENRICHED: "inputs changed", METRICS: "reads enriched", EXPORTED: "reads metrics"}
    code = (*CHAIN[:2], SequenceStep(METRICS, [ENRICHED], code_version="2"), CHAIN[3])
    assert plan_steps(code, states=done, inputs=V1).causes == {METRICS: "code changed", EXPORTED: "reads metrics"}


def test_a_step_that_stops_blocks_all_later_steps_of_its_run():
    """Also a later step that does not read its result."""
    steps = (SequenceStep(RAW), SequenceStep("preview", [RAW]), SequenceStep(EXPORTED, [RAW]))
    found = plan_steps(steps, states=states(raw=DONE, preview=FAILED), inputs=V1, retry_failed=False)
    assert found.partitions == ()
    assert found.held == {"preview": "failed", EXPORTED: "preview failed and stops later steps"}
    assert found.reason.startswith("stopped: preview failed")


def test_a_step_that_continues_blocks_its_readers_alone_and_the_run_is_degraded():
    """The independent step runs, and the run does not pass for that."""
    found = plan_steps(FORKED, states=states(raw=DONE, preview=FAILED), inputs=V1, retry_failed=False)
    assert (found.partitions, found.held) == ((EXPORTED,), {"preview": "failed", "shared preview": "reads preview"})
    assert found.reason.startswith("degraded: preview failed")
    judged = judge_steps(FORKED, states=states(raw=DONE, preview=FAILED, exported=DONE))
    assert (judged.passed, judged.severity) == (False, "fail")
    assert judged.note == "degraded: preview failed; shared preview not run; raw, exported done"
    assert judged.figures == {"done": 2, "failed": 1, "not_run": 1}


def test_a_run_passes_when_every_step_is_done_and_stops_by_a_step_that_stops():
    """A step that was not run is no success either."""
    assert judge_steps(CHAIN, states=dict.fromkeys(V1, DONE)).passed
    assert judge_steps(CHAIN, states=states(raw=FAILED)).note.startswith("stopped: raw failed; enriched, metrics")
    assert not judge_steps(CHAIN, states=states(raw=DONE)).passed


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([SequenceStep("a"), SequenceStep("a")], "not a twice"),
        ([SequenceStep("b", ["a"]), SequenceStep("a")], "not b after a"),
        ([SequenceStep("a", ["a"])], "not a after a"),
    ],
)
def test_steps_have_names_of_their_own_and_an_order(steps, named):
    """Both functions refuse what is none."""
    with pytest.raises(ConfigError, match=named):
        plan_steps(steps, states={}, inputs={})
    with pytest.raises(ConfigError, match=named):
        judge_steps(steps, states={})


def test_a_policy_that_nobody_knows_is_refused():
    """By the name of the option."""
    with pytest.raises(ConfigError, match="on_failure must be stop or continue, not 'ignore'"):
        SequenceStep("a", on_failure="ignore")
    with pytest.raises(ConfigError, match="outcome must be"):
        StepState("green")


@st.composite
def sequences(draw):
    """Steps that read some of the steps before them, each with a policy."""
    steps = []
    for number in range(draw(st.integers(1, 6))):
        after = draw(st.lists(st.sampled_from([s.name for s in steps]), unique=True)) if steps else []
        steps.append(SequenceStep(f"s{number}", after, draw(st.sampled_from(["stop", "continue"]))))
    return steps


def run(steps, done, failing):
    """Run a sequence to its end: the steps that were tried, in order, and the state of each."""
    states, tried = dict(done), []
    while due := plan_steps(steps, states=states, inputs={}, retry_failed=False).partitions:
        tried.append(due[0])
        states[due[0]] = StepState("failed" if due[0] in failing else "done")
    return tried, states


@given(sequences(), st.lists(st.sets(st.sampled_from([f"s{n}" for n in range(6)])), max_size=4))
def test_runs_that_resume_repeat_no_success_and_end_with_every_step_done(steps, failures):
    """Whatever fails in which run; a step that stops is the last one tried, and no reader of a failure is."""
    policy, done, succeeded = {step.name: step for step in steps}, {}, []
    for failing in [*failures, set()]:
        resumed = plan_steps(steps, states=done, inputs={}).partitions
        tried, states = run(steps, done, failing)
        failed = [name for name in tried if name in failing]
        assert tried == [name for name in resumed if name in tried]
        assert all(states[read].outcome == "done" for name in tried for read in policy[name].after)
        assert not [name for name in failed[:-1] if policy[name].on_failure == "stop"]
        assert not failed or policy[failed[-1]].on_failure == "continue" or tried[-1] == failed[-1]
        assert judge_steps(steps, states=states).passed == (not failed)
        done = {name: state for name, state in states.items() if state.outcome == "done"}
        succeeded += [name for name in tried if name not in failing]
    assert sorted(succeeded) == sorted(policy)


def doubled(rows):
    return rows.withColumn("n", F.col("n") * 2)


def grouped(rows):
    return rows.groupBy("key").agg(F.sum("n").alias("n"))


@pytest.mark.spark
def test_one_task_gives_the_rows_of_a_task_for_each_step(spark, make_table):
    """Business logic is the same in both forms: stored between the steps, or one chain of frames."""
    from dedp_assets.patterns.core.schema import Column, TableSpec
    from tests.helpers import a_run, read_back

    raw = spark.createDataFrame([("a", 1), ("a", 2), ("b", 5)], "key STRING, n BIGINT")
    columns = {"key": Column("STRING"), "n": Column("BIGINT")}
    rows, stored = raw, None
    for number, step in enumerate((doubled, grouped)):
        stored = make_table(TableSpec(f"flow/step_{number}", columns))
        stored.overwrite(step(rows), provenance=a_run(stored.name))
        rows = stored.read()
    chained = chain_steps(raw, steps=[doubled, grouped])
    assert sorted(map(tuple, chained.collect())) == sorted(tuple(row.values()) for row in read_back(stored))


@pytest.mark.spark
@pytest.mark.parametrize(("steps", "named"), [([], "not none"), ([lambda _: 7], "not int")])
def test_a_step_of_one_task_is_a_function_of_rows(spark, steps, named):
    """No step, and a step that returns something else, are refused."""
    with pytest.raises(ConfigError, match=named):
        chain_steps(spark.range(1), steps=steps)


@known_calls
def calls_that_work(known):
    steps = [SequenceStep("a"), SequenceStep("b", ["a"])]
    return {
        "judge_steps": {"steps": steps, "states": {"a": StepState("done")}},
        "chain_steps": {"rows": known.visits, "steps": [lambda rows: rows]},
    }
