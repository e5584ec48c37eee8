"""Wiring of this project: the sensors that wake the graph as a whole.

The sensors' functions are in `dedp_assets.sensors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.resources.environments import settings
from dedp_assets.sensors.alerts import alerts
from dedp_assets.sensors.external_trigger import events_arrived
from dedp_assets.sensors.lineage import lineage
from dedp_assets.sensors.positions import topic_positions
from dedp_assets.sensors.reconciler import reconcilers
from dedp_assets.sensors.replay import dead_letters_fixed
from dedp_assets.sensors.small_files import files_scattered

__all__ = ["sensors"]


def sensors(tables: Sequence[LakeTable[...]], jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """Make the sensors over the declared tables and their jobs."""
    return [
        *reconcilers(tables, jobs),
        dead_letters_fixed(tables),
        events_arrived(tables, jobs),
        files_scattered,
        alerts(tables, positions=partial(topic_positions, "bronze/visits"), resources={"kafka"}),
        *([lineage(url)] if (url := settings().lineage_url) else []),
    ]
