"""Wiring of this project: the sensors that wake the graph as a whole.

The sensors' functions are in `dedp_assets.graph.sensors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from dedp_assets.case_study.sources import operational as applications
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.sensors.alerts import alerts
from dedp_assets.graph.sensors.external_trigger import events_arrived
from dedp_assets.graph.sensors.lineage import lineage
from dedp_assets.graph.sensors.positions import of_all, slot_positions, topic_positions
from dedp_assets.graph.sensors.reconciler import reconcilers
from dedp_assets.graph.sensors.replay import dead_letters_fixed
from dedp_assets.graph.sensors.small_files import files_scattered

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
