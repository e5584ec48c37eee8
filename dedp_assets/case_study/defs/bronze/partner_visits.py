"""Visits reported by partners, line by line as landed, one file per partner and day."""

from dedp_assets.graph.declare import (
    About,
    AtOnce,
    Expects,
    Figure,
    Gates,
    Inputs,
    Job,
    OnDelivery,
    QuietHours,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    lake_table,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.patterns import Audit, Column, TableSpec, Target, WriteResult, partition_rows, plan_ready
from dedp_assets.patterns.connectors.encoding.formats import JsonLines
from dedp_assets.patterns.connectors.landing.file_audits import FileAudit, require_sound_files
from dedp_assets.patterns.connectors.landing.lines import read_lines
from dedp_assets.patterns.core.types.conversion import exact

DATASET = "partner_visits"
PARTNER_VISITS = TableSpec(
    "bronze/partner_visits",
    {
        "line": Column(
            "STRING",
            "the record as it landed",
            required=True,
            classification="personal",
            subject="visitor of a partner",
            subject_by="coalesce(get_json_object(line, '$.user'), get_json_object(line, '$.u_id'))",
        ),
        "line_bytes": Column("BINARY", "its bytes, where they are not valid UTF-8", classification="personal"),
        "partner": Column("STRING", "partner that the file is called after", required=True),
        "source_file": Column("STRING", "file it came in", required=True),
        "line_number": Column("BIGINT", "line in that file, from 1", required=True),
        "landed_on": Column("DATE", "day it was delivered", required=True),
        "event_date": Column("DATE", "UTC day it happened; NULL if that is unreadable or not plausible"),
    },
    partition_by=("landed_on", "event_date"),
    event_time="event_date",
    comment="One row per landed line, whatever it holds.",
)
FILES = Source(
    f"landing/{DATASET}",
    "What partners report of pages embedded in their websites, a folder a day and a file each; `_SUCCESS` ends a day.",
    kinds=("file", "json"),
    owner="team:partners",
)
AUDITS = (
    Audit(
        name="lines_keep_their_numbers", of="numbers", sql="sum(line_number)", per="lines", fail_below=1, fail_above=1
    ),
)
WHOLE_FILES = FileAudit(format=JsonLines(), min_bytes=0, approvable=["files_have_their_format"])
"""Input audit of the partners' files. Empty files are allowed, and malformed records become dead letters."""
FIGURES = {"numbers": Figure(kind="hidden"), "lines": Figure(kind="hidden")}


EVENT_DATES = RETENTION_DAYS + 4
"""Greatest number of event dates in a delivery: the plausible days, and NULL."""


def field(path: str, kind: str = "STRING") -> str:
    """Write SQL for a field of the record as a type; NULL without the field, or for malformed JSON."""
    return exact(f"try_variant_get(try_parse_json(line), '$.{path}', 'string')", kind)


_MILLIS = field("visit.time_ms", "BIGINT")
EVENT_TIME = {
    "magazine": field("at", "TIMESTAMP"),
    "radio": f"timestamp_millis(if({_MILLIS} BETWEEN 0 AND 253402300799999, {_MILLIS}, NULL))",
}
"""Partner -> SQL of when a visit happened."""
_EVENT_TIME = f"CASE partner WHEN 'magazine' THEN {EVENT_TIME['magazine']} WHEN 'radio' THEN {EVENT_TIME['radio']} END"
_PLAUSIBLE = f"{_EVENT_TIME} BETWEEN landed_on - INTERVAL {RETENTION_DAYS} DAYS AND landed_on + INTERVAL 2 DAYS"


def delivered(request: Request, landing: Landing) -> Inputs:
    """Find the delivery of a day."""
    delivery = landing.delivery(DATASET, request.key).require_ready()
    content = landing.content(DATASET, delivery)
    return Inputs({f"landing/{DATASET}/{request.key}": content}, notes={"delivery": delivery.identity}, found=delivery)


JOB = Job(
    "daily_partner_visits",
    "What partners delivered on a day, and the visits of that date; records that came late are brought to their own "
    "dates by the reconciler.",
    'key:"bronze/partner_visits"+ and (group:"bronze" or group:"silver")',
)


@lake_table(
    PARTNER_VISITS,
    reads=Reads(sources=[FILES], inputs=delivered),
    # A day's delivery is a partition of its own: a large one keeps no other waiting.
    runs=Runs(DAILY, AtOnce(4, by=OnDelivery(DATASET)), job=JOB),
    gates=Gates(AUDITS, if_empty="A delivery without a line is refused, unless its marker says that it has no files."),
    about=About(
        owner="team:partners",
        figures=FIGURES,
        # Partners send when they have something to report, people do it, and a day without them is usual.
        expects=Expects(gap_minutes=3 * 24 * 60, quiet=[QuietHours(zone="UTC", weekdays=("saturday", "sunday"))]),
    ),
    patterns=[partition_rows, plan_ready],
)
def partner_visits(step: Step, into: Target, landing: Landing) -> WriteResult:
    """Load one day's delivery, complete with a marker, in place of the day's former rows."""
    delivery = step.inputs.found
    paths = landing.paths(DATASET, delivery)
    judged = require_sound_files(paths, WHOLE_FILES, approval=into.run.approval)
    lines = read_lines(into.table.session, paths)
    named = lines.rows.selectExpr(
        "raw AS line",
        "raw_bytes AS line_bytes",
        "regexp_extract(source_file, '^[^-.]*', 0) AS partner",
        "source_file",
        "line_number",
        f"DATE '{step.key}' AS landed_on",
    )
    return partition_rows(
        named.selectExpr("*", f"if({_PLAUSIBLE}, to_date({_EVENT_TIME}), NULL) AS event_date"),
        into.noting({"files": dict(lines.count)}).reading(figures={"lines": lines.checksum}, findings=judged),
        most_partitions=EVENT_DATES,
        allow_empty=not delivery.files,
    )
