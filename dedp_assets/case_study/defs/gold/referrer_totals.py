"""Visitors sent by each website, up to each day."""

from dedp_assets.case_study.defs.silver.referrals import REFERRALS
from dedp_assets.graph.declare import About, Follow, InOrder, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, merge_execution

REFERRER_TOTALS = TableSpec(
    "gold/referrer_totals",
    {
        "website": Column("STRING", "website that visits came from", required=True),
        "visits": Column("BIGINT", "visits that it sent so far", required=True),
        "days": Column("BIGINT", "days on which it sent any", required=True),
        "last_day": Column("DATE", "the last of them", required=True),
    },
    checks={"visits_cover_days": "visits >= days AND days > 0"},
    comment="One row per website, as of the last day that was added.",
    key=("website",),
    executed_by="event_date",
)
QUERY = """
    SELECT regexp_extract(referrer, '^https?://([^/?#]*)', 1) AS website, count(*) AS visits, 1L AS days,
           event_date AS last_day
    FROM {referrals} GROUP BY website, event_date
"""


@lake_table(
    REFERRER_TOTALS,
    reads=Reads({REFERRALS: same("event_date")}),
    runs=Runs(DAILY, InOrder(Follow())),
    about=About(
        owner="team:web-analytics",
        used_by="marketing, who pay websites for the visitors they sent",
        derived={
            "website": ["referrer"],
            "visits": ["visit_id"],
            "days": ["event_date"],
            "last_day": ["event_date"],
        },
        unchecked={
            "volume": "as many rows as there are websites",
        },
    ),
    patterns=[merge_execution],
    code_version="1",
)
def referrer_totals(referrals: Pinned, into: Target) -> WriteResult:
    """Add one day's visits to the totals of the previous day."""
    rows = referrals.rows()
    return merge_execution(
        rows.sparkSession.sql(QUERY, referrals=rows),
        into,
        keys=["website"],
        update={"visits": "t.visits + s.visits", "days": "t.days + s.days", "last_day": "s.last_day"},
    )
