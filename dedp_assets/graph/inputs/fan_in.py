"""Fan-in of a feed: the branches that a partition waits for, by the upstream table's log.

A branch has succeeded if the upstream's log has a commit about it, with or without rows. The log does not tell of a run
that goes on or has failed: :mod:`dedp_assets.graph.inputs.upstream_runs` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any

import dagster as dg

from dedp_assets.graph.outcomes.durations import durations_of
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta import Commit, Ledger
from dedp_assets.patterns.flow._branches import BranchState, State, without_success
from dedp_assets.patterns.flow.aligned_fan_in import plan_aligned
from dedp_assets.patterns.flow.unaligned_fan_in import FALLBACK, judge_branches, plan_unaligned

__all__ = [
    "NO_BRANCH",
    "FanIn",
    "FanInAlert",
    "NoBranch",
    "RunStates",
    "alerting",
    "branches_of",
    "handled",
    "note_of",
    "read_branches",
    "without_runs",
]

RunStates = Callable[[str], Mapping[str, State]]
"""Upstream table -> partition key -> ``running`` or ``failed``, of keys with such a run."""
_LONG_AGO = 0
"""Version of a success that the log no longer tells."""


NO_BRANCH = "no_branch_succeeded"
"""Name of the alert about a partition without a successful branch."""


@dataclass(frozen=True, slots=True)
class FanInAlert:
    """Alert about a partition without a successful branch.

    Attributes:
        upstream: the upstream table.
        key: the partition that was not computed.
        text: a sentence with the branches.
    """

    upstream: str
    key: str
    text: str


class NoBranch(ContractError):
    """The refusal of a partition without a successful branch; a new request needs a new commit.

    Attributes:
        alert: what the error handler is told.
        handler: the error handler of the feed, if it has one.
    """

    def __init__(self, alert: FanInAlert, handler: Callable[[FanInAlert], None] | None) -> None:
        super().__init__(alert.text)
        self.alert, self.handler = alert, handler


@dataclass(frozen=True, slots=True)
class FanIn:
    """The rule by which a partition waits for branches.

    Attributes:
        ended: whether it is enough that each branch has ended, in success or not (unaligned).
        after_hours: deadline of an unaligned fan-in in hours after the beginning of the day that the key names (UTC):
            from then on branches that nobody has started are not waited for. ``None``: no deadline.
        if_none: error handler of a partition none of whose branches succeeded; by default the alert channel.
    """

    ended: bool = False
    after_hours: float | None = None
    if_none: Callable[[FanInAlert], None] | None = None

    def version(self, upstream: str, key: str, branches: Mapping[str, BranchState], at: datetime | None) -> int:
        """Return the upstream version that a run of the partition applies: the newest success.

        Raises:
            NotReady: names the branches that the partition waits for.
            NoBranch: if all have ended, and none succeeded.
        """
        due = [key] if self._is_due(key, at) else []
        plan = plan_unaligned({key: branches}, due=due) if self.ended else plan_aligned({key: branches})
        if key in plan.held:
            raise NotReady(f"{key} {plan.held[key]} of {upstream}")
        if plan.causes[key] == FALLBACK:
            text = f"{key}: no partition of {upstream} is there, {judge_branches(branches).note}"
            raise NoBranch(FanInAlert(upstream, key, text), self.if_none)
        return int(plan.cursor[key])

    def _is_due(self, key: str, at: datetime | None) -> bool:
        if self.after_hours is None or at is None:
            return False
        begins = datetime.fromisoformat(key).replace(tzinfo=timezone.utc)
        return at >= begins + timedelta(hours=self.after_hours)


def without_runs(_table: str) -> Mapping[str, State]:
    """Return an empty mapping, for lookups without recorded runs."""
    return {}


def branches_of(
    partitions: Iterable[Mapping[str, str | None]],
    done: Mapping[str, int],
    states: Mapping[str, State],
    reached: Callable[[Iterable[Mapping[str, str]]], Iterable[int | None]],
) -> dict[str, BranchState]:
    """Return the branches of a partition by upstream partition key.

    Args:
        partitions: the upstream partitions, each named by one column.
        done: upstream partition key -> version of the newest commit about it, of those that the retained log tells of.
        states: upstream partition key -> state of its run. A run under way may still replace what is there.
        reached: finds the last applied version of upstream partitions by transaction ids, which survive the cleanup of
            the log; ``None`` for a partition without one.
    """
    by_name = {str(value): {column: str(value)} for each in partitions for column, value in each.items()}
    rest = [name for name in by_name if name not in done]
    versions = zip(rest, reached(by_name[name] for name in rest) if rest else (), strict=True)
    # Of all that is done, which may be years of hours, the branches are looked up: a copy would cost as much each time.
    long_ago = {name: _LONG_AGO for name, version in versions if version is not None}
    found = {}
    for name in by_name:
        state, version = states.get(name, "waiting"), done.get(name, long_ago.get(name))
        is_done = state != "running" and version is not None
        found[name] = BranchState("succeeded", version) if is_done else _undone(state)
    return found


@cache
def _undone(state: State) -> BranchState:
    return BranchState(state)


def read_branches(
    ledger: Ledger, partitions: Sequence[Mapping[str, str | None]], *, until: int, states: Mapping[str, State]
) -> dict[str, BranchState]:
    """Read the branches of a partition from the upstream log, up to a version; -1 without a table."""
    commits = dict(_newest_commits(ledger, partitions, until))
    done = {name: commit.version for name, commit in commits.items()}
    found = branches_of(partitions, done, states, lambda rest: ledger.transactions().reached_each(ledger.name, rest))
    in_order = sorted({commit.version: commit for commit in commits.values()}.items())
    by_version = dict(durations_of(commit for _, commit in in_order))
    return {
        name: replace(each, seconds=by_version.get(each.version)) if each.version is not None else each
        for name, each in found.items()
    }


def note_of(branches: Mapping[str, BranchState]) -> dict[str, Any]:
    """Return the facts about branches for a commit record: shares, names and durations."""
    seconds = {name: each.seconds for name, each in branches.items() if each.seconds is not None}
    return {
        **judge_branches(branches).figures,
        "missing": without_success(branches),
        "seconds": seconds,
        "slowest": max(seconds, key=lambda name: seconds[name], default=""),
    }


def alerting(context: dg.AssetExecutionContext, table: str) -> Callable[[FanInAlert], None]:
    """Return the default error handler: an alert about the partition, and the text in the run's log."""

    def handle(alert: FanInAlert) -> None:
        context.log.error(alert.text)
        context.resources.alerts.raise_alert(
            NO_BRANCH, table, alert.key, severity="critical", figure="0 branches", limit="1 branch", reason=alert.text
        )

    return handle


@contextmanager
def handled(default: Callable[[FanInAlert], object]) -> Iterator[None]:
    """Call the error handler, declared or default, of a partition without a successful branch.

    Raises:
        NoBranch: as the block.
    """
    try:
        yield
    except NoBranch as none:
        (none.handler or default)(none.alert)
        raise


def _newest_commits(
    ledger: Ledger, partitions: Sequence[Mapping[str, str | None]], until: int
) -> Iterator[tuple[str, Commit]]:
    """Yield the newest commit about each partition, in one pass back through the log."""
    rest = list(partitions)
    while rest and until >= 0 and (commit := ledger.latest(*rest, until=until)):
        yield from (("".join(map(str, each.values())), commit) for each in rest if commit.touches(each))
        rest, until = [each for each in rest if not commit.touches(each)], commit.version - 1
