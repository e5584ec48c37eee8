"""Slots of tables: which requests find one, and the pools of Dagster that are declared."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.graph.declare import AtOnce, Follow, InOrder
from dedp_assets.graph.reconcile.edges import groups_of
from dedp_assets.graph.reconcile.reconciling import Want, plan_requests
from dedp_assets.graph.reconcile.requests import run_request
from dedp_assets.graph.reconcile.slots import declare_pools, pools_of, within_slots
from tests.hand_written import declare

KEYS = [f"2026-01-{number:02}" for number in range(5, 25)]


HEAVY = declare("gold/heavy", AtOnce(5))
CRITICAL = declare("gold/critical", AtOnce(2, by=Follow(), priority=3))
ORDERED, PLAIN = declare("gold/ordered", InOrder()), declare("gold/plain", Follow())
TABLES = [HEAVY, CRITICAL, ORDERED, PLAIN]


def want(table, key):
    name, priority = table.spec.name, table.priority
    return Want((name,), key, "8", "behind", "x changed", computes={name: (name,)}, named=name, priority=priority)


def planned(*wants, busy):
    outcome = plan_requests(wants, busy=busy, refused=lambda *_: None, tried=lambda _: {}, limit=100)
    return within_slots(outcome, TABLES, busy)


def test_a_table_takes_its_own_slots_and_leaves_those_of_others():
    """Of 20 partitions 5 are asked for, those in flight counted; a critical table and one without slots go on."""
    wants = [*(want(HEAVY, key) for key in KEYS), want(CRITICAL, KEYS[0]), *(want(PLAIN, key) for key in KEYS[:8])]
    busy = {"gold/heavy": set(KEYS[:2])}
    outcome = planned(*wants, busy=busy)
    asked = [(ask.want.named, ask.want.key) for ask in outcome.asks]
    assert [key for name, key in asked if name == "gold/heavy"] == KEYS[2:5]
    assert ("gold/critical", KEYS[0]) in asked
    assert [key for name, key in asked if name == "gold/plain"] == KEYS[:8]
    reasons = {gap.key: gap.reason for gap in outcome.gaps if gap.table == "gold/heavy"}
    taken = ", ".join(f"gold/heavy {key}" for key in KEYS[:5])
    assert reasons[KEYS[5]] == f"x changed; 5 of 5 slots of gold/heavy are taken: {taken}"
    assert reasons[KEYS[0]] == "x changed; is being processed"
    assert reasons[KEYS[2]] == "x changed; the reconciler asks for it"
    assert len(reasons) == len(KEYS)


def test_slots_that_are_free_hold_nothing():
    """Five partitions within five slots are asked for, and no slot is named as taken."""
    outcome = planned(*(want(HEAVY, key) for key in KEYS[:5]), busy={})
    assert [ask.want.key for ask in outcome.asks] == KEYS[:5]
    assert {gap.reason for gap in outcome.gaps} == {"x changed; the reconciler asks for it"}


def test_a_table_with_slots_is_asked_for_alone():
    """A run of several tables would take the slots of one for another, and the priority of one for all."""
    both = declare("gold/both", Follow())
    groups = [[edge.name for edge in group.edges] for group in groups_of([HEAVY, CRITICAL, PLAIN, both])]
    assert sorted(groups) == [["gold/critical"], ["gold/heavy"], ["gold/plain", "gold/both"]]


def test_the_priority_of_a_table_is_that_of_its_runs_in_the_queue():
    """A table without one says nothing."""
    (critical, heavy) = planned(want(CRITICAL, KEYS[0]), want(HEAVY, KEYS[1]), busy={}).asks
    assert run_request(critical, None).tags["dagster/priority"] == "3"
    assert "dagster/priority" not in run_request(heavy, None).tags


@pytest.fixture
def instance():
    overrides = {"concurrency": {"pools": {"default_limit": 1, "granularity": "op"}}}
    with dg.instance_for_test(overrides=overrides) as made:
        yield made


@pytest.mark.runs
def test_declared_limits_are_those_of_dagsters_pools(instance):
    """An order has one slot; a pool without a declared limit keeps the one that a person gave it."""
    storage = instance.event_log_storage
    storage.set_concurrency_slots(PLAIN.name, 3)
    storage.set_concurrency_slots(ORDERED.name, 4)
    assert pools_of(TABLES) == {"gold_heavy": 5, "gold_critical": 2, "gold_ordered": 1}
    assert declare_pools(instance, TABLES) == pools_of(TABLES)
    assert {pool.name: pool.limit for pool in storage.get_pool_limits()} == {**pools_of(TABLES), "gold_plain": 3}
    assert declare_pools(instance, TABLES) == {}
    assert declare_pools(instance, [declare("gold/heavy", AtOnce(2))]) == {"gold_heavy": 2}
    assert storage.get_concurrency_info("gold_heavy").slot_count == 2
