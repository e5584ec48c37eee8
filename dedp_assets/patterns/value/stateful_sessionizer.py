"""Stateful Sessionizer: sessions of a stream, each emitted once the gap has passed in event time.

Problem: a batch shows a session a partition late at best, and a stream without state knows nothing but single events.
Solution: the query keeps open sessions as state. Spark's session window is enough where only a pause ends a session;
    a state of our own also takes an event that ends it, and expires as is chosen. Time is the watermark's, so no delay
    closes a session early, and the same events give the same sessions and ids as the batch.
Consequences: what is later than the watermark is dropped and counted, or is a session by itself. The last session waits
    for events of anybody that move the watermark. Another number of shuffle partitions needs a new checkpoint.
Choose instead: Incremental Sessionizer, if a session may wait for its partition.
"""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.parsing.json_texts import EXACT
from dedp_assets.patterns.core.sessionizing import ENDED, EVENTS, STARTED, SessionRule, watermarked
from dedp_assets.patterns.value._session_state import (
    AT,
    CONTENT,
    ENDS,
    ID,
    KEPT,
    SESSION,
    STATE,
    TIME,
    WINDOW,
    Advance,
    stated,
)

__all__ = ["sessionize_stream", "sessionize_with_state", "SessionRule"]


@typed
def sessionize_stream(stream: DataFrame, *, rule: SessionRule, lateness: str) -> DataFrame:
    """Group a stream's events into sessions by Spark's session window, emitted when complete; lazy.

    Args:
        stream: a streaming DataFrame of events; one that is there twice counts once. One without an entity, a time or
            an identity stops it.
        rule: the columns of an event and the gap; only a pause ends a session here.
        lateness: how much older than the newest event one may be, e.g. ``1 hour``. An older one is dropped, or where a
            gap after it is not over, is a session by itself.

    Returns:
        ``session_id``, the entity, ``started_at``, ``ended_at`` and ``events``, as of the Incremental Sessionizer.

    Raises:
        ConfigError: for a batch, columns that are not there or no time, and a gap of no length.

    Example:
        >>> visits = table("visits", "user STRING, at TIMESTAMP, id INT")
        >>> _ = visits.ensure()
        >>> rule = SessionRule(entity=["user"], event_time="at", event_id="id", gap_seconds=1800)
        >>> sessionize_stream(visits.stream(), rule=rule, lateness="10 minutes").columns
        ['session_id', 'user', 'started_at', 'ended_at', 'events']
    """
    if rule.ends:
        raise ConfigError(
            f"rule must have no ends, not {rule.ends!r}: sessionize_with_state ends a session by an event"
        )
    events = _events(stream, rule, lateness)
    window = F.session_window(F.col(identifier(rule.event_time)), f"{rule.gap_seconds} seconds").alias(WINDOW)
    event = F.struct(*map(identifier, rule.event))
    found = events.groupBy(*map(identifier, rule.entity), window).agg(F.collect_set(event).alias(EVENTS))
    # After the aggregation, so that its state is of the events alone.
    known = [f"each.{c} AS k{n}" for n, c in enumerate(map(identifier, rule.event[:2]))]
    seen = f"struct({', '.join(known)}, {rule.content(events, 'each')} AS content, each AS event)"
    ordered = found.withColumn(EVENTS, F.expr(f"array_sort(transform({EVENTS}, each -> {seen}))"))
    again = f"each.k0 = get({EVENTS}, at - 1).k0 AND each.k1 = get({EVENTS}, at - 1).k1"
    once = f"transform(filter({EVENTS}, (each, at) -> at = 0 OR NOT ({again})), each -> each.event)"
    return _sessions(ordered.withColumn(EVENTS, F.expr(once)), rule)


@typed
def sessionize_with_state(
    stream: DataFrame,
    *,
    rule: SessionRule,
    lateness: str,
    expires: Literal["event time", "watermark"] = "event time",
) -> DataFrame:
    """Group a stream's events into sessions by custom state, so that an event can end a session; lazy.

    Args:
        stream: as :func:`sessionize_stream`; what is older than the watermark is dropped.
        rule: the columns of an event, the gap, and what else ends a session; an event's identity is a text or a whole
            number. A session that an event ends comes with the micro-batch of that event; what belongs to it and comes
            later is a session by itself, and a repeat of its events is none, as long as it is not too late.
        lateness: as there.
        expires: a session is over a gap after its last event (``event time``), or a gap after the watermark that
            held when events of its entity came last (``watermark``), which is sooner: a pause shorter than the gap
            may cut it then.

    Raises:
        ConfigError: as :func:`sessionize_stream`, and for an identity of another type.

    Example:
        >>> visits = table("visits", "user STRING, at TIMESTAMP, id INT, page STRING")
        >>> _ = visits.ensure()
        >>> events = {"entity": ["user"], "event_time": "at", "event_id": "id", "keep": ["page"]}
        >>> rule = SessionRule(**events, gap_seconds=1800, ends="page = '/logout'")
        >>> ended = sessionize_with_state(visits.stream(), rule=rule, lateness="1 hour")
        >>> ended.columns
        ['session_id', 'user', 'started_at', 'ended_at', 'events']
    """
    if expires not in ("event time", "watermark"):
        raise ConfigError(f"expires must be event time or watermark, not {expires!r}")
    events = _events(stream, rule, lateness)
    kinds = {f.name: f.dataType for f in events.schema.fields}
    event_id = rule.event[1]
    if not isinstance(kinds[event_id], T.StringType | T.IntegralType):
        raise ConfigError(
            f"{event_id} is {kinds[event_id].simpleString().upper()}: the state needs text or whole numbers"
        )
    rest = T.StructType([T.StructField(name, kinds[name]) for name in rule.event[2:]])
    time, whose = identifier(rule.event_time), stated(rule.entity)
    kept = F.to_json(F.struct(*map(identifier, rest.names)), EXACT) if rest.names else F.lit("{}")
    prepared = rule.with_ends(events, ENDS).select(
        *[F.col(identifier(c)).alias(name) for c, name in whose.items()],
        F.col(time).alias(TIME),
        F.expr(f"unix_micros({time})").alias(AT),
        F.col(identifier(event_id)).alias(ID),
        ENDS,
        kept.alias(KEPT),
        F.expr(rule.content(events, f"struct({', '.join(map(identifier, rule.event))})")).alias(CONTENT),
    )
    fields = [T.StructField(name, kinds[c]) for c, name in whose.items()]
    session = T.StructType([*fields, T.StructField(SESSION, T.StringType())])
    advance = Advance(rule.gap_micros, expires == "watermark", tuple(session.names))
    completed = prepared.groupBy(*whose.values()).applyInPandasWithState(
        advance.__call__, session, STATE, "append", "EventTimeTimeout"
    )
    named = completed.withColumnsRenamed({name: c for c, name in whose.items()})
    return _sessions(named.withColumn(EVENTS, _parsed(rule, rest, kinds)), rule)


def _events(stream: DataFrame, rule: SessionRule, lateness: str) -> DataFrame:
    if not getattr(stream, "isStreaming", False):
        raise ConfigError("a stateful sessionizer needs a streaming DataFrame; for a batch use sessionize_partition")
    return watermarked(rule.events(stream), rule.event_time, lateness)


def _sessions(found: DataFrame, rule: SessionRule) -> DataFrame:
    time = identifier(rule.event_time)
    ends = {STARTED: f"get({EVENTS}, 0).{time}", ENDED: f"element_at({EVENTS}, -1).{time}"}
    return rule.identified(found.withColumns({name: F.expr(sql) for name, sql in ends.items()})).select(*rule.columns)


def _parsed(rule: SessionRule, rest: T.StructType, kinds: dict[str, T.DataType]) -> Column:
    """Return a session's events, parsed from the JSON of the state."""
    texts = F.from_json(SESSION, T.ArrayType(T.ArrayType(T.StringType())))

    def event(fields: Column) -> Column:
        kept = F.from_json(fields[3], rest, EXACT)
        first = [F.timestamp_micros(fields[0].cast("long")), fields[1].cast(kinds[rule.event[1]])]
        values = [*first, *(kept[name] for name in rest.names)]
        return F.struct(*(value.alias(name) for value, name in zip(values, rule.event, strict=True)))

    return F.array_sort(F.transform(texts, event))
