"""Error-safe conversion: a value that does not fit becomes NULL, and the text it was stays beside it.

The rule that makes silent loss visible: an input that is there and an output that is not is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["convert_columns", "convert_json"]


def convert_columns(rows: DataFrame, schema: Mapping[str, str]) -> DataFrame:
    """Cast columns to the types of ``schema``; their text stays in ``<column> text``, ``syntax`` is NULL."""
    others = [F.col(c) for c in rows.columns if c not in schema]
    texts = [F.col(c).cast("string").alias(f"{c} text") for c in schema]
    values = [F.expr(f"try_cast(`{c}` AS {kind})").alias(c) for c, kind in schema.items()]
    return rows.select(*others, F.lit(None).cast("string").alias("syntax"), *values, *texts)


def convert_json(rows: DataFrame, payload: str, schema: Mapping[str, str]) -> DataFrame:
    """Parse one JSON object per row into typed columns.

    Adds the columns of ``schema``, ``syntax`` (what is wrong with the record as a whole, or NULL) and ``<column> text``
    (the value's text, filled where a record held a value that did not fit).

    The fast path parses once, straight into the types. Only a record that this flags, or one that goes on after its
    first closing brace (Spark's parser stops there and silently drops the rest), is looked at more closely.
    """
    typed = ", ".join(f"`{c}` {kind}" for c, kind in schema.items())
    text = ", ".join(f"`{c}` STRING" for c in schema)
    goes_on = f"octet_length(substring_index(`{payload}`, '}}', 1)) + 1 <> octet_length(`{payload}`)"
    values = f"from_json(concat('[', `{payload}`, ']'), 'array<string>')"
    syntax = (
        f"CASE WHEN parsed.corrupt IS NULL AND NOT ({goes_on}) THEN NULL "
        f"WHEN trim(`{payload}`) = '' THEN 'blank line' "
        f"WHEN {values} IS NULL THEN 'malformed JSON' "
        f"WHEN size({values}) <> 1 THEN 'more than one JSON value' "
        f"WHEN NOT startswith(ltrim(`{payload}`), '{{') THEN 'not a JSON object' END"
    )
    options = {"columnNameOfCorruptRecord": "corrupt"}
    parsed = rows.withColumn("parsed", F.from_json(payload, f"{typed}, corrupt STRING", options))
    checked = parsed.withColumn("syntax", F.expr(syntax))
    again = F.when(F.expr("syntax IS NULL AND parsed.corrupt IS NOT NULL"), F.from_json(payload, text))
    looked = checked.withColumn("texts", again)
    fields = {c: f"if(texts IS NULL, parsed.`{c}`, try_cast(texts.`{c}` AS {kind}))" for c, kind in schema.items()}
    return looked.select(
        *rows.columns,
        "syntax",
        *[F.expr(expression).alias(c) for c, expression in fields.items()],
        *[F.expr(f"texts.`{c}`").alias(f"{c} text") for c in schema],
    )
