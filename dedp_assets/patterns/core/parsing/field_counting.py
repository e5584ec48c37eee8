"""Census of fields in Spark, in the pass that reads the records, and undeclared fields as a map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, MapType, StringType

from dedp_assets.patterns.core.columns import RECORD, require_columns, require_free
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.parsing.field_census import CENSUS, NEW_FIELDS, DeclaredField, FieldCensus
from dedp_assets.patterns.core.parsing.json_fields import census_of, undeclared
from dedp_assets.patterns.core.rows import Decoded, Measures, Tally, tally
from dedp_assets.patterns.core.types.exact import INTEGERS
from dedp_assets.patterns.core.types.nesting import fold
from dedp_assets.patterns.core.types.sql_types import parsed_schema

__all__ = ["tally_fields", "with_undeclared"]

_COUNTED = f"{RESERVED}fields"
_OBJECT = frozenset({"object"})
_UNDECLARED = MapType(StringType(), StringType())
_NUMBERS = ("float", "double", "decimal")


def tally_fields(
    rows: DataFrame,
    payload: str,
    schema: Mapping[str, str],
    *,
    identity: Sequence[str],
    measures: Measures | None = None,
) -> tuple[DataFrame, Tally]:
    """Count JSON records and the fields of the records in the pass that reads the rows.

    Args:
        rows: records.
        payload: their STRING column.
        schema: declared field -> SQL type; what a STRUCT, an ARRAY or a MAP holds is counted, too.
        identity: columns that identify one record.
        measures: further figures, as of :func:`~dedp_assets.patterns.core.rows.tally`.

    Returns:
        The rows, and the tally with the figures :data:`~dedp_assets.patterns.core.parsing.field_census.CENSUS` and
        :data:`~dedp_assets.patterns.core.parsing.field_census.NEW_FIELDS`, for the target of the write.

    Raises:
        ConfigError: for a payload that is no STRING column, or a type that no JSON value can become.
    """
    figures = dict[str | tuple[str, ...], str]((measures or {}).items())
    counted, seen = tally(_counted(rows, payload, schema), identity=identity, measures={**_MEASURES, **figures})
    # What a write takes along is observed of the rows that it writes, which have no such column any more.
    return counted.drop(_COUNTED), replace(seen, handed=None)


def _counted(rows: DataFrame, payload: str, schema: Mapping[str, str]) -> DataFrame:
    """Add a column with the fields of JSON records, one census for each task; lazy."""
    require_columns(rows, [payload], RECORD)
    require_free(rows, _COUNTED)
    declared = _declared(parsed_schema(schema))

    def counted(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        # A census for each batch would be many; that of the task stands in the last row of the last batch.
        total, length = FieldCensus(), 0
        for batch in batches:
            if length:
                yield pa.nulls(length, pa.string())
            total, length = total + census_of(batch.to_pylist(), declared), len(batch)
        if length:
            yield pa.array([*[None] * (length - 1), total.to_json()], pa.string())

    # Spark infers the kind of function from the hints and warns if it is named, which its own stubs ask for.
    column: Column = arrow_udf(counted, StringType())(_text(payload))  # type: ignore[call-overload]
    return rows.withColumn(_COUNTED, column)


def with_undeclared(rows: DataFrame, payload: str, schema: Mapping[str, str], into: str) -> DataFrame:
    """Add a column with the undeclared fields of JSON records, path -> text; NULL without one; lazy.

    Args:
        rows: records.
        payload: their STRING column.
        schema: declared field -> SQL type.
        into: the new column, a MAP<STRING, STRING>.
    """
    declared = _declared(parsed_schema(schema))

    def found(texts: pa.Array) -> pa.Array:
        fields = [undeclared(text, declared) for text in texts.to_pylist()]
        return pa.array([list(each.items()) if each else None for each in fields], pa.map_(pa.string(), pa.string()))

    column: Column = arrow_udf(found, _UNDECLARED)(_text(payload))  # type: ignore[call-overload]
    return rows.withColumn(into, column)


def _figures(texts: str | None) -> Sequence[Any]:
    found = FieldCensus.sum(map(FieldCensus.from_json, (texts or "").splitlines()))
    return found.as_dict(), found.strange


_MEASURES: Mapping[str | tuple[str, ...], str] = {
    (CENSUS, NEW_FIELDS): Decoded(f"array_join(collect_list({_COUNTED}), '\\n')", _figures),
}


def _text(payload: str) -> Column:
    return F.col(identifier(payload)).cast("string")


def _declared(kind: DataType) -> DeclaredField:
    """Return a type as a declared field."""
    return fold(
        kind,
        scalar=_declared_scalar,
        struct=lambda _, fields: DeclaredField(_OBJECT, {each.name: inner for each, inner in fields}),
        array=lambda _, items: DeclaredField(frozenset({"array"}), items=items),
        map=lambda *parts: DeclaredField(_OBJECT, values=parts[-1]),
    )


def _declared_scalar(kind: DataType) -> DeclaredField:
    name = kind.simpleString()
    if name.upper() in INTEGERS:
        return DeclaredField(frozenset({"integer"}))
    own = "boolean" if name == "boolean" else "number" if name.startswith(_NUMBERS) else "string"
    return DeclaredField(frozenset({own}))
