"""Waits of steps for a slot of their pool."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import dagster as dg
import pytest
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext  # noqa: TID251
from dagster._core.storage.event_log import SqlEventLogStorage  # noqa: TID251

from dedp_assets.graph.run.waiting import WITHOUT_LOOK, mend_waiting
from tests.faults.processes import wait_until


@pytest.fixture
def storage():
    """Storage of the slots of an instance, with the mended wait."""
    mend_waiting()
    with dg.DagsterInstance.local_temp() as instance:
        yield instance.event_log_storage


def test_a_run_sleeps_until_its_next_look_for_a_slot(storage):
    """The first look is a second after the step found none, and due at once when that time has come."""
    storage.set_concurrency_slots("pool", 1)
    storage.claim_concurrency_slot("pool", "another", "step")
    with InstanceConcurrencyContext(storage._instance, dg.DagsterRun("job", run_id="waiting")) as waiting:
        assert waiting.interval_to_next_pending_claim_check() == 0
        assert not waiting.claim("pool", "step")
        assert 0 < waiting.interval_to_next_pending_claim_check() <= 1
        waiting._pending_timeouts["step"] -= 5
        assert waiting.interval_to_next_pending_claim_check() == 0


@pytest.mark.parametrize("mended", [True, False])
def test_a_slot_that_is_freed_while_a_step_begins_to_wait_is_taken(storage, monkeypatch, mended):
    """Dagster itself offers it to nobody: once it does, nothing is left to mend."""
    if not mended:
        monkeypatch.setattr(SqlEventLogStorage, "add_pending_step", WITHOUT_LOOK)
    storage.set_concurrency_slots("pool", 1)
    assert storage.claim_concurrency_slot("pool", "first", "step").is_claimed
    look = storage.has_unassigned_slots

    def looked(pool: str) -> bool:
        found = look(pool)
        monkeypatch.setattr(storage, "has_unassigned_slots", look)
        storage.free_concurrency_slots_for_run("first")
        return found

    monkeypatch.setattr(storage, "has_unassigned_slots", looked)
    storage.claim_concurrency_slot("pool", "second", "step")
    assert storage.claim_concurrency_slot("pool", "second", "step").is_claimed is mended


def test_as_many_steps_as_slots_work_at_once_whoever_looked_when(storage):
    """Of eight threads, which take and free two slots, two at most hold one at the same time; all had their turn."""
    holding, most = set[str](), list[int]()

    def work(run: str) -> None:
        assert wait_until(lambda: storage.claim_concurrency_slot("pool", run, "step").is_claimed)
        holding.add(run)
        Event().wait(0.01)  # or nobody else would have one at the same time
        most.append(len(holding))
        holding.discard(run)
        storage.free_concurrency_slot_for_step(run, "step")

    storage.set_concurrency_slots("pool", 2)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, [f"run {number}" for number in range(24)]))
    assert len(most) == 24
    assert max(most) == 2
    assert not storage.get_concurrency_info("pool").pending_steps
