"""SQL types: parsing and spelling, at every depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pyspark.errors import ParseException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.types.exact import is_scalar
from dedp_assets.patterns.core.types.nesting import Kind, fold, inside, name_of

__all__ = ["is_nested", "nullable", "parsed_schema", "parsed_type", "same_type", "spelled", "sql_of", "with_texts"]


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


def sql_of(
    kind: Kind, scalar: Callable[[Kind], str], name: Callable[[str], str] = identifier, key: Callable[[str], str] = str
) -> str:
    """Write a type in SQL, with functions that write scalars, names of fields, and the types of keys."""
    return fold(
        kind,
        scalar=scalar,
        struct=lambda _, fields: f"STRUCT<{', '.join(f'{name(name_of(each))}: {inner}' for each, inner in fields)}>",
        array=lambda _, inner: f"ARRAY<{inner}>",
        map=lambda _, keys, values: f"MAP<{key(keys)}, {values}>",
    )


def spelled(kind: DataType) -> str:
    """Write a type in SQL."""
    return sql_of(kind, lambda each: each.simpleString().upper(), name=str)


def same_type(one: DataType, other: DataType) -> bool:
    """Return whether two types have the same spelling, and every nested value may be NULL."""
    return spelled(one) == spelled(other) and '"nullable":false' not in other.json()


def nullable(kind: DataType) -> str:
    """Write a type in SQL with quoted field names and without NOT NULL."""
    return sql_of(kind, lambda each: "STRING" if each.typeName() == "varchar" else each.simpleString())


def with_texts(kind: DataType) -> str:
    """Write a type with STRING for every scalar, and for the keys of maps."""
    return sql_of(kind, lambda _: "STRING", key=lambda _: "STRING")


def _require_known(kind: DataType, declared: str) -> None:
    for each in inside(kind):
        if isinstance(each, MapType) and spelled(each.keyType) != "STRING":
            raise ConfigError(f"{declared}: the keys of a JSON object are texts: declare MAP<STRING, ...>")
        if not is_nested(each) and not is_scalar(each.simpleString()):
            raise ConfigError(f"{declared}: no JSON value can become a {spelled(each)}: declare STRING for its text")
