"""Silent hours: a daily window of local time in which messages of some severities wait."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from dedp_assets.patterns.core.measuring.calendars import QuietHours
from dedp_assets.patterns.core.measuring.troubles import Severity

__all__ = ["Manner", "SilentHours"]

_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class SilentHours:
    """Times in which messages of some severities wait.

    Attributes:
        hours: the times, a daily window of local time.
        holds: severities that wait; all others pass.
    """

    hours: QuietHours
    holds: Collection[Severity] = ("info", "warning")

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
        return max((closes for _, closes in self.hours.windows(at, at + _MOMENT)), default=None)


@dataclass(frozen=True, slots=True)
class Manner:
    """The times at which messages leave.

    Attributes:
        silence: silent hours, if there are any.
        remind_hours: pause between reminders of an episode that lasts, in hours; 0 for none.
    """

    silence: SilentHours | None = None
    remind_hours: float = 0
