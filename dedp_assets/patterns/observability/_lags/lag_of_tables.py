"""Lag of a reader of a Delta table, sampled from the table's log without a JVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.delta import Commit, Ledger
from dedp_assets.patterns.observability._lags.lag_samples import LagSample

__all__ = ["sample_table", "stream_position"]

_COPIED = ("numTargetRowsCopied", "numCopiedRows")
"""Operation metrics with the number of copied rows in rewritten files."""


def sample_table(
    producer: Ledger,
    *,
    consumer: str,
    applied: int | None,
    seen_at: datetime,
    read_identity: str = "",
    is_unread: Callable[[Commit], bool] = lambda _: True,
    partitions: int | None = None,
) -> LagSample:
    """Sample the commits of a table that a consumer has not applied, in versions that changed data.

    Compaction, vacuum and changes of the schema bring nothing to read.

    Args:
        producer: log of the table that is read.
        consumer: who reads.
        applied: version up to which the consumer has applied everything, read before this call; ``None`` for a consumer
            that never ran: then all commits are unread; -1 for a consumer that ran, and of which ``is_unread`` alone
            knows what is unread.
        seen_at: current time.
        read_identity: id of the table that the consumer read, if the consumer notes it.
        is_unread: tells of a commit after ``applied`` that changed data whether the consumer still has to read it.
        partitions: number of partitions of the consumer that have to be computed for it, if known.

    Returns:
        A sample without ``unread_rows`` if the log was cleaned up past ``applied``.
    """
    exists = producer.exists()
    head = producer.version() if exists else -1
    after = -1 if applied is None else applied
    later = [each for each in producer.commits(since=after) if each.version <= head] if after < head else []
    unread = [each for each in later if each.changed and not each.expires and is_unread(each)]
    known = applied == -1 or not later or later[0].version == after + 1
    done = unread[0].version if unread else after + 1 if after > head or not known else head + 1
    return LagSample(
        consumer=consumer,
        producer=producer.name,
        seen_at=seen_at,
        produced=head + 1,
        consumed=None if applied is None else done,
        unit="versions",
        identity=_identity(producer) if exists else "",
        read_identity=read_identity,
        unread=len(unread),
        unread_rows=sum(map(_rows, unread)) if known else None,
        unread_partitions=partitions,
        unread_since=unread[0].timestamp if unread else None,
        from_begin=True,
    )


def stream_position(offset: str) -> tuple[int, str]:
    """Return the version up to which a streaming query has read a Delta table, and the id of the table.

    Args:
        offset: offset of the Delta source in the query's checkpoint; a version that was read in part is unread.

    Raises:
        ContractError: for the offset of another source.
    """
    try:
        stored = json.loads(offset)
        return int(stored["reservoirVersion"]) - 1, str(stored["reservoirId"])
    except (ValueError, KeyError, TypeError) as error:
        raise ContractError(
            f"{offset[:80]!r} must be the offset of a Delta table, not that of another source"
        ) from error


def _rows(commit: Commit) -> int:
    copied = next((commit.metrics[name] for name in _COPIED if name in commit.metrics), "0")
    return max(commit.rows_added - (int(copied) if copied.isdigit() else 0), 0)


def _identity(ledger: Ledger) -> str:
    return next((str(meta["id"]) for meta in reversed(ledger.actions("metaData")) if meta.get("id")), "")
