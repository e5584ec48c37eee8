"""Planner of runs: the runs to request now with run keys, and the reasons to hold other partitions.

A pure function of what is not current, of the runs in flight, of the refusals that hold and of the runs that ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dedp_assets.graph.inputs.upstream_runs import ATTEMPTS
from dedp_assets.graph.outcomes.refusals import Refusal
from dedp_assets.graph.outcomes.run_tags import request_of
from dedp_assets.graph.reconcile.backlogs import Backlogs

__all__ = ["Ask", "Gap", "Outcome", "Tried", "Want", "plan_requests"]

_AT_ONCE = 100
_IDLE = ("waiting", "unusable")
"""States in which no run is requested."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A partition that is not current.

    Attributes:
        table: the table.
        key: the partition key; empty for a whole table.
        state: ``missing``, ``behind``, ``refused``, ``waiting``, or ``unusable`` for a delivery that nobody can read.
        reason: why, and what is done about it.
        given_up: the reason against another attempt, also while somebody tries by hand; empty where attempts go on.
    """

    table: str
    key: str
    state: str
    reason: str
    given_up: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Want:
    """A stale partition to compute, of one table or of several tables in one run.

    Attributes:
        tables: the tables that are not current.
        key: the partition key; empty for a whole table.
        goal: upstream version or delivery to bring in.
        state: ``missing`` or ``behind``; ``waiting`` if nobody can compute it yet, ``unusable`` if nobody ever can.
        reason: why.
        cause: what the run will be said to be for.
        job: the job to start; empty for runs of tables.
        computes: table -> every table that its run writes.
        named: the table that the request is named after.
        restored: version of the restore that took the partition back, if one did.
        after: upstream tables and keys that a restore took back; they come first, if they are asked for, too.
        in_order: whether each key of the table comes after all earlier ones.
        profile: tags of the run, by which it gets its resources.
        priority: priority of the run in Dagster's queue.
        following: the key after this one, if one run may compute both; otherwise empty.
        code: version of the code and the declaration of the tables; another one is a reason for new attempts.
    """

    tables: tuple[str, ...]
    key: str
    goal: str
    state: str
    reason: str
    cause: str = ""
    job: str = ""
    computes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    named: str = ""
    restored: int | None = None
    after: frozenset[tuple[str, str]] = frozenset()
    in_order: bool = False
    profile: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    following: str = ""
    code: str = ""

    @property
    def is_idle(self) -> bool:
        """``True`` for a partition that no run is requested for."""
        return self.state in _IDLE

    @property
    def request(self) -> str:
        """The name of the request; a restore gives the same goal a new name."""
        return request_of(self.named, self.key, self.goal, restored=self.restored)


@dataclass(frozen=True, slots=True)
class Tried:
    """The ended runs of a request by the present code: failures, successes, and the newest run's id.

    Attributes:
        earlier: number of ended runs of the request by other code.
    """

    failed: int = 0
    succeeded: int = 0
    last: str = ""
    earlier: int = 0

    def run_key(self, request: str) -> str:
        """Return the run key of the next attempt at a request: ``request#number`` from the second on."""
        ended = self.failed + self.succeeded + self.earlier
        return f"{request}#{ended + 1}" if ended else request

    @property
    def is_first(self) -> bool:
        """``True`` if no run of the request has ended."""
        return not (self.failed or self.succeeded)

    @property
    def given_up(self) -> str:
        """The reason against another attempt; empty if another attempt is allowed."""
        if self.failed >= ATTEMPTS:
            return f"gave up after {ATTEMPTS} failed runs: look at run {self.last[:8]}"
        if self.succeeded >= ATTEMPTS:
            return f"{ATTEMPTS} runs succeeded and left it as it was: look at run {self.last[:8]}"
        return ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A run to start.

    Attributes:
        want: the stale partition, which the request is named after.
        tables: the tables to compute.
        run_key: key unique to the attempt.
        more: the partitions after the first one, in order, that the run computes as well.
    """

    want: Want
    tables: tuple[str, ...]
    run_key: str
    more: tuple[Want, ...] = ()

    @property
    def wants(self) -> tuple[Want, ...]:
        """Every partition that the run computes, in order."""
        return (self.want, *self.more)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The runs to request now, and every partition that is not current."""

    asks: tuple[Ask, ...]
    gaps: tuple[Gap, ...]


def plan_requests(
    wants: Sequence[Want],
    *,
    busy: Mapping[str, Collection[str]],
    refused: Callable[[str, str, str], Refusal | None],
    tried: Callable[[Mapping[str, str]], Mapping[str, Tried]],
    limit: int,
    mine: Callable[[Want], bool] = lambda _: True,
) -> Outcome:
    """Choose the runs to request, oldest partitions first, upstream tables before downstream tables.

    Args:
        wants: what is not current, in the order of the graph.
        busy: table -> partition keys that runs in flight compute.
        refused: finds the refusal of a table, a key and a goal that still holds.
        tried: finds the runs that have ended, from the names of requests with the present code of each.
        limit: most runs to ask for at once.
        mine: tells which to ask for; somebody else asks for the others.
    """
    ended: Mapping[str, Tried] = {}
    ordered = sorted(wants, key=lambda want: want.key)
    refusals = [{t: found for t in want.tables if (found := refused(t, want.key, want.goal))} for want in ordered]
    sought = {
        (table, want.key)
        for want, notes in zip(ordered, refusals, strict=True)
        for table in want.tables
        if not want.is_idle and table not in notes
    }
    plan = _Plan({table: set(keys) for table, keys in busy.items()}, Backlogs(ordered), limit, mine)
    for number, want in enumerate(ordered):
        if number % _AT_ONCE == 0 and (len(plan.asks) < limit or plan.backlogs.grows):
            some = ordered[number : number + _AT_ONCE]
            ended = tried({each.request: each.code for each in some if not each.is_idle})
        plan.take_in(want, refusals[number], ended.get(want.request, Tried()), want.after & sought)
    return Outcome(tuple(plan.asks), tuple(plan.gaps))


@dataclass(slots=True)
class _Plan:
    """A plan that takes in one partition after another, oldest first."""

    held: dict[str, set[str]]
    backlogs: Backlogs
    limit: int
    mine: Callable[[Want], bool]
    before: dict[str, str] = field(default_factory=dict)
    asks: list[Ask] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    def take_in(
        self, want: Want, refused: Mapping[str, Refusal], runs: Tried, first: Collection[tuple[str, str]]
    ) -> None:
        if want.is_idle and not refused and not want.in_order:
            self.gaps += [Gap(table, want.key, want.state, want.reason) for table in want.tables]
            return
        left = tuple(table for table in want.tables if table not in refused)
        computed = tuple(dict.fromkeys(name for table in left for name in want.computes.get(table, ())))
        joined = self.backlogs.run_of(want, computed, self.asks) if runs.is_first else None
        earlier = {*first, *_before(want, self.before, refused=not left)}
        if joined is not None:
            # Within one run, each partition comes after the ones before it.
            earlier -= {(table, each.key) for each in self.asks[joined].wants for table in each.tables}
        under_way = any(want.key in self.held.get(table, ()) for table in left)
        full = len(self.asks) >= self.limit and joined is None
        state, why = _held(want, runs, under_way=under_way, first=earlier, full=full)
        if left and not why and state not in _IDLE:
            self._ask(want, computed, runs, joined)
            why = "the reconciler asks for it"
        self.gaps += [Gap(table, want.key, "refused", found.reason) for table, found in refused.items()]
        shown = "; ".join(filter(None, [want.reason, why]))
        self.gaps += [Gap(table, want.key, state, shown, runs.given_up) for table in left]

    def _ask(self, want: Want, computed: tuple[str, ...], runs: Tried, joined: int | None) -> None:
        """Add a partition to a requested run, or a separate run to the requests."""
        if joined is not None:
            self.asks[joined] = replace(self.asks[joined], more=(*self.asks[joined].more, want))
        elif self.mine(want):
            self.backlogs.begin(want, len(self.asks), alone=not runs.is_first)
            self.asks.append(Ask(want, computed, runs.run_key(want.request)))
        for name in computed:
            self.held.setdefault(name, set()).add(want.key)


def _before(want: Want, earlier: dict[str, str], *, refused: bool) -> set[tuple[str, str]]:
    """Return the earlier partition that a partition in order waits for; note the first request in order.

    A refused correction of what the table holds stops nothing; what the table lacks does.
    """
    if not want.in_order:
        return set()
    table = want.tables[0]
    found = {(table, earlier[table])} if table in earlier else set()
    if not refused or want.state == "missing" or want.restored is not None:
        earlier.setdefault(table, want.key)
    return found


def _held(
    want: Want, runs: Tried, *, under_way: bool, first: Collection[tuple[str, str]], full: bool
) -> tuple[str, str]:
    """Return a partition's state and the reason to hold the request, empty for a request to send now."""
    if want.is_idle:
        return want.state, ""
    if under_way:
        return want.state, "is being processed"
    if runs.given_up:
        return "waiting", runs.given_up
    if first:
        return want.state, "comes after " + ", ".join(f"{table} {key}".strip() for table, key in sorted(first))
    return want.state, "the next of many, the oldest come first" if full else ""
