"""The state of one entity: the events of its sessions that may still go on, and when to look at them again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.sessionizing import cut

__all__ = ["AT", "ENDS", "ID", "KEPT", "STATE", "TIME", "WINDOW", "Advance", "Event", "SESSION", "stated"]

AT, ID, ENDS, KEPT = (f"{RESERVED}{name}" for name in ("at", "id", "ends", "kept"))
"""Columns of an event: microseconds, identity, whether it ends its session, and the rest as JSON."""
WINDOW = f"{RESERVED}window"
"""Column of Spark's session window."""
TIME = f"{RESERVED}time"
"""Column with an event's time."""
STATE = "events STRING, deadline BIGINT"
SESSION = "events"
"""Column of a completed session: its events as JSON."""

Event = tuple[int, Any, bool, str]


@dataclass(frozen=True, slots=True)
class Advance:
    """What becomes of one entity's sessions when events come, or when time has passed.

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
        """Take in events, and give the sessions that are completed."""
        known: list[Event] = [(e[0], e[1], e[2], e[3]) for e in json.loads(state.get[0])] if state.exists else []
        deadline = state.get[1] if state.exists else 0
        new = [] if state.hasTimedOut else [event for frame in frames for event in _events_of(frame)]
        watermark = state.getCurrentWatermarkMs()
        if new:
            deadline = (watermark or max(event[0] for event in new) // 1000) + self.gap // 1000
        sessions = cut(sorted({*known, *new}), time=_time, gap=self.gap, ends=_ends)
        done = self._done(watermark, deadline)
        completed = [session for session in sessions if _ends(session[-1]) or done(session)]
        self._keep(state, [session for session in sessions if not (_ends(session[-1]) or done(session))], deadline)
        if completed:
            yield pd.DataFrame([[*key, json.dumps(session)] for session in completed], columns=list(self.columns))

    def _done(self, watermark: int, deadline: int) -> Callable[[list[Event]], bool]:
        if self.by_watermark:
            return lambda _: 0 < deadline < watermark
        return lambda session: session[-1][0] + self.gap < watermark * 1000

    def _keep(self, state: GroupState, sessions: list[list[Event]], deadline: int) -> None:
        """Keep what may go on, and ask to be called when the first of it cannot."""
        if not sessions:
            if state.exists:
                state.remove()
            return
        state.update((json.dumps([event for session in sessions for event in session]), deadline))
        first = min(session[-1][0] for session in sessions)
        asked = deadline if self.by_watermark else (first + self.gap) // 1000 + 1
        state.setTimeoutTimestamp(max(asked, state.getCurrentWatermarkMs() + 1))


def stated(entity: Sequence[str]) -> dict[str, str]:
    """Name the entity's columns in the state: as they are, or by number where a name has a dot or a backtick."""
    return {c: f"{RESERVED}entity_{n}" if {".", "`"} & {*c} else c for n, c in enumerate(entity)}


def _events_of(frame: pd.DataFrame) -> Iterator[Event]:
    columns = (frame[name].tolist() for name in (AT, ID, ENDS, KEPT))
    return ((at, id_, ends, kept) for at, id_, ends, kept in zip(*columns, strict=True))


def _time(event: Event) -> int:
    return event[0]


def _ends(event: Event) -> bool:
    return event[2]
