"""Visit events as they come by a topic: what is there now, record by record, into the table that files land in."""

from dataclasses import replace
from datetime import timedelta

import dagster as dg

from dedp_assets.defs.bronze.visits import EVENT_TIME, FIGURES, ON_TIME, VISITS, watermark_before
from dedp_assets.graph.appending import appending
from dedp_assets.graph.requests import decide, is_running
from dedp_assets.patterns.connectors.topics import append_available, position, read_topic, resume
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Plan, Split
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from resources.clock import Clock
from resources.environments import RETENTION_DAYS, settings
from resources.kafka import Kafka
from resources.lake import Lake

_AT_ONCE = 500_000
_PLAUSIBLE = (
    f"if({EVENT_TIME} BETWEEN landed_on - INTERVAL {RETENTION_DAYS} DAYS AND landed_on + INTERVAL 2 DAYS, "
    f"{EVENT_TIME}, NULL)"
)
_AUDITS = (
    ON_TIME,
    Audit(name="every_offset_is_read_once", of="read", per="offsets", warn_below=1, fail_above=1),
)


@dg.op(pool="bronze_visits")
def append_visits(context: dg.OpExecutionContext, lake: Lake, kafka: Kafka, clock: Clock) -> None:
    """Append what the topic holds beyond the offsets in bronze's log; an approved run goes on without what is gone."""
    table, now = lake.table(VISITS), clock.now()
    with appending(context, table, code_version="1", column="landed_on", at=now, figures=FIGURES) as step:
        topic = kafka.look()
        known = position(table.ledger, topic)
        step.cursor = known.cursor
        start = resume(known, topic, give_up=step.provenance.approval is not None)
        if start.offsets == topic.end and not start.given_up:
            context.log.info(f"everything of topic {topic.name} was read: {dict(topic.end)}")
            return
        watermark = watermark_before(table.ledger, (now.date() + timedelta(days=1)).isoformat())
        records = read_topic(table.session, start, bootstrap=kafka.bootstrap, today=now.date(), at_once=_AT_ONCE)
        events = detect_late_data(records, event_time=_PLAUSIBLE, watermark=watermark)
        rows = events.rows.selectExpr(
            "raw",
            "raw_bytes",
            "source_file",
            "line_number",
            f"{OUTCOME} AS timeliness",
            "landed_on",
            "to_date(event_time) AS event_date",
            "event_time",
            f"if(raw IS NULL, 'tombstone', 'valid') AS {OUTCOME}",
        )
        append_available(
            Split(rows, {"valid": tuple(VISITS.columns), "tombstone": ()}, identity=("source_file", "line_number")),
            table,
            start,
            provenance=replace(step.provenance, notes={"watermark": watermark.isoformat() if watermark else None}),
            audits=_AUDITS,
            measures={"newest": "unix_seconds(max(event_time))"},
        )


@dg.job(description="Visits that wait in the topic, appended to bronze; ends when it has read what was there.")
def stream_visits() -> None:
    """One bounded step."""
    append_visits()


@dg.sensor(
    job=stream_visits,
    minimum_interval_seconds=2 * settings().tick_seconds,
    default_status=dg.DefaultSensorStatus.RUNNING if settings().kafka else dg.DefaultSensorStatus.STOPPED,
    description="Records of the visits topic that bronze has not read start a run that reads them.",
)
def visits_streamed(context: dg.SensorEvaluationContext, lake: Lake, kafka: Kafka) -> dg.SensorResult | dg.SkipReason:
    """Compare the topic's offsets with those in bronze's log; the run refuses a topic that lost records."""
    job, table = stream_visits.name, VISITS.name
    if is_running(context.instance, job):
        return dg.SkipReason(f"{job} is running")
    try:
        topic = kafka.look()
        known = position(lake.ledger(table), topic)
    except PatternError as error:
        return dg.SkipReason(str(error))
    if (known.topic_id, known.offsets) == (topic.id, topic.end):
        return dg.SkipReason(f"everything of topic {topic.name} was read: offsets {dict(topic.end)}")
    plan = Plan((table,), "the topic holds more", causes={table: "topic"}, cursor={table: known.cursor})
    decision = decide(context.instance, plan, asset=table, job_name=job)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason(decision.held[table])
