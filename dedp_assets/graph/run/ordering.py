"""Order of partitions: the guard before each run, and the rows that the previous partition hands over.

The tables' logs decide, whoever launches a run: the reconciler, a backfill or a person.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

import dagster as dg

from dedp_assets.graph.inputs.feeds import Feed, Pinned
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Ledger, Table
from dedp_assets.patterns.flow.single_runner import PartitionProgress, plan_in_order

__all__ = ["earlier_keys", "fed_keys", "handed_over", "key_after", "next_of", "require_turn"]


def earlier_keys(partitions: dg.PartitionsDefinition[str], key: str, at: datetime) -> list[str]:
    """List the partition keys before ``key`` that exist at a moment, in order."""
    with dg.partition_loading_context(effective_dt=at):
        return [each for each in partitions.get_partition_keys() if each < key]


def fed_keys(upstream: Mapping[Table, Feed]) -> set[str]:
    """Return the partition keys that upstream tables have rows of, or had."""
    logs = [(table.ledger, feed) for table, feed in upstream.items()]
    return {key for ledger, feed in logs if ledger.exists() for key in feed.newest(ledger.changes()[1])}


def require_turn(
    table: Table,
    key: str,
    *,
    before: Sequence[str],
    fed: Callable[[], Collection[str]],
    refused: Callable[[], Collection[str]],
) -> None:
    """Refuse a run before all earlier partitions have succeeded, according to the table's log.

    The first partition is the first that an upstream table has rows of. From there on each partition counts, with rows
    or without; of executions those with upstream rows, as the others change nothing.

    Args:
        table: the table that the run computes.
        key: the partition of the run.
        before: the earlier partition keys, in order.
        fed: finds the partition keys with upstream rows.
        refused: finds the partition keys that the last run of each refused.

    Raises:
        NotReady: names the partition that the run comes after.
    """
    executed = bool(table.spec.executed_by)
    if not before or (not executed and not _lacking(table.ledger, table.spec, before[-1:])):
        return
    known = sorted(set(fed()) & set(before))
    due = known if executed else [each for each in before if known and each >= known[0]]
    if lacking := _lacking(table.ledger, table.spec, due):
        failed = set(refused()) & set(lacking)
        progress = {each: PartitionProgress("failed" if each in failed else "missing") for each in lacking}
        held = plan_in_order({**progress, key: PartitionProgress("waiting")}).held[key]
        raise NotReady(f"{table.name} {key} {held}")


def handed_over(state: Table, before: Sequence[str]) -> Pinned:
    """Pin the rows that the last of the earlier partitions left in a table; no rows before the first.

    After :func:`require_turn`, only the first partition has none before it.
    """
    ledger = state.ledger
    owned = owned_by(before[-1], state.spec) if before else {}
    if not owned or not ledger.exists() or ledger.latest(owned) is None:
        return Pinned(state, (), -1, 0)
    version = ledger.version()
    changed = ledger.changed(owned, until=version)
    return Pinned(state, (owned,), version, changed.version if changed else 0)


def key_after(partitions: dg.TimeWindowPartitionsDefinition, key: str) -> str:
    """Return the key of the partition that begins where another one ends."""
    return partitions.time_window_for_partition_key(key).end.strftime(partitions.fmt)


def next_of(spec: TableSpec, partitions: dg.TimeWindowPartitionsDefinition) -> Feed:
    """Feed each partition by the previous partition of the table that hands over."""
    column = spec.partition_by[0]

    def feeds(changed: Mapping[str, str | None]) -> Iterable[str]:
        key = changed.get(column)
        known = key is not None and partitions.has_partition_key(key)
        return (key_after(partitions, key),) if known and key else ()

    return Feed(reads=lambda _: (), feeds=feeds)


def _lacking(ledger: Ledger, spec: TableSpec, keys: Sequence[str]) -> list[str]:
    """List the keys that no run has committed."""
    if not ledger.exists():
        return list(keys)
    reached = ledger.transactions().reached_each(spec.name, [owned_by(key, spec) for key in keys])
    return [key for key, version in zip(keys, reached, strict=True) if version is None]
