"""Skew Detector: volumes of partitions are held against usual volumes, and against each other.

Problem: a job succeeds on half of the records and the report shows a drop that never was, or the volume explodes and
    the cluster with it. One partition that holds most of the rows makes every job as slow as itself.
Solution: compare the volume of the newest complete partition with the median of valid earlier partitions, and the
    sizes of all partitions by their coefficient of variation. Both come from the table's log.
Consequences: a table needs earlier partitions, and six weeks for a season. A day that failed is no baseline, so a new
    level alarms until more days have it than had the old one (at most eight). Spikes are declared with their factor.
Choose instead: Flow Interruption Detector, if nothing arrives; Anomaly Detection, for single rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean, pstdev

from dedp_assets.patterns.core.audits import overrule, summary
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.measuring.activity import Activity
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.measuring.usual import Baseline, Expected
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.observability._timing.volumes import (
    Measure,
    expected_volume,
    is_filled,
    is_over,
    require_above_zero,
    unevenness,
    volumes,
    why,
)

__all__ = ["detect_skew", "detect_partition_skew", "require_usual_volume"]

_USUAL = Baseline()
_VOLUME = "volume_is_usual"


@typed
def detect_skew(
    activity: Activity,
    now: datetime,
    *,
    baseline: Baseline = _USUAL,
    measure: Measure = "rows",
    key: str = "",
    approved_is_usual: bool = False,
    complete_after_seconds: float | None = None,
) -> Measured:
    """Measure the volume of the newest complete partition against valid earlier partitions.

    A partition is never part of its own baseline. A partition whose volume was unusual at its time is no baseline
    either, nor one that is not complete.

    Args:
        activity: the table's activity.
        now: current time, with time zone.
        baseline: the earlier partitions that count, their season, the allowed distance, and planned and excluded
            partitions. An excluded partition is not judged.
        measure: ``rows``, or ``bytes`` of the files.
        key: key of the partition to judge instead of the newest complete one, such as one that was backfilled. Its
            baseline is its neighbours in time. A partition without files has a volume of 0.
        approved_is_usual: whether a partition that a person approved is baseline for later ones.
        complete_after_seconds: time from the beginning of a partition until its volume is complete; ``None`` for the
            length of the time that its key names, by the activity's calendar.

    Returns:
        One measurement, ``partition_rows`` or ``partition_bytes``: ``fail`` outside of the limits, ``unknown`` with
        too little history, without a complete partition and for a usual volume of 0.

    Raises:
        ConfigError: for a time that is not above 0, and a season of keys that name no time.

    Example:
        >>> from datetime import timezone
        >>> from dedp_assets.patterns.core.measuring.activity import PartitionSize
        >>> days = {"2026-01-05": 1000, "2026-01-06": 100, "2026-01-07": 490, "2026-01-08": 20}
        >>> sizes = {day: PartitionSize(rows=rows, size=9 * rows, files=1) for day, rows in days.items()}
        >>> activity = Activity(table="silver/visits", version=4, partitions=sizes)
        >>> measured = detect_skew(activity, datetime(2026, 1, 8, 12, tzinfo=timezone.utc))
        >>> measured.verdict, measured.measurements[0].reason
        ('fail', '2026-01-07 has 490 rows, usual are 1,000: outside of 500 to 1,500')
    """
    require_above_zero(complete_after_seconds)
    spans = {each: activity.calendar(each) for each in (*activity.partitions, key)}
    over = [each for each in activity.partitions if is_over(spans[each], now, complete_after_seconds)]
    judged = key or max(over, default="")
    size = activity.partitions.get(judged)
    value = 0 if size is None else size.rows if measure == "rows" else size.size
    complete = is_over(spans.get(judged), now, complete_after_seconds)
    reason = _not_judged(judged, value, baseline.excluded, is_over=complete)
    around = Expected()
    if not reason and value is not None:
        around = expected_volume(
            activity,
            now,
            judged,
            baseline=baseline,
            measure=measure,
            approved_is_usual=approved_is_usual,
            seconds=complete_after_seconds,
        )
        reason = why(judged, value, measure, around)
    found = Measurement(
        metric=f"partition_{measure}",
        table=activity.table,
        at=now,
        verdict="unknown" if value is None else around.verdict(value),
        partition=judged,
        value=float(value) if judged and value is not None else None,
        unit=measure,
        target=around.usual,
        at_least=around.low,
        at_most=around.high,
        reason=reason,
    )
    return Measured((found,))


@typed
def detect_partition_skew(
    activity: Activity,
    now: datetime,
    *,
    max_variation: float = 0.5,
    measure: Measure = "bytes",
    complete_after_seconds: float | None = None,
) -> Measured:
    """Measure how unevenly a table's partitions are filled: standard deviation / mean of their sizes.

    That is the coefficient of variation with the population's standard deviation: 0 for equal sizes, 0.82 for 1 GB and
    100 MB, 1.31 for 24 partitions of which one has ten times the others' size.

    Args:
        activity: the table's activity.
        now: current time, with time zone.
        max_variation: the greatest coefficient of variation that is allowed.
        measure: ``bytes`` of the files, or ``rows``.
        complete_after_seconds: time from the beginning of a partition until it is complete: from the time that its key
            names, by the activity's calendar, and of another key from its first commit. ``None`` for the length of that
            time, or a day. Partitions that are not complete are not judged.

    Returns:
        One measurement, ``partition_variation``, whose reason names the largest partition; ``unknown`` for fewer than
        two complete partitions, and for partitions without anything in them.

    Raises:
        ConfigError: for a variation below 0, or a time that is not above 0.
    """
    require_above_zero(complete_after_seconds)
    if max_variation < 0:
        raise ConfigError(f"max_variation must be 0 or more, not {max_variation:g}")
    filled = {
        key: size
        for key, size in activity.partitions.items()
        if is_filled(activity.calendar(key), size, now, complete_after_seconds)
    }
    sizes = volumes(filled, measure)
    mean = fmean(sizes.values()) if sizes else 0.0
    variation = pstdev(sizes.values()) / mean if len(sizes) > 1 and mean else None
    if variation is None:
        reason = f"{len(sizes)} complete partitions with {sum(sizes.values()):,} {measure}: nothing to compare"
    else:
        reason = unevenness(sizes, measure, variation, max_variation) if variation > max_variation else ""
    found = Measurement(
        metric="partition_variation",
        table=activity.table,
        at=now,
        verdict="unknown" if variation is None else "fail" if variation > max_variation else "ok",
        value=variation,
        at_most=max_variation,
        reason=reason,
    )
    return Measured((found,))


@typed
def require_usual_volume(
    activity: Activity,
    now: datetime,
    partition: str,
    *,
    volume: float,
    baseline: Baseline = _USUAL,
    measure: Measure = "rows",
    approved_is_usual: bool = False,
    approval: Approval | None = None,
) -> Finding:
    """Refuse a load of an unusual volume before anything is computed or written.

    Args:
        activity: activity of the table that the load goes to.
        now: current time, with time zone.
        partition: partition that is about to be written.
        volume: rows or bytes of the load, as counted at the source.
        baseline: as of :func:`detect_skew`. Of an excluded partition, any volume passes.
        measure: what ``volume`` counts.
        approved_is_usual: whether a partition that a person approved is baseline for later ones.
        approval: a person's decision for the run, which lets an unusual volume through.

    Returns:
        The finding, to be handed on among the facts of the rows read, so that the commit says who approved it. With
        too little history any volume passes, with a note.

    Raises:
        AuditFailed: for a volume outside of the limits that nobody approved.
        ConfigError: for a volume below 0, and a season of keys that name no time.
    """
    if volume < 0:
        raise ConfigError(f"volume must be 0 or more, not {volume:g}")
    around, note = Expected(), f"{partition} is excluded from judgement"
    if partition not in baseline.excluded:
        around = expected_volume(
            activity,
            now,
            partition,
            baseline=baseline,
            measure=measure,
            approved_is_usual=approved_is_usual,
        )
        note = why(partition, volume, measure, around)
    figures = {"volume": volume} if around.usual is None else {"volume": volume, "usual": around.usual}
    usual = around.verdict(volume) != "fail"
    findings = overrule([Finding(_VOLUME, usual, figures=figures, note=note, approvable=True)], approval)
    if refused := summary(findings):
        raise AuditFailed(f"{activity.table} {partition}: nothing was written. {refused}", findings=findings)
    return findings[0]


def _not_judged(partition: str, value: float | None, excluded: Sequence[str], *, is_over: bool) -> str:
    """Return the reason for which the volume of a partition cannot be judged; empty for one that can."""
    if not partition:
        return "no partition is complete: its key must name a time that is over"
    if not is_over:
        return f"{partition} is not complete, or names no time"
    if partition in excluded:
        return f"{partition} is excluded from judgement"
    return "" if value is not None else f"{partition} has a file without statistics of its rows"
