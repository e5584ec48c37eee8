"""Flow Interruption Detector: alarm for a table whose rows stop coming, although nothing fails.

Problem: a job runs and reads, its status is green, and it writes nothing. Users see the empty hours days later.
Solution: watch the arrival of rows, not the state of code: at least one row in each unit of time, or no longer gap than
    a limit. An arrival is a commit that brought rows, and the commit tells it itself: a crash before it adds none.
Consequences: a limit that is too low cries wolf, one that is too high is late. Quiet hours keep lulls out of a gap.
Choose instead: Freshness Check, if the age of the newest event counts; Skew Detector, if rows come in odd amounts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity
from dedp_assets.patterns.core.measuring.calendars import QuietHours, active_seconds
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement, Verdict
from dedp_assets.patterns.core.measuring.quantities import duration
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.observability._lags.end_offsets import EndOffset, TopicJudge, standings
from dedp_assets.patterns.observability._timing.arrivals import (
    arrivals_at_head,
    arrivals_of_rows,
    future_commits,
    future_events,
    past,
    require_tolerance,
)

__all__ = ["detect_interruption", "detect_silent_partitions", "EndOffset"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@typed
def detect_interruption(
    activity: Activity,
    now: datetime,
    *,
    every_seconds: float = 0,
    max_gap_seconds: float = 0,
    quiet: Sequence[QuietHours] = (),
    head_only: bool = False,
    expected_since: datetime | None = None,
    tolerance_seconds: float = 60,
) -> Measured:
    """Measure the time since the last arrival of rows, and judge whether the flow is interrupted.

    Commits without rows, maintenance, changes of the schema, deletions and restores are no arrivals. A commit time in
    the future does not count, nor does an event in the future: each is a measurement of its own.

    Args:
        activity: what the table's log tells.
        now: the present.
        every_seconds: unit of time in which a continuous delivery brings at least one row, in seconds. Units begin at
            multiples of it from 1970 (UTC). The present unit is not judged before it is over. Units that are quiet in
            part count by the rest of them.
        max_gap_seconds: longest usual gap of an irregular delivery, in seconds; one of the two is given.
        quiet: times that do not count towards a gap: nights, weekends, holidays.
        head_only: whether only rows of the present count, and a backfill of old partitions does not. An arrival whose
            newest event is older than the newest one before it, by more than the unit or the gap, is such a backfill;
            without an event time, one of an earlier partition. By default any arrival shows that the flow is alive.
        expected_since: since when rows are expected; of a table that was never written, the gap begins then.
        tolerance_seconds: how far clocks may differ, in seconds: a commit is of the present up to there.

    Returns:
        ``gap`` in seconds, without quiet time, since the last arrival: ``fail`` for an interrupted flow, ``unknown``
        for a table into which nothing came yet; then ``future_commits`` and ``future_events``.

    Raises:
        ConfigError: if not exactly one of ``every_seconds`` and ``max_gap_seconds`` is given, or one below a second,
            and for clocks that may differ by more than a day.

    Example:
        >>> from dedp_assets.patterns.core.measuring.activity import DataArrival
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> visits = Activity(table="silver/visits", version=7, arrivals=(DataArrival(version=7, at=noon, rows=3),))
        >>> found = detect_interruption(visits, noon + timedelta(seconds=301), max_gap_seconds=300)
        >>> found.verdict, found.troubles[0].reason
        ('fail', 'silver/visits: no row for 5.02 min, since 2026-01-05 12:00:00 UTC')
    """
    unit = _require_limit(every_seconds=every_seconds, max_gap_seconds=max_gap_seconds)
    require_tolerance(tolerance_seconds)
    rows = past(arrivals_of_rows(activity), now, tolerance_seconds)
    if head_only:
        options = {"window_seconds": unit, "tolerance_seconds": tolerance_seconds}
        rows = arrivals_at_head(rows, now, **options, calendar=activity.calendar)
    last = max((min(each.at, now) for each in rows), default=None)
    begin = max(filter(None, [last, expected_since]), default=None)
    gap = active_seconds(begin, now, quiet) if begin else None
    if begin is None or gap is None:
        interrupted = False
    elif every_seconds:
        interrupted = _empty_seconds(begin, now, every_seconds, quiet, has_rows=begin == last) >= every_seconds
    else:
        interrupted = gap > max_gap_seconds
    verdict: Verdict = "fail" if interrupted else "ok" if last else "unknown"
    measured = Measurement(
        metric="gap",
        table=activity.table,
        at=now,
        verdict=verdict,
        value=gap,
        unit="s",
        target=every_seconds or None,
        at_most=max_gap_seconds or None,
        reason="" if verdict == "ok" else _reason(activity, gap, begin, written=last is not None),
        since=last,
    )
    return Measured(
        (measured, future_commits(activity, now, tolerance_seconds), future_events(activity, now, tolerance_seconds))
    )


@typed
def detect_silent_partitions(
    progress: Sequence[EndOffset],
    now: datetime,
    *,
    topic: str,
    max_gap_seconds: float,
    quiet: Sequence[QuietHours] = (),
) -> Measured:
    """Measure the time since each partition of a topic moved, and judge partitions that alone are silent.

    A gap ends with the last look at the topic: time in which nobody looked is no silence.

    Args:
        progress: end offsets as seen over time, in any order.
        now: the present.
        topic: name of the topic.
        max_gap_seconds: longest usual time without a record, in seconds.
        quiet: times that do not count towards a gap.

    Returns:
        ``gap`` of the topic in seconds, which fails if no partition moved for longer; ``gap`` of each partition, which
        warns if the partition stood for longer while others moved, and is unknown while none moves; ``restarted``, the
        number of partitions whose end offset fell: the topic was made again, and their gaps begin there.

    Raises:
        ConfigError: for a gap below a second.

    Example:
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> seen = [(0, "0", 7), (0, "1", 7), (10, "0", 8), (10, "1", 7)]
        >>> ends = [EndOffset(partition=p, offset=o, seen_at=noon + timedelta(minutes=m)) for m, p, o in seen]
        >>> found = detect_silent_partitions(ends, noon + timedelta(minutes=10), topic="visits", max_gap_seconds=300)
        >>> [(each.partition, each.reason) for each in found.troubles]
        [('1', 'visits, partition 1: no record for 10 min, while others move')]
    """
    _require_limit(max_gap_seconds=max_gap_seconds)
    judge = TopicJudge(topic, now, max_gap_seconds, quiet, standings(progress, now))
    return Measured((judge.of_topic(), *map(judge.of_partition, judge.partitions), judge.restarts()))


def _require_limit(**limits: float) -> float:
    """Return the one limit that is given, in seconds."""
    given = [value for value in limits.values() if value]
    if len(given) != 1 or given[0] < 1:
        stated = " and ".join(f"{value:g}" for value in limits.values())
        only = ", and the other one 0" if len(limits) > 1 else ""
        raise ConfigError(f"{' or '.join(limits)} must be 1 second or more{only}, not {stated}")
    return given[0]


def _empty_seconds(
    begin: datetime, now: datetime, every_seconds: float, quiet: Sequence[QuietHours], *, has_rows: bool
) -> float:
    """Add up the whole units without rows since ``begin``, in seconds without quiet time."""
    unit = timedelta(seconds=every_seconds)
    # The unit of an arrival has rows; one that begins when rows are first expected is whole.
    first = (begin - _EPOCH) // unit + 1 if has_rows else -((_EPOCH - begin) // unit)
    after = (now - _EPOCH) // unit
    return active_seconds(_EPOCH + first * unit, _EPOCH + after * unit, quiet) if first < after else 0.0


def _reason(activity: Activity, gap: float | None, begin: datetime | None, *, written: bool) -> str:
    """Return the sentence about a flow that is interrupted, or has not begun."""
    since = f"{begin:%Y-%m-%d %H:%M:%S %Z}" if begin else ""
    if written:
        return f"{activity.table}: no row for {duration(gap or 0)}, since {since}"
    never = "does not exist" if activity.version < 0 else "has no commit with rows in its log"
    expected = f"rows are expected since {since}" if since else "expected_since does not say when rows are late"
    return f"{activity.table} {never}, and {expected}"
