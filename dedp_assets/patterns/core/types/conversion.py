"""Exact conversion of records: each value converts without loss, or becomes NULL with a misfit.

The rule that makes silent loss visible: an input that is there and an output that is not is an error. A converted row
has the columns of the schema, :data:`SYNTAX`, :data:`MISFITS`, and the text that a value had in ``<column> text``.

JSON is parsed in Python (``core/json_records``), in batches of Arrow: no parser of Spark's says of a value how it was
written. Texts of columns become values in SQL (``core/exact``), nested ones in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier, select_list
from dedp_assets.patterns.core.parsing.json_records import Nested, ReadRecord, read_record, read_texts
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.types.exact import exact, is_scalar, safe_cast
from dedp_assets.patterns.core.types.sql_types import (
    is_nested,
    nullable,
    parsed_schema,
    parsed_type,
    same_type,
    spelled,
    with_texts,
)

__all__ = ["exact", "MISFITS", "SYNTAX", "convert_columns", "convert_json", "safe_cast", "texts_of"]

SYNTAX = f"{RESERVED}syntax"
"""Column: what is wrong with the record as a whole, or NULL."""

MISFITS = f"{RESERVED}misfits"
"""Column: one sentence for each value that is there and does not fit, with its path; NULL or empty if all fit."""

_RECORD = f"{RESERVED}read_record"
_Reader = Callable[[Any, Mapping[str, Nested]], ReadRecord]


def convert_json(
    rows: DataFrame,
    payload: str,
    schema: Mapping[str, str],
    *,
    lenient: Collection[str] = (),
    formats: Mapping[str, str] | None = None,
    special: Collection[str] = (),
) -> DataFrame:
    """Parse one JSON object per row into typed columns.

    Args:
        rows: records.
        payload: their STRING column.
        schema: output column -> SQL type. STRING takes any value as the text it has in the record, objects and arrays
            without the blanks between their parts.
        lenient: columns that Spark's cast may convert: rounded, trimmed, completed.
        formats: DATE or time -> pattern of the texts, where these are not as in ISO 8601.
        special: columns in which NaN and infinities are values of a DOUBLE or FLOAT.

    Raises:
        ConfigError: if JSON cannot become a type, or ``lenient`` names another column than a typed scalar.
    """
    _ = parsed_schema(schema)
    _require_scalars(schema, lenient)
    record, options = identifier(payload), _Options(lenient, formats or {}, special)
    kinds = {name: parsed_type(kind) for name, kind in schema.items() if not is_scalar(kind)}
    scalars = {name: kind for name, kind in schema.items() if name not in kinds}
    sound = F.expr(f"if(is_valid_utf8({record}), {record}, NULL)")
    read = rows.withColumn(_RECORD, _read(sound, partial(read_record, list(scalars)), options.nested(rows, kinds)))
    text, value = ({name: f"{RESERVED}{what}{n}" for n, name in enumerate(schema)} for what in ("text", "value"))
    # One column for each intermediate value, which the next ones name: Spark computes what has a column once.
    steps = {text[name]: f"get({_RECORD}.texts, {n})" for n, name in enumerate([*scalars, *kinds])}
    steps |= {value[name]: options.value(name, kind, text[name]) for name, kind in scalars.items()}
    steps |= {value[name]: f"{_RECORD}.nested.n{n}" for n, name in enumerate(kinds)}
    texts = {name: f"if({value[name]} IS NULL, {text[name]}, NULL)" for name in schema}
    wrong = [_misfit(name, kind, text[name], value[name]) for name, kind in scalars.items() if kind != "STRING"]
    fault = f"if(NOT is_valid_utf8({record}), 'not valid UTF-8', {_RECORD}.fault)"
    read = read.selectExpr("*", *select_list(steps))
    made = {SYNTAX: fault, **value, MISFITS: _misfits(wrong, f"{_RECORD}.misfits")}
    return _select(read, rows.columns, schema, made, texts)


def convert_columns(
    rows: DataFrame,
    schema: Mapping[str, str],
    *,
    lenient: Collection[str] = (),
    formats: Mapping[str, str] | None = None,
    special: Collection[str] = (),
) -> DataFrame:
    """Convert columns by their text to the types of ``schema``, with the options of :func:`convert_json`.

    A column that has its type already stays as it is. Text that becomes a nested type is JSON.

    Raises:
        ConfigError: as :func:`convert_json`, and if a column's own type has no such text.
    """
    declared = parsed_schema(schema)
    _require_scalars(schema, lenient)
    options, columns = _Options(lenient, formats or {}, special), rows.columns
    given = {field.name: field.dataType for field in fields_of(rows, schema)}
    changed = [field.name for field in declared.fields if not same_type(given[field.name], field.dataType)]
    kinds = {name: parsed_type(schema[name]) for name in changed if not is_scalar(schema[name])}
    values, texts = {c: identifier(c) for c in schema}, {c: f"CAST({identifier(c)} AS STRING)" for c in schema}
    if kinds:
        texts |= {name: _json_of(name, given[name], schema[name]) for name in kinds}
        sound = ", ".join(f"if(NOT is_valid_utf8({texts[name]}), '', {texts[name]})" for name in kinds)
        stated = F.expr(f"array({sound})")
        rows = rows.withColumn(_RECORD, _read(stated, read_texts, options.nested(rows, kinds)))
        values |= {name: f"{_RECORD}.nested.n{n}" for n, name in enumerate(kinds)}
    scalars = [name for name in changed if name not in kinds]
    values |= {name: _value_of(name, given[name], schema[name], options) for name in scalars}
    wrong = [_misfit(name, schema[name], identifier(name), values[name]) for name in scalars]
    misfits = _misfits(wrong, f"{_RECORD}.misfits" if kinds else "")
    return _select(rows, columns, schema, {SYNTAX: "CAST(NULL AS STRING)", **values, MISFITS: misfits}, texts)


def texts_of(schema: Mapping[str, str]) -> dict[str, str]:
    """Return, for each column other than STRING, the name of the column with the original text."""
    return {name: f"{name} text" for name, kind in schema.items() if kind.upper() != "STRING"}


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of a conversion."""

    lenient: Collection[str]
    formats: Mapping[str, str]
    special: Collection[str]

    def value(self, name: str, kind: str, text: str, column: str = "") -> str:
        """Write SQL for the exact value of a scalar column's text, or else for a lenient column Spark's cast."""
        found = exact(text, kind, pattern=self.formats.get(name, ""), special=name in self.special)
        return f"coalesce({found}, {safe_cast(column or text, kind)})" if name in self.lenient else found

    def nested(self, rows: DataFrame, kinds: Mapping[str, DataType]) -> dict[str, Nested]:
        """Return the conversions of nested columns, by the session's time zone."""
        zone = rows.sparkSession.conf.get("spark.sql.session.timeZone") if kinds else None
        return {name: Nested(kind, zone or "UTC", name in self.special) for name, kind in kinds.items()}


def _select(
    rows: DataFrame, others: Sequence[str], schema: Mapping[str, str], made: Mapping[str, str], texts: Mapping[str, str]
) -> DataFrame:
    """Select the other columns, the converted columns, and the original texts of the typed columns."""
    stated = {column: texts[name] for name, column in texts_of(schema).items()}
    taken = {name.lower() for name in (*schema, *stated)}
    kept = [identifier(column) for column in others if column.lower() not in taken]
    return rows.selectExpr(*kept, *select_list({**made, **stated}))


def _read(values: Column, read: _Reader, nested: Mapping[str, Nested]) -> Column:
    """Return the column with the fields of :class:`ReadRecord` for each value."""
    fields = ", ".join(f"n{n}: {nullable(each.kind)}" for n, each in enumerate(nested.values())) or "none: STRING"
    kind = f"STRUCT<fault: STRING, texts: ARRAY<STRING>, nested: STRUCT<{fields}>, misfits: ARRAY<STRING>>"

    # Arrow has no type of texts with a length: that is checked where the values are made.
    kinds = [to_arrow_type(parsed_type(nullable(each.kind)), timezone="UTC") for each in nested.values()]

    def read_batch(batch: pa.Array) -> pa.Array:
        found = [read(value, nested) for value in batch.to_pylist()]
        parts = {
            "fault": pa.array([each.fault or None for each in found], pa.string()),
            "texts": pa.array([each.texts for each in found], pa.list_(pa.string())),
            "nested": _values(found, kinds),
            "misfits": pa.array([each.misfits or None for each in found], pa.list_(pa.string())),
        }
        return pa.StructArray.from_arrays(parts.values(), parts)

    # Spark infers the kind of function from the hints and warns if it is named, which its own stubs ask for.
    column: Column = arrow_udf(read_batch, kind)(values)  # type: ignore[call-overload]
    return column


def _values(found: Sequence[ReadRecord], kinds: Sequence[pa.DataType]) -> pa.Array:
    """Return the values of nested columns as an array of structs."""
    if not kinds:
        return pa.StructArray.from_arrays([pa.nulls(len(found), pa.string())], ["none"])
    columns = zip(*(each.nested or [None] * len(kinds) for each in found), strict=True)
    arrays = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
    return pa.StructArray.from_arrays(arrays, [f"n{n}" for n in range(len(kinds))])


def _misfit(name: str, kind: str, given: str, value: str) -> str:
    """Write SQL for the sentence about a given value that does not fit the type, or for NULL."""
    return f"if({given} IS NOT NULL AND {value} IS NULL, {quoted(f'{name} is not a {kind}')}, NULL)"


def _misfits(sentences: Sequence[str], nested: str) -> str:
    """Write SQL: the sentences of a row, as an array."""
    found = f"array_compact(CAST(array({', '.join(sentences)}) AS ARRAY<STRING>))"
    return f"concat({found}, coalesce({nested}, array()))" if nested else found


def _value_of(name: str, source: DataType, kind: str, options: _Options) -> str:
    """Write SQL for the value of a scalar type that a column's text denotes.

    Raises:
        ConfigError: if the column is nested.
    """
    column = identifier(name)
    if is_nested(source):
        raise ConfigError(f"{name} is a {spelled(source)} and cannot become a {kind}: convert it to its text first")
    if (source.simpleString(), kind.upper()) == ("float", "DOUBLE"):
        return f"CAST({column} AS DOUBLE)"
    text = f"CAST({column} AS STRING)"
    if source.simpleString() == "binary":
        text = f"if(is_valid_utf8({text}), {text}, NULL)"
    return options.value(name, kind, text, column)


def _json_of(name: str, source: DataType, kind: str) -> str:
    """Write SQL for a column as JSON, with every scalar as text.

    Raises:
        ConfigError: if it holds bytes, which have no text.
    """
    if not is_nested(source):
        return f"CAST({identifier(name)} AS STRING)"
    if "binary" in source.simpleString():
        raise ConfigError(f"{name} is a {spelled(source)} and cannot become a {kind}: write its bytes as base64 first")
    return f"to_json(CAST({identifier(name)} AS {with_texts(source)}))"


def _require_scalars(schema: Mapping[str, str], lenient: Collection[str]) -> None:
    wrong = [c for c in lenient if c not in schema or not is_scalar(schema[c]) or schema[c].upper() == "STRING"]
    if wrong:
        raise ConfigError(
            f"lenient names {', '.join(wrong)}: name columns of the schema that are not STRING nor nested"
        )
