"""Differences between two schemas of a table, and the changes that Delta makes in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql.types import DataType, StructType

from dedp_assets.patterns.core.errors import SchemaMismatch
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.ddl import LENGTH, field
from dedp_assets.patterns.core.types.nesting import Kind, outer
from dedp_assets.patterns.core.types.partitions import stored_type
from dedp_assets.patterns.core.types.sql_types import nullable
from dedp_assets.patterns.core.types.widening import is_widening

__all__ = [
    "CONSTRAINTS",
    "WIDENING",
    "SchemaChange",
    "data_type",
    "differences",
    "made_in_place",
    "may_widen",
    "schema_changes",
    "sized_type",
]

CONSTRAINTS = "delta.constraints."
"""Prefix of the table properties with CHECK constraints."""

WIDENING = "delta.enableTypeWidening"
"""Table property that lets Delta widen types of stored columns."""
_DEFAULTS = ("EXISTS_DEFAULT", "CURRENT_DEFAULT")
_INSIDE = {
    "array": (("elementType", "containsNull", "element"),),
    "map": (("keyType", "", "key"), ("valueType", "valueContainsNull", "value")),
}


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A difference of one field between two schemas.

    Attributes:
        kind: what became of the field; ``null_allowed`` and ``null_forbidden`` are about NULL among its values.
        path: names of the fields from the column on; ``element``, ``key`` and ``value`` inside arrays and maps.
        before: type in the earlier schema, in the form of the log; of an added field, the type of the later one.
        after: type in the later schema; of a removed field, the type of the earlier one.
        required: whether an added or removed field must have a value.
        has_default: whether an added field has a default for earlier rows.
    """

    kind: Literal["added", "removed", "retyped", "null_allowed", "null_forbidden"]
    path: tuple[str, ...]
    before: Kind
    after: Kind
    required: bool = False
    has_default: bool = False

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def clause(self) -> str:
        """The clause of ALTER TABLE that adds the field, or widens the type of the field."""
        path, kind = ".".join(map(identifier, self.path)), nullable(data_type(self.after))
        return f"ADD COLUMNS ({path} {kind})" if self.kind == "added" else f"ALTER COLUMN {path} TYPE {kind}"


def schema_changes(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], path: tuple[str, ...] = ()
) -> Iterator[SchemaChange]:
    """List the differences between two lists of fields, at every depth, without case and order.

    Args:
        before: fields of the earlier schema, in the form of the log's schema.
        after: fields of the later schema.
        path: fields around both.

    Raises:
        SchemaMismatch: for two fields of a schema whose names differ in case only.

    Example:
        >>> old = {"name": "id", "type": "integer", "nullable": True}
        >>> [(change.kind, change.name, change.after) for change in schema_changes([old], [{**old, "type": "long"}])]
        [('retyped', 'id', 'long')]
    """
    earlier, later = _by_name(before), _by_name(after)
    for name, each in earlier.items():
        here = (*path, each["name"])
        if name not in later:
            yield SchemaChange("removed", here, each["type"], each["type"], required=not each["nullable"])
            continue
        yield from _null(here, allowed=each["nullable"], later=later[name]["nullable"])
        yield from _retyped(here, sized_type(each), sized_type(later[name]))
    for name, each in later.items():
        if name not in earlier:
            stated = any(key in each.get("metadata", {}) for key in _DEFAULTS)
            kind, required = each["type"], not each["nullable"]
            yield SchemaChange("added", (*path, each["name"]), kind, kind, required=required, has_default=stated)


def made_in_place(
    spec: TableSpec, columns: Mapping[str, Mapping[str, Any]], properties: Mapping[str, str]
) -> Iterator[SchemaChange]:
    """List the changes from stored columns to declared columns: fields to add, types to widen.

    Args:
        spec: the declaration.
        columns: stored column -> each in the form of the log.
        properties: stored properties; ``delta.enableTypeWidening`` there or in the declaration allows wider types.
    """
    widens = may_widen(properties, spec.properties)
    for name, column in spec.columns.items():
        stored = columns.get(name)
        if stored is None or stored["type"] == stored_type(column.type) or name in spec.partition_by:
            continue
        declared = field(name, column.type)
        for change in schema_changes([stored], [declared]) if declared else ():
            if (change.kind == "added" and not change.required) or (
                change.kind == "retyped" and widens and is_widening(change.before, change.after, "delta")
            ):
                yield change


def differences(
    spec: TableSpec, columns: Mapping[str, Mapping[str, Any]], properties: Mapping[str, str]
) -> Iterator[str]:
    """Describe the differences from the declaration beyond changes in place.

    Args:
        spec: the declaration.
        columns: stored column -> each in the form of the log.
        properties: stored properties, constraints among them.
    """
    widened = {change.path[0] for change in made_in_place(spec, columns, properties)}
    for name in (name for name in spec.columns if name in columns):
        column, stored = spec.columns[name], columns[name]
        if column.required and stored["nullable"]:
            yield f"{name} is declared as required, the table allows NULL"
        if stored_type(column.type) not in ("", stored["type"]) and name not in widened:
            yield f"{name} is declared as {column.type}, the table has {stored['type']}"
    held = {key.lower(): rule for key, rule in properties.items()}
    for name, predicate in spec.checks.items():
        rule = held.get(f"{CONSTRAINTS}{name}".lower(), predicate)
        if rule != predicate:
            yield f"constraint {name} is declared as {predicate}, the table has {rule}"


def may_widen(stored: Mapping[str, str], declared: Mapping[str, str]) -> bool:
    """Return whether stored types may be widened, by the stored properties or the declaration to come."""
    return {**stored, **declared}.get(WIDENING, "").lower() == "true"


def data_type(kind: Kind) -> DataType:
    """Return a type in the form of the log as Spark's ``DataType``."""
    one = {"name": "it", "type": kind, "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [one]}).fields[0].dataType


def sized_type(each: Mapping[str, Any]) -> Kind:
    """Return the type of a field in the form of the log, with the declared length of a text."""
    return each.get("metadata", {}).get(LENGTH, each["type"])


def _retyped(path: tuple[str, ...], before: Kind, after: Kind) -> Iterator[SchemaChange]:
    shapes = [outer(before), outer(after)]
    if shapes[0] != shapes[1] or shapes[0] not in ("struct", *_INSIDE):
        if before != after:
            yield SchemaChange("retyped", path, before, after)
    elif shapes[0] == "struct":
        yield from schema_changes(before["fields"], after["fields"], path)
    else:
        for part, null, name in _INSIDE[shapes[0]]:
            here = (*path, name)
            if null:
                yield from _null(here, allowed=before[null], later=after[null])
            yield from _retyped(here, before[part], after[part])


def _null(path: tuple[str, ...], *, allowed: bool, later: bool) -> Iterator[SchemaChange]:
    if allowed != later:
        yield SchemaChange("null_allowed" if later else "null_forbidden", path, None, None)


def _by_name(fields: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for each in fields:
        if (name := each["name"].lower()) in found:
            raise SchemaMismatch(f"{found[name]['name']} and {each['name']} differ in case only: rename one of them")
        found[name] = each
    return found
