"""Rows: a fingerprint that is equal only for equal content, and names that meet nobody's."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import fields_of, require_columns, require_free
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import digest, row_hash, tally

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


@pytest.mark.promise("equal-hash-exactly-for-equal")
@settings(
    deadline=None,
    max_examples=settings.default.max_examples // 5,
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


DIFFERENT = [
    ("array(1, NULL)", "array(NULL, 1)"),
    ("array(array(1), array(2))", "array(array(1, 2))"),
    ("array('null', NULL)", "array(NULL, 'null')"),
    ("CAST(NULL AS STRUCT<a: INT>)", "named_struct('a', CAST(NULL AS INT))"),
    ("CAST(NULL AS ARRAY<INT>)", "CAST(array() AS ARRAY<INT>)"),
    ("map('a', 1, 'b', NULL)", "map('a', NULL, 'b', 1)"),
    ("map('a', map('x', 1))", "map('x', map('a', 1))"),
    ("array(map('a', 1), map('b', 2))", "array(map('b', 2), map('a', 1))"),
    ("-0.0D", "0.0D"),
    ("array(-0.0D)", "array(0.0D)"),
    ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"),
    ("1.5BD::VARIANT", "1.5D::VARIANT"),
    ("parse_json('{\"a\": [1, null]}')", "parse_json('{\"a\": [null, 1]}')"),
    ("parse_json('null')", "CAST(NULL AS VARIANT)"),
    ("parse_json('\"2026-01-05\"')", "DATE '2026-01-05'::VARIANT"),
    ("parse_json('-0.0e0')", "parse_json('0.0e0')"),
    ("array(parse_json('1'), NULL)", "array(NULL, parse_json('1'))"),
    ("map('a', parse_json('1'))", "map('a', parse_json('\"1\"'))"),
    ("named_struct('v', parse_json('[]'))", "named_struct('v', parse_json('{}'))"),
]
SAME = [
    ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    ("array(map('a', map('x', 1, 'y', 2)))", "array(map('a', map('y', 2, 'x', 1)))"),
    ("double('NaN')", "sqrt(-1D)"),
    ("1.50", "CAST(1.5 AS DECIMAL(3,2))"),
    ('parse_json(\'{"b": 1, "a": [true]}\')', 'parse_json(\' {"a":[true],"b":1} \')'),
    ("map('a', parse_json('1'), 'b', NULL)", "map('b', NULL, 'a', parse_json('1'))"),
]


@pytest.mark.both
def test_what_looks_alike_and_is_not_has_another_hash(spark):
    """Places of NULLs, borders of arrays, signs of zeros and letters; the order of a map's entries is no content."""
    pairs = [*DIFFERENT, *SAME]
    sides = [", ".join(f"{pair[side]} AS `{n}`" for n, pair in enumerate(pairs)) for side in (0, 1)]
    rows = [spark.sql(f"SELECT {side}") for side in sides]
    hashed = [one.select(*[F.expr(row_hash([f])) for f in one.schema.fields]).first() for one in rows]
    equal = [pair for pair, left, right in zip(pairs, *hashed, strict=True) if left == right]
    assert equal == SAME


def test_plain_columns_cost_one_call_of_the_hash_function():
    """Whatever their names are, and in whatever order they are named."""
    fields = [T.StructField("b`c.d", T.StringType()), T.StructField("a", T.LongType())]
    assert row_hash(fields) == row_hash(fields[::-1]) == "xxhash64(`a`, `a` IS NULL, `b``c.d`, `b``c.d` IS NULL)"


INTERVAL = T.CalendarIntervalType()


@pytest.mark.parametrize("kind", [INTERVAL, T.ArrayType(INTERVAL), T.StructType([T.StructField("v", INTERVAL)])])
def test_a_type_without_an_exact_hash_is_refused_by_name(kind):
    """A month and 30 days are neither equal nor different."""
    with pytest.raises(ConfigError, match=r"column seen.* holds INTERVAL, of which"):
        row_hash([T.StructField("seen", kind)])


def test_a_digest_is_of_how_often_each_row_is_there_and_of_no_order(spark):
    """Two equal rows are not one, nor two others; an alias of the rows like a column's name changes nothing."""

    def of(*values):
        rows = spark.createDataFrame([((v, v),) for v in values], "x STRUCT<x: INT, y: INT>").alias("x")
        return rows.selectExpr(digest(row_hash(rows.schema))).first()[0]

    assert of(1, 2, 3) == of(3, 1, 2)
    assert len({of(1), of(1, 1), of(2, 2), of(1, 2), of(1, 1, 1)}) == 5


def test_columns_are_found_as_spark_finds_them(spark):
    """In any case, by the name the caller gives; what is not there is refused with what is."""
    rows = spark.sql("SELECT 1 AS `Page.Url`, 2 AS b")
    assert [f.name for f in fields_of(rows, ["page.url", "B"])] == ["page.url", "B"]
    assert rows.select(F.expr(row_hash(fields_of(rows, ["page.url"])))).count() == 1
    with pytest.raises(ConfigError, match=r"no column page; they have Page.Url, b"):
        require_columns(rows, ["page"])


@pytest.mark.promise("a-name-that-would-be")
def test_a_name_that_would_be_overwritten_is_refused(spark):
    """One that a step adds, and every one of the library's own, in any case."""
    rows = spark.sql("SELECT 1 AS Reason, 2 AS __DEDP_x")
    with pytest.raises(ConfigError, match="column Reason, which this step adds"):
        require_free(rows, "reason")
    with pytest.raises(ConfigError, match="column __DEDP_x: names like that are the library's"):
        require_free(rows)


@pytest.mark.parametrize("name", ["read", "__dedp_figure"])
def test_a_tally_measures_nothing_under_a_name_that_is_taken(spark, name):
    """What it counts by itself stays what it counted."""
    with pytest.raises(ConfigError, match=f"cannot measure {name}"):
        tally(spark.range(1), identity=["id"], measures={name: "count(1) + 1"})


def test_a_tally_measures_a_column_that_only_dropped_rows_show(spark):
    """Whatever it is called: what a measure names, in any case and quoted, is still there to be observed."""
    rows = spark.range(3).selectExpr("id", "id * 10 AS `a``b.C`", f"if(id = 0, 'valid', 'dead') AS {OUTCOME}")
    split = Split(rows, {"valid": ("id",), "dead": ("id", "a`b.C")})
    kept, seen = tally(split, identity=["id"], measures={"most": "max(`A``B.c`)"})
    assert [tuple(row) for row in kept.collect()] == [(0,)]
    assert seen.figures()["most"] == 20
