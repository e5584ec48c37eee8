"""Concurrent Runner: independent runs start side by side, each pipeline within a budget of slots.

Problem: runs that share nothing wait for each other. One large file takes two hours, and three small ones stand behind.
Solution: a pipeline has several slots, and a run starts as soon as its pipeline and each of its pools have one free. A
    run that has to wait is passed over, and holds back none behind it.
Consequences: what runs at once must not change the same state: a pipeline that declares shared state has one slot, or
    moves its pointer by `advance_latest`. Without budgets, a backfill of one pipeline takes every core.
Choose instead: Single Runner, if a run needs the state that the run before left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Plan, WriteResult
from dedp_assets.patterns.delta import Operation, Table, Target, commit_actions, in_turn

__all__ = ["plan_starts", "advance_latest", "latest_of", "PipelineRun"]


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A queued or running run.

    Attributes:
        pipeline: whose slot it takes.
        pools: resources that it takes a slot of, such as a database or an engine.
        priority: a higher one starts first.
    """

    pipeline: str
    pools: tuple[str, ...] = ()
    priority: int = 0


@typed
def plan_starts(
    queued: Mapping[str, PipelineRun],
    running: Mapping[str, PipelineRun],
    *,
    slots: Mapping[str, int],
    pools: Mapping[str, int] | None = None,
    shares: Mapping[str, str] | None = None,
) -> Plan:
    """Choose the queued runs to start now, by priority and then in the order of the queue.

    Args:
        queued: run -> pipeline, pools and priority; the oldest request first.
        running: the same of the runs that take slots already.
        slots: pipeline -> most runs of it at once; 1 for a pipeline that is not named.
        pools: pool -> most runs in it at once; 1 for a pool that is not named.
        shares: pipeline -> state that all of its runs change, such as a file or a pointer.

    Returns:
        A plan whose partitions are runs; ``held`` says of each other run which slots are taken, and by whom.

    Raises:
        ConfigError: for fewer slots than 1, and for a pipeline that shares state and has more than one slot.

    Example:
        >>> runs = {name: PipelineRun("ingest") for name in ("10:00", "10:30", "11:00")}
        >>> plan = plan_starts(runs, {"09:00": PipelineRun("ingest")}, slots={"ingest": 3})
        >>> plan.partitions, plan.held
        (('10:00', '10:30'), {'11:00': '3 of 3 slots of ingest are taken: 09:00, 10:00, 10:30'})
    """
    limits = {"slots": slots, "pools": pools or {}}
    _require_sound(limits, shares or {})
    taken, causes, held = dict(running), dict[str, str](), dict[str, str]()
    for name in sorted(queued, key=lambda each: -queued[each].priority):
        run = queued[name]
        full = [_full(f"slots of {run.pipeline}", slots.get(run.pipeline, 1), _of(taken, pipeline=run.pipeline))]
        full += [_full(f"slots in {pool}", limits["pools"].get(pool, 1), _of(taken, pool=pool)) for pool in run.pools]
        if reasons := [text for text in full if text]:
            held[name] = "; ".join(reasons)
        else:
            taken[name], causes[name] = run, f"a slot of {run.pipeline} is free"
    return Plan(tuple(causes), f"{len(causes)} runs to start, {len(held)} wait for a slot", causes=causes, held=held)


@typed
def advance_latest(into: Target, *, position: int) -> WriteResult:
    """Move a table's pointer to the latest result forward, never back, by compare-and-set.

    The pointer is a transaction id in the table's log: it is moved by a commit that fails if anybody committed since
    the pointer was read, and then decided again. So it is safe for any number of runs at once, and survives the cleanup
    of the log.

    Args:
        into: target of the write: the table whose results the pointer is about; it has to exist.
        position: place of the run's result in the order of the results, such as the hour since 1970.

    Raises:
        ConfigError: for a position below 0.
        Conflict: if other writers do not yield.
        NotReady: if the table does not exist.
    """
    if position < 0:
        raise ConfigError(f"position must be 0 or more, not {position}")
    ledger = into.table.ledger

    def compare_and_set() -> WriteResult:
        state = ledger.state()
        held = state.transaction(_pointer(into.name))
        if held is not None and held >= position:
            reason = f"latest stays {held}" + (f", which is later than {position}" if held > position else "")
            return WriteResult(into.name, state.version, applied=False, changed=False, reason=reason)
        reason, moved = f"latest is {position}" + (f" after {held}" if held is not None else ""), _pointer(into.name)
        written = Operation("WRITE")
        version = commit_actions(
            ledger.store, state, record=reason, operation=written, transactions={moved: position}, appends=True
        )
        return WriteResult(into.name, version, applied=True, changed=False, reason=reason)

    return in_turn(ledger.store, compare_and_set)


@typed
def latest_of(table: Table) -> int | None:
    """Return the position of a table's pointer to the latest result.

    Args:
        table: the table.

    Returns:
        The position of :func:`advance_latest`; ``None`` before the first result.
    """
    return table.ledger.transactions().transaction(_pointer(table.name)) if table.ledger.exists() else None


def _pointer(table: str) -> str:
    return f"{table}/latest"


def _of(taken: Mapping[str, PipelineRun], *, pipeline: str = "", pool: str = "") -> list[str]:
    """List the runs that take a slot of a pipeline or in a pool."""
    return [name for name, run in taken.items() if (run.pipeline == pipeline if pipeline else pool in run.pools)]


def _full(slots: str, limit: int, holders: list[str]) -> str:
    """Return why no slot is free; empty if one is."""
    if len(holders) < limit:
        return ""
    return f"{len(holders)} of {limit} {slots} are taken: {', '.join(holders)}"


def _require_sound(limits: Mapping[str, Mapping[str, int]], shares: Mapping[str, str]) -> None:
    for option, stated in limits.items():
        for name, limit in stated.items():
            if limit < 1:
                raise ConfigError(f"{option} of {name} must be 1 or more, not {limit}")
    for name, state in shares.items():
        if (limit := limits["slots"].get(name, 1)) > 1:
            raise ConfigError(f"slots of {name} must be 1, not {limit}: its runs share {state}")
