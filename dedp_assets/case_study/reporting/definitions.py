"""The composition root of the reports, a separate code location."""

from __future__ import annotations

import dagster as dg

from dedp_assets.case_study.reporting import defs as package
from dedp_assets.graph.sensors.markers import markers_finished
from dedp_assets.location import package_definitions

__all__ = ["defs"]


@dg.definitions
def defs() -> dg.Definitions:
    """Put together everything of this code location."""
    return package_definitions(package, sensors=lambda tables, jobs: [markers_finished(tables, jobs)])
