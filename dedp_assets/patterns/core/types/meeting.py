"""Types of two sides in a union, join, merge or state: equal, widened without loss, or refused.

Spark converts what meets by itself: a BIGINT beside a DOUBLE loses digits, a text beside a number is read as one. Here
a type gives way only to one that holds every value of it as it is: whole numbers to longer ones, to decimals with as
many digits before the point, and to floating point that counts so far; FLOAT to DOUBLE; a decimal to one with as many
digits on both sides; CHAR and VARCHAR to STRING. Texts meet under one collation, fields of structs meet by name, and
whether a value may be NULL does not count. Dates, times with and without a zone, texts and numbers never meet each
other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import fields_of
from dedp_assets.patterns.core.errors import SchemaMismatch
from dedp_assets.patterns.core.names import RESERVED, identifier, select_list
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.core.types.sql_types import nullable, spelled
from dedp_assets.patterns.core.types.widening import digits, is_widening

__all__ = [
    "OUT_OF_RANGE",
    "as_held",
    "cast",
    "common",
    "equal",
    "fits",
    "held_problems",
    "is_held",
    "met",
    "united",
    "with_types",
]

OUT_OF_RANGE = re.compile(r"out of range: ([^\n]+?)\.(\s|$)")
"""Regular expression of the error message for a decimal overflow in the SQL of :func:`cast`."""

_LONGEST = 38
Alike = Callable[[T.DataType, T.DataType], bool]
"""Predicate over two types: whether values of the first are accepted where the second stands."""


def fits(given: T.DataType, held: T.DataType, *, in_range: bool = False) -> bool:
    """Return whether type ``given`` widens to type ``held`` without loss, a decimal in range if asked."""
    if isinstance(given, T.NullType) or nullable(given) == nullable(held):
        return True
    if (inner := _inner(given, held)) is not None:
        return bool(inner) and all(fits(one, other, in_range=in_range) for _, one, other in inner)
    return is_widening(given.jsonValue(), held.jsonValue(), "lossless") or (in_range and _may_overflow(given, held))


def common(one: T.DataType, other: T.DataType) -> T.DataType | None:
    """Return the narrowest type that both types widen to without loss; ``None`` without a common type."""
    if fits(one, other):
        return other
    if fits(other, one):
        return one
    if inner := _inner(one, other):
        met = [common(mine, theirs) for _, mine, theirs in inner]
        return None if None in met else _rebuilt(other, [kind for kind in met if kind is not None])
    whole, places = map(max, digits(one), digits(other))
    if whole + places <= _LONGEST:
        return T.DecimalType(whole + places, places)
    return T.DoubleType() if fits(one, T.DoubleType()) and fits(other, T.DoubleType()) else None


def cast(value: str, given: T.DataType, to: T.DataType, *, of: str = "", depth: int = 0) -> str:
    """Return the SQL expression that casts ``value`` from type ``given`` to type ``to`` without loss.

    A decimal with more digits before the point than the other type has stops the job, see :data:`OUT_OF_RANGE`.

    Args:
        value: SQL.
        given: the type that it has.
        to: the type that it gets.
        of: what an error calls it.
        depth: of arrays and maps around it.
    """
    if nullable(given) == nullable(to):
        return value
    inner = _inner(given, to)
    if inner and isinstance(to, T.StructType):
        made = [cast(f"{value}.{identifier(n)}", one, other, of=of, depth=depth) for n, one, other in inner]
        parts = [f"{sql} AS {identifier(field.name)}" for sql, field in zip(made, to.fields, strict=True)]
        return f"if({value} IS NULL, NULL, struct({', '.join(parts)}))"
    if inner:
        each = f"{RESERVED}m{depth}"
        names = [f"{each}.key", f"{each}.value"] if len(inner) > 1 else [each]
        made = [cast(n, one, other, of=of, depth=depth + 1) for n, (_, one, other) in zip(names, inner, strict=True)]
        if len(made) > 1:
            return f"map_from_entries(transform(map_entries({value}), {each} -> struct({', '.join(made)})))"
        return f"transform({value}, {each} -> {made[0]})"
    kind = nullable(to)
    if not _may_overflow(given, to):
        return f"CAST({value} AS {kind})"
    text = quoted(f"out of range: a value of {of or value} has too many digits for {spelled(to)}.")
    held = f"try_cast({value} AS {kind})"
    return f"if({value} IS NOT NULL AND {held} IS NULL, CAST(raise_error({text}) AS {kind}), {held})"


def met(column: str, one: T.DataType, other: T.DataType, sides: tuple[str, str]) -> T.DataType:
    """Return the common type of two columns; refuse types without a common type.

    Raises:
        SchemaMismatch: if there is none; names the column, both types as they are given, and the field that differs.
    """
    if (found := common(one, other)) is None:
        differences = "; ".join(
            _apart(column, one, other, sides, lambda mine, theirs: common(mine, theirs) is not None)
        )
        raise SchemaMismatch(f"{differences}: cast one of them")
    return found


def equal(
    one: T.StructField, other: T.StructField, names: tuple[str, str], *, sides: tuple[str, str], null: bool = False
) -> str:
    """Write an SQL condition: a column equals a column of another frame, both cast to the common type.

    Args:
        one: the column of one frame.
        other: the column of the other frame.
        names: the two columns in SQL.
        sides: what a refusal calls the frames.
        null: whether NULL equals NULL.

    Raises:
        SchemaMismatch: if their types do not meet.
    """
    column = one.name if one.name.lower() == other.name.lower() else f"{one.name} (and {other.name})"
    kind = met(column, one.dataType, other.dataType, sides)
    values = [cast(name, field.dataType, kind) for name, field in zip(names, (one, other), strict=True)]
    return f" {'<=>' if null else '='} ".join(values)


def united(frames: Mapping[str, DataFrame], columns: Iterable[str]) -> dict[str, DataFrame]:
    """Cast the named columns of several frames to common types, without a change of other columns; lazy.

    Args:
        frames: what a refusal calls a frame -> the frame.
        columns: columns of all of them.

    Raises:
        ConfigError: if one of them lacks a column.
        SchemaMismatch: if the types of a column do not meet.
    """
    named = list(columns)
    (first, rows), *others = frames.items()
    kinds = {f.name: f.dataType for f in fields_of(rows, named)}
    for side, other in others:
        theirs = fields_of(other, named)
        kinds = {f.name: met(f.name, kinds[f.name], f.dataType, (first, side)) for f in theirs}
    return {side: _with_types(each, kinds) for side, each in frames.items()}


def as_held(rows: DataFrame, held: T.StructType, name: str) -> DataFrame:
    """Cast columns to the types that a table has under the same names, and leave the others; lazy.

    Raises:
        SchemaMismatch: if a value of a column may be none of the table's type; names every such column.
    """
    if problems := list(held_problems(rows, held)):
        raise SchemaMismatch(f"{name}: {'; '.join(problems)}: cast it")
    return _with_types(rows, {f.name: f.dataType for f in held.fields})


def held_problems(rows: DataFrame, held: T.StructType) -> Iterator[str]:
    """Describe each column of ``rows`` with a type that does not fit the table's column of the same name."""
    stored, in_range = {f.name.lower(): f.dataType for f in held.fields}, partial(fits, in_range=True)
    for field in rows.schema.fields:
        kind = stored.get(field.name.lower(), field.dataType)
        if not in_range(field.dataType, kind):
            yield from _apart(field.name, field.dataType, kind, ("the rows", "the table"), in_range)


def with_types(rows: DataFrame, names: Iterable[str], kinds: Mapping[str, T.DataType]) -> dict[str, str]:
    """Map column names to SQL expressions, cast to the type that ``kinds`` has for the name."""
    given = {f.name.lower(): f.dataType for f in rows.schema.fields}
    wanted = {name.lower(): kind for name, kind in kinds.items()}
    made = {}
    for name in names:
        kind, sql = given.get(name.lower()), identifier(name)
        made[name] = cast(sql, kind, wanted.get(name.lower(), kind), of=name) if kind else sql
    return made


def is_held(rows: DataFrame, kinds: Mapping[str, T.DataType]) -> bool:
    """Return whether the columns of ``rows`` have exactly the types of ``kinds``, nullability aside."""
    wanted = {name.lower(): kind for name, kind in kinds.items()}
    pairs = [(f.dataType, wanted.get(f.name.lower(), f.dataType)) for f in rows.schema.fields]
    return all(nullable(given) == nullable(kind) for given, kind in pairs)


def _with_types(rows: DataFrame, kinds: Mapping[str, T.DataType]) -> DataFrame:
    return rows if is_held(rows, kinds) else rows.selectExpr(*select_list(with_types(rows, rows.columns, kinds)))


def _may_overflow(given: T.DataType, held: T.DataType) -> bool:
    if not isinstance(given, T.DecimalType) or not isinstance(held, T.DecimalType):
        return False
    return given.scale <= held.scale and given.precision - given.scale > held.precision - held.scale


def _inner(one: T.DataType, other: T.DataType) -> list[tuple[str, T.DataType, T.DataType]] | None:
    """Pair the element, key, value and field types of two nested types, fields in the order of ``other``.

    Nothing where structs have other fields; ``None`` where the types do not nest alike.
    """
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        return [("", one.elementType, other.elementType)]
    if isinstance(one, T.MapType) and isinstance(other, T.MapType):
        return [("", one.keyType, other.keyType), ("", one.valueType, other.valueType)]
    if isinstance(one, T.StructType) and isinstance(other, T.StructType):
        mine, theirs = _fields(one), _fields(other)
        alike = mine.keys() == theirs.keys() and len(mine) == len(one.fields) == len(other.fields)
        return [(mine[n].name, mine[n].dataType, f.dataType) for n, f in theirs.items()] if alike else []
    return None


def _rebuilt(like: T.DataType, inner: Sequence[T.DataType]) -> T.DataType:
    """Return the nested type ``like`` with other element, key, value or field types."""
    if isinstance(like, T.StructType):
        return T.StructType([T.StructField(f.name, kind) for f, kind in zip(like.fields, inner, strict=True)])
    return T.MapType(inner[0], inner[1]) if isinstance(like, T.MapType) else T.ArrayType(inner[0])


def _fields(kind: T.StructType) -> dict[str, T.StructField]:
    return {f.name.lower(): f for f in kind.fields}


def _apart(path: str, one: T.DataType, other: T.DataType, sides: tuple[str, str], alike: Alike) -> Iterator[str]:
    """Describe the differences of two types, a sentence for each field."""
    if isinstance(one, T.StructType) and isinstance(other, T.StructType) and one.fields and other.fields:
        mine, theirs = _fields(one), _fields(other)
        for (side, has), lacks in zip(((sides[0], mine), (sides[1], theirs)), (theirs, mine), strict=True):
            yield from (f"{path} has a field {has[n].name} only in {side}" for n in has if n not in lacks)
        for name in (n for n in mine if n in theirs and not alike(mine[n].dataType, theirs[n].dataType)):
            yield from _apart(f"{path}.{mine[name].name}", mine[name].dataType, theirs[name].dataType, sides, alike)
        return
    yield f"{path} is {spelled(one)} in {sides[0]} and {spelled(other)} in {sides[1]}"
