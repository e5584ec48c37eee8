"""Late Data Detector: events older than a watermark that never moves back are found, kept and counted.

Problem: clients that were offline deliver events long after the period they belong to was processed.
Solution: track event time, not arrival: the newest event time seen minus an allowed lateness is the watermark, and an
    event below the watermark that held before its batch is late. Late rows are split off, not dropped.
Consequences: with several partitions or sources, following the slowest keeps more rows on time and may stall; following
    the fastest calls slow sources late: watch the late share and the silent ones (`Progress`). An implausible clock
    must not move the watermark.
Choose instead: Dynamic Late Data Integrator, to bring the late rows into the partitions they belong to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import require_free
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, Split
from dedp_assets.patterns.core.sql.sql_options import naming_options, one_value, require_repeatable
from dedp_assets.patterns.core.types.instants import instant, timestamp
from dedp_assets.patterns.error_management._progress import Across, Progress, advanced

__all__ = ["detect_late_data", "advance_watermark", "judge_lateness", "Progress"]

_STATED = f"{RESERVED}stated"


@typed
def detect_late_data(
    events: DataFrame,
    *,
    event_time: str,
    watermark: datetime | None,
    earliest: datetime | None = None,
    latest: datetime | None = None,
    arrived: str = "",
) -> Split:
    """Split events into ``on_time``, ``late`` and ``undated``, each event in exactly one part; lazy.

    An event is late if its time lies strictly below ``watermark``: the one that held *before* this batch, which tells
    late by watermark, or the start of the partition that the batch is of, which tells late by partition.

    Args:
        events: one batch.
        event_time: SQL expression of type TIMESTAMP that says when the event happened; NULL if it cannot be read.
        watermark: what earlier batches advanced to, or the start of the batch's partition, with time zone; ``None``
            before the first batch: nothing is late.
        earliest: oldest plausible event time; what lies before it is ``undated``.
        latest: newest plausible event time; what lies after it is ``undated`` and does not move the watermark. ``None``
            takes a day after the event came in or, where ``arrived`` does not say when, after the engine's clock.
        arrived: SQL expression of type TIMESTAMP that says when the event came in, if that is known.

    Returns:
        All columns of ``events`` plus ``event_time`` (NULL if undated); late rows also carry ``watermark``,
        ``lateness_seconds`` (how far below it) and, where it is known, ``arrived_at``.

    Raises:
        ConfigError: if no event could lie between ``earliest`` and ``latest``, one of the times has no zone, Spark
            cannot evaluate an expression, or ``events`` has one of these columns.

    Example:
        >>> from datetime import timezone
        >>> visits = frame("id INT, at STRING", (1, "2026-01-05 11:59"), (2, "2026-01-05 12:00"), (3, "noon"))
        >>> noon = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        >>> split = detect_late_data(visits, event_time="try_to_timestamp(at)", watermark=noon)
        >>> {part: rows(split[part].select("id")) for part in split.parts}
        {'on_time': [(2,)], 'late': [(1,)], 'undated': [(3,)]}
    """
    for what, moment in (("watermark", watermark), ("earliest", earliest), ("latest", latest)):
        _ = moment is None or instant(moment, what)
    if earliest and latest and earliest > latest:
        raise ConfigError(f"no event lies between {earliest} and {latest}: earliest must not be after latest")
    late_columns = ("watermark", "lateness_seconds", *(["arrived_at"] if arrived else []))
    require_free(events, "event_time", *late_columns)
    arrival = "arrived_at, current_timestamp()" if arrived else "current_timestamp()"
    newest = timestamp(latest) if latest else f"coalesce({arrival}) + INTERVAL 1 DAY"
    oldest = f" AND {_STATED} >= {timestamp(earliest)}" if earliest else ""
    usable_time = f"if({_STATED} <= {newest}{oldest}, {_STATED}, NULL)"
    outcome = "CASE WHEN event_time IS NULL THEN 'undated' WHEN event_time < watermark THEN 'late' ELSE 'on_time' END"
    late_by = "greatest(unix_micros(watermark) - unix_micros(event_time), 0L) / 1e6"
    options = {"event_time": event_time, **({"arrived": arrived} if arrived else {})}
    require_repeatable(events, "option", options)
    with naming_options(events, "option", {name: f"unix_micros({one_value(sql)})" for name, sql in options.items()}):
        moments = {
            _STATED: F.expr(one_value(event_time)),
            **({"arrived_at": F.expr(one_value(arrived))} if arrived else {}),
        }
        judged = (
            events.withColumns(moments)
            .withColumns({"event_time": F.expr(usable_time), "watermark": F.expr(timestamp(watermark))})
            .drop(_STATED)
            .withColumns({OUTCOME: F.expr(outcome), "lateness_seconds": F.expr(late_by)})
        )
    plain = (*events.columns, "event_time")
    return Split(judged, {"on_time": plain, "late": (*plain, *late_columns), "undated": plain})


@typed
def advance_watermark(
    watermark: datetime | None,
    newest: Mapping[str, datetime | None] | Mapping[str, Mapping[str, datetime | None]],
    *,
    allowed_lateness_seconds: float,
    across: Across = "max",
    within: Across = "max",
    idle: Collection[str] = (),
) -> datetime | None:
    """Return the watermark after a batch; a watermark never moves back.

    Args:
        watermark: the present one, or ``None`` before the first batch.
        newest: newest plausible event time by partition, or by partition within source; always the MAX inside one
            partition. ``None`` for a partition that delivered nothing yet.
        allowed_lateness_seconds: tolerance, in seconds.
        across: follow the slowest (``min``) or the fastest (``max``) of the partitions or sources.
        within: the same among the partitions inside one source, if ``newest`` is nested.
        idle: partitions or sources that timed out; they no longer hold a ``min`` back.

    Raises:
        ConfigError: for a tolerance that is no number of seconds from 0 on, a time without a zone, or a policy that is
            not offered.

    Example:
        >>> from datetime import timezone
        >>> seen = {"p0": datetime(2026, 1, 5, 10, 6, tzinfo=timezone.utc)}
        >>> advance_watermark(None, seen, allowed_lateness_seconds=1800).strftime("%H:%M")
        '09:36'
    """
    return advanced(
        watermark,
        newest,
        allowed_lateness_seconds=allowed_lateness_seconds,
        across=across,
        within=within,
        idle=idle,
    )


@typed
def judge_lateness(
    late: Mapping[str, int], total: Mapping[str, int], *, warn_above: float = 0.1, fail_above: float = 0.5
) -> Finding:
    """Judge the share of late events of each source.

    Under a ``max`` policy a slow source silently turns late.

    Args:
        late: source -> late events of the batch.
        total: source -> all dated events of the batch.
        warn_above: share of late events above which any source is worth a warning.
        fail_above: share above which the batch fails.

    Raises:
        ConfigError: for a source with fewer events than late ones.
    """
    if wrong := sorted(source for source, count in late.items() if not 0 <= count <= total.get(source, 0)):
        raise ConfigError(f"late must be some of the events in total, not more or fewer, as of {', '.join(wrong)}")
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
