"""Waits of runs for a slot."""

import dagster as dg
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext  # noqa: TID251

from dedp_assets.local.waiting import sleep_between_looks


def test_a_run_sleeps_until_its_next_look_for_a_slot():
    """The first look is a second after the step found none, and due at once when that time has come."""
    sleep_between_looks()
    with dg.DagsterInstance.local_temp() as instance:
        instance.event_log_storage.set_concurrency_slots("pool", 1)
        instance.event_log_storage.claim_concurrency_slot("pool", "another", "step")
        run = dg.DagsterRun("job", run_id="waiting")
        with InstanceConcurrencyContext(instance, run) as waiting:
            assert waiting.interval_to_next_pending_claim_check() == 0
            assert not waiting.claim("pool", "step")
            assert 0 < waiting.interval_to_next_pending_claim_check() <= 1
            waiting._pending_timeouts["step"] -= 5
            assert waiting.interval_to_next_pending_claim_check() == 0
