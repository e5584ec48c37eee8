"""The component of a landing: a folder, a database table or a topic in YAML, for Dagster and `dg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from dedp_assets.components.base import DeclaredComponent
from dedp_assets.components.scaffolding import LandingScaffolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dedp_assets.graph.declare import LakeTable

__all__ = ["LandingComponent"]


@dg.scaffold_with(LandingScaffolder)
class LandingComponent(DeclaredComponent):
    """A folder, a database table or a topic as tables: records as landed, valid records, dead letters."""

    declared: Sequence[LakeTable[...]] | None
    produces = ["asset", "asset_check", "job", "schedule", "sensor"]
