"""Websites that send visitors, and the visited pages: two tables of the same referrals."""

from dedp_assets.case_study.defs.silver.referrals import REFERRALS
from dedp_assets.graph.declare import Gates, Pinned, lake_table
from dedp_assets.patterns import (
    Audit,
    Column,
    TableRows,
    TableSpec,
    Target,
    WriteResult,
    publish_group,
    write_transaction,
)

_COUNT = Column("BIGINT", "referrals of the day", required=True, classification="public")
REFERRING_SITES = TableSpec(
    "gold/referring_sites",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "site": Column("STRING", "host that sent the visitors", required=True, classification="public"),
        "referrals": _COUNT,
    },
    partition_by=("event_date",),
    comment="One row per day and website that sent a visitor; of the same referrals as gold/referred_pages.",
)
REFERRED_PAGES = TableSpec(
    "gold/referred_pages",
    {
        "event_date": Column("DATE", "UTC day", required=True, classification="public"),
        "page": Column("STRING", "path that visitors were sent to", required=True, classification="public"),
        "referrals": _COUNT,
    },
    partition_by=("event_date",),
    comment="One row per day and page that a visitor was sent to; of the same referrals as gold/referring_sites.",
)
BY_SITE = """
    SELECT event_date, coalesce(parse_url(referrer, 'HOST'), '') AS site, count(*) AS referrals
    FROM {referrals} GROUP BY ALL
"""
BY_PAGE = "SELECT event_date, page, count(*) AS referrals FROM {referrals} GROUP BY ALL"
AUDITS = (Audit.all_read("every_referral_is_counted", "referrals"),)


@lake_table(
    REFERRING_SITES,
    beside={REFERRED_PAGES: [write_transaction]},
    reads=[REFERRALS],
    gates=Gates(AUDITS, if_empty="Warns of a date that no other website sent a visit on."),
    about="marketing, who compare the websites that send visitors",
    patterns=[write_transaction],
)
def referring_sites(referrals: Pinned, into: Target, pages: Target) -> WriteResult:
    """Count one day's referrals by site and by page, and publish both tables or none."""
    rows = referrals.rows()
    count = referrals.count()
    return publish_group(
        [
            TableRows(
                rows.sparkSession.sql(query, referrals=rows),
                target.reading(figures={"read": count}, represented="referrals"),
                allow_empty=True,
            )
            for target, query in ((into, BY_SITE), (pages.with_audits(*AUDITS), BY_PAGE))
        ]
    )
