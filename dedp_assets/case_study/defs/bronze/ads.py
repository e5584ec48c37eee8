"""Ads shown on pages, from a topic: the records of each run, appended with their offsets."""

import dagster as dg

from dedp_assets.case_study.defs.bronze.visits import ALLOWED_LATENESS_SECONDS
from dedp_assets.graph.declare import About, Figure, Inputs, Job, Polls, Reads, Request, Runs, Source, lake_table
from dedp_assets.graph.inputs.topics import ALL_OFFSETS, inputs_after, newest_by_input, result_of
from dedp_assets.graph.reconcile.topics import requested
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import RETENTION_DAYS, settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems import registry
from dedp_assets.graph.systems.kafka import Kafka, older
from dedp_assets.patterns import (
    Audit,
    Column,
    Split,
    TableSpec,
    Target,
    WriteResult,
    detect_late_data,
)
from dedp_assets.patterns.connectors.kafka.framed_values import SCHEMA_ID
from dedp_assets.patterns.connectors.kafka.topics import append_available, position, read_topic, resume
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.types.conversion import exact

ADS = TableSpec(
    "bronze/ads",
    {
        "raw": Column("STRING", "the record as it came", required=True),
        "raw_bytes": Column("BINARY", "its bytes, where they are not valid UTF-8"),
        "source_file": Column("STRING", "<topic>-<partition>", required=True),
        "line_number": Column("BIGINT", "offset + 1", required=True),
        "timeliness": Column("STRING", "on_time, late (below the watermark when it came) or undated", technical=True),
        "landed_on": Column("DATE", "day the broker received it", required=True),
        "event_date": Column("DATE", "UTC day it was shown; the landing day, if that is unreadable or not plausible"),
        SCHEMA_ID: Column("BIGINT", "id in the record's header; NULL without one", technical=True),
    },
    partition_by=("event_date",),
    comment="One row per record of the topic, malformed ones included.",
)
TOPIC = Source(
    "kafka/ads",
    "Ads as they are shown, one record each.",
    kinds=("kafka", "json"),
    owner="team:advertising",
    older=lambda at: older(settings().ads_topic, at),
)
_SHOWN_AT = exact("get_json_object(raw, '$.display_time')", "TIMESTAMP")
_PLAUSIBLE = (
    f"if({_SHOWN_AT} BETWEEN landed_on - INTERVAL {RETENTION_DAYS} DAYS AND landed_on + INTERVAL 2 DAYS, "
    f"{_SHOWN_AT}, NULL)"
)
_AT_ONCE = 500_000
AUDITS = (
    Audit(name="most_ads_are_on_time", of="late", where="timeliness = 'late'", per="written", warn_above=0.05),
    Audit(name="most_ads_are_dated", of="undated", where="timeliness = 'undated'", per="written", warn_above=0.01),
    ALL_OFFSETS,
)


def waiting(request: Request) -> Inputs:
    """Name the inputs of a run by the run's id: each run reads another range of offsets."""
    return Inputs({TOPIC.name: request.run_id})


JOB = Job(
    "stream_ads",
    description="Ads that wait in the topic, appended to bronze; ends when it has read what was there.",
)


def ads_streamed(context: dg.SensorEvaluationContext, lake: Lake, kafka_ads: Kafka) -> dg.SensorResult | dg.SkipReason:
    """Compare the topic's offsets with bronze's log; a topic that lost records fails the run."""
    return requested(context.instance, lake.ledger(ADS.name), kafka_ads, job=JOB.name)


@lake_table(
    ADS,
    reads=Reads(sources=[TOPIC], inputs=waiting),
    runs=Runs(
        when=Polls(
            ads_streamed,
            every_seconds=2 * settings().tick_seconds,
            description="Records of the ads topic that bronze has not read start a run that reads them.",
            running=bool(settings().kafka),
        ),
        job=JOB,
    ),
    gates=AUDITS,
    about=About(
        fresh_hours=26,
        figures={"offsets": Figure(kind="hidden"), "late": "late records", "undated": "undated records"},
        unchecked={
            "completeness": "runs take what the topic holds; offsets that are missing refuse the write",
            "volume": "the topic says how many records wait: the lag is judged in every round",
            "null_shares": "runs append to partitions of any day; silver/ads judges the records",
        },
    ),
    patterns=[detect_late_data],
)
def ads(into: Target, kafka_ads: Kafka, clock: Clock) -> WriteResult:
    """Append the topic's records after the offsets in the log; an approved run skips expired offsets."""
    topic = kafka_ads.describe()
    start = resume(position(into.table.ledger, topic), topic, give_up=into.run.approval is not None)
    if start.offsets == topic.end and not start.given_up:
        return result_of(into.table, [])
    inputs = inputs_after(into.table.ledger, allowed_lateness_seconds=ALLOWED_LATENESS_SECONDS)
    today = clock.now().date()
    records = read_topic(
        into.table.session,
        start,
        bootstrap=kafka_ads.bootstrap,
        today=today,
        at_once=_AT_ONCE,
        schemas=registry.client(settings()),
        proof=kafka_ads.proof(),
    )
    events = detect_late_data(records, event_time=_PLAUSIBLE, watermark=inputs.watermark)
    rows = events.rows.selectExpr(
        "raw",
        "raw_bytes",
        "source_file",
        "line_number",
        f"{OUTCOME} AS timeliness",
        "landed_on",
        "coalesce(to_date(event_time), landed_on) AS event_date",
        SCHEMA_ID,
        "event_time",
        f"if(raw IS NULL, 'tombstone', 'valid') AS {OUTCOME}",
    )
    commits = append_available(
        Split(rows, {"valid": tuple(ADS.columns), "tombstone": ()}, identity=("source_file", "line_number")),
        into.table,
        start,
        provenance=into.noting({"inputs": inputs.note}).run,
        audits=into.audits,
        measures=newest_by_input(start),
    )
    return result_of(into.table, commits)
