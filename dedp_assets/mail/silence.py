"""Silent hours: a daily window of local time in which messages of some severities wait."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from dedp_assets.mail.alerts import Severity
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Manner", "SilentHours"]


@dataclass(frozen=True, slots=True)
class SilentHours:
    """A daily window of local time.

    A window whose end comes before its start ends on the next day. Start and end are instants of the zone, so a window
    over a change of clocks is an hour shorter or longer.

    Attributes:
        start: local time of the start.
        end: local time of the end, when messages are sent again.
        zone: name of the time zone, such as ``Europe/Berlin``.
        holds: severities that wait; all others pass.
    """

    start: time
    end: time
    zone: str
    holds: Collection[Severity] = ("info", "warning")

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise ConfigError(f"silent hours must end at another time than they start, not at {self.end:%H:%M}")

    def until(self, at: datetime, severity: Severity) -> datetime | None:
        """Return the end of the window that holds a message of a severity at an instant.

        Args:
            at: the instant, with time zone.
            severity: severity of the message.

        Returns:
            The end in UTC; ``None`` if the message passes.
        """
        if severity not in self.holds:
            return None
        zone = ZoneInfo(self.zone)
        today = at.astimezone(zone).date()
        for day in (today - timedelta(days=1), today):
            last = day if self.start < self.end else day + timedelta(days=1)
            # In UTC: Python compares two times of one zone by their wall clocks.
            start = datetime.combine(day, self.start, zone).astimezone(timezone.utc)
            end = datetime.combine(last, self.end, zone).astimezone(timezone.utc)
            if start <= at < end:
                return end
        return None


@dataclass(frozen=True, slots=True)
class Manner:
    """The times at which messages leave.

    Attributes:
        silence: silent hours, if there are any.
        remind_hours: pause between reminders of an episode that lasts, in hours; 0 for none.
        seconds: how long one delivery goes on to send to a channel, in seconds.
    """

    silence: SilentHours | None = None
    remind_hours: float = 0
    seconds: float = 20
