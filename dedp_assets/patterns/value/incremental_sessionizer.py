"""Incremental Sessionizer: sessions across partitions, from one partition and earlier open sessions.

Problem: a partition cuts sessions. Each alone shows them wrong, and all of them together cost the whole history.
Solution: a run takes its partition's events and the sessions that were open at the end of the partition before. Those
    that an event at or after its own end could still belong to stay open, in a private table; the others are completed.
    Both are kept by partition, so a run replaces what it made before.
Consequences: a session comes when its gap has passed, in whole partitions; until then only :func:`show_partial` tells
    of it. A partition run again asks for those after it, as far as what it leaves open changes. The events of a session
    that never pauses are carried from partition to partition.
Choose instead: Stateful Sessionizer, if a partition is too long to wait for.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import require_rows
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.sessionizing import ADDED, SessionRule
from dedp_assets.patterns.core.types.meeting import united

__all__ = ["sessionize_partition", "show_partial", "SessionRule"]


@typed
def sessionize_partition(events: DataFrame, pending: DataFrame | None, *, until: datetime, rule: SessionRule) -> Split:
    """Continue open sessions with a partition's events; split into ``completed`` and ``pending``; lazy.

    Args:
        events: one partition of event time; an event that is there twice counts once. An event without an entity, a
            time or an identity stops the job that asks for the sessions.
        pending: the part ``pending`` of the partition before; ``None`` before the first one. Its columns have the types
            of the events, or such as hold their values; a column that is kept since then is NULL in its events.
        until: where the partition ends: no event is as late as that.
        rule: the columns of an event, the gap, and what else ends a session.

    Returns:
        Both parts have ``session_id``, the entity, ``started_at``, ``ended_at`` and ``events``, in the order of time
        and identity. The id is made of the entity and the first event.

    Raises:
        ConfigError: for columns that are not there or no time, a gap of no length, and an end without a time zone.
        SchemaMismatch: if ``pending`` lacks a column of the entity or of an event, or types do not meet without loss.

    Example:
        >>> from datetime import datetime, timezone
        >>> seen = "user STRING, at TIMESTAMP, id INT"
        >>> def at(hour, minute=0):
        ...     return datetime(2026, 1, 5, hour, minute, tzinfo=timezone.utc)
        >>> rule = SessionRule(entity=["user"], event_time="at", event_id="id", gap_seconds=7200)
        >>> nine = sessionize_partition(frame(seen, ("Ada", at(9, 50), 1)), None, until=at(10), rule=rule)
        >>> ten = frame(seen, ("Ada", at(10, 5), 2), ("Bob", at(10, 5), 3))
        >>> split = sessionize_partition(ten, nine["pending"], until=at(11), rule=rule)
        >>> rows(split["completed"]), rows(split["pending"].selectExpr("user", "events.id"))
        ([], [('Ada', [1, 2]), ('Bob', [3])])
        >>> late = sessionize_partition(ten.limit(0), split["pending"], until=at(13), rule=rule)
        >>> rows(late["completed"].selectExpr("user", "events.id"))
        [('Ada', [1, 2]), ('Bob', [3])]
    """
    found = rule.events(require_rows("sessionize_partition", events))
    if pending is not None:
        sides = united({"the events": found, "pending": rule.events_of(pending, found)}, found.columns)
        found = reduce(DataFrame.unionByName, sides.values())
    sessions = rule.sessions(found).withColumn(OUTCOME, F.expr(f"if({rule.is_open(until)}, 'pending', 'completed')"))
    columns = (ADDED[0], *rule.entity, *ADDED[1:])
    return Split(sessions, {"completed": columns, "pending": columns}, identity=(ADDED[0],))


@typed
def show_partial(completed: DataFrame, pending: DataFrame) -> DataFrame:
    """Return completed and pending sessions together, flagged by ``is_completed``; lazy.

    Args:
        completed: completed sessions, of any partitions.
        pending: the sessions that the newest of these partitions left open: none of them is completed there.

    Returns:
        The columns that both have, and the flag.

    Raises:
        SchemaMismatch: if the types of a column that both have do not meet without loss.

    Example:
        >>> done, still = frame("session_id STRING", ("a",)), frame("session_id STRING, private INT", ("b", 1))
        >>> rows(show_partial(done, still))
        [('a', True), ('b', False)]
    """
    theirs = {name.lower() for name in pending.columns}
    shared = [name for name in completed.columns if name.lower() in theirs]
    sides = united({"the completed": completed, "the pending": pending}, shared)
    flagged = [
        rows.select(*map(identifier, shared), F.lit(done).alias("is_completed"))
        for rows, done in zip(sides.values(), (True, False), strict=True)
    ]
    return flagged[0].unionByName(flagged[1])
