"""References between schemas of a registry, and texts of schemas with the referenced schemas inside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Reference", "Referred", "self_contained"]

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference in a schema.

    Attributes:
        name: what the schema calls it: an Avro type's full name, or the address in a JSON Schema's ``$ref``.
        subject: the subject of the schema that is meant.
        version: its version there.
    """

    name: str
    subject: str
    version: int


Referred: TypeAlias = tuple[str, Sequence[Reference]]
"""Text of a schema, and the references of the schema."""
_Find: TypeAlias = Callable[[Reference], Referred]


def self_contained(text: str, references: Sequence[Reference], find: _Find, *, dialect: str) -> str:
    """Return the text of a schema with the referenced schemas inside.

    Args:
        text: the schema.
        references: its references.
        find: returns the schema of a reference.
        dialect: ``AVRO``: each type stands at the first use of its name; ``JSON``: each schema stands in ``$defs``.
    """
    if not references:
        return text
    schema = _with_types(text, references, find) if dialect == "AVRO" else _with_documents(text, references, find)
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


# --- JSON Schema ------------------------------------------------------------------------------------------------------


def _with_documents(text: str, references: Sequence[Reference], find: _Find) -> Json:
    documents: dict[str, Json] = {}

    def placed(text: str, references: Sequence[Reference], here: str) -> Json:
        places = {each.name: _key(each) for each in references}
        for each in references:
            if places[each.name] not in documents:
                documents[places[each.name]] = None  # its place in the order
                documents[places[each.name]] = placed(*find(each), _pointer(places[each.name]))
        return _moved(json.loads(text), here, {name: _pointer(key) for name, key in places.items()})

    schema = placed(text, references, "#")
    return {**schema, "$defs": {**schema.get("$defs", {}), **documents}} if isinstance(schema, dict) else schema


def _moved(schema: Json, here: str, places: Mapping[str, str]) -> Json:
    """Return a schema with local references from the root of the enclosing document."""
    if isinstance(schema, list):
        return [_moved(each, here, places) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _moved(each, here, places) for name, each in schema.items()}
    if isinstance(place := found.get("$ref"), str):
        address, mark, within = place.partition("#")
        if address in places:
            found["$ref"] = places[address] + within
        elif not address and mark and (not within or within.startswith("/")):
            found["$ref"] = here + within
    return found


def _key(reference: Reference) -> str:
    return f"{reference.subject}:{reference.version}"


def _pointer(key: str) -> str:
    return "#/$defs/" + key.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace('"', "%22")


# --- Avro -------------------------------------------------------------------------------------------------------------


def _with_types(text: str, references: Sequence[Reference], find: _Find) -> Json:
    definitions = {}
    for each in references:
        inner, more = find(each)
        definitions[each.name] = _with_types(inner, more, find)
    return _Inlining(definitions).of(json.loads(text), "")


class _Inlining:
    """A walk through an Avro schema that inlines referenced types at the first use of a name.

    A definition may be used by several schemas that are put in: it is walked through like the rest, and a type that is
    defined already becomes its name.
    """

    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions = definitions
        self._defined: set[str] = set()

    def of(self, schema: Json, space: str) -> Json:
        if isinstance(schema, str):
            return self._called(schema, space)
        if isinstance(schema, list):
            return [self.of(each, space) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if isinstance(schema.get("name"), str) and schema.get("type") in ("record", "error", "enum", "fixed"):
            return self._named(schema, space)
        within = {name: self.of(schema[name], space) for name in ("type", "items", "values") if name in schema}
        return {**schema, **within}

    def _called(self, name: str, space: str) -> Json:
        full = next((each for each in (_full(name, space), name) if each in self._definitions), "")
        return name if not full or full in self._defined else self.of(self._definitions[full], "")

    def _named(self, schema: dict[str, Json], space: str) -> Json:
        full = _full(schema["name"], schema.get("namespace") or space)
        if full in self._defined:
            return full
        self._defined.add(full)
        fields, within = schema.get("fields"), full.rpartition(".")[0]
        if not isinstance(fields, list):
            return schema
        typed = [
            {**each, "type": self.of(each["type"], within)} if isinstance(each, dict) and "type" in each else each
            for each in fields
        ]
        return {**schema, "fields": typed}


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"
