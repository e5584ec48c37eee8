"""Arrivals that a detector may rely on, and findings about times in the future."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity, DataArrival
from dedp_assets.patterns.core.measuring.measurements import Measurement
from dedp_assets.patterns.core.measuring.partition_times import Calendar

__all__ = [
    "arrivals_at_head",
    "arrivals_of_rows",
    "future_commits",
    "future_events",
    "in_future",
    "newest_known_event",
    "past",
    "require_tolerance",
]

_DAY_SECONDS = 24 * 60 * 60


def require_tolerance(tolerance_seconds: float) -> None:
    """Refuse a difference of clocks below 0 or above a day."""
    if not 0 <= tolerance_seconds <= _DAY_SECONDS:
        raise ConfigError(f"tolerance_seconds must be from 0 to {_DAY_SECONDS}, a day, not {tolerance_seconds:g}")


def arrivals_of_rows(activity: Activity) -> list[DataArrival]:
    """List the arrivals without restores, which make old rows current again."""
    return [each for each in activity.arrivals if each.rows > 0 and not each.restores]


def past(arrivals: Sequence[DataArrival], now: datetime, tolerance_seconds: float) -> list[DataArrival]:
    """List the arrivals whose commit time is not in the future."""
    latest = now + timedelta(seconds=tolerance_seconds)
    return [each for each in arrivals if each.at <= latest]


def newest_known_event(arrivals: Sequence[DataArrival], now: datetime, tolerance_seconds: float) -> datetime | None:
    """Return the newest event time up to the present.

    ``None`` without a known event time.
    """
    latest = now + timedelta(seconds=tolerance_seconds)
    events = [each.newest_event for each in arrivals if each.newest_event is not None]
    return max((each for each in events if each <= latest), default=None)


def arrivals_at_head(
    arrivals: Sequence[DataArrival],
    now: datetime,
    *,
    window_seconds: float,
    tolerance_seconds: float,
    calendar: Calendar,
) -> list[DataArrival]:
    """List the arrivals of recent rows, without backfills of old partitions.

    An arrival is at the head if its newest event is at most ``window_seconds`` older than the newest event before it;
    without an event time, if its partition does not begin before an earlier arrival's partition. An arrival with
    neither is at the head. An event in the future moves no head.

    Args:
        arrivals: the arrivals, oldest first.
        now: the present.
        window_seconds: how late an event of the present may be, in seconds.
        tolerance_seconds: how far clocks may differ, in seconds.
        calendar: times of the partition keys.
    """
    latest, window = now + timedelta(seconds=tolerance_seconds), timedelta(seconds=window_seconds)
    found: list[DataArrival] = []
    head: datetime | None = None
    newest: datetime | None = None
    for each in arrivals:
        event, span = each.newest_event, calendar(each.partition)
        if event is None:
            at_head = span is None or newest is None or span.begin >= newest
        else:
            # Compared by a difference: a time less a long window may lie before the first year.
            at_head = event <= latest and (head is None or head - event <= window)
            head = max(filter(None, [head, event])) if event <= latest else head
        newest = max(filter(None, [newest, span and span.begin]), default=None)
        found += [each] if at_head else []
    return found


def future_commits(activity: Activity, now: datetime, tolerance_seconds: float) -> Measurement:
    """Measure the number of arrivals whose commit has a time in the future."""
    latest = now + timedelta(seconds=tolerance_seconds)
    found = [each for each in activity.arrivals if each.at > latest]
    reason = ""
    if found:
        newest = max(found, key=lambda each: each.at)
        reason = (
            f"{activity.table}: commits with a time in the future: {len(found)}, such as version {newest.version} with "
            f"{newest.at:%Y-%m-%d %H:%M:%S %Z}. A writer's clock is wrong, and these times do not count"
        )
    return in_future("future_commits", activity, now, len(found), reason=reason)


def future_events(activity: Activity, now: datetime, tolerance_seconds: float) -> Measurement:
    """Measure the number of arrivals whose newest event has a time in the future."""
    latest = now + timedelta(seconds=tolerance_seconds)
    found = [each for each in activity.arrivals if each.newest_event is not None and each.newest_event > latest]
    reason = ""
    if found:
        event, version = max((each.newest_event, each.version) for each in found if each.newest_event is not None)
        reason = (
            f"{activity.table}: commits with events in the future: {len(found)}, such as version {version} with "
            f"{event:%Y-%m-%d %H:%M:%S %Z}. Correct the times at the source: they do not count here"
        )
    since = min((each.at for each in found), default=None)
    return in_future("future_events", activity, now, len(found), reason=reason, since=since)


def in_future(
    metric: str,
    activity: Activity,
    now: datetime,
    number: int,
    *,
    unit: str = "commits",
    reason: str = "",
    since: datetime | None = None,
) -> Measurement:
    """Return the measurement of a number of times in the future, which warns of any.

    Args:
        metric: name of the figure.
        activity: activity of the table.
        now: the present.
        number: number of commits, or of partitions, with a time in the future.
        unit: what was counted.
        reason: a sentence about the newest such time; empty without one.
        since: time of the first commit with such a time, if known.
    """
    return Measurement(
        metric=metric,
        table=activity.table,
        at=now,
        verdict="warn" if number else "ok",
        value=number,
        unit=unit,
        at_most=0,
        reason=reason,
        since=since,
    )
