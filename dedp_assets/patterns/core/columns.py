"""Checks of columns named by options: existence, and types that allow the option's use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import reserved
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.types.nesting import inside

__all__ = [
    "COMPARED",
    "DAY",
    "FLAG",
    "IDENTICAL",
    "INSTANT",
    "NAMED",
    "RECORD",
    "REMEMBERED",
    "TEXT",
    "WHOLE_NUMBER",
    "Use",
    "fields_of",
    "is_collated",
    "require_columns",
    "require_free",
    "require_named",
    "require_parts",
    "require_rows",
    "spelled_as",
]


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a column's values by an option, with the types that allow the use.

    Attributes:
        fits: tells whether the values of a type allow it.
        why_not: what a refusal says of another type, and what to do.
    """

    fits: Callable[[T.DataType], bool]
    why_not: str


def is_collated(kind: T.DataType) -> bool:
    """Return whether a type contains texts with a collation other than ``UTF8_BINARY``."""
    return any(isinstance(each, T.StringType) and each.collation != "UTF8_BINARY" for each in inside(kind))


def _comparable(kind: T.DataType) -> bool:
    return not any(isinstance(each, (T.MapType, T.VariantType)) for each in inside(kind))


def _has_zeros(kind: T.DataType) -> bool:
    return any(isinstance(each, (T.FloatType, T.DoubleType)) for each in inside(kind))


def _one_of(*kinds: type[T.DataType]) -> Callable[[T.DataType], bool]:
    return lambda kind: isinstance(kind, (*kinds, T.NullType))


COMPARED = Use(_comparable, "cannot be compared: name others, or compare a text or a hash of it")
"""For keys, and for columns that order rows."""
IDENTICAL = Use(
    lambda kind: _comparable(kind) and not is_collated(kind),
    "cannot be compared, or only by a collation: name others, or a text of it without a collation",
)
"""For values of which equal ones have to be the same, byte by byte: a collation makes ``a`` and ``A`` equal."""
REMEMBERED = Use(
    lambda kind: IDENTICAL.fits(kind) and not _has_zeros(kind),
    "cannot be compared, or is equal where its bytes differ: name others, or a text of it without a collation",
)
"""For keys that a stream keeps as bytes: a floating-point number has two zeros, which are equal."""
NAMED = Use(
    _one_of(T.StringType, T.NumericType, T.BooleanType, T.DateType, T.TimestampNTZType),
    "has no text of its own for each value: name a text or a number",
)
"""For ids that another system is told as texts."""
INSTANT = Use(
    lambda kind: isinstance(kind, T.TimestampType),
    "is no instant without a time zone: cast it to TIMESTAMP in the zone that it is meant in",
)
"""For the time at which something happened."""
DAY = Use(
    _one_of(T.DateType, T.StringType, T.TimestampType, T.TimestampNTZType),
    "says no day: name a DATE, a TIMESTAMP or a text such as 2026-01-05",
)
"""For the day that a row is of."""
FLAG = Use(_one_of(T.BooleanType), "says neither true nor false: make a BOOLEAN column of it")
"""For what is true or false of a row."""
WHOLE_NUMBER = Use(_one_of(T.IntegralType), "may lose its place among others as a BIGINT: make it a whole number")
"""For a number that orders changes, and is stored as a BIGINT."""
TEXT = Use(_one_of(T.StringType), "is no text: cast it to STRING, or name the column that has the text")
"""For a text that a service is asked about."""
RECORD = Use(_one_of(T.StringType, T.BinaryType), TEXT.why_not)
"""For a record that is parsed, as a text or as its bytes."""


def spelled_as(columns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return names in the spelling of the matching columns, case aside; other names stay as given."""
    exact = {*(columns := [*columns])}
    known = {column.lower(): column for column in columns}
    return [name if name in exact else known.get(name.lower(), name) for name in names]


def require_rows(what: str, rows: object) -> DataFrame:
    """Return the frame of ``rows``; refuse everything except a batch of Spark rows.

    Raises:
        ConfigError: for a stream, a pandas frame, or whatever else is given instead of rows.
    """
    frame = Split.of(rows).rows  # type: ignore[arg-type]
    if not isinstance(frame, DataFrame):
        kind = f"{type(rows).__module__.partition('.')[0]} {type(rows).__name__}"
        raise ConfigError(f"{what} takes a Spark DataFrame, not a {kind}: session.createDataFrame makes one of it")
    if frame.isStreaming:
        raise ConfigError(f"{what} takes a batch, and was given a stream: hand its batches over by foreachBatch")
    return frame


def require_columns(rows: DataFrame, columns: Iterable[str | None], use: Use | None = None) -> None:
    """Refuse option columns that the rows lack, case aside, or with a type that does not allow the use.

    Raises:
        ConfigError: names the missing columns and the ones there are, columns of one name, or the column, its type and
            why it does not do.
    """
    if not isinstance(rows, DataFrame):
        require_rows("this pattern", rows)
    named = [c for c in columns if c]
    kinds = {f.name.lower(): f.dataType for f in rows.schema.fields}
    if missing := [c for c in named if c.lower() not in kinds]:
        raise ConfigError(f"the rows have no column {', '.join(missing)}; they have {', '.join(rows.columns)}")
    alike = ([c for c in rows.columns if c.lower() == name.lower()] for name in named)
    if several := next((found for found in alike if len(found) > 1), []):
        raise ConfigError(f"the rows have columns {several}, which Spark does not tell apart: rename one")
    for column in named if use else []:
        kind = kinds[column.lower()]
        if use and not use.fits(kind):
            raise ConfigError(f"column {column} is {kind.simpleString().upper()}, which {use.why_not}")


def require_parts(rows: DataFrame, columns: Iterable[str]) -> None:
    """Refuse rows without a column of the parts to make, or with a column of no part, case aside.

    Raises:
        ConfigError: names the columns.
    """
    wanted = {*columns}
    require_columns(rows, sorted(wanted))
    known = {column.lower() for column in wanted}
    if left := [column for column in rows.columns if column.lower() not in known]:
        raise ConfigError(f"rows must have columns of a part only, not {', '.join(left)}: declare them, or drop them")


def require_named(option: str, names: Iterable[str]) -> None:
    """Refuse an empty column name in an option.

    Raises:
        ConfigError: names the option.
    """
    if "" in (given := list(names)):
        raise ConfigError(f"{option} must name columns, not {given}")


def require_free(rows: DataFrame | Split, *added: str) -> DataFrame:
    """Return the rows; refuse existing columns named in ``added``, case aside, or reserved by the library.

    A split that says what became of its rows has columns of the library.

    Raises:
        ConfigError: names the columns to rename.
    """
    ours_too = isinstance(rows, Split) and bool(rows.outcome)
    rows = rows.rows if isinstance(rows, Split) else rows
    if not isinstance(rows, DataFrame):
        require_rows("this pattern", rows)
    taken = {name.lower() for name in added}
    if met := [c for c in rows.columns if c.lower() in taken]:
        raise ConfigError(f"the rows have a column {', '.join(met)}, which this step adds: rename it before")
    if not ours_too and (ours := reserved(rows.columns)):
        raise ConfigError(f"the rows have a column {', '.join(ours)}: names like that are the library's, rename it")
    return rows


def fields_of(rows: DataFrame, columns: Iterable[str]) -> list[T.StructField]:
    """List the fields of the named columns of ``rows``, under the given names.

    Raises:
        ConfigError: if the rows do not have one of them, or it has no name.
    """
    named = list(columns)
    require_named("an option", named)
    require_columns(rows, named)
    kinds = {f.name.lower(): f.dataType for f in rows.schema.fields}
    return [T.StructField(c, kinds[c.lower()]) for c in named]
