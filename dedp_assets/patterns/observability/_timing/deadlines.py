"""Deadlines of partitions: a time of day in a zone, on the days on which something is due."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from typing import Literal
from zoneinfo import ZoneInfo

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types

__all__ = ["Due", "Weekday", "first_moment"]

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_WEEK: tuple[Weekday, ...] = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_LONGEST_DAYS = 366
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Due:
    """The promise of a table: when a partition is delivered, and how long a run takes.

    Attributes:
        at: time of day of the deadline, like ``06:40``: the first one after the end of the partition's data. Empty for
            a table that promises only how long a run takes.
        zone: time zone of that clock. On a day that skips the time, the deadline is the moment of the skip; on a day
            that has the time twice, the first of both.
        days_after: days by which the deadline is later than the first such time after the data's end.
        weekdays: days of the week on which something is due.
        holidays: dates on which nothing is due, in that zone.
        if_closed: what becomes of a partition whose deadline would fall on another day or a holiday: it is due on the
            ``next`` day that is open, or has ``none``.
        within_minutes: longest duration of a run, from the first attempt's start; ``None`` for any.
        warn_at: share of the time until the deadline, or of the longest duration, after which an undelivered partition
            is warned of: 0.8. ``None`` for no early warning.

    Raises:
        ConfigError: if neither a time of day nor a duration is promised, or one of them is impossible.
    """

    at: str = ""
    zone: str = field(default="UTC", kw_only=True)
    days_after: int = field(default=0, kw_only=True)
    weekdays: Sequence[Weekday] = field(default=_WEEK, kw_only=True)
    holidays: Sequence[date] = field(default=(), kw_only=True)
    if_closed: Literal["next", "none"] = field(default="next", kw_only=True)
    within_minutes: float | None = field(default=None, kw_only=True)
    warn_at: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_types(self)
        if not self.at and self.within_minutes is None:
            raise ConfigError("at or within_minutes must be stated, not neither: nothing would be promised")
        if self.at and not _CLOCK.fullmatch(self.at):
            raise ConfigError(f"at must be a time of day like 06:40, not {self.at!r}")
        _zone(self.zone)
        if not 0 <= self.days_after <= _LONGEST_DAYS:
            raise ConfigError(f"days_after must be between 0 and {_LONGEST_DAYS}, not {self.days_after}")
        if not self.weekdays:
            raise ConfigError("weekdays must name a day, not none: nothing would ever be due")
        # As tuples, so that what follows from a promise can be kept by the promise.
        for name in ("weekdays", "holidays"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.within_minutes is not None and self.within_minutes <= 0:
            raise ConfigError(f"within_minutes must be above 0, not {self.within_minutes:g}")
        if self.warn_at is not None and not 0 < self.warn_at < 1:
            raise ConfigError(f"warn_at must be above 0 and below 1, not {self.warn_at:g}")

    @property
    def within_seconds(self) -> float | None:
        """Longest promised duration of a run, in seconds.

        ``None`` without a promise.
        """
        return None if self.within_minutes is None else 60 * self.within_minutes

    def deadline(self, end: datetime) -> datetime | None:
        """Return the deadline of a partition, in UTC.

        ``None`` without a deadline.

        Args:
            end: end of the partition's data, with time zone.
        """
        if not self.at:
            return None
        clock, zone = time.fromisoformat(self.at), _zone(self.zone)
        days = _days_from(end.astimezone(zone).date())
        first = next(day for day in days if first_moment(day, clock, zone) > end) + timedelta(days=self.days_after)
        is_open = (day for _, day in zip(range(_LONGEST_DAYS), _days_from(first), strict=False) if self._is_open(day))
        due = next(is_open, None)
        if due is None or (due != first and self.if_closed == "none"):
            return None
        return first_moment(due, clock, zone)

    def shown(self, moment: datetime) -> str:
        """Write a moment for people in the zone of the deadline."""
        return f"{moment.astimezone(_zone(self.zone)):%Y-%m-%d %H:%M %Z}"

    def _is_open(self, day: date) -> bool:
        return _WEEK[day.weekday()] in self.weekdays and day not in self.holidays


def first_moment(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """Return the first moment, in UTC, at which clocks of a zone show a time of a day or a later time.

    Args:
        day: the day.
        clock: the time of day, in whole seconds.
        zone: the time zone.
    """
    stated = datetime.combine(day, clock)
    # Of a time that clocks show twice, fold=0 is the first; of a time that they skip, fold=1 lies before the skip.
    before, after = (stated.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc) for fold in (1, 0))
    if _shown(after, zone) == stated:
        return after
    while after - before > _SECOND:
        middle = before + (after - before) // (2 * _SECOND) * _SECOND
        before, after = (middle, after) if _shown(middle, zone) < stated else (before, middle)
    return after


def _shown(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _days_from(day: date) -> Iterator[date]:
    while True:
        yield day
        day += timedelta(days=1)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # as Python's own errors for names that are unknown, paths or folders
        raise ConfigError(f"zone must be a time zone like Europe/Berlin, not {name!r}") from None
