"""The composition root of the reports: a code location of its own."""

from __future__ import annotations

import dagster as dg

from dedp_assets.location import package_definitions
from dedp_assets.reporting import defs as package

__all__ = ["defs"]


@dg.definitions
def defs() -> dg.Definitions:
    """Put together everything of this code location."""
    return package_definitions(package)
