"""Measures of a profile: SQL aggregates for the states of all columns, in one pass over the rows.

=====================  =============================================================================================
Type                   Measured beside nulls
=====================  =============================================================================================
whole number           bounds, distinct values, quantiles, frequent values
DECIMAL, FLOAT, DOUBLE bounds, distinct values, quantiles; of floating point NaN and infinity, which have no quantile
DATE, TIMESTAMP        bounds, distinct values, quantiles
text                   bounds, distinct values, frequent values, empty texts, lengths, shapes
BOOLEAN                distinct values, frequent values
BINARY, ARRAY, MAP     distinct values (without MAP), empty ones, lengths; elements are not looked at
STRUCT                 each field as a column of its own
VARIANT, INTERVAL      nothing
=====================  =============================================================================================

What is kept of a column follows from its class (``core.classes``): of a personal one no value (neither bounds,
quantiles nor frequent values), of a secret the number of NULLs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.classes import Shown, shown
from dedp_assets.patterns.core.column import Column
from dedp_assets.patterns.core.columns import COMPARED, require_columns, require_named
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.measuring.profiles import ColumnProfile, Profile
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.rows import count_where
from dedp_assets.patterns.core.types.sql_types import spelled

__all__ = [
    "ROWS",
    "ProfiledColumn",
    "profile_expressions",
    "profile_of",
    "profiled_columns",
    "require_sample",
    "with_sample",
]

ROWS, _SAMPLED = f"{RESERVED}rows", f"{RESERVED}sampled"
_FIGURE = f"{RESERVED}profile_"
_MILLION = 1_000_000

_DISTINCT = "hll_sketch_agg(CASE WHEN {seen} IS NOT NULL THEN xxhash64({seen}) END, 12)"
_QUANTILES = "kll_sketch_agg_double(CAST({seen} AS DOUBLE), 400)"
_VALUES = "approx_top_k_accumulate(left(CAST({seen} AS STRING), 64), 384).sketch"
_BOUNDS = {"minimum": "CAST(min({value}) AS STRING)", "maximum": "CAST(max({value}) AS STRING)"}
_FINITE = "CASE WHEN abs({}) < double('Infinity') THEN {} END"
# Without the condition least() would give a NULL a length.
_SHAPE = r"""CASE WHEN {seen} IS NOT NULL THEN concat(CASE WHEN {seen} RLIKE r'\A[0-9]+\z' THEN 'digits'
    WHEN {seen} RLIKE r'\A\p{{L}}+\z' THEN 'letters'
    WHEN {seen} RLIKE r'\A[\p{{L}}0-9]+\z' THEN 'letters and digits' WHEN trim({seen}) = '' THEN 'blank' ELSE 'other'
    END, ' ', least(length({seen}), 64)) END"""
_LENGTHS = {
    "empties": count_where("{length} = 0"),
    "shortest": "min({length})",
    "longest": "max({length})",
}
_SHAPES = ("nans", "infinities", "empties", "shortest", "longest", "distinct", "shapes")
"""Figures without values of a column."""


@dataclass(frozen=True, slots=True)
class ProfiledColumn:
    """A column or field to profile.

    Attributes:
        path: name in the profile, ``address.city`` for a field.
        value: SQL that reads the value.
        kind: Spark type.
        shown: what may be kept of the column, by its class.
        copy: name of the column with the values of a sample, NULL in other rows; empty without a sample.
    """

    path: str
    value: str
    kind: T.DataType
    shown: Shown
    copy: str = ""

    @property
    def type(self) -> str:
        """The type as text; of a struct, whose fields are profiled themselves, the outer kind alone."""
        return "STRUCT" if isinstance(self.kind, T.StructType) else spelled(self.kind)


def profiled_columns(schema: T.StructType, declared: Mapping[str, Column]) -> list[ProfiledColumn]:
    """List the columns of a schema and the fields within structs, of the column's class."""
    classes = {name.lower(): shown(column.classification, "profile") for name, column in declared.items()}
    tops = [
        ProfiledColumn(_part(f.name), identifier(f.name), f.dataType, classes.get(f.name.lower(), "values"))
        for f in schema
    ]
    return [each for top in tops for each in _with_fields(top)]


def profile_expressions(columns: Sequence[ProfiledColumn]) -> dict[str, str]:
    """Write the SQL aggregates of all columns' states, by name of the figure.

    Sketches are of the sampled rows, counts and bounds of all rows.
    """
    of_sample = any(column.copy for column in columns)
    found = {ROWS: "count(1)", _SAMPLED: count_where(_SAMPLED if of_sample else "true")}
    for number, column in enumerate(columns):
        measures = {"nulls": count_where("{value} IS NULL"), **_measures(column.kind)}
        for name, sql in measures.items():
            if name == "nulls" or column.shown == "values" or (column.shown == "shape" and name in _SHAPES):
                found[f"{_FIGURE}{number}_{name}"] = sql.format(value=column.value, seen=column.copy or column.value)
    return found


def profile_of(columns: Sequence[ProfiledColumn], figures: Mapping[str, Any]) -> Profile:
    """Make a profile from figures of :func:`profile_expressions`; without figures, a profile of 0 rows."""
    whole = {"rows": figures.get(ROWS, 0), "sampled": figures.get(_SAMPLED, 0)}
    states = [
        ColumnProfile(column=column.path, type=column.type, **whole, **_state(number, figures))
        for number, column in enumerate(columns)
    ]
    return Profile({state.column: state for state in states})


def require_sample(sample: float, sample_by: Sequence[str]) -> None:
    """Refuse a share outside of 0 to 1, and a sample without columns for the choice.

    Raises:
        ConfigError: names the option.
    """
    if not 0 < sample <= 1:
        raise ConfigError(f"sample must be above 0 and at most 1, not {sample:g}")
    require_named("sample_by", sample_by)
    require_distinct("sample_by=", sample_by)
    if sample < 1 and not sample_by:
        raise ConfigError("sample_by must name the columns whose hash chooses the rows of a sample, not none")


def with_sample(
    rows: DataFrame, columns: Sequence[ProfiledColumn], sample: float, sample_by: Sequence[str]
) -> tuple[DataFrame, Sequence[ProfiledColumn]]:
    """Return rows with copies of the sampled values, and the columns with the names of copies; lazy.

    An observed aggregate is evaluated for each row by an interpreter, 40 to 80 ns even if it sees no value: it must not
    look for the sample itself. The copies are made by generated code.

    Raises:
        ConfigError: for a column that is not there, or is of a type that has no hash.
    """
    require_columns(rows, sample_by, COMPARED)
    if sample == 1:
        return rows, columns
    # A seed of its own: a table that is laid out by the same hash would give whole files or nothing.
    key = ", ".join(["'sample'", *map(identifier, sample_by)])
    chosen = F.expr(f"pmod(xxhash64({key}), {_MILLION}) < {round(sample * _MILLION)}")
    copied = [replace(column, copy=f"{_FIGURE}{number}_copy") for number, column in enumerate(columns)]
    copies = [F.expr(f"CASE WHEN {_SAMPLED} THEN {column.value} END").alias(column.copy) for column in copied]
    return rows.withColumn(_SAMPLED, chosen).select("*", *copies), copied


def _with_fields(column: ProfiledColumn) -> Iterator[ProfiledColumn]:
    yield column
    for field in column.kind.fields if isinstance(column.kind, T.StructType) else ():
        path, value = f"{column.path}.{_part(field.name)}", f"{column.value}.{identifier(field.name)}"
        yield from _with_fields(ProfiledColumn(path, value, field.dataType, column.shown))


def _part(name: str) -> str:
    return identifier(name) if {".", "`"} & {*name} else name


def _measures(kind: T.DataType) -> dict[str, str]:
    """Return the measures of a type, name of the state's field -> SQL template."""
    if isinstance(kind, T.IntegralType):
        return {**_BOUNDS, "distinct": _DISTINCT, "quantiles": _QUANTILES, "values": _VALUES}
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        special = {
            "nans": count_where("isnan({value})"),
            "infinities": count_where("abs({value}) = double('Infinity')"),
        }
        return {**special, **_of(_FINITE, _BOUNDS), "distinct": _DISTINCT, **_of(_FINITE, {"quantiles": _QUANTILES})}
    if isinstance(kind, (T.DecimalType, T.TimestampType)):
        return {**_BOUNDS, "distinct": _DISTINCT, "quantiles": _QUANTILES}
    if isinstance(kind, T.DateType):
        return {**_BOUNDS, "distinct": _DISTINCT, **_of("unix_date({})", {"quantiles": _QUANTILES})}
    if isinstance(kind, T.TimestampNTZType):
        return {**_BOUNDS, "distinct": _DISTINCT, **_of("CAST({} AS TIMESTAMP)", {"quantiles": _QUANTILES})}
    return _measures_without_order(kind)


def _measures_without_order(kind: T.DataType) -> dict[str, str]:
    if isinstance(kind, T.StringType):
        shapes = f"approx_top_k_accumulate({_SHAPE}, 384).sketch"
        # The beginning of the least text is the least beginning, and costs one text instead of one a row.
        bounds = {"minimum": "left(min({value}), 64)", "maximum": "left(max({value}), 64)"}
        # The number of bytes is known, the number of characters is counted.
        lengths = {**_lengths("length({value})"), "empties": count_where("octet_length({value}) = 0")}
        return {**bounds, **lengths, "distinct": _DISTINCT, "values": _VALUES, "shapes": shapes}
    if isinstance(kind, T.BooleanType):
        return {"distinct": _DISTINCT, "values": _VALUES}
    if isinstance(kind, T.BinaryType):
        return {**_lengths("length({value})"), "distinct": _DISTINCT}
    if isinstance(kind, (T.ArrayType, T.MapType)):
        sizes = _lengths("CASE WHEN {value} IS NOT NULL THEN size({value}) END")
        return {**sizes, **({"distinct": _DISTINCT} if COMPARED.fits(kind) else {})}
    return {}


def _of(converted: str, measures: Mapping[str, str]) -> dict[str, str]:
    """Return the measures of a converted value; ``{}`` stands for the value in ``converted``."""
    value, seen = (converted.replace("{}", name) for name in ("{value}", "{seen}"))
    return {name: sql.replace("{value}", value).replace("{seen}", seen) for name, sql in measures.items()}


def _lengths(length: str) -> dict[str, str]:
    return {name: sql.replace("{length}", length) for name, sql in _LENGTHS.items()}


def _state(number: int, figures: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{_FIGURE}{number}_"
    found = {name.removeprefix(prefix): value for name, value in figures.items() if name.startswith(prefix)}
    sketched = {name: bytes(value) for name, value in found.items() if isinstance(value, (bytes, bytearray))}
    return {**{name: value for name, value in found.items() if value is not None}, **sketched}
