"""Keys made of typed values, which any engine and any language computes alike.

A key is the SHA-256 of its values, each written as a letter for its type, the number of its bytes, a colon and its
text; NULL is ``-``. So no two lists of values are written the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["key_of"]

_TEXTS: Sequence[tuple[type[T.DataType], str, str]] = (
    (T.StringType, "s", "{}"),
    (T.IntegralType, "i", "CAST({} AS STRING)"),
    (T.BooleanType, "b", "CAST({} AS STRING)"),
    (T.DateType, "d", "CAST({} AS STRING)"),
    (T.TimestampType, "t", "CAST(unix_micros({}) AS STRING)"),
    (T.TimestampNTZType, "n", "CAST({} AS STRING)"),
    (T.BinaryType, "x", "hex({})"),
)


def key_of(rows: DataFrame, values: Sequence[str]) -> str:
    """Write SQL for the key of ``values``, which are columns of ``rows`` or fields of them, as SQL.

    Raises:
        ConfigError: for a type of which one value has several texts; the text names the column.
    """
    kinds = [field.dataType for field in rows.select(*map(F.expr, values)).schema.fields]
    return f"sha2(concat({', '.join(map(_text, values, kinds))}), 256)"


def _text(value: str, kind: T.DataType) -> str:
    for known, letter, text in _TEXTS:
        if isinstance(kind, known):
            written = text.format(value)
            return f"coalesce(concat('{letter}', octet_length({written}), ':', {written}), '-')"
    raise ConfigError(
        f"{value} is {kind.simpleString().upper()}, of which one value has several texts: make keys of text, whole "
        "numbers, dates and times"
    )
