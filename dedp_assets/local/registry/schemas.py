"""Schemas of a registry: their identity, normal form, versions and references."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

from dedp_assets.patterns.connectors.schema_references import Reference, Referred, self_contained
from dedp_assets.patterns.core.strict_json import parse_json

__all__ = [
    "KINDS",
    "LATEST",
    "Content",
    "Kind",
    "Reference",
    "RegistryError",
    "Version",
    "content_of",
    "inlined",
    "number_of",
]

Kind = Literal["AVRO", "JSON"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Types of schemas, as in ``schemaType``."""
LATEST = -1
_LARGEST = 1_000_000
_MOST = 2**31 - 1
_SPACE = uuid.UUID("6d1f0d5e-6b43-4f0c-8f0e-1a6f4f2a9c11")
"""Namespace of the identities of contents."""


class RegistryError(Exception):
    """A refused request.

    Attributes:
        code: error code of Confluent's API; its first three digits are the HTTP status.
    """

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code // 100


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A version of a subject: the place of a content in the subject's history.

    Attributes:
        subject: name of the subject.
        number: from 1 on.
        id: id of the content, one for all subjects.
        deleted: whether the version is softly deleted: out of the history, and still readable by id.
    """

    subject: str
    number: int
    id: int
    deleted: bool = False


@dataclass(frozen=True)
class Content:
    """A schema with references, metadata and rules; equal contents have one id in all subjects.

    Attributes:
        schema: text of the schema: JSON without blanks, members in the order as given.
        kind: one of :data:`KINDS`.
        references: names in the schema that stand for versions of other subjects.
        more: metadata and rules as JSON, kept as given; empty for none.
    """

    schema: str
    kind: Kind = "AVRO"
    references: tuple[Reference, ...] = ()
    more: str = ""

    @cached_property
    def guid(self) -> str:
        """Identity: equal for equal contents, in each registry."""
        named = [[each.name, each.subject, each.version] for each in self.references]
        return str(uuid.uuid5(_SPACE, json.dumps([self.kind, self.schema, named, self.more])))

    @cached_property
    def normal(self) -> Content:
        """The content with members of the schema in alphabetic order, and references by name."""
        by_name = tuple(sorted(self.references, key=lambda each: each.name))
        return replace(self, schema=_compact(json.loads(self.schema), ordered=True), references=by_name)

    def as_json(self) -> dict[str, Any]:
        """Return the content as members of a JSON answer."""
        answer: dict[str, Any] = {"schema": self.schema, "guid": self.guid}
        if self.kind != "AVRO":
            answer["schemaType"] = self.kind
        if self.references:
            named = [{"name": each.name, "subject": each.subject, "version": each.version} for each in self.references]
            answer["references"] = named
        return answer | (json.loads(self.more) if self.more else {})


def content_of(body: object) -> Content:
    """Return the content in the body of a request.

    Raises:
        RegistryError: 42201 if the body describes none; 42209 for a schema that is too large.
    """
    if not isinstance(body, Mapping) or not isinstance(text := body.get("schema"), str):
        raise RegistryError(42201, "the body must be an object with the text of a schema in its member schema")
    kind = body.get("schemaType", "AVRO")
    if kind not in KINDS:
        raise RegistryError(42201, f"schemaType must be one of {', '.join(KINDS)}, not {kind}")
    if len(text.encode()) > _LARGEST:
        raise RegistryError(42209, f"a schema must have at most {_LARGEST} bytes, not {len(text.encode())}")
    try:
        schema = parse_json(text.encode())
    except ValueError as error:
        raise RegistryError(42201, f"the schema is no JSON: {error}") from None
    kept = {name: body[name] for name in ("metadata", "ruleSet") if body.get(name)}
    more = _compact(kept, ordered=True) if kept else ""
    return Content(_compact(schema, ordered=False), kind, _references(body.get("references")), more)


def number_of(text: str) -> int:
    """Return the number of a version in an address: from 1 on, or :data:`LATEST`.

    Raises:
        RegistryError: 42202 for another text.
    """
    if text in ("latest", str(LATEST)):
        return LATEST
    if text.isascii() and text.isdecimal() and 1 <= int(text[:11]) <= _MOST:
        return int(text)
    raise RegistryError(42202, f"a version must be a number from 1 to {_MOST}, or latest, not {text}")


def inlined(content: Content, find: Callable[[Reference], Content]) -> str:
    """Return the text of a schema with the referenced schemas inside.

    Args:
        content: the schema.
        find: returns the content of a reference.
    """

    def referred(reference: Reference) -> Referred:
        found = find(reference)
        return found.schema, found.references

    return self_contained(content.schema, content.references, referred, dialect=content.kind)


def _references(given: object) -> tuple[Reference, ...]:
    if not given:
        return ()
    if not isinstance(given, list):
        raise RegistryError(42201, "references must be a list of objects with name, subject and version")
    return tuple(map(_reference, given))


def _reference(given: object) -> Reference:
    values = [given.get(key) for key in ("name", "subject", "version")] if isinstance(given, Mapping) else []
    name, subject, version = values or (None, None, None)
    if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
        raise RegistryError(42201, "a reference must be an object with name, subject and the number of a version")
    if version != LATEST:
        number_of(str(version))
    return Reference(name, subject, version)


def _compact(value: object, *, ordered: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=ordered)
