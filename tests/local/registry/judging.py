"""A judge of two rules, schemas to judge, and a registry's address for Confluent's client."""

from __future__ import annotations

import json

from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.results import Finding

APART = {
    "int": 0,
    "boolean": False,
    "string": "",
    '{"type": "array", "items": "int"}': [],
    '{"type": "map", "values": "int"}': {},
    '{"type": "fixed", "name": "two", "size": 2}': "..",
}
"""Types of which none is read as another one -> a default."""


def judge(new, history, *, mode="BACKWARD", dialect="AVRO"):
    """Refuse another type of a field, and, for new readers, fields that have no default and were not there."""
    wanted, faults = _fields(new, dialect), []
    for old in [_fields(text, dialect) for text in (history if mode.endswith("_TRANSITIVE") else history[-1:])]:
        faults += [f"{name} has another type" for name in {*wanted} & {*old} if wanted[name][0] != old[name][0]]
        pairs = {"BACKWARD": [(wanted, old)], "FORWARD": [(old, wanted)], "FULL": [(wanted, old), (old, wanted)]}
        for reader, writer in pairs.get(mode.removesuffix("_TRANSITIVE"), []):
            faults += [f"{name} has no default" for name in {*reader} - {*writer} if not reader[name][1]]
    passed = mode == "NONE" or not faults
    return Finding("new_schema_is_compatible", passed, note="" if passed else "; ".join(sorted(faults)))


def _fields(text, dialect):
    schema = json.loads(text)
    if dialect == "JSON":
        return {name: (json.dumps(each), True) for name, each in schema.get("properties", {}).items()}
    if not isinstance(schema, dict):
        return {}
    if schema.get("type") != "record" or "fields" not in schema:
        raise ContractError(f"{text} is no record")
    return {each["name"]: (json.dumps(each["type"]), "default" in each) for each in schema["fields"]}


def record(*fields, name="Visit"):
    """An Avro schema; ``f`` is a field without default, ``f=`` one with, ``f:type`` one of a type."""
    made = []
    for field in fields:
        called, _, kind = field.rstrip("=").partition(":")
        kind = kind or "int"
        each = {"name": called, "type": json.loads(kind) if kind.startswith("{") else kind}
        made.append(each | ({"default": APART[kind]} if field.endswith("=") else {}))
    return json.dumps({"type": "record", "name": name, "fields": made})
