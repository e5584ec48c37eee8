"""Ads shown on pages, typed and validated; unprocessable records with the reason."""

from dedp_assets.case_study.defs.bronze.ads import ADS as LANDED
from dedp_assets.graph.checks.letters import taken
from dedp_assets.graph.declare import (
    About,
    Feed,
    Gates,
    Pinned,
    Runs,
    Validation,
    lake_table,
    letters_of,
    rules_of_presence,
    rules_of_time,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.resources.environments import RETENTION_DAYS
from dedp_assets.patterns import Column, Field, TableSpec, Target, WriteResult, divert_unprocessable
from dedp_assets.patterns.core.rows import quoted

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
DEAD_LETTER = letters_of(
    ADS.name,
    {
        "raw": Column("STRING", "the record as it came", required=True),
        "raw_bytes": Column("BINARY", "its bytes, where they are not valid UTF-8"),
        **_ORIGIN,
        "event_date": Column("DATE", "the day that bronze filed it under"),
    },
    filed_under="UTC day it was shown, or the landing day of a record without one",
    comment="One row per record of the topic that could not be processed, with every rule it broke.",
)
RECORDS = Validation(
    fields={name: Field(column.type, event_time=name == ADS.event_time) for name, column in _DISPLAY.items()},
    rules={
        **rules_of_presence({name: column.type for name, column in _DISPLAY.items()}),
        **rules_of_time(
            "display_time",
            earliest=f"landed_on - INTERVAL {RETENTION_DAYS} DAYS",
            too_early=f"more than {RETENTION_DAYS} days before it landed",
            latest="landed_on + INTERVAL 2 DAYS",
            own="to_date(display_time)",
        ),
        "the record is not valid UTF-8": "raw_bytes IS NULL",
    },
    identity=("source_file", "line_number"),
    carry=("event_date", "landed_on"),
    related="event_date",
    framed=True,
)
FROM_RAW = dict.fromkeys(_DISPLAY, ("raw",))
BY_EVENT_DATE = Feed(
    # Bronze files an undated record under its landing day; before it did, such records had no partition.
    reads=lambda day: ({"event_date": day}, {"event_date": None}),
    feeds=lambda changed: [day] if (day := changed["event_date"]) else [],
)


@lake_table(
    ADS,
    beside={DEAD_LETTER: [divert_unprocessable]},
    reads={LANDED: BY_EVENT_DATE},
    runs=Runs(DAILY, replay=RECORDS.replay),
    gates=RECORDS.gates(Gates(if_empty="Warns of a date without a valid ad.")),
    about=RECORDS.about(About(owner="team:advertising", fresh_hours=28, derived=FROM_RAW), dead=DEAD_LETTER.name),
    patterns=[divert_unprocessable],
)
def ads(landed: Pinned, into: Target, dead: Target) -> WriteResult:
    """Type and validate one date's ads from the newest snapshot of bronze."""
    of_day = f"coalesce(event_date, landed_on) = DATE {quoted(into.partition['event_date'])}"
    return RECORDS.compute(landed, into, dead, rows=taken(landed.rows(), rest=ADS, where=of_day))
