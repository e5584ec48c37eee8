"""Clocks of a partition: of the table's own run, and from the end of the data to the delivery."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measurement, Verdict
from dedp_assets.patterns.core.measuring.quantities import duration
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.observability._timing.deadlines import Due

__all__ = ["TimedRun", "is_measured", "measure_run", "usual_seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """The times of one partition with a deadline, with or without a run.

    Attributes:
        partition: partition key.
        ends_at: end of the partition's data.
        outcome: ``succeeded`` once the partition is committed; ``failed`` while no attempt succeeded and none is under
            way.
        started_at: when the first attempt at this table began, without the time that upstream tables took in the same
            pipeline; ``None`` before a start.
        ended_at: when the partition was first committed, or the last failed attempt ended.
        inputs_ready_at: when the last upstream partition was committed; ``None`` if one is still missing.
        last_input: upstream table that was ready last, or is missing; empty for a table without upstream tables.
        is_backfill: whether nothing but a backfill ever computed the partition.

    Raises:
        ConfigError: for a run without a start, or a success before the start.
    """

    partition: str
    ends_at: datetime
    outcome: Literal["succeeded", "failed", "running", "not started"] = "not started"
    started_at: datetime | None = None
    ended_at: datetime | None = None
    inputs_ready_at: datetime | None = None
    last_input: str = ""
    is_backfill: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if self.outcome == "running" and self.started_at is None:
            raise ConfigError(f"started_at must be the start of the run of {self.partition!r}, not None")
        if self.started_at and self.ended_at and self.ended_at < self.started_at:
            raise ConfigError(f"ended_at must not lie before started_at, not {self.ended_at}")

    @property
    def is_done(self) -> bool:
        """``True`` once the partition is committed."""
        return self.outcome == "succeeded"


@dataclass(frozen=True, slots=True)
class _Clock:
    """A clock from a start until the commit of the partition, with a limit.

    Attributes:
        began: start of the clock.
        stopped: time of the commit, or the current time.
        is_stopped: whether the partition is committed.
        limit: longest time in seconds; ``None`` for any.
        warn_at: share of the limit after which an early warning comes; ``None`` for none.
    """

    began: datetime
    stopped: datetime
    is_stopped: bool
    limit: float | None
    warn_at: float | None

    @property
    def seconds(self) -> float:
        return max(0.0, (self.stopped - self.began).total_seconds())

    @property
    def verdict(self) -> Verdict:
        if self.limit is None or (self.is_stopped and self.seconds <= self.limit):
            return "ok"
        # A clock that still runs at the limit cannot keep it any more.
        if self.seconds >= self.limit:
            return "fail"
        return "warn" if self.warn_at and self.seconds >= self.warn_at * self.limit else "ok"

    @property
    def since(self) -> datetime | None:
        """Return the beginning of the trouble; ``None`` without one."""
        if self.verdict == "ok" or self.limit is None:
            return None
        share = self.warn_at if self.verdict == "warn" and self.warn_at else 1
        return self.began + timedelta(seconds=share * self.limit)


def is_measured(run: TimedRun, due: Due, now: datetime, recent_hours: float) -> bool:
    """Return whether a partition is recent, or owed, and not an old partition under backfill."""
    hours = 3600 * recent_hours
    if run.is_done and run.ended_at is not None and (now - run.ended_at).total_seconds() > hours:
        return False
    owed = due.deadline(run.ends_at) or run.ends_at
    began = run.started_at or now
    return not (run.is_backfill and (began - owed).total_seconds() > hours)


def usual_seconds(runs: Sequence[TimedRun], judged: TimedRun, due: Due) -> float:
    """Return the time that a run needs: the longest one promised, else the median of other runs, else 0."""
    if due.within_seconds is not None:
        return due.within_seconds
    others = (each for each in runs if each is not judged and each.is_done and not each.is_backfill)
    seconds = [
        (each.ended_at - each.started_at).total_seconds() for each in others if each.ended_at and each.started_at
    ]
    return median(seconds) if seconds else 0.0


def measure_run(run: TimedRun, now: datetime, due: Due, *, table: str, needed_seconds: float) -> Iterator[Measurement]:
    """Yield the measurements of a partition: of the run's own clock, and of the clock up to the deadline.

    Args:
        run: the partition.
        now: current time.
        due: the promise.
        table: name of the table.
        needed_seconds: time that a run needs, so that inputs which leave less of it until the deadline came too late.
    """
    stopped = run.ended_at if run.is_done else now
    if stopped is None:  # the log no longer says when it was delivered
        reason = f"{run.partition} is there, and the log no longer tells since when"
        yield Measurement(metric="pipeline_seconds", table=table, at=now, verdict="unknown", unit="s", reason=reason)
        return
    if run.started_at is not None:
        own = _Clock(run.started_at, stopped, run.is_done, due.within_seconds, due.warn_at)
        reason = _reason_of_run(run, own) if own.verdict != "ok" else ""
        yield _measurement("run_seconds", table, run, now, own, reason)
    deadline = due.deadline(run.ends_at)
    if now < run.ends_at:  # nobody waits for the partition yet
        return
    limit = (deadline - run.ends_at).total_seconds() if deadline else None
    whole = _Clock(run.ends_at, stopped, run.is_done, limit, due.warn_at)
    if deadline is None or whole.verdict == "ok":
        yield _measurement("pipeline_seconds", table, run, now, whole, "")
        return
    upstream = _late_input(run, deadline - timedelta(seconds=needed_seconds))
    reason = f"{_state(run, due, deadline)}; {_cause(run, due, upstream)}"
    yield _measurement("pipeline_seconds", table, run, now, whole, reason, upstream)


def _measurement(
    metric: str, table: str, run: TimedRun, now: datetime, clock: _Clock, reason: str, upstream: str = ""
) -> Measurement:
    return Measurement(
        metric=metric,
        table=table,
        at=now,
        verdict=clock.verdict,
        partition=run.partition,
        value=clock.seconds,
        unit="s",
        at_most=clock.limit,
        reason=reason,
        since=clock.since,
        explained_by=upstream,
    )


def _late_input(run: TimedRun, latest_start: datetime) -> str:
    """Return the upstream table that left too little time for a run; empty without one."""
    if run.inputs_ready_at is None:
        return run.last_input if run.outcome in ("failed", "not started") else ""
    return run.last_input if run.inputs_ready_at > latest_start else ""


def _reason_of_run(run: TimedRun, clock: _Clock) -> str:
    most = duration(clock.limit or 0)
    if run.is_done:
        return f"took {duration(clock.seconds)} from the first start, longer than {most}"
    if clock.verdict == "warn":
        return f"no attempt has succeeded after {clock.warn_at:.0%} of {most}"
    failed = ", and the last one failed" if run.outcome == "failed" else ""
    return f"no attempt has succeeded within {most} of the first start{failed}"


def _state(run: TimedRun, due: Due, deadline: datetime) -> str:
    promised = due.shown(deadline)
    if run.is_done and run.ended_at:
        return f"delivered {duration((run.ended_at - deadline).total_seconds())} after {promised}"
    states = {
        "not started": "no run has started",
        "running": f"a run is under way since {due.shown(run.started_at)}" if run.started_at else "",
        "failed": "the last attempt failed",
    }
    return f"due at {promised}, and {states[run.outcome]}"


def _cause(run: TimedRun, due: Due, upstream: str) -> str:
    """Return the sentence on the cause of a delay."""
    ready = due.shown(run.inputs_ready_at) if run.inputs_ready_at else ""
    if upstream:
        return f"{upstream} was ready only at {ready}" if ready else f"{upstream} is not ready yet"
    return f"the inputs were ready at {ready}" if ready else "no upstream table explains it"
