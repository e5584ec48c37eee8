"""Visits, typed, validated and deduplicated; unprocessable records with the reason."""

from collections.abc import Mapping
from typing import Any

from dedp_assets.case_study.defs.bronze.visits import VISITS as LANDED
from dedp_assets.case_study.defs.bronze.visits import VOLUME
from dedp_assets.graph.checks.letters import KNOWN_STATUS
from dedp_assets.graph.declare import About, Expects, Gates, Pinned, Reads, Runs, by_event, lake_table
from dedp_assets.graph.declare.editions import edition_at
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.environments import RETENTION_DAYS, settings
from dedp_assets.graph.run.landings import FIELD_CHECKS, FIELD_FIGURES, LETTER_FIGURES
from dedp_assets.patterns import (
    Audit,
    Column,
    Field,
    TableSpec,
    Target,
    WriteResult,
    deduplicate,
    divert_unprocessable,
    open_letters,
    plan_late_partitions,
    replay_letters,
    route,
)
from dedp_assets.patterns.connectors.framed_values import name_unread
from dedp_assets.patterns.core.field_changes import audits_of_fields
from dedp_assets.patterns.core.field_counting import tally_fields
from dedp_assets.patterns.delta import Ledger, audits_of_usual, earlier_fields
from dedp_assets.patterns.error_management.dead_letter import LETTER
from dedp_assets.patterns.quality.schema_migrator import Migration

EVENT = {
    "visit_id": Column("STRING", "identity of the visit", required=True),
    "event_time": Column("TIMESTAMP", "when it happened, UTC", required=True),
    "user_id": Column("STRING", "pseudonymous visitor", required=True, personal=True, replica="pseudonym"),
    "page": Column("STRING", "path that was visited", required=True),
    "referrer": Column("STRING", "where the visitor came from"),
    "user_agent": Column("STRING", "the visitor's program", personal=True),
    "ip": Column("STRING", "the visitor's network address", personal=True),
    "device_type": Column("STRING", "kind of the visitor's device"),
    "device_version": Column("STRING", "version of the visitor's device"),
    "status": Column("INT", "HTTP status of the response"),
    "bytes": Column("BIGINT", "size of the response, in bytes; NULL if it had none"),
}
_ORIGIN = {
    "source_file": Column("STRING", "landing file, or <topic>-<partition>", required=True),
    "line_number": Column("BIGINT", "line in that file, from 1; in a topic its offset + 1", required=True),
    "landed_on": Column("DATE", "day it was delivered", required=True),
}
EDITION = edition_at(
    Ledger(settings().lakehouse / "silver/visits", name="silver/visits"),
    Migration(
        name="devices",
        rename={"bytes": "response_bytes"},
        nest={"device": {"type": "device_type", "version": "device_version"}},
    ),
    new={
        "response_bytes": EVENT["bytes"],
        "device": Column("STRUCT<type: STRING, version: STRING>", "kind and version of the visitor's device"),
    },
)
"""Edition of the code in the optional migration ``devices``, which ``dedp demo --migrate`` plays."""
VISITS = TableSpec(
    "silver/visits",
    {
        **EDITION.columns(EVENT),
        "event_date": Column("DATE", "UTC day of event_time", required=True),
        **_ORIGIN,
        "was_dead_lettered": Column("BOOLEAN", "whether it was a dead letter once and replayed after a fix"),
    },
    partition_by=("event_date",),
    event_time="event_time",
    checks={"known_status": "status IS NULL OR status BETWEEN 100 AND 599"},
    comment="One row per visit: typed, validated, deduplicated within its event date.",
)
DEAD_LETTER = TableSpec(
    "silver/visits_dead_letter",
    {
        "raw": Column("STRING", "the line as it landed", required=True, personal=True),
        "raw_bytes": Column("BINARY", "its bytes, where they are not valid UTF-8", personal=True),
        **_ORIGIN,
        "event_date": Column("DATE", "UTC day it happened, if that can be read"),
        **LETTER,
        "filed_under": Column("DATE", "event date, or the landing day of a record without one", required=True),
    },
    partition_by=("filed_under",),
    event_time="occurred_at",
    checks=KNOWN_STATUS,
    comment="One row per landed line that could not be processed, with every rule it broke.",
)
RULES = {
    "visit_id is missing": "trim(visit_id) <> ''",
    "event_time is missing": "event_time IS NOT NULL OR `event_time text` IS NOT NULL",
    "user_id is missing": "trim(user_id) <> ''",
    "page is missing": "trim(page) <> ''",
    "status is not an HTTP status": "status IS NULL OR status BETWEEN 100 AND 599",
    "bytes is negative": "bytes IS NULL OR bytes >= 0",
    f"event_time is more than {RETENTION_DAYS} days before it landed": (
        f"event_time IS NULL OR event_time >= landed_on - INTERVAL {RETENTION_DAYS} DAYS"
    ),
    "event_time is in the future of its landing": "event_time IS NULL OR event_time <= landed_on + INTERVAL 2 DAYS",
    "event_time is not on the date it was filed under": (
        f"event_time IS NULL OR NOT event_time BETWEEN landed_on - INTERVAL {RETENTION_DAYS} DAYS AND "
        "landed_on + INTERVAL 2 DAYS OR coalesce(to_date(event_time) = event_date, false)"
    ),
    "the line is not valid UTF-8": "raw_bytes IS NULL",
}
AUDITS = (
    Audit(name="dead_letters_are_few", of="dead", per="read", warn_above=0, fail_above=0.1, approvable=True),
    Audit(name="duplicates_are_few", of="duplicates", per="read", warn_above=0.1, fail_above=0.5, approvable=True),
)
KEYS = ("visit_id",)
TOLERANCE = 0.1

IDENTITY = ("landed_on", "source_file", "line_number")
BY_EVENT_DATE = by_event("event_date", "landed_on")


RECORD: Mapping[str, Any] = {
    "payload": "raw",
    "raw": ["raw_bytes"],
    "schema": {name: Field(column.type, event_time=name == VISITS.event_time) for name, column in EVENT.items()},
    "identity": IDENTITY,
    "carry": ["event_date"],
    "rules": RULES,
}


def replay(into: Target, dead: Target) -> WriteResult:
    """Replay the dead letters of one date by the current rules, and re-admit valid visits."""
    filed_under, since = dead.partition, dead.table.ledger.version()
    letters = open_letters(dead.table, filed_under=filed_under, version=since)
    split = name_unread(divert_unprocessable(letters, **RECORD))
    return replay_letters(
        EDITION.written(deduplicate(split, keys=KEYS, order_by=IDENTITY)),
        into,
        dead,
        keys=KEYS,
        since=since,
    )


@lake_table(
    VISITS,
    beside={DEAD_LETTER: [divert_unprocessable]},
    reads=Reads({LANDED: BY_EVENT_DATE}),
    runs=Runs(DAILY, replay=replay),
    gates=Gates(
        AUDITS,
        if_empty="Warns of a date without a valid visit.",
        reports={
            "duplicates_are_as_usual": f"Warns if the share of duplicates is more than {TOLERANCE:.0%} of all lines "
            "away from that of the days before.",
            **FIELD_CHECKS,
        },
    ),
    about=About(
        owner="team:web-analytics",
        used_by="whoever mends a source: the letters that wait are in silver/visits_dead_letter",
        fresh_hours=26,
        derived={**dict.fromkeys(EDITION.columns(EVENT), ("raw",)), "event_date": ("event_date",)},
        figures={**LETTER_FIGURES, **FIELD_FIGURES},
        # The reconciler asks within a minute: what waits for an hour waits for a person.
        expects=Expects(volume=VOLUME, lag_minutes=60),
    ),
    patterns=[deduplicate, divert_unprocessable, plan_late_partitions],
    code_version="2",
)
def visits(landed: Pinned, into: Target, dead: Target) -> WriteResult:
    """Type, validate and deduplicate one event date over all landing days in bronze's newest snapshot."""
    types = {name: column.type for name, column in EVENT.items()}
    lines, seen = tally_fields(landed.rows(), "raw", types, identity=IDENTITY)
    earlier = landed.related(dead.table, "landed_on")  # a letter moves between dates when a fix dates its record anew
    split = name_unread(divert_unprocessable(lines, earlier, **RECORD))
    duplicates = audits_of_usual(
        into.table.ledger,
        {"duplicates_are_as_usual": "duplicates"},
        partition=into.partition,
        tolerance=TOLERANCE,
        severity="warn",
    )
    fields = audits_of_fields("report", earlier_fields(into.table.ledger, into.partition))
    return route(
        EDITION.written(deduplicate(split, keys=KEYS, order_by=IDENTITY)),
        into.with_audits(*duplicates, *fields).reading(seen),
        dead,
        allow_empty=True,
    )
