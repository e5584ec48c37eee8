"""Visit events from a topic, appended record by record to the table of the landed files."""

from dataclasses import replace
from datetime import timedelta

import dagster as dg

from dedp_assets.case_study.defs.bronze.visits import (
    ALLOWED_LATENESS_SECONDS,
    EVENT_TIME,
    FIGURES,
    ON_TIME,
    TOPIC,
    VISITS,
    watermark_before,
)
from dedp_assets.graph.catalogue.rendering import check_result
from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare import Job, Polls, lake_job
from dedp_assets.graph.inputs.landings import measures_of_landing
from dedp_assets.graph.inputs.topics import ALL_OFFSETS, inputs_after, newest_by_input
from dedp_assets.graph.reconcile.topics import requested
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import RETENTION_DAYS, settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.appending import appending
from dedp_assets.graph.systems import registry
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.patterns import Progress, Split, detect_late_data
from dedp_assets.patterns.connectors.kafka.framed_values import SCHEMA_ID
from dedp_assets.patterns.connectors.kafka.topics import append_available, position, read_topic, resume
from dedp_assets.patterns.core.names import OUTCOME

_AT_ONCE = 500_000
_PLAUSIBLE = (
    f"if({EVENT_TIME} BETWEEN landed_on - INTERVAL {RETENTION_DAYS} DAYS AND landed_on + INTERVAL 2 DAYS, "
    f"{EVENT_TIME}, NULL)"
)
_AUDITS = (ON_TIME, ALL_OFFSETS)
STALLED_AFTER = timedelta(hours=6)


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
    reads=[TOPIC],
    writes=[VISITS],
)
def append_visits(context: dg.OpExecutionContext, lake: Lake, kafka: Kafka, clock: Clock) -> None:
    """Append the topic's records after the offsets in the log; an approved run skips expired offsets."""
    table, now = lake.table(VISITS), clock.now()
    with appending(
        context, table, code_version="1", column="landed_on", at=now, figures=FIGURES, sources=[TOPIC]
    ) as step:
        topic = kafka.describe()
        known = position(table.ledger, topic)
        step.cursor = known.cursor
        start = resume(known, topic, give_up=step.provenance.approval is not None)
        if start.offsets == topic.end and not start.given_up:
            context.log.info(f"everything of topic {topic.name} was read: {dict(topic.end)}")
            return
        inputs = inputs_after(table.ledger, allowed_lateness_seconds=ALLOWED_LATENESS_SECONDS)
        watermark = watermark_before(table.ledger, (now.date() + timedelta(days=1)).isoformat())
        records = read_topic(
            table.session,
            start,
            bootstrap=kafka.bootstrap,
            today=now.date(),
            at_once=_AT_ONCE,
            schemas=registry.client(settings()),
            proof=kafka.proof(),
        )
        events = detect_late_data(records, event_time=_PLAUSIBLE, watermark=watermark)
        rows = events.rows.selectExpr(
            "raw",
            "raw_bytes",
            "source_file",
            "line_number",
            f"{OUTCOME} AS timeliness",
            "landed_on",
            "to_date(event_time) AS event_date",
            SCHEMA_ID,
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
    inputs = Progress()
    if kafka.bootstrap:
        inputs = inputs_after(lake.ledger(VISITS.name), allowed_lateness_seconds=ALLOWED_LATENESS_SECONDS)
    finding = inputs.judge(at=clock.now(), stalled_after_seconds=STALLED_AFTER.total_seconds())
    return check_result(VISITS.name, finding.name, {"": finding})
