"""SQL types of the columns in a document of the Open Data Contract Standard, of any author."""

from __future__ import annotations

import re

from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.types.ddl import field
from dedp_assets.patterns.governance._parts import Part

__all__ = ["sql_type"]

_LOGICAL = {
    "string": "STRING", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP", "time": "STRING",
    "integer": "BIGINT", "number": "DOUBLE", "vector": "ARRAY<FLOAT>",
}  # fmt: skip
_OPTIONS = {"timestamp": "timezone", "integer": "format", "number": "format"}
"""Logical type -> its option that decides the SQL type."""
_FORMATS = {
    "i8": "TINYINT", "i16": "SMALLINT", "i32": "INT", "i64": "BIGINT", "f32": "FLOAT", "f64": "DOUBLE",
    False: "TIMESTAMP_NTZ", True: "TIMESTAMP",
}  # fmt: skip
"""Value of such an option -> SQL type; of a timestamp, whether it has a time zone."""
_OF_OTHERS = {
    "STRING": "text varchar varchar2 nvarchar nvarchar2 char nchar ntext clob uuid uniqueidentifier character",
    "SMALLINT": "int2", "INT": "int4 int32 mediumint", "BIGINT": "int8 int64", "BOOLEAN": "bool bit",
    "FLOAT": "float4", "DOUBLE": "float8 float64", "BINARY": "bytea blob varbinary bytes",
    "VARIANT": "json jsonb super", "TIMESTAMP": "timestamptz datetimeoffset timestamp_tz",
    "TIMESTAMP_NTZ": "datetime datetime2",
}  # fmt: skip
_NAMES = {name: kind for kind, names in _OF_OTHERS.items() for name in names.split()}
_LONG = {
    "double precision": "DOUBLE", "timestamp with time zone": "TIMESTAMP",
    "timestamp without time zone": "TIMESTAMP_NTZ", "character varying": "STRING",
}  # fmt: skip
_SIZED = re.compile(r"(?:n?varchar2?|character varying|string)\s*\((\d+)\)", re.IGNORECASE)
_DIGITS = re.compile(r"(?:number|numeric)\s*\((\d+)(?:,\s*(\d+))?\)", re.IGNORECASE)


def sql_type(stated: Part, *, required_inside: bool = True) -> str:
    """Return the SQL type of a column or a field; VARIANT where the document promises no type.

    The physical type counts where Spark has it, under its own name or another database's; else the logical one.

    Args:
        stated: the column or the field.
        required_inside: whether a field below may be NOT NULL, which Spark does not say within arrays and maps.
    """
    physical = stated.text("physicalType").strip()
    logical = _of_logical(stated, required_inside=required_inside)
    if not physical:
        if not logical:
            stated.leave("logicalType")
        return logical or "VARIANT"
    if found := _known(physical):
        return found
    if logical in ("", "VARIANT"):  # a type that only Spark can read
        return physical
    stated.leave("physicalType")
    return logical


def _known(physical: str) -> str:
    """Return the SQL type of a physical type; empty for an unknown one."""
    if field("value", physical):
        return physical
    if sized := _SIZED.fullmatch(physical):
        return f"VARCHAR({sized[1]})"
    if digits := _DIGITS.fullmatch(physical):
        return found if field("value", found := f"DECIMAL({digits[1]},{digits[2] or 0})") else ""
    word = " ".join(re.sub(r"\(\d+\)", "", physical).lower().split())
    return _LONG.get(word) or _NAMES.get(word, "")


def _of_logical(stated: Part, *, required_inside: bool) -> str:
    """Return the SQL type of a logical type with options and inner types; empty without a logical type."""
    logical = stated.text("logicalType")
    if logical == "object":
        return _struct(stated, required_inside=required_inside)
    if logical == "array":
        return f"ARRAY<{sql_type(stated.part('items'), required_inside=False)}>"
    if logical == "map":
        inner = stated.part("map")
        key, value = (sql_type(inner.part(each), required_inside=False) for each in ("key", "value"))
        return "VARIANT" if key == "VARIANT" else f"MAP<{key}, {value}>"
    options = stated.part("logicalTypeOptions") if logical in _OPTIONS else None
    found = options.value(_OPTIONS[logical]) if options else None
    special = _FORMATS.get(found) if isinstance(found, str | bool) else None
    if options and found is not None and special is None:
        options.leave(_OPTIONS[logical])
    return special or _LOGICAL.get(logical, "")


def _struct(stated: Part, *, required_inside: bool) -> str:
    fields = list[str]()
    for each in stated.parts("properties"):
        name, kind = each.name("physicalName") or each.name(), sql_type(each, required_inside=required_inside)
        required = required_inside and each.value("required", bool, default=False)
        fields += [f"{identifier(name)}: {kind}{' NOT NULL' if required else ''}"] if name else []
    return f"STRUCT<{', '.join(fields)}>" if fields else "VARIANT"
