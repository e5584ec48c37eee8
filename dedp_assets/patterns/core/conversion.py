"""Error-safe conversion: a value that does not fit becomes NULL, and the text it was stays beside it.

The rule that makes silent loss visible: an input that is there and an output that is not is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["convert_columns", "convert_json", "misfits", "safe_cast"]

_MOMENTS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_NESTED = ("ARRAY", "MAP", "STRUCT")
_SENTINEL = "end of record"


def convert_columns(rows: DataFrame, schema: Mapping[str, str]) -> DataFrame:
    """Cast columns to the types of ``schema``; the text they were is in ``<column> text``, ``syntax`` is NULL."""
    others = [F.col(c) for c in rows.columns if c not in schema]
    values = [F.expr(safe_cast(f"`{c}`", kind)).alias(c) for c, kind in schema.items()]
    texts = [F.col(c).cast("string").alias(f"{c} text") for c in _typed(schema)]
    return rows.select(*others, F.lit(None).cast("string").alias("syntax"), *values, *texts)


def convert_json(rows: DataFrame, payload: str, schema: Mapping[str, str]) -> DataFrame:
    """Parse one JSON object per row into typed columns.

    Adds the columns of ``schema`` (STRING takes any value as its text), ``syntax`` (what is wrong with the record as a
    whole, or NULL) and ``<column> text`` for the other types: the text of every timestamp, and of any other value that
    came out as NULL.

    Spark's parser stops at the end of the first value and silently drops what follows. So the record is parsed as the
    first of two values, the second being a sentinel that holds the record's own hash, so that no record can bring it
    along: unless exactly both come out, the record is not one object. Only then, or where a typed value is NULL, is the
    record looked at again.
    """
    moments = {c: kind for c, kind in schema.items() if kind.upper() in _MOMENTS}
    typed = {c: kind for c, kind in _typed(schema).items() if c not in moments}
    own = f"xxhash64(`{payload}`)"
    both = f"""concat('[', `{payload}`, ',{{"{_SENTINEL}":', {own}, '}}]')"""
    kinds = ", ".join(
        f"`{c}`: {kind}" for c, kind in {**schema, **dict.fromkeys(moments, "STRING"), _SENTINEL: "BIGINT"}.items()
    )
    values = f"from_json({both}, 'array<string>')"
    syntax = (
        f"CASE WHEN size(parsed) = 2 AND parsed[0] IS NOT NULL AND parsed[1].`{_SENTINEL}` = {own} THEN NULL "
        f"WHEN `{payload}` RLIKE '^\\\\s*$' THEN 'blank line' "
        f"WHEN {values} IS NULL OR size({values}) < 2 "
        f"OR NOT coalesce(contains(element_at({values}, -1), {own}), false) THEN 'malformed JSON' "
        f"WHEN size({values}) > 2 THEN 'more than one JSON value' "
        f"ELSE 'not a JSON object' END"
    )
    parsed = rows.withColumn("parsed", F.expr(f"from_json({both}, 'array<struct<{kinds}>>')"))
    checked = parsed.select(*rows.columns, F.expr(syntax).alias("syntax"), F.expr("parsed[0]").alias("record"))
    absent = " OR ".join(f"record.`{c}` IS NULL" for c in typed) or "false"
    again = F.from_json(payload, ", ".join(f"`{c}` STRING" for c in typed or schema))
    looked = checked.withColumn("texts", F.when(F.expr(f"syntax IS NULL AND ({absent})"), again))
    plain = {c: kind for c, kind in typed.items() if not kind.upper().startswith(_NESTED)}
    fields = {c: f"coalesce(record.`{c}`, {safe_cast(f'texts.`{c}`', kind)})" for c, kind in plain.items()}
    fields |= {c: safe_cast(f"record.`{c}`", kind) for c, kind in moments.items()}
    return looked.select(
        *rows.columns,
        "syntax",
        *[F.expr(fields.get(c, f"record.`{c}`")).alias(c) for c in schema],
        *[F.expr(f"texts.`{c}`").alias(f"{c} text") for c in typed],
        *[F.expr(f"record.`{c}`").alias(f"{c} text") for c in moments],
    )


def safe_cast(value: str, kind: str) -> str:
    """SQL that casts the expression ``value`` to ``kind``, or gives NULL.

    A time of day is no timestamp: Spark would take it as one of the day on which it runs.
    """
    if kind.upper() not in _MOMENTS:
        return f"try_cast({value} AS {kind})"
    return f"if(locate(':', ltrim(CAST({value} AS STRING))) BETWEEN 1 AND 4, NULL, try_cast({value} AS {kind}))"


def misfits(schema: Mapping[str, str]) -> dict[str, str]:
    """Reason -> SQL predicate that holds for a converted row whose value fits, for every type that a value may miss."""
    return {f"{c} is not a {kind}": f"`{c} text` IS NULL OR `{c}` IS NOT NULL" for c, kind in _typed(schema).items()}


def _typed(schema: Mapping[str, str]) -> dict[str, str]:
    return {c: kind for c, kind in schema.items() if kind.upper() != "STRING"}
