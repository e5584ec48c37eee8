"""SQL types: parsing and spelling, at every depth."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pyspark.errors import ParseException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.types.exact import is_scalar

__all__ = ["is_nested", "nullable", "parsed_schema", "parsed_type", "same_type", "spelled", "with_texts"]


def parsed_type(kind: str) -> DataType:
    """Read a nested SQL type.

    Raises:
        ConfigError: if it holds a type that no JSON value can become.
    """
    found = _parsed("value", kind)
    _require_known(found, kind)
    return found


def parsed_schema(schema: Mapping[str, str]) -> StructType:
    """Parse a schema, column name -> SQL type, into a struct type.

    Raises:
        ConfigError: names a column without a name or a type.
    """
    if "" in schema:
        raise ConfigError(f"schema must give each column a name, not '' to that of type {schema['']}")
    return StructType([StructField(column, _parsed(column, kind)) for column, kind in schema.items()])


# Each column of each step would ask the JVM again; what TIMESTAMP means to the session counts at the first call.
@lru_cache(maxsize=1_000)
def _parsed(column: str, kind: str) -> DataType:
    try:
        found = DataType.fromDDL(f"{identifier(column)} {kind}")
    except ParseException:
        raise ConfigError(f"schema must give {column} an SQL type, not {kind!r}") from None
    # Two columns are a type of their own, as is one that only has a name like that of a type.
    if not isinstance(found, StructType) or found.names != [column]:
        raise ConfigError(f"schema must give {column} an SQL type, not {kind!r}")
    return found.fields[0].dataType


def is_nested(kind: DataType) -> bool:
    """Return whether values of the type have nested values."""
    return isinstance(kind, StructType | ArrayType | MapType)


def spelled(kind: DataType) -> str:
    """Write a type in SQL."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{field.name}: {spelled(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{spelled(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{spelled(kind.keyType)}, {spelled(kind.valueType)}>"
    return kind.simpleString().upper()


def same_type(one: DataType, other: DataType) -> bool:
    """Return whether two types have the same spelling, and every nested value may be NULL."""
    return spelled(one) == spelled(other) and '"nullable":false' not in other.json()


def nullable(kind: DataType) -> str:
    """Write a type in SQL with quoted field names and without NOT NULL."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{identifier(f.name)}: {nullable(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{nullable(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{nullable(kind.keyType)}, {nullable(kind.valueType)}>"
    return "STRING" if kind.simpleString().startswith("varchar") else kind.simpleString()


def with_texts(kind: DataType) -> str:
    """Write a type with STRING for every scalar."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{identifier(f.name)}: {with_texts(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{with_texts(kind.elementType)}>"
    return f"MAP<STRING, {with_texts(kind.valueType)}>" if isinstance(kind, MapType) else "STRING"


def _require_known(kind: DataType, declared: str) -> None:
    if isinstance(kind, StructType):
        for field in kind.fields:
            _require_known(field.dataType, declared)
    elif isinstance(kind, ArrayType):
        _require_known(kind.elementType, declared)
    elif isinstance(kind, MapType):
        if spelled(kind.keyType) != "STRING":
            raise ConfigError(f"{declared}: the keys of a JSON object are texts: declare MAP<STRING, ...>")
        _require_known(kind.valueType, declared)
    elif not is_scalar(kind.simpleString()):
        raise ConfigError(f"{declared}: no JSON value can become a {spelled(kind)}: declare STRING for its text")
