"""Wiring of this project: resources for the source systems of the case study, by name.

:func:`~dedp_assets.location.lake_resources` makes the others; the classes are in `dedp_assets.graph.resources`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.graph.systems.orchestrator import Orchestrator
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.graph.systems.services import Services

__all__ = ["resources"]


def resources() -> Mapping[str, object]:
    """Make the resources of the source systems, from the settings in the environment."""
    chosen = settings()
    return {
        "kafka": Kafka(bootstrap=chosen.kafka or "", topic=chosen.kafka_topic),
        "kafka_ads": Kafka(bootstrap=chosen.kafka or "", topic=chosen.ads_topic),
        "operational": OperationalDatabase(),
        "orchestrator": Orchestrator(),
        "services": Services(url=chosen.services or ""),
    }
