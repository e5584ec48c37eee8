"""Topics: records that nobody has read yet wake the step that reads them."""

import dagster as dg

from dedp_assets.patterns.connectors.topics import position
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.results import Plan
from resources.environments import settings
from resources.kafka import Kafka
from resources.lake import Lake
from sensors.requests import decide, is_running

__all__ = ["visits_streamed"]

_JOB = "stream_visits"
_TABLE = "bronze/visits"


@dg.sensor(
    job_name=_JOB,
    minimum_interval_seconds=2 * settings().tick_seconds,
    default_status=dg.DefaultSensorStatus.RUNNING if settings().kafka else dg.DefaultSensorStatus.STOPPED,
    description="Records of the visits topic that bronze has not read start a run that reads them.",
)
def visits_streamed(context: dg.SensorEvaluationContext, lake: Lake, kafka: Kafka) -> dg.SensorResult | dg.SkipReason:
    """Compare the topic's offsets with those in bronze's log; the run refuses a topic that lost records."""
    if is_running(context.instance, _JOB):
        return dg.SkipReason(f"{_JOB} is running")
    try:
        topic = kafka.look()
        known = position(lake.ledger(_TABLE), topic)
    except PatternError as error:
        return dg.SkipReason(str(error))
    if (known.topic_id, known.offsets) == (topic.id, topic.end):
        return dg.SkipReason(f"everything of topic {topic.name} was read: offsets {dict(topic.end)}")
    plan = Plan((_TABLE,), "the topic holds more", causes={_TABLE: "topic"}, cursor={_TABLE: known.cursor})
    decision = decide(context.instance, plan, asset=_TABLE, job_name=_JOB)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason(decision.held[_TABLE])
