"""Single Runner: partitions run one at a time, each after the success of the previous partition.

Problem: the run of a day begins with the state that the run of the previous day left. In a parallel backfill it begins
    with nothing, and its rows look right.
Solution: one run at a time, and none before the previous partition is committed: a slot that a failed run frees stays
    free. A partition that is run again makes the later ones stale, and they are replayed in order.
Consequences: a year of days is 365 runs one after the other. A delay is made up only if a run is shorter than the
    interval of the schedule. The queue of requests is limited, and what is rejected has to be asked for again.
Choose instead: Concurrent Runner, if runs share no state; Stateful Merger, if all partitions share one set of rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.measuring.quantities import duration
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Plan

__all__ = ["plan_in_order", "require_place", "judge_catch_up", "PartitionProgress"]

_AFTER = {
    "waiting": "which runs first",
    "running": "which is running",
    "failed": "which failed: repair it, and the later ones go on",
    "missing": "which has not run",
    "committed": "which is run again first",
}


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """Progress of one partition of an order.

    Attributes:
        status: ``waiting`` for its run, ``running``, ``failed``, ``committed``, or ``missing`` without a request.
        version: version of the table in which a committed partition last changed.
        based_on: ``version`` of the previous partition when this one was computed; ``None`` for the first of all.
    """

    status: Literal["waiting", "running", "failed", "committed", "missing"]
    version: int | None = None
    based_on: int | None = None


@typed
def plan_in_order(progress: Mapping[str, PartitionProgress]) -> Plan:
    """Choose the next partition to run: the earliest due partition, once all earlier partitions succeeded.

    The first partition has none before it, so it needs no rule of its own. A committed partition is due again if the
    previous partition changed since.

    Args:
        progress: partition -> how far it has come, without gaps. Keys sort as the partitions run (ISO 8601).

    Returns:
        A plan of one partition or none; ``held`` says of each other partition that is not current whom it waits for.

    Raises:
        ConfigError: if a committed partition has no version.

    Example:
        >>> monday = PartitionProgress("committed", version=3)
        >>> tuesday, wednesday = PartitionProgress("failed"), PartitionProgress("waiting")
        >>> plan = plan_in_order({"mon": monday, "tue": tuesday, "wed": wednesday})
        >>> plan.partitions, plan.held["wed"]
        ((), 'comes after tue, which failed: repair it, and the later ones go on')
    """
    if unversioned := [key for key, each in progress.items() if each.status == "committed" and each.version is None]:
        raise ConfigError(f"version must be that of the last change of {', '.join(unversioned)}, not None")
    keys = sorted(progress)
    running = next((key for key in keys if progress[key].status == "running"), "")
    causes, held = dict[str, str](), dict[str, str]()
    first = ""
    for previous, key in zip(["", *keys], keys, strict=False):
        due = _due(progress, previous, key)
        if first:
            held[key] = f"comes after {first}, {_AFTER[progress[first].status]}"
        elif due:
            first = key
            if progress[key].status not in ("waiting", "committed"):
                held[key] = due
            elif running:
                held[key] = f"waits for the end of {running}: one run at a time"
            else:
                causes[key] = due
    chosen = tuple(causes)
    reason = f"{chosen[0]} is next, {len(held)} wait" if chosen else f"none may run, {len(held)} wait"
    return Plan(chosen, reason if first else "every partition is current", causes=causes, held=held)


@typed
def require_place(queued: Collection[str], *, request: str, limit: int = 100) -> None:
    """Refuse a request beyond the limit of a queue.

    A request that is queued already keeps its place.

    Args:
        queued: the requests that wait, without those that run.
        request: the new request.
        limit: most requests that may wait.

    Raises:
        ConfigError: for a limit below 1.
        NotReady: if as many requests wait already; it names the limit and the length of the queue.
    """
    if limit < 1:
        raise ConfigError(f"limit must be 1 or more, not {limit}")
    if request not in queued and len(queued) >= limit:
        raise NotReady(
            f"{request} is rejected: {len(queued)} requests are queued and the limit is {limit}. Ask for it again once "
            "the queue is shorter"
        )


@typed
def judge_catch_up(durations: Sequence[float], *, interval_seconds: float) -> Finding:
    """Judge whether the runs of a schedule start on time, or will again.

    A run starts at its scheduled time or, if later, at the end of the run before: what it is late by shrinks in each
    period by the interval less the duration. So the lag returns to 0 exactly if a run is shorter than the interval.

    Args:
        durations: how long each run took, in seconds, in the order of the schedule.
        interval_seconds: time between two scheduled runs, in seconds.

    Returns:
        A finding that warns of a lag which no run makes up. Its figures are ``lag_seconds`` of the next run,
        ``run_seconds`` of a usual run (the median), and the ``periods_to_recover``, a number or ``never``.

    Raises:
        ConfigError: for an interval that is not above 0, or a duration below 0.
    """
    if interval_seconds <= 0:
        raise ConfigError(f"interval_seconds must be above 0, not {interval_seconds:g}")
    if negative := [each for each in durations if each < 0]:
        raise ConfigError(f"durations must be 0 or more, not {negative[0]:g}")
    lag = 0.0
    for each in durations:
        lag = max(0.0, lag + each - interval_seconds)
    usual = median(durations) if durations else 0.0
    gained = interval_seconds - usual
    periods = 0 if not lag else math.ceil(lag / gained) if gained > 0 else "never"
    return Finding(
        "runs_catch_up_with_the_schedule",
        passed=periods != "never",
        severity="warn",
        figures={"lag_seconds": lag, "run_seconds": usual, "periods_to_recover": periods},
        note=f"a run takes {duration(usual)} of {duration(interval_seconds)} between two: the lag of {duration(lag)} "
        "stays or grows"
        if periods == "never"
        else "",
    )


def _due(progress: Mapping[str, PartitionProgress], previous: str, key: str) -> str:
    """Return the reason for which a partition is not current; empty for a current partition."""
    each = progress[key]
    if each.status == "waiting":
        return f"follows {previous}" if previous else "first"
    if each.status != "committed":
        return {"running": "is running", "failed": "failed", "missing": "nobody has asked for it"}[each.status]
    # Only after a current partition: one that is not current holds this one back before.
    changed = previous and progress[previous].version != each.based_on
    return f"{previous} changed at version {progress[previous].version}" if changed else ""
