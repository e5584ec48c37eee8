"""Visits of embedded pages, delivered to partners by the minute, and the receipts of the deliveries."""

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.declare import About, Pinned, Runs, lake_table
from dedp_assets.graph.systems.services import Services, lacking
from dedp_assets.patterns import Column, RecordColumns, TableSpec, Target, WriteResult, deliver_in_bins
from dedp_assets.patterns.connectors.delivery.http_sink import HttpSink
from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
from dedp_assets.patterns.connectors.delivery.sinks import OTHERS
from dedp_assets.patterns.core.parsing.json_schemas import record_schema_of

PARTNER_DELIVERY = TableSpec(
    "platform/partner_delivery",
    {"event_date": Column("DATE", "UTC day of the visits", required=True), **RECEIPT},
    partition_by=("event_date",),
    comment="One row per visit that a partner has acknowledged.",
)
EMBEDDED = """
    SELECT visit_id, event_time, page, status, date_trunc('MINUTE', event_time) AS minute,
        regexp_extract(lower(referrer), '^https?://([^/?#]+)', 1) AS partner
    FROM {visits} WHERE lower(referrer) RLIKE '^https?://[^/?#]'
"""
SENT = ("visit_id", "event_time", "page", "status")
CONTRACTS = {OTHERS: record_schema_of(VISITS, columns=SENT)}
"""Contract of the records of every partner."""


@lake_table(
    PARTNER_DELIVERY,
    reads=[VISITS],
    runs=Runs(needs=lacking),
    about=About(
        owner="team:partners",
        used_by="partners, who read what they were sent in their inbox",
        derived={
            "destination": ["referrer"],
            "record_id": ["visit_id"],
            "entity": ["page"],
            "position": ["event_time"],
            "was_present": ["visit_id"],
        },
    ),
    patterns=[deliver_in_bins],
)
def partner_delivery(visits: Pinned, into: Target, services: Services) -> WriteResult:
    """Deliver one day's visits of embedded pages without a receipt, by minute and in order per page."""
    rows = visits.rows()
    return deliver_in_bins(
        rows.sparkSession.sql(EMBEDDED, visits=rows),
        into,
        sink(services),
        columns=RecordColumns(entity="page", order_by=["event_time"], identity="visit_id", payload=SENT),
        destination="partner",
        unit="minute",
    )


def sink(services: Services) -> HttpSink:
    """Return the sink of the partners, an inbox each."""
    return HttpSink(services.at("partners"), contracts=CONTRACTS)
