"""Failed visits, forwarded in order of processing, and the receipts of the deliveries."""

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.checks.letters import taken
from dedp_assets.graph.declare import About, Pinned, Runs, lake_table
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems import kafka as broker
from dedp_assets.graph.systems import registry
from dedp_assets.graph.systems import services as inboxes
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.graph.systems.services import Services
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, deliver_in_order
from dedp_assets.patterns.connectors.delivery.http_sink import HttpSink
from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
from dedp_assets.patterns.connectors.delivery.sinks import Sink
from dedp_assets.patterns.connectors.delivery.topic_sink import TopicSink
from dedp_assets.patterns.core.parsing.json_schemas import record_schema_of
from dedp_assets.patterns.value.fifo_orderer import RecordColumns

ALERTS = TableSpec(
    "platform/alerts",
    {"event_date": Column("DATE", "UTC day of the visits", required=True), **RECEIPT},
    partition_by=("event_date",),
    comment="One row per visit whose failure was forwarded.",
)
DESTINATION = "alerts"
RULE = "status >= 500"
SENT = ("visit_id", "event_time", "page", "status")
_FAILED_VISITS = replace(VISITS, checks={**VISITS.checks, "visit_failed": RULE})
CONTRACTS = {DESTINATION: record_schema_of(_FAILED_VISITS, columns=SENT)}
"""Contract of the alerts: the columns of silver/visits, with a status that says failure."""


def lacking() -> str:
    """Return the reason why no sink takes alerts now; empty if a sink does."""
    chosen = settings()
    return broker.lacking(chosen.kafka) or registry.lacking(chosen) if chosen.kafka else inboxes.lacking()


@lake_table(
    ALERTS,
    reads=[VISITS],
    runs=Runs(needs=lacking),
    about=About(
        used_by="whoever is on duty, by the topic alerts or the inbox of that name",
        derived={
            "destination": ["status"],
            "record_id": ["visit_id"],
            "entity": ["status"],
            "position": ["landed_on", "source_file", "line_number"],
            "was_present": ["visit_id"],
        },
    ),
    patterns=[deliver_in_order],
)
def alerts(visits: Pinned, into: Target, kafka: Kafka, services: Services) -> WriteResult:
    """Forward one day's failed visits without a receipt, strictly in landing order."""
    return deliver_in_order(
        taken(visits.rows(), rest=VISITS, where=RULE),
        into,
        sink(kafka, services),
        columns=RecordColumns(order_by=["landed_on", "source_file", "line_number"], identity="visit_id", payload=SENT),
        destination=DESTINATION,
    )


def sink(kafka: Kafka, services: Services) -> Sink:
    """Choose the sink of alerts: a topic, created if needed, or without a broker the HTTP service.

    Where a schema registry is configured, records of the topic name the contract's schema there.
    """
    if not kafka.bootstrap:
        return HttpSink(services.at("partners"), contracts=CONTRACTS)
    kafka.model_copy(update={"topic": DESTINATION}).create(partitions=1)
    return TopicSink(broker.client(kafka.bootstrap), schemas=registry.client(settings()), contracts=CONTRACTS)
