"""Slots of the tables: pools of Dagster as declared, and the requests that find a slot now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.reconcile.reconciling import Ask, Gap, Outcome
from dedp_assets.patterns.flow.concurrent_runner import PipelineRun, plan_starts

__all__ = ["declare_pools", "pools_of", "within_slots"]


def pools_of(tables: Sequence[LakeTable[...]]) -> dict[str, int]:
    """Return the declared limit of each table's pool: runs at once, or 1 of a table in order."""
    limits = {table.name: table.runs.at_once.runs for table in tables if table.runs.at_once}
    return limits | {table.name: 1 for table in tables if table.runs.in_order}


def declare_pools(instance: dg.DagsterInstance, tables: Sequence[LakeTable[...]]) -> dict[str, int]:
    """Set the pools of the instance to the declared limits; return the changed pools.

    A pool without a declared limit keeps the limit of the instance, or the one that a person gave it.
    """
    known = {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits() if not pool.from_default}
    changed = {pool: limit for pool, limit in pools_of(tables).items() if known.get(pool) != limit}
    for pool, limit in changed.items():
        instance.event_log_storage.set_concurrency_slots(pool, limit)
    return changed


def within_slots(outcome: Outcome, tables: Sequence[LakeTable[...]], busy: Mapping[str, Collection[str]]) -> Outcome:
    """Keep the requests with a free slot; the others wait for the end of a run.

    Args:
        outcome: the planned requests, and the reasons of all partitions that are not current.
        tables: the declared tables.
        busy: table -> partition keys that runs in flight compute.
    """
    at_once = {table.spec.name: table.runs.at_once for table in tables if table.runs.at_once}
    queued = {_name(ask): PipelineRun(ask.want.named) for ask in outcome.asks if ask.want.named in at_once}
    running = {f"{name} {key}".strip(): PipelineRun(name) for name in at_once for key in sorted(busy.get(name, ()))}
    plan = plan_starts(queued, running, slots={name: each.runs for name, each in at_once.items()})
    if not plan.held:
        return outcome
    late = [ask for ask in outcome.asks if _name(ask) in plan.held]
    held = {(table, ask.want.key): plan.held[_name(ask)] for ask in late for table in ask.want.tables}
    asks = tuple(ask for ask in outcome.asks if _name(ask) not in plan.held)
    return Outcome(asks, tuple(_reworded(gap, held.get((gap.table, gap.key), "")) for gap in outcome.gaps))


def _name(ask: Ask) -> str:
    return f"{ask.want.named} {ask.want.key}".strip()


def _reworded(gap: Gap, why: str) -> Gap:
    """Return a gap with another reason in the last place, if any."""
    if not why:
        return gap
    return replace(gap, reason="; ".join([*gap.reason.split("; ")[:-1], why]))
