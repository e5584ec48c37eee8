"""Rows of listed files for DuckDB and Spark, and refusal of tables without a true list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.names import identifier, select_list
from dedp_assets.patterns.core.types.nesting import Field, Kind, fold, inside, name_of, outer
from dedp_assets.patterns.core.types.partitions import literal
from dedp_assets.patterns.delta import Table, TableState, lies_outside, literal_path
from dedp_assets.patterns.delta.snapshots.tiers import tiered

__all__ = ["duckdb_query", "external", "frame_of", "require_told"]

Group = tuple[Mapping[str, str | None], Sequence[str]]
"""Partition values and addresses of the partition's files."""

_GLOB = re.compile(r"[*?\[]")
_DECIMAL = re.compile(r"decimal\(\d+,\s*\d+\)")
_DUCKDB = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "double": "DOUBLE",
    "float": "FLOAT",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}


def duckdb_query(schema: Mapping[str, Any], groups: Iterable[Group]) -> str:
    """Write the query by which DuckDB reads files with the columns, types and partition values of a table.

    Names of folders are not asked: files may lie in folders of other values. A column that older files lack is NULL.

    Raises:
        ConfigError: for a type that DuckDB has not; the text names the column.
    """
    kinds = {str(each["name"]): _duckdb_type(each) for each in schema["fields"]}
    typed = ", ".join(f"CAST(NULL AS {kind}) AS {_name(column)}" for column, kind in kinds.items())
    parts = [f"SELECT {typed} WHERE false"]
    for values, addresses in groups:
        constants = [
            f", CAST({_text(value)} AS {kinds[column]}) AS {_name(column)}" for column, value in values.items()
        ]
        # A name with a star is a pattern for DuckDB, unless the star stands in brackets.
        files = ", ".join(_text(_GLOB.sub(r"[\g<0>]", external(address))) for address in addresses)
        options = "union_by_name = true, hive_partitioning = false"
        parts.append(f"SELECT *{''.join(constants)} FROM read_parquet([{files}], {options})")  # noqa: S608 - quoted
    return f"SELECT {', '.join(map(_name, kinds))} FROM ({' UNION ALL BY NAME '.join(parts)})"  # noqa: S608 - quoted


def external(address: str) -> str:
    """Return the address of a file in the spelling of readers without Hadoop."""
    return re.sub("^s3a:", "s3:", address)


def frame_of(
    session: SparkSession,
    schema: StructType | None,
    groups: Iterable[Group],
    form: str,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read files with their partition values, with options of Spark's reader; lazy."""
    parts = []
    for values, addresses in groups:
        kinds = {field.name: field.dataType.simpleString() for field in schema.fields} if schema else {}
        stored = StructType([field for field in schema.fields if field.name not in values]) if schema else None
        reader = session.read.schema(stored) if stored else session.read
        rows = reader.format(form).options(**(options or {})).load([literal_path(address) for address in addresses])
        constants = {column: literal(value, kinds[column]) for column, value in values.items()}
        columns = schema.names if schema else rows.columns
        parts.append(rows.selectExpr(*select_list({c: constants.get(c, identifier(c)) for c in columns})))
    if parts:
        return reduce(DataFrame.unionByName, parts)
    return session.createDataFrame([], schema or StructType()).filter(F.lit(False))  # noqa: FBT003


def require_told(table: Table, state: TableState) -> None:
    """Refuse a table with deletion vectors, renamed columns, or files elsewhere.

    Raises:
        ContractError: names the reason and the remedy.
    """
    vectors = table.ledger.vector_files()
    fields = [
        each for kind in inside({"type": "struct", "fields": [*state.columns.values()]}) for each in _fields(kind)
    ]
    names = {f["name"]: f.get("metadata", {}).get("delta.columnMapping.physicalName", f["name"]) for f in fields}
    renamed = sorted(name for name, stored in names.items() if stored != name) if state.mapped else []
    outside = [file["path"] for file in state.files() if lies_outside(file["path"])]
    reason = ""
    if vectors is None or vectors:
        reason = "has rows that deletion vectors delete, and its files still hold them: purge them first "
        reason += "(compact with max_deleted_share=0)"
    elif renamed:
        reason = f"stores {', '.join(renamed)} under other names (column mapping): write the rows into a new table"
    elif outside:
        reason = f"has files outside of its folder ({outside[0]}): copy the table first"
    elif away := tiered(state):
        reason = f"has {len(away)} partitions on storage tiers: bring them back first"
    if reason:
        raise ContractError(f"{table.name} {reason}; a manifest would lie, and none was written")


def _fields(kind: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    return kind.get("fields", ()) if isinstance(kind, dict) else ()


def _duckdb_type(field: Field) -> str:
    def scalar(kind: Kind) -> str:
        if found := _DUCKDB.get(outer(kind)) or (_DECIMAL.fullmatch(outer(kind)) and outer(kind)):
            return found
        raise ConfigError(f"{name_of(field)} must be of a type that DuckDB has, not {outer(kind)}")

    return fold(
        field["type"],
        scalar=scalar,
        struct=lambda _, fields: f"STRUCT({', '.join(f'{_name(name_of(each))} {kind}' for each, kind in fields)})",
        array=lambda _, element: f"{element}[]",
        map=lambda _, key, value: f"MAP({key}, {value})",
    )


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"
