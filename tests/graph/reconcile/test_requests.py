"""Requests of a plan: one run per version, under run keys that are in people's run history."""

from __future__ import annotations

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.outcomes.run_tags import BECAUSE, CODE, REQUEST, range_request, refusal, request_of
from dedp_assets.graph.reconcile.reconciling import Ask, Want
from dedp_assets.graph.reconcile.requests import decide, run_request, tried
from dedp_assets.patterns.core.results import Plan

TABLE = "bronze/x"
FAILED, ENDED = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


@pytest.fixture
def history():
    """``history((status, tags), ...)``: an instance that knows these runs, the newest last."""
    with dg.DagsterInstance.ephemeral() as instance:

        def known(*runs):
            for status, tags in runs:
                instance.add_run(dg.DagsterRun(job_name="some_job", status=status, tags=tags))
            return instance

        yield known


def decided(instance, *keys, **options):
    """Run keys and partitions that are asked for, and what is held."""
    plan = Plan(keys, "", causes=dict.fromkeys(keys, "test"), cursor=dict.fromkeys(keys, 5))
    decision = decide(instance, plan, asset=TABLE, **options)
    return [(request.run_key, request.partition_key) for request in decision.requests], dict(decision.held)


def asked(key=TABLE):
    return {REQUEST: f"{TABLE}:{key}@5"}


def test_a_version_is_asked_for_under_the_same_key_until_a_run_of_it_failed(history):
    """After a success as well: Dagster starts a key once, so that no version is computed twice."""
    assert decided(history(), TABLE, job_name="load") == ([("bronze/x:bronze/x@5", None)], {})
    assert decided(history((ENDED, asked())), TABLE, job_name="load") == ([("bronze/x:bronze/x@5", None)], {})
    assert decided(history((FAILED, asked("1"))), "1") == ([("bronze/x:1@5#2", "1")], {})


def test_three_failed_runs_end_the_attempts_at_a_version(history):
    """The newest one is named; another partition of the plan is asked for all the same."""
    instance = history(*[(FAILED, asked("1"))] * 3)
    last = instance.get_runs()[0].run_id[:8]
    requests, held = decided(instance, "1", "2")
    assert requests == [("bronze/x:2@5", "2")]
    assert held == {"1": f"gave up after 3 failed runs: look at run {last}"}


@pytest.mark.parametrize(
    "tags",
    [{**asked("1"), **refusal("silver/x", "1", 8)}, refusal(TABLE, "1", 5)],
    ids=["its run, by a table of the same job", "any run of the table"],
)
def test_a_refused_version_is_not_asked_for_again(history, tags):
    """Neither if another table of its run was refused, nor if somebody else's run was refused at this version."""
    assert decided(history((FAILED, tags)), "1", "2")[0] == [("bronze/x:2@5", "2")]
    held = decided(history(), "1")[1]
    assert held == {"1": "refused at 5: waits for new data, a fix or an approval (`dedp status`)"}


@pytest.mark.parametrize("tags", [asked("1"), {**asked("1"), **refusal(TABLE, "1", 5)}], ids=["failed", "refused"])
def test_other_code_has_attempts_of_its_own_under_new_keys(history, tags):
    """However often a version failed or was refused by older code; a run that names no code counts for any."""
    old = history(*[(FAILED, {**tags, CODE: "1 abc"})] * 3)
    assert decided(old, "1", code="1 abc")[0] == []
    assert decided(old, "1", code="2 abc")[0] == [("bronze/x:1@5#4", "1")]
    unnamed = history(*[(FAILED, tags)] * 3)
    assert decided(unnamed, "1", code="2 abc")[0] == []


def test_a_request_names_the_code_that_it_is_for(history):
    """So that its attempts are told from those of the next one."""
    plan = Plan(("1",), "", causes={"1": "test"}, cursor={"1": 5})
    (request,) = decide(history(), plan, asset=TABLE, code="2 abc").requests
    assert request.tags[CODE] == "2 abc"


def test_a_run_of_tables_computes_those_that_are_named(history):
    """A replay is asked for under the name of its table, and computes another asset."""
    plan = Plan(("1",), "", causes={"1": "test"}, cursor={"1": 5})
    (request,) = decide(history(), plan, asset=TABLE, computes=["bronze/x_replay"]).requests
    assert request.asset_selection == [dg.AssetKey(["bronze", "x_replay"])]
    assert (request.tags[REQUEST], request.tags["dagster/max_retries"]) == ("bronze/x:1@5", "0")


def test_successes_count_where_a_partition_has_to_get_there(history):
    """The reconciler tells both apart; what is under way has not ended."""
    runs = history((FAILED, asked()), (ENDED, asked()), (dg.DagsterRunStatus.STARTED, asked()))
    (found,) = tried(runs, {"bronze/x:bronze/x@5": ""}).values()
    assert (found.failed, found.succeeded, found.run_key("x")) == (1, 1, "x#3")
    (found,) = tried(runs, {"bronze/x:bronze/x@5": ""}, failed_only=True).values()
    assert (found.failed, found.succeeded) == (1, 0)


@given(st.lists(st.sampled_from(["", "the upstream is newer", "late records", "word " * 200]), min_size=1, max_size=5))
def test_a_run_says_each_reason_of_its_partitions_once(reasons):
    """In the order of the partitions, cut at 500 characters, as a tag; without a reason no tag."""
    first, *more = [Want((TABLE,), str(n), "1", "behind", reason, named=TABLE) for n, reason in enumerate(reasons)]
    told = run_request(Ask(first, (TABLE,), "key", tuple(more)), None).tags.get(BECAUSE, "")
    whole = "; ".join(dict.fromkeys(f"behind: {reason.strip()}" for reason in reasons if reason))
    assert len(told) <= 500
    assert told == whole if len(whole) <= 500 else whole.startswith(told.removesuffix(" ..."))


def test_names_of_requests_are_those_of_the_run_history():
    """An upgrade that spelled one otherwise would ask for everything once more."""
    assert request_of(TABLE, "", 5) == "bronze/x:bronze/x@5"
    assert request_of(TABLE, "1", "abc", restored=7) == "bronze/x:1@abc~7"
    assert range_request(TABLE, "1", "3", "@5", cause="look-back").run_key == "bronze/x:1..3@5"
