"""Visitors by page for the public: noisy counts, within a budget."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Gates, OnRequest, Pinned, lake_table
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, judge_budget, release_counts

PRIVATE_VISITORS = TableSpec(
    "serving/private_visitors",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "page": Column("STRING", "path that was visited", required=True, classification="public"),
        "persons": Column("BIGINT", "visitors of the page, with noise", required=True, classification="public"),
    },
    partition_by=("event_date",),
    comment="One row per day and page that enough visitors saw.",
)
EPSILON = 1.0
BUDGET = 90.0
"""What all releases together may tell on a visitor, who may come every day."""
LEFT = "budget_is_left"


@lake_table(
    PRIVATE_VISITORS,
    reads=[VISITS],
    runs=OnRequest(),
    gates=Gates(
        checks={LEFT: "The budget suffices for a further week of days."}, if_empty="No page had enough visitors."
    ),
    about=About(used_by="anybody"),
    patterns=[release_counts, judge_budget],
)
def private_visitors(visits: Pinned, into: Target) -> WriteResult:
    """Release one day's visitors by page, once."""
    done = release_counts(
        visits.rows(),
        into,
        groups=["event_date", "page"],
        person="user_id",
        epsilon=EPSILON,
        budget=BUDGET,
        most_groups=4,
    )
    return replace(done, findings=(*done.findings, judge_budget(into.table, budget=BUDGET, warn_left=7 * EPSILON)))
