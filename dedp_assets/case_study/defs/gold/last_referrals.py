"""Last visit sent by each website."""

from functools import partial

from dedp_assets.case_study.defs.silver.referrals import REFERRALS
from dedp_assets.graph.declare import Gates, lake_query
from dedp_assets.patterns import Column, TableSpec, merge_changes

LAST_REFERRALS = TableSpec(
    "gold/last_referrals",
    {
        "website": Column("STRING", "website that a visit came from", required=True, classification="public"),
        "event_time": Column("TIMESTAMP", "when its last visit came, UTC", required=True, classification="public"),
        "visit_id": Column("STRING", "that visit", required=True, classification="public"),
        "page": Column("STRING", "path that was visited", required=True, classification="public"),
    },
    comment="One row per website. A visit that silver takes back later stays the last one until a newer one comes.",
    key=("website",),
    executed_by="event_date",
    event_time="event_time",
)
QUERY = """
    SELECT regexp_extract(referrer, '^https?://([^/?#]*)', 1) AS website, event_time, visit_id, page FROM {referrals}
"""


@lake_query(
    LAST_REFERRALS,
    reads=[REFERRALS],
    sql=QUERY,
    write=partial(merge_changes, keys=["website"], order_by=["event_time", "visit_id"]),
    gates=Gates(checks={"changes_of_one_place_agree": "No two visits of one time and identity differ."}),
    about="marketing, who ask which websites no longer send anybody",
)
def last_referrals() -> None:
    """Merge one day's visits by website; the newest visit of a website wins, in any order of days."""
