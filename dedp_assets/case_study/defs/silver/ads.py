"""Ads shown on pages, typed and validated; unprocessable records with the reason."""

from collections.abc import Mapping
from typing import Any

from dedp_assets.case_study.defs.bronze.ads import ADS as LANDED
from dedp_assets.graph.checks.letters import KNOWN_STATUS, taken
from dedp_assets.graph.declare import About, Feed, Gates, Pinned, Reads, Runs, Step, lake_table
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.graph.run.landings import LETTER_FIGURES
from dedp_assets.patterns import (
    Audit,
    Column,
    Field,
    TableSpec,
    Target,
    WriteResult,
    divert_unprocessable,
    open_letters,
    replay_letters,
    route,
    tally,
)
from dedp_assets.patterns.connectors.framed_values import name_unread
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.error_management.dead_letter import LETTER

_DISPLAY = {
    "display_id": Column("STRING", "identity of the ad's display", required=True),
    "display_time": Column("TIMESTAMP", "when the ad was shown, UTC", required=True),
    "ad_page": Column("STRING", "path that it was shown on", required=True),
    "ad_id": Column("STRING", "the ad that was shown", required=True),
}
_ORIGIN = {
    "source_file": Column("STRING", "<topic>-<partition>", required=True),
    "line_number": Column("BIGINT", "offset + 1", required=True),
    "landed_on": Column("DATE", "day the broker received it", required=True),
}
ADS = TableSpec(
    "silver/ads",
    {
        **_DISPLAY,
        "event_date": Column("DATE", "UTC day of display_time", required=True),
        **_ORIGIN,
        "was_dead_lettered": Column("BOOLEAN", "whether it was a dead letter once and replayed after a fix"),
    },
    partition_by=("event_date",),
    event_time="display_time",
    comment="One row per ad that was shown: typed and validated.",
)
DEAD_LETTER = TableSpec(
    "silver/ads_dead_letter",
    {
        "raw": Column("STRING", "the record as it came", required=True),
        "raw_bytes": Column("BINARY", "its bytes, where they are not valid UTF-8"),
        **_ORIGIN,
        "event_date": Column("DATE", "the day that bronze filed it under"),
        **LETTER,
        "filed_under": Column(
            "DATE", "UTC day it was shown, or the landing day of a record without one", required=True
        ),
    },
    partition_by=("filed_under",),
    event_time="occurred_at",
    checks=KNOWN_STATUS,
    comment="One row per record of the topic that could not be processed, with every rule it broke.",
)
_EARLIEST = f"landed_on - INTERVAL {RETENTION_DAYS} DAYS"
RULES = {
    **{f"{name} is missing": f"trim({name}) <> ''" for name in _DISPLAY if name != "display_time"},
    "display_time is missing": "display_time IS NOT NULL OR `display_time text` IS NOT NULL",
    f"display_time is more than {RETENTION_DAYS} days before it landed": (
        f"display_time IS NULL OR display_time >= {_EARLIEST}"
    ),
    "display_time is in the future of its landing": (
        "display_time IS NULL OR display_time <= landed_on + INTERVAL 2 DAYS"
    ),
    "display_time is not on the date it was filed under": (
        f"display_time IS NULL OR NOT display_time BETWEEN {_EARLIEST} AND landed_on + INTERVAL 2 DAYS "
        "OR coalesce(to_date(display_time) = event_date, false)"
    ),
    "the record is not valid UTF-8": "raw_bytes IS NULL",
}
IDENTITY = ("source_file", "line_number")
RECORD: Mapping[str, Any] = {
    "payload": "raw",
    "raw": ["raw_bytes"],
    "schema": {name: Field(column.type, event_time=name == ADS.event_time) for name, column in _DISPLAY.items()},
    "identity": IDENTITY,
    "carry": ["event_date", "landed_on"],
    "rules": RULES,
}
AUDITS = (Audit(name="dead_letters_are_few", of="dead", per="read", warn_above=0, fail_above=0.1, approvable=True),)
BY_EVENT_DATE = Feed(
    # Bronze files an undated record under its landing day; before it did, such records had no partition.
    reads=lambda day: ({"event_date": day}, {"event_date": None}),
    feeds=lambda changed: [day] if (day := changed["event_date"]) else [],
)


def replay(into: Target, dead: Target) -> WriteResult:
    """Replay the dead letters of one date by the current rules, and re-admit valid ads."""
    filed_under, since = dead.partition, dead.table.ledger.version()
    return replay_letters(
        name_unread(divert_unprocessable(open_letters(dead.table, filed_under=filed_under, version=since), **RECORD)),
        into,
        dead,
        keys=IDENTITY,
        since=since,
    )


@lake_table(
    ADS,
    beside={DEAD_LETTER: [divert_unprocessable]},
    reads=Reads({LANDED: BY_EVENT_DATE}),
    runs=Runs(DAILY, replay=replay),
    gates=Gates(AUDITS, if_empty="Warns of a date without a valid ad."),
    about=About(
        owner="team:advertising",
        used_by="whoever mends the source: the letters that wait are in silver/ads_dead_letter",
        fresh_hours=28,
        derived=dict.fromkeys(_DISPLAY, ("raw",)),
        figures=LETTER_FIGURES,
    ),
    patterns=[divert_unprocessable],
    code_version="1",
)
def ads(step: Step, landed: Pinned, into: Target, dead: Target) -> WriteResult:
    """Type and validate one date's ads from the newest snapshot of bronze."""
    of_day = f"coalesce(event_date, landed_on) = DATE {quoted(step.key)}"
    lines, seen = tally(taken(landed.rows(), rest=ADS, where=of_day), identity=IDENTITY)
    return route(
        name_unread(divert_unprocessable(lines, landed.related(dead.table, "event_date"), **RECORD)),
        into.reading(seen),
        dead,
        allow_empty=True,
    )
