"""JSON Schema: inclusion of one schema's values in another schema's, by keyword.

A schema is the conjunction of parts: a type with the limits of the type, an enumeration, a choice (``oneOf``,
``anyOf``), a negation. Each part of the reader needs a part of the data's schema that is at least as strict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.quality._compatibility.incompatibility import Pairs, Problem, all_problems, at, below
from dedp_assets.patterns.quality._compatibility.json_schemas import TYPE_OF_KEYWORD, JsonSchema, type_of, types_of

__all__ = ["problems", "read"]

_MAXIMA = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_MINIMA = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_SAME = ("pattern", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems")
"""Keywords whose removal alone is compatible."""
_CHOICES = ("oneOf", "anyOf")
_LENIENT = frozenset(
    {
        "additional_properties_narrowed",
        "additional_properties_removed",
        "property_added_to_open_model",
        "property_added_not_covered",
        "property_removed_from_closed_model",
        "property_removed_not_covered",
    }
)
"""Rules without effect under the lenient policy."""


def read(text: str) -> JsonSchema:
    """Read a schema.

    Raises:
        ValueError: for a text that is no valid JSON Schema, or refers to a place outside of the text.
    """
    return JsonSchema(parse_json(text))


def problems(reader: JsonSchema, writer: JsonSchema, *, lenient: bool = False) -> list[Problem]:
    """List the obstacles to reading data of ``writer`` by ``reader``."""
    allowed = _LENIENT if lenient else frozenset()
    return all_problems(lambda pairs: _Walk(reader, writer, pairs, allowed).uncovered(reader.root, writer.root))


@dataclass(frozen=True)
class _Walk:
    """A walk through two schemas."""

    reader: JsonSchema
    writer: JsonSchema
    pairs: Pairs
    allowed: frozenset[str]

    def uncovered(self, reader: Any, writer: Any) -> list[Problem]:  # noqa: ANN401 - JSON
        """List the obstacles to reading data of one schema by another."""
        reader, writer = self.reader.resolved(reader, alone=True), self.writer.resolved(writer, alone=True)
        return self.pairs.judged(reader, writer, lambda: self._whole(reader, writer))

    def _whole(self, reader: Any, writer: Any) -> list[Problem]:  # noqa: ANN401 - JSON
        wanted, given = self.reader.parts(reader), self.writer.parts(writer)
        if False in given:
            return []
        if False in wanted:
            return [Problem("", "nothing_allowed", "the reader allows no value at all")]
        found = list[Problem]()
        for part in wanted:
            found += self._part(part, given, writer)
        return list(dict.fromkeys(found))

    def _part(self, part: Mapping[str, Any], given: Sequence[Any], writer: Any) -> list[Problem]:  # noqa: ANN401 - JSON
        """List the problems of one part of the reader with the part of the data's schema that comes nearest."""
        if False in given:
            return []
        if not given:
            return [Problem("", "restriction_added", f"the data may be anything, the reader asks for {_shown(part)}")]
        tried = [self._pair(part, each) for each in given]
        name = next((choice for choice in _CHOICES if choice in part), None)
        if name and not any(choice in each for each in given for choice in _CHOICES):
            tried += [self.uncovered(branch, writer) for branch in part[name]]
        if not all(tried):
            return []
        if name and len(tried) > 1:
            return [Problem("", "no_branch_fits", f"no branch of {name} of the reader allows all of the data")]
        return min(tried, key=lambda found: (_differs(found), len(found)))

    def _pair(self, part: Mapping[str, Any], given: Mapping[str, Any]) -> list[Problem]:
        """List the problems of a part of the reader with a part of the data's schema."""
        choice = next((name for name in _CHOICES if name in given), None)
        if choice is not None:
            return self._choice(part, given[choice], choice)
        if "not" in part and "not" in given:
            inner = _Walk(self.writer, self.reader, self.pairs, self.allowed).uncovered(given["not"], part["not"])
            return [Problem("", "not_extended", "the reader excludes more")] if inner else []
        if "enum" in part:
            return _enumeration(part["enum"], given.get("enum"))
        if "enum" in given and set(part) == {"type"}:
            wrong = [value for value in given["enum"] if not type_of(value) & types_of(part)]
            return [Problem("", "type_changed", f"{wrong} is not {_shown(part)}")] if wrong else []
        if "type" in part and "type" in given:
            return list(self._typed(part, given))
        return [] if part == given else [_other_type(part, given)]

    def _choice(self, part: Mapping[str, Any], branches: Sequence[Any], name: str) -> list[Problem]:
        other = next((each for each in _CHOICES if each in part), None)
        if other is None:
            return [problem for branch in branches for problem in self._part(part, self.writer.parts(branch), branch)]
        if other == "oneOf" and name != other:
            return [Problem("", "choice_changed", "values that several branches allow pass anyOf and not oneOf")]
        lost = [_shown(branch) for branch in branches if all(self.uncovered(wanted, branch) for wanted in part[other])]
        message = f"the reader has no branch for {', '.join(lost)}"
        return [Problem("", "branch_removed", message)] if lost else []

    def _typed(self, part: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
        if lost := types_of(given, spread=True) - types_of(part, spread=True):
            rule = "type_narrowed" if types_of(given, spread=True) - lost else "type_changed"
            yield replace(_other_type(part, given), rule=rule)
            return
        yield from _limits(part, given)
        common = types_of(given, spread=True) & types_of(part, spread=True)
        if "object" in common:
            yield from self._object(part, given)
        if "array" in common:
            yield from self._array(part, given)

    def _object(self, part: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
        mine, theirs = part.get("properties", {}), given.get("properties", {})
        for name in mine.keys() & theirs.keys():
            yield from below(name, self.uncovered(mine[name], theirs[name]))
        for name in theirs.keys() - mine.keys():
            yield from self._removed(name, theirs[name], part)
        for name in mine.keys() - theirs.keys():
            yield from self._added(name, mine[name], given)
        for name in part.get("required", ()):
            if name not in given.get("required", ()) and not _has_default(self.reader.resolved(mine.get(name))):
                yield Problem(
                    name, "required_added", "the reader requires it without a default, and the data may lack it"
                )
        yield from self._additional(part, given)
        yield from self._dependencies(part, given)

    def _removed(self, name: str, theirs: Any, part: Mapping[str, Any]) -> Iterator[Problem]:  # noqa: ANN401 - JSON
        rest = self.reader.rest(part, name)
        if rest is False:
            if theirs is not False and "property_removed_from_closed_model" not in self.allowed:
                message = "the reader has no such property and allows no others (additionalProperties)"
                yield Problem(name, "property_removed_from_closed_model", message)
        elif "property_removed_not_covered" not in self.allowed and (inner := self.uncovered(rest, theirs)):
            message = f"the reader allows it only as {_shown(rest)}: {inner[0].message}"
            yield Problem(name, "property_removed_not_covered", message)

    def _added(self, name: str, mine: Any, given: Mapping[str, Any]) -> Iterator[Problem]:  # noqa: ANN401 - JSON
        rest = self.writer.rest(given, name)
        if rest is False or not (inner := self.uncovered(mine, rest)):
            return
        opened = self.writer.parts(rest) == []
        rule = "property_added_to_open_model" if opened else "property_added_not_covered"
        if rule not in self.allowed:
            what = "anything" if opened else _shown(rest)
            yield Problem(name, rule, f"the data may already hold {what} under this name: {inner[0].message}")

    def _additional(self, part: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
        rest, before = part.get("additionalProperties", True), given.get("additionalProperties", True)
        if before is False:
            missing = given.get("patternProperties", {}).items()
            for pattern, theirs in missing if rest is False else ():
                if pattern not in part.get("patternProperties", {}) and theirs is not False:
                    message = f"properties like {pattern} are no longer allowed"
                    yield Problem("", "additional_properties_narrowed", message)
        elif rest is False and "additional_properties_removed" not in self.allowed:
            yield Problem("", "additional_properties_removed", "the reader allows no further properties")
        elif rest is not False and "additional_properties_narrowed" not in self.allowed:
            inner = self.uncovered(rest, before)
            yield from (Problem(at("{}", p.path), "additional_properties_narrowed", p.message) for p in inner)
        for pattern, mine in part.get("patternProperties", {}).items():
            theirs = given.get("patternProperties", {}).get(pattern, before)
            yield from below(f"{{{pattern}}}", self.uncovered(mine, theirs))

    def _dependencies(self, part: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
        before = given.get("dependencies", {})
        for name, mine in part.get("dependencies", {}).items():
            theirs = before.get(name)
            if isinstance(mine, list):
                fine = isinstance(theirs, list) and set(mine) <= set(theirs)
            else:
                fine = theirs is not None and not isinstance(theirs, list) and not self.uncovered(mine, theirs)
            if not fine:
                yield Problem(name, "dependency_added", "the reader asks for more where this property is there")

    def _array(self, part: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
        (mine, rest), (theirs, before) = _tuple(part), _tuple(given)
        for place in range(max(len(mine), len(theirs))):
            inner = self._item(mine[place : place + 1], theirs[place : place + 1], rest, before)
            yield from below(f"[{place}]" if mine or theirs else "[]", inner)
        if rest is False and before is not False:
            yield Problem("[]", "additional_items_removed", "the reader allows no further items")
        elif before is not False:
            yield from below("[]", self.uncovered(rest, before))
        if part.get("uniqueItems") and not given.get("uniqueItems"):
            yield Problem("", "unique_items_added", "the reader asks for different items, the data may repeat them")

    def _item(self, mine: Sequence[Any], theirs: Sequence[Any], rest: Any, before: Any) -> list[Problem]:  # noqa: ANN401 - JSON
        if mine and theirs:
            return self.uncovered(mine[0], theirs[0])
        if mine:
            return [] if before is False else self.uncovered(mine[0], before)
        return [] if theirs[0] is False else self.uncovered(rest, theirs[0])


def _other_type(part: Any, given: Any) -> Problem:  # noqa: ANN401 - JSON
    return Problem("", "type_changed", f"{_shown(given)} cannot be read as {_shown(part)}")


def _differs(found: Sequence[Problem]) -> bool:
    return any(problem.path == "" and problem.rule == "type_changed" for problem in found)


def _shown(schema: Any) -> str:  # noqa: ANN401 - JSON
    """Write a schema in a few words."""
    if not isinstance(schema, dict):
        return "anything" if schema else "nothing"
    kinds = schema.get("type")
    text = " or ".join(kinds) if isinstance(kinds, list) else kinds
    return text or json.dumps(schema, sort_keys=True)[:60]


def _has_default(schema: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(schema, dict) and "default" in schema


def _tuple(schema: Mapping[str, Any]) -> tuple[Sequence[Any], Any]:
    """Return the schemas of the first items, and the schema of further items."""
    items = schema.get("items", schema.get("additionalItems", True))
    if "prefixItems" in schema:
        return schema["prefixItems"], items
    return (items, schema.get("additionalItems", True)) if isinstance(items, list) else ((), items)


def _enumeration(wanted: Sequence[Any], given: Sequence[Any] | None) -> list[Problem]:
    if given is None:
        return [Problem("", "enum_added", f"the reader allows only {wanted}")]
    known = {json.dumps(value, sort_keys=True) for value in wanted}
    lost = [value for value in given if json.dumps(value, sort_keys=True) not in known]
    return [Problem("", "enum_narrowed", f"the reader does not allow {lost}")] if lost else []


def _limits(part: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Problem]:
    """List the limits of numbers, texts and sizes that are stricter for the reader."""
    kinds = types_of(given) | ({"number"} if "integer" in types_of(given) else set())
    for name, mine in part.items():
        theirs = given.get(name)
        if TYPE_OF_KEYWORD.get(name) in kinds and _is_stricter(name, mine, theirs):
            message = f"{name} is {json.dumps(mine)}, the data has {'none' if theirs is None else json.dumps(theirs)}"
            yield Problem("", f"{name}_{'added' if theirs is None else 'changed'}", message)


def _is_stricter(name: str, mine: Any, theirs: Any) -> bool:  # noqa: ANN401 - JSON
    if name in _MAXIMA:
        return theirs is None or bool(theirs > mine)
    if name in _MINIMA:
        least = -math.inf if name in ("minimum", "exclusiveMinimum") else 0
        return bool(mine > (least if theirs is None else theirs))
    if name == "multipleOf":
        return theirs is None or not _is_multiple(theirs, mine)
    return name in _SAME and mine != theirs


def _is_multiple(value: float, of: float) -> bool:
    return abs(value / of - round(value / of)) < 1e-9
