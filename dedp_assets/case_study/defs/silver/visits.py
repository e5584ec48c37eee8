"""Visits, typed, validated and deduplicated; unprocessable records with the reason."""

from dedp_assets.case_study.defs.bronze import visits as bronze
from dedp_assets.case_study.defs.silver.devices_migration import devices_edition
from dedp_assets.graph.declare import (
    About,
    Expects,
    Pinned,
    Runs,
    Validation,
    by_event,
    lake_table,
    letters_of,
    rules_of_presence,
    rules_of_time,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.patterns import (
    Column,
    Field,
    TableLayout,
    TableSpec,
    Target,
    WriteResult,
    deduplicate,
    divert_unprocessable,
    plan_late_partitions,
)

EVENT = {
    "visit_id": Column("STRING", "identity of the visit", required=True, classification="public"),
    "event_time": Column("TIMESTAMP", "when it happened, UTC", required=True, classification="public"),
    "user_id": Column(
        "STRING", "pseudonymous visitor", required=True, classification="personal", replica="pseudonym", subject="user"
    ),
    "page": Column("STRING", "path that was visited", required=True, classification="public"),
    "referrer": Column("STRING", "where the visitor came from", classification="public"),
    "user_agent": Column("STRING", "the visitor's program", classification="personal"),
    "ip": Column("STRING", "the visitor's network address", classification="personal"),
    "device_type": Column("STRING", "kind of the visitor's device", classification="public"),
    "device_version": Column("STRING", "version of the visitor's device", classification="public"),
    "status": Column("INT", "HTTP status of the response", classification="public"),
    "bytes": Column("BIGINT", "size of the response, in bytes; NULL if it had none", classification="public"),
}
_ORIGIN = {
    "source_file": Column("STRING", "landing file, or <topic>-<partition>", required=True, classification="public"),
    "line_number": Column(
        "BIGINT", "line in that file, from 1; in a topic its offset + 1", required=True, classification="public"
    ),
    "landed_on": Column("DATE", "day it was delivered", required=True, classification="public"),
}
EDITION = devices_edition(EVENT)
VISITS = TableSpec(
    "silver/visits",
    {
        **EDITION.columns(EVENT),
        "event_date": Column("DATE", "UTC day of event_time", required=True, classification="public"),
        **_ORIGIN,
        "was_dead_lettered": Column(
            "BOOLEAN", "whether it was a dead letter once and replayed after a fix", classification="public"
        ),
    },
    partition_by=("event_date",),
    event_time="event_time",
    checks={"known_status": "status IS NULL OR status BETWEEN 100 AND 599"},
    # What most queries name: an hour, and a page.
    layout=TableLayout(sort_by=("event_time", "page")),
    comment="One row per visit: typed, validated, deduplicated within its event date.",
)
DEAD_LETTER = letters_of(
    VISITS.name,
    {
        **{name: bronze.VISITS.columns[name] for name in ("raw", "raw_bytes")},
        **_ORIGIN,
        "event_date": Column("DATE", "UTC day it happened, if that can be read", classification="public"),
    },
    filed_under="event date, or the landing day of a record without one",
    comment="One row per landed line that could not be processed, with every rule it broke.",
)
RULES = {
    **rules_of_presence({name: column.type for name, column in EVENT.items() if column.required}),
    "status is not an HTTP status": "status IS NULL OR status BETWEEN 100 AND 599",
    "bytes is negative": "bytes IS NULL OR bytes >= 0",
    **rules_of_time(
        "event_time",
        earliest=f"landed_on - INTERVAL {RETENTION_DAYS} DAYS",
        too_early=f"more than {RETENTION_DAYS} days before it landed",
        latest="landed_on + INTERVAL 2 DAYS",
        own="to_date(event_time)",
    ),
    "the line is not valid UTF-8": "raw_bytes IS NULL",
}
RECORDS = Validation(
    fields={name: Field(column.type, event_time=name == VISITS.event_time) for name, column in EVENT.items()},
    rules=RULES,
    identity=("landed_on", "source_file", "line_number"),
    carry=("event_date",),
    related="landed_on",  # a letter moves between dates when a fix dates its record anew
    keys=("visit_id",),
    compares=True,
    counts="report",
    framed=True,
    written=EDITION.written,
)
BY_EVENT_DATE = by_event("event_date", "landed_on")
FACTS = About(
    fresh_hours=26,
    derived={**dict.fromkeys(EDITION.columns(EVENT), ("raw",)), "event_date": ("event_date",)},
    # The reconciler asks within a minute: what waits for an hour waits for a person.
    expects=Expects(volume=bronze.VOLUME, lag_minutes=60),
)


@lake_table(
    VISITS,
    beside={DEAD_LETTER: [divert_unprocessable]},
    reads={bronze.VISITS: BY_EVENT_DATE},
    runs=Runs(DAILY, replay=RECORDS.replay),
    gates=RECORDS.gates(),
    about=RECORDS.about(FACTS, dead=DEAD_LETTER.name),
    patterns=[deduplicate, divert_unprocessable, plan_late_partitions],
    code_version="2",
)
def visits(landed: Pinned, into: Target, dead: Target) -> WriteResult:
    """Type, validate and deduplicate one event date over all landing days in bronze's newest snapshot."""
    return RECORDS.compute(landed, into, dead)
