"""Stateful Sessionizer: sessions of a stream, each once its gap has passed in event time.

Problem: a batch shows a session a partition late at best, and a stream without state knows nothing but single events.
Solution: the query keeps open sessions as state, in Spark's session window. Time is the watermark's, so no delay closes
    a session early, and the same events give the same sessions and ids as the batch.
Consequences: what is later than the watermark is dropped and counted, or is a session by itself. The last session waits
    for events of anybody that move the watermark. Another number of shuffle partitions needs a new checkpoint.
Choose instead: Incremental Sessionizer, if a session may wait for its partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.sessionizing import ENDED, EVENTS, STARTED, SessionRule

__all__ = ["sessionize_stream"]


def sessionize_stream(
    stream: DataFrame,
    *,
    entity: Sequence[str],
    event_time: str,
    event_id: str,
    gap_seconds: int,
    lateness: str,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Group a stream's events into sessions by Spark's session window; a session comes when it is complete; lazy.

    Args:
        stream: a streaming DataFrame of events; one that is there twice counts once. One without an entity, a time or
            an identity stops it.
        entity: columns that say whose events they are.
        event_time: TIMESTAMP column.
        event_id: column that tells apart events of one time.
        gap_seconds: the longest pause within a session, in seconds; exactly so long a pause does not end it.
        lateness: how much older than the newest event one may be, e.g. ``1 hour``. An older one is dropped, or where a
            gap after it is not over, is a session by itself.
        keep: further columns to keep of each event.

    Returns:
        ``session_id``, the entity, ``started_at``, ``ended_at`` and ``events``, as of the Incremental Sessionizer.

    Raises:
        ConfigError: for a batch, columns that are not there or no time, and a gap of no length.

    Example:
        >>> visits = table("visits", "user STRING, at TIMESTAMP, id INT")
        >>> _ = visits.ensure()
        >>> rule = {"entity": ["user"], "event_time": "at", "event_id": "id", "gap_seconds": 1800}
        >>> sessionize_stream(visits.stream(), lateness="10 minutes", **rule).columns
        ['session_id', 'user', 'started_at', 'ended_at', 'events']
    """
    rule = SessionRule(tuple(entity), event_time, event_id, gap_seconds, tuple(keep))
    events = _events(stream, rule, lateness)
    window = F.session_window(F.col(identifier(event_time)), f"{gap_seconds} seconds")
    event = F.struct(*map(identifier, rule.event))
    found = events.groupBy(*map(identifier, entity), window).agg(F.array_sort(F.collect_set(event)).alias(EVENTS))
    return _sessions(found, rule)


def _events(stream: DataFrame, rule: SessionRule, lateness: str) -> DataFrame:
    if not getattr(stream, "isStreaming", False):
        raise ConfigError("a stateful sessionizer needs a streaming DataFrame; for a batch use sessionize_partition")
    return rule.events(stream).withWatermark(identifier(rule.event_time), lateness)


def _sessions(found: DataFrame, rule: SessionRule) -> DataFrame:
    time = identifier(rule.event_time)
    ends = {STARTED: f"get({EVENTS}, 0).{time}", ENDED: f"element_at({EVENTS}, -1).{time}"}
    return rule.identified(found.withColumns({name: F.expr(sql) for name, sql in ends.items()})).select(*rule.columns)
