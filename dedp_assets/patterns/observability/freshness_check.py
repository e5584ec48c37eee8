"""Freshness Check: age of a table's newest rows against two limits, judged from the log.

Problem: users work with yesterday's rows and do not know. A dashboard shows the hour that a dead source left behind.
Solution: now less the time of the newest event, by the statistics of the files that commits added; or less the end of
    the newest partition, or the last arrival. Beyond one limit it is a warning, beyond the other one a failure.
Consequences: one fresh event hides a missing hour, and a deletion of the newest rows shows by partition alone.
Choose instead: Flow Interruption Detector, if gaps between arrivals count; Data SLA/SLO, if most rows are promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity
from dedp_assets.patterns.core.measuring.calendars import QuietHours, active_seconds
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement, Verdict
from dedp_assets.patterns.core.measuring.quantities import duration
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.observability._timing.arrivals import (
    arrivals_of_rows,
    future_commits,
    future_events,
    newest_known_event,
    past,
    require_tolerance,
)
from dedp_assets.patterns.observability._timing.partition_times import future_partitions, newest_end

__all__ = ["check_freshness"]

_YEAR_HOURS = 366 * 24


@typed
def check_freshness(
    activity: Activity,
    now: datetime,
    *,
    warn_minutes: float,
    fail_minutes: float,
    by: Literal["event", "partition", "arrival"] = "event",
    partition_hours: float = 0,
    quiet: Sequence[QuietHours] = (),
    tolerance_seconds: float = 60,
) -> Measured:
    """Measure the age of a table's newest rows, and judge the age by two limits.

    A commit without rows moves nothing, and neither does a backfill of old events. A time in the future hides no
    staleness: it does not count, and is a measurement of its own.

    Args:
        activity: what the table's log tells.
        now: the present.
        warn_minutes: greatest age without a warning, in minutes.
        fail_minutes: greatest age without a failure, in minutes.
        by: what has the age: the newest ``event``, the end of the newest ``partition`` with rows, or the last
            ``arrival`` of rows.
        partition_hours: length of a partition, in hours; 0 for that of the activity's calendar, by default a UTC day
            for keys such as ``2026-01-05``, and an hour for keys such as ``2026-01-05-13``.
        quiet: times in which rows do not age: nights, weekends, holidays.
        tolerance_seconds: how far clocks may differ, in seconds: a time is of the present up to there.

    Returns:
        ``age`` in seconds, without quiet time: ``fail`` also for a table that does not exist or has no rows, and
        ``unknown`` if the log does not tell the age. Then ``future_events``, ``future_partitions`` or
        ``future_commits``, by what has the age.

    Raises:
        ConfigError: unless 0 < ``warn_minutes`` <= ``fail_minutes``; for ``partition_hours`` below 0 or above a year,
            and for clocks that may differ by more than a day.

    Example:
        >>> from datetime import timedelta, timezone
        >>> from dedp_assets.patterns.core.measuring.activity import DataArrival, PartitionSize
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> arrival = DataArrival(version=1, at=noon, rows=3, newest_event=noon - timedelta(minutes=1))
        >>> size = {"": PartitionSize(rows=3, size=100, files=1)}
        >>> orders = Activity(table="silver/orders", version=1, arrivals=(arrival,), partitions=size)
        >>> later = noon + timedelta(minutes=30)
        >>> found = check_freshness(orders, later, warn_minutes=30, fail_minutes=60)
        >>> found.verdict, found.measurements[0].reason
        ('warn', 'silver/orders: the newest event is 31 min old, of 2026-01-05 11:59:00 UTC')
    """
    if not 0 < warn_minutes <= fail_minutes:
        raise ConfigError(
            f"warn_minutes must be above 0 and at most fail_minutes={fail_minutes:g}, not {warn_minutes:g}"
        )
    if not 0 <= partition_hours <= _YEAR_HOURS:
        raise ConfigError(f"partition_hours must be from 0 to {_YEAR_HOURS}, a year, not {partition_hours:g}")
    require_tolerance(tolerance_seconds)
    newest, in_future = _newest(activity, now, by, partition_hours, tolerance_seconds)
    if all(each.rows == 0 for each in activity.partitions.values()):
        newest = None  # whatever arrived was deleted
    age = active_seconds(newest, now, quiet) if newest else None
    verdict, reason = _verdict(activity, newest, age, warn_minutes * 60.0, fail_minutes * 60.0, by)
    measured = Measurement(
        metric="age",
        table=activity.table,
        at=now,
        verdict=verdict,
        value=age,
        unit="s",
        target=warn_minutes * 60.0,
        at_most=fail_minutes * 60.0,
        reason=reason,
        since=newest,
    )
    return Measured((measured, in_future))


def _newest(
    activity: Activity, now: datetime, by: str, partition_hours: float, tolerance_seconds: float
) -> tuple[datetime | None, Measurement]:
    """Return the time that the age counts from, and the measurement of times in the future."""
    rows = arrivals_of_rows(activity)
    if by == "event":
        newest = newest_known_event(rows, now, tolerance_seconds)
        return newest, future_events(activity, now, tolerance_seconds)
    if by == "arrival":
        newest = max((each.at for each in past(rows, now, tolerance_seconds)), default=None)
        return newest, future_commits(activity, now, tolerance_seconds)
    newest = newest_end(activity, now, hours=partition_hours, tolerance_seconds=tolerance_seconds)
    return newest, future_partitions(activity, now, tolerance_seconds)


def _verdict(
    activity: Activity, newest: datetime | None, age: float | None, warn: float, fail: float, by: str
) -> tuple[Verdict, str]:
    """Return the verdict on an age in seconds, and the reason for people."""
    what = {"event": "newest event", "partition": "newest partition's end", "arrival": "last arrival of rows"}[by]
    if activity.version < 0:
        return "fail", f"{activity.table} does not exist"
    if all(each.rows == 0 for each in activity.partitions.values()):
        return "fail", f"{activity.table} has no rows"
    if newest is None or age is None:
        return "unknown", f"{activity.table}: its log does not tell the {what}"
    if age <= warn:
        return "ok", ""
    old = f"{duration(age)} old, of {newest:%Y-%m-%d %H:%M:%S %Z}"
    old += ", and no partition with rows begins then" if by == "partition" else ""
    return "fail" if age > fail else "warn", f"{activity.table}: the {what} is {old}"
