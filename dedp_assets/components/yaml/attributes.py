"""Attributes of a table in a file: the records of the declaration, and the steps of the computation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Annotated, Any

import dagster as dg
from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import core_schema

from dedp_assets.components.chains.operations import operations
from dedp_assets.components.yaml.model import (
    Name,
    Options,
    PythonName,
    TableName,
    choice,
    create,
    model_of,
    options_of,
    stands_for,
)
from dedp_assets.graph.declare import About, Feed, Gates, Reads, Runs, Span, lake_table, partitions
from dedp_assets.graph.inputs import feeds
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["RECORDS", "ListInSchema", "PatternName", "attributes", "step_model"]

RECORDS = ("reads", "runs", "gates", "about", "code_version")
"""Parts of a table's declaration in Python that a file says in the same words."""


_NARROWED = {"reads": Reads, "runs": Runs, "gates": Gates, "about": About}
"""Option -> record type in YAML, whose fields editors and `dg` show, without the short forms of Python."""


class PatternName(Name):
    """Name of a pattern, ``chapter.module``."""

    __slots__ = ()


@dataclass(frozen=True)
class ListInSchema:
    """Builds the JSON schema of a list on demand, with the options of every pattern.

    Attributes:
        model: returns the model of an element.
    """

    model: Callable[[], Any]

    def __get_pydantic_json_schema__(
        self, _list: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "array", "minItems": 1, "items": handler(self.model().__pydantic_core_schema__)}


def _functions_of(module: ModuleType, returned: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """Yield the public functions of a module with a given return type."""
    for name in module.__all__:
        found = inspect.unwrap(getattr(module, name)) if callable(getattr(module, name)) else None
        if inspect.isfunction(found) and returned(str(found.__annotations__.get("return"))):
            yield name, getattr(module, name)


def _one_of(title: str, module: ModuleType, returned: Callable[[str], bool], text: str) -> Callable[[], Any]:
    """Return the maker of a choice between a module's functions by name, or a Python object."""

    @cache
    def made() -> Any:  # noqa: ANN401 - a model
        named = {name: model_of(function) for name, function in _functions_of(module, returned)}
        return choice(title, {**named, "python": PythonName}, text)

    return made


stands_for(TableSpec, lambda: TableName)
stands_for(Span, _one_of("Span", feeds, "Span".__eq__, "How a partition takes several of the upstream table."))
stands_for(
    Feed,
    _one_of("Feed", feeds, ("Feed", "Span").__contains__, "How partitions of the upstream table feed partitions."),
)
stands_for(
    dg.PartitionsDefinition,
    _one_of("Partitions", partitions, lambda kind: kind.endswith("PartitionsDefinition"), "Partitions of the table."),
)


@cache
def attributes() -> type[Options]:
    """Return the model of a table's attributes."""
    spec = model_of(TableSpec)
    optional: Mapping[str, Any] = {"default_factory": lambda: None}
    fields: dict[str, Any] = {
        "table": (spec, Field(description="The table.")),
        **options_of(lake_table, RECORDS, _NARROWED),
        "steps": (
            Annotated[tuple[dict[str, Any], ...], ListInSchema(step_model), Field(min_length=1)],
            Field(description="Steps that compute one partition, in order; the last one writes."),
        ),
        "beside": (tuple[spec, ...], Field(description="Further tables that the steps write.", **optional)),  # type: ignore[valid-type]
        "patterns": (
            tuple[PatternName, ...],
            Field(description="The patterns at work, the main one first, where Python steps hide them.", **optional),
        ),
        "description": (str, Field(description="What a run computes, in one sentence.", **optional)),
    }
    return create("TableAttributes", fields, "A table of the lake, and the steps that compute one partition of it.")


@cache
def step_model() -> type[Options]:
    """Return the model of a step with every operation, for the JSON schema."""
    optional: Mapping[str, Any] = {"default_factory": lambda: None}
    fields: dict[str, Any] = {
        "sql": (str, Field(description="SQL over {rows}, upstream tables and earlier steps by name.", **optional)),
        "python": (PythonName, Field(description="A function whose parameters are such names.", **optional)),
        "from": (str, Field(description="What the step takes instead of the rows of the step before.", **optional)),
        "as": (str, Field(description="Name of the result, for later steps.", **optional)),
    }
    fields |= {name: (each.model, Field(description=each.summary, **optional)) for name, each in operations().items()}
    made = create("Step", fields, "One operation by its name, with its options.")
    made.model_config["json_schema_extra"] = {"minProperties": 1, "maxProperties": 3}
    made.model_rebuild(force=True)
    return made
