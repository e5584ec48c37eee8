"""Exact conversion of records: a value is represented as it was, or its column is NULL and the place is named.

The rule that makes silent loss visible: an input that is there and an output that is not is an error. A converted row
has the columns of the schema, :data:`SYNTAX`, :data:`MISFITS`, and the text that a value had in ``<column> text``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core import json_texts
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.exact import exact, is_scalar, safe_cast
from dedp_assets.patterns.core.json_values import json_of, judged, parsed_schema, parsed_type, same_type, text_as
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.plain_json import fitting, is_plain
from dedp_assets.patterns.core.rows import quoted

__all__ = ["MISFITS", "SYNTAX", "convert_columns", "convert_json", "safe_cast"]

SYNTAX = f"{RESERVED}syntax"
"""Column: what is wrong with the record as a whole, or NULL."""

MISFITS = f"{RESERVED}misfits"
"""Column: one sentence for each value that is there and does not fit, with its path; NULL or empty if all fit."""

_MEMBERS, _PLAIN, _MARKED, _FOUND = (f"{RESERVED}{name}" for name in ("members", "plain", "marked", "found"))
_FIRST, _AGAIN = f"{RESERVED}first", f"{RESERVED}again"
_NONE = "CAST(array() AS ARRAY<STRING>)"


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
        ConfigError: if a type is none that JSON can become, or ``lenient`` names another column than a typed scalar.
    """
    _require_scalars(schema, lenient)
    others = [F.col(identifier(c)) for c in rows.columns if c.lower() not in {name.lower() for name in schema}]
    record = identifier(payload)
    own = f"xxhash64({record})"
    texts = {name: f"{_MEMBERS}[{quoted(name)}]" for name in schema}
    trimmed = json_texts.trimmed(record)
    ended = f"if(endswith({record}, '}}'), {record}, {trimmed})"
    read = rows.withColumn(_MEMBERS, F.expr(json_texts.members(ended, own)))
    first = {f"{_FIRST} {n}": fitting(texts[c], c, kind, record) for n, (c, kind) in enumerate(schema.items())}
    read = read.withColumns({place: F.expr(sql) for place, sql in first.items()})
    pairs = [(text, identifier(place)) for text, place in zip(texts.values(), first, strict=True)]
    read = read.withColumn(_PLAIN, F.expr(is_plain(record, own, _MEMBERS, pairs)))
    read = read.withColumn(_MARKED, F.expr(json_texts.marked(f"if({_PLAIN}, NULL, {trimmed})")))
    read = read.withColumn(_FOUND, F.expr(json_texts.members(_MARKED, own, empty=True)))
    read = read.withColumn(SYNTAX, F.expr(f"if({_PLAIN}, NULL, {json_texts.fault(record, _FOUND)})"))
    second = {f"{_AGAIN} {n}": _again(c, kind, lenient=c in lenient) for n, (c, kind) in enumerate(schema.items())}
    return _assembled(read.withColumns({place: F.expr(sql) for place, sql in second.items()}), others, schema)


def convert_columns(rows: DataFrame, schema: Mapping[str, str], *, lenient: Collection[str] = ()) -> DataFrame:
    """Convert columns to the types of ``schema`` by the text they have, as :func:`convert_json` converts that text.

    A column that has its type already stays as it is. Text that becomes a nested type is JSON.

    Raises:
        ConfigError: as :func:`convert_json`, and if a column's own type has no such text.
    """
    _require_scalars(schema, lenient)
    declared = parsed_schema(schema)
    changed = [field for field in declared.fields if not same_type(rows.schema[field.name].dataType, field.dataType)]
    nested = [field for field in changed if not is_scalar(schema[field.name])]
    for number, field in enumerate(nested):
        rows = _from_nested(rows, field.name, schema[field.name], f"{MISFITS} {number}")
    problems = [identifier(f"{MISFITS} {number}") for number in range(len(nested))]
    values, texts = {c: identifier(c) for c in schema}, {c: f"CAST({identifier(c)} AS STRING)" for c in schema}
    for field in (field for field in changed if field not in nested):
        name, kind = field.name, schema[field.name]
        values[name] = text_as(name, rows.schema[name].dataType, kind, lenient=name in lenient)
        problems.append(
            f"if({identifier(name)} IS NULL OR {values[name]} IS NOT NULL, {_NONE}, {_refused(name, kind)})"
        )
    texts |= {field.name: identifier(f"{field.name} text") for field in nested}
    others = [c for c in rows.columns if c not in schema and c not in {f"{name} text" for name in schema}]
    return rows.select(
        *[F.col(identifier(c)) for c in others],
        F.lit(None).cast("string").alias(SYNTAX),
        *[F.expr(sql).alias(name) for name, sql in values.items()],
        *[F.expr(sql).alias(f"{name} text") for name, sql in texts.items() if schema[name].upper() != "STRING"],
        F.expr(f"flatten(array({', '.join(problems)}))" if problems else _NONE).alias(MISFITS),
    )


def _from_nested(rows: DataFrame, name: str, kind: str, misfits: str) -> DataFrame:
    """Convert one column to a nested type: its JSON is the one member of a record."""
    column, record, found = identifier(name), f"{RESERVED}record", f"{RESERVED}text"
    written = rows.withColumn(found, F.expr(json_of(name, rows.schema[name].dataType, kind)))
    member = quoted(f"{{{json.dumps(name, ensure_ascii=False)}:")
    alone = written.withColumn(record, F.expr(f"concat({member}, {found}, '}}')"))
    read = convert_json(alone, record, {name: kind})
    single = f"size(from_json(concat('[', {found}, ']'), 'ARRAY<STRING>')) = 1 AND {SYNTAX} IS NULL"
    problems = f"CASE WHEN {found} IS NULL THEN {_NONE} WHEN {single} THEN {MISFITS} ELSE {_refused(name, kind)} END"
    return read.select(
        *[F.col(identifier(c)) for c in rows.columns if c not in (name, f"{name} text")],
        F.expr(f"if({single}, {column}, NULL)").alias(name),
        F.col(found).alias(f"{name} text"),
        F.expr(f"coalesce({problems}, {_NONE})").alias(misfits),
    )


def _assembled(read: DataFrame, others: list[Column], schema: Mapping[str, str]) -> DataFrame:
    """The values of the first look where it was enough, and of the second elsewhere."""
    first, again = (
        {name: identifier(f"{_FIRST} {n}") for n, name in enumerate(schema)},
        {name: identifier(f"{_AGAIN} {n}") for n, name in enumerate(schema)},
    )
    places = ", ".join(f"{again[name]}.p" for name in schema)
    found = f"flatten(filter(array({places}), p -> p IS NOT NULL))"
    twice = f"if(size({found}) = 0 AND try_parse_json({_MARKED}) IS NULL, array('a key is there twice'), {found})"
    return read.select(
        *others,
        SYNTAX,
        *[F.expr(f"if({_PLAIN}, {first[name]}, {again[name]}.v)").alias(name) for name in schema],
        *[
            F.expr(f"if({again[name]}.v IS NULL, {again[name]}.x, NULL)").alias(f"{name} text")
            for name, kind in schema.items()
            if kind.upper() != "STRING"
        ],
        F.expr(f"if({_PLAIN} OR {SYNTAX} IS NOT NULL, NULL, {twice})").alias(MISFITS),
    )


def _again(name: str, kind: str, *, lenient: bool) -> str:
    """SQL: the struct ``v``, ``x`` (its text), ``p`` (what does not fit) of a column; NULL for a plain or broken record."""
    value = f"{_FOUND}[{quoted(name)}]"
    if is_scalar(kind):
        made = f"coalesce({exact('x', kind)}, {safe_cast('x', kind)})" if lenient else exact("x", kind)
        problems = f"if(x IS NULL OR v IS NOT NULL, {_NONE}, {_refused(name, kind)})"
        inside = f"transform(array({made}), v -> named_struct('v', v, 'x', x, 'p', {problems}))[0]"
    else:
        whole = "named_struct('v', if(size(r.p) = 0, r.v, NULL), 'x', x, 'p', r.p)"
        inside = f"transform(array({judged(value, parsed_type(kind), quoted(name))}), r -> {whole})[0]"
    looked = f"transform(array({json_texts.text_of(value)}), x -> {inside})[0]"
    return f"if({_PLAIN} OR {SYNTAX} IS NOT NULL OR {value} IS NULL, NULL, {looked})"


def _refused(name: str, kind: str) -> str:
    return f"array({quoted(f'{name} is not a {kind}')})"


def _require_scalars(schema: Mapping[str, str], lenient: Collection[str]) -> None:
    wrong = [c for c in lenient if c not in schema or not is_scalar(schema[c]) or schema[c].upper() == "STRING"]
    if wrong:
        raise ConfigError(
            f"lenient names {', '.join(wrong)}: name columns of the schema that are not STRING nor nested"
        )
