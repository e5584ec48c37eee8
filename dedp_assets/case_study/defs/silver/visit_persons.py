"""Visits without personal values, beside one row for each visitor."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits import EDITION, EVENT, VISITS
from dedp_assets.graph.declare import About, Nightly, Pinned, lake_table
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, split_persons

_EVENT = ("visit_id", "event_time", "user_id", "page", "status", "bytes")
VISIT_EVENTS = TableSpec(
    "silver/visit_events",
    {**{name: EVENT[name] for name in _EVENT}, "event_date": VISITS.columns["event_date"]},
    partition_by=("event_date",),
    event_time="event_time",
    comment="One row per visit, of a visitor who is known by a number alone.",
)
VISITORS = TableSpec(
    "silver/visitors",
    {
        "user_id": EVENT["user_id"],
        "user_agent": EVENT["user_agent"],
        "ip": EVENT["ip"],
        "seen_at": replace(EVENT["event_time"], comment="when the visitor came last, UTC"),
        "last_visit": Column("STRING", "the visit of that time", required=True, classification="public"),
    },
    key=("user_id",),
    # A run of each day changes the whole table, in whatever order.
    executed_by="event_date",
    comment="One row per visitor, as the newest visit left it.",
)


@lake_table(
    VISIT_EVENTS,
    beside={VISITORS: [split_persons]},
    reads=[VISITS],
    runs=Nightly("55 3 * * *", lookback=14),
    about=About(
        used_by="analysts, who need visits and no visitors",
        fresh_hours=28,
        derived={"bytes": EDITION.origins("bytes")},
    ),
    patterns=[split_persons],
    code_version=EDITION.reader("1"),
)
def visit_events(visits: Pinned, into: Target, visitors: Target, lake: Lake) -> WriteResult:
    """Split one day's visits into events and visitors, of whom the newest values count."""
    origin = {"seen_at": "event_time", "last_visit": "visit_id"}
    wanted = dict.fromkeys((*VISIT_EVENTS.columns, *VISITORS.columns))
    rows = visits.rows().selectExpr(*(f"{EDITION.sql(origin.get(name, name))} AS {name}" for name in wanted))
    return split_persons(rows, into, visitors, lake.suppression(), newest=["seen_at", "last_visit"], allow_empty=True)
