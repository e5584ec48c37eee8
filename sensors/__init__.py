"""Wiring of this project: the sensors that wake the graph as a whole.

The sensors' functions are in `dedp_assets.sensors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.resources.environments import settings
from dedp_assets.sensors.alerts import alerts
from dedp_assets.sensors.external_trigger import events_arrived
from dedp_assets.sensors.lineage import lineage
from dedp_assets.sensors.positions import of_all, slot_positions, topic_positions
from dedp_assets.sensors.reconciler import reconcilers
from dedp_assets.sensors.replay import dead_letters_fixed
from dedp_assets.sensors.small_files import files_scattered
from dedp_assets.sources import operational as applications

__all__ = ["sensors"]

POSITIONS = of_all(
    topic_positions("bronze/visits"),
    topic_positions("bronze/ads", broker="kafka_ads"),
    slot_positions("bronze/users_history", source=applications.USERS, slot=applications.USERS_SLOT),
)


def sensors(tables: Sequence[LakeTable[...]], jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """Make the sensors over the declared tables and their jobs."""
    return [
        *reconcilers(tables, jobs),
        dead_letters_fixed(tables),
        events_arrived(tables, jobs),
        files_scattered,
        alerts(tables, positions=POSITIONS, resources={"kafka", "kafka_ads", "operational"}),
        *([lineage(url)] if (url := settings().lineage_url) else []),
    ]
