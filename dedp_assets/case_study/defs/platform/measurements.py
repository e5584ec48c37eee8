"""Measurements of all detectors by day, with service levels, freshness and known lineage as of the day's end."""

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date, datetime, time, timedelta, timezone

import dagster as dg

import dedp_assets.case_study.defs as case_study
from dedp_assets.case_study.defs.gold.daily_visitors import DAILY_VISITORS
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.checks.lineage import judge_lineage
from dedp_assets.graph.declare import (
    About,
    Every,
    Gates,
    Inputs,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    Touches,
    declared,
    declared_jobs,
    lake_table,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.mail.lineage_outbox import LineageOutbox
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.journal import Journal
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, audit_write_audit_publish, plan_windows
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.delta import ActivityLog, LocalStore
from dedp_assets.patterns.observability.data_sla_slo import Objective, measure_objective
from dedp_assets.patterns.observability.freshness_check import check_freshness

SOURCE = Source(
    "journal/measurements",
    "What the detectors measure in every round: a file of JSON lines per UTC day.",
    kinds=("file", "json"),
    owner="team:platform",
)
MEASUREMENTS = TableSpec(
    "platform/measurements",
    {
        "day": Column("DATE", "UTC day of the measurement", required=True),
        "measured_at": Column("TIMESTAMP", "when it was measured, UTC", required=True),
        "metric": Column("STRING", "name of the figure, such as gap or partition_rows", required=True),
        "dataset": Column("STRING", "table, topic or job that was measured", required=True),
        "partition_key": Column("STRING", "partition that was measured; NULL for the whole dataset"),
        "value": Column("DOUBLE", "the figure; NULL if nothing could be measured"),
        "unit": Column("STRING", "unit of figure, target and limits; NULL for a ratio"),
        "target": Column("DOUBLE", "usual or promised value"),
        "at_least": Column("DOUBLE", "lower limit"),
        "at_most": Column("DOUBLE", "upper limit"),
        "verdict": Column("STRING", "ok, warn, fail, or unknown for a figure that cannot be judged", required=True),
        "reason": Column("STRING", "one sentence for people; NULL for a figure within its limits"),
        "explained_by": Column("STRING", "upstream table whose trouble explains this one"),
    },
    partition_by=("day",),
    checks={"known_verdict": "verdict IN ('ok', 'warn', 'fail', 'unknown')"},
    comment="One row per measurement: those of the detectors' rounds, and of the service levels at the day's end.",
)
OBJECTIVES = (
    # A month has 30 daily partitions: a promise of 99 % would have no room for a single late one.
    Objective(
        name="visitors_due",
        metric="pipeline_seconds",
        table=DAILY_VISITORS.name,
        target=8 * 3600,
        alert=12 * 3600,
        good_share=0.9,
        figure="newest",
    ),
    # The reconciler looks every half minute and a day takes a minute: what waits longer waits for somebody.
    Objective(
        name="visits_lag", metric="lag_seconds", table=VISITS.name, target=15 * 60, alert=60 * 60, good_share=0.95
    ),
)
"""Service level objectives of the graph, over the measurements of the last 30 days."""
# The newest event of a day that is delivered in the evening or at night is a day old when the next one comes.
FRESH_MINUTES, STALE_MINUTES = 30 * 60, 54 * 60
REPORTS = {
    "objectives_are_met": "Warns if a service level is below its promise, or its error budget is nearly used up.",
    "visits_are_fresh": f"Warns if the newest visit is older than {FRESH_MINUTES // 60} hours at the day's end.",
    "lineage_is_known": "Warns if runs of the day moved data in ways that no declaration knows.",
}
_CATCH_UP_DAYS = 7
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Day:
    """The journal as of the end of a day, or as of the run, if that comes first."""

    at: datetime
    measurements: Sequence[Measurement]
    history: Sequence[Measurement]


FIGURES = {
    "age": f"age of {VISITS.name} [s]",
    "lineage_completeness": "share of known lineage",
    **{f"{each.name}_budget_left": f"error budget left: {each.name}" for each in OBJECTIVES},
    **{f"{each.name}_good_share": f"share of good measurements: {each.name}" for each in OBJECTIVES},
}


def noted(request: Request, journal: Journal) -> Inputs:
    """Read the measurements of a day, and of the objectives' windows, from the journal."""
    day = date.fromisoformat(request.key)
    at = min(request.at, datetime.combine(day + _DAY, time(), timezone.utc))
    first = day - max(OBJECTIVES, key=lambda each: each.window_days).window_days * _DAY
    history = [each for each in journal.since(first) if each.at <= at]
    found = journal.of_day(day)
    content = hashlib.sha256(repr([astuple(each) for each in found]).encode()).hexdigest()
    return Inputs({f"{SOURCE.name}/{request.key}": content}, found=_Day(at, found, history))


def measurements_every_day(context: dg.ScheduleEvaluationContext, lake: Lake) -> list[dg.RunRequest]:
    """Request the days of the last week that the table lacks, and the day before each."""
    now = context.scheduled_execution_time.astimezone(timezone.utc)
    today = datetime.combine(now.date(), time(), timezone.utc)
    plan = plan_windows(
        lake.ledger(MEASUREMENTS.name),
        column="day",
        origin=today - _CATCH_UP_DAYS * _DAY,
        length=int(_DAY.total_seconds()),
        until=today,
        lookback=1,
    )
    key = f"{MEASUREMENTS.name}:{{}}@{today.date().isoformat()}"
    return [dg.RunRequest(run_key=key.format(day), partition_key=day) for day in plan.partitions]


@lake_table(
    MEASUREMENTS,
    reads=Reads(sources=[SOURCE], inputs=noted, touches=Touches(reads=[VISITS])),
    runs=Runs(
        DAILY,
        Every(
            "10 0 * * *",
            ask=measurements_every_day,
            description="At 00:10 UTC, the days of the last week whose measurements are not in the table.",
        ),
        job="load_measurements",
    ),
    gates=Gates(
        if_empty="Warns of a day without a measurement: no detector ran, so nothing of it was observed.",
        reports=REPORTS,
    ),
    about=About(
        owner="team:platform",
        used_by="whoever agrees on service levels, or asks since when a figure is as it is",
        figures=FIGURES,
        unchecked={
            "freshness": "a detector that does not run is told by the page and by the empty day",
            "completeness": "its schedule asks for the days of its lookback that are missing",
        },
    ),
    patterns=[audit_write_audit_publish, measure_objective, check_freshness, plan_windows],
)
def measurements(step: Step, into: Target, lake: Lake) -> WriteResult:
    """Store a day's measurements with the service levels computed from the journal."""
    day: _Day = step.inputs.found
    judged = dict(zip(REPORTS, (_service_levels(day), _freshness(lake, day), _known_lineage(lake, day)), strict=True))
    levels = [each for measured in judged.values() for each in measured.measurements]
    rows = [_row(each) for each in (*day.measurements, *levels)] if day.measurements else []
    columns = ", ".join(f"{name} {column.type}" for name, column in MEASUREMENTS.columns.items() if name != "day")
    stored = into.table.session.createDataFrame(rows, columns).selectExpr(f"DATE '{step.key}' AS day", "*")
    findings = [replace(measured.finding(name), severity="warn") for name, measured in judged.items()]
    written = audit_write_audit_publish(stored, into.reading(findings=findings), allow_empty=True)
    counts = {
        "measurements": len(day.measurements),
        "troubles": sum(each.is_trouble for each in day.measurements),
        "unknown": sum(each.verdict == "unknown" for each in day.measurements),
    }
    return replace(written, figures=counts | {each.metric: each.value for each in levels})


def _service_levels(day: _Day) -> Measured:
    """Measure each objective by the journal."""
    found = Measured()
    for objective in OBJECTIVES:
        found += measure_objective(day.history, day.at, objective=objective)
    return found


def _freshness(lake: Lake, day: _Day) -> Measured:
    """Measure the age of the newest visit as of the end of the day."""
    activity = ActivityLog(VISITS.event_time, VISITS.partition_by[:1]).poll(lake.ledger(VISITS.name))
    return check_freshness(activity.as_of(day.at), day.at, warn_minutes=FRESH_MINUTES, fail_minutes=STALE_MINUTES)


def _known_lineage(lake: Lake, day: _Day) -> Measured:
    """Measure the share of flows that are declared, by the runs of the day."""
    begin = day.at - timedelta(microseconds=1)
    outbox = LineageOutbox(LocalStore(lake.lineage))
    runs = [
        each for each in outbox.runs(since=begin.date(), namespace=settings().lineage_namespace) if each.at <= day.at
    ]
    return judge_lineage(declared(case_study), declared_jobs(case_study), runs, day.at)[1]


def _row(measured: Measurement) -> tuple[object, ...]:
    """Return a measurement as a row, without the day."""
    value, target, low, high = (
        each if each is None else float(each)
        for each in (measured.value, measured.target, measured.at_least, measured.at_most)
    )
    return (
        measured.at,
        measured.metric,
        measured.table,
        measured.partition or None,
        value,
        measured.unit or None,
        target,
        low,
        high,
        measured.verdict,
        measured.reason or None,
        measured.explained_by or None,
    )
