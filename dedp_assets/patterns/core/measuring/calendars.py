"""Quiet hours: recurring times, and days, in which nothing is expected to happen.

A gap is counted in the time outside of them, so that a night, a weekend or a holiday is no interruption.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types

__all__ = ["QuietHours", "active_seconds"]

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """Window of local time on some days, or on every day, in which nothing is expected to happen.

    A window whose end comes before the start ends on the next day. A time that the clock skips is as much later; of a
    time that comes twice, the first one starts a window, and the last one ends a window.

    Attributes:
        zone: name of the time zone, such as ``Europe/Berlin``.
        start: local time of the start, such as ``22:00``; empty for whole days.
        end: local time of the end.
        weekdays: days on which a window starts, such as ``saturday``.
        dates: further days on which a window starts, such as holidays. Without ``weekdays`` and ``dates``, a window
            starts every day.

    Raises:
        ConfigError: for an unknown zone or weekday, what is no time of a day, a start without an end, and for a window
            that leaves no time at all.

    Example:
        >>> QuietHours(zone="Europe/Berlin", start="22:00", end="06:00").start
        '22:00'
        >>> QuietHours(zone="UTC")
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: start and end must be given where no days are, not left out
    """

    zone: str
    start: str = ""
    end: str = ""
    weekdays: Sequence[str] = ()
    dates: Sequence[date] = ()

    def __post_init__(self) -> None:
        require_types(self)
        _zone(self.zone)
        if unknown := [each for each in self.weekdays if each not in _WEEKDAYS]:
            raise ConfigError(f"weekdays must be of {', '.join(_WEEKDAYS)}, not {', '.join(unknown)}")
        if bool(self.start) != bool(self.end) or (self.start and _time(self.start) == _time(self.end)):
            raise ConfigError(f"start and end must be two times of a day, not {self.start!r} and {self.end!r}")
        if not (self.start or self.weekdays or self.dates):
            raise ConfigError("start and end must be given where no days are, not left out")
        if not self.start and {*self.weekdays} == {*_WEEKDAYS}:
            raise ConfigError("weekdays must leave a day, or have a start and an end, not name every day")

    def windows(self, begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield start and end, in UTC, of the windows that overlap a span of time.

        Args:
            begin: start of the span, with time zone.
            end: end of the span, with time zone.
        """
        zone = _zone(self.zone)
        starts, ends = (_time(self.start), _time(self.end)) if self.start else (time(), time())
        day, last = begin.astimezone(zone).date() - _DAY, end.astimezone(zone).date()
        while day <= last:
            if self._is_quiet(day):
                opens = _instants(day, starts, zone)[0]
                closes = max(_instants(day if starts < ends else day + _DAY, ends, zone))
                if opens < closes and opens < end and begin < closes:
                    yield opens, closes
            day += _DAY

    def _is_quiet(self, day: date) -> bool:
        every = not (self.weekdays or self.dates)
        return every or _WEEKDAYS[day.weekday()] in self.weekdays or day in self.dates


def active_seconds(begin: datetime, end: datetime, quiet: Sequence[QuietHours] = ()) -> float:
    """Count the seconds of a span of time outside of quiet hours.

    Args:
        begin: start of the span, with time zone.
        end: end of the span, with time zone; before ``begin``, there are no seconds.
        quiet: quiet hours, which may overlap.

    Example:
        >>> friday, monday = (datetime(2026, 1, day, 12, tzinfo=timezone.utc) for day in (9, 12))
        >>> active_seconds(friday, monday, [QuietHours(zone="UTC", weekdays=("saturday", "sunday"))]) / 3600
        24.0
    """
    # In UTC: Python compares two times of one zone by their wall clocks.
    reached, last = begin.astimezone(timezone.utc), end.astimezone(timezone.utc)
    active = timedelta()
    for opens, closes in sorted(window for each in quiet for window in each.windows(reached, last)):
        active += max(min(opens, last) - reached, timedelta())
        reached = max(reached, min(closes, last))
    return (active + max(last - reached, timedelta())).total_seconds()


def _instants(day: date, at: time, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the instants in UTC of a local time: two where clocks are put back, else one twice."""
    first, second = (datetime.combine(day, at.replace(fold=fold), zone).astimezone(timezone.utc) for fold in (0, 1))
    return first, second


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # unknown, a path, a folder
        raise ConfigError(f"zone must be the name of a time zone, not {name!r}") from None


def _time(stated: str) -> time:
    try:
        found = time.fromisoformat(stated)
    except ValueError:
        found = time(tzinfo=timezone.utc)
    if found.tzinfo is not None:
        raise ConfigError(f"start and end must be times of a day such as 22:00, not {stated!r}")
    return found
