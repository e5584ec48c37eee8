"""Wiring of this project: the resources that assets and sensors may ask for, by name.

The classes are in `dedp_assets.resources`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dedp_assets.resources.clock import Clock
from dedp_assets.resources.environments import settings
from dedp_assets.resources.kafka import Kafka
from dedp_assets.resources.lake import Lake
from dedp_assets.resources.landing import Landing
from dedp_assets.resources.postgres import OperationalDatabase
from dedp_assets.resources.secrets import Secrets
from dedp_assets.resources.services import Services
from dedp_assets.resources.spark import SparkEngine

__all__ = ["resources"]


def resources() -> Mapping[str, object]:
    """Make the resources of the graph, from the settings in the environment."""
    chosen = settings()
    engine = SparkEngine(remote=chosen.remote or "")
    return {
        "clock": Clock(),
        "engine": engine,
        "kafka": Kafka(bootstrap=chosen.kafka or "", topic=chosen.kafka_topic),
        "kafka_ads": Kafka(bootstrap=chosen.kafka or "", topic=chosen.ads_topic),
        "lake": Lake(root=str(chosen.lakehouse), engine=engine),
        "landing": Landing(root=str(chosen.landing)),
        "operational": OperationalDatabase(),
        "secrets": Secrets(),
        "services": Services(url=chosen.services or ""),
    }
