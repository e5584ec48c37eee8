"""The composition root of the case study: declarations of `defs`, resources and sensors."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from dedp_assets.location import lake_definitions
from resources import resources
from sensors import sensors

__all__ = ["defs"]


@dg.definitions
def defs() -> dg.Definitions:
    """Put together everything of this code location."""
    return lake_definitions(Path(__file__).parent, resources=resources(), sensors=sensors)
