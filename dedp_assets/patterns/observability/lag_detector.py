"""Lag Detector: a consumer that falls behind is noticed, though every run succeeds.

Problem: the producer writes 30 % more than the consumer can read. Every run succeeds, and the data is an hour old, then
    two.
Solution: compare the producer's end with the position that the consumer committed, again and again, whether the
    consumer runs or not. The worst partition counts, beside a trend: a consumer that stands still, a lag that grows.
Consequences: a maximum far above the median is a sign of skewed keys, not of a slow consumer. Rows that were deleted
    unread and a producer that was created again are troubles of their own. Trends need samples over a while.
Choose instead: SLA Misses Detector, if what counts is the time by which data is promised; Flow Interruption Detector,
    if the producer may stop; Skew Detector, if partitions differ in size.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from dedp_assets.patterns.core.measuring.measurements import Measured
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.observability._lags.lag_parts import Limits, Thresholds, judge_partition
from dedp_assets.patterns.observability._lags.lag_samples import LagSample
from dedp_assets.patterns.observability._lags.lag_totals import measurements_of

__all__ = ["detect_lag", "LagSample"]


@typed
def detect_lag(
    samples: Sequence[LagSample],
    now: datetime,
    *,
    warn_above_rows: int | None = None,
    fail_above_rows: int | None = None,
    warn_above_seconds: float | None = None,
    fail_above_seconds: float | None = None,
    window_seconds: float = 3_600.0,
    stale_after_seconds: float = 900.0,
) -> Measured:
    """Measure the lag of consumers behind their producers, by partition and by the worst partition.

    A consumer that is caught up is ``ok``, however long ago it moved. With something to read, a consumer that does not
    move is a failure, and a lag that rises after every move of the consumer a warning, below all limits, too.

    Args:
        samples: positions of producers and consumers over a while, of any number of them, in any order.
        now: current time, with time zone.
        warn_above_rows: number of unread rows of a partition from which on, exclusively, a person is warned.
        fail_above_rows: number of unread rows that is a failure.
        warn_above_seconds: age of the first unread record above which a person is warned, in seconds.
        fail_above_seconds: age of the first unread record that is a failure, in seconds.
        window_seconds: how long a consumer may stand still with something to read, and the time in which a growth is
            looked for: more than the time between two of the consumer's runs.
        stale_after_seconds: age of the newest sample from which on it says nothing about now: more than the time
            between two samples.

    Returns:
        For each consumer (``table``) and each partition of what it reads (``partition``): ``lag`` in the unit of the
        positions, ``lag_rows`` and ``lag_partitions`` where they are known beside it, and ``lag_seconds``. For all
        partitions together: the maximum of each; ``lag_p95`` and ``lag_average``, which alert nobody; ``lost_rows``
        that were deleted before they were read (``lost_bytes`` where positions count bytes); and ``restarted``, the
        number of partitions whose producer was deleted and created again, or restored. A lag that nobody knows is
        ``unknown``: without a commit of the consumer, without a recent sample, or from a position in a former producer.

    Raises:
        ConfigError: for a limit below 0, a failure below its warning, or a time span that is not above 0.

    Example:
        >>> from datetime import timedelta, timezone
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> def seen(minute, produced, consumed):
        ...     at = noon + timedelta(minutes=minute)
        ...     return LagSample(consumer="visits", producer="topic", seen_at=at, produced=produced, consumed=consumed)
        >>> samples = [seen(minute, produced=130 * minute, consumed=100 * minute) for minute in range(1, 7)]
        >>> lag, seconds, *_ = detect_lag(samples, samples[-1].seen_at).measurements
        >>> lag.figure, lag.verdict, lag.reason
        ('180 rows', 'warn', 'topic: 180 rows behind; the lag has grown for 4 min while the consumer moves')
        >>> round(seconds.value)
        83
    """
    limits = Limits(
        rows=Thresholds("rows", warn_above_rows, fail_above_rows),
        seconds=Thresholds("seconds", warn_above_seconds, fail_above_seconds),
        window_seconds=window_seconds,
        stale_after_seconds=stale_after_seconds,
    )
    ordered = sorted(samples, key=lambda each: (each.key, each.seen_at))
    parts = [judge_partition(tuple(of), now, limits) for _, of in groupby(ordered, key=lambda each: each.key)]
    by_edge = groupby(parts, key=lambda part: (part.newest.consumer, part.newest.producer))
    return Measured(tuple(each for _, of in by_edge for each in measurements_of(list(of), now, limits)))
