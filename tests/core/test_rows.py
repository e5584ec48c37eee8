"""Rows: a fingerprint that is equal only for equal content, and names that meet nobody's."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import combinations
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from dedp_assets.patterns.core.rows import row_hash

LEAVES: dict[T.DataType, list[Any]] = {
    T.BooleanType(): [True, False],
    T.ByteType(): [0, 1, -128],
    T.ShortType(): [0, 1, -1],
    T.IntegerType(): [0, 1, 42, -(2**31)],
    T.LongType(): [0, 1, 42, 2**63 - 1],
    T.FloatType(): [0.0, -0.0, math.nan, math.inf, 1.5],
    T.DoubleType(): [0.0, -0.0, math.nan, -math.inf, 1.5, 5e-324],
    T.DecimalType(6, 2): [Decimal("0.00"), Decimal("1.00"), Decimal("-0.01")],
    T.DecimalType(38, 10): [
        Decimal("0E-10"),
        Decimal("1.0000000000"),
        Decimal("9999999999999999999999999999.9999999999"),
    ],
    T.StringType(): ["", "null", "a", "A", "a\u0301", "\u00e1", '","', "\U0001f600"],
    T.StringType("UTF8_LCASE"): ["", "a", "A", "null"],
    T.BinaryType(): [b"", b"\0", b"\xff", b"null"],
    T.DateType(): [date(1970, 1, 1), date(1969, 12, 31), date(9999, 12, 31), date(1, 1, 1)],
    T.TimestampType(): [datetime(1970, 1, 1, 0, 0, 0, n, timezone.utc) for n in (0, 1, 999, 1000)],
    T.TimestampNTZType(): [datetime(1970, 1, 1, 0, 0, 0, n) for n in (0, 1, 999)],  # noqa: DTZ001
}
"""Types and values of each that are apart by little; NULL comes to all of them."""
KEYS = [
    kind for kind in LEAVES if not isinstance(kind, (T.FloatType, T.DoubleType)) and kind != T.StringType("UTF8_LCASE")
]
NAMES = ["a", "a.b", "B`c", "value", "key", "äö", "1st", "select", "with blank", "__x", 'it\'s \\ "q"', "\U0001f600"]

leaf_types = st.sampled_from(list(LEAVES))


def structs(inner: st.SearchStrategy[T.DataType]) -> st.SearchStrategy[T.DataType]:
    """Structs of one or two fields with odd names."""
    return st.lists(st.tuples(st.sampled_from(NAMES), inner), min_size=1, max_size=2, unique_by=lambda f: f[0]).map(
        lambda fields: T.StructType([T.StructField(name, kind) for name, kind in fields])
    )


def nested(inner: st.SearchStrategy[T.DataType]) -> st.SearchStrategy[T.DataType]:
    """Arrays, structs and maps of ``inner``; the keys of a map are of plain types, or structs of them."""
    keys = st.sampled_from(KEYS)
    maps = st.builds(T.MapType, keys | structs(keys), inner)
    return st.builds(T.ArrayType, inner) | structs(inner) | maps


kinds = leaf_types | nested(leaf_types | nested(leaf_types | nested(leaf_types)))


def values(kind: T.DataType, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type, few enough to meet their like."""
    if isinstance(kind, T.StructType):
        made = st.tuples(*[values(f.dataType, nullable=nullable) for f in kind.fields])
    elif isinstance(kind, T.ArrayType):
        made = st.lists(values(kind.elementType), max_size=3)
    elif isinstance(kind, T.MapType):
        made = st.dictionaries(values(kind.keyType, nullable=False), values(kind.valueType), max_size=2)
    else:
        made = st.sampled_from(LEAVES[kind])
    return st.none() | made | made if nullable else made


def content(value: Any, kind: T.DataType) -> Any:
    """What a value is, by Python alone: equal for equal content and for nothing else."""
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return tuple(content(v, f.dataType) for v, f in zip(value, kind.fields, strict=True))
    if isinstance(kind, T.ArrayType):
        return ("array", *[content(v, kind.elementType) for v in value])
    if isinstance(kind, T.MapType):
        return frozenset((content(k, kind.keyType), content(v, kind.valueType)) for k, v in value.items())
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    return value


@st.composite
def tables(draw: st.DrawFn) -> tuple[T.StructType, list[tuple[Any, ...]]]:
    """A schema of some columns and rows of it."""
    names = draw(st.permutations(NAMES))
    columns = draw(st.lists(kinds, min_size=3, max_size=5))
    schema = T.StructType([T.StructField(name, kind) for name, kind in zip(names, columns, strict=False)])
    return schema, draw(st.lists(st.tuples(*[values(kind) for kind in columns]), min_size=12, max_size=30))


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(table=tables())
def test_equal_hash_exactly_for_equal_content(spark, table):
    """Of every two values of a column, and of every two rows, whatever their types are."""
    whole, rows = table
    fields = whole.fields
    numbered = T.StructType([T.StructField("number", T.IntegerType()), *fields])
    frame = spark.createDataFrame([(n, *row) for n, row in enumerate(rows)], numbered).coalesce(1)
    hashed = frame.selectExpr("number", *[row_hash([f]) for f in fields], row_hash(fields)).collect()
    found = [tuple(row[1:]) for row in sorted(hashed, key=lambda row: row[0])]
    told = [(*[content(v, f.dataType) for v, f in zip(row, fields, strict=True)], content(row, whole)) for row in rows]
    for one, other in combinations(range(len(rows)), 2):
        for n in range(len(fields) + 1):
            same = found[one][n] == found[other][n]
            assert same == (told[one][n] == told[other][n]), (whole.simpleString(), rows[one], rows[other])
