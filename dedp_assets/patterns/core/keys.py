"""Keys: identity of rows, by columns or as one text made of column values.

One rule holds wherever rows meet by keys. A row with NULL in a key column has no key: it meets nothing in a join, and
is refused by name where each row has to be told from the others; a pattern whose docstring says so takes NULL for a
value of its own. All else is compared as Spark compares it: ``-0.0`` is ``0.0``, NaN is NaN, an empty text is a text,
and blanks at its end count. Columns that make a key are named once each, in whatever case.

The text of a key is one that any engine and any language computes alike: the SHA-256 of its values, each written as a
letter for its type, the number of its bytes, a colon and its text; NULL is ``-``. So no two lists of values are written
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedp_assets.patterns.core.errors import AmbiguousKeys, ConfigError
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.sql.sql_options import one_value, require_repeatable

__all__ = ["key_of", "require_distinct", "without_key"]

_TEXTS: Sequence[tuple[type[T.DataType], str, str]] = (
    (T.StringType, "s", "{}"),
    (T.IntegralType, "i", "CAST({} AS STRING)"),
    (T.BooleanType, "b", "CAST({} AS STRING)"),
    (T.DateType, "d", "CAST({} AS STRING)"),
    (T.TimestampType, "t", "CAST(unix_micros({}) AS STRING)"),
    (T.TimestampNTZType, "n", "CAST({} AS STRING)"),
    (T.BinaryType, "x", "hex({})"),
)


def require_distinct(what: str, names: Iterable[str]) -> None:
    """Refuse repeated names, case aside.

    Args:
        what: the option, as its function calls it.
        names: the names.

    Raises:
        ConfigError: names the option and the name.
    """
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise ConfigError(f"{what} names {seen[name.lower()]} twice, again as {name}: name each once")
        seen[name.lower()] = name


def without_key(table: str, keys: Iterable[str], rows: int, of: int) -> AmbiguousKeys:
    """Return the error that states the number of rows with NULL in a key column.

    Args:
        table: what the rows are for.
        keys: the key columns.
        rows: how many rows have NULL in one of them.
        of: how many rows there are.
    """
    return AmbiguousKeys(
        f"{table}: {rows} of {of} rows have NULL in {', '.join(keys)}, so nobody knows what they are about; nothing "
        "was changed"
    )


@typed
def key_of(rows: DataFrame, values: Sequence[str]) -> str:
    """Write SQL for the key of ``values``, which are columns of ``rows`` or their fields, as SQL.

    Raises:
        ConfigError: for a column that is not there, or of a type of which one value has several texts; names it.
    """
    try:
        found = rows.selectExpr("*", *[f"{one_value(sql)} AS {RESERVED}{n}" for n, sql in enumerate(values)]).schema
    except AnalysisException:
        raise ConfigError(f"values must be columns of the rows, or fields of them, not {list(values)}") from None
    require_repeatable(rows, "values must be columns:", dict(zip(values, values, strict=True)))
    kinds = [field.dataType for field in found.fields[-len(values) :]]
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
