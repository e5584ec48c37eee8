"""Meter: the clock of a write, and the engine's account of the write's Spark jobs.

Spark's public interfaces tell no CPU time: observations are aggregates over rows, Delta's operation metrics are files
and rows, the status tracker counts tasks, and Spark Connect has metrics of queries and none of a write. Only the
driver's status store holds what tasks used. An embedded session is asked for it by the jobs' tag; over Connect the
figures are absent.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from typing import Any, Literal, TypeVar

from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.measuring.requests import open_count

__all__ = ["Meter", "monotonic", "used_by_jobs"]

T = TypeVar("T")

Phase = Literal["waiting", "staging", "committing"]

_LISTENERS_MS = 1_000
_REMEMBERED = 90
"""Jobs that a status store is certain to remember: the platform's engine keeps 100, Spark by default 1,000."""


def monotonic() -> float:
    """Return the seconds of a clock that only runs forward; differences alone have a meaning."""
    return time.monotonic()


class Meter:
    """Stopwatch of one write with the phases waiting, staging and committing.

    The requests to a bucket are those of the block that counts them around the write.
    """

    def __init__(self) -> None:
        self._requests = open_count()
        self._lapped = monotonic()
        self._spent: dict[Phase, float] = {}
        self._engine = Cost()
        self._attempts = 0

    @contextmanager
    def waiting(self, lock: AbstractContextManager[T]) -> Iterator[T]:
        """Enter ``lock`` for the block, and count the wait; the time before the wait is staging."""
        self._lap("staging")
        with lock as held:
            self._lap("waiting")
            yield held

    def trying(self, attempts: Iterable[T]) -> Iterator[T]:
        """Count the attempts to commit; the time of a failed attempt is committing."""
        for attempt in attempts:
            if self._attempts:
                self._lap("committing")
            self._attempts += 1
            yield attempt

    @contextmanager
    def jobs(self, session: Any) -> Iterator[None]:  # noqa: ANN401 - the two kinds of session share no type
        """Add CPU and spilled bytes of the block's Spark jobs, if the engine has an account of tasks."""
        context = session.sparkContext if hasattr(session, "_jsparkSession") else None
        if context is None:
            yield
            return
        tag = f"dedp-{uuid.uuid4().hex}"
        context.addJobTag(tag)
        try:
            yield
        finally:
            context.removeJobTag(tag)
        self._engine += used_by_jobs(context, tag)

    def cost(self) -> Cost:
        """Return the cost up to now; the last phase is committing, or staging before the lock."""
        self._lap("committing" if "waiting" in self._spent else "staging")
        spent = {phase: round(seconds, 6) for phase, seconds in self._spent.items()}
        figures = Cost(
            seconds=round(sum(spent.values()), 6),
            waiting_seconds=spent.get("waiting"),
            staging_seconds=spent.get("staging"),
            committing_seconds=spent.get("committing"),
            attempts=self._attempts or None,
        )
        return self._engine + self._requests.cost + figures

    def _lap(self, phase: Phase) -> None:
        """Count the time since the last lap as ``phase``."""
        now = monotonic()
        self._spent[phase] = self._spent.get(phase, 0.0) + now - self._lapped
        self._lapped = now


def used_by_jobs(context: Any, tag: str) -> Cost:  # noqa: ANN401 - a classic context
    """Add up the tasks of the jobs with a tag; without a complete account the cost is empty."""
    with suppress(*SPARK_ERRORS, AttributeError):
        bus, tracker, store = _account_of(context)
        bus.waitUntilEmpty(_LISTENERS_MS)
        jobs = list(tracker.getJobIdsForTag(tag))
        if len(jobs) > _REMEMBERED:
            return Cost()
        ids = {stage for job in jobs for stage in store.job(job).stageIds().mkString(" ").split()}
        stages = [store.lastStageAttempt(int(stage)) for stage in ids]
        nanoseconds = sum(stage.executorCpuTime() for stage in stages)
        return Cost(cpu_seconds=nanoseconds / 1e9, bytes_spilled=sum(stage.diskBytesSpilled() for stage in stages))
    return Cost()


@lru_cache(maxsize=1)
def _account_of(context: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - as above
    """Return the listener bus, status tracker and status store of a driver: one JVM call each."""
    scala = context._jsc.sc()
    return scala.listenerBus(), scala.statusTracker(), scala.statusStore()
