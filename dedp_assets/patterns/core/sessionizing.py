"""Session rule: events of an entity belong together unless separated by a pause longer than the gap.

An event is known by its entity, its time and its identity; one that is there twice counts once, and of two that differ
in other columns the same one counts in any order. Events are in the order of time and, at equal times, of identity. A
pause of exactly the gap does not end a session; an event that says so ends it at once. A session's id is made of the
entity and of the session's first event, so it depends on no clock, no run and no batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.columns import (
    IDENTICAL,
    INSTANT,
    REMEMBERED,
    fields_of,
    require_columns,
    require_free,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.keys import key_of, require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.rows import quoted, value_hash
from dedp_assets.patterns.core.sql.sql_options import naming_options, require_repeatable, truth
from dedp_assets.patterns.core.types.instants import instant, micros

__all__ = ["ADDED", "ENDED", "EVENTS", "STARTED", "SessionRule", "cut", "watermarked"]

SESSION_ID, STARTED, ENDED, EVENTS = "session_id", "started_at", "ended_at", "events"
ADDED = (SESSION_ID, STARTED, ENDED, EVENTS)
"""Columns of a session beside its entity's: id, time of the first and of the last event, events in their order."""

_BEGINS, _NUMBER, _EVENT, _ENDS, _CONTENT, _AGAIN = (
    f"{RESERVED}{name}" for name in ("begins", "number", "event", "ends", "content", "again")
)

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class SessionRule:
    """The rule that makes events a session.

    Attributes:
        entity: columns that say whose events they are.
        event_time: TIMESTAMP column.
        event_id: column that tells apart events of one time.
        gap_seconds: the longest pause within a session, in seconds; exactly so long a pause does not end it.
        keep: further columns to keep of each event.
        ends: SQL over an event's columns that is true of an event that ends its session, such as a logout; empty if
            only a pause does.

    Raises:
        ConfigError: for a gap of no length, no entity, a column named twice, or an entity's column that has the name of
            a session's or an event's.
    """

    entity: Sequence[str]
    event_time: str
    event_id: str
    gap_seconds: int
    keep: Sequence[str] = ()
    ends: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        if not self.event_time or not self.event_id:
            raise ConfigError("SessionRule.event_time and event_id must each name a column, not nothing")
        if not self.entity or self.gap_seconds <= 0:
            raise ConfigError(
                f"name the entity, and as gap_seconds a whole number above 0, not {[*self.entity]} and "
                f"{self.gap_seconds!r}"
            )
        require_distinct("entity=", self.entity)
        if self.event_id.lower() == self.event_time.lower():
            # The columns of an event are told by their places: a kept one would stand in that of the identity.
            raise ConfigError(f"event_id must be another column than event_time, not {self.event_id!r}")
        met = {c.lower() for c in self.entity} & {*ADDED, *(c.lower() for c in self.event)}
        if met:
            raise ConfigError(
                f"column {', '.join(sorted(met))} cannot be of the entity: a session has one of that name"
            )

    @property
    def event(self) -> tuple[str, ...]:
        """The columns of an event, in the order of comparison."""
        named = [self.event_time, self.event_id, *self.keep]
        return tuple({c.lower(): c for c in reversed(named)}[c] for c in dict.fromkeys(map(str.lower, named)))

    @property
    def gap_micros(self) -> int:
        """The gap in microseconds."""
        return self.gap_seconds * 1_000_000

    def events(self, rows: DataFrame) -> DataFrame:
        """Select the events in rows; an event without entity, time or identity fails when Spark reads the row.

        Raises:
            ConfigError: for columns that are not there, are the library's own, or cannot be used so.
        """
        named = [*self.entity, *self.event]
        require_columns(require_free(rows), [self.event_time], INSTANT)
        require_columns(rows, named, IDENTICAL)
        require_columns(rows, [*self.entity, self.event_id], REMEMBERED)
        needed = [*self.entity, *self.event[:2]]
        return rows.select(
            *[_needed(c) if c in needed else F.col(identifier(c)).alias(c) for c in dict.fromkeys(named)]
        )

    def events_of(self, sessions: DataFrame, events: DataFrame) -> DataFrame:
        """Return the events of sessions as rows; a newly kept column is NULL, typed as in ``events``.

        Raises:
            ConfigError: for rows that are no sessions of such events.
        """
        require_columns(sessions, [*self.entity, EVENTS])
        apart = sessions.select(*map(identifier, self.entity), F.explode(EVENTS).alias(_EVENT))
        held = {c.lower() for c in getattr(apart.schema[_EVENT].dataType, "names", ())}
        if lost := [c for c in self.event[:2] if c.lower() not in held]:
            raise ConfigError(f"the events of pending sessions have no {', '.join(lost)}: they are of another rule")
        values = [
            F.col(f"{_EVENT}.{identifier(f.name)}") if f.name.lower() in held else F.lit(None).cast(f.dataType)
            for f in fields_of(events, self.event)
        ]
        named = [value.alias(c) for value, c in zip(values, self.event, strict=True)]
        return apart.select(*map(identifier, self.entity), *named)

    def sessions(self, events: DataFrame) -> DataFrame:
        """Group events into sessions, with ``__dedp_ends`` for sessions ended by an event; lazy."""
        time, entity = identifier(self.event_time), ", ".join(map(identifier, self.entity))
        known = f"{time}, {identifier(self.event_id)}"
        ordered = f"OVER (PARTITION BY {entity} ORDER BY {known}, {_CONTENT})"
        again = f"lag(struct({known})) {ordered} <=> struct({known}) AS {_AGAIN}"
        pause = f"unix_micros({time}) - lag(unix_micros({time})) {ordered}"
        begins = f"coalesce({pause} > {self.gap_micros}L OR lag({_ENDS}) {ordered}, true) AS {_BEGINS}"
        event = f"struct({', '.join(map(identifier, self.event))}) AS {_EVENT}"
        found = (
            self.with_ends(events.selectExpr("*", event), _ENDS)
            .selectExpr("*", f"{self.content(events, _EVENT)} AS {_CONTENT}")
            .selectExpr("*", again)
            .filter(f"NOT {_AGAIN}")
            .selectExpr("*", begins)
            .selectExpr("*", f"count_if({_BEGINS}) {ordered} AS {_NUMBER}")
            .groupBy(*map(identifier, self.entity), _NUMBER)
            .agg(
                F.min(time).alias(STARTED),
                F.max(time).alias(ENDED),
                F.array_sort(F.collect_list(_EVENT)).alias(EVENTS),
                F.bool_or(_ENDS).alias(_ENDS),
            )
        )
        return self.identified(found).select(SESSION_ID, *self.columns[1:], _ENDS)

    def content(self, events: DataFrame, event: str) -> str:
        """Write SQL for the content hash that chooses between differing events of an identity: the least wins.

        Args:
            events: have the columns of an event.
            event: SQL for the struct of them.
        """
        return value_hash(event, StructType(fields_of(events, self.event)), "events")

    def with_ends(self, events: DataFrame, name: str) -> DataFrame:
        """Add the BOOLEAN column ``name`` to events: true for an event that ends a session.

        Raises:
            ConfigError: if ``ends`` is SQL that Spark cannot evaluate.
        """
        ends = truth(self.ends or "false")
        require_repeatable(events, "option", {"ends": self.ends})
        with naming_options(events, "option", {"ends": ends}):
            return events.withColumn(name, F.expr(ends))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a session, as SQL names."""
        return (SESSION_ID, *map(identifier, self.entity), STARTED, ENDED, EVENTS)

    def identified(self, sessions: DataFrame) -> DataFrame:
        """Add session ids to sessions."""
        first = [f"get({EVENTS}, 0).{identifier(c)}" for c in (self.event_time, self.event_id)]
        return sessions.withColumn(SESSION_ID, F.expr(key_of(sessions, [*map(identifier, self.entity), *first])))

    def is_open(self, until: datetime) -> str:
        """Write SQL over :meth:`sessions`: whether an event at ``until`` or later could still join a session."""
        return f"NOT {_ENDS} AND unix_micros({ENDED}) + {self.gap_micros}L >= {micros(instant(until, 'until'))}L"


def cut(
    events: Iterable[E], *, time: Callable[[E], int], gap: int, ends: Callable[[E], bool] = lambda _: False
) -> list[list[E]]:
    """Cut an entity's ordered events into sessions.

    Args:
        events: in the order of time and identity.
        time: when an event happened, in microseconds.
        gap: the longest pause, in microseconds.
        ends: whether an event ends its session.

    Example:
        >>> cut([0, 10, 20, 31], time=int, gap=10)
        [[0, 10, 20], [31]]
    """
    found: list[list[E]] = []
    for event in events:
        if found and time(event) - time(found[-1][-1]) <= gap and not ends(found[-1][-1]):
            found[-1].append(event)
        else:
            found.append([event])
    return found


def watermarked(stream: DataFrame, event_time: str, lateness: str, *, option: str = "lateness") -> DataFrame:
    """Return the stream with a watermark that keeps events up to and including ``lateness`` late.

    Spark drops what lies at its watermark, of whole milliseconds, too: one more keeps an event that is exactly so late.

    Raises:
        ConfigError: for a text that is no length of time, or a negative one.
    """
    try:
        return stream.withWatermark(identifier(event_time), f"{lateness} 1 millisecond")
    except (AnalysisException, IllegalArgumentException, ParseException):
        raise ConfigError(f"{option} must be a length of time such as '10 minutes', not {lateness!r}") from None


def _needed(column: str) -> Column:
    text = quoted(f"{ContractError.__module__}.ContractError: no session: an event has no {column}")
    return F.expr(f"coalesce({identifier(column)}, raise_error({text}))").alias(column)
