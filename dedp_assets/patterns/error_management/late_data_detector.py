"""Late Data Detector: events older than a watermark that never moves back are found, kept and counted.

Problem: clients that were offline deliver events long after the period they belong to was processed.
Solution: track event time, not arrival: the newest event time seen minus an allowed lateness is the watermark, and an
    event below the watermark that held before its batch is late. Late rows are split off, not dropped.
Consequences: with several partitions or sources, following the slowest keeps more rows on time and may stall; following
    the fastest calls slow sources late: watch the late share. An implausible clock must not move the watermark.
Choose instead: Dynamic Late Data Integrator, to bring the late rows into the partitions they belong to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED
from dedp_assets.patterns.core.results import Finding, Split
from dedp_assets.patterns.core.rows import require_free

__all__ = ["detect_late_data", "advance_watermark", "judge_lateness"]

Across = Literal["min", "max"]
_STATED = f"{RESERVED}stated"
_POLICY = {"min": min, "max": max}


def detect_late_data(
    events: DataFrame,
    *,
    event_time: str,
    watermark: datetime | None,
    earliest: datetime | None = None,
    latest: datetime | None = None,
) -> Split:
    """Split events into ``on_time``, ``late`` and ``undated``; lazy, and every event is in exactly one part.

    An event is late if its time lies strictly below ``watermark``, the one that held *before* this batch.

    Args:
        events: one batch.
        event_time: SQL expression of type TIMESTAMP that says when the event happened; NULL if it cannot be read.
        watermark: what earlier batches advanced to, with time zone; ``None`` before the first batch: nothing is late.
        earliest: oldest plausible event time; what lies before it is ``undated``.
        latest: newest plausible event time; what lies after it is ``undated`` and does not move the watermark.

    Returns:
        All columns of ``events`` plus ``event_time`` (NULL if undated); late rows also carry ``watermark`` and
        ``lateness_seconds``.

    Raises:
        ConfigError: if no event could lie between ``earliest`` and ``latest``, or ``events`` has one of these columns.

    Example:
        >>> from datetime import timezone
        >>> visits = frame("id INT, at STRING", (1, "2026-01-05 11:59"), (2, "2026-01-05 12:00"), (3, "noon"))
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> split = detect_late_data(visits, event_time="try_to_timestamp(at)", watermark=noon)
        >>> {part: rows(split[part].select("id")) for part in split.parts}
        {'on_time': [(2,)], 'late': [(1,)], 'undated': [(3,)]}
    """
    if earliest and latest and earliest > latest:
        raise ConfigError(f"no event lies between {earliest} and {latest}: earliest must not be after latest")
    require_free(events, "event_time", "watermark", "lateness_seconds")
    bound = F.lit(watermark).cast("timestamp")
    plausible = [f"{_STATED} >= {_literal(earliest)}"] if earliest else []
    plausible += [f"{_STATED} <= {_literal(latest)}"] if latest else []
    when = f"if({' AND '.join(plausible)}, {_STATED}, NULL)" if plausible else f"{_STATED}"
    outcome = "CASE WHEN event_time IS NULL THEN 'undated' WHEN event_time < watermark THEN 'late' ELSE 'on_time' END"
    late_by = "greatest(unix_micros(watermark) - unix_micros(event_time), 0L) / 1e6"
    judged = (
        events.withColumn(_STATED, F.expr(event_time))
        .withColumns({"event_time": F.expr(when), "watermark": bound})
        .drop(_STATED)
        .withColumns({OUTCOME: F.expr(outcome), "lateness_seconds": F.expr(late_by)})
    )
    plain = (*events.columns, "event_time")
    return Split(judged, {"on_time": plain, "late": (*plain, "watermark", "lateness_seconds"), "undated": plain})


def advance_watermark(
    watermark: datetime | None,
    newest: Mapping[str, datetime | None] | Mapping[str, Mapping[str, datetime | None]],
    *,
    allowed_lateness_seconds: float,
    across: Across = "max",
    within: Across = "max",
    idle: Collection[str] = (),
) -> datetime | None:
    """Advance the watermark after a batch; it never moves back.

    Args:
        watermark: the present one, or ``None`` before the first batch.
        newest: newest plausible event time by partition, or by partition within source; always the MAX inside one
            partition. ``None`` for a partition that delivered nothing yet.
        allowed_lateness_seconds: tolerance, in seconds.
        across: follow the slowest (``min``) or the fastest (``max``) of the partitions or sources.
        within: the same among the partitions inside one source, if ``newest`` is nested.
        idle: partitions or sources that timed out; they no longer hold a ``min`` back.

    Raises:
        ConfigError: for a negative tolerance or a policy that is not offered.

    Example:
        >>> from datetime import timezone
        >>> seen = {"p0": datetime(2026, 1, 5, 10, 6, tzinfo=timezone.utc)}
        >>> advance_watermark(None, seen, allowed_lateness_seconds=1800).strftime("%H:%M")
        '09:36'
    """
    if allowed_lateness_seconds < 0 or across not in _POLICY or within not in _POLICY:
        raise ConfigError(
            f"allowed_lateness_seconds={allowed_lateness_seconds} must not be negative, across={across!r} and "
            f"within={within!r} must be min or max"
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
    candidate = progress - timedelta(seconds=allowed_lateness_seconds)
    return candidate if watermark is None else max(watermark, candidate)


def judge_lateness(
    late: Mapping[str, int], total: Mapping[str, int], *, warn_above: float = 0.1, fail_above: float = 0.5
) -> Finding:
    """Judge the share of late events of each source: under a ``max`` policy a slow source silently turns late.

    Args:
        late: source -> late events of the batch.
        total: source -> all dated events of the batch.
        warn_above: share of late events above which any source is worth a warning.
        fail_above: share above which the batch fails.
    """
    shares = {source: late.get(source, 0) / count for source, count in total.items() if count}
    worst = max(shares.values(), default=0.0)
    slow = ", ".join(sorted(source for source, share in shares.items() if share > warn_above))
    return Finding(
        "sources_are_on_time",
        passed=worst <= warn_above,
        severity="fail" if worst > fail_above else "warn",
        figures={f"late share of {source}": round(share, 4) for source, share in shares.items()},
        note=f"behind the watermark: {slow}" if slow else "",
        approvable=True,
    )


def _follow(times: Collection[datetime | None], policy: Across) -> datetime | None:
    known = [time for time in times if time is not None]
    if not known or (policy == "min" and len(known) < len(times)):
        return None
    return _POLICY[policy](known)


def _literal(moment: datetime) -> str:
    return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
