"""The component of maintenance and detectors: patterns over existing tables, for Dagster and `dg`."""

from __future__ import annotations

import dagster as dg

from dedp_assets.components.base import DeclaredComponent
from dedp_assets.components.scaffolding import MaintenanceScaffolder

__all__ = ["MaintenanceComponent"]


@dg.scaffold_with(MaintenanceScaffolder)
class MaintenanceComponent(DeclaredComponent):
    """Maintenance and detectors: patterns that keep, inspect or plan for tables that others compute."""

    produces = ["asset", "asset_check", "job", "schedule", "sensor"]
