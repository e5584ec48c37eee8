"""Wait of a run for a slot of a pool: asleep until the next look.

A run whose step finds its pool full looks again after 1 to 15 seconds. Until then Dagster 1.13 asks without a pause
whether that time has come, and each waiting run takes a whole core: its time to the next look is the least of zero and
the remaining seconds (its pull request 20367 was closed unmerged). Dagster has no setting for that time.
"""

from __future__ import annotations

import time

from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext  # noqa: TID251

__all__ = ["sleep_between_looks"]

_INTERVAL = "interval_to_next_pending_claim_check"


def sleep_between_looks() -> None:
    """Let waiting runs of this process sleep until their next look for a slot."""
    setattr(InstanceConcurrencyContext, _INTERVAL, _seconds_to_next_look)


def _seconds_to_next_look(waiting: InstanceConcurrencyContext) -> float:
    """Return the seconds until the next look for a slot; 0 if it is due."""
    looks = waiting._pending_timeouts.values()
    return max(0.0, min(looks, default=0.0) - time.time())  # noqa: TID251 - Dagster's looks are of this clock
