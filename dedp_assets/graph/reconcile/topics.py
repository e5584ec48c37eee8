"""Requests of runs that read a topic: one for offsets that a table has not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from dedp_assets.graph.reconcile.requests import decide, is_running
from dedp_assets.patterns.connectors.kafka.topics import position
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.delta import Ledger

if TYPE_CHECKING:
    from dedp_assets.graph.systems.kafka import Kafka

__all__ = ["requested"]


def requested(
    instance: dg.DagsterInstance, ledger: Ledger, kafka: Kafka, *, job: str, code: str = ""
) -> dg.SensorResult | dg.SkipReason:
    """Request a run of the job if the topic holds unread records.

    Args:
        instance: where runs are recorded.
        ledger: log of the table that takes the records.
        kafka: the topic.
        job: name of the job.
        code: version of the code; what another one refused is requested again.
    """
    table = ledger.name
    if is_running(instance, job):
        return dg.SkipReason(f"{job} is running")
    try:
        topic = kafka.describe()
        known = position(ledger, topic)
    except PatternError as error:
        return dg.SkipReason(str(error))
    if (known.topic_id, known.offsets) == (topic.id, topic.end):
        return dg.SkipReason(f"everything of topic {topic.name} was read: offsets {dict(topic.end)}")
    plan = Plan((table,), "the topic holds more", causes={table: "topic"}, cursor={table: known.cursor})
    decision = decide(instance, plan, asset=table, job_name=job, code=code)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason(decision.held[table])
