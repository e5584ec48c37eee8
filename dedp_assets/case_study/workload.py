"""Source systems of the case study for a laptop, and the next steps of their applications' workload."""

from __future__ import annotations

import psycopg

from dedp_assets.case_study.sources import operational, visits_topic
from dedp_assets.case_study.sources.ads import ads_before
from dedp_assets.case_study.sources.visits import visits_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems import kafka
from dedp_assets.graph.systems import postgres as database
from dedp_assets.laptop.processes import SourceSystems
from dedp_assets.project import project

__all__ = ["SYSTEMS", "work"]

_FIRST_STEPS = 5
_VISITS_PER_STEP = 10


def _fill(connection: psycopg.Connection) -> None:
    """Create the operational database's tables; the first call runs the first steps."""
    operational.create(connection)
    if connection.execute("SELECT 1 FROM workload_steps LIMIT 1").fetchone() is None:
        operational.work(connection, at=Clock().now(), steps=_FIRST_STEPS)


SYSTEMS = SourceSystems(services="dedp_assets.case_study.sources.services:application", fill=_fill)
"""Source systems that ``dedp up`` serves in a checkout."""


def work(settings: Settings, *, steps: int) -> int:
    """Run the next steps of the applications' workload: database changes, and visits and ads for Kafka.

    Raises:
        NotReady: if the database does not run, or a broker that was named does not answer.
    """
    project().require_case_study("the workload")
    now = Clock().now()
    with database.address(settings).connect() as connection:
        operational.create(connection)
        last = operational.work(connection, at=now, steps=steps)
    done = f"{steps} steps done in the operational database, up to step {last}"
    if broker := kafka.address(settings):
        topic = kafka.Kafka(bootstrap=broker, topic=settings.kafka_topic)
        visits = visits_of(now.date(), count=steps * _VISITS_PER_STEP, seed=last)
        ads = kafka.Kafka(bootstrap=broker, topic=settings.ads_topic)
        shown = visits_topic.publish(ads, ads_before(visits, seed=last), key="ad_page")
        done += f"; {shown} ads published to topic {ads.topic}"
        done += f"; {visits_topic.publish(topic, visits)} visits published to topic {topic.topic}"
    print(done)  # noqa: T201
    return 0
