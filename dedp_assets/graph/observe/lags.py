"""Lag of the tables of the graph behind upstream tables, by the logs and without runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.fan_in import RunStates, without_runs
from dedp_assets.graph.inputs.feeds import Feed
from dedp_assets.graph.outcomes.refusals import Refusals
from dedp_assets.graph.reconcile.edges import Edge
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.batches import owned_by
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Commit
from dedp_assets.patterns.observability._lags.lag_of_tables import sample_table
from dedp_assets.patterns.observability.lag_detector import LagSample

__all__ = ["LagCache", "lags"]


@dataclass(frozen=True, slots=True)
class LagCache:
    """Knowledge of tables between two calls of :func:`lags`, so that the second reads new commits only.

    Attributes:
        overview: of the tables; nobody else may use it at the same time.
        samples: consumer and producer -> what the sample follows from, and the sample.
    """

    overview: Overview
    samples: dict[tuple[str, str], tuple[object, LagSample]] = field(default_factory=dict)


def lags(
    tables: Sequence[LakeTable[...]],
    lake: Lake,
    now: datetime,
    *,
    known: LagCache | None = None,
    states: RunStates = without_runs,
) -> list[LagSample]:
    """Sample the lag of each table that follows upstream tables, behind each of the upstream tables.

    A partition counts from the moment on in which a run could compute it: one that waits for a fan-in does not lag, and
    neither does one that is refused, which is a trouble of its own. A table of which a log cannot be read is left out.

    Args:
        tables: the declared tables of the graph.
        lake: the tables' logs.
        now: current time, with time zone.
        known: of these tables, kept by the caller between two calls.
        states: runs of upstream partitions, for fan-ins that wait for their end.
    """
    known = known or LagCache(Overview(tables))
    known.overview.poll(lake, None, now, states=states)
    edges = [edge for group in known.overview.groups for edge in group.edges if edge.whole]
    return [_seen(edge, *read, lake, now, known) for edge in edges for read in edge.table.reads.tables.items()]


def _seen(edge: Edge, upstream: TableSpec, feed: Feed, lake: Lake, now: datetime, known: LagCache) -> LagSample:
    """Return the last sample as of the present time; a new sample after a change of a log."""
    watches, ends = known.overview.watches, (edge.name, upstream.name)
    stale = [{**of} for of in (edge.lagging, edge.applied, edge.ahead)]
    refused = _refused(edge, lake)
    facts = ([watches[name].identity for name in ends], stale, refused)
    before, sample = known.samples.get(ends, (None, None))
    if sample is None or before != facts:
        sample = _sample(edge, upstream, feed, lake, now, refused)
        known.samples[ends] = facts, sample
    return replace(sample, seen_at=now)


def _refused(edge: Edge, lake: Lake) -> frozenset[str]:
    """Return the partitions that are refused at the upstream version that the table lags behind."""
    notes = Refusals(lake.refused(edge.name)).by_key() if edge.lagging else {}
    return frozenset(
        key
        for key, note in notes.items()
        if str(edge.lagging.get(key)) in note.goals and note.code_version == edge.table.code_version
    )


def _sample(
    edge: Edge, upstream: TableSpec, feed: Feed, lake: Lake, now: datetime, refused: Collection[str]
) -> LagSample:
    """Sample the lag of a table behind one upstream table."""
    ledger = lake.ledger(upstream.name)
    head = ledger.version() if ledger.exists() else -1
    newest = edge.newest.get(upstream.name, {})
    ahead = [version for version in _applied(edge, upstream, lake, edge.ahead).values() if version > head]
    behind = {
        key: version
        for key, version in _applied(edge, upstream, lake, dict.fromkeys(edge.lagging, -1) | edge.applied).items()
        if newest.get(key, -1) > version and key not in refused
    }

    def is_unread(commit: Commit) -> bool:
        fed = {key for partition in commit.changed for key in feed.feeds(dict(partition))}
        return any(commit.version > behind[key] for key in fed & behind.keys())

    applied = max(ahead, default=min(behind.values(), default=head))
    return sample_table(
        ledger,
        consumer=edge.name,
        applied=applied if ahead or lake.ledger(edge.name).exists() else None,
        seen_at=now,
        is_unread=is_unread,
        partitions=len(behind),
    )


def _applied(edge: Edge, upstream: TableSpec, lake: Lake, cursors: Mapping[str, int]) -> dict[str, int]:
    """Return the version of an upstream table that each partition has applied; -1 for none.

    A partition's cursor is the sum over all upstream tables: what is of which, the record of its last commit says.
    """
    reads = edge.table.reads
    if len(reads.tables) == 1 and not reads.revised_by and edge.table.hands_over is None:
        return dict(cursors)
    return dict(_recorded(edge, upstream, lake, cursors))


def _recorded(edge: Edge, upstream: TableSpec, lake: Lake, cursors: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    ledger = lake.ledger(edge.name)
    for key, cursor in cursors.items():
        commit = ledger.latest(owned_by(key, edge.table.spec)) if cursor >= 0 else None
        version = commit.record.inputs.get(upstream.name) if commit and commit.record else None
        yield key, version if isinstance(version, int) else -1
