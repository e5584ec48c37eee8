"""Visit events as landed, line by line."""

from datetime import datetime, time, timedelta, timezone

from dedp_assets.graph.declare import (
    About,
    Baseline,
    Expects,
    Figure,
    Gates,
    Inputs,
    Job,
    OnDelivery,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    lake_table,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.inputs.history import watermark_of_landings
from dedp_assets.graph.inputs.landings import LANDING_FIGURES, measures_of_landing
from dedp_assets.graph.resources.environments import RETENTION_DAYS, settings
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.systems.kafka import older
from dedp_assets.patterns import (
    Audit,
    Column,
    Ledger,
    Table,
    TableSpec,
    Target,
    WriteResult,
    detect_late_data,
    overwrite_partition,
    plan_ready,
    tally,
)
from dedp_assets.patterns.connectors.kafka.framed_values import SCHEMA_ID
from dedp_assets.patterns.connectors.landing.lines import read_lines
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.types.conversion import exact

VISITS = TableSpec(
    "bronze/visits",
    {
        "raw": Column(
            "STRING",
            "the line as it landed",
            required=True,
            classification="personal",
            subject="user",
            subject_by="get_json_object(raw, '$.user_id')",
        ),
        "raw_bytes": Column("BINARY", "its bytes, where they are not valid UTF-8", classification="personal"),
        "source_file": Column("STRING", "file it came in, or <topic>-<partition>", required=True),
        "line_number": Column("BIGINT", "line in that file, from 1; in a topic its offset + 1", required=True),
        "timeliness": Column("STRING", "on_time, late (below the watermark when it landed) or undated", technical=True),
        "landed_on": Column("DATE", "day it was delivered", required=True),
        "event_date": Column("DATE", "UTC day it happened; NULL if that is unreadable or not plausible"),
        SCHEMA_ID: Column("BIGINT", "id in the header of a record of the topic; NULL without one", technical=True),
    },
    partition_by=("landed_on", "event_date"),
    one_channel_per="landed_on",
    event_time="event_date",
    comment="One row per landed line, malformed ones included.",
)
FILES = Source(
    "landing/visits",
    "Files of visit events, a folder a day; the collectors put `_SUCCESS` there when a day is complete.",
    kinds=("file", "json"),
    owner="team:web-analytics",
)
TOPIC = Source(
    "kafka/visits",
    "Visit events as they happen, one record each; a day takes files or the topic, never both.",
    kinds=("kafka", "json"),
    owner="team:web-analytics",
    older=lambda at: older(settings().kafka_topic, at),
)
EVENT_TIME = exact("get_json_object(raw, '$.event_time')", "TIMESTAMP")
ALLOWED_LATENESS_SECONDS = 15 * 60
ON_TIME = Audit(name="most_visits_are_on_time", of="late", where="timeliness = 'late'", per="written", warn_above=0.05)
AUDITS = (
    ON_TIME,
    Audit(
        name="lines_keep_their_numbers", of="numbers", sql="sum(line_number)", per="lines", fail_below=1, fail_above=1
    ),
)
FOLLOWS_A_TOPIC = {
    "freshness": "as fresh as the topic is busy, whose lag is judged in every round",
    "completeness": "runs follow the versions of bronze, one after the other",
}
"""Reasons of a table that takes the landed visits as they come."""
FIGURES = {**LANDING_FIGURES, "offsets": Figure(kind="hidden")}

# A site's weekends differ from its working days, and its days by half and more. Less than a third of a usual day is a
# torn delivery, more than four times as much is no news any more but a delivery that came several times. From the
# seventh week on, Mondays are held against Mondays.
VOLUME = Baseline(season="weekday", minimum_history=3, tolerance=0.7, tolerance_above=3)
JOB = Job(
    "daily_visits",
    "A day's delivery, and what follows from it. One key means two things here: in bronze the day on which records "
    "LANDED, in silver and gold the day on which they HAPPENED. So the run of a day brings in what landed on it and "
    "computes that same event date; records that landed with it and happened on other days are late, and the "
    "reconciler asks for those dates.",
    'key:"bronze/visits" or key:"silver/visits" or key:"silver/visits_dead_letter" or key:"gold/daily_page_views" '
    'or key:"gold/daily_visitors"',
)


def watermark_before(ledger: Ledger, day: str) -> datetime | None:
    """Return the watermark before the landing of ``day``."""
    lateness = ALLOWED_LATENESS_SECONDS
    return watermark_of_landings(ledger, day, column="landed_on", allowed_lateness_seconds=lateness)


def delivered(request: Request, table: Table, landing: Landing) -> Inputs:
    """Find the delivery of a day, and the watermark before the delivery."""
    delivery = landing.delivery("visits", request.key).require_ready()
    content = landing.content("visits", delivery)
    watermark = watermark_before(table.ledger, request.key)
    notes = {"delivery": delivery.identity, "watermark": watermark.isoformat() if watermark else None}
    return Inputs({f"landing/visits/{request.key}": content}, notes=notes, found=delivery)


@lake_table(
    VISITS,
    reads=Reads(sources=[FILES, TOPIC], inputs=delivered),
    runs=Runs(DAILY, OnDelivery("visits"), job=JOB),
    gates=Gates(AUDITS, if_empty="A delivery without a line is refused, unless its marker says that it has no files."),
    about=About(fresh_hours=26, figures=FIGURES, expects=Expects(volume=VOLUME)),
    patterns=[overwrite_partition, plan_ready, detect_late_data],
)
def visits(step: Step, into: Target, landing: Landing) -> WriteResult:
    """Load one day's delivery, complete with a marker, in place of the day's former rows."""
    delivery, watermark = step.inputs.found, step.inputs.notes["watermark"]
    lines = read_lines(into.table.session, landing.paths("visits", delivery))
    midnight = datetime.combine(datetime.fromisoformat(step.key), time(), timezone.utc)
    events = detect_late_data(
        lines.rows,
        event_time=EVENT_TIME,
        watermark=datetime.fromisoformat(watermark) if watermark else None,
        earliest=midnight - timedelta(days=RETENTION_DAYS),
        latest=midnight + timedelta(days=2),
    )
    rows, seen = tally(events.rows, identity=["source_file", "line_number"], measures=measures_of_landing(OUTCOME))
    return overwrite_partition(
        rows.selectExpr(
            "raw",
            "raw_bytes",
            "source_file",
            "line_number",
            f"{OUTCOME} AS timeliness",
            f"DATE '{step.key}' AS landed_on",
            "to_date(event_time) AS event_date",
            f"CAST(NULL AS BIGINT) AS {SCHEMA_ID}",
        ),
        into.noting({"files": dict(lines.count)}).reading(seen, figures={"lines": lines.checksum}),
        allow_empty=not delivery.files,
    )
