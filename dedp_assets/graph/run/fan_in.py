"""Fan-in of a feed: the branches that a partition waits for, by the upstream table's log.

A branch has succeeded if the upstream's log has a commit about it, with or without rows. The log does not tell of a run
that goes on or has failed: :mod:`dedp_assets.graph.run.branch_runs` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg

from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta import Commit, Ledger
from dedp_assets.patterns.flow._branches import BranchState, State, without_success
from dedp_assets.patterns.flow.aligned_fan_in import plan_aligned
from dedp_assets.patterns.flow.unaligned_fan_in import FALLBACK, judge_branches, plan_unaligned

__all__ = [
    "NO_BRANCH",
    "Done",
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
"""Name of the alert about a partition none of whose branches succeeded."""


@dataclass(frozen=True, slots=True)
class FanInAlert:
    """An alert about a partition none of whose branches succeeded.

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


@dataclass(frozen=True, slots=True)
class Done:
    """The newest commit about a branch: version, and duration of the run in seconds if known."""

    version: int
    seconds: float | None = None


def without_runs(_table: str) -> Mapping[str, State]:
    """Return the states of runs where nobody records runs: none."""
    return {}


def branches_of(
    ledger: Ledger,
    partitions: Iterable[Mapping[str, str | None]],
    done: Mapping[str, Done],
    states: Mapping[str, State],
) -> dict[str, BranchState]:
    """Return the branches of a partition by upstream partition key.

    Args:
        ledger: the upstream table's log.
        partitions: the upstream partitions, each named by one column.
        done: upstream partition key -> the newest commit about it, of those that the retained log tells of.
        states: upstream partition key -> state of its run. A run under way may still replace what is there.
    """
    by_name = {str(value): {column: str(value)} for each in partitions for column, value in each.items()}
    rest = [name for name in by_name if name not in done]
    # Transaction ids survive the cleanup of the log.
    reached = ledger.transactions().reached_each(ledger.name, (by_name[name] for name in rest)) if rest else ()
    long_ago = {name for name, version in zip(rest, reached, strict=bool(rest)) if version is not None}
    found = {}
    for name in by_name:
        if states.get(name) == "running":
            found[name] = BranchState("running")
        elif name in done:
            found[name] = BranchState("succeeded", done[name].version, done[name].seconds)
        else:
            found[name] = (
                BranchState("succeeded", _LONG_AGO) if name in long_ago else BranchState(states.get(name, "waiting"))
            )
    return found


def read_branches(
    ledger: Ledger, partitions: Sequence[Mapping[str, str | None]], *, until: int, states: Mapping[str, State]
) -> dict[str, BranchState]:
    """Read the branches of a partition from the upstream log, up to a version; -1 without a table."""
    commits = dict(_newest_commits(ledger, partitions, until))
    seconds = _durations(commits)
    done = {name: Done(commit.version, seconds[name]) for name, commit in commits.items()}
    return branches_of(ledger, partitions, done, states)


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


def _durations(commits: Mapping[str, Commit]) -> dict[str, float | None]:
    """Return the duration of each branch, from the start of the run to the commit, in seconds.

    In a run of several branches each begins where the one before it was committed.
    """
    found, ended = dict[str, float | None](), dict[str, datetime]()
    for name, commit in sorted(commits.items(), key=lambda item: item[1].version):
        record = commit.record
        if record is None or not record.at:
            found[name] = None
            continue
        began = ended.get(record.run_id, datetime.fromisoformat(record.at))
        found[name], ended[record.run_id] = (commit.timestamp - began).total_seconds(), commit.timestamp
    return found
