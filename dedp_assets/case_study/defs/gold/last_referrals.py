"""Last visit sent by each website."""

from dedp_assets.case_study.defs.silver.referrals import REFERRALS
from dedp_assets.graph.declare import About, Gates, Pinned, Reads, Runs, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, merge_changes

LAST_REFERRALS = TableSpec(
    "gold/last_referrals",
    {
        "website": Column("STRING", "website that a visit came from", required=True),
        "event_time": Column("TIMESTAMP", "when its last visit came, UTC", required=True),
        "visit_id": Column("STRING", "that visit", required=True),
        "page": Column("STRING", "path that was visited", required=True),
    },
    comment="One row per website. A visit that silver takes back later stays the last one until a newer one comes.",
    key=("website",),
    executed_by="event_date",
    event_time="event_time",
)
QUERY = """
    SELECT regexp_extract(referrer, '^https?://([^/?#]*)', 1) AS website, event_time, visit_id, page FROM {referrals}
"""


@lake_table(
    LAST_REFERRALS,
    reads=Reads({REFERRALS: same("event_date")}),
    runs=Runs(DAILY),
    gates=Gates(checks={"changes_of_one_place_agree": "No two visits of one time and identity differ."}),
    about=About(
        owner="team:web-analytics",
        used_by="marketing, who ask which websites no longer send anybody",
        derived={"website": ["referrer"]},
        unchecked={
            "volume": "as many rows as there are websites",
        },
    ),
    patterns=[merge_changes],
    code_version="1",
)
def last_referrals(referrals: Pinned, into: Target) -> WriteResult:
    """Merge one day's visits by website; the newest visit of a website wins, in any order of days."""
    rows = referrals.rows()
    return merge_changes(
        rows.sparkSession.sql(QUERY, referrals=rows),
        into,
        keys=["website"],
        order_by=["event_time", "visit_id"],
    )
