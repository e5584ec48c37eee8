"""Exact conversion of records: each value converts without loss, or becomes NULL with a misfit.

The rule that makes silent loss visible: an input that is there and an output that is not is an error. A converted row
has the columns of the schema, :data:`SYNTAX`, :data:`MISFITS`, and the text that a value had in ``<column> text``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from dedp_assets.patterns.core import json_texts
from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.exact import exact, is_scalar, safe_cast
from dedp_assets.patterns.core.json_values import NO_TEXTS, record_struct, refused
from dedp_assets.patterns.core.names import RESERVED, identifier, select_list
from dedp_assets.patterns.core.plain_json import fitting, is_plain
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.sql_types import is_nested, parsed_schema, same_type, spelled, with_texts

__all__ = ["exact", "MISFITS", "SYNTAX", "convert_columns", "convert_json", "safe_cast", "texts_of"]

SYNTAX = f"{RESERVED}syntax"
"""Column: what is wrong with the record as a whole, or NULL."""

MISFITS = f"{RESERVED}misfits"
"""Column: one sentence for each value that is there and does not fit, with its path; NULL or empty if all fit."""

_MEMBERS, _PLAIN, _AGAIN = (f"{RESERVED}{name}" for name in ("members", "plain", "again"))


def convert_json(
    rows: DataFrame, payload: str, schema: Mapping[str, str], *, lenient: Collection[str] = ()
) -> DataFrame:
    """Parse one JSON object per row into typed columns.

    A record that can be told to be plain (an object, no key twice, every value its type's own) is parsed once. Any
    other is looked at again, with every number as it was written; what that look finds counts.

    Args:
        rows: records.
        payload: their STRING column.
        schema: output column -> SQL type. STRING takes any value as the text it has in the record, objects and arrays
            without the blanks between their parts.
        lenient: columns that Spark's cast may convert: rounded, trimmed, completed.

    Raises:
        ConfigError: if JSON cannot become a type, or ``lenient`` names another column than a typed scalar.
    """
    _ = parsed_schema(schema)
    _require_scalars(schema, lenient)
    made = {name.lower() for name in (*schema, *texts_of(schema).values())}
    others = [c for c in rows.columns if c.lower() not in made]
    record = identifier(payload)
    own, trimmed = f"xxhash64({record})", json_texts.trimmed(record)
    ended = f"if(endswith({record}, '}}'), {record}, {trimmed})"
    text, first = ({name: f"{RESERVED}{what}{n}" for n, name in enumerate(schema)} for what in ("text", "first"))
    # One column for each intermediate value, which the next ones name: Spark computes what has a column once.
    steps = {
        _MEMBERS: json_texts.members(ended, own),
        **{text[name]: f"{_MEMBERS}[{quoted(name)}]" for name in schema},
        **{first[name]: fitting(text[name], name, kind, record) for name, kind in schema.items()},
        _PLAIN: is_plain(record, own, _MEMBERS, [(text[name], first[name]) for name in schema]),
        _AGAIN: f"if({_PLAIN}, NULL, {record_struct(record, schema, lenient=lenient)})",
    }
    read = rows.selectExpr("*", *select_list(steps))
    again = {name: f"{_AGAIN}.c.c{n}" for n, name in enumerate(schema)}
    values = {name: f"if({_PLAIN}, {first[name]}, {again[name]}.v)" for name in schema}
    texts = {stated: f"if({again[name]}.v IS NULL, {again[name]}.x, NULL)" for name, stated in texts_of(schema).items()}
    return read.selectExpr(
        *map(identifier, others),
        *select_list({SYNTAX: f"{_AGAIN}.f", **values, **texts, MISFITS: f"{_AGAIN}.p"}),
    )


def convert_columns(rows: DataFrame, schema: Mapping[str, str], *, lenient: Collection[str] = ()) -> DataFrame:
    """Convert columns to the types of ``schema`` by their text, with the rules of :func:`convert_json`.

    A column that has its type already stays as it is. Text that becomes a nested type is JSON.

    Raises:
        ConfigError: as :func:`convert_json`, and if a column's own type has no such text.
    """
    declared = parsed_schema(schema)
    _require_scalars(schema, lenient)
    kinds = {field.name: field.dataType for field in fields_of(rows, schema)}
    changed = [field for field in declared.fields if not same_type(kinds[field.name], field.dataType)]
    nested = [field for field in changed if not is_scalar(schema[field.name])]
    for number, field in enumerate(nested):
        rows = _from_nested(rows, field.name, schema[field.name], f"{MISFITS} {number}")
    problems = [identifier(f"{MISFITS} {number}") for number in range(len(nested))]
    values, texts = {c: identifier(c) for c in schema}, {c: f"CAST({identifier(c)} AS STRING)" for c in schema}
    for field in (field for field in changed if field not in nested):
        name, kind = field.name, schema[field.name]
        values[name] = _text_as(name, kinds[name], kind, lenient=name in lenient)
        problems.append(
            f"if({identifier(name)} IS NULL OR {values[name]} IS NOT NULL, {NO_TEXTS}, {refused(name, kind)})"
        )
    texts |= {field.name: identifier(f"{field.name} text") for field in nested}
    text_columns = texts_of(schema)
    made = {name.lower() for name in (*schema, *text_columns.values())}
    others = [c for c in rows.columns if c.lower() not in made]
    texts = {text_columns[name]: sql for name, sql in texts.items() if name in text_columns}
    misfits = f"flatten(array({', '.join(problems)}))" if problems else NO_TEXTS
    return rows.selectExpr(
        *map(identifier, others),
        *select_list({SYNTAX: "CAST(NULL AS STRING)", **values, **texts, MISFITS: misfits}),
    )


def texts_of(schema: Mapping[str, str]) -> dict[str, str]:
    """Return, for each column other than STRING, the name of the column with the original text."""
    return {name: f"{name} text" for name, kind in schema.items() if kind.upper() != "STRING"}


def _from_nested(rows: DataFrame, name: str, kind: str, misfits: str) -> DataFrame:
    """Convert one column to a nested type, by conversion of a JSON record with one member."""
    column, record, found = identifier(name), f"{RESERVED}record", f"{RESERVED}text"
    (field,) = fields_of(rows, [name])
    written = rows.withColumn(found, F.expr(_json_of(name, field.dataType, kind)))
    member = quoted(f"{{{json.dumps(name, ensure_ascii=False)}:")
    alone = written.withColumn(record, F.expr(f"concat({member}, {found}, '}}')"))
    read = convert_json(alone, record, {name: kind})
    brackets = f"concat('[', {found}, ']')"
    single = f"size({json_texts.elements(brackets)}) = 1 AND {SYNTAX} IS NULL"
    problems = f"CASE WHEN {found} IS NULL THEN {NO_TEXTS} WHEN {single} THEN {MISFITS} ELSE {refused(name, kind)} END"
    return read.select(
        *[F.col(identifier(c)) for c in rows.columns if c.lower() not in (name.lower(), f"{name} text".lower())],
        F.expr(f"if({single}, {column}, NULL)").alias(name),
        F.col(found).alias(f"{name} text"),
        F.expr(f"coalesce({problems}, {NO_TEXTS})").alias(misfits),
    )


def _text_as(name: str, source: DataType, kind: str, *, lenient: bool) -> str:
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
    return f"coalesce({exact(text, kind)}, {safe_cast(column, kind)})" if lenient else exact(text, kind)


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
