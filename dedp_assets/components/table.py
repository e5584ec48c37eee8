"""The component of a table: a declaration in YAML, for Dagster and `dg`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import BaseModel, PrivateAttr, model_validator

from dedp_assets.components.scaffolding import TableScaffolder

if TYPE_CHECKING:
    from dedp_assets.graph.declare import LakeTable

__all__ = ["TableComponent"]

# `dg` imports this module in every environment: what needs Spark is imported by the methods that need it.


@dg.scaffold_with(TableScaffolder)
class TableComponent(dg.Component):
    """A table of the lake: columns, upstream tables, and the steps that compute one partition.

    Args:
        table: the declared table; ``None`` if its declaration has faults.
        definitions: what Dagster shows of the table, or of the faults.
    """

    def __init__(self, table: LakeTable[...] | None, definitions: dg.Definitions) -> None:
        self.table, self._definitions = table, definitions

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes, for the JSON schema; faults are kept for :meth:`load`."""
        return _kept()

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return the specification for `dg list components`."""
        return dg.ComponentTypeSpec(
            description="A table of the lake: columns, upstream tables, and the steps that compute one partition.",
            tags=["dedp", "spark", "deltalake"],
            produces=["asset", "asset_check", "job", "schedule", "sensor"],
        )

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> TableComponent:
        """Make the component of a document; faults do not keep other documents from loading."""
        from dedp_assets.components.loading import component_in, component_of  # noqa: PLC0415

        tree = context.resolution_context.source_position_tree
        if tree is None or tree.position.filename == "<string>":
            return cls(*component_of(getattr(attributes, "_stated", None)))
        return cls(*component_in(tree.position.filename, tree.position.start.line, context))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - of every component
        """Return assets, checks, jobs and schedules of the table; for a faulty one, an asset with the faults."""
        return self._definitions


@cache
def _kept() -> type[BaseModel]:
    """Return the attributes' model that takes everything, and keeps all as in the file."""
    from dedp_assets.components.attributes import attributes  # noqa: PLC0415

    base: Any = attributes()

    class TableAttributes(base):  # type: ignore[misc]
        __doc__ = base.__doc__
        _stated: Any = PrivateAttr(None)

        @model_validator(mode="wrap")
        @classmethod
        def _keep(cls, stated: Any, _handler: object) -> Any:  # noqa: ANN401 - whatever a file states
            made = cls.model_construct()
            made._stated = stated
            return made

    return TableAttributes
