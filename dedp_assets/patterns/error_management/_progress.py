"""Progress: newest event time and last delivery of each input, and the watermark of all inputs.

It is kept between runs as plain values, so that a restart goes on where the run before ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.types.instants import instant

__all__ = ["Across", "Progress", "advanced"]

Across = Literal["min", "max"]
_POLICY = {"min": min, "max": max}
_LONGEST = 9998 * 365 * 86_400
_FIRST = datetime.min.replace(tzinfo=timezone.utc)

Newest = Mapping[str, datetime | None] | Mapping[str, Mapping[str, datetime | None]]


@dataclass(frozen=True, slots=True)
class Progress:
    """Event-time progress of a consumer's inputs after the batches so far.

    Attributes:
        watermark: event times below it are late; ``None`` before the first event.
        newest: input -> newest plausible event time that it delivered, if any.
        heard: input -> when it delivered last, or was first asked for; of the clock, not of the events.
    """

    watermark: datetime | None = None
    newest: Mapping[str, datetime | None] = field(default_factory=dict)
    heard: Mapping[str, datetime] = field(default_factory=dict)

    @classmethod
    def of_note(cls, note: Mapping[str, Any] | None) -> Progress:
        """Read the progress from a commit's note; empty progress without a note."""
        stored = note or {}
        return cls(
            _moment(stored.get("watermark")),
            {name: _moment(text) for name, text in stored.get("newest", {}).items()},
            {name: datetime.fromisoformat(text) for name, text in stored.get("heard", {}).items()},
        )

    @property
    def note(self) -> dict[str, Any]:
        """The progress in plain values, for the notes of a commit."""
        return {
            "watermark": self.watermark and self.watermark.isoformat(),
            "newest": {name: time and time.isoformat() for name, time in self.newest.items()},
            "heard": {name: moment.isoformat() for name, moment in self.heard.items()},
        }

    def advance(
        self,
        newest: Mapping[str, datetime | None],
        *,
        at: datetime,
        allowed_lateness_seconds: float,
        across: Across = "max",
        idle_after_seconds: float | None = None,
    ) -> Progress:
        """Return the progress after a batch, in which no time moves back.

        Args:
            newest: input -> newest plausible event time of the batch; ``None`` for one that delivered nothing.
            at: when the batch was read.
            allowed_lateness_seconds: tolerance, in seconds.
            across: follow the slowest (``min``) or the fastest (``max``) of the inputs.
            idle_after_seconds: an input that delivered nothing for longer holds a ``min`` back no more, until it
                delivers again; ``None`` waits for good.
        """
        at = instant(at, "at")
        newest = {name: time if time is None else instant(time, "newest") for name, time in newest.items()}
        names = dict.fromkeys([*self.newest, *newest])
        known = {name: _later(self.newest.get(name), newest.get(name)) for name in names}
        heard = {name: _heard(self.heard.get(name), at, delivered=newest.get(name) is not None) for name in names}
        idle = Progress(None, known, heard).silent(at=at, seconds=idle_after_seconds)
        watermark = advanced(
            self.watermark, known, allowed_lateness_seconds=allowed_lateness_seconds, across=across, idle=idle
        )
        return Progress(watermark, known, heard)

    def silent(self, *, at: datetime, seconds: float | None) -> list[str]:
        """List the inputs without a delivery for longer than ``seconds``; empty without a limit."""
        return [name for name, last in self.heard.items() if seconds is not None and _since(last, at) > seconds]

    def judge(self, *, at: datetime, stalled_after_seconds: float) -> Finding:
        """Judge whether every input delivers, with the lag of each input behind the newest event time.

        Args:
            at: now.
            stalled_after_seconds: an input that delivered nothing for longer is stalled.
        """
        stalled = self.silent(at=at, seconds=stalled_after_seconds)
        farthest = max(filter(None, self.newest.values()), default=None)
        behind = {name: _since(time, farthest) for name, time in self.newest.items() if time and farthest}
        return Finding(
            "no_input_is_stalled",
            passed=not stalled,
            severity="warn",
            figures={"stalled": len(stalled), **{f"{name} behind [s]": seconds for name, seconds in behind.items()}},
            note="; ".join(f"stalled input {name}: nothing since {self.heard[name].isoformat()}" for name in stalled),
        )


def advanced(
    watermark: datetime | None,
    newest: Newest,
    *,
    allowed_lateness_seconds: float,
    across: Across,
    within: Across = "max",
    idle: Collection[str] = (),
) -> datetime | None:
    """Move a watermark forward; takes the arguments of ``advance_watermark``.

    Raises:
        ConfigError: for a tolerance that is no number of seconds from 0 on, a time without a zone, or a policy that is
            not offered.
    """
    if not _is_length(allowed_lateness_seconds) or across not in _POLICY or within not in _POLICY:
        raise ConfigError(
            f"allowed_lateness_seconds={allowed_lateness_seconds!r} must be a number of seconds from 0 to {_LONGEST}, "
            f"across={across!r} and within={within!r} must be min or max"
        )
    sources = {
        name: _follow([time for part, time in times.items() if part not in idle], within)
        if isinstance(times, Mapping)
        else times
        for name, times in newest.items()
        if name not in idle
    }
    progress = _follow(sources.values(), across)
    if progress is None:
        return watermark
    return _later(watermark and instant(watermark, "watermark"), _before(progress, allowed_lateness_seconds))


def _is_length(seconds: object) -> bool:
    return isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 <= seconds <= _LONGEST


def _before(time: datetime, seconds: float) -> datetime:
    """Subtract seconds from a time, bounded by the earliest representable time."""
    back = timedelta(seconds=seconds)
    return max(time, _FIRST + back) - back


def _follow(times: Collection[datetime | None], policy: Across) -> datetime | None:
    known = [instant(time, "newest") for time in times if time is not None]
    if not known or (policy == "min" and len(known) < len(times)):
        return None
    return _POLICY[policy](known)


def _heard(last: datetime | None, at: datetime, *, delivered: bool) -> datetime:
    return max(last or at, at) if delivered else last or at


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(filter(None, (one, other)), default=None)


def _since(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
