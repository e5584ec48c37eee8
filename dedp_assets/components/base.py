"""Base class of the components for Dagster and `dg`: attributes, faults and definitions of a document."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import dagster as dg
from pydantic import BaseModel, PrivateAttr, model_validator

from dedp_assets.components.yaml.reading import is_loading

__all__ = ["DeclaredComponent"]

# `dg` imports this module in every environment: what needs Spark is imported by the methods that need it.


class DeclaredComponent(dg.Component):
    """A document that declares something, by an entry of :data:`~dedp_assets.components.kinds.KINDS`.

    Args:
        declared: the declaration; ``None`` if it has faults.
        definitions: what Dagster shows of the declaration, or of the faults.
    """

    produces: ClassVar[list[str]]

    def __init__(self, declared: Any, definitions: dg.Definitions) -> None:  # noqa: ANN401 - of any kind
        self.declared, self._definitions = declared, definitions

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes, for the JSON schema; faults are kept for :meth:`load`."""
        return _kept(_type_of(cls))

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return the specification for `dg list components`."""
        summary = (cls.__doc__ or "").partition("\n")[0]
        return dg.ComponentTypeSpec(description=summary, tags=["dedp", "spark", "deltalake"], produces=cls.produces)

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> DeclaredComponent:
        """Make the component of a document; faults do not keep other documents from loading."""
        from dedp_assets.components.loading import component_in, component_of  # noqa: PLC0415

        tree = context.resolution_context.source_position_tree
        if tree is None or tree.position.filename == "<string>":
            return cls(*component_of(_type_of(cls), getattr(attributes, "_stated", None)))
        return cls(*component_in(tree.position.filename, tree.position.start.line, context))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - of every component
        """Return the definitions of the declaration; for a faulty one, an asset with the faults."""
        return self._definitions


def _type_of(cls: type[DeclaredComponent]) -> str:
    return f"dedp_assets.components.{cls.__name__}"


@cache
def _kept(kind: str) -> type[BaseModel]:
    """Return the attributes' model that takes everything, and keeps all as in the file."""
    from dedp_assets.components.kinds import KINDS  # noqa: PLC0415

    base: Any = KINDS[kind].attributes()

    class Attributes(base):  # type: ignore[misc]
        __doc__ = base.__doc__
        _stated: Any = PrivateAttr(None)

        @classmethod
        def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - as pydantic's
            """Return the JSON schema; while a location loads, the beginning alone.

            Dagster then asks every component of the environment for the schema, for a page of the UI, and to write
            the options of all patterns takes longer than the load.
            """
            if is_loading():
                return {"title": kind, "type": "object", "description": "`dedp schema` prints the schema."}
            schema: dict[str, Any] = super().model_json_schema(*args, **options)
            return schema

        @model_validator(mode="wrap")
        @classmethod
        def _keep(cls, stated: Any, _handler: object) -> Any:  # noqa: ANN401 - whatever a file states
            made = cls.model_construct()
            made._stated = stated
            return made

    return Attributes
