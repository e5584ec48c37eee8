"""References between Avro schemas of a registry, and schemas with the referenced types inside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from dedp_assets.patterns.connectors.encoding.avro_schemas import full_name
from dedp_assets.patterns.core.parsing.strict_json import parse_json

__all__ = ["Reference", "Referred", "self_contained"]

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference in a schema.

    Attributes:
        name: full name of the type.
        subject: the subject of the schema that is meant.
        version: its version there.
    """

    name: str
    subject: str
    version: int


Referred: TypeAlias = tuple[str, Sequence[Reference]]
"""Text of a schema, and the references of the schema."""
_Find: TypeAlias = Callable[[Reference], Referred]


def self_contained(text: str, references: Sequence[Reference], find: _Find) -> str:
    """Return the text of an Avro schema with each referenced type at the first use of the type's name.

    Args:
        text: the schema.
        references: its references.
        find: returns the schema of a reference.
    """
    if not references:
        return text
    return json.dumps(_with_types(text, references, find), ensure_ascii=False, separators=(",", ":"))


def _with_types(text: str, references: Sequence[Reference], find: _Find) -> Json:
    definitions = {}
    for each in references:
        inner, more = find(each)
        definitions[each.name] = _with_types(inner, more, find)
    return _inlined(parse_json(text), "", definitions, set())


def _inlined(schema: Json, space: str, definitions: Mapping[str, Json], defined: set[str]) -> Json:
    """Return a schema with the definition of each referenced type at the first use of the type's name.

    A definition may be used by several schemas that are put in: it is walked through like the rest, and a type that is
    defined already becomes its name.
    """
    of = partial(_inlined, definitions=definitions, defined=defined)
    if isinstance(schema, str):
        full = next((each for each in (full_name(schema, space), schema) if each in definitions), "")
        return schema if not full or full in defined else of(definitions[full], "")
    if isinstance(schema, list):
        return [of(each, space) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("name"), str) and schema.get("type") in ("record", "error", "enum", "fixed"):
        full = full_name(schema["name"], schema.get("namespace", space))
        if full in defined:
            return full
        defined.add(full)
        return _with_fields(schema, partial(of, space=full.rpartition(".")[0]))
    return {**schema, **{name: of(schema[name], space) for name in ("type", "items", "values") if name in schema}}


def _with_fields(schema: dict[str, Json], of: Callable[[Json], Json]) -> Json:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        return schema
    typed = [
        {**each, "type": of(each["type"])} if isinstance(each, dict) and "type" in each else each for each in fields
    ]
    return {**schema, "fields": typed}
