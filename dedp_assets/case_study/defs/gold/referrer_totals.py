"""Visitors sent by each website, up to each day."""

from functools import partial

from dedp_assets.case_study.defs.silver.referrals import REFERRALS
from dedp_assets.graph.declare import InOrder, lake_query
from dedp_assets.patterns import Column, TableSpec, merge_execution

REFERRER_TOTALS = TableSpec(
    "gold/referrer_totals",
    {
        "website": Column("STRING", "website that visits came from", required=True, classification="public"),
        "visits": Column("BIGINT", "visits that it sent so far", required=True, classification="public"),
        "days": Column("BIGINT", "days on which it sent any", required=True, classification="public"),
        "last_day": Column("DATE", "the last of them", required=True, classification="public"),
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
ADDED = {"visits": "t.visits + s.visits", "days": "t.days + s.days", "last_day": "s.last_day"}


@lake_query(
    REFERRER_TOTALS,
    reads=[REFERRALS],
    sql=QUERY,
    write=partial(merge_execution, keys=["website"], update=ADDED),
    runs=InOrder(),
    about="marketing, who pay websites for the visitors they sent",
)
def referrer_totals() -> None:
    """Add one day's visits to the totals of the previous day."""
