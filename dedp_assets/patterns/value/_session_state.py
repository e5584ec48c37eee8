"""Session state of an entity: events of open sessions, and the next timeout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.sessionizing import cut

__all__ = ["AT", "CONTENT", "ENDS", "ID", "KEPT", "STATE", "TIME", "WINDOW", "Advance", "Event", "SESSION", "stated"]

AT, ID, ENDS, KEPT, CONTENT = (f"{RESERVED}{name}" for name in ("at", "id", "ends", "kept", "content"))
"""Columns of an event: microseconds, identity, whether it ends its session, the rest as JSON, a hash of its content."""
WINDOW = f"{RESERVED}window"
"""Column of Spark's session window."""
TIME = f"{RESERVED}time"
"""Column with an event's time."""
STATE = "events STRING, deadline BIGINT"
SESSION = "events"
"""Column of a completed session: its events as JSON."""

Event = tuple[int, Any, bool, str | None, int]
"""Microseconds, identity, whether it ends its session, the rest as JSON, and the hash of its content.

The rest is ``None`` of an event whose session is told already: it is known as long as a repeat of it may come.
"""


@dataclass(frozen=True, slots=True)
class Advance:
    """State update of an entity's sessions, on new events or on a timeout.

    Attributes:
        gap: the longest pause within a session, in microseconds.
        by_watermark: whether sessions are completed a gap after the watermark of the last micro-batch that brought
            events, instead of a gap after their own last event.
        columns: of a completed session: the entity's, and its events.
    """

    gap: int
    by_watermark: bool
    columns: tuple[str, ...]

    def __call__(
        self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Add events to the state, and return the completed sessions."""
        known = _known(json.loads(state.get[0])) if state.exists else []
        deadline = state.get[1] if state.exists else 0
        new = [] if state.hasTimedOut else [event for frame in frames for event in _events_of(frame)]
        watermark = state.getCurrentWatermarkMs()
        if new:
            deadline = (watermark or max(event[0] for event in new) // 1000) + self.gap // 1000
        sessions = cut(_once([*known, *new]), time=_time, gap=self.gap, ends=_ends)
        done = self._done(watermark, deadline)
        completed = [session for session in sessions if _ends(session[-1]) or done(session)]
        still = [session for session in sessions if not (_ends(session[-1]) or done(session))]
        reported = [_reported(event) for session in completed for event in session if event[0] > watermark * 1000]
        self._keep(state, still, reported, deadline)
        fresh = [[event for event in session if event[3] is not None] for session in completed]
        if any(fresh):
            yield pd.DataFrame([[*key, json.dumps(each)] for each in fresh if each], columns=list(self.columns))

    def _done(self, watermark: int, deadline: int) -> Callable[[list[Event]], bool]:
        if self.by_watermark:
            return lambda _: 0 < deadline < watermark
        return lambda session: session[-1][0] + self.gap < watermark * 1000

    def _keep(self, state: GroupState, sessions: list[list[Event]], reported: list[Event], deadline: int) -> None:
        """Store open sessions and emitted events that may repeat, and set the next timeout."""
        if not sessions and not reported:
            if state.exists:
                state.remove()
            return
        state.update((json.dumps([*reported, *(event for session in sessions for event in session)]), deadline))
        ends = [deadline if self.by_watermark else (session[-1][0] + self.gap) // 1000 + 1 for session in sessions]
        asked = min([*ends, *([max(map(_time, reported)) // 1000 + 1] if reported else [])])
        state.setTimeoutTimestamp(max(asked, state.getCurrentWatermarkMs() + 1))


def stated(entity: Sequence[str]) -> dict[str, str]:
    """Map the entity's columns to state columns; names with a dot or a backtick become numbers."""
    return {c: f"{RESERVED}entity_{n}" if {".", "`"} & {*c} else c for n, c in enumerate(entity)}


def _known(events: list[list[Any]]) -> list[Event]:
    """Read the events of a state, including events of a former release without a hash."""
    return [(at, id_, ends, kept, *(rest or [0])) for at, id_, ends, kept, *rest in events]


def _events_of(frame: pd.DataFrame) -> Iterator[Event]:
    columns = (frame[name].tolist() for name in (AT, ID, ENDS, KEPT, CONTENT))
    return zip(*columns, strict=True)


def _once(events: Iterable[Event]) -> list[Event]:
    """Sort events and drop repeats: the event already emitted stays, or else the least content hash."""
    ordered = sorted(events, key=lambda event: (*event[:2], event[3] is not None, event[4]))
    return [next(same) for _, same in groupby(ordered, key=itemgetter(0, 1))]


def _reported(event: Event) -> Event:
    return (*event[:3], None, event[4])


def _time(event: Event) -> int:
    return event[0]


def _ends(event: Event) -> bool:
    return event[2]
