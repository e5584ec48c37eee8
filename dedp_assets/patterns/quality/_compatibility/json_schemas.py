"""Reader of a JSON Schema: references, types, and conjuncts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["TYPE_OF_KEYWORD", "JsonSchema", "type_of", "types_of"]

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_BY_TYPE = {
    "string": ("maxLength", "minLength", "pattern"),
    "number": ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"),
    "array": (
        *("items", "prefixItems", "additionalItems", "maxItems", "minItems", "uniqueItems"),
        *("contains", "maxContains", "minContains", "unevaluatedItems"),
    ),
    "object": (
        *("properties", "patternProperties", "additionalProperties", "required", "maxProperties", "minProperties"),
        *("dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties"),
    ),
}
TYPE_OF_KEYWORD = {name: kind for kind, names in _BY_TYPE.items() for name in names}
"""Keyword of JSON Schema -> type of the limited values."""
_CONDITIONS = ("if", "then", "else")
_SCHEMAS = ("items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", *_CONDITIONS)
_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED_SCHEMAS = ("oneOf", "anyOf", "allOf", "prefixItems")
_ELSEWHERE = {"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"}
"""Keywords with schemas that evaluate properties and items of the same value."""


class JsonSchema:
    """A JSON Schema whose references lead into the text itself.

    Args:
        root: the schema as JSON.

    Raises:
        ValueError: for what is no valid schema, or refers to a place that is not in it.
    """

    def __init__(self, root: Any) -> None:  # noqa: ANN401 - JSON
        self.root = root
        self._anchors: dict[str, Any] = {}
        self._parts: dict[int, list[Any]] = {}
        self._require_valid(root, "")
        for schema in list(self._schemas(root)):
            self.resolved(schema)

    def parts(self, schema: Any) -> list[Any]:  # noqa: ANN401 - JSON
        """List the conjuncts of a schema; empty for a schema without conditions."""
        if isinstance(schema, bool):
            return [] if schema else [False]
        if id(schema) not in self._parts:
            self._parts[id(schema)] = []  # a reference to itself asks for nothing more
            self._parts[id(schema)] = list(self._of(schema))
        return self._parts[id(schema)]

    def resolved(self, schema: Any, *, alone: bool = False) -> Any:  # noqa: ANN401 - JSON
        """Follow references to a schema without a reference, or (``alone``) to one with further keywords."""
        passed = set[str]()
        while isinstance(schema, dict) and "$ref" in schema and not (alone and len(schema) > 1):
            place = schema["$ref"]
            if place in passed:
                return True
            passed.add(place)
            schema = self._target(place)
        return schema

    def rest(self, part: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
        """Return the schema of an object's further properties."""
        patterns = part.get("patternProperties", {}).items()
        matching = [schema for pattern, schema in patterns if _matches(pattern, name)]
        return matching[0] if matching else part.get("additionalProperties", True)

    def _of(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        if "$ref" in schema:
            yield from self.parts(self._target(schema["$ref"]))
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if values is not None:
            yield {"enum": values}
        yield from _typed(schema)
        for branch in schema.get("allOf", ()):
            yield from self.parts(branch)
        yield from self._choices(schema)
        for names in (("not",), _CONDITIONS):
            if stated := {name: schema[name] for name in names if name in schema}:
                yield stated

    def _choices(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for name in ("oneOf", "anyOf"):
            if len(branches := schema.get(name, ())) == 1:
                yield from self.parts(branches[0])
            elif branches:
                yield {name: branches}

    def _target(self, place: str) -> Any:  # noqa: ANN401 - JSON
        if place in self._anchors:
            return self._anchors[place]
        start, *steps = place.split("/")
        found: Any = self.root if start == "#" else self._anchors.get(start)
        try:
            for step in steps:
                name = step.replace("~1", "/").replace("~0", "~").replace("%25", "%").replace("%22", '"')
                found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            found = None
        if found is None:
            raise ValueError(f"$ref must lead to a place in the schema itself, not to {place!r}")
        return found

    def _schemas(self, schema: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
        if not isinstance(schema, dict):
            return
        yield schema
        for inner, _ in _inside(schema):
            yield from self._schemas(inner)

    def _require_valid(self, schema: Any, path: str) -> None:  # noqa: ANN401 - JSON
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            shown = json.dumps(schema)[:60]
            raise ValueError(f"{path or 'the schema'} must be an object, true or false, not {shown}")  # noqa: TRY004
        kinds = schema.get("type", [])
        if unknown := [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind not in _TYPES]:
            raise ValueError(f"{path or 'the schema'} must have a type of JSON Schema, not {unknown[0]!r}")
        _require_keywords(schema, path)
        for key in ("$id", "id", "$anchor"):
            if isinstance(name := schema.get(key), str):
                self._anchors[f"#{name}" if key == "$anchor" else name] = schema
        for inner, name in _inside(schema):
            self._require_valid(inner, f"{path}.{name}".strip("."))


def types_of(part: Mapping[str, Any], *, spread: bool = False) -> set[str]:
    """Return the types of a part; ``spread`` tells numbers into integers and fractions."""
    kinds = part["type"]
    found = set(kinds) if isinstance(kinds, list) else {kinds}
    return found | {"integer", "fraction"} if spread and "number" in found else found


def type_of(value: Any) -> set[str]:  # noqa: ANN401 - JSON
    """Return the types of a JSON value."""
    if value is None or isinstance(value, bool):
        return {"null" if value is None else "boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if float(value).is_integer() else {"number"}
    return {"string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"}


def _typed(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """List the type of a schema with the limits; without a stated type, the type of the limits."""
    limits = {name: value for name, value in schema.items() if name in TYPE_OF_KEYWORD}
    kinds = schema.get("type") or sorted({TYPE_OF_KEYWORD[name] for name in limits})
    if not kinds:
        return
    several = [limits.pop(name, {}) for name in ("dependencies", "dependentSchemas", "dependentRequired")]
    if not _ELSEWHERE & schema.keys():  # all that is evaluated is evaluated here
        items = "additionalItems" if isinstance(limits.get("items"), list) else "items"
        for name, plain in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", items)):
            limits |= {plain: limits.get(plain, limits.pop(name))} if name in limits else {}
    for name, plain in (("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")):
        if isinstance(excluded := limits.get(name), bool):  # as of draft 4
            del limits[name]
            limits |= {name: limits.pop(plain)} if excluded and plain in limits else {}
    dependencies = {name: value for each in several for name, value in each.items()}
    yield {"type": kinds, **limits, **({"dependencies": dependencies} if dependencies else {})}


def _inside(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """List the schemas inside of a schema, with their names."""
    for key in _SCHEMAS:
        if key in schema and not isinstance(schema[key], list):
            yield schema[key], key
    for key in (*_LISTED_SCHEMAS, "items"):
        if isinstance(listed := schema.get(key), list):
            yield from ((inner, f"{key}[{place}]") for place, inner in enumerate(listed))
    for key in _NAMED_SCHEMAS:
        yield from ((inner, name) for name, inner in schema.get(key, {}).items())


def _require_keywords(schema: Mapping[str, Any], path: str) -> None:
    """Refuse keywords with values of another kind than the walk through two schemas relies on."""
    kinds: dict[str, type | tuple[type, ...]] = {
        **dict.fromkeys(_NAMED_SCHEMAS, dict),
        **dict.fromkeys((*_LISTED_SCHEMAS, "required", "enum"), list),
        **dict.fromkeys(("maximum", "minimum", "multipleOf", *_sizes()), (int, float)),
        **dict.fromkeys(("pattern", "$ref"), str),
    }
    for name, kind in kinds.items():
        if name in schema and not isinstance(schema[name], kind):
            raise ValueError(f"{name} of {path or 'the schema'} is {json.dumps(schema[name])[:60]}")


def _matches(pattern: str, name: str) -> bool:
    """Return whether a name matches; no name matches a pattern that only JavaScript can read."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _sizes() -> list[str]:
    return [name for name in TYPE_OF_KEYWORD if name.startswith(("max", "min"))]
