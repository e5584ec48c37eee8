"""Measures as states: partial aggregation of each measure, and merge of partial states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AnsiIntervalType, DecimalType, DoubleType, FloatType, IntegralType, StructType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier, reserved
from dedp_assets.patterns.core.sql.sql_options import naming_options, one_value

__all__ = ["Measure", "inputs", "merged", "parse", "partial", "require_exact"]

_CALL = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_QUOTED = re.compile(r"\br'[^']*'|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL | re.IGNORECASE)
_PARTIAL = {
    "count": "count({0})",
    "sum": "sum({0})",
    "min": "min({0})",
    "max": "max({0})",
    "distinct": "array_sort(array_distinct(collect_set({0})))",
    "sketch": "hll_sketch_agg({0})",
}
_MERGED = {
    "count": "coalesce(sum({0}), 0L)",
    "sum": "sum({0})",
    "min": "min({0})",
    "max": "max({0})",
    "distinct": "array_sort(array_distinct(flatten(collect_list({0}))))",
    "sketch": "hll_union_agg({0})",
}
_FLOATS = (FloatType, DoubleType)
_SUMMED = (IntegralType, DecimalType, AnsiIntervalType)


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure: ``name``, ``kind``, and the measured SQL expression (``*`` for the row)."""

    name: str
    kind: str
    of: str


def parse(measures: Mapping[str, str], keys: Sequence[str]) -> list[Measure]:
    """Parse the measures of an aggregation, such as ``sum(bytes)``.

    Raises:
        ConfigError: for no measure, one that does not merge, or a name that is taken.
    """
    names = [name.lower() for name in (*keys, *measures)]
    if not measures or "" in names or len({*names}) < len(names) or reserved(names):
        raise ConfigError(f"give measures with names of their own, not {list(measures)} beside the keys {list(keys)}")
    return [_parsed(name, text) for name, text in measures.items()]


def inputs(rows: DataFrame, measures: Sequence[Measure]) -> list[Column]:
    """Return the input columns of the measures, in order, with negative zero as zero.

    Raises:
        ConfigError: for a sum of floating point, which depends on the order of its rows, or for SQL that Spark cannot
            evaluate.
    """
    columns = [_input(measure) for measure in measures]
    with naming_options(rows, "measure", {measure.name: sql for measure, sql in zip(measures, columns, strict=True)}):
        kinds = rows.select("*", *[F.expr(sql).alias(f"{RESERVED}{n}") for n, sql in enumerate(columns)]).schema
    kinds = StructType(kinds.fields[-len(columns) :])
    _require_exact(measures, kinds)
    plain = [
        f"if({sql} = 0, CAST(0 AS {field.dataType.simpleString()}), {sql})"
        if isinstance(field.dataType, _FLOATS)
        else sql
        for sql, field in zip(columns, kinds, strict=True)
    ]
    return [F.expr(sql).alias(f"{RESERVED}{n}") for n, sql in enumerate(plain)]


def partial(measures: Sequence[Measure]) -> dict[str, str]:
    """Return the SQL aggregates that compute states from :func:`inputs`, by name of the measure."""
    return {m.name: _PARTIAL[m.kind].format(f"{RESERVED}{n}") for n, m in enumerate(measures)}


def merged(measures: Sequence[Measure], states: StructType) -> list[Column]:
    """Return the aggregates that merge states, each cast to the type of the state.

    Raises:
        ConfigError: as :func:`inputs`.
    """
    kinds = require_exact(measures, states)
    found = [F.expr(_MERGED[m.kind].format(identifier(m.name))) for m in measures]
    return [c.cast(f.dataType).alias(m.name) for c, f, m in zip(found, kinds, measures, strict=True)]


def _input(measure: Measure) -> str:
    if measure.kind != "count":
        return one_value(measure.of)
    return "1" if measure.of == "*" else f"if(({measure.of}) IS NULL, NULL, 1)"


def require_exact(measures: Sequence[Measure], states: StructType) -> StructType:
    """Return the types of the states, in order of the measures; refuse inexact types.

    Raises:
        ConfigError: as :func:`inputs`.
    """
    by_name = {field.name.lower(): field for field in states}
    kinds = StructType([by_name[m.name.lower()] for m in measures])
    _require_exact(measures, kinds)
    return kinds


def _parsed(name: str, text: str) -> Measure:
    call = _CALL.fullmatch(text)
    kind = call[1].lower() if call else ""
    if not call or kind not in _PARTIAL or not call[2].strip() or not _is_one(call[2]):
        raise ConfigError(
            f"{name} is {text}, of which parts cannot be merged: give one of {', '.join(_PARTIAL)} of one expression. "
            "For an average keep its sum and its count and divide what was merged: an average of averages is wrong"
        )
    of = call[2].strip()
    if of == "*" and kind != "count":
        raise ConfigError(f"{name} is {text}: only rows are counted by *, name what it is of")
    return Measure(name, kind, of)


def _is_one(inner: str) -> bool:
    """Return whether a text is a single SQL expression: brackets closed, no top-level comma.

    A comma would make a struct of several values, which is never NULL and so is always counted.
    """
    depth = 0
    for character in _QUOTED.sub("", inner):
        depth += (character in "([") - (character in ")]")
        if depth < 0 or (character == "," and not depth):
            return False
    return depth == 0


def _require_exact(measures: Sequence[Measure], kinds: StructType) -> None:
    for measure, field in zip(measures, kinds, strict=True):
        if measure.kind != "sum":
            continue
        if isinstance(field.dataType, _FLOATS):
            raise ConfigError(
                f"{measure.name} sums floating point, and such a sum depends on the order of the rows: give "
                f"sum(try_cast({measure.of} AS DECIMAL(p, s)))"
            )
        if not isinstance(field.dataType, _SUMMED):
            raise ConfigError(
                f"{measure.name} sums {field.dataType.simpleString().upper()}, which Spark would take for floating "
                f"point: give sum(try_cast({measure.of} AS DECIMAL(p, s)))"
            )
