"""The component of a table: a declaration in YAML, for Dagster and `dg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from dedp_assets.components.base import DeclaredComponent
from dedp_assets.components.scaffolding import TableScaffolder

if TYPE_CHECKING:
    from dedp_assets.graph.declare import LakeTable

__all__ = ["TableComponent"]


@dg.scaffold_with(TableScaffolder)
class TableComponent(DeclaredComponent):
    """A table of the lake: columns, upstream tables, and the steps that compute one partition."""

    declared: LakeTable[Any] | None
    produces = ["asset", "asset_check", "job", "schedule", "sensor"]
