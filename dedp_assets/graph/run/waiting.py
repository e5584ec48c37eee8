"""Waits of steps for slots of pools, with two faults of Dagster 1.13 mended.

Definitions are loaded in each process that executes a run: there the faults are mended.

*A slot that nobody is offered.* A step that comes to a pool looks for a free slot, and then begins to wait. A slot that
is freed in between is offered to none, and all steps of the pool wait until a further run of it ends.

*A wait without a pause.* A waiting step looks again after 1 to 15 seconds. Until then Dagster asks without a pause
whether that time has come, and each waiting run takes a whole core: its time to the next look is the least of zero and
the remaining seconds (its pull request 20367 was closed unmerged).

Dagster has no setting for either. Its files and tables stay as they are.
"""

from __future__ import annotations

import time
from functools import wraps
from typing import Any

from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext  # noqa: TID251
from dagster._core.storage.event_log import SqlEventLogStorage  # noqa: TID251 - of files and of PostgreSQL

__all__ = ["WITHOUT_LOOK", "mend_waiting"]

_INTERVAL, _BEGIN = "interval_to_next_pending_claim_check", "add_pending_step"
WITHOUT_LOOK = SqlEventLogStorage.add_pending_step
"""Dagster's own beginning of a wait."""


def mend_waiting() -> None:
    """Mend the waits of steps in this process."""
    setattr(InstanceConcurrencyContext, _INTERVAL, _seconds_to_next_look)
    setattr(SqlEventLogStorage, _BEGIN, _wait_and_look)


def _seconds_to_next_look(waiting: InstanceConcurrencyContext) -> float:
    """Return the seconds until the next look for a slot, at least 0."""
    looks = waiting._pending_timeouts.values()
    return max(0.0, min(looks, default=0.0) - time.time())  # noqa: TID251 - Dagster's looks are of this clock


@wraps(WITHOUT_LOOK)
def _wait_and_look(
    storage: SqlEventLogStorage,
    concurrency_key: str,
    *args: Any,  # noqa: ANN401 - handed on
    **options: Any,  # noqa: ANN401 - as above
) -> None:
    WITHOUT_LOOK(storage, concurrency_key, *args, **options)
    # Who is offered a slot still has to take one: an offer too many changes the order of the waiting at most.
    if storage.has_unassigned_slots(concurrency_key):
        storage.assign_pending_steps([concurrency_key])
