"""Avro schemas: SQL types, and values as JSON in the spelling of Spark's ``to_json``.

Logical types are left out of the schema that values are read by: they arrive as numbers and bytes, so that no value
passes through a type of Python that would cut or refuse it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dedp_assets.patterns.connectors.encoding.json_spelling import (
    Text,
    of_bytes,
    of_clock,
    of_date,
    of_double,
    of_float,
    of_null,
    of_string,
    of_times,
    of_truth,
)
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.names import identifier

__all__ = ["AvroSqlType", "NOTHING", "full_name", "node_of"]

NOTHING = "null"
"""Type of a value that is always NULL."""
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class AvroSqlType:
    """A type of an Avro schema.

    Attributes:
        stored: the type without logical types, as Avro's JSON.
        sql: SQL type; :data:`NOTHING` for one without values.
        text: writes a value as JSON.
        fields: of a record, its fields by name.
    """

    stored: Any
    sql: str
    text: Text
    fields: Mapping[str, AvroSqlType] = field(default_factory=dict)


def node_of(schema: Any, file: str) -> AvroSqlType:  # noqa: ANN401 - JSON
    """Return the type of the records of a file.

    Args:
        schema: the writer's schema.
        file: name of the file, for the sentence of a refusal.

    Raises:
        ContractError: for a schema of no records, or with a type that is not read: a union of several types, or a
            record within itself.
    """
    try:
        found = _SchemaWalk(file).node(schema, "", "")
    except (KeyError, TypeError, AttributeError) as error:
        raise ContractError(f"{file} has no schema of Avro: {error!r}") from error
    if not found.fields:
        raise ContractError(f"{file} holds no records with fields: {json.dumps(schema)[:80]}")
    return found


def full_name(name: str, space: str) -> str:
    """Return the full name of a type that is named within a namespace."""
    return name if "." in name or not space else f"{space}.{name}"


@dataclass
class _SchemaWalk:
    """A walk through the schema of a file, which knows the types that have names."""

    file: str
    named: dict[str, AvroSqlType | None] = field(default_factory=dict)

    def node(self, schema: Any, space: str, path: str) -> AvroSqlType:  # noqa: ANN401 - JSON
        if isinstance(schema, list):
            return self._union(schema, space, path)
        if isinstance(schema, str):
            return self._called(schema, space, path)
        kind = schema["type"]
        if not isinstance(kind, str) or kind not in _COMPLEX:
            plain = self.node(kind, space, path)
            return _logical(plain, schema)
        made: AvroSqlType = _COMPLEX[kind](self, schema, space, path)
        return _logical(made, schema)

    def _called(self, name: str, space: str, path: str) -> AvroSqlType:
        if name in _PRIMITIVE:
            return _PRIMITIVE[name]
        full = full_name(name, space)
        full = full if full in self.named else name
        if full not in self.named:
            raise ContractError(f"{self.file} has a column {path} of type {name}, which its schema does not define")
        found = self.named[full]
        if found is None:
            raise ContractError(f"{self.file} has a column {path}, a {name} within itself, which is not read")
        stored = found.stored["name"] if isinstance(found.stored, dict) else found.stored
        return AvroSqlType(stored, found.sql, found.text, found.fields)

    def _union(self, schema: list[Any], space: str, path: str) -> AvroSqlType:
        kinds = [self.node(kind, space, path) for kind in schema]
        some = [kind for kind in kinds if kind.sql != NOTHING]
        if len(some) > 1:
            types = " and ".join(kind.sql for kind in some)
            raise ContractError(f"{self.file} has a column {path}, a union of {types}, which is not read")
        if not some:
            return AvroSqlType([kind.stored for kind in kinds], NOTHING, of_null)
        text = some[0].text
        written: Text = text if len(kinds) == 1 else lambda value: "null" if value is None else text(value)
        return AvroSqlType(
            [kind.stored for kind in kinds], some[0].sql, written, some[0].fields if len(kinds) == 1 else {}
        )

    def _name(self, schema: Mapping[str, Any], space: str) -> tuple[str, str]:
        """Return the full name of a defined type, and the namespace of the types within."""
        name = full_name(schema["name"], schema.get("namespace", space))
        return name, name.rpartition(".")[0]

    def _record(self, schema: Mapping[str, Any], space: str, path: str) -> AvroSqlType:
        name, within = self._name(schema, space)
        self.named[name] = None
        called = f"t{len(self.named)}"
        fields = dict[str, AvroSqlType]()
        for each in schema["fields"]:
            place = f"{path}.{each['name']}".lstrip(".")
            if each["name"] in fields:
                raise ContractError(f"{self.file} has two columns {place}")
            fields[each["name"]] = self.node(each["type"], within, place)
        # Names of its own: fastavro refuses names that other writers take.
        kept = [{"name": f"f{n}", "type": each.stored} for n, each in enumerate(fields.values())]
        writers = [(f"f{n}", f"{of_string(key)}:", each.text) for n, (key, each) in enumerate(fields.items())]

        def text(value: Any) -> str:  # noqa: ANN401 - a dictionary
            return "{" + ",".join([start + write(value[key]) for key, start, write in writers]) + "}"

        sql = f"STRUCT<{', '.join(f'{identifier(key)}: {_within(each.sql)}' for key, each in fields.items())}>"
        self.named[name] = made = AvroSqlType({"type": "record", "name": called, "fields": kept}, sql, text, fields)
        return made

    def _enum(self, schema: Mapping[str, Any], space: str, path: str) -> AvroSqlType:  # noqa: ARG002 - as for every type
        texts = dict(enumerate(map(of_string, schema["symbols"])))
        name, _ = self._name(schema, space)
        self.named[name] = made = AvroSqlType("int", "STRING", texts.__getitem__)
        return made

    def _fixed(self, schema: Mapping[str, Any], space: str, path: str) -> AvroSqlType:  # noqa: ARG002 - as for every type
        name, _ = self._name(schema, space)
        self.named[name] = None
        stored = {"type": "fixed", "name": f"t{len(self.named)}", "size": int(schema["size"])}
        self.named[name] = made = _logical(AvroSqlType(stored, "BINARY", of_bytes), schema)
        return made

    def _array(self, schema: Mapping[str, Any], space: str, path: str) -> AvroSqlType:
        items = self.node(schema["items"], space, path)
        write = items.text

        def text(value: Any) -> str:  # noqa: ANN401 - a list
            return "[" + ",".join([write(each) for each in value]) + "]"

        return AvroSqlType({"type": "array", "items": items.stored}, f"ARRAY<{_within(items.sql)}>", text)

    def _map(self, schema: Mapping[str, Any], space: str, path: str) -> AvroSqlType:
        values = self.node(schema["values"], space, path)
        write = values.text

        def text(value: Any) -> str:  # noqa: ANN401 - a dictionary
            return "{" + ",".join([f"{of_string(key)}:{write(each)}" for key, each in value.items()]) + "}"

        return AvroSqlType({"type": "map", "values": values.stored}, f"MAP<STRING, {_within(values.sql)}>", text)


def _within(sql: str) -> str:
    return "STRING" if sql == NOTHING else sql


def _logical(plain: AvroSqlType, schema: Mapping[str, Any]) -> AvroSqlType:
    """Return a type with the logical type, or without an unknown or unfit one, by Avro's rules."""
    name, kind = schema.get("logicalType"), plain.stored
    kind = kind["type"] if isinstance(kind, dict) else kind
    if not isinstance(name, str) or not isinstance(kind, str):
        return plain
    if name == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(plain, schema.get("precision"), schema.get("scale", 0))
    if name == "uuid" and kind == "fixed" and plain.stored["size"] == 16:
        return AvroSqlType(plain.stored, "STRING", lambda value: f'"{uuid.UUID(bytes=value)}"')
    sql, text = _LOGICAL.get((name, kind), (plain.sql, plain.text))
    return AvroSqlType(plain.stored, sql, text, plain.fields)


def _decimal(plain: AvroSqlType, precision: Any, scale: Any) -> AvroSqlType:  # noqa: ANN401 - JSON
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or not precision:
        return plain

    def text(value: bytes) -> str:
        whole = int.from_bytes(value, "big", signed=True)
        digits = tuple(map(int, str(abs(whole))))
        return str(Decimal((int(whole < 0), digits, -scale)))  # as a BigDecimal writes itself

    sql = f"DECIMAL({precision},{scale})" if precision <= _MOST_DIGITS else "STRING"
    return AvroSqlType(plain.stored, sql, text)


_PRIMITIVE = {
    "null": AvroSqlType("null", NOTHING, of_null),
    "boolean": AvroSqlType("boolean", "BOOLEAN", of_truth),
    "int": AvroSqlType("int", "INT", str),
    "long": AvroSqlType("long", "BIGINT", str),
    "float": AvroSqlType("float", "FLOAT", of_float),
    "double": AvroSqlType("double", "DOUBLE", of_double),
    "bytes": AvroSqlType("bytes", "BINARY", of_bytes),
    "string": AvroSqlType("string", "STRING", of_string),
}
_COMPLEX: Mapping[str, Callable[..., AvroSqlType]] = {
    "record": _SchemaWalk._record,
    "error": _SchemaWalk._record,
    "enum": _SchemaWalk._enum,
    "fixed": _SchemaWalk._fixed,
    "array": _SchemaWalk._array,
    "map": _SchemaWalk._map,
}
_UNITS = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_LOGICAL: Mapping[tuple[str, str], tuple[str, Text]] = {
    ("date", "int"): ("DATE", of_date),
    ("time-millis", "int"): ("STRING", of_clock(1_000)),
    ("time-micros", "long"): ("STRING", of_clock(1_000_000)),
    **{(f"timestamp-{unit}", "long"): ("TIMESTAMP", of_times(n, "Z")) for unit, n in _UNITS.items()},
    **{(f"local-timestamp-{unit}", "long"): ("TIMESTAMP_NTZ", of_times(n, "")) for unit, n in _UNITS.items()},
}
"""Logical type and type below -> SQL type, and the writer of a text."""
