"""Referrals: visits sent by another website, and counts of the conditions that drop the others."""

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, Runs, lake_table
from dedp_assets.patterns import (
    Column,
    TableSpec,
    Target,
    WriteResult,
    filter_audits,
    filter_measures,
    intercept_filters,
    overwrite_partition,
    plan_lookback,
    tally,
)

REFERRALS = TableSpec(
    "silver/referrals",
    {
        "visit_id": Column("STRING", "identity of the visit", required=True, classification="public"),
        "event_time": Column("TIMESTAMP", "when it happened, UTC", required=True, classification="public"),
        "page": Column("STRING", "path that was visited", required=True, classification="public"),
        "referrer": Column("STRING", "where the visitor came from", required=True, classification="public"),
        "event_date": Column("DATE", "UTC day of event_time", required=True, classification="public"),
    },
    partition_by=("event_date",),
    event_time="event_time",
    comment="One row per visit that another website sent: approximate until its date leaves the look-back.",
)
CONDITIONS = {
    "visit_names_a_referrer": "trim(referrer) <> ''",
    "referrer_is_a_website": "referrer RLIKE '^https?://'",
    "visitor_is_no_program": "coalesce(NOT user_agent RLIKE '(?i)bot|crawl|spider', true)",
    "page_was_shown": "coalesce(status < 400, true)",
}
TOLERANCE = 0.25
CHECKS = {
    f"{name}_drops_as_usual": f"Fails if the share of visits for which `{sql}` is not true is more than "
    f"{TOLERANCE:.0%} of all visits away from the usual share; a named person may approve it."
    for name, sql in CONDITIONS.items()
}


@lake_table(
    REFERRALS,
    reads=[VISITS],
    runs=Runs(when=Nightly("0 2 * * *", lookback=14), job="daily_referrals"),
    gates=Gates(checks=CHECKS, if_empty="Warns of a date that no other website sent a visit on."),
    about=About(used_by="marketing, who compare the websites that send visitors", fresh_hours=28),
    patterns=[intercept_filters, overwrite_partition, plan_lookback],
)
def referrals(visits: Pinned, into: Target) -> WriteResult:
    """Keep one date's referrals, and count dropped visits by condition."""
    identity = ["visit_id"]
    usual = filter_audits(into.table.ledger, into.partition, conditions=CONDITIONS, tolerance=TOLERANCE)
    split = intercept_filters(visits.rows(), conditions=CONDITIONS, identity=identity)
    rows, seen = tally(split, identity=identity, measures=filter_measures(CONDITIONS))
    return overwrite_partition(
        rows.select(*REFERRALS.columns),
        into.with_audits(*usual).reading(seen),
        allow_empty=True,
    )
