"""Comparison of two results by key, in one aggregation over both sides, with samples of differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, NumericType

from dedp_assets.patterns.core.columns import COMPARED, require_columns
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Finding

__all__ = ["compared_by_key"]

_SIDES = ("legacy", "new")


@dataclass(frozen=True, slots=True)
class _Compared:
    """A column to compare.

    Attributes:
        name: the column.
        equal: SQL predicate over both values, ``legacy_<place>`` and ``new_<place>``.
    """

    name: str
    equal: str


def compared_by_key(
    legacy: DataFrame,
    new: DataFrame,
    *,
    keys: Sequence[str],
    columns: Sequence[str],
    tolerance: float,
    samples: int,
    name: str,
    sides: tuple[str, str] = _SIDES,
) -> Finding:
    """Compare two frames by key and return the finding, a warning with the figures of every difference.

    Args:
        legacy: the one side.
        new: the other side.
        keys: columns that identify a row.
        columns: columns to compare; by default all but the keys, of both sides.
        tolerance: greatest difference of floating-point numbers that counts as none.
        samples: most keys that differ to show with their values.
        name: of the finding.
        sides: what the figures call the two sides.

    Raises:
        ConfigError: for keys or columns that cannot be compared.
    """
    require_distinct("keys=", keys)
    if not keys:
        raise ConfigError("keys must name the columns that identify a row, not nothing")
    called = dict(zip(_SIDES, sides, strict=True))
    absent = {} if columns else _lacking(legacy, new)
    lacking = {f"columns missing in {called[side]}": found for side, found in absent.items()}
    there, named = _folded(new.columns), _folded(keys)
    wanted = columns or [each for each in legacy.columns if each.lower() in there and each.lower() not in named]
    for rows in (legacy, new):
        require_columns(rows, [*keys, *wanted], COMPARED)
    compared = [_compared(place, each, legacy, new, tolerance) for place, each in enumerate(wanted)]
    joined = _by_key(legacy, new, keys, wanted)
    row = joined.selectExpr(*_counts(compared, sides)).first()
    counts: dict[str, Any] = {name: value or 0 for name, value in (row.asDict() if row else {}).items()}
    no_problems = ("compared", *(f"{side} rows" for side in sides))
    problems = {name: n for name, n in counts.items() if n and name not in no_problems}
    problems |= {name: ", ".join(found) for name, found in lacking.items() if found}
    shown = _samples(joined, keys, compared, samples, sides) if problems and samples else []
    figures = {**counts, **{name: ", ".join(found) for name, found in lacking.items() if found}}
    figures |= {"samples": "; ".join(shown)} if shown else {}
    note = "; ".join(f"{what}: {value}" for what, value in problems.items())
    return Finding(name, passed=not problems, severity="warn", figures=figures, note=note)


def _lacking(legacy: DataFrame, new: DataFrame) -> dict[str, list[str]]:
    """Return the columns that each side lacks."""
    sides = dict(zip(_SIDES, (legacy.columns, new.columns), strict=True))
    return {
        side: [each for each in sides[other] if each.lower() not in _folded(sides[side])]
        for side, other in zip(_SIDES, reversed(_SIDES), strict=True)
    }


def _folded(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _compared(place: int, name: str, legacy: DataFrame, new: DataFrame, tolerance: float) -> _Compared:
    kinds = [_kind(rows, name) for rows in (legacy, new)]
    if kinds[0] != kinds[1] and not all(isinstance(kind, NumericType) for kind in kinds):
        stated = " and ".join(kind.simpleString().upper() for kind in kinds)
        raise ConfigError(f"columns must be of one type on both sides, or numbers, not {name} of {stated}")
    one, other = (f"{side}_{place}" for side in _SIDES)
    equal = f"{one} <=> {other}"
    if tolerance and any(isinstance(kind, FloatType | DoubleType) for kind in kinds):
        near = f"abs(CAST({one} AS DOUBLE) - CAST({other} AS DOUBLE)) <= {tolerance!r}D"
        equal = f"({equal} OR coalesce({near}, false))"
    return _Compared(name, equal)


def _kind(rows: DataFrame, name: str) -> DataType:
    return rows.select(identifier(name)).schema.fields[0].dataType


def _by_key(legacy: DataFrame, new: DataFrame, keys: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Return a row for each key: rows of each side, and the values of each side."""
    key = [f"{identifier(name)} AS key_{n}" for n, name in enumerate(keys)]
    own = [f"{identifier(name)} AS value_{n}" for n, name in enumerate(columns)]
    sides = [(legacy, "true AS is_legacy"), (new, "false AS is_legacy")]
    one, other = (rows.selectExpr(*key, *own, side) for rows, side in sides)
    values = [
        f"first(if({test}is_legacy, value_{n}, NULL), true) AS {side}_{n}"
        for n in range(len(columns))
        for side, test in zip(_SIDES, ("", "NOT "), strict=True)
    ]
    names = [f"key_{n}" for n in range(len(keys))]
    counts = ["count_if(is_legacy) AS legacy_rows", "count_if(NOT is_legacy) AS new_rows"]
    return one.unionByName(other).groupBy(*names).agg(*map(F.expr, [*counts, *values]))


_PAIR = "legacy_rows = 1 AND new_rows = 1"
_LACKS = ("legacy_rows > 0 AND new_rows = 0", "legacy_rows = 0 AND new_rows > 0")
_REPEATED = "legacy_rows > 1 OR new_rows > 1"


def _counts(compared: Sequence[_Compared], sides: tuple[str, str]) -> list[str]:
    """List the aggregates over all keys."""
    one, other = sides
    found = {f"{one} rows": "sum(legacy_rows)", f"{other} rows": "sum(new_rows)", "compared": f"count_if({_PAIR})"}
    lacks = {f"keys missing in {side}": test for side, test in zip((other, one), _LACKS, strict=True)}
    found |= {name: f"count_if({test})" for name, test in {**lacks, "repeated keys": _REPEATED}.items()}
    found |= {f"{each.name} differs": f"count_if({_PAIR} AND NOT {each.equal})" for each in compared}
    return [f"{sql} AS {identifier(name)}" for name, sql in found.items()]


def _samples(
    joined: DataFrame, keys: Sequence[str], compared: Sequence[_Compared], most: int, sides: tuple[str, str]
) -> list[str]:
    """Describe the smallest keys that differ, with the values of both sides."""
    tests = [f"({test})" for test in (*_LACKS, _REPEATED)]
    tests += [f"({_PAIR} AND NOT {each.equal})" for each in compared]
    texts = [f"CAST({side}_{n} AS STRING) AS {side}_{n}" for n in range(len(compared)) for side in _SIDES]
    names = [f"CAST(key_{n} AS STRING) AS key_{n}" for n in range(len(keys))]
    differs = [f"{_PAIR} AND NOT {each.equal} AS differs_{n}" for n, each in enumerate(compared)]
    places = [f"key_{n}" for n in range(len(keys))]
    found = joined.filter(" OR ".join(tests)).orderBy(*places).limit(most)
    return [
        _sample(row, keys, compared, sides)
        for row in found.selectExpr(*names, "legacy_rows", "new_rows", *differs, *texts).collect()
    ]


def _sample(row: Row, keys: Sequence[str], compared: Sequence[_Compared], sides: tuple[str, str]) -> str:
    key = ", ".join(f"{name} {row[f'key_{n}']}" for n, name in enumerate(keys))
    if row["legacy_rows"] != 1 or row["new_rows"] != 1:
        return f"{key}: {row['legacy_rows']} rows of {sides[0]}, {row['new_rows']} of {sides[1]}"
    changed = [
        f"{each.name} {row[f'legacy_{n}']} -> {row[f'new_{n}']}"
        for n, each in enumerate(compared)
        if row[f"differs_{n}"]
    ]
    return f"{key}: {', '.join(changed)}"
