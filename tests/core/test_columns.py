"""Columns that options name: every type is taken where its values can be used so, and refused by name elsewhere."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core import columns
from dedp_assets.patterns.core.columns import require_columns
from dedp_assets.patterns.core.errors import ConfigError

pytestmark = pytest.mark.spark

WHOLE = ["INT", "BIGINT", "TINYINT", "VOID"]
SCALARS = [*WHOLE, "DECIMAL(3,1)", "DOUBLE", "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY"]
NESTED = ["STRUCT<a: INT, b: STRING>", "ARRAY<STRING>", "ARRAY<STRUCT<a: BINARY>>"]
COLLATED = ["STRING COLLATE UTF8_LCASE", "ARRAY<STRING COLLATE UNICODE>"]
INCOMPARABLE = ["MAP<STRING, INT>", "VARIANT", "STRUCT<a: MAP<INT, INT>>", "ARRAY<VARIANT>"]
ALL = [*SCALARS, *NESTED, *COLLATED, *INCOMPARABLE]
NAMED = {*SCALARS, "STRING COLLATE UTF8_LCASE"} - {"TIMESTAMP", "BINARY"}
TEXTS = {"STRING", "STRING COLLATE UTF8_LCASE", "VOID"}
ALLOWED = {
    "COMPARED": {*SCALARS, *NESTED, *COLLATED},
    "IDENTICAL": {*SCALARS, *NESTED},
    "NAMED": NAMED,
    "INSTANT": {"TIMESTAMP"},
    "FLAG": {"BOOLEAN", "VOID"},
    "WHOLE_NUMBER": {*WHOLE},
    "TEXT": TEXTS,
    "RECORD": {*TEXTS, "BINARY"},
}


@pytest.mark.parametrize("use", ALLOWED)
def test_a_use_takes_the_types_that_allow_it_and_names_the_others(spark, use):
    """In whatever case the column is named; columns that are not named, and options that name none, do not matter."""
    rows = spark.createDataFrame([], ", ".join(f"`c {n}` {kind}" for n, kind in enumerate(ALL)))
    taken = set()
    for number, kind in enumerate(ALL):
        try:
            require_columns(rows, ["", None, f"C {number}"], getattr(columns, use))
            taken.add(kind)
        except ConfigError as error:
            assert str(error).startswith(f"column C {number} is ")  # noqa: PT017 - either
    assert taken == ALLOWED[use]
    with pytest.raises(ConfigError, match="the rows have no column gone"):
        require_columns(rows, ["gone"], getattr(columns, use))


def test_columns_that_spark_does_not_tell_apart_are_named(spark):
    """Where one of them is asked for; two others, of which nothing is asked, do not matter."""
    rows = spark.sql("SELECT 1 AS k, 2 AS K, 3 AS n")
    with pytest.raises(ConfigError, match=r"the rows have columns \['k', 'K'\], which Spark does not tell apart"):
        require_columns(rows, ["K"])
    require_columns(rows, ["n"])
