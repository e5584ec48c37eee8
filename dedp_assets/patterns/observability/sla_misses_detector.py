"""SLA Misses Detector: partitions that are late or will be, while somebody can still act.

Problem: the report of 8:00 needs a table by 6:40. A run that hangs, or that nobody started, raises no error, and the
    first miss makes dozens of tables downstream late.
Solution: deadlines from the calendar of the partitions, not from runs. Two clocks for each partition: of the table's
    own run, and from the end of the data to delivery; they tell slow code from inputs that came too late.
Consequences: each deadline has to be declared, with zone, days of the week and holidays. Retries count from the first
    start. A backfill of old partitions is exempt.
Choose instead: Lag Detector, for a distance without a promised time; Flow Interruption Detector, for a table without
    partitions; Data SLA SLO, for the share of kept promises over weeks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.observability._domino import Troubles, reached_from
from dedp_assets.patterns.observability._timing.clocks import TimedRun, is_measured, measure_run, usual_seconds
from dedp_assets.patterns.observability._timing.deadlines import Due
from dedp_assets.patterns.observability._timing.latencies import BatchTimes, explained, judge_seconds

__all__ = ["detect_sla_misses", "measure_latency", "at_risk", "BatchTimes", "Due", "TimedRun"]

_SHOWN = 20
"""Greatest number of tables at risk that a reason lists by name; further tables are counted."""


@typed
def detect_sla_misses(
    runs: Sequence[TimedRun], now: datetime, *, due: Due, table: str, recent_hours: float = 24
) -> Measured:
    """Measure both clocks of each partition that is due, or was of late.

    A clock that still runs at its limit is a miss from that moment on, whether the run hangs, failed, or never began.

    Args:
        runs: the partitions whose data has ended, also those that nobody has started a run for. More delivered
            partitions than are judged do no harm: they tell how long a run usually takes.
        now: current time, with time zone.
        due: the promise.
        table: name of the table.
        recent_hours: how long a partition counts after it: one that was delivered longer ago is not measured again,
            and a backfill that began longer than this after the deadline is one of old partitions, without a deadline.

    Returns:
        Two measurements for each partition, in seconds. ``run_seconds`` goes from the first attempt's start to the
        commit, and is missing before a start; its limit is ``within_minutes``. ``pipeline_seconds`` goes from the end
        of the partition's data to the commit; its limit is the deadline. A pipeline that is late because its inputs
        were is explained by the upstream table: they left less time than ``within_minutes``, or than a run usually
        takes. A partition of unknown delivery is ``unknown``.

    Raises:
        ConfigError: for an empty name or a negative number of hours.

    Example:
        >>> from datetime import timedelta, timezone
        >>> end = datetime(2026, 1, 6, tzinfo=timezone.utc)
        >>> began, minute = end + timedelta(hours=6), timedelta(minutes=1)
        >>> run = TimedRun(partition="2026-01-05", ends_at=end, outcome="running", started_at=began)
        >>> due = Due("06:40", within_minutes=40)
        >>> detect_sla_misses([run], began + 39 * minute, due=due, table="gold/report").verdict
        'ok'
        >>> own, pipeline = detect_sla_misses([run], began + 41 * minute, due=due, table="gold/report").troubles
        >>> own.metric, own.figure, own.limit, own.reason
        ('run_seconds', '41 min', 'at most 40 min', 'no attempt has succeeded within 40 min of the first start')
        >>> pipeline.metric, pipeline.limit, pipeline.since == began + 40 * minute
        ('pipeline_seconds', 'at most 6.67 h', True)
    """
    if recent_hours < 0:
        raise ConfigError(f"recent_hours must be 0 or more, not {recent_hours:g}")
    return Measured(
        tuple(
            each
            for run in runs
            if is_measured(run, due, now, recent_hours)
            for each in measure_run(run, now, due, table=table, needed_seconds=usual_seconds(runs, run, due))
        )
    )


@typed
def measure_latency(
    batches: Sequence[BatchTimes],
    now: datetime,
    *,
    table: str,
    event_within_seconds: float,
    processing_within_seconds: float,
    producer: str = "upstream",
    judged: Literal["p95", "max"] = "p95",
) -> Measured:
    """Measure the latency of a stream's micro-batches: of the processing, and from event to write.

    Args:
        batches: the micro-batches to judge together, such as those of the newest run or of the last hour.
        now: current time, with time zone.
        table: name of the table, or of another sink.
        event_within_seconds: longest time from event to write.
        processing_within_seconds: longest time from the start of the processing to the write.
        producer: name of the topic or table whose rows the stream reads.
        judged: figure that the limits are for: the experience of 95 % of the micro-batches, or the slowest one. The
            other is measured without a limit.

    Returns:
        ``processing_latency_p95``, ``processing_latency_max``, ``event_latency_p95`` and ``event_latency_max``, in
        seconds; P95 is the nearest rank: one of the figures, not between two. Events that come late although the
        processing is in time are explained by the producer. Without a micro-batch nothing is known.

    Raises:
        ConfigError: for an empty name or a limit that is not above 0.

    Example:
        >>> from datetime import timedelta, timezone
        >>> noon, hours = datetime(2026, 1, 5, 12, tzinfo=timezone.utc), timedelta(hours=3)
        >>> old = BatchTimes(event_at=noon, started_at=noon + hours, written_at=noon + hours)
        >>> limits = {"event_within_seconds": 600, "processing_within_seconds": 60}
        >>> found = measure_latency([old], noon + hours, table="bronze/visits", producer="visits", **limits)
        >>> [(each.metric, each.figure, each.explained_by) for each in found.troubles]
        [('event_latency_p95', '3 h', 'visits')]
    """
    for name, limit in (("event", event_within_seconds), ("processing", processing_within_seconds)):
        if limit <= 0:
            raise ConfigError(f"{name}_within_seconds must be above 0, not {limit:g}")
    seconds = [each.processing_seconds for each in batches]
    own = judge_seconds("processing", seconds, now, table, limit=processing_within_seconds, judged=judged)
    events = [each.event_seconds for each in batches if each.event_seconds is not None]
    late = judge_seconds("event", events, now, table, limit=event_within_seconds, judged=judged)
    return own + (late if own.troubles else explained(late, producer))


@typed
def at_risk(misses: Measured, downstream: Mapping[str, Sequence[str]], *, deadlines: Sequence[str] = ()) -> Measured:
    """Explain the troubles of a round by root tables, and name the tables at risk.

    Only a root raises an alert.

    A trouble without a cause upstream stays one of the table's own. One that is explained by a table is explained by
    the root in the end: the next table towards the sources with a trouble of its own. Of causes in a circle, the table
    whose trouble began first is the root.

    Args:
        misses: measurements of several tables, as :func:`detect_sla_misses` returns them.
        downstream: table -> the tables that read it.
        deadlines: tables with a deadline, which a root names if they lie downstream; all tables if empty.

    Returns:
        The measurements in the same order. Each explained trouble names a table that has an unexplained one. A root
        without a trouble of its own, as nobody measures it or its own deadline is a later one, is added as a
        measurement ``readers_delayed``: the number of tables that it explains.

    Example:
        >>> from datetime import timezone
        >>> six = datetime(2026, 1, 6, 6, tzinfo=timezone.utc)
        >>> def late(table, cause=""):
        ...     return Measurement(metric="pipeline_seconds", table=table, at=six, verdict="fail", explained_by=cause)
        >>> found = at_risk(Measured((late("a"), late("b", "a"), late("c", "b"))), {"a": ["b"], "b": ["c"], "c": ["d"]})
        >>> [(each.table, each.explained_by, each.reason) for each in found.measurements]
        [('a', '', 'at risk: b, c, d'), ('b', 'a', ''), ('c', 'a', '')]
    """
    troubles = Troubles.of(misses, downstream)
    roots = {index: troubles.root_of(each) for index, each in enumerate(misses.measurements) if each.is_trouble}
    resolved = Measured(
        tuple(
            replace(each, explained_by=roots[index]) if index in roots else each
            for index, each in enumerate(misses.measurements)
        )
    )
    own = {each.table for each in resolved.troubles if not each.explained_by}
    delayed: dict[str, list[Measurement]] = {}
    for each in resolved.troubles:
        if each.explained_by not in own and each.explained_by:
            delayed.setdefault(each.explained_by, []).append(each)
    added = Measured(tuple(_root(table, found) for table, found in delayed.items()))
    return Measured(tuple(_naming(each, downstream, deadlines) for each in (resolved + added).measurements))


def _root(table: str, explained: Sequence[Measurement]) -> Measurement:
    """Make the measurement of a root table without an own trouble."""
    tables = sorted({each.table for each in explained})
    return Measurement(
        metric="readers_delayed",
        table=table,
        at=max(each.at for each in explained),
        verdict=Measured(tuple(explained)).verdict,
        value=float(len(tables)),
        unit="tables",
        reason=f"too late for {_listed(tables)}",
        since=min((each.since for each in explained if each.since), default=None),
    )


def _naming(trouble: Measurement, downstream: Mapping[str, Sequence[str]], deadlines: Sequence[str]) -> Measurement:
    """Add the tables at risk to the reason of a root."""
    if not trouble.is_trouble or trouble.explained_by:
        return trouble
    named = [each for each in reached_from(downstream, trouble.table) if not deadlines or each in deadlines]
    if not named:
        return trouble
    return replace(trouble, reason="; ".join(filter(None, [trouble.reason, f"at risk: {_listed(named)}"])))


def _listed(tables: Sequence[str]) -> str:
    more = f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else ""
    return ", ".join(tables[:_SHOWN]) + more
