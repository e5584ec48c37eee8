"""Validation of OpenLineage events against the published schemas, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

FOLDER = Path(__file__).parent / "graph" / "mail" / "openlineage_schemas"
SCHEMAS = {each["$id"]: each for each in (json.loads(path.read_text()) for path in FOLDER.glob("*.json"))}
REGISTRY = Registry().with_resources((name, Resource.from_contents(each)) for name, each in SCHEMAS.items())
FORMATS = FormatChecker()


@FORMATS.checks("date-time", raises=ValueError)
def is_time(text: object) -> bool:
    return not isinstance(text, str) or datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None


@FORMATS.checks("uri", raises=ValueError)
def is_uri(text: object) -> bool:
    return not isinstance(text, str) or bool(urlsplit(text).scheme)


def faults_of(event: Mapping[str, Any]) -> list[str]:
    """Faults of an event by the core schema, and of each facet by the facet's own schema."""
    core = next(name for name in SCHEMAS if name.endswith("/OpenLineage.json"))
    found = _faults(f"{core}#/$defs/RunEvent", event, "event")
    return found + [fault for name, facet in facets_of(event) for fault in _faults(facet["_schemaURL"], facet, name)]


def facets_of(value: object, name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and content of every facet within a value."""
    if isinstance(value, dict):
        if "_schemaURL" in value:
            yield name, value
        for key, each in value.items():
            yield from facets_of(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from facets_of(each, name)


def _faults(address: str, value: object, name: str) -> list[str]:
    checking = Draft202012Validator({"$ref": address}, registry=REGISTRY, format_checker=FORMATS)
    return [f"{name}: {each.message}" for each in checking.iter_errors(value)]
