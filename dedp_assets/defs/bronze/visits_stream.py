"""Visit events from a topic, appended record by record to the table of the landed files."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import dagster as dg

from dedp_assets.defs.bronze.visits import (
    ALLOWED_LATENESS_SECONDS,
    EVENT_TIME,
    FIGURES,
    ON_TIME,
    VISITS,
    watermark_before,
)
from dedp_assets.graph.catalogue.rendering import check_result
from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare import Job, Polls, lake_job
from dedp_assets.graph.reconcile.requests import decide, is_running
from dedp_assets.graph.run.appending import appending
from dedp_assets.graph.run.history import newest_batches
from dedp_assets.graph.run.landings import measures_of_landing
from dedp_assets.patterns.connectors.topics import Position, append_available, position, read_topic, resume
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Plan, Split
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.error_management.late_data_detector import Progress, detect_late_data
from dedp_assets.resources.clock import Clock
from dedp_assets.resources.environments import RETENTION_DAYS, settings
from dedp_assets.resources.kafka import Kafka
from dedp_assets.resources.lake import Lake

_AT_ONCE = 500_000
_PLAUSIBLE = (
    f"if({EVENT_TIME} BETWEEN landed_on - INTERVAL {RETENTION_DAYS} DAYS AND landed_on + INTERVAL 2 DAYS, "
    f"{EVENT_TIME}, NULL)"
)
_AUDITS = (
    ON_TIME,
    Audit(name="every_offset_is_read_once", of="read", per="offsets", warn_below=1, fail_above=1),
)
STALLED_AFTER = timedelta(hours=6)
_NEWEST = "newest of "


def requested(
    instance: dg.DagsterInstance, ledger: Ledger, kafka: Kafka, *, job: str
) -> dg.SensorResult | dg.SkipReason:
    """Request a run of the job if the topic holds unread records."""
    table = ledger.name
    if is_running(instance, job):
        return dg.SkipReason(f"{job} is running")
    try:
        topic = kafka.describe()
        known = position(ledger, topic)
    except PatternError as error:
        return dg.SkipReason(str(error))
    if (known.topic_id, known.offsets) == (topic.id, topic.end):
        return dg.SkipReason(f"everything of topic {topic.name} was read: offsets {dict(topic.end)}")
    plan = Plan((table,), "the topic holds more", causes={table: "topic"}, cursor={table: known.cursor})
    decision = decide(instance, plan, asset=table, job_name=job)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason(decision.held[table])


JOB = Job(
    "stream_visits",
    description="Visits that wait in the topic, appended to bronze; ends when it has read what was there.",
)


def visits_streamed(context: dg.SensorEvaluationContext, lake: Lake, kafka: Kafka) -> dg.SensorResult | dg.SkipReason:
    """Compare the topic's offsets with bronze's log; a topic that lost records fails the run."""
    return requested(context.instance, lake.ledger(VISITS.name), kafka, job=JOB.name)


@lake_job(
    JOB,
    Polls(
        visits_streamed,
        every_seconds=2 * settings().tick_seconds,
        description="Records of the visits topic that bronze has not read start a run that reads them.",
        running=bool(settings().kafka),
    ),
    pool="bronze_visits",
)
def append_visits(context: dg.OpExecutionContext, lake: Lake, kafka: Kafka, clock: Clock) -> None:
    """Append the topic's records after the offsets in the log; an approved run skips expired offsets."""
    table, now = lake.table(VISITS), clock.now()
    with appending(context, table, code_version="1", column="landed_on", at=now, figures=FIGURES) as step:
        topic = kafka.describe()
        known = position(table.ledger, topic)
        step.cursor = known.cursor
        start = resume(known, topic, give_up=step.provenance.approval is not None)
        if start.offsets == topic.end and not start.given_up:
            context.log.info(f"everything of topic {topic.name} was read: {dict(topic.end)}")
            return
        inputs = inputs_after(table.ledger)
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
            "lateness_seconds",
            f"if(raw IS NULL, 'tombstone', 'valid') AS {OUTCOME}",
        )
        append_available(
            Split(rows, {"valid": tuple(VISITS.columns), "tombstone": ()}, identity=("source_file", "line_number")),
            table,
            start,
            provenance=replace(
                step.provenance,
                notes={"watermark": watermark.isoformat() if watermark else None, "inputs": inputs.note},
            ),
            audits=_AUDITS,
            measures={**measures_of_landing("timeliness"), **newest_by_input(start)},
        )


@dg.asset_check(
    asset=asset_key(VISITS),
    metadata={RUNS_ALONE: True},
    description=f"Warns of a partition of the topic that delivered no dated visit for {STALLED_AFTER}, and says "
    "how far each is behind the one that is farthest.",
)
def no_input_is_stalled(lake: Lake, kafka: Kafka, clock: Clock) -> dg.AssetCheckResult:
    """Judge the progress of the topic's partitions by bronze's log."""
    inputs = inputs_after(lake.ledger(VISITS.name)) if kafka.bootstrap else Progress()
    finding = inputs.judge(at=clock.now(), stalled_after_seconds=STALLED_AFTER.total_seconds())
    return check_result(VISITS.name, finding.name, {"": finding})


def inputs_after(ledger: Ledger) -> Progress:
    """Return event time and last delivery of each partition of the topic."""
    batches = newest_batches(ledger)
    progress = Progress.of_note(batches[0].notes.get("inputs")) if batches else Progress()
    for record in batches:
        found = {name.removeprefix(_NEWEST): text for name, text in record.figures.items() if name.startswith(_NEWEST)}
        progress = progress.advance(
            {name: datetime.fromisoformat(f"{text}+00:00") if text else None for name, text in found.items()},
            at=datetime.fromisoformat(record.at).replace(tzinfo=timezone.utc),
            allowed_lateness_seconds=ALLOWED_LATENESS_SECONDS,
        )
    return progress


def newest_by_input(start: Position) -> dict[str, str]:
    """Write the newest event time of each partition of the topic: figure -> SQL aggregate."""
    inputs = [f"{start.topic}-{partition}" for partition in start.offsets]
    newest = "date_format(max(if(source_file = {}, event_time, NULL)), 'yyyy-MM-dd HH:mm:ss')"
    return {f"{_NEWEST}{name}": newest.format(quoted(name)) for name in inputs}
